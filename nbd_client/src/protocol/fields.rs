//! Fields of a message, one after the other.

/// A message that the protocol does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message ends too early.
    #[error("the {what} is cut short")]
    Short {
        /// What was to be read.
        what: &'static str,
    },
    /// There is more than there should be.
    #[error("the {what} has {count} bytes too many")]
    Trailing {
        /// What was read.
        what: &'static str,
        /// How many bytes are left.
        count: usize,
    },
    /// The magic number is another one.
    #[error("the {what} begins with {found:#x}, which is not its magic number")]
    Magic {
        /// What was to be read.
        what: &'static str,
        /// The number.
        found: u64,
    },
    /// A text that is none, or longer than the protocol allows.
    #[error("the {what} is not UTF-8 text of at most 4096 bytes")]
    Text {
        /// What was to be read.
        what: &'static str,
    },
    /// A number that cannot be.
    #[error("the {what} is {found}")]
    Value {
        /// Which number.
        what: &'static str,
        /// Its value.
        found: u64,
    },
}

/// What is left of a message.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of `bytes`, which are called `what` in errors.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { bytes, what }
    }

    /// The next bytes.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let short = Malformed::Short { what: self.what };
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(short)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Malformed> {
        let bytes = self.bytes(SIZE)?;
        Ok(bytes.try_into().expect("as many as were asked for"))
    }

    /// The next 16-bit number.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next 32-bit number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next 64-bit number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next text, behind its 32-bit length.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u32()? as usize;
        let bytes = self.bytes(length)?;
        self.as_text(bytes)
    }

    /// All that is left, as text.
    pub fn rest_as_text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = std::mem::take(&mut self.bytes);
        self.as_text(bytes)
    }

    fn as_text(&self, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
        let what = self.what;
        match std::str::from_utf8(bytes) {
            Ok(text) if text.len() <= super::numbers::STRING_BYTES_MAX => Ok(text),
            _ => Err(Malformed::Text { what }),
        }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing is left.
    pub fn end(self) -> Result<(), Malformed> {
        match self.bytes.len() {
            0 => Ok(()),
            count => Err(Malformed::Trailing {
                what: self.what,
                count,
            }),
        }
    }

    /// The next 64-bit number, which is known.
    pub fn magic(&mut self, expected: u64) -> Result<(), Malformed> {
        let found = self.u64()?;
        self.same(found, expected)
    }

    /// The next 32-bit number, which is known.
    pub fn magic32(&mut self, expected: u32) -> Result<(), Malformed> {
        let found = self.u32()?;
        self.same(found.into(), expected.into())
    }

    fn same(&self, found: u64, expected: u64) -> Result<(), Malformed> {
        let what = self.what;
        match found == expected {
            true => Ok(()),
            false => Err(Malformed::Magic { what, found }),
        }
    }
}
