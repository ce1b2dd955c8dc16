//! The groups in which the parts of a block came to where they are.
//!
//! A device that was away has a gap: it lacks what was written meanwhile. Usually a block was
//! written in the group of its physical birth. A block of a removed vdev is older than its place:
//! the removal copied it, and a device that was away then lacks the copy, however old the block
//! is. So a gap is compared with the group of the copying (format/1c 6), of each part of a block
//! by itself, and with the last one if the part was moved several times.
//!
//! What is not known in detail counts as written in all groups in which anything was copied: the
//! members of a gang, whose addresses stand in its header, and what lies below a block that cannot
//! be read.

use crate::error::VdevError;
use crate::indirect_mapping::IndirectMapping;
use crate::shape::Shape;
use crate::tree::Layout;
use crate::txg_set::TxgSet;
use cenote_base::{Guid, Txg};
use cenote_ondisk::{BlockPointer, Dva};
use std::sync::Arc;

impl Shape {
    /// All groups in which removals copied something.
    pub fn copied_in(&self) -> TxgSet {
        let mappings = self.tree.tops.iter().filter_map(|top| match &top.layout {
            Layout::Indirect(mapping) => {
                let mapping = mapping.read();
                mapping.clone()
            }
            _ => None,
        });
        let mappings: Vec<Arc<IndirectMapping>> = mappings.collect();
        let txgs = mappings.iter().flat_map(|mapping| mapping.copied_in());
        TxgSet::from_ranges(txgs.map(|txg| txg..Txg(txg.0.saturating_add(1))))
    }

    /// The groups in which the parts of the block of `size` stored bytes at `dva` were written.
    ///
    /// # Errors
    /// If there can be no such block.
    pub fn written_in(&self, dva: Dva, size: usize, birth: Txg) -> Result<TxgSet, VdevError> {
        self.written_to(dva, size, birth, |_| true)
    }

    /// The groups in which those parts of a block were written that are on leaves that are meant.
    fn written_to(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        is_meant: impl Fn(Guid) -> bool,
    ) -> Result<TxgSet, VdevError> {
        let mut txgs = TxgSet::default();
        self.for_each_holder(dva, size, birth, |holder, written| {
            let spare = holder.spare.map(|spare| self.guid_of_leaf(spare));
            if is_meant(self.guid_of_leaf(holder.leaf)) || spare.is_some_and(&is_meant) {
                txgs.insert(written);
            }
        })?;
        Ok(txgs)
    }

    /// Whether any part of a block may have been written in any of these groups.
    pub fn is_written_in(&self, pointer: &BlockPointer, txgs: &TxgSet) -> bool {
        let birth = pointer.physical_birth();
        if txgs.contains(birth) {
            return true;
        }
        if pointer.is_gang() {
            return txgs.intersects(&self.copied_in());
        }
        let was_removed = |dva: &Dva| {
            let top = self.top(dva.vdev()).map(|top| &top.layout);
            matches!(top, Some(Layout::Indirect(_)))
        };
        let size = usize::try_from(pointer.physical_size()).unwrap_or(usize::MAX);
        let mut moved = pointer.dvas().filter(was_removed);
        // An address that is none leads to nothing that a device could lack.
        moved.any(|dva| {
            let written = self.written_in(dva, size, birth);
            written.is_ok_and(|written| written.intersects(txgs))
        })
    }

    /// Notes that an existing block got one more reference. A walk that is past that place does not
    /// come again, and the reference that it would have followed may be removed before. So a
    /// resilver under way does not count for the groups in which the block was written.
    pub fn note_shared(&self, pointer: &BlockPointer) {
        let missing = self.tree.leaves.iter().filter(|leaf| leaf.missed.is_any());
        let missing: Vec<_> = missing.map(|leaf| &leaf.missed).collect();
        if missing.is_empty() {
            return;
        }
        let birth = pointer.physical_birth();
        let size = usize::try_from(pointer.physical_size()).unwrap_or(usize::MAX);
        let mut written = TxgSet::from_ranges([birth..Txg(birth.0.saturating_add(1))]);
        match pointer.is_gang() {
            true => written = written.with(&self.copied_in()),
            false => {
                for dva in pointer.dvas() {
                    let parts = self.written_in(dva, size, birth).unwrap_or_default();
                    written = written.with(&parts);
                }
            }
        }
        for missed in missing {
            missed.note_all_unrepaired(&written.within(&missed.missing()));
        }
    }

    /// Notes that what a leaf should have of the block of `size` stored bytes at `dva` could not
    /// be brought to it: it still misses the groups of that when the resilver ends.
    pub fn note_unrepaired_block(&self, leaf: Guid, dva: Dva, size: usize, birth: Txg) {
        let written = self.written_to(dva, size, birth, |guid| guid == leaf);
        // The address was good enough to find out that the leaf lacks something.
        let written = written.unwrap_or_default();
        match written.is_empty() {
            true => self.note_unrepaired(leaf, birth),
            false => {
                if let Some(leaf) = self.tree.leaf_of.get(&leaf) {
                    self.tree.leaves[*leaf].missed.note_all_unrepaired(&written);
                }
            }
        }
    }
}
