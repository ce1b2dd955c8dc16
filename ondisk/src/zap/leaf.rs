//! A leaf block of a fat ZAP: a hash table of chained chunks (format/2b 5.3).
//!
//! ```text
//!  0 block type   8 pad   16 prefix   24 magic (u32)
//! 28 free chunks (u16)  30 entries (u16)  32 prefix length (u16)  34 first free chunk (u16)
//! 36 flags (u8)   37 pad (11)
//! 48 hash table: size/32 chunk numbers (u16)        48+size/16 chunks of 24 bytes
//!
//! entry  0 type 252  1 integer size  2 next entry  4 name chunk  6 name length
//!        8 value chunk  10 value length  12 cd (u32)  16 hash (u64)
//! array  0 type 251  1 data (21)  22 next array chunk       free  0 type 253  22 next free
//! ```
//!
//! Chunk number 0xFFFF ends a chain. Integers in arrays are big-endian in all blocks. Chains
//! are walked with a bound of the number of chunks: a cycle is an error and not a hang.

use super::fat_header::block_shift;
use super::{BLOCK_TYPE_LEAF, Entry, Key, Value};
use crate::DecodeError;
use crate::wire;

/// Bytes before the hash table.
pub const HEADER_SIZE: usize = 48;
/// Bytes of a chunk.
pub const CHUNK_SIZE: usize = 24;
/// Type of a chunk that is an entry.
pub const CHUNK_ENTRY: u8 = 252;
/// Type of a chunk that is part of an array.
pub const CHUNK_ARRAY: u8 = 251;
/// Type of a chunk that is free.
pub const CHUNK_FREE: u8 = 253;
/// Ends a chain of chunks.
pub const CHAIN_END: u16 = 0xFFFF;
/// Data bytes in an array chunk.
pub const ARRAY_BYTES: usize = 21;
/// Chains are sorted by collision differentiator.
pub const FLAG_SORTED: u8 = 1;

pub(super) const STRUCTURE: &str = "ZAP leaf";
pub(super) const MAGIC: u32 = 0x2AB_1EAF;
const NAME_SIZE_MAX: usize = 8192;

/// How a leaf of some size is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// log2 of the hash table's length.
    pub hash_shift: u32,
    /// Number of chunks.
    pub chunks: usize,
}

impl Geometry {
    /// The geometry of leaves of `length` bytes: a power of two.
    pub fn of_block(length: usize) -> Result<Self, DecodeError> {
        let shift = block_shift(length, STRUCTURE)?;
        let hash_shift = shift - 5;
        Ok(Self {
            hash_shift,
            chunks: (length - (2 << hash_shift)) / CHUNK_SIZE - 2,
        })
    }

    /// Where the chunks start.
    pub fn chunks_offset(self) -> usize {
        HEADER_SIZE + (2 << self.hash_shift)
    }
}

/// A leaf block.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    block: &'a [u8],
    geometry: Geometry,
    /// The top bits that all hashes in the leaf share, right-aligned.
    pub prefix: u64,
    /// How many bits the prefix has.
    pub prefix_length: u32,
    /// Number of entries, as the header counts them.
    pub entry_count: usize,
    /// `FLAG_*`.
    pub flags: u8,
    word_keys: bool,
}

/// An entry within its leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafEntry<'a> {
    leaf: Leaf<'a>,
    next: u16,
    name_chunk: u16,
    name_length: u16,
    value_chunk: u16,
    value_length: u16,
    /// Bytes of each integer of the value.
    pub integer_size: u8,
    /// Tells entries of equal hash apart.
    pub cd: u32,
    /// The key's hash.
    pub hash: u64,
}

impl<'a> Leaf<'a> {
    /// Reads a leaf's header. `word_keys` tells whether the ZAP's keys are arrays of numbers.
    pub fn decode(block: &'a [u8], word_keys: bool) -> Result<Self, DecodeError> {
        let geometry = Geometry::of_block(block.len())?;
        let block_type = wire::u64_le(block, 0, STRUCTURE)?;
        let magic = wire::u32_le(block, 24, STRUCTURE)?;
        for (found, expected) in [
            (block_type, BLOCK_TYPE_LEAF),
            (u64::from(magic), u64::from(MAGIC)),
        ] {
            if found != expected {
                return Err(DecodeError::BadMagic {
                    structure: STRUCTURE,
                    found,
                    expected,
                });
            }
        }
        let prefix = wire::u64_le(block, 16, STRUCTURE)?;
        let prefix_length = u32::from(wire::u16_le(block, 32, STRUCTURE)?);
        // A bucket's number is taken from the bits below the prefix.
        if prefix_length + geometry.hash_shift > 64 {
            return bad("prefix length", u64::from(prefix_length));
        }
        if prefix.checked_shr(prefix_length) != Some(0) {
            return bad("prefix", prefix);
        }
        Ok(Self {
            block,
            geometry,
            prefix,
            prefix_length,
            entry_count: usize::from(wire::u16_le(block, 30, STRUCTURE)?),
            flags: block[36],
            word_keys,
        })
    }

