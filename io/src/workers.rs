//! Threads that read and decode blocks while their callers wait or do other work.
//!
//! One bounded queue feeds a fixed number of threads. There are more threads than cores because
//! most of them wait for devices. A full queue makes the caller do the work itself. So no caller
//! waits for room, and no job can wait for a job behind it.
//!
//! The worker that fell idle last is woken first: its decoder's tables, a few hundred KiB, are
//! still in a processor's cache. Woken in turns, each of the workers would find its own cold.

use cenote_base::rt::{self, Condvar, Mutex, MutexGuard, ranks};
use cenote_base::rt::{SyncSender, sync_channel};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that may wait; beyond that the asker works.
const QUEUE_LENGTH: usize = 256;

/// What waits to be done.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Workers that wait for a job and were not called yet, the latest last.
    idle: Vec<usize>,
    is_closed: bool,
}

struct Queue {
    waiting: Mutex<Waiting, ranks::WorkQueue>,
    /// What each worker waits for.
    calls: Box<[Condvar]>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No job runs under the lock.
        self.waiting.lock()
    }

    /// The next job for the worker `index`; `None` when no more will come.
    fn next(&self, index: usize) -> Option<Job> {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.is_closed {
                return None;
            }
            waiting.idle.push(index);
            waiting = self.calls[index].wait(waiting);
            // The caller takes it off; a worker may wake up without being called.
            waiting.idle.retain(|idle| *idle != index);
        }
    }
}

/// A pool of worker threads; they end when it is dropped.
pub struct Workers {
    queue: Arc<Queue>,
    threads: usize,
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.calls.iter().for_each(Condvar::notify_one);
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts `threads` workers; fewer if the system refuses more.
    pub fn new(threads: usize) -> Self {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            calls: (0..threads).map(|_| Condvar::new()).collect(),
        });
        let mut started = 0;
        for index in 0..threads {
            let jobs = Arc::clone(&queue);
            let name = format!("io-{index}");
            let spawned = rt::spawn(name, move || work(&jobs, index));
            started += usize::from(spawned.is_ok());
        }
        Self {
            queue,
            threads: started,
        }
    }

    /// Runs `job` on a worker, or here and now if all are busy and the queue is full.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Err(job) = self.offer(job) {
            job();
        }
    }

    /// Runs `job` on a worker if the queue has room; gives it back otherwise.
    pub fn offer<F: FnOnce() + Send + 'static>(&self, job: F) -> Result<(), Job> {
        if self.threads == 0 {
            return Err(Box::new(job));
        }
        let mut waiting = self.queue.lock();
        if waiting.jobs.len() >= QUEUE_LENGTH {
            return Err(Box::new(job));
        }
        waiting.jobs.push_back(Box::new(job));
        let called = waiting.idle.pop();
        drop(waiting);
        if let Some(index) = called {
            self.queue.calls[index].notify_one();
        }
        Ok(())
    }

    /// Runs `work` for every item and returns the results in the items' order.
    ///
    /// Workers and the asker take items from one list until it is empty. The asker then waits
    /// only for items that a running thread has in hand, so maps may be nested.
    pub fn map<T, R, F>(&self, items: Vec<T>, work: F) -> Vec<R>
    where
        T: Send + 'static,
        R: Send + 'static,
        F: Fn(T) -> R + Send + Sync + 'static,
    {
        let count = items.len();
        let helpers = self.threads.min(count.saturating_sub(1));
        let items = Arc::new(Mutex::new(items.into_iter().enumerate()));
        let work = Arc::new(work);
        let (done, results) = sync_channel(count.max(1));
        for _ in 0..helpers {
            let (items, work, done) = (Arc::clone(&items), Arc::clone(&work), done.clone());
            let helper = move || drain(&items, work.as_ref(), &done);
            if self.offer(helper).is_err() {
                break;
            }
        }
        drain(&items, work.as_ref(), &done);
        drop(done);
        let mut ordered: Vec<Option<R>> = (0..count).map(|_| None).collect();
        // Helpers that have not started yet hold a sender; do not wait for them.
        for (index, result) in results.iter().take(count) {
            ordered[index] = Some(result);
        }
        ordered
            .into_iter()
            .map(|r| r.expect("each item sent its result or panicked"))
            .collect()
    }
}

type Items<T> = Mutex<std::iter::Enumerate<std::vec::IntoIter<T>>, ranks::WorkItems>;

/// Takes items until none are left and sends each result with its index.
fn drain<T, R>(items: &Items<T>, work: impl Fn(T) -> R, done: &SyncSender<(usize, R)>) {
    loop {
        let next = items.lock().next();
        let Some((index, item)) = next else { return };
        // The receiver is gone only if the caller panicked; then the result is not needed.
        let _ = done.send((index, work(item)));
    }
}

fn work(jobs: &Queue, index: usize) {
    loop {
        // A job that panics drops what it holds, which its waiters notice. Others need the worker.
        let done = AssertUnwindSafe(|| jobs.next(index).map(|job| job()));
        if matches!(rt::catch_unwind(done), Ok(None)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_items() {
        let workers = Workers::new(4);
        let squares = workers.map((0..1000_u64).collect(), |n| n * n);
        assert_eq!(squares, (0..1000).map(|n| n * n).collect::<Vec<_>>());
        assert!(workers.map(Vec::<u64>::new(), |n| n).is_empty());
    }

    /// Regression: a job that panicked ended its worker, until no worker was left for the queue.
    #[test]
    fn a_job_that_panics_ends_alone() {
        let workers = Workers::new(1);
        for _ in 0..3 {
            let panics = workers.offer(|| std::panic::resume_unwind(Box::new("so")));
            assert!(panics.is_ok(), "there is a worker, and room");
        }
        let (sender, receiver) = sync_channel(1);
        let told = workers.offer(move || sender.send(7).expect("the test waits"));
        assert!(told.is_ok());
        assert_eq!(receiver.recv(), Ok(7));
    }

    #[test]
    fn jobs_that_wait_for_jobs_do_not_lock_up() {
        let workers = Arc::new(Workers::new(1));
        let inner = Arc::clone(&workers);
        let sums = workers.map((0..600_u64).collect(), move |n| {
            inner.map(vec![n, 1], |m| m).into_iter().sum::<u64>()
        });
        assert_eq!(sums, (1..=600).collect::<Vec<_>>());
    }
}
