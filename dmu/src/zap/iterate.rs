//! Iterating over a ZAP, leaf by leaf.

use super::normalize::normalize;
use super::open::{Kind, Zap};
use super::{ZapKey, ZapValue};
use crate::error::DmuError;
use cenote_ondisk::DecodeError;
use cenote_ondisk::zap::Entry;
use cenote_ondisk::zap::cursor::Cursor;

/// An entry and the place behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZapEntry {
    /// The name or the numbers.
    pub key: ZapKey,
    /// The integers.
    pub value: ZapValue,
    /// Where to resume after this entry; see [`Zap::entries_from`].
    pub cursor: u64,
}

/// Iterates over the entries of a ZAP; ends after the first error.
///
/// It holds one leaf's entries. It always ends, even on damaged blocks: each leaf must cover the
/// pointers that led to it, and the next hash to look up lies behind them.
#[derive(Debug)]
pub struct ZapEntries {
    zap: Zap,
    /// The place to resume from; `None` at the end.
    from: Option<Cursor>,
    /// What is left of the leaf in hand.
    leaf: std::vec::IntoIter<Entry>,
    /// The first hash of the next leaf to look at; `None` when none is left.
    next_hash: Option<u64>,
}

impl ZapEntries {
    pub(super) fn new(zap: Zap, cursor: u64) -> Self {
        let from = Cursor::deserialize(cursor, zap.hash_bits());
        Self {
            zap,
            from,
            leaf: Vec::new().into_iter(),
            next_hash: from.map(|from| from.hash),
        }
    }

    /// Takes the entries of the leaf for `hash`.
    fn load_leaf(&mut self, hash: u64) -> Result<(), DmuError> {
        let (entries, next_hash) = self.zap.look(|zap| zap.leaf_entries(hash))?;
        self.leaf = entries.into_iter();
        self.next_hash = next_hash;
        Ok(())
    }
}

impl Zap {
    /// All entries in order of hash and collision differentiator.
    pub fn entries(&self) -> ZapEntries {
        ZapEntries::new(self.clone(), 0)
    }

    /// The entries from a cursor on, as [`ZapEntry::cursor`] or 0 gave it.
    pub fn entries_from(&self, cursor: u64) -> ZapEntries {
        ZapEntries::new(self.clone(), cursor)
    }

    /// The entries of the leaf for `hash`, and the first hash of the next leaf.
    fn leaf_entries(&self, hash: u64) -> Result<(Vec<Entry>, Option<u64>), DmuError> {
        let Kind::Fat(header) = &self.kind else {
            let micro = self.micro();
            let flags = micro.normflags;
            let hash_of = |name: &[u8]| match flags {
                0 => micro.hash(name),
                flags => micro.hash(&normalize(name, flags)),
            };
            return Ok((micro.sorted_from(hash, hash_of), None));
        };
        let index = header.pointer_index(hash);
        let block = self.leaf_block(header, index)?;
        let leaf = self.leaf(header, &block)?;
        if !header.leaf_belongs(index, leaf.prefix, leaf.prefix_length) {
            return Err(self.inconsistent("a leaf stands where its prefix does not belong"));
        }
        let copy = || {
            leaf.sorted()?
                .iter()
                .map(|entry| entry.to_entry())
                .collect()
        };
        let entries: Result<Vec<Entry>, DecodeError> = copy();
        let next = header.next_leaf_index(index, leaf.prefix_length);
        let next_hash = next.map(|next| next << (64 - header.table_shift));
        Ok((entries.map_err(|source| self.malformed(source))?, next_hash))
    }
}

impl Iterator for ZapEntries {
    type Item = Result<ZapEntry, DmuError>;

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.from?;
        loop {
            if let Some(entry) = self.leaf.next() {
                if !from.admits(entry.hash, entry.cd) {
                    continue;
                }
                let after = Cursor::after(entry.hash, entry.cd);
                self.from = Some(after);
                let cursor = after.serialize(self.zap.hash_bits());
                return Some(Ok(ZapEntry {
                    key: entry.key,
                    value: entry.value,
                    cursor,
                }));
            }
            let hash = self.next_hash?;
            if let Err(error) = self.load_leaf(hash) {
                self.from = None;
                return Some(Err(error));
            }
        }
    }
}
