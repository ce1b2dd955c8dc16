//! System attributes: the fields of a file in its bonus buffer and spill block.
//!
//! Source: format/3b 2. Which attributes a buffer has, and in which order, is a numbered
//! *layout*; attribute numbers and layouts are tables of each file system ([`SaTables`], read
//! from the REGISTRY and LAYOUTS ZAPs). A buffer is a header and the values:
//!
//! ```text
//! 0 magic (u32)   4 | header size / 8 : 6 | layout : 10 |   6 lengths of the attributes of
//! variable length, in layout order (u16 each), padding to 8; values, each 8-aligned
//! ```
//!
//! Buffers are not swapped with their dnode (their type's class is bytes): the magic tells the
//! order of the header, and of each value by the attribute's byte-swap class. A file may have
//! one buffer in the bonus and one in the spill block.

use crate::DecodeError;
use crate::byteswap;
use crate::wire::{self, bits};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// What a buffer starts with.
pub const MAGIC: u32 = 0x002F_505A;
/// The largest layout number.
pub const LAYOUT_MAX: u16 = 1023;
/// The implicit layout without attributes.
pub const LAYOUT_EMPTY: u16 = 1;

const STRUCTURE: &str = "system attributes";
const LENGTHS_OFFSET: usize = 6;
const ATTRIBUTES_MAX: usize = 1 << 12;

/// The attributes that the POSIX layer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "named as on disk; format/3b 2 says what each holds"
)]
pub enum Attribute {
    Atime,
    Mtime,
    Ctime,
    Crtime,
    Gen,
    Mode,
    Size,
    Parent,
    Links,
    Xattr,
    Rdev,
    Flags,
    Uid,
    Gid,
    Pad,
    ZnodeAcl,
    DaclCount,
    Symlink,
    Scanstamp,
    DaclAces,
    Dxattr,
    ProjectId,
    Seq,
}

impl Attribute {
    /// Every attribute, in the order of the usual numbers.
    pub const ALL: [Self; 23] = [
        Self::Atime,
        Self::Mtime,
        Self::Ctime,
        Self::Crtime,
        Self::Gen,
        Self::Mode,
        Self::Size,
        Self::Parent,
        Self::Links,
        Self::Xattr,
        Self::Rdev,
        Self::Flags,
        Self::Uid,
        Self::Gid,
        Self::Pad,
        Self::ZnodeAcl,
        Self::DaclCount,
        Self::Symlink,
        Self::Scanstamp,
        Self::DaclAces,
        Self::Dxattr,
        Self::ProjectId,
        Self::Seq,
    ];

    /// The name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Atime => "ZPL_ATIME",
            Self::Mtime => "ZPL_MTIME",
            Self::Ctime => "ZPL_CTIME",
            Self::Crtime => "ZPL_CRTIME",
            Self::Gen => "ZPL_GEN",
            Self::Mode => "ZPL_MODE",
            Self::Size => "ZPL_SIZE",
            Self::Parent => "ZPL_PARENT",
            Self::Links => "ZPL_LINKS",
            Self::Xattr => "ZPL_XATTR",
            Self::Rdev => "ZPL_RDEV",
            Self::Flags => "ZPL_FLAGS",
            Self::Uid => "ZPL_UID",
            Self::Gid => "ZPL_GID",
            Self::Pad => "ZPL_PAD",
            Self::ZnodeAcl => "ZPL_ZNODE_ACL",
            Self::DaclCount => "ZPL_DACL_COUNT",
            Self::Symlink => "ZPL_SYMLINK",
            Self::Scanstamp => "ZPL_SCANSTAMP",
            Self::DaclAces => "ZPL_DACL_ACES",
            Self::Dxattr => "ZPL_DXATTR",
            Self::ProjectId => "ZPL_PROJID",
            Self::Seq => "ZPL_SEQ",
        }
    }
}

