//! The queue of sync tasks.
//!
//! The queue is closed when no more groups are written. A later task would wait forever, and keep
//! the whole pool: tasks refer to the syncer, which has the queue.

use super::error::SyncError;
use cenote_base::Txg;
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use std::sync::Arc;

/// How many tasks may wait at once: more than users type.
const TASKS_MAX: usize = 10_000;

/// How a task ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was carried out and is on disk.
    Done,
    /// It was refused, and nothing changed.
    Refused(DslError),
    /// The pool stopped before it was on disk.
    Stopped(String),
}

/// Where the caller that waits for a task finds its outcome.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    outcome: Mutex<Option<Outcome>, ranks::SyncTicket>,
    done: Condvar,
}

impl Ticket {
    /// Reports how the task ended; only the first call counts.
    pub fn end(&self, outcome: Outcome) {
        self.outcome.lock().get_or_insert(outcome);
        self.done.notify_all();
    }

    /// Waits for the end.
    pub fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.lock();
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            outcome = self.done.wait(outcome);
        }
    }
}

/// A task that waits, with the place for its end.
pub(crate) struct Queued {
    /// The group that was open when it was queued: what was written before belongs to it at the
    /// latest, and the task must find that.
    pub open: Txg,
    pub task: Box<dyn SyncTask>,
    pub debt: Debt,
    /// Groups that it was put off from.
    pub put_off: u32,
}

/// Groups that a task may be postponed. One or two are usual, a checkpoint may need a few more. A
/// dataset that claims to be of a later group would postpone a task forever.
pub(crate) const PUT_OFF_MAX: u32 = 64;

/// The obligation to end a caller's wait for a task. If a thread drops it, as in a panic, the
/// caller gets an error: no group will have the task.
#[derive(Debug)]
pub(crate) struct Debt(Arc<Ticket>);

impl Debt {
    /// Reports how the task ended.
    pub fn pay(self, outcome: Outcome) {
        self.0.end(outcome);
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        // Of several ends the first counts.
        self.0.end(Outcome::Stopped(DIED.to_owned()));
    }
}

/// Why groups are not written any more after a panic.
pub(crate) const DIED: &str = "an internal error (a panic) ended the writing of transaction \
    groups; export the pool with -f and import it again: it then is as its last group left it";

/// The tasks of a pool that wait for the next sync.
#[derive(Default)]
pub(crate) struct TaskQueue {
    waiting: Mutex<Waiting, ranks::SyncTasks>,
}

#[derive(Default)]
struct Waiting {
    tasks: Vec<Queued>,
    /// Why none is taken any more.
    closed: Option<String>,
}

impl std::fmt::Debug for TaskQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TaskQueue({})", self.waiting.lock().tasks.len())
    }
}

impl TaskQueue {
    /// Queues a task while the group `open` is open.
    pub fn push(&self, task: Box<dyn SyncTask>, open: Txg) -> Result<Arc<Ticket>, SyncError> {
        let mut waiting = self.waiting.lock();
        let is_full = waiting.tasks.len() >= TASKS_MAX;
        let full = || is_full.then(|| "too many tasks are waiting".to_owned());
        if let Some(cause) = waiting.closed.clone().or_else(full) {
            return Err(SyncError::Stopped { cause });
        }
        let ticket = Arc::new(Ticket::default());
        waiting.tasks.push(Queued {
            open,
            task,
            debt: Debt(Arc::clone(&ticket)),
            put_off: 0,
        });
        Ok(ticket)
    }

    /// Ends all waits with an error, and refuses later tasks.
    pub fn close(&self, cause: &str) {
        let tasks = {
            let mut waiting = self.waiting.lock();
            waiting.closed.get_or_insert_with(|| cause.to_owned());
            std::mem::take(&mut waiting.tasks)
        };
        for queued in tasks {
            queued.debt.pay(Outcome::Stopped(cause.to_owned()));
        }
    }

    /// Takes the tasks that the group `txg` may carry out.
    pub fn take_due(&self, txg: Txg) -> Vec<Queued> {
        let mut waiting = self.waiting.lock();
        let all = std::mem::take(&mut waiting.tasks);
        let (due, later) = all.into_iter().partition(|queued| queued.open <= txg);
        waiting.tasks = later;
        due
    }

