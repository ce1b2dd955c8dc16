//! Bringing a leaf what it misses in the order of the disk, without knowing blocks.
//!
//! On a mirror every side holds the same bytes at the same place. On a draid every row of sectors
//! has its parity, whatever blocks lie in it: rows are written whole, with zeros where a block has
//! nothing (format/1c 4). So a range of the vdev's space can be read as if it were one block, from
//! leaves that have it, and written to one that has not. A rebuild cannot tell whether the bytes
//! are right, so a scrub has to follow. On a raidz the parity of a sector depends on where its
//! block begins, so a rebuild is not possible there.

use crate::dtl::ResilverTarget;
use crate::error::{LeafFailures, VdevError};
use crate::io_context::IoContext;
use crate::missed::Missed;
use crate::request::FaultKind;
use crate::shape::Shape;
use crate::tree::Layout;
use crate::txg_set::TxgSet;
use cenote_base::{Guid, Txg, VdevId};
use cenote_ondisk::Dva;
use std::ops::Range;

/// Bytes of a vdev's space that are read at a time, about.
const PIECE: u64 = 1 << 20;

impl Shape {
    /// Whether a vdev can be rebuilt in the order of the disk.
    pub fn can_rebuild(&self, vdev: VdevId) -> bool {
        let layout = self.top(vdev).map(|top| &top.layout);
        matches!(layout, Some(Layout::Slot(_) | Layout::Draid { .. }))
    }

    /// The pieces in which an allocated range of a vdev's space is rebuilt.
    pub fn rebuild_pieces(&self, vdev: VdevId, range: &Range<u64>) -> Vec<Range<u64>> {
        let Some(top) = self.top(vdev) else {
            return Vec::new();
        };
        let unit = match &top.layout {
            Layout::Draid { geometry, .. } => geometry.stripe_bytes(),
            _ => 1 << top.ashift,
        };
        let piece = (PIECE / unit).max(1) * unit;
        let mut pieces = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start.saturating_add(piece));
            pieces.push(start..end);
            start = end;
        }
        pieces
    }

    /// Reads a piece of a vdev's space from leaves that have what the targets miss, and writes it
    /// to those of them that hold a part of it. Returns the bytes that were read.
    ///
    /// The caller keeps the space from being given to another block meanwhile.
    ///
    /// # Errors
    /// If the piece cannot be read, or a target did not take its part.
    pub fn rebuild(
        &self,
        vdev: VdevId,
        piece: Range<u64>,
        missed: Txg,
        targets: &[Guid],
        io: &IoContext,
    ) -> Result<u64, VdevError> {
        let asize = piece.end - piece.start;
        let dva = Dva::new(vdev, piece.start, asize);
        let data = match self.top(vdev).map(|top| &top.layout) {
            Some(Layout::Draid { geometry, .. }) => {
                asize / geometry.stripe_bytes() * geometry.allocation_min()
            }
            _ => asize,
        };
        let size = usize::try_from(data).map_err(|_| VdevError::BadSize { dva, size: 0 })?;
        // What a target does not take now it must not count as having.
        let unready = self.leaves_that(dva, size, missed, |holder, _| {
            let is_target = |leaf| targets.contains(&self.guid_of_leaf(leaf));
            let is_meant = is_target(holder.leaf) || holder.spare.is_some_and(is_target);
            is_meant && !self.tree.leaves[holder.leaf].is_writable()
        })?;
        let unwritten = || VdevError::Unwritten {
            dva,
            size,
            failures: LeafFailures::default(),
        };
        if !unready.is_empty() {
            return Err(unwritten());
        }
        // None of the targets holds a part.
        if self.stale_leaves(dva, size, missed)?.is_empty() {
            return Ok(0);
        }
        let read = self.read(dva, size, missed, &|_| true, io)?;
        // Then it may have come from a target itself.
        if read
            .wrong
            .iter()
            .any(|fault| fault.kind == FaultKind::Unreadable)
        {
            return Err(unwritten());
        }
        self.repair(dva, &read.bytes, missed, targets, io)?;
        Ok(data)
    }

    /// Whether a leaf in use that is none of the targets lacks something too. Then its bytes may be
    /// old, and a rebuild, which knows no blocks, cannot tell.
    pub fn has_doubtful_source(&self, vdev: VdevId, targets: &[Guid]) -> bool {
        let Some(top) = self.top(vdev).map(|top| top.node) else {
            return true;
        };
        let mut leaves = (0..self.tree.leaves.len()).filter(|leaf| {
            self.top_of_leaf(*leaf) == top && !targets.contains(&self.guid_of_leaf(*leaf))
        });
        leaves.any(|leaf| {
            let leaf = &self.tree.leaves[leaf];
            leaf.is_writable() && !leaf.missed.missing().is_empty()
        })
    }

    /// What leaves miss of what was written before `below`, as far as they can be given it.
    pub fn rebuild_targets(&self, leaves: &[Guid], below: Txg) -> Vec<ResilverTarget> {
        let later = TxgSet::from_ranges(std::iter::once(below..Txg(u64::MAX)));
        let leaves = leaves.iter().filter_map(|guid| self.tree.leaf_of.get(guid));
        let targets = leaves.map(|leaf| self.target(&self.tree.leaves[*leaf]));
        let limited = targets.map(|mut target| {
            target.txgs = target.txgs.without(&later);
            target
        });
        limited.collect()
    }

    /// The targets have all that they were to get, and it has been flushed. Returns those that
    /// were out of use meanwhile, and miss what they missed before.
    pub fn end_rebuild(&self, targets: &[ResilverTarget]) -> Vec<Guid> {
        let mut interrupted = Vec::new();
        for target in targets {
            let log = self.missed_of(target.leaf);
            match log.filter(|_| self.is_reached(target)) {
                Some(missed) => missed.strike(&target.txgs),
                None => interrupted.push(target.leaf),
            }
        }
        interrupted
    }

    fn missed_of(&self, leaf: Guid) -> Option<&Missed> {
        let leaf = self.tree.leaf_of.get(&leaf)?;
        Some(&self.tree.leaves[*leaf].missed)
    }
}
