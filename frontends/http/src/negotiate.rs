//! What a client accepts: encodings of content, and forms of listings (RFC 9110, 12.5).

use crate::options::ListingFormat;
use http::header::{self, HeaderMap, HeaderName};

/// The most members of a header's list that are considered.
const MEMBERS_MAX: usize = 64;

/// An encoding that a file may lie beside another one in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Brotli,
    Zstd,
    Gzip,
}

impl Encoding {
    /// All of them, the smallest first.
    const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// What HTTP calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// How the file's name ends.
    pub fn suffix(self) -> &'static [u8] {
        match self {
            Self::Brotli => b".br",
            Self::Zstd => b".zst",
            Self::Gzip => b".gz",
        }
    }
}

/// Encodings that the client likes at least as much as none, the best first.
pub(crate) fn encodings(headers: &HeaderMap) -> Vec<Encoding> {
    let members = members(headers, &header::ACCEPT_ENCODING);
    let quality = |name: &str| {
        let named = |wanted: &str| {
            let mut found = members.iter().filter(|(member, _)| {
                member.eq_ignore_ascii_case(wanted)
                    || wanted == "gzip" && member.eq_ignore_ascii_case("x-gzip")
            });
            found.next().map(|(_, quality)| *quality)
        };
        named(name).or_else(|| named("*").filter(|_| name != "identity"))
    };
    let plain = quality("identity").unwrap_or(1);
    let mut liked: Vec<(u16, Encoding)> = Encoding::ALL
        .into_iter()
        .filter_map(|encoding| Some((quality(encoding.name())?, encoding)))
        .filter(|(quality, _)| *quality > 0 && *quality >= plain)
        .collect();
    liked.sort_by_key(|(quality, _)| std::cmp::Reverse(*quality));
    liked.into_iter().map(|(_, encoding)| encoding).collect()
}

/// The form of a listing: what the client likes best, in doubt the usual one.
pub(crate) fn listing(headers: &HeaderMap, usual: ListingFormat) -> ListingFormat {
    const FORMS: [(ListingFormat, &[&str]); 3] = [
        (ListingFormat::Html, &["text/html"]),
        (ListingFormat::Xml, &["application/xml", "text/xml"]),
        (ListingFormat::Json, &["application/json"]),
    ];
    if usual == ListingFormat::Off || !headers.contains_key(header::ACCEPT) {
        return usual;
    }
    let members = members(headers, &header::ACCEPT);
    let quality = |types: &[&str]| types.iter().map(|wanted| of_type(&members, wanted)).max();
    let rank = |(format, types): &(ListingFormat, &[&str])| {
        let quality = quality(types).unwrap_or(0);
        (quality, *format == usual, *format == ListingFormat::Html)
    };
    let best = FORMS.into_iter().max_by_key(rank);
    best.map_or(usual, |(format, _)| format)
}

/// The quality of a media type: the most specific range that has it decides.
fn of_type(members: &[(&str, u16)], wanted: &str) -> u16 {
    let (kind, _) = wanted.split_once('/').unwrap_or((wanted, ""));
    let find = |is_it: &dyn Fn(&str) -> bool| {
        let found = members.iter().find(|(member, _)| is_it(member));
        found.map(|(_, quality)| *quality)
    };
    let family = |member: &str| {
        let base = member.strip_suffix("/*");
        base.is_some_and(|base| base.eq_ignore_ascii_case(kind))
    };
    find(&|member| member.eq_ignore_ascii_case(wanted))
        .or_else(|| find(&family))
        .or_else(|| find(&|member| member == "*/*"))
        .unwrap_or(0)
}

/// The members of a list with their quality in thousandths.
fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<(&'a str, u16)> {
    let values = headers.get_all(name).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let members = texts.flat_map(|text| text.split(',')).map(str::trim);
    let members = members.filter(|member| !member.is_empty());
    members.take(MEMBERS_MAX).map(member).collect()
}

fn member(text: &str) -> (&str, u16) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or("");
    let quality = parts.find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim()
            .eq_ignore_ascii_case("q")
            .then(|| thousandths(value.trim()))
    });
    (name, quality.unwrap_or(1000))
}

/// `0.5` is 500. What is no quality is 0: the client gets what needs no agreement.
fn thousandths(text: &str) -> u16 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_fine = matches!(whole, "0" | "1") && part.len() <= 3;
    if !is_fine || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    // At most three digits, filled up to three.
    let part: u16 = format!("{part:0<3}").parse().unwrap_or(0);
    match whole {
        "1" => 1000,
        _ => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a value"));
        headers
    }

    #[test]
    fn encodings_by_quality_and_then_by_size() {
        use Encoding::{Brotli, Gzip, Zstd};
        let all = &[Brotli, Zstd, Gzip][..];
        for (value, expected) in [
            ("gzip", &[Gzip][..]),
            ("x-gzip", &[Gzip]),
            ("gzip, deflate, br, zstd", all),
            ("*", all),
            ("gzip;q=1.0, br;q=0.5", &[Gzip, Brotli]),
            ("gzip;q=0, *", &[Brotli, Zstd]),
            ("GZIP ; Q=0.001", &[Gzip]),
            ("gzip;q=0.5, identity", &[]),
            ("gzip;q=0", &[]),
            ("gzip;q=2", &[]),
            ("gzip;q=a", &[]),
            ("identity", &[]),
            ("", &[]),
        ] {
            let found = encodings(&headers("accept-encoding", value));
            assert_eq!(found, expected, "{value}");
        }
        assert_eq!(encodings(&HeaderMap::new()), []);
    }

    #[test]
    fn a_listing_has_the_form_that_is_liked_best() {
        use ListingFormat::{Html, Json, Off, Xml};
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (value, usual, expected) in [
            (browser, Html, Html),
            (browser, Json, Html),
            ("*/*", Html, Html),
            ("*/*", Json, Json),
            ("application/json", Html, Json),
            ("application/json, */*;q=0.1", Xml, Json),
            ("application/*", Html, Json),
            ("text/xml", Html, Xml),
            ("image/png", Json, Json),
            ("application/json", Off, Off),
        ] {
            let found = listing(&headers("accept", value), usual);
            assert_eq!(found, expected, "{value} {usual:?}");
        }
        assert_eq!(listing(&HeaderMap::new(), Xml), Xml);
    }

    #[test]
    fn qualities_have_three_digits() {
        for (text, expected) in [
            ("1", 1000),
            ("1.000", 1000),
            ("0.5", 500),
            ("0.05", 50),
            ("0.", 0),
            ("0.1234", 0),
            ("-1", 0),
            ("", 0),
        ] {
            assert_eq!(thousandths(text), expected, "{text}");
        }
    }
}
