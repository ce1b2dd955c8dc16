//! Iterating over a ZAP, leaf by leaf.

use super::normalize::normalize;
use super::{Kind, STRUCTURE, Zap, ZapKey, ZapValue};
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
    /// Where to go on after this entry; see [`Zap::entries_from`].
    pub cursor: u64,
}

/// Iterates over the entries of a ZAP; ends after the first error.
///
/// It holds one leaf's entries. It ends, whatever the blocks say: each leaf must cover the
/// pointers that led to it, and the next pointer looked at lies behind them.
#[derive(Debug)]
pub struct ZapEntries {
    zap: Zap,
    /// The place to go on from; `None` at the end.
    from: Option<Cursor>,
    /// What is left of the leaf in hand.
    leaf: std::vec::IntoIter<Entry>,
    /// The next pointer to look at; `None` when no leaf is left.
    next_index: Option<u64>,
}

impl ZapEntries {
    pub(super) fn new(zap: Zap, cursor: u64) -> Self {
        let from = Cursor::deserialize(cursor, zap.hash_bits());
        let next_index = from.map(|from| match &zap.kind {
            Kind::Micro => 0,
            Kind::Fat(header) => header.pointer_index(from.hash),
        });
        Self {
            zap,
            from,
            leaf: Vec::new().into_iter(),
            next_index,
        }
    }

    fn load_micro(&mut self) {
        let micro = self.zap.micro();
        let flags = micro.normflags;
        let entries = micro.sorted(|name| micro.hash(&normalize(name, flags)));
        self.leaf = entries.into_iter();
        self.next_index = None;
    }

    fn load_leaf(&mut self, index: u64) -> Result<(), DmuError> {
        let Kind::Fat(header) = &self.zap.kind else {
            self.load_micro();
            return Ok(());
        };
        let block = self.zap.leaf_block(header, index)?;
        let leaf = self.zap.leaf(header, &block)?;
        if !header.leaf_belongs(index, leaf.prefix, leaf.prefix_length) {
            let problem = "a leaf stands where its prefix does not belong";
            let source = DecodeError::Inconsistent {
                structure: STRUCTURE,
                problem,
            };
            return Err(self.zap.malformed(source));
        }
        let copy = || {
            leaf.sorted()?
                .iter()
                .map(|entry| entry.to_entry())
                .collect()
        };
        let entries: Result<Vec<Entry>, DecodeError> = copy();
        self.leaf = entries
            .map_err(|source| self.zap.malformed(source))?
            .into_iter();
        self.next_index = header.next_leaf_index(index, leaf.prefix_length);
        Ok(())
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
            let index = self.next_index?;
            if let Err(error) = self.load_leaf(index) {
                self.from = None;
                return Some(Err(error));
            }
        }
    }
}
