//! One read per block at a time: who comes second waits for the first.

use crate::BlockId;
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The blocks being read now.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    reading: Mutex<HashSet<BlockId>>,
    landed: Condvar,
}

/// The duty to read a block; others wait until it is dropped.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    id: BlockId,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashSet<BlockId>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read `id`; if another thread does so already, waits for its end and returns
    /// `None`: the block is then in the cache, unless the read failed.
    pub(crate) fn begin(&self, id: BlockId) -> Option<Flight<'_>> {
        let mut reading = self.lock();
        if reading.insert(id) {
            return Some(Flight { flights: self, id });
        }
        while reading.contains(&id) {
            reading = self
                .landed
                .wait(reading)
                .unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Whether a read of `id` is under way.
    pub(crate) fn contains(&self, id: &BlockId) -> bool {
        self.lock().contains(id)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let removed = self.flights.lock().remove(&self.id);
        assert!(removed, "a flight ends once");
        self.flights.landed.notify_all();
    }
}