/// How an attribute's value changes with the host's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "arrays of integers of this width, or ACL entries"
)]
pub enum ValueByteswap {
    U64,
    U32,
    U16,
    U8,
    Acl,
}

/// An attribute as the registry defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeDefinition {
    /// The number that layouts use.
    pub number: u16,
    /// Bytes of a value; 0 if each has its own length.
    pub length: u16,
    /// What to swap in a value.
    pub byteswap: ValueByteswap,
}

impl AttributeDefinition {
    /// From a value of the REGISTRY ZAP: `| length : 16 | byteswap : 8 | number : 16 |`.
    pub fn decode(word: u64) -> Result<Self, DecodeError> {
        Ok(Self {
            number: bits(word, 0, 16) as u16,
            length: bits(word, 24, 16) as u16,
            byteswap: match bits(word, 16, 8) {
                0 => ValueByteswap::U64,
                1 => ValueByteswap::U32,
                2 => ValueByteswap::U16,
                3 => ValueByteswap::U8,
                4 => ValueByteswap::Acl,
                class => return bad("byteswap function", class),
            },
        })
    }

    /// The value of the REGISTRY ZAP.
    pub fn encode(self) -> u64 {
        let class = match self.byteswap {
            ValueByteswap::U64 => 0,
            ValueByteswap::U32 => 1,
            ValueByteswap::U16 => 2,
            ValueByteswap::U8 => 3,
            ValueByteswap::Acl => 4,
        };
        u64::from(self.length) << 24 | class << 16 | u64::from(self.number)
    }
}

/// A file system's attribute numbers and layouts.
#[derive(Clone, Debug, Default)]
pub struct SaTables {
    definitions: BTreeMap<u16, AttributeDefinition>,
    numbers: HashMap<String, u16>,
    layouts: BTreeMap<u16, Vec<u16>>,
}

impl SaTables {
    /// Adds an entry of the REGISTRY ZAP.
    pub fn add_attribute(&mut self, name: &str, value: u64) -> Result<(), DecodeError> {
        let definition = AttributeDefinition::decode(value)?;
        if self.definitions.len() == ATTRIBUTES_MAX {
            return bad("number of attributes", ATTRIBUTES_MAX as u64);
        }
        self.definitions.insert(definition.number, definition);
        self.numbers.insert(name.to_owned(), definition.number);
        Ok(())
    }

    /// Adds an entry of the LAYOUTS ZAP: its name is the decimal layout number.
    pub fn add_layout(&mut self, name: &str, attributes: Vec<u16>) -> Result<(), DecodeError> {
        let number = name.parse().unwrap_or(u16::MAX);
        if number > LAYOUT_MAX || attributes.len() > ATTRIBUTES_MAX {
            return bad("layout number", u64::from(number));
        }
        self.layouts.insert(number, attributes);
        Ok(())
    }

    /// This file system's number of an attribute; `None` if it has never been registered.
    pub fn number(&self, attribute: Attribute) -> Option<u16> {
        self.numbers.get(attribute.name()).copied()
    }

    /// The definition of the attribute with this number.
    pub fn definition(&self, number: u16) -> Option<AttributeDefinition> {
        self.definitions.get(&number).copied()
    }

    /// The attributes of a layout in storage order.
    pub fn layout(&self, number: u16) -> Option<&[u16]> {
        match self.layouts.get(&number) {
            Some(attributes) => Some(attributes),
            None if number == LAYOUT_EMPTY => Some(&[]),
            None => None,
        }
    }

    /// The layouts that have been added, in order of number.
    pub fn layouts(&self) -> impl Iterator<Item = (u16, &[u16])> {
        self.layouts
            .iter()
            .map(|(number, layout)| (*number, layout.as_slice()))
    }

