//! The conditions of `cenote find`.

use cenote_posix::{FileKind, Timestamp, Znode};

/// A comparison with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeTest {
    /// Exactly so many units of so many bytes, rounded up.
    Exactly(u64, u64),
    /// More.
    More(u64, u64),
    /// Less.
    Less(u64, u64),
}

impl SizeTest {
    /// `N`, `+N`, `-N`.
    pub fn of_count(text: &str) -> Option<Self> {
        Self::of(text, 1)
    }

    fn of(text: &str, unit: u64) -> Option<Self> {
        let number = |digits: &str| {
            let is_plain = digits.starts_with(|c: char| c.is_ascii_digit());
            is_plain.then(|| digits.parse::<u64>().ok()).flatten()
        };
        match text.as_bytes().first()? {
            b'+' => number(&text[1..]).map(|n| Self::More(n, unit)),
            b'-' => number(&text[1..]).map(|n| Self::Less(n, unit)),
            _ => number(text).map(|n| Self::Exactly(n, unit)),
        }
    }

    fn holds(self, value: u64) -> bool {
        match self {
            Self::Exactly(count, unit) => value.div_ceil(unit) == count,
            Self::More(count, unit) => value.div_ceil(unit) > count,
            Self::Less(count, unit) => value.div_ceil(unit) < count,
        }
    }
}

/// `10`, `+10k`, `-2G`: units of 512 bytes unless a letter says otherwise.
pub fn parse_size_test(text: &str) -> Option<SizeTest> {
    let last = text.chars().next_back()?;
    let (digits, unit) = match last {
        'c' => (&text[..text.len() - 1], 1),
        'w' => (&text[..text.len() - 1], 2),
        'b' => (&text[..text.len() - 1], 512),
        'k' => (&text[..text.len() - 1], 1 << 10),
        'M' => (&text[..text.len() - 1], 1 << 20),
        'G' => (&text[..text.len() - 1], 1 << 30),
        'T' => (&text[..text.len() - 1], 1 << 40),
        _ => (text, 512),
    };
    SizeTest::of(digits, unit)
}

/// `-mtime N`: modified N units of `unit` seconds before `now`, parts of units left out.
pub fn parse_age(text: &str, unit: u64, now: u64) -> Option<Condition> {
    let test = SizeTest::of_count(text)?;
    Some(Condition::Age { test, unit, now })
}

/// The file to test.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its path, with a leading slash.
    pub path: &'a [u8],
    /// The file.
    pub znode: &'a Znode,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The last component matches a pattern.
    Name(Vec<u8>),
    /// The same, whatever the case of ASCII letters.
    NameFolded(Vec<u8>),
    /// The whole path matches a pattern.
    Path(Vec<u8>),
    /// It has one of these types.
    Kinds(Vec<FileKind>),
    /// Its size.
    Size(SizeTest),
    /// The number of its hard links.
    Links(SizeTest),
    /// Its object number.
    Object(SizeTest),
    /// Its owner.
    User(SizeTest),
    /// Its group.
    Group(SizeTest),
    /// It was modified after this.
    ModifiedAfter(Timestamp),
    /// How long ago it was modified.
    Age {
        /// In units.
        test: SizeTest,
        /// Seconds of a unit.
        unit: u64,
        /// Seconds since 1970.
        now: u64,
    },
    /// A regular file without bytes or a directory without entries.
    Empty,
}

impl Condition {
    /// Whether `subject` meets the condition.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        let attributes = subject.znode.attributes();
        match self {
            Self::Name(pattern) => matches(pattern, last_component(subject.path)),
            Self::NameFolded(pattern) => {
                let name = last_component(subject.path).to_ascii_lowercase();
                matches(&pattern.to_ascii_lowercase(), &name)
            }
            Self::Path(pattern) => matches(pattern, subject.path),
            Self::Kinds(kinds) => kinds.contains(&subject.znode.kind()),
            Self::Size(test) => test.holds(attributes.size),
            Self::Links(test) => test.holds(attributes.links),
            Self::Object(test) => test.holds(subject.znode.id().0),
            Self::User(test) => test.holds(attributes.uid.posix_id().into()),
            Self::Group(test) => test.holds(attributes.gid.posix_id().into()),
            Self::ModifiedAfter(time) => attributes.modified > *time,
            Self::Age { test, unit, now } => {
                let modified = u64::try_from(attributes.modified.seconds).unwrap_or(0);
                test.holds(now.saturating_sub(modified) / unit)
            }
            Self::Empty => match subject.znode.kind() {
                FileKind::Regular => attributes.size == 0,
                // The size of a directory counts its entries, and `.` and `..`.
                FileKind::Directory => attributes.size <= 2,
                _ => false,
            },
        }
    }
}

fn last_component(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Whether `text` matches a shell pattern: `*`, `?`, `[a-z]`, `[!a]`, and `\` before any of them.
///
/// Only the last `*` is retried, so the time is at most the product of the lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    // The pattern after the last `*`, and how much of the text that `*` has matched so far.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, position));
            continue;
        }
        let step = match text.get(position) {
            None if at == pattern.len() => return true,
            None => None,
            Some(byte) => match_one(&pattern[at..], *byte),
        };
        if let Some(length) = step {
            at += length;
            position += 1;
            continue;
        }
        match star {
            Some((behind, swallowed)) if swallowed < text.len() => {
                star = Some((behind, swallowed + 1));
                (at, position) = (behind, swallowed + 1);
            }
            _ => return false,
        }
    }
}

/// How many bytes of the pattern match this byte, if it matches.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => match match_set(rest, byte) {
            Some((length, true)) => Some(length + 1),
            Some((_, false)) => None,
            // Without its end it is a plain bracket.
            None => (byte == b'[').then_some(1),
        },
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// The length of a set up to its `]`, and whether the byte is in it.
fn match_set(set: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let mut at = start;
    let mut found = false;
    loop {
        let first = *set.get(at)?;
        if first == b']' && at > start {
            return Some((at + 1, found != negated));
        }
        match (set.get(at + 1), set.get(at + 2)) {
            (Some(b'-'), Some(last)) if *last != b']' => {
                found |= (first..=*last).contains(&byte);
                at += 3;
            }
            _ => {
                found |= first == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        let yes = [
            ("*", ""),
            ("*.txt", "a.txt"),
            ("a*b*c", "aXbYbZc"),
            ("?", "x"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("\\*", "*"),
            ("[x", "[x"),
        ];
        for (pattern, text) in yes {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        let no = [
            ("", "a"),
            ("*.txt", "a.txt~"),
            ("?", ""),
            ("[a-c]x", "dx"),
            ("\\*", "x"),
            ("a*b", "a"),
        ];
        for (pattern, text) in no {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        let many = b"*a*a*a*a*a*a*a*a*a*a*b";
        assert!(!matches(many, &[b'a'; 5000]));
    }

    #[test]
    fn sizes_are_rounded_up_to_units() {
        let test = |text, size| parse_size_test(text).expect("a size").holds(size);
        assert!(test("1k", 1) && test("1k", 1024) && !test("1k", 1025));
        assert!(test("+1M", (1 << 20) + 1) && !test("+1M", 1 << 20));
        assert!(test("-2", 512) && !test("-2", 513));
        assert!(test("0c", 0));
        for wrong in ["", "k", "+", "1x", "--1", "+-1"] {
            assert_eq!(parse_size_test(wrong), None, "{wrong}");
        }
    }
}