    /// The leaf's geometry.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Whether hashes like this one belong in this leaf.
    pub fn covers(&self, hash: u64) -> bool {
        self.prefix_length == 0 || hash >> (64 - self.prefix_length) == self.prefix
    }

    /// The entry of this key, given its hash.
    pub fn lookup(&self, hash: u64, key: &Key) -> Result<Option<LeafEntry<'a>>, DecodeError> {
        match key {
            Key::Name(name) => self.find(hash, |entry| entry.name_is(name)),
            Key::Words(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                self.find(hash, |entry| {
                    let length = usize::from(entry.name_length) * 8;
                    Ok(length == bytes.len() && entry.array_is(entry.name_chunk, &bytes)?)
                })
            }
        }
    }

    /// The entry of exactly this name (without NUL), given its hash.
    pub fn lookup_name(
        &self,
        hash: u64,
        name: &[u8],
    ) -> Result<Option<LeafEntry<'a>>, DecodeError> {
        self.find(hash, |entry| entry.name_is(name))
    }

    fn find(
        &self,
        hash: u64,
        mut matches: impl FnMut(&LeafEntry<'a>) -> Result<bool, DecodeError>,
    ) -> Result<Option<LeafEntry<'a>>, DecodeError> {
        for entry in self.chain(self.bucket(hash)) {
            let entry = entry?;
            if entry.hash == hash && matches(&entry)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The entries of this hash in the order of their collision differentiators: candidates
    /// when names are compared normalized.
    pub fn with_hash(&self, hash: u64) -> Result<Vec<LeafEntry<'a>>, DecodeError> {
        let mut entries = self
            .chain(self.bucket(hash))
            .collect::<Result<Vec<_>, _>>()?;
        entries.retain(|entry| entry.hash == hash);
        entries.sort_unstable_by_key(|entry| entry.cd);
        Ok(entries)
    }

    /// All entries in the order of (hash, collision differentiator).
    pub fn sorted(&self) -> Result<Vec<LeafEntry<'a>>, DecodeError> {
        let mut entries = Vec::with_capacity(self.entry_count.min(self.geometry.chunks));
        for bucket in 0..1 << self.geometry.hash_shift {
            for entry in self.chain(bucket) {
                if entries.len() == self.geometry.chunks {
                    return Err(CYCLE);
                }
                entries.push(entry?);
            }
        }
        entries.sort_unstable_by_key(|entry| (entry.hash, entry.cd));
        Ok(entries)
    }

    /// The hash table's bucket for `hash`: the bits right below the prefix.
    fn bucket(&self, hash: u64) -> usize {
        let mask = (1 << self.geometry.hash_shift) - 1;
        let shift = 64 - self.geometry.hash_shift - self.prefix_length;
        (hash >> shift) as usize & mask
    }

    /// The entries of a bucket in chain order, until the end or the first error.
    fn chain(&self, bucket: usize) -> impl Iterator<Item = Result<LeafEntry<'a>, DecodeError>> {
        let leaf = *self;
        let head = HEADER_SIZE + 2 * bucket;
        let mut next = u16::from_le_bytes([leaf.block[head], leaf.block[head + 1]]);
        let mut left = leaf.geometry.chunks;
        std::iter::from_fn(move || {
            if next == CHAIN_END {
                return None;
            }
            if left == 0 {
                next = CHAIN_END;
                return Some(Err(CYCLE));
            }
            left -= 1;
            let entry = leaf.entry(next);
            next = entry.as_ref().map_or(CHAIN_END, |entry| entry.next);
            Some(entry)
        })
    }

    /// The chunk with this number, if it has the right type.
    fn chunk(&self, number: u16, chunk_type: u8) -> Result<&'a [u8; CHUNK_SIZE], DecodeError> {
        if usize::from(number) >= self.geometry.chunks {
            return bad("chunk number", u64::from(number));
        }
        let start = self.geometry.chunks_offset() + usize::from(number) * CHUNK_SIZE;
        let chunk = self.block[start..start + CHUNK_SIZE].try_into();
        let chunk: &[u8; CHUNK_SIZE] = chunk.expect("exactly a chunk");
        if chunk[0] != chunk_type {
            return bad("chunk type", u64::from(chunk[0]));
        }
        Ok(chunk)
    }

    fn entry(&self, number: u16) -> Result<LeafEntry<'a>, DecodeError> {
        let chunk = self.chunk(number, CHUNK_ENTRY)?;
        let short = |offset: usize| u16::from_le_bytes([chunk[offset], chunk[offset + 1]]);
        let integer_size = chunk[1];
        if !matches!(integer_size, 1 | 2 | 4 | 8) {
            return bad("integer size", u64::from(integer_size));
        }
        Ok(LeafEntry {
            leaf: *self,
            next: short(2),
            name_chunk: short(4),
            name_length: short(6),
            value_chunk: short(8),
            value_length: short(10),
            integer_size,
            cd: wire::u32_le(chunk, 12, STRUCTURE)?,
            hash: wire::u64_le(chunk, 16, STRUCTURE)?,
        })
    }

    /// Calls `take` with the pieces of an array of `length` bytes, until it returns false.
    fn array_pieces(
        &self,
        first: u16,
        length: usize,
        mut take: impl FnMut(&'a [u8]) -> bool,
    ) -> Result<(), DecodeError> {
        if length > self.geometry.chunks * ARRAY_BYTES {
            return bad("array length", length as u64);
        }
        let (mut number, mut left) = (first, length);
        while left > 0 {
            let chunk = self.chunk(number, CHUNK_ARRAY)?;
            let piece = &chunk[1..1 + left.min(ARRAY_BYTES)];
            left -= piece.len();
            if !take(piece) {
                return Ok(());
            }
            number = u16::from_le_bytes([chunk[22], chunk[23]]);
        }
        Ok(())
    }

    fn array(&self, first: u16, length: usize) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::with_capacity(length.min(NAME_SIZE_MAX));
        self.array_pieces(first, length, |piece| {
            bytes.extend_from_slice(piece);
            true
        })?;
        Ok(bytes)
    }
}

