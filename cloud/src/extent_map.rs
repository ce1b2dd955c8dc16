//! A map from ranges of sectors to what they mean.
//!
//! Ranges never overlap: what is inserted cuts away what was there. Neighbours that continue each
//! other become one, so that a terabyte written in order is one entry for each object.

use std::collections::BTreeMap;

/// What a range can mean: its later part means something of its own.
pub trait Slice: Clone + PartialEq {
    /// What begins `sectors` behind.
    fn advanced(&self, sectors: u64) -> Self;
}

/// A range and its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<T> {
    /// The first sector.
    pub start: u64,
    /// How many, at least one.
    pub sectors: u64,
    /// What the first of them means.
    pub value: T,
}

impl<T> Piece<T> {
    /// The sector behind it.
    pub fn end(&self) -> u64 {
        self.start + self.sectors
    }
}

/// A map of ranges.
#[derive(Clone, Debug)]
pub struct ExtentMap<T> {
    /// By first sector: how many sectors, and what.
    map: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for ExtentMap<T> {
    fn default() -> Self {
        Self {
            map: BTreeMap::new(),
        }
    }
}

impl<T: Slice> ExtentMap<T> {
    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// All ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Piece<T>> + '_ {
        let entries = self.map.iter();
        entries.map(|(start, (sectors, value))| Piece {
            start: *start,
            sectors: *sectors,
            value: value.clone(),
        })
    }

    /// The parts of ranges that lie in `[start, start + sectors)`, in order.
    pub fn overlaps(&self, start: u64, sectors: u64) -> Vec<Piece<T>> {
        let end = start + sectors;
        let before = self.map.range(..start).next_back();
        let inside = self.map.range(start..end);
        let pieces = before.into_iter().chain(inside);
        let clipped = pieces.filter_map(|(own, (length, value))| {
            let from = start.max(*own);
            let to = end.min(own + length);
            (from < to).then(|| Piece {
                start: from,
                sectors: to - from,
                value: value.advanced(from - own),
            })
        });
        clipped.collect()
    }

    /// Forgets what `[start, start + sectors)` means.
    pub fn remove(&mut self, start: u64, sectors: u64) {
        let end = start + sectors;
        self.split(start);
        self.split(end);
        while let Some((first, _)) = self.map.range(start..end).next() {
            let first = *first;
            self.map.remove(&first);
        }
    }

    /// Forgets those parts of `[start, start + sectors)` whose meaning is `doomed`.
    pub fn remove_if(&mut self, start: u64, sectors: u64, doomed: impl Fn(&T) -> bool) {
        for piece in self.overlaps(start, sectors) {
            if doomed(&piece.value) {
                self.remove(piece.start, piece.sectors);
            }
        }
    }

    /// Makes sure that no range reaches across `border`.
    fn split(&mut self, border: u64) {
        let Some((start, (sectors, value))) = self.map.range_mut(..border).next_back() else {
            return;
        };
        let kept = border - *start;
        if *sectors <= kept {
            return;
        }
        let rest = (*sectors - kept, value.advanced(kept));
        *sectors = kept;
        self.map.insert(border, rest);
    }

    /// Says what `[start, start + sectors)` means from now on.
    pub fn insert(&mut self, start: u64, sectors: u64, value: T) {
        if sectors == 0 {
            return;
        }
        self.remove(start, sectors);
        let mut merged = Piece {
            start,
            sectors,
            value,
        };
        if let Some((next, (length, following))) = self.map.range(merged.end()..).next()
            && *next == merged.end()
            && *following == merged.value.advanced(merged.sectors)
        {
            let (next, length) = (*next, *length);
            merged.sectors += length;
            self.map.remove(&next);
        }
        if let Some((_, (length, before))) = self
            .map
            .range_mut(..start)
            .next_back()
            .filter(|(own, (length, _))| **own + *length == start)
            && before.advanced(*length) == merged.value
        {
            *length += merged.sectors;
            return;
        }
        self.map.insert(start, (merged.sectors, merged.value));
    }

    /// The parts of `[start, start + sectors)` that mean nothing, in order.
    pub fn gaps(&self, start: u64, sectors: u64) -> Vec<(u64, u64)> {
        let end = start + sectors;
        let mut gaps = Vec::new();
        let mut at = start;
        for piece in self.overlaps(start, sectors) {
            if at < piece.start {
                gaps.push((at, piece.start - at));
            }
            at = piece.end();
        }
        if at < end {
            gaps.push((at, end - at));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Random;

    impl Slice for u64 {
        fn advanced(&self, sectors: u64) -> Self {
            match *self {
                0 => 0,
                value => value + sectors,
            }
        }
    }

    /// A flat array beside the map: each sector means a number, `None` nothing.
    #[test]
    fn it_is_an_array_in_short() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut array = [None::<u64>; 64];
            let mut map = ExtentMap::<u64>::default();
            for step in 0..200 {
                let start = random.below(64);
                let sectors = random.below(64 - start) + 1;
                let range = start as usize..(start + sectors) as usize;
                match random.below(4) {
                    0 => {
                        map.remove(start, sectors);
                        array[range].fill(None);
                    }
                    1 => {
                        map.remove_if(start, sectors, |value| value % 2 == 1);
                        // `remove_if` tests values by range, so only whole ranges can be compared.
                        for piece in map.overlaps(start, sectors) {
                            assert_eq!(piece.value % 2, 0, "seed {seed}, step {step}");
                        }
                        array = [None; 64];
                        for piece in map.iter() {
                            for at in 0..piece.sectors {
                                let sector = (piece.start + at) as usize;
                                array[sector] = Some(piece.value.advanced(at));
                            }
                        }
                    }
                    _ => {
                        let value = random.below(3) * (1000 + start);
                        map.insert(start, sectors, value);
                        for (at, slot) in array[range].iter_mut().enumerate() {
                            *slot = Some(value.advanced(at as u64));
                        }
                    }
                }
                check(&map, &array, &mut random);
            }
        }
    }

    fn check(map: &ExtentMap<u64>, array: &[Option<u64>; 64], random: &mut Random) {
        let start = random.below(64);
        let sectors = random.below(64 - start) + 1;
        let mut found = vec![None; sectors as usize];
        for piece in map.overlaps(start, sectors) {
            for at in 0..piece.sectors {
                let index = (piece.start - start + at) as usize;
                found[index] = Some(piece.value.advanced(at));
            }
        }
        let range = start as usize..(start + sectors) as usize;
        assert_eq!(found, array[range].to_vec());
        let empty: u64 = map.gaps(start, sectors).iter().map(|gap| gap.1).sum();
        assert_eq!(
            empty,
            found.iter().filter(|value| value.is_none()).count() as u64
        );
    }

    #[test]
    fn neighbours_become_one() {
        let mut map = ExtentMap::<u64>::default();
        map.insert(8, 8, 108);
        map.insert(24, 8, 124);
        map.insert(16, 8, 116);
        assert_eq!(map.len(), 1);
        map.insert(32, 8, 7);
        assert_eq!(map.len(), 2);
    }
}
