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
use cenote_base::{SECTOR_SIZE, VdevId};
use cenote_ondisk::Dva;
use std::ops::Range;

/// Bytes of a draid's space that are mapped at once: few enough to stay within a map's bounds.
const DRAID_PIECE: u64 = 8 << 20;

/// What is done to free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeSpaceAction {
    /// Tell the devices that it holds nothing.
    Discard,
    /// Write this word all over it.
    Initialize(u64),
}

impl Shape {
    /// Does something to a free range of a top-level vdev's space, in bytes.
    ///
    /// Leaves that cannot be written to are passed over; devices that do not discard ignore it.
    ///
    /// # Errors
    /// If the range is not within the vdev, or a device fails.
    pub(crate) fn treat_free_space(
        &self,
        vdev: VdevId,
        range: Range<u64>,
        action: FreeSpaceAction,
    ) -> Result<(), VdevError> {
        let Some(top) = self.top(vdev) else {
            let vdevs = self.tree.tops.len();
            let dva = Dva::default();
            return Err(VdevError::NoSuchVdev { dva, vdevs });
        };
        let dva = Dva::new(vdev, range.start / SECTOR_SIZE * SECTOR_SIZE, SECTOR_SIZE);
        if range.end > top.asize || range.start > range.end {
            let (size, asize) = (0, top.asize);
            return Err(VdevError::OutOfRange { dva, size, asize });
        }
        for (index, place) in self.leaf_ranges(top, range) {
            let leaf = &self.tree.leaves[index];
            if !leaf.is_writable() || place.is_empty() {
                continue;
            }
            let done = match action {
                FreeSpaceAction::Discard => leaf.discard(place.start, place.end - place.start),
                FreeSpaceAction::Initialize(word) => fill(leaf, place, word),
            };
            if let Err(problem) = done {
                let mut failures = LeafFailures::default();
                self.note(&mut failures, index, problem);
                let size = 0;
                return Err(VdevError::Unwritten {
                    dva,
                    size,
                    failures,
                });
            }
        }
        Ok(())
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

/// Writes `word` all over a range of a leaf.
fn fill(leaf: &Leaf, range: Range<u64>, word: u64) -> Result<(), LeafProblem> {
    const PIECE: usize = 1 << 20;
    let pattern: Vec<u8> = word.to_le_bytes().repeat(PIECE / 8);
    let mut start = range.start;
    while start < range.end {
        let length = usize::try_from(range.end - start).map_or(PIECE, |left| left.min(PIECE));
        leaf.initialize(Place::at(start), &pattern[..length])?;
        start += length as u64;
    }
    Ok(())
}
