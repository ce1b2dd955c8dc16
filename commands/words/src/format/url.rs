//! Percent-encoding.

use std::fmt::Write;

/// Percent-encodes text for a URI; a `/` stays as separator.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'~'
            | b'/'
            | b'@'
            | b':' => escaped.push(char::from(byte)),
            // Writing to a string does not fail.
            byte => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}
