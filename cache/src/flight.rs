//! One read per block at a time: who comes second waits for the first.

use crate::BlockId;
use crate::hash::BlockHashState;
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The blocks being read now.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    reading: Mutex<Reading>,
    landed: Condvar,
}

#[derive(Debug, Default)]
struct Reading {
    blocks: HashSet<BlockId, BlockHashState>,
    /// How many wait for a flight to land: usually none, and then nobody need be woken.
    waiting: usize,
}

/// The duty to read a block; others wait until it is dropped.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    id: BlockId,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read `id`; if another thread does so already, waits for its end and returns
    /// `None`: the block is then in the cache, unless the read failed.
    pub(crate) fn begin(&self, id: BlockId) -> Option<Flight<'_>> {
        let mut reading = self.lock();
        if reading.blocks.insert(id) {
            return Some(Flight { flights: self, id });
        }
        reading.waiting += 1;
        while reading.blocks.contains(&id) {
            reading = self
                .landed
                .wait(reading)
                .unwrap_or_else(PoisonError::into_inner);
        }
        reading.waiting -= 1;
        None
    }

    /// Begins to read `id`, unless another thread does so already.
    pub(crate) fn try_begin(&self, id: BlockId) -> Option<Flight<'_>> {
        // A flight made in vain would end the other thread's when dropped, so none is made.
        let is_new = self.lock().blocks.insert(id);
        is_new.then(|| Flight { flights: self, id })
    }

    /// Whether a read of `id` is under way.
    pub(crate) fn contains(&self, id: &BlockId) -> bool {
        self.lock().blocks.contains(id)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut reading = self.flights.lock();
        let removed = reading.blocks.remove(&self.id);
        assert!(removed, "a flight ends once");
        let is_awaited = reading.waiting > 0;
        drop(reading);
        if is_awaited {
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
        let flight = flights.try_begin(id).expect("nobody reads it yet");
        assert!(flights.try_begin(id).is_none());
        assert!(flights.contains(&id), "it still flies");
        drop(flight);
        assert!(!flights.contains(&id));
    }
}
