//! The check of the order of locks, in debug builds.
//!
//! Each thread has a list of the locks that it holds. Before it waits for another one, the list
//! is compared with the table of ranks; a violation panics although this run did not deadlock,
//! because another one could. The same list answers whether device I/O is allowed.
//!
//! With `CENOTE_LOCK_ORDER=FILE` in the environment each pair "held, taken" is appended to FILE
//! once, and nothing is checked. A line has four fields with tabs between them: name and place of
//! the lock that was held, name
//! and place of the lock that was taken. The table of ranks is made from such files.
//!
//! Release builds have none of this: the functions are empty.

use super::rank::RankInfo;
use std::panic::Location;

/// A lock that is about to be taken, or was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    /// The address: unique as long as the lock is borrowed.
    pub key: usize,
    pub rank: &'static RankInfo,
    #[cfg(debug_assertions)]
    pub more: Description,
}

/// What only the check needs.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Description {
    /// The type of what it guards.
    pub guarded: fn() -> &'static str,
    pub made: &'static Location<'static>,
    /// Whether other threads may hold it at the same time.
    pub is_shared: bool,
}

#[cfg(not(debug_assertions))]
mod imp {
    use super::{Location, Lock};

    #[inline(always)]
    pub(in super::super) fn check(_: &Lock, _: &'static Location<'static>) {}

    #[inline(always)]
    pub(in super::super) fn push(_: &Lock, _: &'static Location<'static>) {}

    #[inline(always)]
    pub(in super::super) fn remove(_: usize) {}

    /// Panics in debug builds if a lock is held under which device I/O is forbidden.
    #[inline(always)]
    pub fn assert_io_allowed() {}

    /// Debug builds only report a wrong order from now on.
    #[inline(always)]
    pub fn report_wrong_order() {}
}

