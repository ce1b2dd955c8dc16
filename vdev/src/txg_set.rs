//! Sets of transaction groups, kept as ranges.

use cenote_base::Txg;
use std::ops::Range;

/// A set of txgs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxgSet {
    /// Sorted, not empty, neither overlapping nor touching.
    ranges: Vec<Range<u64>>,
}

impl TxgSet {
    /// Every txg there can be.
    pub fn all() -> Self {
        Self {
            ranges: std::iter::once(0..u64::MAX).collect(),
        }
    }

    /// The txgs of any ranges, in any order, which may overlap.
    pub fn from_ranges(ranges: impl IntoIterator<Item = Range<Txg>>) -> Self {
        let ranges = ranges.into_iter().map(|range| range.start.0..range.end.0);
        Self::joined(ranges.collect())
    }

    fn joined(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        let joined = Self { ranges: joined };
        joined.assert_sorted();
        joined
    }

    /// Asserts in debug builds that the ranges are in order, with gaps between them.
    fn assert_sorted(&self) {
        debug_assert!(
            self.ranges.iter().all(|range| range.start < range.end)
                && self.ranges.windows(2).all(|two| two[0].end < two[1].start),
            "{:?}",
            self.ranges
        );
    }

    /// The maximal ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<Txg>> + '_ {
        let ranges = self.ranges.iter();
        ranges.map(|range| Txg(range.start)..Txg(range.end))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// From the first txg to behind the last; `None` if there is none.
    pub fn bounds(&self) -> Option<Range<Txg>> {
        let (first, last) = (self.ranges.first()?, self.ranges.last()?);
        Some(Txg(first.start)..Txg(last.end))
    }

    /// Whether a txg is in the set.
    pub fn contains(&self, txg: Txg) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= txg.0);
        let before = after.checked_sub(1).map(|index| &self.ranges[index]);
        before.is_some_and(|range| txg.0 < range.end)
    }

    /// Adds a txg; says whether it is new.
    pub fn insert(&mut self, txg: Txg) -> bool {
        if self.contains(txg) || txg.0 == u64::MAX {
            return false;
        }
        // Most come in order.
        match self.ranges.last_mut() {
            Some(last) if last.end == txg.0 => last.end += 1,
            Some(last) if last.end > txg.0 => *self = self.with(&Self::of(txg)),
            _ => self.ranges.push(txg.0..txg.0 + 1),
        }
        true
    }

    fn of(txg: Txg) -> Self {
        Self {
            ranges: std::iter::once(txg.0..txg.0 + 1).collect(),
        }
    }

    /// The txgs of both sets.
    pub fn with(&self, other: &Self) -> Self {
        let ranges = self.ranges.iter().chain(&other.ranges);
        Self::joined(ranges.cloned().collect())
    }

    /// The txgs of this set that are not in the other.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = Vec::with_capacity(self.ranges.len());
        let mut holes = other.ranges.iter().peekable();
        for range in &self.ranges {
            let mut start = range.start;
            while let Some(hole) = holes.next_if(|hole| hole.end <= start) {
                debug_assert!(hole.start < hole.end);
            }
            for hole in holes.clone().take_while(|hole| hole.start < range.end) {
                if start < hole.start {
                    rest.push(start..hole.start);
                }
                start = start.max(hole.end);
            }
            if start < range.end {
                rest.push(start..range.end);
            }
        }
        let rest = Self { ranges: rest };
        rest.assert_sorted();
        rest
    }

    /// The txgs that are in both sets.
    pub fn within(&self, other: &Self) -> Self {
        Self::in_at_least(2, [self, other])
    }

    /// Whether any txg is in both sets.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.within(other).is_empty()
    }

    /// The txgs that are in at least `count` of the sets, which is more than 0.
    pub fn in_at_least<'a>(count: usize, sets: impl IntoIterator<Item = &'a Self>) -> Self {
        assert!(count > 0, "every txg is in no set");
        let mut edges: Vec<(u64, bool)> = Vec::new();
        for range in sets.into_iter().flat_map(|set| &set.ranges) {
            edges.extend([(range.start, true), (range.end, false)]);
        }
        // Ends come before beginnings; what only touches is joined below.
        edges.sort_unstable();
        let mut ranges = Vec::new();
        let (mut depth, mut start) = (0, None);
        for (at, is_start) in edges {
            match is_start {
                true => depth += 1,
                false => depth -= 1,
            }
            match start {
                None if depth >= count => start = Some(at),
                Some(from) if depth < count => {
                    ranges.push(from..at);
                    start = None;
                }
                _ => {}
            }
        }
        Self::joined(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u64, u64)]) -> TxgSet {
        let ranges = ranges.iter();
        TxgSet::from_ranges(ranges.map(|(start, end)| Txg(*start)..Txg(*end)))
    }

    #[test]
    fn ranges_are_joined_and_counted() {
        let mut some = set(&[(20, 30), (5, 7), (9, 9), (7, 8), (25, 35)]);
        assert_eq!(some, set(&[(5, 8), (20, 35)]));
        assert!(some.contains(Txg(5)) && some.contains(Txg(34)));
        assert!(!some.contains(Txg(4)) && !some.contains(Txg(8)) && !some.contains(Txg(35)));
        assert_eq!(some.bounds(), Some(Txg(5)..Txg(35)));
        assert!(some.insert(Txg(35)) && some.insert(Txg(8)) && !some.insert(Txg(20)));
        assert!(some.insert(Txg(40)));
        assert_eq!(some, set(&[(5, 9), (20, 36), (40, 41)]));
        assert!(TxgSet::default().bounds().is_none() && TxgSet::all().contains(Txg(7)));
    }

    #[test]
    fn sets_are_combined() {
        let (a, b) = (set(&[(1, 10), (20, 30)]), set(&[(5, 22), (29, 31)]));
        assert_eq!(a.with(&b), set(&[(1, 31)]));
        assert_eq!(a.without(&b), set(&[(1, 5), (22, 29)]));
        assert_eq!(b.without(&a), set(&[(10, 20), (30, 31)]));
        assert_eq!(a.without(&a), TxgSet::default());
        assert_eq!(a.without(&TxgSet::all()), TxgSet::default());
        assert_eq!(
            set(&[(1, 30)]).without(&set(&[(2, 3), (5, 6)])),
            set(&[(1, 2), (3, 5), (6, 30)])
        );
        let c = set(&[(8, 40)]);
        assert_eq!(TxgSet::in_at_least(1, [&a, &b]), set(&[(1, 31)]));
        assert_eq!(
            TxgSet::in_at_least(2, [&a, &b]),
            set(&[(5, 10), (20, 22), (29, 30)])
        );
        assert_eq!(
            TxgSet::in_at_least(3, [&a, &b, &c]),
            set(&[(8, 10), (20, 22), (29, 30)])
        );
        assert_eq!(a.within(&b), set(&[(5, 10), (20, 22), (29, 30)]));
        assert!(a.intersects(&b) && !set(&[(1, 5)]).intersects(&set(&[(5, 9)])));
        let touching = [&set(&[(1, 5)]), &set(&[(5, 9)])];
        assert_eq!(TxgSet::in_at_least(1, touching), set(&[(1, 9)]));
        assert_eq!(TxgSet::in_at_least(2, touching), TxgSet::default());
    }
}
