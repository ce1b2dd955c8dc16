//! Reading the tree of datasets while it changes.
//!
//! A change of the tree ([`crate::write::SyncTask`]) modifies many structures one after the other:
//! a new dataset has a name before it has contents, and a destroyed one loses its object before its
//! handle is dropped. A reader in between sees a mixture of both states. Readers take no lock,
//! because the syncing thread would then have to wait for their devices. Instead they read again if
//! the tree changed meanwhile. A counter shows this; it is odd during a change.
//!
//! Each attempt must start from a name or number, because a handle that was opened before keeps its
//! old state. The number of attempts and the waiting time are both limited: if the pool's devices
//! fail, a change may never finish.
//!
//! Deliberately absent: a consistent view for a walk over many datasets. Such a walk skips datasets
//! that were destroyed before it reached them (`Dsl::by_handle_or_name`).

use cenote_base::rt::{self, Condvar, Mutex, MutexGuard, ThreadId, ranks};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Attempts to read something while the tree changes.
const ATTEMPTS: usize = 10;

/// How long one attempt waits for a change to end.
const PATIENCE: Duration = Duration::from_millis(500);

/// The changes of one pool's tree.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Twice the number of changes, and one more while one is under way.
    count: AtomicU64,
    /// The thread that changes the tree: it sees its own work.
    changer: Mutex<Option<ThreadId>, ranks::TreeChange>,
    ended: Condvar,
}

impl Changes {
    fn changer(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.changer.lock()
    }

    pub(crate) fn now(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn is_own(&self) -> bool {
        !self.now().is_multiple_of(2) && *self.changer() == Some(rt::current().id())
    }

    pub(crate) fn begin(&self) -> Change<'_> {
        *self.changer() = Some(rt::current().id());
        self.count.fetch_add(1, Ordering::AcqRel);
        Change(self)
    }

    /// Whether a change is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.now().is_multiple_of(2)
    }

    /// Waits for the end of a change that is under way, for a while.
    pub(crate) fn wait(&self) {
        let changer = self.changer();
        let ended = self
            .ended
            .wait_timeout_while(changer, PATIENCE, |_| !self.now().is_multiple_of(2));
        drop(ended);
    }

    pub(crate) fn read_again<T, E>(
        &self,
        mut read: impl FnMut() -> Result<T, E>,
        is_enough: impl Fn(&Result<T, E>) -> bool,
    ) -> Result<T, E> {
        let Some(_outermost) = Reading::begin().filter(|_| !self.is_own()) else {
            return read();
        };
        for _ in 1..ATTEMPTS {
            let before = self.now();
            let result = read();
            let is_calm = before.is_multiple_of(2) && self.now() == before;
            if is_calm || is_enough(&result) {
                return result;
            }
            self.wait();
        }
        read()
    }
}

thread_local! {
    /// Whether this thread is inside a consistent read already. A nested read is repeated with the
    /// outer one, and must not multiply the attempts.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// The outermost of a thread's readings.
struct Reading;

impl Reading {
    fn begin() -> Option<Self> {
        (!IS_READING.replace(true)).then_some(Self)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        IS_READING.set(false);
    }
}

/// A change under way; it ends when this is dropped.
#[derive(Debug)]
pub struct Change<'a>(&'a Changes);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // Under the lock, because a waiting thread reads the counter before it sleeps.
        let mut changer = self.0.changer();
        *changer = None;
        self.0.count.fetch_add(1, Ordering::AcqRel);
        drop(changer);
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn strictly<T>(
        changes: &Changes,
        read: impl FnMut() -> Result<T, &'static str>,
    ) -> Result<T, &'static str> {
        changes.read_again(read, |_| false)
    }

    /// A listing beside `zfs create` reported "the object set is a hole" for a dataset that was
    /// half made.
    #[test]
    fn what_is_read_in_the_middle_of_a_change_is_read_again() {
        let changes = Changes::default();
        let attempts = AtomicUsize::new(0);
        let change = changes.begin();
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                strictly(&changes, || match attempts.fetch_add(1, Ordering::SeqCst) {
                    0 => Err("half made"),
                    _ => Ok("made"),
                })
            });
            while attempts.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            drop(change);
            reader.join().expect("the reader ends")
        });
        assert_eq!(read, Ok("made"));
        assert!(attempts.load(Ordering::SeqCst) >= 2);
    }

    #[test]
    fn an_error_of_a_calm_tree_is_final() {
        let mut attempts = 0;
        let read: Result<(), _> = strictly(&Changes::default(), || {
            attempts += 1;
            Err("damaged")
        });
        assert_eq!((read, attempts), (Err("damaged"), 1));
    }

    #[test]
    fn a_change_does_not_wait_for_itself() {
        let changes = Changes::default();
        let _change = changes.begin();
        let mut attempts = 0;
        let read: Result<(), _> = strictly(&changes, || {
            attempts += 1;
            Err("not yet")
        });
        assert_eq!((read, attempts), (Err("not yet"), 1));
    }

    #[test]
    fn a_change_that_does_not_end_is_waited_for_a_while_only() {
        let changes = Changes::default();
        let _change = changes.begin();
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| strictly(&changes, || Err::<(), _>("half made")));
            reader.join().expect("the reader ends")
        });
        assert_eq!(read, Err("half made"));
    }
}