    /// Every value in a buffer, in storage order.
    pub fn values<'a>(&self, buffer: &'a [u8]) -> Result<Vec<SaValue<'a>>, DecodeError> {
        let header = SaHeader::decode(buffer)?;
        let Some(layout) = self.layout(header.layout) else {
            return bad("layout", u64::from(header.layout));
        };
        let mut values = Vec::with_capacity(layout.len());
        let mut offset = header.size;
        let mut variable = 0;
        for number in layout {
            let Some(definition) = self.definition(*number) else {
                return bad("attribute number", u64::from(*number));
            };
            let length = match definition.length {
                0 => {
                    variable += 1;
                    header.variable_length(buffer, variable - 1)?
                }
                length => usize::from(length),
            };
            values.push(SaValue {
                number: *number,
                bytes: wire::slice(buffer, offset, length, STRUCTURE)?,
                byteswap: definition.byteswap,
                big_endian: header.big_endian,
            });
            offset += length.next_multiple_of(8);
        }
        Ok(values)
    }

    /// The value of one attribute, if the buffer has it.
    pub fn value<'a>(
        &self,
        buffer: &'a [u8],
        attribute: Attribute,
    ) -> Result<Option<SaValue<'a>>, DecodeError> {
        let Some(number) = self.number(attribute) else {
            return Ok(None);
        };
        let values = self.values(buffer)?;
        Ok(values.into_iter().find(|value| value.number == number))
    }
}

/// A value within its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaValue<'a> {
    /// The attribute's number.
    pub number: u16,
    bytes: &'a [u8],
    byteswap: ValueByteswap,
    big_endian: bool,
}

impl<'a> SaValue<'a> {
    /// The value as little-endian bytes.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        if !self.big_endian || self.byteswap == ValueByteswap::U8 {
            return Cow::Borrowed(self.bytes);
        }
        let mut bytes = self.bytes.to_vec();
        match self.byteswap {
            ValueByteswap::U64 => byteswap::swap_array::<8>(&mut bytes),
            ValueByteswap::U32 => byteswap::swap_array::<4>(&mut bytes),
            ValueByteswap::U16 => byteswap::swap_array::<2>(&mut bytes),
            ValueByteswap::Acl => byteswap::swap_aces(&mut bytes),
            ValueByteswap::U8 => {}
        }
        Cow::Owned(bytes)
    }

    /// The first 64-bit word.
    pub fn word(&self) -> Result<u64, DecodeError> {
        self.word_at(0)
    }

    /// A time: seconds and nanoseconds.
    pub fn time(&self) -> Result<(i64, i64), DecodeError> {
        Ok((self.word_at(0)? as i64, self.word_at(8)? as i64))
    }

    fn word_at(&self, offset: usize) -> Result<u64, DecodeError> {
        let word = wire::u64_le(self.bytes, offset, STRUCTURE)?;
        Ok(if self.big_endian {
            word.swap_bytes()
        } else {
            word
        })
    }
}

/// The header of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaHeader {
    /// The layout's number.
    pub layout: u16,
    /// Bytes before the first value.
    pub size: usize,
    /// Whether a big-endian host wrote the buffer.
    pub big_endian: bool,
}

impl SaHeader {
    /// Decodes the header of a bonus buffer or spill block.
    pub fn decode(buffer: &[u8]) -> Result<Self, DecodeError> {
        let magic = wire::u32_le(buffer, 0, STRUCTURE)?;
        let big_endian = magic == MAGIC.swap_bytes();
        if magic != MAGIC && !big_endian {
            return Err(DecodeError::BadMagic {
                structure: STRUCTURE,
                found: u64::from(magic),
                expected: u64::from(MAGIC),
            });
        }
        let info = match (wire::u16_le(buffer, 4, STRUCTURE)?, big_endian) {
            (info, false) => u64::from(info),
            (info, true) => u64::from(info.swap_bytes()),
        };
        let size = bits(info, 10, 6) as usize * 8;
        if size < 8 {
            return bad("header size", size as u64);
        }
        Ok(Self {
            layout: bits(info, 0, 10) as u16,
            size,
            big_endian,
        })
    }

