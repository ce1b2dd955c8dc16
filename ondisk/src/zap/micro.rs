//! The micro ZAP: one block of fixed entries (format/2b 5.1).
//!
//! ```text
//!  0 block type   8 salt   16 normalization flags   24 pad (40)
//! 64 entries of 64 bytes:  0 value   8 collision differentiator (u32)  12 pad (2)
//!                         14 name, NUL-terminated (50); empty: a free entry
//! ```

use super::{Entry, Key, Value, hash};
use crate::DecodeError;
use crate::wire;

/// Bytes of an entry, and of the header.
pub const ENTRY_SIZE: usize = 64;
/// Bytes of the header's words; the rest of it is padding.
pub(crate) const HEADER_WORDS_SIZE: usize = 24;
/// The longest name, without its NUL.
pub const NAME_MAX: usize = 49;

const STRUCTURE: &str = "micro ZAP";
const NAME_OFFSET: usize = 14;
const SIZE_MAX: usize = 16 << 20;

/// A micro ZAP's block.
#[derive(Clone, Copy, Debug)]
pub struct MicroZap<'a> {
    /// What hashes start from.
    pub salt: u64,
    /// How names are normalized before they are compared and hashed; 0 for not at all.
    pub normflags: u64,
    entries: &'a [u8],
}

/// An entry of a micro ZAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroEntry<'a> {
    /// The name, without its NUL.
    pub name: &'a [u8],
    /// The value.
    pub value: u64,
    /// Tells entries of equal hash apart.
    pub cd: u32,
}

impl<'a> MicroZap<'a> {
    /// Reads the header of a block that is a whole micro ZAP.
    pub fn decode(block: &'a [u8]) -> Result<Self, DecodeError> {
        let block_type = wire::u64_le(block, 0, STRUCTURE)?;
        if block_type != super::BLOCK_TYPE_MICRO {
            return Err(DecodeError::BadMagic {
                structure: STRUCTURE,
                found: block_type,
                expected: super::BLOCK_TYPE_MICRO,
            });
        }
        wire::slice(block, 0, ENTRY_SIZE, STRUCTURE)?;
        if block.len() > SIZE_MAX {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "size",
                value: block.len() as u64,
            });
        }
        Ok(Self {
            salt: wire::u64_le(block, 8, STRUCTURE)?,
            normflags: wire::u64_le(block, 16, STRUCTURE)?,
            entries: &block[ENTRY_SIZE..],
        })
    }

    /// The entries in storage order, which means nothing.
    pub fn entries(&self) -> impl Iterator<Item = MicroEntry<'a>> + use<'a> {
        self.entries
            .chunks_exact(ENTRY_SIZE)
            .filter(|entry| entry[NAME_OFFSET] != 0)
            .map(decode_entry)
    }

    /// As [`Self::entries`], with the place of each in the block, in bytes.
    pub fn places(&self) -> impl Iterator<Item = (usize, MicroEntry<'a>)> + use<'a> {
        let numbered = (1..).zip(self.entries.chunks_exact(ENTRY_SIZE));
        numbered
            .filter(|(_, entry)| entry[NAME_OFFSET] != 0)
            .map(|(number, entry)| (number * ENTRY_SIZE, decode_entry(entry)))
    }

    /// The place of the first free entry, in bytes; `None` if the block is full.
    pub fn free_place(&self) -> Option<usize> {
        let mut entries = self.entries.chunks_exact(ENTRY_SIZE);
        let number = entries.position(|entry| entry[NAME_OFFSET] == 0)?;
        Some((number + 1) * ENTRY_SIZE)
    }

    /// The entry of exactly this name and its place in the block, in bytes. A damaged entry's name
    /// may lack its NUL and fill the entry to the end: what is listed is found.
    pub fn find(&self, name: &[u8]) -> Option<(usize, MicroEntry<'a>)> {
        let end = NAME_OFFSET + name.len();
        if name.is_empty() || end > ENTRY_SIZE {
            return None;
        }
        let is_it = |entry: &[u8]| {
            entry[NAME_OFFSET..end] == *name && entry.get(end).is_none_or(|next| *next == 0)
        };
        let mut numbered = (1..).zip(self.entries.chunks_exact(ENTRY_SIZE));
        let (number, entry) = numbered.find(|(_, entry)| is_it(entry))?;
        Some((number * ENTRY_SIZE, decode_entry(entry)))
    }

    /// The value of exactly this name.
    pub fn lookup(&self, name: &[u8]) -> Option<u64> {
        self.find(name).map(|(_, entry)| entry.value)
    }

    /// All entries in the order of iteration. `hash_of` hashes a name, normalizing it first if
    /// need be: [`Self::hash`] when [`Self::normflags`] is 0.
    pub fn sorted(&self, hash_of: impl Fn(&[u8]) -> u64) -> Vec<Entry> {
        self.sorted_from(0, hash_of)
    }

    /// As [`Self::sorted`], without the entries whose hash is below `first`.
    pub fn sorted_from(&self, first: u64, hash_of: impl Fn(&[u8]) -> u64) -> Vec<Entry> {
        let entry_of = |entry: MicroEntry<'_>| {
            let hash = hash_of(entry.name);
            (hash >= first).then(|| Entry {
                key: Key::Name(entry.name.to_vec()),
                value: Value::from_u64(entry.value),
                hash,
                cd: entry.cd,
            })
        };
        let mut entries: Vec<Entry> = self.entries().filter_map(entry_of).collect();
        entries.sort_unstable_by_key(|entry| (entry.hash, entry.cd));
        entries
    }

    /// The hash of a name that is normalized already.
    pub fn hash(&self, name: &[u8]) -> u64 {
        hash::hash_name(self.salt, name, hash::HASH_BITS)
    }
}

