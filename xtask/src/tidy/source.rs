//! Rust source with strings and comments blanked out, so that braces can be counted.
//!
//! The scanner knows just enough of Rust's grammar: nested block comments, ordinary, raw, byte and
//! C strings, and the difference between a character and a lifetime. What it blanks becomes spaces,
//! one per byte, and line ends stay, so that every position holds in both texts.

use std::ops::Range;

/// A scanned source file.
pub(crate) struct Source {
    /// The text without the contents of strings, characters and comments.
    pub code: String,
    /// Byte offset of the start of each line.
    line_starts: Vec<usize>,
    /// Lines with a `tidy: allow(RULE, REASON)`: line from 1, rule.
    exceptions: Vec<(usize, String)>,
    /// Byte ranges of the bodies that only tests compile.
    tests: Vec<Range<usize>>,
}

/// A function: its name and lines, from 1, both inclusive.
pub(crate) struct Function {
    pub name: String,
    pub first_line: usize,
    pub last_line: usize,
}

/// How many lines above its place an exception may stand.
const EXCEPTION_REACH: usize = 3;

impl Source {
    /// Scans `text`.
    pub fn new(text: &str) -> Self {
        let (code, comments) = blank(text);
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        let mut source = Self {
            code,
            line_starts,
            exceptions: Vec::new(),
            tests: Vec::new(),
        };
        for comment in comments {
            if let Some(rule) = exception(&text[comment.clone()]) {
                source
                    .exceptions
                    .push((source.line_of(comment.start), rule));
            }
        }
        source.tests = source.find_tests();
        source
    }

    /// The line, from 1, that the byte at `offset` is in.
    pub fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// Whether an exception from `rule` covers `line`.
    pub fn is_allowed(&self, rule: &str, line: usize) -> bool {
        let reach = line.saturating_sub(EXCEPTION_REACH)..=line;
        let mut exceptions = self.exceptions.iter();
        exceptions.any(|(at, name)| reach.contains(at) && name == rule)
    }

    /// Whether only tests compile the byte at `offset`.
    pub fn is_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|body| body.contains(&offset))
    }

    /// Byte offsets of `word` in the code, where it is not part of a longer word.
    pub fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_word = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        let bytes = self.code.as_bytes();
        self.code
            .match_indices(word)
            .map(|(at, _)| at)
            .filter(move |at| {
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                !is_word(before) && !is_word(bytes.get(at + word.len()))
            })
    }

    /// Every function with a body.
    pub fn functions(&self) -> Vec<Function> {
        self.words("fn")
            .filter_map(|at| self.function(at))
            .collect()
    }

    /// The function whose `fn` is at `at`; `None` for pointers to functions and declarations.
    fn function(&self, at: usize) -> Option<Function> {
        let after = self.code[at + 2..].trim_start();
        let name: String = after
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if name.is_empty() {
            return None;
        }
        let body = self.body_after(at)?;
        Some(Function {
            name,
            first_line: self.line_of(at),
            last_line: self.line_of(body.end - 1),
        })
    }

    /// The braces that open after `at`, before any semicolon outside parentheses and brackets.
    fn body_after(&self, at: usize) -> Option<Range<usize>> {
        let bytes = self.code.as_bytes();
        let mut nesting = 0_usize;
        for (index, byte) in bytes.iter().enumerate().skip(at) {
            match byte {
                b'(' | b'[' => nesting += 1,
                b')' | b']' => nesting = nesting.saturating_sub(1),
                b';' if nesting == 0 => return None,
                b'{' if nesting == 0 => return Some(index..self.closing_brace(index)? + 1),
                _ => {}
            }
        }
        None
    }

    /// Where the brace that opens at `open` closes.
    fn closing_brace(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (index, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The bodies behind `#[cfg(test)]` and `#[test]`.
    fn find_tests(&self) -> Vec<Range<usize>> {
        let mut bodies = Vec::new();
        for attribute in ["#[cfg(test)]", "#[test]", "#[cfg(all(test"] {
            for (at, _) in self.code.match_indices(attribute) {
                bodies.extend(self.body_after(at + attribute.len()));
            }
        }
        bodies
    }
}

/// The rule in a comment `tidy: allow(RULE, REASON)` that gives a reason.
fn exception(comment: &str) -> Option<String> {
    let (_, rest) = comment.split_once("tidy: allow(")?;
    let (inside, _) = rest.rsplit_once(')')?;
    let (rule, reason) = inside.split_once(',')?;
    (!reason.trim().is_empty()).then(|| rule.trim().to_string())
}

/// What the scanner found at a position.
enum Token {
    /// This many bytes of code.
    Code(usize),
    /// This many bytes of a string or character.
    Literal(usize),
    /// This many bytes of a comment.
    Comment(usize),
}

/// `text` with literals and comments blanked, and where the comments are.
fn blank(text: &str) -> (String, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut comments = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = match token(bytes, at) {
            Token::Code(length) => {
                let end = (at + length).min(bytes.len());
                code.extend_from_slice(&bytes[at..end]);
                at = end;
                continue;
            }
            Token::Literal(length) => length,
            Token::Comment(length) => {
                comments.push(at..(at + length).min(bytes.len()));
                length
            }
        };
        let end = (at + length.max(1)).min(bytes.len());
        let blanks = bytes[at..end].iter().map(|byte| match byte {
            b'\n' => b'\n',
            _ => b' ',
        });
        code.extend(blanks);
        at = end;
    }
    let code = String::from_utf8(code).expect("only whole literals and comments became spaces");
    (code, comments)
}

