//! One read per block at a time: a second reader waits for the first.

use crate::BlockId;
use crate::hash::BlockHashState;
use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The blocks being read now.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    reading: Mutex<Reading, ranks::ReadFlights>,
    landed: Condvar,
}

/// The blocks with the number of waiting readers of each: usually none, and then no wake-up is
/// needed.
type Reading = HashMap<BlockId, usize, BlockHashState>;

/// The duty to read a block; others wait until it is dropped.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    id: BlockId,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock()
    }

    /// Begins to read `id`; if another thread does so already, waits for its end and returns
    /// `None`: the block is then in the cache, unless the read failed.
    pub(crate) fn begin(&self, id: BlockId) -> Option<Flight<'_>> {
        let mut reading = self.lock();
        match reading.entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(0);
                return Some(Flight { flights: self, id });
            }
            Entry::Occupied(mut entry) => *entry.get_mut() += 1,
        }
        // Should the next flight to the same block begin meanwhile, its end serves as well.
        while reading.contains_key(&id) {
            reading = self.landed.wait(reading);
            // A later flight does not count the readers that wait since the one before.
            if let Some(waiting) = reading.get_mut(&id) {
                *waiting = (*waiting).max(1);
            }
        }
        None
    }

    /// Begins to read `id`, unless another thread does so already.
    pub(crate) fn try_begin(&self, id: BlockId) -> Option<Flight<'_>> {
        // A flight made in vain would end the other thread's when dropped, so none is made.
        let mut reading = self.lock();
        let Entry::Vacant(entry) = reading.entry(id) else {
            return None;
        };
        entry.insert(0);
        Some(Flight { flights: self, id })
    }

    /// Whether a read of `id` is under way.
    pub(crate) fn contains(&self, id: &BlockId) -> bool {
        self.lock().contains_key(id)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let waiting = self.flights.lock().remove(&self.id);
        if waiting.expect("a flight ends once") > 0 {
            self.flights.landed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asking for a flight under way once made a second one and dropped it under the lock, which
    /// locked the daemon up; without the lock it would have ended the first thread's flight.
    #[test]
    fn a_flight_under_way_is_left_alone() {
        let flights = Flights::default();
        let id = BlockId {
            dva: [8, 4096],
            birth: 7,
        };
        let flight = flights.try_begin(id).expect("no reader has it yet");
        assert!(flights.try_begin(id).is_none());
        assert!(flights.contains(&id), "it still flies");
        drop(flight);
        assert!(!flights.contains(&id));
    }

    #[test]
    fn all_who_wait_are_woken_and_only_by_their_block() {
        let flights = Flights::default();
        let id = |n| BlockId {
            dva: [8, n],
            birth: 7,
        };
        let (flight, other) = (flights.try_begin(id(1)), flights.try_begin(id(2)));
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| flights.begin(id(1)).is_none()))
                .collect();
            while flights.lock().get(&id(1)) != Some(&4) {
                std::thread::yield_now();
            }
            drop(other);
            std::thread::sleep(std::time::Duration::from_millis(10));
            assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
            drop(flight);
            for waiter in waiters {
                assert!(waiter.join().expect("no panic"), "the block has been read");
            }
        });
        assert!(flights.lock().is_empty());
    }
}
