//! The free space of one metaslab, and the choice of ranges to allocate.
//!
//! Blocks written one after another should be adjacent, so space is taken after the last allocation
//! (*next fit*). If the ranges there are too small, the search continues in the largest range; in a
//! nearly full metaslab, in the smallest that fits.

use cenote_io::{RangeChange, RangeConflict, RangeSet};
use std::collections::BTreeSet;
use std::ops::Range;

/// Ranges that are tried behind the cursor before another place is chosen.
const STEPS_MAX: usize = 16;
/// With less than one part in this many free, the smallest range that fits is taken.
const NEARLY_FULL: u64 = 25;

/// Free ranges by place and by size.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeSpace {
    ranges: RangeSet,
    by_size: BTreeSet<(u64, u64)>,
    cursor: u64,
    /// Bytes of the metaslab.
    size: u64,
}

impl FreeSpace {
    /// A metaslab that is all free.
    pub fn whole(range: Range<u64>) -> Self {
        let mut space = Self {
            cursor: range.start,
            size: range.end - range.start,
            ..Self::default()
        };
        // A draid vdev's metaslab that is smaller than a stripe has no space at all.
        if !range.is_empty() {
            space.add(range).expect("there is nothing yet");
        }
        space
    }

    pub fn bytes(&self) -> u64 {
        self.ranges.bytes()
    }

    /// Ranges, which is what memory is taken for.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// The longest range.
    pub fn largest(&self) -> u64 {
        self.by_size.last().map_or(0, |(length, _)| *length)
    }

    /// The free ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter()
    }

    /// The first free range that ends after `from`.
    pub fn next_from(&self, from: u64) -> Option<Range<u64>> {
        self.ranges.iter_from(from).next()
    }

    fn note(&mut self, change: RangeChange) {
        for range in change.gone.into_iter().flatten() {
            self.by_size.remove(&(range.end - range.start, range.start));
        }
        for range in change.new.into_iter().flatten() {
            self.by_size.insert((range.end - range.start, range.start));
        }
    }

    /// Space that becomes free.
    pub fn add(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        let change = self.ranges.add(range)?;
        self.note(change);
        Ok(())
    }

    /// Space that is taken.
    pub fn remove(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        let change = self.ranges.remove(range)?;
        self.note(change);
        Ok(())
    }

    /// Whether any of a range is free.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.ranges.overlaps(range)
    }

    /// Takes what is free of a range.
    pub fn take(&mut self, range: &Range<u64>) {
        for part in self.ranges.common(range) {
            self.remove(part).expect("the part was just found free");
        }
    }

    /// Takes `size` bytes in one piece outside of `avoid` and returns where they start.
    pub fn allocate(&mut self, size: u64, avoid: &[Range<u64>]) -> Option<u64> {
        let start = self.find(size, avoid)?;
        self.remove(start..start + size)
            .expect("the search finds free space only");
        self.cursor = start + size;
        Some(start)
    }

    fn find(&self, size: u64, avoid: &[Range<u64>]) -> Option<u64> {
        let place = |range: &Range<u64>| first_fit(range, size, avoid);
        if self.bytes() >= self.size / NEARLY_FULL {
            let ahead = self.ranges.iter_from(self.cursor).take(STEPS_MAX);
            let ahead = ahead.map(|range| range.start.max(self.cursor)..range.end);
            if let Some(start) = ahead.filter_map(|range| place(&range)).next() {
                return Some(start);
            }
            let by_size = self.by_size.iter().rev().take(STEPS_MAX);
            return by_size
                .map(|(length, start)| *start..start + length)
                .find_map(|range| place(&range));
        }
        let by_size = self.by_size.range((size, 0)..).take(STEPS_MAX);
        by_size
            .map(|(length, start)| *start..start + length)
            .find_map(|range| place(&range))
    }
}

/// The first place in `range` for `size` bytes that touch none of `avoid`.
fn first_fit(range: &Range<u64>, size: u64, avoid: &[Range<u64>]) -> Option<u64> {
    let mut start = range.start;
    loop {
        let end = start.checked_add(size)?;
        if end > range.end {
            return None;
        }
        let mut hits = avoid
            .iter()
            .filter(|other| other.start < end && start < other.end);
        match hits.next() {
            Some(other) => start = other.end,
            None => return Some(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_another_until_full() {
        let mut space = FreeSpace::whole(1000..2000);
        for i in 0..10 {
            assert_eq!(space.allocate(100, &[]), Some(1000 + 100 * i));
        }
        assert_eq!(space.allocate(1, &[]), None);
        space.add(1500..1600).expect("was taken");
        space.add(1100..1110).expect("was taken");
        assert_eq!((space.largest(), space.bytes()), (100, 110));
        assert_eq!(
            space.allocate(5, &[]),
            Some(1500),
            "the largest, since nothing is ahead"
        );
        assert_eq!(space.allocate(100, &[]), None, "not in one piece");
    }

    #[test]
    fn a_metaslab_without_space_has_none() {
        let mut space = FreeSpace::whole(4096..4096);
        assert_eq!((space.bytes(), space.allocate(1, &[])), (0, None));
    }

    #[test]
    fn the_smallest_that_fits_when_nearly_full() {
        let mut space = FreeSpace::whole(0..10_000);
        space.take(&(0..10_000));
        space.add(100..200).expect("taken");
        space.add(500..540).expect("taken");
        assert_eq!(space.allocate(30, &[]), Some(500));
        assert_eq!(space.allocate(30, &[]), Some(100));
    }

    #[test]
    fn other_copies_are_kept_away_from() {
        let mut space = FreeSpace::whole(0..100);
        assert_eq!(space.allocate(20, &[0..15, 20..60]), Some(60));
        let mut space = FreeSpace::whole(0..100);
        let other = std::slice::from_ref(&(30..50));
        assert_eq!(space.allocate(60, other), None);
        assert_eq!(space.bytes(), 100);
    }
}
