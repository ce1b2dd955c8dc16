//! Locks of ranges: changes of the same bytes are made and logged in one order.
//!
//! A change is made in the volume and noted in the intent log, one after the other. If two changes
//! of the same bytes at once were made in one order and logged in the other, both answered and
//! flushed, a replay after a crash would show another outcome than readers had seen. So a change
//! holds the locks of its range from the one to the other.
//!
//! A volume is divided into units, and units share a few locks. A change that covers several takes
//! them in the order of their numbers.

use cenote_base::rt::{Mutex, MutexGuard, ranks};

/// Locks of a volume.
const LOCKS: u64 = 64;
/// The smallest unit, in bytes: as long as the longest write that is in its record.
const UNIT_MIN: u64 = 64 << 10;

/// The locks of a volume's ranges.
#[derive(Debug)]
pub(crate) struct Ranges {
    unit: u64,
    locks: Vec<Mutex<(), ranks::VolumeRanges>>,
}

/// Locks that are held.
pub(crate) struct HeldRange<'a> {
    _first: MutexGuard<'a, ()>,
    _others: Vec<MutexGuard<'a, ()>>,
}

impl Ranges {
    pub fn new(block_size: u64) -> Self {
        Self {
            unit: block_size.max(UNIT_MIN),
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
        }
    }

    /// The numbers of the locks of a range that is not empty, in order.
    fn numbers(&self, offset: u64, length: u64) -> Vec<usize> {
        let (first, last) = (offset / self.unit, (offset + length - 1) / self.unit);
        let units = (last - first + 1).min(LOCKS);
        let number = |unit: u64| usize::try_from(unit % LOCKS).expect("few locks");
        let mut numbers: Vec<usize> = (first..first + units).map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Keeps others from changing a range that is not empty.
    pub fn hold(&self, offset: u64, length: u64) -> HeldRange<'_> {
        let (first, last) = (offset / self.unit, (offset + length - 1) / self.unit);
        if first == last {
            let number = usize::try_from(first % LOCKS).expect("few locks");
            return HeldRange {
                _first: self.locks[number].lock(),
                _others: Vec::new(),
            };
        }
        let numbers = self.numbers(offset, length);
        let mut locks = numbers.into_iter().map(|number| self.locks[number].lock());
        HeldRange {
            _first: locks.next().expect("a range has a first unit"),
            _others: locks.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_share_a_lock() {
        let ranges = Ranges::new(16 << 10);
        assert_eq!(ranges.numbers(0, 1), [0]);
        assert_eq!(ranges.numbers((64 << 10) - 1, 2), [0, 1]);
        assert_eq!(ranges.numbers(63 * (64 << 10), 64 << 11), [0, 63]);
        assert_eq!(ranges.numbers(5 << 20, 1 << 30).len(), 64);
        let large = Ranges::new(1 << 20);
        assert_eq!(large.numbers((1 << 20) - 1, 2), [0, 1]);
        drop(ranges.hold(0, 1 << 30));
        let held = ranges.hold(0, 64 << 10);
        drop(ranges.hold(64 << 10, 4096));
        drop(held);
    }
}
