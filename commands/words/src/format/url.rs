//! Text in addresses.

use std::fmt::Write;

/// Text as it stands in a URI; a `/` stays where it separates.
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
