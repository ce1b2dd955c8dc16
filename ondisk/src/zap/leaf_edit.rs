//! Changing a leaf of a fat ZAP in place (format/2b 5.3).
//!
//! A leaf is a heap of equal chunks: entries and pieces of arrays are taken from a list of free
//! chunks and given back to it, so that a change touches a few chunks and two words of the
//! header, whatever the leaf's size. Chains are kept in the order of the collision
//! differentiator. Nothing in the block is trusted: every chunk number is checked, every walk is
//! bounded by the number of chunks.
//!
//! Deliberately absent: which leaf a key belongs to, and what happens when one is full. That is
//! the pointer table's matter, which spans blocks.

use super::leaf::{
    ARRAY_BYTES, CHAIN_END, CHUNK_ARRAY, CHUNK_ENTRY, CHUNK_FREE, CHUNK_SIZE, CYCLE, FLAG_SORTED,
    Geometry, HEADER_SIZE, Leaf, MAGIC, STRUCTURE, bad,
};
use super::{BLOCK_TYPE_LEAF, Key, Value};
use crate::DecodeError;
use crate::wire;
use std::borrow::Cow;

/// The most bytes of a value.
pub const VALUE_SIZE_MAX: usize = 8192;
/// The most bytes of a stored key, with a name's NUL.
pub const KEY_SIZE_MAX: usize = 1024;

const FREE_COUNT: usize = 28;
const ENTRY_COUNT: usize = 30;
const PREFIX_LENGTH: usize = 32;
const FREE_LIST: usize = 34;
const FLAGS: usize = 36;
const ENTRY_NEXT: usize = 2;
const ARRAY_NEXT: usize = 22;

/// A key in the form in which a leaf stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey<'a> {
    bytes: Cow<'a, [u8]>,
    count: u16,
}

impl StoredKey<'_> {
    /// A name (without NUL); `None` for one that is too long, empty or contains a NUL.
    pub fn name(name: &[u8]) -> Option<Self> {
        if name.is_empty() || name.len() >= KEY_SIZE_MAX || name.contains(&0) {
            return None;
        }
        let mut bytes = Vec::with_capacity(name.len() + 1);
        bytes.extend_from_slice(name);
        bytes.push(0);
        Some(Self {
            count: bytes.len() as u16,
            bytes: Cow::Owned(bytes),
        })
    }

    /// A key of numbers; `None` for none or too many.
    pub fn words(words: &[u64]) -> Option<Self> {
        if words.is_empty() || words.len() > KEY_SIZE_MAX / 8 {
            return None;
        }
        let bytes = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Some(Self {
            bytes: Cow::Owned(bytes),
            count: words.len() as u16,
        })
    }

    /// The key with bytes of its own.
    pub fn into_owned(self) -> StoredKey<'static> {
        StoredKey {
            bytes: Cow::Owned(self.bytes.into_owned()),
            count: self.count,
        }
    }

    /// A key of either kind.
    pub fn of(key: &Key) -> Option<Self> {
        match key {
            Key::Name(name) => StoredKey::name(name),
            Key::Words(words) => StoredKey::words(words),
        }
    }
}

/// Chunks that an entry takes.
pub fn chunks_needed(key: &StoredKey<'_>, value: &Value) -> usize {
    1 + key.bytes.len().div_ceil(ARRAY_BYTES) + value.bytes.len().div_ceil(ARRAY_BYTES)
}

/// Whether a leaf can hold the value at all: its integers have a width, and are not too many.
pub fn value_fits(value: &Value) -> bool {
    matches!(value.integer_size, 1 | 2 | 4 | 8)
        && value.bytes.len() <= VALUE_SIZE_MAX
        && value
            .bytes
            .len()
            .is_multiple_of(usize::from(value.integer_size))
}

/// A leaf block that is being changed.
#[derive(Debug)]
pub struct LeafEditor<'a> {
    block: &'a mut [u8],
    geometry: Geometry,
}

/// The place of an entry in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    chunk: u16,
    /// Where the number of the entry's chunk stands: in the hash table or the entry before.
    link: usize,
}