/// What begins at `at`.
fn token(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => Token::Comment(length_until(rest, b"\n")),
        [b'/', b'*', ..] => Token::Comment(block_comment_length(rest)),
        [b'"', ..] => Token::Literal(quoted_length(rest)),
        [b'b' | b'c', b'"', ..] if !after_word => Token::Literal(1 + quoted_length(&rest[1..])),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !after_word => raw_string(rest, 2),
        [b'r', b'"' | b'#', ..] if !after_word => raw_string(rest, 1),
        [b'\'', ..] => character(rest),
        _ => Token::Code(1),
    }
}

fn length_until(bytes: &[u8], end: &[u8]) -> usize {
    let found = bytes.windows(end.len()).position(|window| window == end);
    found.unwrap_or(bytes.len())
}

fn block_comment_length(bytes: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// Bytes of the string that begins with a quotation mark.
fn quoted_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A raw string after a prefix of `prefix` bytes, unless it is a raw identifier.
fn raw_string(bytes: &[u8], prefix: usize) -> Token {
    let hashes = bytes[prefix..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let open = prefix + hashes;
    if bytes.get(open) != Some(&b'"') {
        return Token::Code(open);
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let inside = length_until(&bytes[open + 1..], &end);
    Token::Literal(open + 1 + inside + end.len())
}

/// A character literal, or the apostrophe of a lifetime.
fn character(bytes: &[u8]) -> Token {
    match bytes {
        [_, b'\\', _, ..] => Token::Literal(3 + length_until(&bytes[3..], b"'") + 1),
        [_, first, ..] => {
            let length = match first {
                0..0x80 => 1,
                0xC0..0xE0 => 2,
                0xE0..0xF0 => 3,
                _ => 4,
            };
            match bytes.get(1 + length) {
                Some(b'\'') => Token::Literal(length + 2),
                _ => Token::Code(1),
            }
        }
        _ => Token::Code(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blank() {
        let text =
            "a(\"{\\\"\", '{', '\\'', r#\"\"{\"#, b\"{\"); // {\n/* { /* } */ { */ 'x: loop {}";
        let source = Source::new(text);
        assert_eq!(source.code.matches('{').count(), 1);
        assert_eq!(source.code.len(), text.len());
        assert!(source.code.contains("'x: loop {}"));
    }

    #[test]
    fn functions_have_their_lines() {
        let text = "trait T { fn declared(&self) -> [u8; 4]; }\nfn one() {}\n\
                    fn two(\n    f: fn(u8),\n) {\n}\n";
        let functions = Source::new(text).functions();
        let seen: Vec<_> = functions
            .iter()
            .map(|f| (f.name.as_str(), f.first_line, f.last_line))
            .collect();
        assert_eq!(seen, [("one", 2, 2), ("two", 3, 6)]);
    }

    #[test]
    fn tests_and_exceptions_are_seen() {
        let text = "// tidy: allow(x, because)\nfn a() {}\n#[cfg(test)]\n\
                    mod tests { fn b() {} }\n// tidy: allow(y,)\n";
        let source = Source::new(text);
        assert!(source.is_allowed("x", 2) && !source.is_allowed("x", 5));
        assert!(!source.is_allowed("y", 5), "an exception needs its reason");
        let b = text.find("fn b").expect("it is there");
        assert!(source.is_test(b) && !source.is_test(30));
    }
}
