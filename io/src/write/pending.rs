//! Metadata that is still on its way when the call that wrote it has returned.
//!
//! The metadata of a group is a chain of some tens of small blocks, each of which holds the
//! addresses and checksums of those below. None of that waits for a device: each block is sent off
//! and the one above is made at once. Only callers that need the blocks on the devices wait for
//! all:
//!
//! - the commit, before it flushes the devices;
//! - each pass over the meta object set, which records what devices missed;
//! - a write that replaces the contents of a block in its place, since the two must not change
//!   order;
//! - a read of a block that was written lately and is no longer cached.
//!
//! The commit reports failures, and then fails too.

use super::flight::Flight;
use crate::error::IoError;
use crate::pipeline::Pipeline;
use cenote_base::Txg;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Flights under way; the oldest is waited for when there are more.
const FLIGHTS_MAX: usize = 64;

/// The flights that no thread waits for yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    state: Mutex<State, ranks::PendingWrites>,
    /// Number of flights, readable without the lock.
    count: AtomicUsize,
    /// The oldest group that some of them belong to.
    oldest: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    flights: VecDeque<Flight>,
    failed: Option<IoError>,
}

impl State {
    fn land(&mut self, flight: Flight, pipeline: &Pipeline) {
        for (_, error) in flight.land(pipeline) {
            self.failed.get_or_insert(error);
        }
    }
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A flight that was taken out has landed or its holder is gone with the pool.
        self.state.lock()
    }

    /// Leaves a flight to the next thread that waits.
    pub(super) fn add(&self, txg: Txg, flight: Flight, pipeline: &Pipeline) {
        let mut state = self.lock();
        let oldest = match state.flights.is_empty() {
            true => txg.0,
            // Some may be of the group before, if it was not settled yet.
            false => self.oldest.load(Ordering::Relaxed).min(txg.0),
        };
        state.flights.push_back(flight);
        if state.flights.len() > FLIGHTS_MAX
            && let Some(oldest) = state.flights.pop_front()
        {
            state.land(oldest, pipeline);
        }
        self.oldest.store(oldest, Ordering::Relaxed);
        self.count.store(state.flights.len(), Ordering::Release);
    }

    /// Waits until all have arrived. Other threads that wait meanwhile wait as long.
    pub(super) fn wait(&self, pipeline: &Pipeline) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.land_all(&mut self.lock(), pipeline);
        }
    }

    /// Waits before a block of this birth is read.
    pub(crate) fn wait_for(&self, birth: Txg, pipeline: &Pipeline) {
        if self.count.load(Ordering::Acquire) > 0 && birth.0 >= self.oldest.load(Ordering::Relaxed)
        {
            self.wait(pipeline);
        }
    }

    /// Whether some have not arrived yet.
    pub(super) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Waits until all have arrived; says if one did not, once.
    pub(super) fn settle(&self, pipeline: &Pipeline) -> Result<(), IoError> {
        let mut state = self.lock();
        self.land_all(&mut state, pipeline);
        state.failed.take().map_or(Ok(()), Err)
    }

    fn land_all(&self, state: &mut State, pipeline: &Pipeline) {
        while let Some(flight) = state.flights.pop_front() {
            state.land(flight, pipeline);
        }
        self.count.store(0, Ordering::Release);
    }
}