impl<'a> LeafEditor<'a> {
    /// Makes `block` an empty leaf for hashes with this prefix. `sorted` sets the flag that
    /// normalizing ZAPs have.
    pub fn initialize(
        block: &'a mut [u8],
        prefix: u64,
        prefix_length: u32,
        sorted: bool,
    ) -> Result<Self, DecodeError> {
        let geometry = Geometry::of_block(block.len())?;
        block.fill(0);
        block[..8].copy_from_slice(&BLOCK_TYPE_LEAF.to_le_bytes());
        block[24..28].copy_from_slice(&MAGIC.to_le_bytes());
        block[FLAGS] = if sorted { FLAG_SORTED } else { 0 };
        let mut editor = Self { block, geometry };
        editor.set_prefix(prefix, prefix_length)?;
        editor.block[HEADER_SIZE..geometry.chunks_offset()].fill(0xff);
        let chunks = geometry.chunks as u16;
        for number in 0..chunks {
            let next = if number + 1 == chunks {
                CHAIN_END
            } else {
                number + 1
            };
            let at = editor.chunk_start(number);
            editor.block[at] = CHUNK_FREE;
            editor.put_short(at + ARRAY_NEXT, next);
        }
        editor.put_short(FREE_COUNT, chunks);
        editor.put_short(FREE_LIST, 0);
        Ok(editor)
    }

    /// Opens a leaf for changes; its header is checked.
    pub fn open(block: &'a mut [u8]) -> Result<Self, DecodeError> {
        let geometry = Leaf::decode(block, false)?.geometry();
        Ok(Self { block, geometry })
    }

    fn set_prefix(&mut self, prefix: u64, length: u32) -> Result<(), DecodeError> {
        if length + self.geometry.hash_shift > 64 {
            return bad("prefix length", u64::from(length));
        }
        self.block[16..24].copy_from_slice(&prefix.to_le_bytes());
        self.put_short(PREFIX_LENGTH, length as u16);
        Ok(())
    }

