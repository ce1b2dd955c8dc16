//! The common parts of all pages: the frame, state labels, tables, links.

use cenote_advisor::{Finding, Severity};
use maud::{DOCTYPE, Markup, html};

use super::super::top::table::Tone;
use super::access::Visitor;
use cenote_words::format::date::{Form, date};

/// The pages in the navigation: their paths, names, and whether only owners may see them.
const PLACES: [(&str, &str, bool); 4] = [
    ("/", "Overview", false),
    ("/caches", "Caches", false),
    ("/clients", "Clients", false),
    ("/alarms", "Alarms", true),
];

/// A whole page.
pub fn page(title: &str, path: &str, visitor: &Visitor, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - Cenote" }
                link rel="stylesheet" href="/style.css";
                link rel="icon" href="data:,";
                noscript { meta http-equiv="refresh" content="30"; }
                script src="/refresh.js" defer {}
            }
            body {
                a.skip href="#contents" { "Skip to the contents" }
                header {
                    p { "Cenote" }
                    nav aria-label="Pages" {
                        ul {
                            @for (place, name, is_private) in PLACES {
                                @if visitor.is_owner || !is_private {
                                    li {
                                        @if place == path {
                                            a href=(place) aria-current="page" { (name) }
                                        } @else {
                                            a href=(place) { (name) }
                                        }
                                    }
                                }
                            }
                            @if visitor.can_log_in && visitor.form.is_none() {
                                li { a href="/login" { "Log in" } }
                            }
                        }
                    }
                    p.bad id="status" role="status" {}
                }
                main id="contents" tabindex="-1" {
                    h1 { (title) }
                    (body)
                }
                footer {
                    p {
                        "Cenote " (env!("CARGO_PKG_VERSION")) " · figures of the last 10 seconds · "
                        a href="/metrics" { "metrics" } " for Prometheus"
                    }
                    @if let Some(form) = &visitor.form {
                        form method="post" action="/logout" {
                            input type="hidden" name="form" value=(form);
                            button type="submit" { "Log out" }
                        }
                    }
                }
            }
        }
    }
}

/// The CSS class of a tone.
pub fn class_of(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

/// A word for a state.
pub fn state(word: &str, tone: Tone) -> Markup {
    html! { span.state.(class_of(tone)) { (word) } }
}

/// The findings about a pool, the worst first.
pub fn findings(found: &[Finding]) -> Markup {
    let class = |severity: Severity| match severity {
        Severity::Note => "good",
        Severity::Attention => "warning",
        Severity::Danger => "bad",
    };
    html! {
        @if found.is_empty() {
            p.good { "Nothing is wrong." }
        } @else {
            ul.findings {
                @for finding in found {
                    li.(class(finding.severity)) {
                        strong { (finding.severity.label()) } " "
                        span {
                            @if !finding.device.is_empty() { (finding.device) ": " }
                            (finding.what)
                            @if !finding.advice.is_empty() { ". " em { (finding.advice) } }
                        }
                    }
                }
            }
        }
    }
}

/// A column of a table: its header, and whether it has numbers.
pub type Head = (&'static str, bool);

/// A table that scrolls within itself on a small screen.
pub fn table(caption: &str, heads: &[Head], rows: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (head, is_number) in heads {
                            @if *is_number {
                                th.number scope="col" { (head) }
                            } @else {
                                th scope="col" { (head) }
                            }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

/// A cell with a number.
pub fn number(text: &str) -> Markup {
    html! { td.number { (text) } }
}

/// The time zone of the daemon.
pub fn zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::try_system().unwrap_or(jiff::tz::TimeZone::UTC)
}

/// A moment, in the time zone of the daemon.
pub fn moment(seconds: u64) -> String {
    date(seconds, Form::Ctime, &zone())
}

/// Percent-encodes a text for a path or query: everything but letters, digits and `-_.~`.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Decodes percent-encoding, in forms also `+` for a space; `None` if the result is not UTF-8.
pub fn decoded(text: &str, is_form: bool) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                bytes.push(u8::try_from(high << 4 | low).ok()?);
            }
            b'+' if is_form => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// A field of a form or query.
pub fn field(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    decoded(value, true)
}

/// The path of a pool's page.
pub fn pool_path(pool: &str) -> String {
    format!("/pool/{}", encoded(pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_paths_and_forms() {
        for text in ["tank", "a b/c%d", "é&=+?#", "<script>"] {
            let coded = encoded(text);
            assert_eq!(decoded(&coded, false).as_deref(), Some(text));
            assert!(!coded.contains(['<', '/', '&', '"']), "{coded}");
        }
        assert_eq!(decoded("a+b", true).as_deref(), Some("a b"));
        assert_eq!(decoded("%", false), None);
        assert_eq!(decoded("%+1", false), None);
        assert_eq!(decoded("%ff", false), None);
        assert_eq!(field("a=1&b=x%20y", "b").as_deref(), Some("x y"));
        assert_eq!(field("a=1", "b"), None);
    }

    #[test]
    fn names_are_escaped() {
        let body = html! { (state("<b>", Tone::Bad)) };
        let page = page("<tank>", "/", &Visitor::default(), body).into_string();
        assert!(
            page.contains("&lt;tank&gt;") && !page.contains("<b>"),
            "{page}"
        );
        assert!(
            !page.contains("/alarms"),
            "what is private is not linked to"
        );
    }

    /// Contrast: text needs 4.5 to 1, lines and areas 3 to 1 (WCAG 2.2, AA).
    #[test]
    fn contrast_is_enough_in_light_and_dark() {
        let css = include_str!("style.css");
        let (light, dark) = css
            .split_once("prefers-color-scheme: dark")
            .expect("two sets");
        let dark = dark.split("* { box-sizing").next().expect("the dark set");
        for set in [light, dark] {
            let colour = |name: &str| {
                let (_, rest) = set.split_once(&format!("--{name}: #")).expect(name);
                u32::from_str_radix(&rest[..6], 16).expect(name)
            };
            let texts = ["text", "faint", "link", "good", "warning", "bad"];
            let lines = ["line", "first", "second", "third"];
            for back in ["page", "panel"] {
                for (names, least) in [(&texts[..], 4.5), (&lines, 3.0)] {
                    for name in names {
                        let found = contrast(colour(name), colour(back));
                        assert!(found >= least, "{name} on {back}: {found:.2}");
                    }
                }
            }
            let found = contrast(colour("button-text"), colour("button"));
            assert!(found >= 4.5, "button: {found:.2}");
        }
        let named = css.split("* { box-sizing").nth(1).expect("rules");
        assert!(
            !named.contains('#'),
            "a colour that is not named is not checked"
        );
    }

    /// The contrast ratio of two colours.
    fn contrast(one: u32, other: u32) -> f64 {
        let part = |colour: u32, shift: u32| {
            let value = f64::from((colour >> shift) & 0xff) / 255.0;
            match value <= 0.04045 {
                true => value / 12.92,
                false => ((value + 0.055) / 1.055).powf(2.4),
            }
        };
        let luminance = |colour: u32| {
            0.2126 * part(colour, 16) + 0.7152 * part(colour, 8) + 0.0722 * part(colour, 0)
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }
}
