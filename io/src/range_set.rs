//! Sets of ranges of a vdev's space: disjoint, and joined where they touch.
//!
//! The allocator of a pool, which implements [`crate::Allocator`], keeps what is free in them, and
//! what changes.

use std::collections::BTreeMap;
use std::ops::Range;

/// A range was added that is partly there, or removed that is partly missing: either the caller's
/// accounting is wrong, or the disk contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "space from {:x} to {:x} is allocated or freed twice, or is no space that can be",
    range.start, range.end
)]
pub struct RangeConflict {
    /// The range that does not fit.
    pub range: Range<u64>,
}

/// What adding or removing a range did to its neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeChange {
    /// Up to two ranges that were removed.
    pub gone: [Option<Range<u64>>; 2],
    /// Up to two ranges that were added.
    pub new: [Option<Range<u64>>; 2],
}

/// A set of bytes, kept as its maximal ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// End by start.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RangeSet {
    /// Bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many ranges it takes.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// The ranges that end after `from`, in order.
    pub fn iter_from(&self, from: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.at_or_before(from).filter(|range| range.end > from);
        let start = first.map_or(from, |range| range.start);
        self.ranges.range(start..).map(|(start, end)| *start..*end)
    }

    /// The range that starts at or before `position`.
    fn at_or_before(&self, position: u64) -> Option<Range<u64>> {
        let (start, end) = self.ranges.range(..=position).next_back()?;
        Some(*start..*end)
    }

    /// Whether all of `range` is in the set.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        let around = self.at_or_before(range.start);
        around.is_some_and(|around| around.end >= range.end)
    }

    /// Whether any of `range` is in the set.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        let next = self.iter_from(range.start).next();
        next.is_some_and(|next| next.start < range.end)
    }

    /// The parts of `range` that are in the set.
    pub fn common(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let touched = self.iter_from(range.start);
        let touched = touched.take_while(|found| found.start < range.end);
        let cut = |found: Range<u64>| found.start.max(range.start)..found.end.min(range.end);
        touched.map(cut).collect()
    }

    /// Adds a range of which nothing is there yet.
    ///
    /// # Errors
    /// If some of it is there.
    pub fn add(&mut self, range: Range<u64>) -> Result<RangeChange, RangeConflict> {
        assert!(range.start < range.end, "ranges are not empty");
        if self.overlaps(&range) {
            return Err(RangeConflict { range });
        }
        let mut change = RangeChange::default();
        let mut whole = range.clone();
        if let Some(before) = self.at_or_before(range.start)
            && before.end == range.start
        {
            whole.start = before.start;
            change.gone[0] = Some(before);
        }
        if let Some(end) = self.ranges.remove(&range.end) {
            whole.end = end;
            change.gone[1] = Some(range.end..end);
        }
        self.ranges.insert(whole.start, whole.end);
        self.bytes += range.end - range.start;
        change.new[0] = Some(whole);
        Ok(change)
    }

    /// Removes a range of which all is there.
    ///
    /// # Errors
    /// If some of it is not there.
    pub fn remove(&mut self, range: Range<u64>) -> Result<RangeChange, RangeConflict> {
        assert!(range.start < range.end, "ranges are not empty");
        let around = self.at_or_before(range.start);
        let Some(around) = around.filter(|around| around.end >= range.end) else {
            return Err(RangeConflict { range });
        };
        let mut change = RangeChange::default();
        self.ranges.remove(&around.start);
        if around.start < range.start {
            self.ranges.insert(around.start, range.start);
            change.new[0] = Some(around.start..range.start);
        }
        if range.end < around.end {
            self.ranges.insert(range.end, around.end);
            change.new[1] = Some(range.end..around.end);
        }
        self.bytes -= range.end - range.start;
        change.gone[0] = Some(around);
        Ok(change)
    }

    /// Removes what is there of a range and returns it.
    pub fn take(&mut self, range: &Range<u64>) -> Vec<Range<u64>> {
        let common = self.common(range);
        for part in &common {
            self.remove(part.clone())
                .expect("the part was just found in the set");
        }
        common
    }
}

/// The parts of `range` outside of `holes`, which are ordered parts of it.
pub fn without(range: &Range<u64>, holes: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut at = range.start;
    for hole in holes {
        if at < hole.start {
            rest.push(at..hole.start);
        }
        at = hole.end;
    }
    if at < range.end {
        rest.push(at..range.end);
    }
    rest
}