    fn short(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.block[at], self.block[at + 1]])
    }

    fn put_short(&mut self, at: usize, value: u16) {
        self.block[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn chunk_start(&self, number: u16) -> usize {
        self.geometry.chunks_offset() + usize::from(number) * CHUNK_SIZE
    }

    /// Where chunk `number` starts, if it is one of this type.
    fn chunk(&self, number: u16, chunk_type: u8) -> Result<usize, DecodeError> {
        if usize::from(number) >= self.geometry.chunks {
            return bad("chunk number", u64::from(number));
        }
        let at = self.chunk_start(number);
        if self.block[at] != chunk_type {
            return bad("chunk type", u64::from(self.block[at]));
        }
        Ok(at)
    }

    /// Free chunks.
    pub fn free_chunks(&self) -> usize {
        usize::from(self.short(FREE_COUNT))
    }

    /// Entries.
    pub fn entry_count(&self) -> usize {
        usize::from(self.short(ENTRY_COUNT))
    }

    /// Bits of the prefix.
    pub fn prefix_length(&self) -> u32 {
        u32::from(self.short(PREFIX_LENGTH))
    }

    /// The prefix, right-aligned.
    pub fn prefix(&self) -> u64 {
        u64::from_le_bytes(wire::array(self.block, 16, STRUCTURE).expect("the header is there"))
    }

    /// Where the number of the first entry of `hash`'s bucket stands.
    fn bucket_link(&self, hash: u64) -> usize {
        let mask = (1 << self.geometry.hash_shift) - 1;
        let shift = 64 - self.geometry.hash_shift - self.prefix_length();
        HEADER_SIZE + 2 * ((hash >> shift) as usize & mask)
    }

    fn entry_hash(&self, at: usize) -> u64 {
        u64::from_le_bytes(wire::array(self.block, at + 16, STRUCTURE).expect("within the chunk"))
    }

    fn entry_cd(&self, at: usize) -> u32 {
        u32::from_le_bytes(wire::array(self.block, at + 12, STRUCTURE).expect("within the chunk"))
    }

    /// Walks `hash`'s bucket until `stop`, which is given an entry's start, says so; returns the
    /// place of the entry where it stopped, or of the chain's end.
    fn walk(
        &self,
        hash: u64,
        mut stop: impl FnMut(&Self, usize) -> Result<bool, DecodeError>,
    ) -> Result<EntryPlace, DecodeError> {
        let mut link = self.bucket_link(hash);
        for _ in 0..=self.geometry.chunks {
            let chunk = self.short(link);
            if chunk == CHAIN_END {
                return Ok(EntryPlace { chunk, link });
            }
            let at = self.chunk(chunk, CHUNK_ENTRY)?;
            if stop(self, at)? {
                return Ok(EntryPlace { chunk, link });
            }
            link = at + ENTRY_NEXT;
        }
        Err(CYCLE)
    }

    /// The entry of exactly this key.
    pub fn find(&self, hash: u64, key: &StoredKey<'_>) -> Result<Option<EntryPlace>, DecodeError> {
        let place = self.walk(hash, |leaf, at| {
            Ok(leaf.entry_hash(at) == hash
                && leaf.short(at + 6) == key.count
                && leaf.array_equals(leaf.short(at + 4), &key.bytes)?)
        })?;
        Ok((place.chunk != CHAIN_END).then_some(place))
    }

    fn array_equals(&self, first: u16, bytes: &[u8]) -> Result<bool, DecodeError> {
        let mut number = first;
        for piece in bytes.chunks(ARRAY_BYTES) {
            let at = self.chunk(number, CHUNK_ARRAY)?;
            if self.block[at + 1..at + 1 + piece.len()] != *piece {
                return Ok(false);
            }
            number = self.short(at + ARRAY_NEXT);
        }
        Ok(true)
    }

    /// The lowest collision differentiator that no entry of this hash has.
    pub fn lowest_free_cd(&self, hash: u64) -> Result<u32, DecodeError> {
        let mut taken = Vec::new();
        self.walk(hash, |leaf, at| {
            if leaf.entry_hash(at) == hash {
                taken.push(leaf.entry_cd(at));
            }
            Ok(false)
        })?;
        taken.sort_unstable();
        let mut lowest = 0;
        for cd in taken {
            if cd == lowest {
                lowest += 1;
            }
        }
        Ok(lowest)
    }

    /// Adds an entry whose key is known not to be there; false if there is no room for it.
    ///
    /// The hash must be one of this leaf's.
    pub fn insert(
        &mut self,
        hash: u64,
        cd: u32,
        key: &StoredKey<'_>,
        value: &Value,
    ) -> Result<bool, DecodeError> {
        if chunks_needed(key, value) > self.free_chunks() {
            return Ok(false);
        }
        let name_chunk = self.put_array(&key.bytes)?;
        let value_chunk = self.put_array(&value.bytes)?;
        let number = self.take_chunk()?;
        let at = self.chunk_start(number);
        let integers = value.bytes.len() / usize::from(value.integer_size);
        self.block[at] = CHUNK_ENTRY;
        self.block[at + 1] = value.integer_size;
        self.put_short(at + 4, name_chunk);
        self.put_short(at + 6, key.count);
        self.put_short(at + 8, value_chunk);
        self.put_short(at + 10, integers as u16);
        self.block[at + 12..at + 16].copy_from_slice(&cd.to_le_bytes());
        self.block[at + 16..at + 24].copy_from_slice(&hash.to_le_bytes());
        self.link_entry(number, hash, cd)?;
        self.put_short(ENTRY_COUNT, self.short(ENTRY_COUNT).wrapping_add(1));
        Ok(true)
    }

    fn link_entry(&mut self, number: u16, hash: u64, cd: u32) -> Result<(), DecodeError> {
        let place = self.walk(hash, |leaf, at| Ok(leaf.entry_cd(at) > cd))?;
        let at = self.chunk_start(number);
        self.put_short(at + ENTRY_NEXT, place.chunk);
        self.put_short(place.link, number);
        Ok(())
    }

    /// Replaces an entry's value; false, and nothing is changed, if there is no room for it.
    pub fn replace(&mut self, place: EntryPlace, value: &Value) -> Result<bool, DecodeError> {
        let at = self.chunk(place.chunk, CHUNK_ENTRY)?;
        let old_size = usize::from(self.short(at + 10)) * usize::from(self.block[at + 1]);
        let old_chunks = old_size.div_ceil(ARRAY_BYTES);
        if value.bytes.len().div_ceil(ARRAY_BYTES) > old_chunks + self.free_chunks() {
            return Ok(false);
        }
        self.free_array(self.short(at + 8), old_size)?;
        let chunk = self.put_array(&value.bytes)?;
        let integers = value.bytes.len() / usize::from(value.integer_size);
        self.block[at + 1] = value.integer_size;
        self.put_short(at + 8, chunk);
        self.put_short(at + 10, integers as u16);
        Ok(true)
    }

    /// The value of an entry.
    pub fn value(&self, place: EntryPlace) -> Result<Value, DecodeError> {
        let at = self.chunk(place.chunk, CHUNK_ENTRY)?;
        let integer_size = self.block[at + 1];
        let size = usize::from(self.short(at + 10)) * usize::from(integer_size);
        Ok(Value {
            integer_size,
            bytes: self.array(self.short(at + 8), size)?,
        })
    }

    /// Removes an entry.
    pub fn remove(&mut self, place: EntryPlace) -> Result<(), DecodeError> {
        let at = self.chunk(place.chunk, CHUNK_ENTRY)?;
        self.put_short(place.link, self.short(at + ENTRY_NEXT));
        self.free_entry(place.chunk)?;
        self.put_short(ENTRY_COUNT, self.short(ENTRY_COUNT).wrapping_sub(1));
        Ok(())
    }

    /// Gives an unlinked entry's chunks back.
    fn free_entry(&mut self, number: u16) -> Result<(), DecodeError> {
        let at = self.chunk(number, CHUNK_ENTRY)?;
        let key_size = self.key_size(at);
        let value_size = usize::from(self.short(at + 10)) * usize::from(self.block[at + 1]);
        self.free_array(self.short(at + 4), key_size)?;
        self.free_array(self.short(at + 8), value_size)?;
        self.give_chunk(number);
        Ok(())
    }

    /// Bytes of an entry's key. Chains say where they end, so that it need not be known here
    /// whether keys are names or numbers: whatever is longer than the chain is cut.
    fn key_size(&self, at: usize) -> usize {
        let mut number = self.short(at + 4);
        let mut chunks = 0;
        while chunks < self.geometry.chunks {
            let Ok(piece) = self.chunk(number, CHUNK_ARRAY) else {
                break;
            };
            chunks += 1;
            number = self.short(piece + ARRAY_NEXT);
        }
        chunks * ARRAY_BYTES
    }

    fn take_chunk(&mut self) -> Result<u16, DecodeError> {
        let number = self.short(FREE_LIST);
        let at = self.chunk(number, CHUNK_FREE)?;
        let free = self.short(FREE_COUNT);
        if free == 0 {
            return bad("free chunks", 0);
        }
        self.put_short(FREE_LIST, self.short(at + ARRAY_NEXT));
        self.put_short(FREE_COUNT, free - 1);
        Ok(number)
    }

    fn give_chunk(&mut self, number: u16) {
        let at = self.chunk_start(number);
        let next = self.short(FREE_LIST);
        self.block[at..at + CHUNK_SIZE].fill(0);
        self.block[at] = CHUNK_FREE;
        self.put_short(at + ARRAY_NEXT, next);
        self.put_short(FREE_LIST, number);
        self.put_short(FREE_COUNT, self.short(FREE_COUNT).wrapping_add(1));
    }

    /// Stores an array and returns its first chunk; [`CHAIN_END`] for an empty one.
    fn put_array(&mut self, bytes: &[u8]) -> Result<u16, DecodeError> {
        let mut link = None;
        let mut first = CHAIN_END;
        for piece in bytes.chunks(ARRAY_BYTES) {
            let number = self.take_chunk()?;
            let at = self.chunk_start(number);
            self.block[at..at + CHUNK_SIZE].fill(0);
            self.block[at] = CHUNK_ARRAY;
            self.block[at + 1..at + 1 + piece.len()].copy_from_slice(piece);
            self.put_short(at + ARRAY_NEXT, CHAIN_END);
            match link {
                Some(link) => self.put_short(link, number),
                None => first = number,
            }
            link = Some(at + ARRAY_NEXT);
        }
        Ok(first)
    }

    fn array(&self, first: u16, size: usize) -> Result<Vec<u8>, DecodeError> {
        if size > self.geometry.chunks * ARRAY_BYTES {
            return bad("array length", size as u64);
        }
        let mut bytes = Vec::with_capacity(size);
        let mut number = first;
        while bytes.len() < size {
            let at = self.chunk(number, CHUNK_ARRAY)?;
            let piece = (size - bytes.len()).min(ARRAY_BYTES);
            bytes.extend_from_slice(&self.block[at + 1..at + 1 + piece]);
            number = self.short(at + ARRAY_NEXT);
        }
        Ok(bytes)
    }

    fn free_array(&mut self, first: u16, size: usize) -> Result<(), DecodeError> {
        let mut number = first;
        for _ in 0..size.div_ceil(ARRAY_BYTES) {
            let at = self.chunk(number, CHUNK_ARRAY)?;
            let next = self.short(at + ARRAY_NEXT);
            self.give_chunk(number);
            number = next;
        }
        Ok(())
    }

    /// Whether every entry has this hash: then no split makes room for another one.
    pub fn is_filled_by(&self, hash: u64) -> Result<bool, DecodeError> {
        for number in self.entry_chunks()? {
            let at = self.chunk(number, CHUNK_ENTRY)?;
            if self.entry_hash(at) != hash {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves the entries of the prefix's upper half into `upper`, a block of the same size that
    /// becomes a leaf; both prefixes grow by a bit.
    pub fn split_into(&mut self, upper: &mut [u8]) -> Result<(), DecodeError> {
        if upper.len() != self.block.len() {
            return bad("size of the new leaf", upper.len() as u64);
        }
        let entries = self.entry_chunks()?;
        let (prefix, length) = (self.prefix(), self.prefix_length());
        let sorted = self.block[FLAGS] & FLAG_SORTED != 0;
        let mut upper = LeafEditor::initialize(upper, prefix << 1 | 1, length + 1, sorted)?;
        self.set_prefix(prefix << 1, length + 1)?;
        self.block[HEADER_SIZE..self.geometry.chunks_offset()].fill(0xff);
        let mut moved = 0;
        for number in entries {
            let at = self.chunk(number, CHUNK_ENTRY)?;
            let (hash, cd) = (self.entry_hash(at), self.entry_cd(at));
            if hash >> (63 - length) & 1 == 0 {
                self.link_entry(number, hash, cd)?;
            } else {
                self.move_entry(number, &mut upper)?;
                moved += 1;
            }
        }
        self.put_short(ENTRY_COUNT, self.short(ENTRY_COUNT).wrapping_sub(moved));
        Ok(())
    }

    /// Moves an unlinked entry to another leaf.
    fn move_entry(&mut self, number: u16, to: &mut LeafEditor<'_>) -> Result<(), DecodeError> {
        let at = self.chunk(number, CHUNK_ENTRY)?;
        let key_bytes = self.array(self.short(at + 4), self.key_size(at))?;
        let key = StoredKey {
            bytes: Cow::Owned(key_bytes),
            count: self.short(at + 6),
        };
        let value_size = usize::from(self.short(at + 10)) * usize::from(self.block[at + 1]);
        let value = Value {
            integer_size: self.block[at + 1].max(1),
            bytes: self.array(self.short(at + 8), value_size)?,
        };
        let (hash, cd) = (self.entry_hash(at), self.entry_cd(at));
        if !to.insert(hash, cd, &key, &value)? {
            return bad("entries in a leaf", u64::from(number));
        }
        self.free_entry(number)
    }

    /// The chunks of all entries.
    fn entry_chunks(&self) -> Result<Vec<u16>, DecodeError> {
        let mut entries = Vec::with_capacity(self.entry_count().min(self.geometry.chunks));
        for bucket in 0..1 << self.geometry.hash_shift {
            let mut number = self.short(HEADER_SIZE + 2 * bucket);
            while number != CHAIN_END {
                if entries.len() == self.geometry.chunks {
                    return Err(CYCLE);
                }
                entries.push(number);
                number = self.short(self.chunk(number, CHUNK_ENTRY)? + ENTRY_NEXT);
            }
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zap::hash::hash_name;
    use std::collections::BTreeMap;

    const SALT: u64 = 0x1357;

    /// A small generator, so that runs repeat.
    struct Random(u64);

    impl Random {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % below
        }
    }

    fn hash(name: &[u8], bits: u32) -> u64 {
        hash_name(SALT, name, bits)
    }

    fn check(block: &[u8], model: &BTreeMap<Vec<u8>, Value>) {
        let leaf = Leaf::decode(block, false).expect("valid");
        let sorted = leaf.sorted().expect("valid");
        assert_eq!(sorted.len(), model.len());
        assert_eq!(leaf.entry_count, model.len());
        let mut used = 0;
        let mut places = std::collections::HashSet::new();
        for entry in sorted {
            let entry = entry.to_entry().expect("valid");
            let name = entry.key.as_name().expect("a name");
            assert_eq!(model.get(name), Some(&entry.value));
            assert!(
                places.insert((entry.hash, entry.cd)),
                "differentiators differ"
            );
            assert!(leaf.covers(entry.hash));
            used += chunks_needed(&StoredKey::name(name).expect("valid"), &entry.value);
        }
        let mut block = block.to_vec();
        let editor = LeafEditor::open(&mut block).expect("valid");
        assert_eq!(editor.free_chunks(), editor.geometry.chunks - used);
        let (mut free, mut number) = (0, editor.short(FREE_LIST));
        while number != CHAIN_END {
            let at = editor.chunk(number, CHUNK_FREE).expect("a free chunk");
            free += 1;
            number = editor.short(at + ARRAY_NEXT);
        }
        assert_eq!(
            free,
            editor.free_chunks(),
            "the list of free chunks is complete"
        );
    }

    fn random_value(random: &mut Random) -> Value {
        let integer_size = 1 << random.next(4);
        let count = random.next(12) as usize;
        Value {
            integer_size,
            bytes: (0..count * usize::from(integer_size))
                .map(|_| random.next(256) as u8)
                .collect(),
        }
    }

    #[test]
    fn agrees_with_a_map() {
        let mut random = Random(7);
        // Two bits of hash: collisions everywhere.
        for bits in [2, 28] {
            let mut block = vec![0; 4096];
            LeafEditor::initialize(&mut block, 0, 0, bits == 2).expect("valid");
            let mut model = BTreeMap::new();
            for _ in 0..3000 {
                let name = format!("{:0>1$}", random.next(60), 1 + random.next(3) as usize * 30);
                let name = name.into_bytes();
                let (hash, key) = (hash(&name, bits), StoredKey::name(&name).expect("valid"));
                let mut leaf = LeafEditor::open(&mut block).expect("valid");
                let place = leaf.find(hash, &key).expect("valid");
                assert_eq!(place.is_some(), model.contains_key(&name));
                let value = random_value(&mut random);
                match place {
                    Some(place) if random.next(2) == 0 => {
                        leaf.remove(place).expect("valid");
                        model.remove(&name);
                    }
                    Some(place) => {
                        if leaf.replace(place, &value).expect("valid") {
                            model.insert(name, value);
                        }
                    }
                    None => {
                        let cd = leaf.lowest_free_cd(hash).expect("valid");
                        if leaf.insert(hash, cd, &key, &value).expect("valid") {
                            model.insert(name, value);
                        }
                    }
                }
            }
            assert!(!model.is_empty());
            check(&block, &model);
        }
    }

    #[test]
    fn splitting_keeps_every_entry() {
        let mut lower = vec![0; 16384];
        let mut leaf = LeafEditor::initialize(&mut lower, 0, 0, false).expect("valid");
        let mut model = BTreeMap::new();
        for i in 0_u64.. {
            let name = format!("name {i}").into_bytes();
            let key = StoredKey::name(&name).expect("valid");
            let value = Value::from_u64(i);
            if !leaf
                .insert(hash(&name, 28), 0, &key, &value)
                .expect("valid")
            {
                break;
            }
            model.insert(name, value);
        }
        assert!(model.len() > 150);
        let mut upper = vec![0; 16384];
        leaf.split_into(&mut upper).expect("valid");
        let (low, high): (BTreeMap<_, _>, BTreeMap<_, _>) = model
            .into_iter()
            .partition(|(name, _)| hash(name, 28) >> 63 == 0);
        check(&lower, &low);
        check(&upper, &high);
        let mut again = vec![0; 16384];
        let mut leaf = LeafEditor::open(&mut upper).expect("valid");
        leaf.split_into(&mut again).expect("valid");
        assert_eq!((leaf.prefix(), leaf.prefix_length()), (2, 2));
        let (low, high) = high
            .into_iter()
            .partition(|(name, _)| hash(name, 28) >> 62 & 1 == 0);
        check(&upper, &low);
        check(&again, &high);
    }

    #[test]
    fn keys_of_numbers() {
        let mut block = vec![0; 1024];
        let mut leaf = LeafEditor::initialize(&mut block, 0, 0, false).expect("valid");
        let words = [0x0102_0304_0506_0708, u64::MAX, 3];
        let key = StoredKey::words(&words).expect("valid");
        leaf.insert(9 << 60, 0, &key, &Value::from_u64(5))
            .expect("valid");
        let mut upper = vec![0; 1024];
        leaf.split_into(&mut upper).expect("valid");
        let leaf = Leaf::decode(&upper, true).expect("valid");
        let entry = leaf.lookup(9 << 60, &Key::Words(words.to_vec()));
        let entry = entry.expect("valid").expect("found");
        assert_eq!(entry.key(), Ok(Key::Words(words.to_vec())));
        assert_eq!(entry.value(), Ok(Value::from_u64(5)));
    }

    #[test]
    fn hostile_leaves_are_errors_and_end() {
        let mut block = vec![0; 512];
        let mut leaf = LeafEditor::initialize(&mut block, 0, 0, false).expect("valid");
        let (name, value) = (StoredKey::name(b"a").expect("valid"), Value::from_u64(1));
        leaf.insert(1 << 63, 0, &name, &value).expect("valid");
        let good = block.clone();
        for at in 0..block.len() {
            for byte in [0, 1, 0x7f, 0xff, CHUNK_ENTRY, CHUNK_FREE, CHUNK_ARRAY] {
                let mut block = good.clone();
                block[at] = byte;
                let Ok(mut leaf) = LeafEditor::open(&mut block) else {
                    continue;
                };
                let other = StoredKey::name(&[b'b'; 50]).expect("valid");
                let _ = leaf.insert(1 << 63, 1, &other, &value);
                let _ = leaf.lowest_free_cd(1 << 63);
                if let Ok(Some(place)) = leaf.find(1 << 63, &name) {
                    let _ = (leaf.value(place), leaf.replace(place, &Value::from_u64(2)));
                    let _ = leaf.remove(place);
                }
                let _ = leaf.split_into(&mut vec![0; 512]);
            }
        }
        assert_eq!(StoredKey::name(b""), None);
        assert_eq!(StoredKey::name(&[b'x'; KEY_SIZE_MAX]), None);
        assert_eq!(StoredKey::words(&[]), None);
    }
}
