//! Sets of block numbers, kept as disjoint ranges.

use std::collections::BTreeMap;

/// Disjoint, non-adjacent half-open ranges of block numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    /// End by start.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `[start, end)`.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start, end);
        if start >= end {
            return;
        }
        if let Some((before, before_end)) = self.ranges.range(..=start).next_back()
            && *before_end >= start
        {
            (start, end) = (*before, end.max(*before_end));
        }
        while let Some((next, next_end)) = self.ranges.range(start..=end).next() {
            let (next, next_end) = (*next, *next_end);
            end = end.max(next_end);
            self.ranges.remove(&next);
        }
        self.ranges.insert(start, end);
    }

    /// The ranges that overlap `[start, end)` or adjoin it.
    pub(crate) fn touching(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.ranges.range(..start).next_back();
        let before = before.filter(|(_, end)| **end >= start);
        let within = self.ranges.range(start..=end);
        let ranges = before.into_iter().chain(within);
        ranges.map(|(start, end)| (*start, *end)).collect()
    }

    /// Undoes the addition of a range from `start` on, before which `touching` were the ranges
    /// there.
    pub(crate) fn put_back(&mut self, start: u64, touching: &[(u64, u64)]) {
        if let Some((first, _)) = self.find(start) {
            self.ranges.remove(&first);
        }
        self.ranges.extend(touching.iter().copied());
    }

    /// The range that holds `block`.
    pub(crate) fn find(&self, block: u64) -> Option<(u64, u64)> {
        let (start, end) = self.ranges.range(..=block).next_back()?;
        (block < *end).then_some((*start, *end))
    }

    /// Whether `block` is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.next_start(0).is_none()
    }

    pub(crate) fn contains(&self, block: u64) -> bool {
        self.find(block).is_some()
    }

    /// The first range that begins at `block` or later.
    pub(crate) fn next_start(&self, block: u64) -> Option<u64> {
        self.ranges.range(block..).next().map(|(start, _)| *start)
    }

    /// Whether any block of `[start, end)` is in the set.
    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        self.contains(start) || self.next_start(start).is_some_and(|next| next < end)
    }

    /// All ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(start, end)| (*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_as_a_set_of_numbers_would() {
        let mut ranges = Ranges::default();
        let mut model = [false; 64];
        let mut seed = 7_u64;
        for _ in 0..40 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (start, length) = ((seed >> 33) % 60, (seed >> 50) % 4);
            ranges.insert(start, start + length);
            for bit in start..start + length {
                model[usize::try_from(bit).expect("small")] = true;
            }
            for (block, expected) in (0..).zip(model) {
                assert_eq!(ranges.contains(block), expected);
            }
            let all: Vec<_> = ranges.iter().collect();
            assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
