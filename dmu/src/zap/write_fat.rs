//! Changing fat ZAPs (format/2b 5.2, 5.3): leaves, their splitting, and the pointer table.
//!
//! A key's leaf is changed in place; a leaf without room is split by the next bit of the hashes,
//! until there is room; when a leaf's prefix is as long as the pointer table's index, the table
//! doubles, in one step. A doubling that other software left half done is completed first.

use super::normalize::normalize;
use super::open::{Kind, Zap};
use super::problem::{TOO_MANY_EQUAL, block_of, cannot, exists, full, inconsistent};
use super::store::{KeyRef, Mode, Store};
use super::{ZapKey, ZapValue};
use crate::error::DmuError;
use crate::object::Object;
use crate::txg::Transaction;
use cenote_base::BlockId;
use cenote_cache::Block;
use cenote_ondisk::DecodeError;
use cenote_ondisk::zap::fat_header::{FLAG_HASH64, FatHeader};
use cenote_ondisk::zap::leaf::{Geometry, Leaf};
use cenote_ondisk::zap::leaf_edit::{LeafEditor, StoredKey, chunks_needed};

/// The largest collision differentiator with 28 bits of hash, and with 48.
const CD_MAX: u32 = u32::MAX - 1;
const CD_MAX_HASH64: u32 = 65534;
/// Bytes from the start of the first block on that hold a header's fields.
const HEADER_SIZE: usize = 128;
/// Bits of hash that the table's index must leave over.
const HASH_BITS_SPARE: u32 = 2;

/// Writes the header block and the first leaf of an empty ZAP into an object whose block size is
/// the header's.
pub(super) fn write_empty(
    object: &Object,
    tx: &Transaction,
    header: &FatHeader,
) -> Result<(), DmuError> {
    let size = 1_usize << header.block_shift;
    let mut first = vec![0; size];
    header.encode_into(&mut first);
    for pointer in first[size / 2..].chunks_exact_mut(8) {
        pointer.copy_from_slice(&1_u64.to_le_bytes());
    }
    let mut leaf = vec![0; size];
    LeafEditor::initialize(&mut leaf, 0, 0, header.normflags != 0)
        .map_err(|source| object.malformed(source))?;
    object.write(tx, 0, &first)?;
    object.write(tx, size as u64, &leaf)
}

/// What happened to a leaf.
enum Outcome {
    Added,
    Replaced,
    Exists,
    Full,
    NoDifferentiator,
}

/// A fat ZAP that is being changed. The header is kept apart and written by [`Self::finish`].
pub(super) struct FatEditor<'t> {
    object: Object,
    before: FatHeader,
    header: FatHeader,
    tx: &'t Transaction,
}

impl Zap {
    /// Must be a fat one.
    pub(super) fn into_fat_editor(self, tx: &Transaction) -> FatEditor<'_> {
        let Kind::Fat(header) = self.kind else {
            unreachable!("the caller has matched it");
        };
        // The block is released, so that it can be changed without a copy.
        drop(self.block0);
        FatEditor {
            object: self.object,
            before: FatHeader::clone(&header),
            header: *header,
            tx,
        }
    }
}

