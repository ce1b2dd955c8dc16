//! ZAP objects: tables from names to small arrays of integers.
//!
//! Source: format/2b 5. The first word of an object's first block tells the form:
//!
//! - **micro** ([`micro`]): one block, names below 50 bytes, every value one 64-bit integer;
//! - **fat**: a header block ([`fat_header`]) with a pointer table, itself or in blocks of its
//!   own, from the top bits of a key's hash to leaf blocks ([`leaf`]) that hold the entries.
//!
//! The modules decode single blocks. Which block to read next is the reader's to arrange: take
//! the [`hash`] of the key, find the pointer's place with
//! [`FatHeader::pointer_place`](fat_header::FatHeader::pointer_place), read the leaf, look there.
//! Both forms are iterated in the order of (hash, collision differentiator), which a
//! [`cursor`] packs into 64 bits.

pub mod cursor;
pub mod fat_header;
pub mod hash;
pub mod leaf;
pub mod leaf_edit;
pub mod micro;

pub use cursor::Cursor;
pub use fat_header::{FatHeader, PointerPlace};
pub use hash::{hash_name, hash_words};
pub use leaf::{Leaf, LeafEntry};
pub use micro::MicroZap;

use crate::DecodeError;
use crate::wire;

/// First word of a micro ZAP's block.
pub const BLOCK_TYPE_MICRO: u64 = 0x8000_0000_0000_0003;
/// First word of a fat ZAP's header block.
pub const BLOCK_TYPE_HEADER: u64 = 0x8000_0000_0000_0001;
/// First word of a fat ZAP's leaf block.
pub const BLOCK_TYPE_LEAF: u64 = 0x8000_0000_0000_0000;

const STRUCTURE: &str = "ZAP";

/// Which form an object's first block announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One block with everything.
    Micro,
    /// A header; leaves are in other blocks.
    Fat,
}

/// The form of the ZAP whose block 0 is given.
pub fn form(block0: &[u8]) -> Result<Form, DecodeError> {
    match wire::u64_le(block0, 0, STRUCTURE)? {
        BLOCK_TYPE_MICRO => Ok(Form::Micro),
        BLOCK_TYPE_HEADER => Ok(Form::Fat),
        value => Err(DecodeError::BadValue {
            structure: STRUCTURE,
            field: "block type",
            value,
        }),
    }
}

/// The name of number `key` in ZAPs keyed by numbers: lower-case hex without prefix.
pub fn hex_key(key: u64) -> String {
    format!("{key:x}")
}

/// The number that a name made by [`hex_key`] stands for.
pub fn parse_hex_key(name: &[u8]) -> Option<u64> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if name.is_empty() || !name.iter().all(is_hex) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(name).ok()?, 16).ok()
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A name, without the terminating NUL. Not necessarily UTF-8.
    Name(Vec<u8>),
    /// An array of numbers, in ZAPs with [`fat_header::FLAG_UINT64_KEY`].
    Words(Vec<u64>),
}

impl Key {
    /// The name, if it is one and UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_name()?).ok()
    }

    /// The name's bytes, if it is one.
    pub fn as_name(&self) -> Option<&[u8]> {
        match self {
            Self::Name(name) => Some(name),
            Self::Words(_) => None,
        }
    }

    /// The numbers, if the key is such.
    pub fn as_words(&self) -> Option<&[u64]> {
        match self {
            Self::Words(words) => Some(words),
            Self::Name(_) => None,
        }
    }
}

/// The value of an entry: an array of integers of 1, 2, 4 or 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Bytes of each integer.
    pub integer_size: u8,
    /// The integers, each big-endian.
    pub bytes: Vec<u8>,
}

impl Value {
    /// One 64-bit integer: what a micro ZAP holds.
    pub fn from_u64(value: u64) -> Self {
        Self {
            integer_size: 8,
            bytes: value.to_be_bytes().to_vec(),
        }
    }

    /// An array of 64-bit integers.
    pub fn from_u64s(values: &[u64]) -> Self {
        Self {
            integer_size: 8,
            bytes: values
                .iter()
                .flat_map(|value| value.to_be_bytes())
                .collect(),
        }
    }