impl LeafEntry<'_> {
    /// The key, reassembled.
    pub fn key(&self) -> Result<Key, DecodeError> {
        if self.leaf.word_keys {
            let bytes = self
                .leaf
                .array(self.name_chunk, usize::from(self.name_length) * 8)?;
            let words = bytes.chunks_exact(8).map(|word| {
                let word = word.try_into().expect("chunks of 8 bytes");
                u64::from_be_bytes(word)
            });
            return Ok(Key::Words(words.collect()));
        }
        let mut name = self
            .leaf
            .array(self.name_chunk, usize::from(self.name_length))?;
        if name.pop() != Some(0) {
            return bad("name without NUL, of length", u64::from(self.name_length));
        }
        Ok(Key::Name(name))
    }

    /// The value, reassembled.
    pub fn value(&self) -> Result<Value, DecodeError> {
        let length = usize::from(self.value_length) * usize::from(self.integer_size);
        Ok(Value {
            integer_size: self.integer_size,
            bytes: self.leaf.array(self.value_chunk, length)?,
        })
    }

    /// Everything, copied out of the leaf.
    pub fn to_entry(&self) -> Result<Entry, DecodeError> {
        Ok(Entry {
            key: self.key()?,
            value: self.value()?,
            hash: self.hash,
            cd: self.cd,
        })
    }

    /// Whether the key is exactly this name (without NUL).
    pub fn name_is(&self, name: &[u8]) -> Result<bool, DecodeError> {
        if self.leaf.word_keys || usize::from(self.name_length) != name.len() + 1 {
            return Ok(false);
        }
        self.array_is(self.name_chunk, name)
    }

    /// Whether the array at `first` starts with `bytes`.
    fn array_is(&self, first: u16, bytes: &[u8]) -> Result<bool, DecodeError> {
        let mut rest = bytes;
        let mut equal = true;
        self.leaf.array_pieces(first, bytes.len(), |piece| {
            let (head, tail) = rest.split_at(piece.len());
            rest = tail;
            equal = head == piece;
            equal
        })?;
        Ok(equal)
    }
}

pub(super) const CYCLE: DecodeError = DecodeError::Inconsistent {
    structure: STRUCTURE,
    problem: "a chain of chunks has no end",
};

