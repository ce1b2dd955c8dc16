//! Patterns of texts.
//!
//! A pattern can make the search try very many ways. Each step of it counts, so a search ends with
//! the program's instructions, and the depth of the search is limited.

/// Parts of a pattern that are tried within one another.
const DEPTH_MAX: u32 = 200;
/// Captures of one pattern.
pub(crate) const CAPTURES_MAX: usize = 32;

/// Why a search ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The pattern is wrong.
    Bad(&'static str),
    /// `%1` names a capture that there is not.
    BadCapture(usize),
    /// It took too many steps.
    Steps,
}

/// A part of the subject that a pattern captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    Open(usize),
    Text(usize, usize),
    Position(usize),
}

/// One search.
#[derive(Debug)]
pub(crate) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    pub captures: Vec<Capture>,
    depth: u32,
    /// Steps that are left.
    pub left: u64,
}

type Matched = Result<Option<usize>, Failure>;

impl<'a> Matcher<'a> {
    pub fn new(subject: &'a [u8], pattern: &'a [u8], steps: u64) -> Self {
        Self {
            subject,
            pattern,
            captures: Vec::new(),
            depth: 0,
            left: steps,
        }
    }

    fn step(&mut self) -> Result<(), Failure> {
        self.left = self.left.checked_sub(1).ok_or(Failure::Steps)?;
        Ok(())
    }

