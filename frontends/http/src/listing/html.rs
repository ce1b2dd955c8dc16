//! The page that people see of a directory.
//!
//! It is one table without scripts, readable by a screen reader and on a telephone, in light and
//! dark. The style sheet is part of the page, so that nothing else is fetched, and an administrator
//! can replace it.

use super::heading::{Heading, Key};
use super::plain::escape;
use crate::date;
use crate::target::encode;
use crate::tree::{Entry, EntryKind};
use std::fmt::Write;

const STYLE: &str = ":root{color-scheme:light dark;--line:#8884;--link:light-dark(#0645ad,#8ab4f8)}
body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:64rem;padding:1rem}
h1{font-size:1.3rem;overflow-wrap:anywhere}
a{color:var(--link);text-decoration:none}a:hover,a:focus{text-decoration:underline}
table{border-collapse:collapse;width:100%}
th,td{border-bottom:1px solid var(--line);padding:.3rem .5rem;text-align:left;vertical-align:top}
td:first-child{overflow-wrap:anywhere}
td+td,th+th{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
@media(max-width:36rem){body{padding:.5rem}td+td,th+th{font-size:.8rem;padding:.4rem .2rem}}";

/// Appends the part before the first entry. Writing to a string cannot fail.
pub(super) fn head(heading: &Heading, count: usize, to: &mut String) {
    let mut path = "/".to_owned();
    for component in &heading.path {
        escape(component, &mut path);
        path.push('/');
    }
    let style = heading.style_sheet.as_deref().unwrap_or(STYLE);
    let _ = write!(
        to,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>Index of {path}</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <h1>Index of {path}</h1>\n"
    );
    if heading.is_cut {
        let _ = writeln!(
            to,
            "<p role=\"status\">This directory has more than {count} entries. Only {count} of them \
             are listed.</p>"
        );
    }
    to.push_str("<table>\n<thead><tr>");
    for (key, letter, title) in [
        (Key::Name, 'N', "Name"),
        (Key::Modified, 'M', "Last modified (UTC)"),
        (Key::Size, 'S', "Size"),
    ] {
        let is_key = heading.order.key == key;
        let descends = heading.order.is_descending;
        let (state, next) = match (is_key, descends) {
            (true, false) => (" aria-sort=\"ascending\"", 'D'),
            (true, true) => (" aria-sort=\"descending\"", 'A'),
            (false, _) => ("", 'A'),
        };
        let _ = write!(
            to,
            "<th scope=\"col\"{state}><a href=\"?C={letter};O={next}\">{title}</a></th>"
        );
    }
    to.push_str("</tr></thead>\n<tbody>\n");
    if !heading.path.is_empty() {
        to.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
}

/// Appends a row.
pub(super) fn entry(entry: &Entry, to: &mut String) {
    let slash = match entry.kind {
        EntryKind::Directory => "/",
        _ => "",
    };
    // The dot keeps a name with a colon from being taken for a scheme.
    to.push_str("<tr><td><a href=\"./");
    encode(&entry.name, to);
    let _ = write!(to, "{slash}\">");
    escape(&entry.name, to);
    let parts = date::Parts::of(entry.modified);
    let (year, month, day) = (parts.year(), parts.month(), parts.day());
    let clock = &parts.clock()[..5];
    let _ = write!(
        to,
        "{slash}</a></td><td>{year}-{month:02}-{day} {clock}</td>"
    );
    match entry.kind {
        EntryKind::File => {
            let (size, exact) = (human(entry.size), entry.size);
            let _ = writeln!(to, "<td title=\"{exact} bytes\">{size}</td></tr>");
        }
        _ => to.push_str("<td>-</td></tr>\n"),
    }
}

/// Appends the part behind the last entry.
pub(super) fn tail(to: &mut String) {
    to.push_str("</tbody>\n</table>\n</body>\n</html>\n");
}

/// `1.5 MiB`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = ((bytes.ilog2() / 10) as usize).min(UNITS.len());
    let unit = 1_u128 << (10 * power);
    // Rounded to tenths: 16 EiB times 10 needs 68 bits.
    let tenths = (u128::from(bytes) * 10 + unit / 2) / unit;
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_digit_behind_the_point() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(human(bytes), expected);
        }
    }
}
