//! Which allocation units of a vdev are taken: a bitmap that grows where it is used.
//!
//! One bit per allocation unit (2^ashift bytes), in leaves of 32 KiB that exist only where a bit
//! was ever set: a terabyte of 4 KiB units takes 32 MiB when all of it is in use.

use std::collections::BTreeMap;

/// Words of a leaf.
pub(crate) const LEAF_WORDS: usize = 4096;
const LEAF_BITS: u64 = LEAF_WORDS as u64 * 64;

/// A set of allocation units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentMap {
    leaves: BTreeMap<u64, Box<[u64]>>,
}

/// The bits `[from, to)` of word `word`, as a mask; all within one leaf.
fn mask_of(word: usize, from: u64, to: u64) -> u64 {
    let (start, end) = (word as u64 * 64, word as u64 * 64 + 64);
    let (low, high) = (from.max(start) - start, to.min(end) - start);
    assert!(low < high && high <= 64);
    (u64::MAX >> (64 - (high - low))) << low
}

impl SegmentMap {
    /// Visits every word that holds units of `[start, start + count)`: leaf, word, mask.
    fn words(start: u64, count: u64) -> impl Iterator<Item = (u64, usize, u64)> {
        let end = start.saturating_add(count);
        // No unit is in no leaf, wherever the range begins.
        let last = if end > start {
            end.div_ceil(LEAF_BITS)
        } else {
            0
        };
        let leaves = start / LEAF_BITS..last;
        leaves.flat_map(move |leaf| {
            let base = leaf * LEAF_BITS;
            let from = start.saturating_sub(base);
            let to = (end - base).min(LEAF_BITS);
            let words = from / 64..to.div_ceil(64);
            words.map(move |word| {
                let word = usize::try_from(word).expect("within a leaf");
                (leaf, word, mask_of(word, from, to))
            })
        })
    }

    /// Adds units; returns how many were there already.
    pub(crate) fn add(&mut self, start: u64, count: u64) -> u64 {
        let mut present = 0;
        for (leaf, word, mask) in Self::words(start, count) {
            let leaf = self
                .leaves
                .entry(leaf)
                .or_insert_with(|| vec![0; LEAF_WORDS].into_boxed_slice());
            present += u64::from((leaf[word] & mask).count_ones());
            leaf[word] |= mask;
        }
        present
    }

    /// Removes units; returns how many were not there.
    pub(crate) fn remove(&mut self, start: u64, count: u64) -> u64 {
        let mut absent = 0;
        for (leaf, word, mask) in Self::words(start, count) {
            match self.leaves.get_mut(&leaf) {
                Some(leaf) => {
                    absent += u64::from((!leaf[word] & mask).count_ones());
                    leaf[word] &= !mask;
                }
                None => absent += u64::from(mask.count_ones()),
            }
        }
        absent
    }

    /// How many of the units are there.
    pub(crate) fn count_in(&self, start: u64, count: u64) -> u64 {
        let words = Self::words(start, count);
        let held =
            words.filter_map(|(leaf, word, mask)| Some(self.leaves.get(&leaf)?[word] & mask));
        held.map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// All units together.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        let words = self.leaves.values().flat_map(|leaf| leaf.iter());
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// The leaves in use with their numbers, for saving.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.leaves
            .iter()
            .map(|(number, words)| (*number, words.as_ref()))
    }

    /// Puts back a leaf of [`LEAF_WORDS`] words.
    pub(crate) fn set_leaf(&mut self, number: u64, words: Vec<u64>) {
        assert_eq!(words.len(), LEAF_WORDS);
        self.leaves.insert(number, words.into_boxed_slice());
    }

    /// The runs `(start, count)` of units that are here and not in `other`, in order.
    pub(crate) fn runs_without(&self, other: &Self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (leaf, words) in &self.leaves {
            let others = other.leaves.get(leaf);
            for (index, word) in words.iter().enumerate() {
                let mut rest = word & !others.map_or(0, |others| others[index]);
                let base = leaf * LEAF_BITS + index as u64 * 64;
                while rest != 0 {
                    let low = u64::from(rest.trailing_zeros());
                    let length = u64::from((rest >> low).trailing_ones());
                    match runs.last_mut() {
                        Some((start, count)) if *start + *count == base + low => *count += length,
                        _ => runs.push((base + low, length)),
                    }
                    if low + length == 64 {
                        break;
                    }
                    rest &= u64::MAX << (low + length);
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_was_there() {
        let mut map = SegmentMap::default();
        assert_eq!(map.add(10, 100), 0);
        assert_eq!(map.add(100, 20), 10, "100 to 109 were there");
        assert_eq!(map.remove(0, 20), 10, "0 to 9 were not");
        assert_eq!((map.count(), map.count_in(0, 50)), (100, 30));
    }

    /// Found by the zoo: an entry of a space map that says nothing, at an odd place.
    #[test]
    fn nothing_is_nowhere() {
        let mut map = SegmentMap::default();
        for start in [0, 3, 64, LEAF_BITS + 5] {
            assert_eq!(map.add(start, 0), 0);
            assert_eq!(map.remove(start, 0), 0);
            assert_eq!(map.count_in(start, 0), 0);
        }
        assert_eq!(map, SegmentMap::default());
    }

    #[test]
    fn runs_join_across_words_and_leaves() {
        let mut map = SegmentMap::default();
        map.add(LEAF_BITS - 70, 200);
        map.add(5, 1);
        let mut other = SegmentMap::default();
        assert_eq!(map.runs_without(&other), [(5, 1), (LEAF_BITS - 70, 200)]);
        other.add(LEAF_BITS, 1);
        assert_eq!(
            map.runs_without(&other),
            [(5, 1), (LEAF_BITS - 70, 70), (LEAF_BITS + 1, 129)]
        );
    }
}