    /// Where the match that begins at a place ends.
    pub fn match_at(&mut self, at: usize, pattern: usize) -> Matched {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Failure::Bad("pattern too complex"));
        }
        let matched = self.match_rest(at, pattern);
        self.depth -= 1;
        matched
    }

    fn match_rest(&mut self, mut at: usize, mut pattern: usize) -> Matched {
        loop {
            self.step()?;
            let rest = &self.pattern[pattern..];
            match rest {
                [] => return Ok(Some(at)),
                [b'(', b')', ..] => return self.open(at, pattern + 2, Capture::Position(at)),
                [b'(', ..] => return self.open(at, pattern + 1, Capture::Open(at)),
                [b')', ..] => return self.close(at, pattern + 1),
                [b'$'] => return Ok((at == self.subject.len()).then_some(at)),
                [b'%', b'b', ..] => match self.balanced(at, pattern + 2)? {
                    Some(end) => (at, pattern) = (end, pattern + 4),
                    None => return Ok(None),
                },
                [b'%', b'f', ..] => {
                    let set = pattern + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return Err(Failure::Bad("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(set)?;
                    let before = at.checked_sub(1).map_or(0, |at| self.subject[at]);
                    let here = self.subject.get(at).copied().unwrap_or(0);
                    if self.in_set(before, set, end) || !self.in_set(here, set, end) {
                        return Ok(None);
                    }
                    pattern = end;
                }
                [b'%', digit @ b'0'..=b'9', ..] => match self.back_reference(at, *digit)? {
                    Some(end) => (at, pattern) = (end, pattern + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(pattern)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.is_single(at, pattern, end)?
                                && let Some(end) = self.match_at(at + 1, end + 1)?
                            {
                                return Ok(Some(end));
                            }
                            pattern = end + 1;
                        }
                        Some(b'+') => {
                            return match self.is_single(at, pattern, end)? {
                                true => self.most(at + 1, pattern, end),
                                false => Ok(None),
                            };
                        }
                        Some(b'*') => return self.most(at, pattern, end),
                        Some(b'-') => return self.least(at, pattern, end),
                        _ => {
                            if !self.is_single(at, pattern, end)? {
                                return Ok(None);
                            }
                            (at, pattern) = (at + 1, end);
                        }
                    }
                }
            }
        }
    }

    /// As many as possible of what is at a place of the pattern.
    fn most(&mut self, at: usize, pattern: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.is_single(at + count, pattern, end)? {
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(end) = self.match_at(at + count, end + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// As few as possible.
    fn least(&mut self, mut at: usize, pattern: usize, end: usize) -> Matched {
        loop {
            if let Some(end) = self.match_at(at, end + 1)? {
                return Ok(Some(end));
            }
            if !self.is_single(at, pattern, end)? {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, at: usize, pattern: usize, capture: Capture) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Failure::Bad("too many captures"));
        }
        self.captures.push(capture);
        let count = self.captures.len();
        let matched = self.match_at(at, pattern)?;
        if matched.is_none() {
            self.captures.truncate(count - 1);
        }
        Ok(matched)
    }

    fn close(&mut self, at: usize, pattern: usize) -> Matched {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let Some(number) = self.captures.iter().rposition(is_open) else {
            return Err(Failure::Bad("invalid pattern capture"));
        };
        let Capture::Open(begin) = self.captures[number] else {
            unreachable!("it was just found open")
        };
        self.captures[number] = Capture::Text(begin, at);
        let matched = self.match_at(at, pattern)?;
        if matched.is_none() {
            self.captures[number] = Capture::Open(begin);
        }
        Ok(matched)
    }

    /// `%bxy`: up to the `y` that balances an `x`.
    fn balanced(&mut self, at: usize, pattern: usize) -> Matched {
        let [open, close, ..] = self.pattern[pattern..] else {
            return Err(Failure::Bad("missing arguments to '%b' in pattern"));
        };
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for place in at + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[place];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(place + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, at: usize, digit: u8) -> Matched {
        let number = usize::from(digit - b'0');
        let capture = number.checked_sub(1);
        let capture = capture.and_then(|capture| self.captures.get(capture).copied());
        let Some(Capture::Text(begin, end)) = capture else {
            return Err(Failure::BadCapture(number));
        };
        let subject = self.subject;
        let text = &subject[begin..end];
        self.scan(text.len())?;
        let is_there = self.subject[at..].starts_with(text);
        Ok(is_there.then_some(at + text.len()))
    }

    /// Where the class of characters that begins here ends.
    fn class_end(&mut self, pattern: usize) -> Result<usize, Failure> {
        match self.pattern[pattern] {
            b'%' if pattern + 1 >= self.pattern.len() => {
                Err(Failure::Bad("malformed pattern (ends with '%')"))
            }
            b'%' => Ok(pattern + 2),
            b'[' => {
                let mut at = pattern + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A bracket that comes first is one of the characters.
                loop {
                    let byte = self.pattern.get(at);
                    let byte = byte.ok_or(Failure::Bad("malformed pattern (missing ']')"))?;
                    at += match byte {
                        b'%' => 2,
                        _ => 1,
                    };
                    if self.pattern.get(at) == Some(&b']') {
                        self.scan(at - pattern)?;
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(pattern + 1),
        }
    }

    /// Counts a look at a set of so many characters.
    fn scan(&mut self, length: usize) -> Result<(), Failure> {
        let cost = length as u64 / 4;
        self.left = self.left.checked_sub(cost).ok_or(Failure::Steps)?;
        Ok(())
    }

    fn is_single(&mut self, at: usize, pattern: usize, end: usize) -> Result<bool, Failure> {
        let Some(byte) = self.subject.get(at).copied() else {
            return Ok(false);
        };
        Ok(match self.pattern[pattern] {
            b'.' => true,
            b'%' => is_of_class(byte, self.pattern[pattern + 1]),
            b'[' => {
                self.scan(end - pattern)?;
                self.in_set(byte, pattern, end)
            }
            own => own == byte,
        })
    }

    /// Whether a character is of the set between these places, brackets included.
    fn in_set(&self, byte: u8, begin: usize, end: usize) -> bool {
        let mut set = &self.pattern[begin + 1..end - 1];
        let is_negated = set.first() == Some(&b'^');
        if is_negated {
            set = &set[1..];
        }
        let mut is_in = false;
        while let Some((first, rest)) = set.split_first() {
            match (first, rest) {
                (b'%', [class, rest @ ..]) => {
                    is_in |= is_of_class(byte, *class);
                    set = rest;
                }
                (low, [b'-', high, rest @ ..]) => {
                    is_in |= (*low..=*high).contains(&byte);
                    set = rest;
                }
                (own, rest) => {
                    is_in |= *own == byte;
                    set = rest;
                }
            }
        }
        is_in != is_negated
    }
}

fn is_of_class(byte: u8, class: u8) -> bool {
    let is_of = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    is_of != class.is_ascii_uppercase()
}