fn decode_entry(bytes: &[u8]) -> MicroEntry<'_> {
    let name = &bytes[NAME_OFFSET..];
    let end = name.iter().position(|byte| *byte == 0);
    MicroEntry {
        name: &name[..end.unwrap_or(name.len())],
        value: u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")),
        cd: u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes")),
    }
}

/// The 64 bytes of the header.
pub fn encode_header(salt: u64, normflags: u64) -> [u8; ENTRY_SIZE] {
    let mut bytes = [0; ENTRY_SIZE];
    bytes[..8].copy_from_slice(&super::BLOCK_TYPE_MICRO.to_le_bytes());
    bytes[8..16].copy_from_slice(&salt.to_le_bytes());
    bytes[16..24].copy_from_slice(&normflags.to_le_bytes());
    bytes
}

/// The 64 bytes of an entry, or `None` for a name that a micro ZAP cannot hold.
pub fn encode_entry(name: &[u8], value: u64, cd: u32) -> Option<[u8; ENTRY_SIZE]> {
    if name.is_empty() || name.len() > NAME_MAX || name.contains(&0) {
        return None;
    }
    let mut bytes = [0; ENTRY_SIZE];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes[8..12].copy_from_slice(&cd.to_le_bytes());
    bytes[NAME_OFFSET..NAME_OFFSET + name.len()].copy_from_slice(name);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<u8> {
        let mut block = encode_header(0x1235, 0).to_vec();
        block.extend(encode_entry(b"root_dataset", 32, 0).expect("fits"));
        block.extend([0; ENTRY_SIZE]);
        block.extend(encode_entry(&[b'n'; NAME_MAX], u64::MAX, 3).expect("fits"));
        block.resize(512, 0);
        block
    }

    #[test]
    fn entries_are_found_and_free_ones_skipped() {
        let block = block();
        let zap = MicroZap::decode(&block).expect("valid");
        assert_eq!(zap.lookup(b"root_dataset"), Some(32));
        assert_eq!(zap.lookup(&[b'n'; NAME_MAX]), Some(u64::MAX));
        assert_eq!(zap.lookup(b""), None);
        for absent in [
            b"root_datase".as_slice(),
            b"root_dataset2",
            &[b'n'; NAME_MAX + 1],
        ] {
            assert_eq!(zap.lookup(absent), None);
        }
        assert_eq!(zap.find(b"root_dataset").map(|found| found.0), Some(64));
        assert_eq!(zap.entries().count(), 2);
        assert_eq!(zap.free_place(), Some(128));
        let places: Vec<_> = zap
            .places()
            .map(|(place, entry)| (place, entry.cd))
            .collect();
        assert_eq!(places, [(64, 0), (192, 3)]);
        let sorted = zap.sorted(|name| zap.hash(name));
        assert!(sorted[0].hash < sorted[1].hash);
        assert_eq!(sorted[0].hash & ((1 << 36) - 1), 0);
    }

    #[test]
    fn hostile_blocks() {
        let mut block = block();
        assert!(MicroZap::decode(&block[..63]).is_err());
        let cut = MicroZap::decode(&block[..100]).expect("only the header");
        assert_eq!(cut.entries().count(), 0);
        // A name without NUL ends with its entry.
        block[64 + NAME_OFFSET..128].fill(b'x');
        let zap = MicroZap::decode(&block).expect("valid");
        assert_eq!(zap.entries().next().map(|entry| entry.name.len()), Some(50));
        block[0] = 1;
        assert!(MicroZap::decode(&block).is_err());
        assert_eq!(encode_entry(&[b'x'; 50], 0, 0), None);
    }

    #[test]
    fn a_name_without_its_nul_is_found_as_it_is_listed() {
        let mut block = block();
        block[64 + NAME_OFFSET..128].fill(b'x');
        let zap = MicroZap::decode(&block).expect("valid");
        let entry = zap.entries().next().expect("two of them");
        assert_eq!(entry.name, [b'x'; NAME_MAX + 1]);
        assert_eq!(zap.lookup(entry.name), Some(32));
        assert_eq!(zap.lookup(&[b'x'; NAME_MAX]), None);
        assert_eq!(zap.lookup(&[b'x'; NAME_MAX + 2]), None);
    }
}
