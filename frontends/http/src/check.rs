//! What is parsed here and not by `hyper`, on any bytes, for fuzzing: paths, hosts, ranges,
//! conditions, what a client accepts, queries and patterns, with what must hold of the results.

use crate::conditions::{self, Validators};
use crate::glob::Glob;
use crate::listing::Order;
use crate::negotiate;
use crate::options::ListingFormat;
use crate::ranges::{Wanted, wanted};
use crate::target::{self, Target};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Bytes of the file that the request is about.
const SIZE: u64 = 1000;
/// Ranges that a request may have.
const RANGES: usize = 8;

/// Takes each line of `bytes` for each thing that a request can have.
///
/// # Panics
/// A result breaks a promise.
pub fn check_request(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let path = lines.next().unwrap_or_default();
    if let Ok(text) = std::str::from_utf8(path) {
        check_path(text);
        drop(target::host(text));
        let _ = Order::of_query(Some(text));
        if let Ok(glob) = Glob::new(text) {
            glob.matches(bytes);
        }
    }
    let names = [
        header::RANGE,
        header::IF_RANGE,
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
        header::ACCEPT,
        header::ACCEPT_ENCODING,
    ];
    let mut headers = HeaderMap::new();
    for (name, line) in names.into_iter().cycle().zip(lines.take(64)) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            check_value(&name, &value);
            headers.append(name, value);
        }
    }
    let validators = Validators {
        tag: "tag",
        modified: 784_111_777,
        now: 784_111_900,
    };
    let _ = conditions::judge(&headers, validators);
    let _ = conditions::range_fits(&headers, validators);
    assert!(negotiate::encodings(&headers).len() <= 3);
    let listing = negotiate::listing(&headers, ListingFormat::Json);
    assert!(
        listing != ListingFormat::Off,
        "no client switches listings off"
    );
}

fn check_path(text: &str) {
    let Ok(found) = Target::parse(text) else {
        return;
    };
    for name in &found.path {
        assert!(!matches!(&name[..], b"" | b"." | b".."));
        assert!(!name.contains(&b'/') && !name.contains(&0));
    }
    let canonical = found.canonical();
    assert!(!canonical.starts_with("//"), "that names another server");
    let again = Target::parse(&canonical).expect("a canonical path is a path");
    assert!(again.is_canonical && again.path == found.path);
    assert_eq!(again.is_directory, found.is_directory);
    assert!(HeaderValue::try_from(canonical).is_ok());
}

fn check_value(name: &HeaderName, value: &HeaderValue) {
    let Ok(text) = value.to_str() else {
        return;
    };
    if *name != header::RANGE {
        drop(conditions::tags(text));
        return;
    }
    let Wanted::Ranges(ranges) = wanted(text, SIZE, RANGES) else {
        return;
    };
    assert!(!ranges.is_empty() && ranges.len() <= RANGES);
    assert!(
        ranges
            .iter()
            .all(|range| range.start < range.end && range.end <= SIZE)
    );
    let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert!(total <= SIZE, "no byte is sent twice");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_all_kinds_keep_the_promises() {
        for request in [
            &b""[..],
            b"/a//b/../%2e/c%20d\nbytes=0-5,3-9,-1\n\"tag\"\nW/\"x\", \"y\"\n*",
            b"[a-z]*\nbytes=0-,0-,0-,0-,0-,0-,0-,0-\nSun, 06 Nov 1994 08:49:37 GMT",
            b"//x/..//y\nbytes=999-,1000-\n\xff\n\n\n\ntext/html;q=0.1,*/*;q=0.5\ngzip;q=,br",
        ] {
            check_request(request);
        }
    }
}