#[cfg(debug_assertions)]
mod imp {
    use super::{Location, Lock};
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};

    #[derive(Clone, Copy)]
    struct Held {
        lock: Lock,
        at: &'static Location<'static>,
    }

    thread_local! {
        static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    }

    /// Does something with the list; nothing in a thread whose locals are gone already.
    fn with<T>(work: impl FnOnce(&mut Vec<Held>) -> T) -> Option<T> {
        HELD.try_with(|held| work(&mut held.borrow_mut())).ok()
    }

    /// Panics if `lock` may not be taken by this thread now.
    pub(in super::super) fn check(lock: &Lock, at: &'static Location<'static>) {
        // A second panic would end the process and hide the first.
        if std::thread::panicking() {
            return;
        }
        let wrong = with(|held| {
            if record(held, lock, at) {
                return None;
            }
            held.iter().find(|held| is_wrong(held, lock)).copied()
        });
        if let Some(held) = wrong.flatten() {
            violation(&held, lock, at);
        }
    }

    fn is_wrong(held: &Held, taken: &Lock) -> bool {
        if held.lock.key == taken.key {
            let is_unranked = taken.rank.order.is_none();
            return !(is_unranked && held.lock.more.is_shared && taken.more.is_shared);
        }
        match (held.lock.rank.order, taken.rank.order) {
            _ if held.lock.rank.leaf => true,
            (Some(held_order), Some(order)) if held_order == order => !taken.rank.nested,
            (Some(held_order), Some(order)) => held_order > order,
            _ => false,
        }
    }

    /// Whether a wrong order is reported and not a panic.
    static REPORTS: AtomicBool = AtomicBool::new(false);

    /// Debug builds only report a wrong order from now on, each pair of ranks once. A daemon in use
    /// should keep running, since a wrong order is only a possible deadlock.
    pub fn report_wrong_order() {
        REPORTS.store(true, Ordering::Relaxed);
    }

    /// Whether this pair of ranks is new. Says so.
    fn report(held: &Held, taken: &Lock, at: &'static Location<'static>) {
        static TOLD: Mutex<BTreeSet<(&str, &str)>> = Mutex::new(BTreeSet::new());
        let pair = (held.lock.rank.name, taken.rank.name);
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(pair) {
            let (first, second) = pair;
            eprintln!(
                "locks in a wrong order (base/src/rt/ranks.rs): {second} is taken at {at} while \
                 {first} is held, taken at {}",
                held.at
            );
        }
    }

    fn violation(held: &Held, taken: &Lock, at: &'static Location<'static>) {
        let (first, second) = (name(&held.lock), name(taken));
        let held_at = held.at;
        if held.lock.key == taken.key {
            panic!(
                "{second} is taken twice by one thread: at {held_at}, and again at {at}; it would \
                 wait for itself. Release it first, or hand on the guard"
            );
        }
        if held.lock.rank.leaf {
            panic!(
                "{second} is taken at {at} while {first} is held, taken at {held_at}; {first} is a \
                 leaf, under which nothing may be taken. Release it first"
            );
        }
        if REPORTS.load(Ordering::Relaxed) {
            return report(held, taken, at);
        }
        panic!(
            "the order of locks is violated: {second} is taken at {at} while {first} is held, \
             taken at {held_at}. The order is in base/src/rt/ranks.rs, outermost first: take \
             {second} before {first}, or release {first}"
        );
    }

    /// The name of the rank; of a lock without one, what it guards and where it was made.
    fn name(lock: &Lock) -> String {
        let (rank, more) = (lock.rank, &lock.more);
        match rank.order {
            Some(_) => rank.name.to_owned(),
            None => format!("{}({} of {})", rank.name, (more.guarded)(), more.made),
        }
    }

    /// Notes that this thread holds `lock`.
    pub(in super::super) fn push(lock: &Lock, at: &'static Location<'static>) {
        with(|held| held.push(Held { lock: *lock, at }));
    }

    /// Notes that this thread released the lock, if it had it.
    pub(in super::super) fn remove(key: usize) {
        with(|held| {
            // Guards may be dropped in any order.
            if let Some(index) = held.iter().rposition(|held| held.lock.key == key) {
                held.remove(index);
            }
        });
    }

    /// Panics in debug builds if a lock is held under which device I/O is forbidden.
    #[track_caller]
    pub fn assert_io_allowed() {
        if std::thread::panicking() {
            return;
        }
        let at = Location::caller();
        let found = with(|held| match record_as(held, "device I/O", at) {
            true => None,
            false => held.iter().find(|held| held.lock.rank.no_io).copied(),
        });
        if let Some(held) = found.flatten() {
            panic!(
                "device I/O while {} is held, taken at {}. Its rank forbids that: release it \
                 before reading or writing",
                name(&held.lock),
                held.at
            );
        }
    }

    struct Recorder {
        file: File,
        seen: BTreeSet<String>,
    }

    static RECORDER: OnceLock<Option<Mutex<Recorder>>> = OnceLock::new();

    fn open_recorder() -> Option<Mutex<Recorder>> {
        let path = std::env::var_os("CENOTE_LOCK_ORDER")?;
        let file = File::options().append(true).create(true).open(&path);
        let file = file.unwrap_or_else(|error| {
            panic!("CENOTE_LOCK_ORDER: cannot open {}: {error}", path.display())
        });
        let seen = BTreeSet::new();
        Some(Mutex::new(Recorder { file, seen }))
    }

    /// Whether orders are recorded, and so not checked.
    fn record(held: &[Held], taken: &Lock, at: &'static Location<'static>) -> bool {
        record_as(held, &name(taken), at)
    }

    fn record_as(held: &[Held], taken: &str, at: &'static Location<'static>) -> bool {
        let Some(recorder) = RECORDER.get_or_init(open_recorder) else {
            return false;
        };
        if held.is_empty() {
            return true;
        }
        let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
        for held in held {
            let first = name(&held.lock);
            let line = format!("{first}\t{}\t{taken}\t{at}\n", held.at);
            if recorder.seen.insert(line.clone()) {
                let written = recorder.file.write_all(line.as_bytes());
                written.unwrap_or_else(|error| panic!("CENOTE_LOCK_ORDER: {error}"));
            }
        }
        true
    }
}

pub use imp::{assert_io_allowed, report_wrong_order};
pub(super) use imp::{check, push, remove};
