//! Patterns of names: `*`, `?`, `[a-z]`, `[!a-z]`, and a backslash before a literal character.
//!
//! A pattern is matched against one component of a path, or one header line, as bytes. Matching
//! goes back to the last `*` only, which is enough for patterns without alternatives, so that the
//! time is bounded by the product of both lengths.

/// Bytes of a pattern. With a header line of 1 MiB at most 256 Mi comparisons would be made.
const PATTERN_BYTES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    AnyByte,
    AnyBytes,
    /// Ranges, and whether it is they that match.
    Class(Vec<(u8, u8)>, bool),
}

/// A pattern that is ready to be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(Vec<Piece>);

impl Glob {
    /// # Errors
    /// Why it is no pattern.
    pub fn new(pattern: &str) -> Result<Self, &'static str> {
        if pattern.is_empty() {
            return Err("it is empty");
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err("it is longer than 256 bytes");
        }
        let mut pieces = Vec::new();
        let mut bytes = pattern.bytes();
        while let Some(byte) = bytes.next() {
            let piece = match byte {
                b'*' => Piece::AnyBytes,
                b'?' => Piece::AnyByte,
                b'[' => class(&mut bytes)?,
                b'\\' => Piece::Byte(bytes.next().ok_or("nothing follows the backslash")?),
                byte => Piece::Byte(byte),
            };
            if piece != Piece::AnyBytes || pieces.last() != Some(&Piece::AnyBytes) {
                pieces.push(piece);
            }
        }
        Ok(Self(pieces))
    }

    /// Whether all of `text` is what the pattern says.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (mut piece, mut at) = (0, 0);
        // The position of the last `*`, and how far its match reaches.
        let mut last_star: Option<(usize, usize)> = None;
        while at < text.len() {
            let fits = match self.0.get(piece) {
                Some(Piece::AnyBytes) => {
                    last_star = Some((piece, at));
                    piece += 1;
                    continue;
                }
                Some(Piece::Byte(byte)) => *byte == text[at],
                Some(Piece::AnyByte) => true,
                Some(Piece::Class(ranges, wanted)) => {
                    let is_in = |(low, high): &(u8, u8)| (*low..=*high).contains(&text[at]);
                    ranges.iter().any(is_in) == *wanted
                }
                None => false,
            };
            if fits {
                (piece, at) = (piece + 1, at + 1);
                continue;
            }
            let Some((star, reach)) = last_star else {
                return false;
            };
            last_star = Some((star, reach + 1));
            (piece, at) = (star + 1, reach + 1);
        }
        self.0[piece..].iter().all(|rest| *rest == Piece::AnyBytes)
    }
}

/// The characters between brackets, of which the first has been read.
fn class(bytes: &mut std::str::Bytes<'_>) -> Result<Piece, &'static str> {
    const UNFINISHED: &str = "a '[' has no ']'";
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    let mut next = bytes.next().ok_or(UNFINISHED)?;
    let wanted = !matches!(next, b'!' | b'^');
    if !wanted {
        next = bytes.next().ok_or(UNFINISHED)?;
    }
    // A bracket that stands first is one of the characters.
    let mut is_first = true;
    while next != b']' || is_first {
        is_first = false;
        let low = match next {
            b'\\' => bytes.next().ok_or(UNFINISHED)?,
            byte => byte,
        };
        next = bytes.next().ok_or(UNFINISHED)?;
        if next != b'-' {
            ranges.push((low, low));
            continue;
        }
        let high = bytes.next().ok_or(UNFINISHED)?;
        if high == b']' {
            // A dash that stands last is one of the characters.
            ranges.extend([(low, low), (b'-', b'-')]);
            break;
        }
        if high < low {
            return Err("a range ends before it begins");
        }
        ranges.push((low, high));
        next = bytes.next().ok_or(UNFINISHED)?;
    }
    Ok(Piece::Class(ranges, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let glob = Glob::new(pattern).expect("a pattern");
        glob.matches(text.as_bytes())
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text) in [
            (".*", ".git"),
            ("*", ""),
            ("*.tar.*", "a.tar.tar.gz"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            (r"\*", "*"),
            ("*a*b*c", "xxaxbxbxc"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            (".*", "git"),
            ("a?c", "ac"),
            ("[a-c]x", "dx"),
            ("[!a-c]x", "bx"),
            (r"\*", "a"),
            ("*a*b*c", "xxaxbxbx"),
            ("abc", "abcd"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_stars_takes_no_time() {
        let pattern = "*a".repeat(120);
        let text = "a".repeat(30_000);
        assert!(!matches(&format!("{pattern}b"), &text));
    }

    #[test]
    fn no_pattern_is_refused_with_a_reason() {
        for pattern in ["", "[", "[a", "[!", "[a-", "[z-a]", "a\\"] {
            assert!(Glob::new(pattern).is_err(), "{pattern}");
        }
        assert!(Glob::new(&"a".repeat(257)).is_err());
    }
}
