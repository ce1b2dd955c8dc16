//! Standard output: raw bytes, or escaped for a terminal.
//!
//! A file's name may be any bytes, including terminal commands. A pipe or file gets the bytes
//! unchanged; a terminal gets control characters as escapes.

use super::failure::{Exit, Failure, complain};
pub use cenote_words::format::harmless::escaped;
use serde_json::{Value, json};
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

const BUFFER: usize = 64 << 10;

/// Buffered standard output.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    /// How the command ends.
    exit: Exit,
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        let out = std::io::stdout().lock();
        let is_terminal = out.is_terminal();
        Self {
            out: BufWriter::with_capacity(BUFFER, out),
            is_terminal,
            exit: Exit::Good,
        }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(Failure::Output)
    }

    /// Writes text that needs no escaping.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes a line of text that needs no escaping.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.bytes(b"\n")
    }

    /// Writes a name or path.
    pub fn name(&mut self, name: &[u8]) -> Result<(), Failure> {
        match self.is_terminal {
            true => self.text(&escaped(name)),
            false => self.bytes(name),
        }
    }

    /// Writes a JSON value and a line end.
    pub fn json(&mut self, value: &Value) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, value).map_err(|e| Failure::Output(e.into()))?;
        self.bytes(b"\n")
    }

    /// Writes a JSON value over several lines.
    pub fn json_pretty(&mut self, value: &Value) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.out, value)
            .map_err(|e| Failure::Output(e.into()))?;
        self.bytes(b"\n")
    }

    /// Flushes buffered output.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::Output)
    }

    /// Reports a problem and continues.
    pub fn complain(&mut self, message: &str) {
        // Earlier output must come first. If flushing fails, `finish` reports it.
        let _ = self.flush();
        complain(message);
        self.exit = Exit::Problems;
    }

    /// Continues after a failure, unless standard output cannot be written any more.
    pub fn survive(&mut self, ended: Result<(), Failure>) -> Result<(), Failure> {
        match ended {
            Ok(()) | Err(Failure::Output(_)) => ended,
            Err(failure) => {
                self.flush()?;
                failure.report();
                self.exit = Exit::Problems;
                Ok(())
            }
        }
    }

    /// Flushes buffered output; returns how the command ends.
    pub fn finish(mut self) -> Result<Exit, Failure> {
        self.flush()?;
        Ok(self.exit)
    }
}

/// Bytes as a JSON string, or as `{"b64": …}` when they are not UTF-8.
pub fn json_bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({"b64": base64(bytes)}),
    }
}

/// Bytes as a key of a JSON object: text, or the text of `{"b64":"…"}` when they are not UTF-8.
pub fn json_key(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json_bytes(bytes).to_string(),
    }
}

/// Base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes(group);
        for index in 0..4 {
            let digit = group >> (18 - 6 * index) & 63;
            match index <= chunk.len() {
                true => text.push(char::from(DIGITS[digit as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_the_standard() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foob", "Zm9vYg=="),
        ];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn names_stay_recognizable_and_harmless() {
        assert_eq!(escaped("a b ü".as_bytes()), "a b ü");
        assert_eq!(escaped(b"\x1b[2J\n\\\xff"), "\\x1b[2J\\n\\\\\\xff");
        assert_eq!(json_bytes(b"\xff"), json!({"b64": "/w=="}));
        assert_eq!(json_key(b"\xff"), r#"{"b64":"/w=="}"#);
        assert_eq!(hex(&[0, 0xfe]), "00fe");
    }
}