impl FatEditor<'_> {
    fn malformed(&self, source: DecodeError) -> DmuError {
        self.object.malformed(source)
    }

    fn inconsistent(&self, problem: &'static str) -> DmuError {
        inconsistent(&self.object, problem)
    }

    fn cannot(&self, problem: &'static str) -> DmuError {
        cannot(&self.object, problem)
    }

    fn full(&self, problem: &'static str) -> DmuError {
        full(&self.object, problem)
    }

    fn block(&self, id: BlockId) -> Result<Block, DmuError> {
        block_of(&self.object, id)
    }

    /// Refuses entries that not even an empty leaf has room for.
    fn check_size(&self, key: &StoredKey<'_>, value: &ZapValue) -> Result<(), DmuError> {
        let geometry = Geometry::of_block(1 << self.header.block_shift);
        let chunks = geometry.map_err(|source| self.malformed(source))?.chunks;
        match chunks_needed(key, value) > chunks {
            true => Err(self.cannot("a key and value do not fit into one of its blocks")),
            false => Ok(()),
        }
    }

    fn hash(&self, key: KeyRef<'_>) -> u64 {
        match key {
            KeyRef::Words(words) => self.header.hash_words(words),
            KeyRef::Name(name) if self.header.normflags == 0 => self.header.hash_name(name),
            KeyRef::Name(name) => self
                .header
                .hash_name(&normalize(name, self.header.normflags)),
        }
    }

    /// Writes the header.
    pub(super) fn finish(self) -> Result<(), DmuError> {
        self.object
            .write_part_from(self.tx, (BlockId(0), 0..HEADER_SIZE), |block| {
                self.header.encode_into(block);
            })
    }

    pub(super) fn store(
        mut self,
        store: Store<'_>,
        stored: &StoredKey<'_>,
    ) -> Result<(), DmuError> {
        self.check_size(stored, store.value)?;
        let hash = self.hash(store.key);
        loop {
            let leaf_id = self.leaf_of(hash)?;
            let max = self.cd_max();
            let outcome = self.edit(leaf_id, |leaf| {
                match (leaf.find(hash, stored)?, store.mode) {
                    (Some(_), Mode::Insert) => Ok(Outcome::Exists),
                    (Some(place), Mode::Update) => match leaf.replace(place, store.value)? {
                        true => Ok(Outcome::Replaced),
                        false => Ok(Outcome::Full),
                    },
                    (None, _) => add_to_leaf(leaf, hash, None, max, (stored, store.value)),
                }
            })?;
            match outcome {
                Outcome::Added => {
                    self.header.entries = self.header.entries.saturating_add(1);
                    return self.finish();
                }
                Outcome::Replaced => return self.finish_if_changed(),
                Outcome::Exists => return Err(exists(&self.object)),
                Outcome::NoDifferentiator => return Err(self.full(TOO_MANY_EQUAL)),
                Outcome::Full => self.split(leaf_id, hash)?,
            }
        }
    }

    /// Adds an entry that is known not to be there; the header is left for [`Self::finish`].
    pub(super) fn add(
        &mut self,
        hash: u64,
        cd: Option<u32>,
        key: &StoredKey<'_>,
        value: &ZapValue,
    ) -> Result<(), DmuError> {
        loop {
            let leaf_id = self.leaf_of(hash)?;
            let max = self.cd_max();
            let add = |leaf: &mut LeafEditor<'_>| add_to_leaf(leaf, hash, cd, max, (key, value));
            match self.edit(leaf_id, add)? {
                Outcome::Full => self.split(leaf_id, hash)?,
                Outcome::Added => break,
                _ => return Err(self.full(TOO_MANY_EQUAL)),
            }
        }
        self.header.entries = self.header.entries.saturating_add(1);
        Ok(())
    }

    pub(super) fn remove(
        mut self,
        key: KeyRef<'_>,
        stored: &StoredKey<'_>,
    ) -> Result<bool, DmuError> {
        let hash = self.hash(key);
        let leaf_id = self.leaf_of(hash)?;
        // Only a look: a leaf that lacks the key is not changed.
        if !self.has(leaf_id, hash, key)? {
            return Ok(false);
        }
        self.edit(leaf_id, |leaf| match leaf.find(hash, stored)? {
            Some(place) => leaf.remove(place),
            None => Ok(()),
        })?;
        self.header.entries = self.header.entries.saturating_sub(1);
        self.finish()?;
        Ok(true)
    }

    fn finish_if_changed(self) -> Result<(), DmuError> {
        match self.before == self.header {
            true => Ok(()),
            false => self.finish(),
        }
    }

    fn cd_max(&self) -> u32 {
        match self.header.flags & FLAG_HASH64 {
            0 => CD_MAX,
            _ => CD_MAX_HASH64,
        }
    }

    /// The leaf of a hash.
    fn leaf_of(&self, hash: u64) -> Result<BlockId, DmuError> {
        let place = self.header.pointer_place(self.header.pointer_index(hash));
        let table = self.block(place.block)?;
        let leaf = self.header.pointer(&table, place);
        leaf.map_err(|source| self.malformed(source))
    }

    /// Changes a leaf in place.
    fn edit<R>(
        &self,
        leaf: BlockId,
        change: impl FnOnce(&mut LeafEditor<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, DmuError> {
        let mut result = None;
        self.object.write_part(self.tx, leaf, |block| {
            result = Some(LeafEditor::open(block).and_then(|mut leaf| change(&mut leaf)));
        })?;
        let result = result.expect("write_part calls its closure");
        result.map_err(|source| self.malformed(source))
    }

    /// Whether a leaf has a key.
    fn has(&self, leaf: BlockId, hash: u64, key: KeyRef<'_>) -> Result<bool, DmuError> {
        let block = self.block(leaf)?;
        let found = Leaf::decode(&block, self.header.has_word_keys()).and_then(|leaf| {
            let entry = match key {
                KeyRef::Name(name) => leaf.lookup_name(hash, name)?,
                KeyRef::Words(words) => leaf.lookup(hash, &ZapKey::Words(words.to_vec()))?,
            };
            Ok(entry.is_some())
        });
        found.map_err(|source| self.malformed(source))
    }

    /// Splits a leaf in two, for room for an entry of `hash`; doubles the table first if that
    /// takes it.
    fn split(&mut self, leaf_id: BlockId, hash: u64) -> Result<(), DmuError> {
        let mut lower = self.block(leaf_id)?.to_vec();
        let mut look = || {
            let leaf = LeafEditor::open(&mut lower)?;
            Ok((
                leaf.prefix(),
                leaf.prefix_length(),
                leaf.is_filled_by(hash)?,
            ))
        };
        let (prefix, length, is_hopeless) = look().map_err(|source| self.malformed(source))?;
        if is_hopeless {
            return Err(self.full(TOO_MANY_EQUAL));
        }
        self.finish_growth()?;
        if length > self.header.table_shift {
            return Err(self.inconsistent("a leaf's prefix is longer than the table's index"));
        }
        if length == self.header.table_shift {
            self.grow_table()?;
        }
        let mut upper = vec![0; lower.len()];
        LeafEditor::open(&mut lower)
            .and_then(|mut leaf| leaf.split_into(&mut upper))
            .map_err(|source| self.malformed(source))?;
        let upper_id = self.take_blocks(1)?;
        self.write_whole(upper_id, &upper)?;
        self.write_whole(leaf_id, &lower)?;
        let span = self.header.table_shift - length - 1;
        let first = (prefix << 1 | 1) << span;
        self.point(first, 1 << span, upper_id)?;
        self.header.leaves = self.header.leaves.saturating_add(1);
        Ok(())
    }

    fn write_whole(&self, block: BlockId, bytes: &[u8]) -> Result<(), DmuError> {
        let offset = block.0 << self.header.block_shift;
        self.object.write(self.tx, offset, bytes)
    }

    /// Takes blocks that were never used.
    fn take_blocks(&mut self, count: u64) -> Result<BlockId, DmuError> {
        let first = self.header.free_block;
        let end = first.0.checked_add(count);
        let end = end.filter(|end| *end < 1 << (63 - self.header.block_shift));
        self.header.free_block =
            BlockId(end.ok_or_else(|| self.inconsistent("it has no free block left"))?);
        Ok(first)
    }

    /// Lets `count` pointers from `first` on point to `leaf`.
    fn point(&self, first: u64, count: u64, leaf: BlockId) -> Result<(), DmuError> {
        let end = first + count;
        if end > self.header.pointers() {
            return Err(self.inconsistent("a leaf's prefix is beyond the table"));
        }
        let mut index = first;
        while index < end {
            let place = self.header.pointer_place(index);
            let mut done = 0;
            self.object.write_part(self.tx, place.block, |table| {
                let here = table[place.offset..].chunks_exact_mut(8);
                for pointer in here.take((end - index) as usize) {
                    pointer.copy_from_slice(&leaf.0.to_le_bytes());
                    done += 1;
                }
            })?;
            index += done;
        }
        Ok(())
    }

    /// Completes a doubling of the table that was left half done.
    fn finish_growth(&mut self) -> Result<(), DmuError> {
        match self.header.next_table_block {
            Some(next) if self.header.table_block.is_some() => self.double_external(next),
            _ => Ok(()),
        }
    }

    /// Doubles the table.
    fn grow_table(&mut self) -> Result<(), DmuError> {
        if self.header.table_shift + HASH_BITS_SPARE >= self.header.hash_bits() {
            return Err(self.full("its table cannot grow any more"));
        }
        if self.header.table_block.is_some() {
            let next = self.take_blocks(2 * self.header.table_blocks)?;
            return self.double_external(next);
        }
        let first = self.block(BlockId(0))?;
        let table = doubled(&first[first.len() / 2..]);
        drop(first);
        let block = self.take_blocks(1)?;
        self.write_whole(block, &table)?;
        self.header.table_block = Some(block);
        self.header.table_blocks = 1;
        self.header.table_shift += 1;
        Ok(())
    }

    /// Copies the table, doubled, to `next` and uses it from then on.
    fn double_external(&mut self, next: BlockId) -> Result<(), DmuError> {
        let old = self.header.table_block.unwrap_or_default();
        let blocks = self.header.table_blocks;
        for i in 0..blocks {
            let source = self.block(BlockId(old.0 + i))?;
            let table = doubled(&source);
            drop(source);
            let (low, high) = table.split_at(table.len() / 2);
            self.write_whole(BlockId(next.0 + 2 * i), low)?;
            self.write_whole(BlockId(next.0 + 2 * i + 1), high)?;
        }
        self.header.table_block = Some(next);
        self.header.table_blocks = 2 * blocks;
        self.header.table_shift += 1;
        (self.header.next_table_block, self.header.blocks_copied) = (None, 0);
        // Readers that hold the old header must not find holes: it is replaced first.
        self.object
            .write_part_from(self.tx, (BlockId(0), 0..HEADER_SIZE), |block| {
                self.header.encode_into(block);
            })?;
        let shift = self.header.block_shift;
        self.object
            .free_range(self.tx, old.0 << shift, blocks << shift)
    }
}

/// Every pointer twice.
fn doubled(table: &[u8]) -> Vec<u8> {
    let pointers = table.chunks_exact(8);
    pointers
        .flat_map(|pointer| [pointer, pointer].concat())
        .collect()
}

fn add_to_leaf(
    leaf: &mut LeafEditor<'_>,
    hash: u64,
    cd: Option<u32>,
    cd_max: u32,
    (key, value): (&StoredKey<'_>, &ZapValue),
) -> Result<Outcome, DecodeError> {
    let cd = match cd {
        Some(cd) => cd,
        None => leaf.lowest_free_cd(hash)?,
    };
    if cd > cd_max {
        return Ok(Outcome::NoDifferentiator);
    }
    match leaf.insert(hash, cd, key, value)? {
        true => Ok(Outcome::Added),
        false => Ok(Outcome::Full),
    }
}
