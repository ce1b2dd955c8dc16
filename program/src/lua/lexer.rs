//! The words of a program's text.

use super::number::parse;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Name(Vec<u8>),
    Number(i64),
    Text(Vec<u8>),
    /// A keyword or sign.
    Sign(&'static str),
    End,
}

const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Longer ones first.
const SIGNS: [&str; 28] = [
    "...", "..", "==", "~=", "<=", ">=", "::", "+", "-", "*", "/", "%", "^", "#", "<", ">", "=",
    "(", ")", "{", "}", "[", "]", ";", ":", ",", ".", "~",
];

/// What is wrong with a text: a message, and what it is near, as it stands there.
pub(crate) struct BadText {
    pub message: &'static str,
    pub near: Option<Vec<u8>>,
}

impl BadText {
    fn near(message: &'static str, near: &[u8]) -> Self {
        let near = Some(near.to_vec());
        Self { message, near }
    }
}

/// Reads a text word by word.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the last word begins.
    begin: usize,
    pub line: u32,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            begin: 0,
            line: 1,
        }
    }

    /// The last word as it stands in the text.
    pub fn last(&self) -> &'a [u8] {
        &self.text[self.begin..self.at]
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    pub fn next(&mut self) -> Result<Token, BadText> {
        self.skip_blanks()?;
        self.begin = self.at;
        let Some(byte) = self.peek() else {
            return Ok(Token::End);
        };
        match byte {
            b'"' | b'\'' => return self.quoted(byte).map(Token::Text),
            b'[' => {
                if let Some(level) = self.long_level() {
                    let text = self.long(level, "unfinished long string")?;
                    return Ok(Token::Text(text));
                }
            }
            b'0'..=b'9' => return self.number(),
            b'.' if self.rest().get(1).is_some_and(u8::is_ascii_digit) => return self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => return Ok(self.name()),
            _ => {}
        }
        let found = SIGNS
            .iter()
            .find(|sign| self.rest().starts_with(sign.as_bytes()));
        match found {
            Some(sign) => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
            None => {
                self.at += 1;
                Err(BadText::near("unexpected symbol", self.last()))
            }
        }
    }

    fn name(&mut self) -> Token {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        while self.peek().is_some_and(|byte| is_part(&byte)) {
            self.at += 1;
        }
        let word = self.last();
        let keyword = KEYWORDS.iter().find(|keyword| keyword.as_bytes() == word);
        match keyword {
            Some(keyword) => Token::Sign(keyword),
            None => Token::Name(word.to_vec()),
        }
    }

    /// Whatever looks like a number, so that `1.5` and `1..2` are none.
    fn number(&mut self) -> Result<Token, BadText> {
        while let Some(byte) = self.peek() {
            let is_part = byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_';
            if !is_part {
                break;
            }
            self.at += 1;
        }
        match parse(self.last()) {
            Some(number) => Ok(Token::Number(number)),
            None => Err(BadText::near("malformed number", self.last())),
        }
    }

    fn skip_blanks(&mut self) -> Result<(), BadText> {
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'-' if self.rest().starts_with(b"--") => {
                    self.begin = self.at;
                    self.at += 2;
                    match self.long_level() {
                        Some(level) => {
                            self.long(level, "unfinished long comment")?;
                        }
                        None => {
                            let end = self.rest().iter().position(|byte| *byte == b'\n');
                            self.at = end.map_or(self.text.len(), |end| self.at + end);
                        }
                    }
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// How many `=` are between the brackets that begin a long text here.
    fn long_level(&self) -> Option<usize> {
        let rest = self.rest().strip_prefix(b"[")?;
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        (rest.get(level) == Some(&b'[')).then_some(level)
    }

    fn long(&mut self, level: usize, unfinished: &'static str) -> Result<Vec<u8>, BadText> {
        self.at += level + 2;
        match self.rest() {
            [b'\r', b'\n', ..] => self.at += 2,
            [b'\r' | b'\n', ..] => self.at += 1,
            _ => {}
        }
        if self.text[..self.at].ends_with(b"\n") {
            self.line += 1;
        }
        let mut end = vec![b']'];
        end.resize(level + 1, b'=');
        end.push(b']');
        let mut from = self.at;
        let found = loop {
            let left = &self.text[from..];
            let Some(bracket) = left.iter().position(|byte| *byte == b']') else {
                self.at = self.text.len();
                let (message, near) = (unfinished, Some(b"<eof>".to_vec()));
                return Err(BadText { message, near });
            };
            if left[bracket..].starts_with(&end) {
                break from + bracket;
            }
            from += bracket + 1;
        };
        let text = self.text[self.at..found].to_vec();
        self.line += text.iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at = found + end.len();
        Ok(text)
    }

    fn quoted(&mut self, quote: u8) -> Result<Vec<u8>, BadText> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let Some(byte) = self.peek() else {
                let (message, near) = ("unfinished string", Some(b"<eof>".to_vec()));
                return Err(BadText { message, near });
            };
            self.at += 1;
            match byte {
                b'\n' | b'\r' => {
                    self.at -= 1;
                    return Err(BadText::near("unfinished string", self.last()));
                }
                b'\\' => self.escape(&mut text)?,
                byte if byte == quote => return Ok(text),
                byte => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), BadText> {
        let Some(byte) = self.peek() else {
            return Ok(());
        };
        self.at += 1;
        text.push(match byte {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'\n' => {
                self.line += 1;
                b'\n'
            }
            b'\\' | b'"' | b'\'' => byte,
            b'x' => self.hexadecimal()?,
            b'z' => {
                while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
                    self.line += u32::from(self.peek() == Some(b'\n'));
                    self.at += 1;
                }
                return Ok(());
            }
            b'0'..=b'9' => self.decimal(byte)?,
            _ => return Err(BadText::near("invalid escape sequence", self.last())),
        });
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<u8, BadText> {
        let mut value = 0;
        for _ in 0..2 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            self.at = (self.at + 1).min(self.text.len());
            let Some(digit) = digit else {
                return Err(BadText::near("hexadecimal digit expected", self.last()));
            };
            value = value * 16 + digit;
        }
        Ok(value as u8)
    }

    fn decimal(&mut self, first: u8) -> Result<u8, BadText> {
        let mut value = u32::from(first - b'0');
        for _ in 0..2 {
            let Some(digit) = self.peek().filter(u8::is_ascii_digit) else {
                break;
            };
            self.at += 1;
            value = value * 10 + u32::from(digit - b'0');
        }
        let value = u8::try_from(value);
        value.map_err(|_| BadText::near("decimal escape too large", self.last()))
    }
}