/// Allocations and frees since a state that is known elsewhere: what was free there and is
/// allocated now, and the other way round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Allocated since.
    pub allocated: RangeSet,
    /// Freed since.
    pub freed: RangeSet,
}

impl Delta {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.allocated.is_empty() && self.freed.is_empty()
    }

    /// Allocated bytes gained since.
    pub fn balance(&self) -> i64 {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        signed(self.allocated.bytes()) - signed(self.freed.bytes())
    }

    /// Notes an allocation.
    ///
    /// # Errors
    /// If some of the range is allocated.
    pub fn allocate(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        Self::change(&mut self.freed, &mut self.allocated, range)
    }

    /// Notes that a range was freed.
    ///
    /// # Errors
    /// If some of the range is free.
    pub fn free(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        Self::change(&mut self.allocated, &mut self.freed, range)
    }

    fn change(
        undone: &mut RangeSet,
        done: &mut RangeSet,
        range: Range<u64>,
    ) -> Result<(), RangeConflict> {
        let undone = undone.take(&range);
        for part in without(&range, &undone) {
            done.add(part)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator that needs no seed from outside: the run is the same each time.
    fn random(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *state >> 33
    }

    #[test]
    fn agrees_with_a_table_of_bytes() {
        const SPACE: usize = 256;
        let mut set = RangeSet::default();
        let mut table = [false; SPACE];
        let mut state = 7;
        for _ in 0..20_000 {
            let start = random(&mut state) % SPACE as u64;
            let length = 1 + random(&mut state) % 20;
            let range = start..(start + length).min(SPACE as u64);
            let cells = range.start as usize..range.end as usize;
            match random(&mut state) % 3 {
                0 => {
                    let fits = table[cells.clone()].iter().all(|cell| !cell);
                    assert_eq!(set.add(range).is_ok(), fits);
                    if fits {
                        table[cells].fill(true);
                    }
                }
                1 => {
                    let fits = table[cells.clone()].iter().all(|cell| *cell);
                    assert_eq!(set.remove(range).is_ok(), fits);
                    if fits {
                        table[cells].fill(false);
                    }
                }
                _ => {
                    let taken: u64 = set.take(&range).iter().map(|r| r.end - r.start).sum();
                    let there = table[cells.clone()].iter().filter(|cell| **cell).count();
                    assert_eq!(taken, there as u64);
                    table[cells].fill(false);
                }
            }
            assert_eq!(
                set.bytes(),
                table.iter().filter(|cell| **cell).count() as u64
            );
        }
        let mut last_end = None;
        for range in set.iter() {
            assert!(
                last_end.is_none_or(|end| end < range.start),
                "joined and in order"
            );
            assert!(
                table[range.start as usize..range.end as usize]
                    .iter()
                    .all(|cell| *cell)
            );
            last_end = Some(range.end);
        }
    }

    #[test]
    fn neighbours_are_told() {
        let mut set = RangeSet::default();
        set.add(0..10).expect("empty");
        set.add(20..30).expect("apart");
        let change = set.add(10..20).expect("between");
        assert_eq!(change.gone, [Some(0..10), Some(20..30)]);
        assert_eq!(change.new, [Some(0..30), None]);
        let change = set.remove(5..6).expect("inside");
        assert_eq!(change.gone, [Some(0..30), None]);
        assert_eq!(change.new, [Some(0..5), Some(6..30)]);
        assert_eq!(set.remove(4..7), Err(RangeConflict { range: 4..7 }));
        assert_eq!(set.add(29..31), Err(RangeConflict { range: 29..31 }));
        assert_eq!(set.common(&(3..9)), [3..5, 6..9]);
        assert!(set.iter_from(5).eq(std::iter::once(6..30)));
    }

    #[test]
    fn a_delta_forgets_what_was_undone() {
        let mut delta = Delta::default();
        delta.allocate(0..10).expect("first");
        delta.free(5..20).expect("half of it was free before");
        assert!(delta.allocated.iter().eq(std::iter::once(0..5)));
        assert!(delta.freed.iter().eq(std::iter::once(10..20)));
        assert_eq!(delta.balance(), -5);
        assert!(delta.free(12..13).is_err(), "freed twice");
        assert!(delta.allocate(4..6).is_err(), "allocated twice");
    }
}