    /// An array of 16-bit integers.
    pub fn from_u16s(values: &[u16]) -> Self {
        Self {
            integer_size: 2,
            bytes: values
                .iter()
                .flat_map(|value| value.to_be_bytes())
                .collect(),
        }
    }

    /// Bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            integer_size: 1,
            bytes: bytes.to_vec(),
        }
    }

    /// Text with its terminating NUL, as properties have it.
    pub fn from_text(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        Self {
            integer_size: 1,
            bytes,
        }
    }

    /// How many integers there are.
    pub fn count(&self) -> usize {
        self.bytes.len() / usize::from(self.integer_size.max(1))
    }

    /// The value if it is exactly one 64-bit integer.
    pub fn as_u64(&self) -> Option<u64> {
        match self.as_u64s()?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The first integer of an array of 64-bit integers: directory entries may carry more.
    pub fn first_u64(&self) -> Option<u64> {
        if self.integer_size != 8 {
            return None;
        }
        let bytes = self.bytes.get(..8)?.try_into().ok()?;
        Some(u64::from_be_bytes(bytes))
    }

    /// All integers, if they are of 64 bits.
    pub fn as_u64s(&self) -> Option<Vec<u64>> {
        (self.integer_size == 8).then(|| self.integers().collect())
    }

    /// All integers, if they are of 16 bits.
    pub fn as_u16s(&self) -> Option<Vec<u16>> {
        (self.integer_size == 2).then(|| self.integers().map(|value| value as u16).collect())
    }

    /// The bytes, if the integers are bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        (self.integer_size == 1).then_some(&self.bytes[..])
    }

    /// The bytes before the terminating NUL as text, if they are UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        let bytes = self.as_bytes()?;
        let end = bytes.iter().position(|byte| *byte == 0);
        std::str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]).ok()
    }

    /// The integers of any size, widened.
    pub fn integers(&self) -> impl Iterator<Item = u64> {
        let size = usize::from(self.integer_size.max(1));
        self.bytes.chunks_exact(size).map(|chunk| {
            chunk
                .iter()
                .fold(0, |value, byte| value << 8 | u64::from(*byte))
        })
    }
}

/// An entry with everything copied out of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Value,
    /// The key's hash, cut to the ZAP's number of bits.
    pub hash: u64,
    /// Tells entries of equal hash apart.
    pub cd: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_size() {
        let number = Value::from_u64(0x0102);
        assert_eq!((number.as_u64(), number.count()), (Some(0x0102), 1));
        assert_eq!(number.as_bytes(), None);
        let text = Value {
            integer_size: 1,
            bytes: b"special\0".to_vec(),
        };
        assert_eq!(text.as_str(), Some("special"));
        assert_eq!(text.as_u64(), None);
        let layout = Value {
            integer_size: 2,
            bytes: vec![0, 5, 1, 6],
        };
        assert_eq!(layout.as_u16s(), Some(vec![5, 0x106]));
        let pair = Value {
            integer_size: 8,
            bytes: vec![7; 16],
        };
        assert_eq!(pair.as_u64(), None);
        assert_eq!(Value::from_text("special"), text);
        assert_eq!(Value::from_u16s(&[5, 0x106]), layout);
        assert_eq!(Value::from_u64s(&[1, 2]).as_u64s(), Some(vec![1, 2]));
        assert_eq!(pair.first_u64(), Some(0x0707_0707_0707_0707));
    }

    #[test]
    fn numbers_as_names() {
        assert_eq!(hex_key(0x1f), "1f");
        assert_eq!(parse_hex_key(b"1f"), Some(0x1f));
        for name in ["", "+1", "1F", "0x1", "10000000000000000"] {
            assert_eq!(parse_hex_key(name.as_bytes()), None, "{name:?}");
        }
    }

    #[test]
    fn the_first_word_tells_the_form() {
        assert_eq!(form(&BLOCK_TYPE_MICRO.to_le_bytes()), Ok(Form::Micro));
        assert_eq!(form(&BLOCK_TYPE_HEADER.to_le_bytes()), Ok(Form::Fat));
        assert!(form(&BLOCK_TYPE_LEAF.to_le_bytes()).is_err());
        assert!(form(&[0; 7]).is_err());
    }
}
