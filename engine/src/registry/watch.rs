//! Whether somebody watches a pool's devices, and whether that is wanted.

use cenote_base::rt::{Mutex, ranks};

/// Whether a pool's devices are watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: Mutex<WatchState, ranks::GrowthWatch>,
}

#[derive(Debug, Default)]
struct WatchState {
    is_wanted: bool,
    has_thread: bool,
}

impl Watch {
    /// Notes whether it is wanted; whether a thread is to be started for it.
    pub fn want(&self, is_wanted: bool) -> bool {
        let mut state = self.state.lock();
        state.is_wanted = is_wanted;
        let starts = is_wanted && !state.has_thread;
        state.has_thread |= starts;
        starts
    }

    /// There is no thread after all.
    pub fn give_up(&self) {
        *self.state.lock() = WatchState::default();
    }

    /// Whether the thread goes on.
    pub fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        state.has_thread = state.is_wanted;
        state.is_wanted
    }
}
