//! Conditional requests (RFC 9110, 13): whether a client's copy is still good.
//!
//! A file has a strong entity tag and a time in whole seconds. The order of the RFC decides:
//! `If-Match` or else `If-Unmodified-Since`, then `If-None-Match` or else `If-Modified-Since`, and
//! `If-Range` says whether a range still fits what the client has.

use crate::date;
use http::header::{self, HeaderMap, HeaderName};

/// What a file is at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// The strong entity tag, without its quotes.
    pub tag: &'a str,
    /// When it last changed, in seconds since 1970.
    pub modified: u64,
    /// Now, in the same.
    pub now: u64,
}

/// What a request's conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// There are none, or they hold.
    Proceed,
    /// 304: the client has it already.
    NotModified,
    /// 412.
    Failed,
}

/// Judges the conditions of `GET` and `HEAD`, apart from `If-Range`.
pub(crate) fn judge(headers: &HeaderMap, now: Validators<'_>) -> Decision {
    if headers.contains_key(header::IF_MATCH) {
        if !any_tag(headers, &header::IF_MATCH, now.tag, false) {
            return Decision::Failed;
        }
    } else if let Some(date) = date_of(headers, &header::IF_UNMODIFIED_SINCE)
        && now.modified > date
    {
        return Decision::Failed;
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        if any_tag(headers, &header::IF_NONE_MATCH, now.tag, true) {
            return Decision::NotModified;
        }
    } else if let Some(date) = date_of(headers, &header::IF_MODIFIED_SINCE)
        && now.modified <= date
    {
        return Decision::NotModified;
    }
    Decision::Proceed
}

/// Whether a range may be sent: there is no `If-Range`, or it names exactly what the file is.
pub(crate) fn range_fits(headers: &HeaderMap, now: Validators<'_>) -> bool {
    let mut values = headers.get_all(header::IF_RANGE).iter();
    let Some(value) = values.next() else {
        return true;
    };
    let (Ok(text), None) = (value.to_str(), values.next()) else {
        return false;
    };
    let text = text.trim();
    if text.starts_with('"') || text.starts_with("W/") {
        return tags(text).is_some_and(|tags| tags == [(now.tag, false)]);
    }
    // Within its second a file may change again: then the date does not name it exactly
    // (RFC 9110, 8.8.2.2).
    date::parse(text) == Some(now.modified) && now.modified < now.now
}

/// A date, if there is exactly one valid one; otherwise the header is ignored, as the RFC requires.
fn date_of(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        None => date::parse(value.to_str().ok()?.trim()),
        Some(_) => None,
    }
}

/// Whether one of the tags in a list is `tag`, or the list is `*`.
fn any_tag(headers: &HeaderMap, name: &HeaderName, tag: &str, takes_weak: bool) -> bool {
    headers.get_all(name).iter().any(|value| {
        let Ok(text) = value.to_str() else {
            return false;
        };
        let text = text.trim();
        let is_it = |(found, is_weak): &(&str, bool)| *found == tag && (takes_weak || !*is_weak);
        text == "*" || tags(text).is_some_and(|tags| tags.iter().any(is_it))
    })
}

/// The tags of a list, and whether each is weak; `None` if it is no list of tags.
pub(crate) fn tags(list: &str) -> Option<Vec<(&str, bool)>> {
    let mut tags = Vec::new();
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return Some(tags);
        }
        let strong = rest.strip_prefix("W/");
        let quoted = strong.unwrap_or(rest).strip_prefix('"')?;
        let (tag, after) = quoted.split_once('"')?;
        tags.push((tag, strong.is_some()));
        rest = after.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const NOW: Validators<'static> = Validators {
        tag: "a,b",
        modified: 784_111_777,
        now: 784_111_900,
    };

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    fn decide(lines: &[(&'static str, &'static str)]) -> Decision {
        judge(&headers(lines), NOW)
    }

    #[test]
    fn each_condition_alone() {
        use Decision::{Failed, NotModified, Proceed};
        for (name, value, expected) in [
            ("if-match", "\"a,b\"", Proceed),
            ("if-match", "*", Proceed),
            ("if-match", "W/\"a,b\"", Failed),
            ("if-match", "\"x\", \"y\"", Failed),
            ("if-match", "a,b", Failed),
            ("if-none-match", "\"a,b\"", NotModified),
            ("if-none-match", "W/\"a,b\"", NotModified),
            ("if-none-match", "\"x\",,\"a,b\"", NotModified),
            ("if-none-match", "*", NotModified),
            ("if-none-match", "\"x\"", Proceed),
            ("if-none-match", "\"a", Proceed),
            ("if-modified-since", DATE, NotModified),
            ("if-modified-since", BEFORE, Proceed),
            ("if-modified-since", "no date", Proceed),
            ("if-unmodified-since", DATE, Proceed),
            ("if-unmodified-since", BEFORE, Failed),
            ("if-unmodified-since", "no date", Proceed),
        ] {
            assert_eq!(decide(&[(name, value)]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn tags_come_before_dates() {
        use Decision::{Failed, NotModified, Proceed};
        let (good, bad) = ("\"a,b\"", "\"x\"");
        let decide = |lines: &[(&'static str, &'static str)]| decide(lines);
        assert_eq!(
            decide(&[("if-match", good), ("if-unmodified-since", BEFORE)]),
            Proceed
        );
        assert_eq!(
            decide(&[("if-none-match", bad), ("if-modified-since", DATE)]),
            Proceed
        );
        assert_eq!(
            decide(&[("if-none-match", good), ("if-match", bad)]),
            Failed
        );
        assert_eq!(
            decide(&[("if-none-match", bad), ("if-none-match", good)]),
            NotModified,
            "two lines are one list"
        );
    }

    #[test]
    fn a_range_needs_exactly_what_the_file_is() {
        let fits = |lines: &[(&'static str, &'static str)]| range_fits(&headers(lines), NOW);
        assert!(fits(&[]));
        assert!(fits(&[("if-range", "\"a,b\"")]));
        assert!(fits(&[("if-range", DATE)]));
        for value in [
            "W/\"a,b\"",
            "\"x\"",
            BEFORE,
            "no date",
            "",
            "\"a,b\", \"x\"",
        ] {
            assert!(!fits(&[("if-range", value)]), "{value}");
        }
        let fresh = Validators {
            now: NOW.modified,
            ..NOW
        };
        assert!(!range_fits(&headers(&[("if-range", DATE)]), fresh));
    }
}