pub(super) fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::super::hash;
    use super::*;

    const SIZE: usize = 1024;
    const SALT: u64 = 0xbeef;

    /// A leaf without entries, as a writer initializes it.
    fn empty_leaf() -> Vec<u8> {
        let geometry = Geometry::of_block(SIZE).expect("a power of two");
        let mut block = vec![0; SIZE];
        block[..8].copy_from_slice(&BLOCK_TYPE_LEAF.to_le_bytes());
        block[24..28].copy_from_slice(&MAGIC.to_le_bytes());
        block[HEADER_SIZE..geometry.chunks_offset()].fill(0xff);
        block
    }

    fn put_chunk(block: &mut [u8], number: u16, bytes: &[u8]) {
        let geometry = Geometry::of_block(SIZE).expect("a power of two");
        let start = geometry.chunks_offset() + usize::from(number) * CHUNK_SIZE;
        block[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts an array at chunks `first`, `first + 1`, ... and returns its number of bytes.
    fn put_array(block: &mut [u8], first: u16, bytes: &[u8]) {
        for (i, piece) in (first..).zip(bytes.chunks(ARRAY_BYTES)) {
            let mut chunk = [0; CHUNK_SIZE];
            chunk[0] = CHUNK_ARRAY;
            chunk[1..1 + piece.len()].copy_from_slice(piece);
            chunk[22..].copy_from_slice(&(i + 1).to_le_bytes());
            put_chunk(block, i, &chunk);
        }
    }

    /// Puts an entry into `chunk` with its arrays behind it.
    fn put_entry(block: &mut [u8], chunk: u16, name: &[u8], value: &Value, cd: u32) -> u64 {
        let name_with_nul = [name, &[0]].concat();
        let name_chunk = chunk + 1;
        let value_chunk = name_chunk + name_with_nul.len().div_ceil(ARRAY_BYTES) as u16;
        let hash = hash::hash_name(SALT, name, 28);
        let bucket = (hash >> (64 - 5)) as usize;
        let head = HEADER_SIZE + 2 * bucket;
        let mut bytes = vec![CHUNK_ENTRY, value.integer_size];
        bytes.extend(&block[head..head + 2]);
        for short in [
            name_chunk,
            name_with_nul.len() as u16,
            value_chunk,
            value.count() as u16,
        ] {
            bytes.extend(short.to_le_bytes());
        }
        bytes.extend(cd.to_le_bytes());
        bytes.extend(hash.to_le_bytes());
        put_chunk(block, chunk, &bytes);
        block[head..head + 2].copy_from_slice(&chunk.to_le_bytes());
        put_array(block, name_chunk, &name_with_nul);
        put_array(block, value_chunk, &value.bytes);
        hash
    }

    #[test]
    fn geometry_fills_the_block() {
        for shift in 9..=17 {
            let geometry = Geometry::of_block(1 << shift).expect("a power of two");
            let end = geometry.chunks_offset() + geometry.chunks * CHUNK_SIZE;
            assert!((1 << shift) - end < CHUNK_SIZE, "shift {shift}: {end}");
        }
        assert!(Geometry::of_block(1000).is_err() && Geometry::of_block(0).is_err());
    }

    #[test]
    fn long_names_and_values_are_reassembled() {
        let mut block = empty_leaf();
        let name = [b'n'; 60];
        let salt = Value {
            integer_size: 1,
            bytes: (0..32).collect(),
        };
        let first = put_entry(&mut block, 0, &name, &salt, 0);
        let second = put_entry(&mut block, 10, b"config", &Value::from_u64(61), 0);
        let leaf = Leaf::decode(&block, false).expect("valid");
        let entry = leaf
            .lookup_name(first, &name)
            .expect("valid")
            .expect("found");
        assert_eq!(entry.key(), Ok(Key::Name(name.to_vec())));
        assert_eq!(entry.value(), Ok(salt));
        let config = leaf
            .lookup(second, &Key::Name(b"config".to_vec()))
            .expect("valid")
            .expect("found");
        assert_eq!(config.value().expect("valid").as_u64(), Some(61));
        assert!(
            leaf.lookup_name(second, b"confix")
                .expect("valid")
                .is_none()
        );
        let sorted = leaf.sorted().expect("valid");
        let hashes: Vec<_> = sorted.iter().map(|entry| entry.hash).collect();
        assert_eq!(hashes, [first.min(second), first.max(second)]);
    }

    #[test]
    fn cycles_and_wild_pointers_are_errors() {
        let mut block = empty_leaf();
        let hash = put_entry(&mut block, 0, b"a", &Value::from_u64(1), 0);
        let cyclic = {
            let mut block = block.clone();
            put_chunk(&mut block, 0, &[CHUNK_ENTRY, 8, 0, 0]);
            block
        };
        let leaf = Leaf::decode(&cyclic, false).expect("the header is fine");
        assert_eq!(leaf.lookup_name(hash, b"b").err(), Some(CYCLE));
        assert_eq!(leaf.sorted().err(), Some(CYCLE));
        for (offset, bytes) in [(2, [0x70, 0]), (4, [0x70, 0]), (4, [0, 0])] {
            let mut block = block.clone();
            let start = Geometry::of_block(SIZE).expect("valid").chunks_offset() + offset;
            block[start..start + 2].copy_from_slice(&bytes);
            let leaf = Leaf::decode(&block, false).expect("the header is fine");
            let result = leaf.sorted().and_then(|entries| entries[0].key());
            assert!(result.is_err(), "{offset} {bytes:?}");
        }
        block[32] = 60;
        assert!(
            Leaf::decode(&block, false).is_err(),
            "no bits left for buckets"
        );
    }
}
