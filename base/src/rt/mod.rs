//! The only door to threads, locks, waits, time and messages between threads.
//!
//! *The problem.* A storage engine is a few dozen threads that lock, wait and look at clocks. Its
//! faults depend on which of them comes first, so a test on a real machine finds them by luck and
//! never twice. And what a lock may be held together with stood in comments.
//!
//! *The idea.* All of it goes through this module, under the names that the standard library has.
//! In the product that costs one load of a flag at each operation. In a test a [`World`] can take
//! the place of the process: with real threads but settings of its own ([`World::real`]), or with
//! a scheduler that runs one thread at a time, in an order that a seed determines, and a virtual
//! clock ([`World::simulated`]). A failing seed fails again, with the same trace.
//!
//! *Locks.* Each lock has a rank in its type; [`ranks`] is the table of all of them in the order
//! in which they may be taken, which debug builds check. Poisoning is ignored; the reason is in
//! `mutex`. Locks in statics are shared by all worlds and so have a rank with the flag `leaf`.
//!
//! *Invariants.* No other module of the product uses `std::thread`, the locks of `std::sync`,
//! `Instant::now` or `SystemTime::now`. Atomics, `Arc`, `Weak`, and cells whose initialisers do
//! not wait remain the standard library's.
//!
//! *Long work* in the background is a [`Job`]: started, paused, paced and ended in one way. A
//! thread that must not be blocked for long is watched by another one ([`mod@watch`]).
//!
//! *Deliberately absent.* A pool of threads, futures, priorities: layers that need workers start
//! their own. Decision 007 says why this is not one of the existing crates.

mod channel;
mod condvar;
pub mod job;
mod mutex;
mod once;
mod order;
pub mod process;
mod random;
mod rank;
pub mod ranks;
mod rw_lock;
mod simulation;
#[cfg(test)]
mod tests;
mod thread;
mod time;
pub mod watch;
mod world;

pub use channel::{
    IntoIter, Receiver, RecvError, RecvTimeoutError, SendError, Sender, SyncSender, TryRecvError,
    TrySendError, channel, sync_channel,
};
pub use condvar::Condvar;
pub use job::Job;
pub use mutex::{Mutex, MutexGuard};
pub use once::OnceLock;
pub use order::{assert_io_allowed, report_wrong_order};
pub use random::Random;
pub use rank::{Rank, RankInfo};
pub use ranks::Unranked;
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use thread::{
    JoinHandle, Result, Scope, ScopedJoinHandle, Thread, ThreadId, abandon_others,
    available_parallelism, catch_unwind, current, is_simulated, note, panic_words, panicking, park,
    park_timeout, scope, spawn, yield_now,
};
pub use time::{Instant, fill_random, sleep, uptime, wall_clock};
pub use world::World;

pub(crate) use world::with_world_settings;

/// Writes a line to the trace of a simulated world.
///
/// Elsewhere the arguments are not even evaluated.
#[macro_export]
#[doc(hidden)]
macro_rules! rt_trace {
    ($($what:tt)*) => {
        if $crate::rt::is_simulated() {
            $crate::rt::note(format_args!($($what)*));
        }
    };
}

pub use crate::rt_trace as trace;