    /// Puts tasks back, before those that came since.
    pub fn put_back(&self, early: Vec<Queued>) {
        self.waiting.lock().tasks.splice(..0, early);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.lock().tasks.is_empty()
    }
}

/// A task whose owner gets it back afterwards.
struct Shared<T>(Arc<Mutex<Option<T>, ranks::SyncTask>>);

impl<T: SyncTask> Shared<T> {
    /// Carries something out with the task. Its lock is not held meanwhile: a task takes whatever
    /// locks it needs.
    fn with(&self, act: impl FnOnce(&mut T) -> Result<(), DslError>) -> Result<(), DslError> {
        let taken = self.0.lock().take();
        let Some(mut task) = taken else {
            return Ok(());
        };
        let outcome = act(&mut task);
        *self.0.lock() = Some(task);
        outcome
    }
}

impl<T: SyncTask> SyncTask for Shared<T> {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.with(|task| task.check(context))
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.with(|task| task.sync(context))
    }
}

/// A queued task, for the caller that waits for it.
pub(crate) struct Pending<T> {
    task: Arc<Mutex<Option<T>, ranks::SyncTask>>,
    pub ticket: Arc<Ticket>,
}

impl<T: SyncTask + 'static> Pending<T> {
    /// Puts a task into the queue while the group `open` is open.
    pub fn queue(queue: &TaskQueue, task: T, open: Txg) -> Result<Self, SyncError> {
        let task = Arc::new(Mutex::new(Some(task)));
        let ticket = queue.push(Box::new(Shared(Arc::clone(&task))), open)?;
        Ok(Self { task, ticket })
    }

    /// Waits until the task is on disk, and returns it.
    pub fn wait(self) -> Result<T, SyncError> {
        match self.ticket.wait() {
            Outcome::Done => {}
            Outcome::Refused(error) => return Err(error.into()),
            Outcome::Stopped(cause) => return Err(SyncError::Stopped { cause }),
        }
        let task = self.task.lock().take();
        Ok(task.expect("the queue only borrowed it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that knows whether it is still there, as one that refers to its pool keeps that.
    struct Held(#[expect(dead_code, reason = "it is only held")] Arc<()>);

    impl SyncTask for Held {
        fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
            Ok(())
        }

        fn sync(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
            Ok(())
        }
    }

    /// The syncing thread panicked with tasks that it had taken from the queue. Their callers
    /// waited forever, an import among them.
    #[test]
    fn a_task_that_was_taken_and_dropped_has_ended() {
        let queue = TaskQueue::default();
        let task = Held(Arc::new(()));
        let pending = Pending::queue(&queue, task, Txg(1)).expect("queued");
        let taken = queue.take_due(Txg(1));
        assert_eq!(taken.len(), 1);
        drop(taken);
        let ended = pending.wait().map(drop);
        assert!(matches!(ended, Err(SyncError::Stopped { cause }) if cause == DIED));
    }

    /// A scrub was requested while the pool was being suspended: the syncing thread had refused all
    /// tasks and had ended when this one was queued. The task stayed there, and with it the pool,
    /// its memory and 32 threads. If the pool had been closed instead, the caller would have waited
    /// forever. Found by the simulation, which ends only when all threads do.
    #[test]
    fn a_closed_queue_takes_nothing_and_keeps_nothing() {
        let (queue, held) = (TaskQueue::default(), Arc::new(()));
        let early = Pending::queue(&queue, Held(Arc::clone(&held)), Txg(1)).expect("queued");
        queue.close("the pool is closed");
        assert!(matches!(early.wait(), Err(SyncError::Stopped { .. })));
        assert_eq!(Arc::strong_count(&held), 1, "what waited is let go");
        let late = Pending::queue(&queue, Held(Arc::clone(&held)), Txg(1));
        assert!(matches!(late, Err(SyncError::Stopped { cause }) if cause == "the pool is closed"));
        assert!(queue.is_empty());
        assert_eq!(Arc::strong_count(&held), 1, "what came later is not kept");
    }
}
