//! Telling devices which space is free, and writing to free space once.
//!
//! A range of a top-level vdev's space is mapped to ranges of its leaves. On a mirror it is the
//! same everywhere. The children of a raidz are dealt the sectors of the space in turn, parity
//! among them, so a range is one range of about an n-th on each child. A draid's groups are
//! mapped piece by piece.

use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::leaf::{Leaf, Place};
use crate::shape::Shape;
use crate::tree::{Layout, Slot, Source, Top};
use cenote_base::{Guid, SECTOR_SIZE, VdevId};
use cenote_ondisk::Dva;
use std::ops::Range;

/// Bytes of a draid's space that are mapped at once: few enough to stay within a map's bounds.
const DRAID_PIECE: u64 = 8 << 20;

/// What is done to free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeSpaceAction {
    /// Tell the devices that it holds nothing.
    Discard,
    /// Write a word all over it.
    Initialize {
        /// The word.
        word: u64,
        /// Bytes of a device that are written at a time at most, in whole sectors.
        chunk: u64,
    },
}

impl Shape {
    /// Does something to a free range of a top-level vdev's space, in bytes.
    ///
    /// Leaves that cannot be written to are passed over; devices that do not discard ignore it.
    ///
    /// # Errors
    /// If the range is not within the vdev, or a device fails.
    pub fn treat_free_space(
        &self,
        vdev: VdevId,
        range: Range<u64>,
        action: FreeSpaceAction,
    ) -> Result<(), VdevError> {
        let top = self.top_with(vdev, &range)?;
        for (index, place) in self.leaf_ranges(top, range) {
            if self.tree.leaves[index].is_writable() && !place.is_empty() {
                self.treat(vdev, index, place, action)?;
            }
        }
        Ok(())
    }

    /// The same to one leaf, and only behind the first `from` bytes of its allocatable area.
    /// Returns the bytes of the leaf that were treated.
    ///
    /// # Errors
    /// As [`Self::treat_free_space`], and if the leaf cannot be written to.
    pub fn treat_leaf_space(
        &self,
        vdev: VdevId,
        leaf: Guid,
        range: Range<u64>,
        from: u64,
        action: FreeSpaceAction,
    ) -> Result<u64, VdevError> {
        let places = self.places_on(vdev, leaf, range, from)?;
        let mut bytes = 0;
        for (index, place) in places {
            bytes += place.end - place.start;
            self.treat(vdev, index, place, action)?;
        }
        Ok(bytes)
    }

    /// Where on one leaf, behind the first `from` bytes of its allocatable area, a range of a
    /// top-level vdev's space lies: bytes, and the end of the last of them.
    pub fn leaf_extent(
        &self,
        vdev: VdevId,
        leaf: Guid,
        range: Range<u64>,
        from: u64,
    ) -> Result<(u64, u64), VdevError> {
        let places = self.places_on(vdev, leaf, range, from)?;
        let bytes = places.iter().map(|(_, place)| place.end - place.start);
        let end = places.iter().map(|(_, place)| place.end).max();
        Ok((bytes.sum(), end.unwrap_or(from)))
    }

    /// Whether a leaf's device takes note of discards; `None` if it is not open.
    pub fn can_discard(&self, leaf: Guid) -> Option<bool> {
        let mut leaves = self.tree.leaves.iter();
        let leaf = leaves.find(|other| self.tree.nodes[other.node].guid == leaf)?;
        Some(leaf.device.as_ref()?.can_discard())
    }

    fn places_on(
        &self,
        vdev: VdevId,
        leaf: Guid,
        range: Range<u64>,
        from: u64,
    ) -> Result<Vec<(usize, Range<u64>)>, VdevError> {
        let top = self.top_with(vdev, &range)?;
        let mut places = self.leaf_ranges(top, range);
        places.retain_mut(|(index, place)| {
            place.start = place.start.max(from);
            let node = self.tree.leaves[*index].node;
            self.tree.nodes[node].guid == leaf && place.start < place.end
        });
        Ok(places)
    }

    /// The top-level vdev, which must have all of `range`.
    fn top_with(&self, vdev: VdevId, range: &Range<u64>) -> Result<&Top, VdevError> {
        let Some(top) = self.top(vdev) else {
            let vdevs = self.tree.tops.len();
            let dva = Dva::default();
            return Err(VdevError::NoSuchVdev { dva, vdevs });
        };
        if range.end > top.asize || range.start > range.end {
            let dva = place_of(vdev, range.start);
            let (size, asize) = (0, top.asize);
            return Err(VdevError::OutOfRange { dva, size, asize });
        }
        Ok(top)
    }

    fn treat(
        &self,
        vdev: VdevId,
        index: usize,
        place: Range<u64>,
        action: FreeSpaceAction,
    ) -> Result<(), VdevError> {
        let leaf = &self.tree.leaves[index];
        let start = place.start;
        let done = match action {
            FreeSpaceAction::Discard => leaf.discard(start, place.end - start),
            FreeSpaceAction::Initialize { word, chunk } => {
                let sector = 1 << self.top(vdev).map_or(0, |top| top.ashift);
                fill(leaf, place, word, (chunk & !(sector - 1)).max(sector))
            }
        };
        done.map_err(|problem| {
            let mut failures = LeafFailures::default();
            self.note(&mut failures, index, problem);
            let (dva, size) = (place_of(vdev, start), 0);
            VdevError::Unwritten {
                dva,
                size,
                failures,
            }
        })
    }

    /// The ranges of leaves that hold nothing but this range of a top-level vdev.
    fn leaf_ranges(&self, top: &Top, range: Range<u64>) -> Vec<(usize, Range<u64>)> {
        let mut ranges = Vec::new();
        let mut add = |slot: &Slot, range: Range<u64>| {
            for source in &slot.sources {
                if let Source::Leaf(leaf) = *source {
                    ranges.push((leaf, range.clone()));
                }
            }
        };
        match &top.layout {
            Layout::Slot(slot) => add(slot, range),
            Layout::Raidz { geometry, slots } if !geometry.is_reflowing() => {
                for (child, slot) in slots.iter().enumerate() {
                    add(slot, geometry.child_range(child, range.clone()));
                }
            }
            Layout::Draid { geometry, slots } => {
                let unit = geometry.stripe_bytes();
                let mut start = range.start.next_multiple_of(unit);
                let end = range.end / unit * unit;
                while start < end {
                    let stripes = (end - start).min(DRAID_PIECE.next_multiple_of(unit)) / unit;
                    let map = geometry.map(start, stripes * geometry.allocation_min());
                    for column in map.rows.iter().flat_map(|row| &row.columns) {
                        let place = column.offset..column.offset + column.length;
                        add(&slots[column.child], place);
                    }
                    start += stripes * unit;
                }
            }
            _ => {}
        }
        ranges
    }
}

/// An address, for messages.
fn place_of(vdev: VdevId, start: u64) -> Dva {
    Dva::new(vdev, start / SECTOR_SIZE * SECTOR_SIZE, SECTOR_SIZE)
}

/// Writes `word` all over a range of a leaf.
fn fill(leaf: &Leaf, range: Range<u64>, word: u64, chunk: u64) -> Result<(), LeafProblem> {
    const PIECE_MAX: u64 = 1 << 20;
    let piece = chunk.min(PIECE_MAX) as usize;
    let pattern: Vec<u8> = word.to_le_bytes().repeat(piece / 8);
    let mut start = range.start;
    while start < range.end {
        let length = usize::try_from(range.end - start).map_or(piece, |left| left.min(piece));
        leaf.initialize(Place::at(start), &pattern[..length])?;
        start += length as u64;
    }
    Ok(())
}