    /// The length of the `index`th attribute of variable length.
    pub(crate) fn variable_length(
        &self,
        buffer: &[u8],
        index: usize,
    ) -> Result<usize, DecodeError> {
        let offset = LENGTHS_OFFSET + 2 * index;
        if offset + 2 > self.size {
            return Err(DecodeError::Inconsistent {
                structure: STRUCTURE,
                problem: "more attributes of variable length than lengths",
            });
        }
        let length = wire::u16_le(buffer, offset, STRUCTURE)?;
        Ok(usize::from(if self.big_endian {
            length.swap_bytes()
        } else {
            length
        }))
    }
}

fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mode, size, symlink and ACL entries, as layout 2.
    fn tables() -> SaTables {
        let mut tables = SaTables::default();
        for (attribute, number, length, byteswap) in [
            (Attribute::Mode, 5, 8, ValueByteswap::U64),
            (Attribute::Size, 6, 8, ValueByteswap::U64),
            (Attribute::Symlink, 17, 0, ValueByteswap::U8),
            (Attribute::DaclAces, 19, 0, ValueByteswap::Acl),
        ] {
            let definition = AttributeDefinition {
                number,
                length,
                byteswap,
            };
            tables
                .add_attribute(attribute.name(), definition.encode())
                .expect("valid");
        }
        tables.add_layout("2", vec![5, 17, 6, 19]).expect("valid");
        tables
    }

    /// A header of 16 bytes: two variable lengths.
    fn buffer() -> Vec<u8> {
        let mut buffer = vec![0x5a, 0x50, 0x2f, 0, 2, 2 << 2, 5, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        buffer.extend(0o100_644_u64.to_le_bytes());
        buffer.extend(b"hello\0\0\0");
        buffer.extend(5_u64.to_le_bytes());
        buffer.extend([0, 0, 0, 0x10, 1, 0, 0, 0]);
        buffer
    }

    #[test]
    fn values_are_found_by_name() {
        let (tables, buffer) = (tables(), buffer());
        let value = |attribute| {
            let value = tables.value(&buffer, attribute).expect("valid");
            value.map(|value| value.bytes().into_owned())
        };
        assert_eq!(
            value(Attribute::Mode),
            Some(vec![0xa4, 0x81, 0, 0, 0, 0, 0, 0])
        );
        assert_eq!(value(Attribute::Symlink).as_deref(), Some(&b"hello"[..]));
        assert_eq!(value(Attribute::Size).map(|bytes| bytes[0]), Some(5));
        assert_eq!(value(Attribute::Uid), None, "not registered");
    }

    #[test]
    fn big_endian_buffers_give_the_same() {
        let tables = tables();
        let mut swapped = buffer();
        swapped[..4].reverse();
        swapped[4..10].chunks_exact_mut(2).for_each(<[u8]>::reverse);
        swapped[16..24].reverse();
        swapped[32..40].reverse();
        swapped[42..44].reverse();
        swapped[44..48].reverse();
        let size = tables.value(&swapped, Attribute::Size).expect("valid");
        assert_eq!(size.expect("there").word(), Ok(5));
        for (ours, theirs) in tables
            .values(&buffer())
            .expect("valid")
            .iter()
            .zip(tables.values(&swapped).expect("valid"))
        {
            assert_eq!(ours.bytes(), theirs.bytes());
        }
    }

    #[test]
    fn hostile_buffers() {
        let (tables, buffer) = (tables(), buffer());
        for end in 0..buffer.len() {
            assert!(tables.values(&buffer[..end]).is_err(), "cut at {end}");
        }
        for (offset, byte) in [(0, 0), (4, 3), (5, 0), (5, 1 << 2), (6, 200)] {
            let mut buffer = buffer.clone();
            buffer[offset] = byte;
            assert!(tables.values(&buffer).is_err(), "byte {offset}");
        }
        let mut tables = tables;
        assert!(tables.add_layout("1024", vec![]).is_err());
        assert!(tables.add_attribute("X", 5 << 16).is_err());
    }
}
