//! Threads that may wait: for devices, for keys, for pages that take long.
//!
//! The threads that serve connections must never wait, for each of them serves thousands. What has
//! to wait is a closure that goes to one of these threads, and its result comes back by a channel
//! that a connection can wait for. Threads are started as they are needed, up to a limit, and end
//! when they had nothing to do for a while.
//!
//! Bounds: threads by `Limits::waiting_threads`, closures in the queue by [`QUEUE`]. If the queue
//! is full, a request is refused at once. A closure that has begun is completed even if its client
//! has disconnected.

use cenote_base::rt::{self, Condvar, Mutex, ranks};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Closures that wait for a thread.
const QUEUE: usize = 8192;
/// How long a thread without work stays.
const REST: Duration = Duration::from_secs(10);

/// Too many wait already, or the server is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// Does it, if the result is still wanted.
type Work = Box<dyn FnOnce() + Send>;

struct Queue {
    works: VecDeque<Work>,
    threads: usize,
    idle: usize,
    is_ending: bool,
}

struct Shared {
    queue: Mutex<Queue, ranks::HttpWaiting>,
    /// There is work, or the end has come.
    news: Condvar,
    threads_max: AtomicUsize,
    /// Closures that are queued or carried out.
    pending: AtomicUsize,
}

/// The threads.
#[derive(Clone)]
pub(crate) struct Waiting(Arc<Shared>);

/// Ends the threads when there can be no more work for them.
pub(crate) struct WaitingOwner(pub Waiting);

impl Waiting {
    pub fn new(threads_max: usize) -> Self {
        let queue = Queue {
            works: VecDeque::new(),
            threads: 0,
            idle: 0,
            is_ending: false,
        };
        Self(Arc::new(Shared {
            queue: Mutex::new(queue),
            news: Condvar::new(),
            threads_max: AtomicUsize::new(threads_max),
            pending: AtomicUsize::new(0),
        }))
    }

    pub fn set_threads(&self, threads_max: usize) {
        self.0.threads_max.store(threads_max, Ordering::Relaxed);
    }

    /// How many closures are queued or carried out.
    pub fn pending(&self) -> usize {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// Carries out `work` on a thread that may wait. Dropping the receiver gives it up.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Busy> {
        let (sender, receiver) = oneshot::channel();
        let pending = Pending::new(&self.0);
        let work = move || {
            let _pending = pending;
            if !sender.is_closed() {
                // The client may have disconnected in the meantime.
                let _ = sender.send(work());
            }
        };
        let mut queue = self.0.queue.lock();
        if queue.is_ending || queue.works.len() >= QUEUE {
            return Err(Busy);
        }
        let is_short = queue.idle <= queue.works.len();
        let has_room = queue.threads < self.0.threads_max.load(Ordering::Relaxed);
        queue.works.push_back(Box::new(work));
        if !is_short || !has_room {
            drop(queue);
            self.0.news.notify_one();
            return Ok(receiver);
        }
        queue.threads += 1;
        drop(queue);
        let shared = Arc::clone(&self.0);
        if let Err(error) = rt::spawn("http-wait", move || shared.serve()) {
            let mut queue = self.0.queue.lock();
            queue.threads -= 1;
            let is_alone = queue.threads == 0;
            if is_alone {
                queue.works.clear();
            }
            drop(queue);
            if is_alone {
                log::warn!("HTTP: no thread can be started: {error}; raise the limit of threads");
                return Err(Busy);
            }
        }
        Ok(receiver)
    }
}

impl Drop for WaitingOwner {
    fn drop(&mut self) {
        // Threads that wait for a pool whose devices are gone are not waited for: they end when
        // their work does.
        let mut queue = self.0.0.queue.lock();
        queue.is_ending = true;
        let works = std::mem::take(&mut queue.works);
        drop(queue);
        drop(works);
        self.0.0.news.notify_all();
    }
}

impl Shared {
    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(work) = queue.works.pop_front() {
                drop(queue);
                // A tree or page that panics must not take the thread, or the server, with it.
                if rt::catch_unwind(AssertUnwindSafe(work)).is_err() {
                    log::error!(
                        "HTTP: a request was given up after a panic; report it with the \
                         messages before this one"
                    );
                }
                queue = self.queue.lock();
                continue;
            }
            if queue.is_ending || queue.threads > self.threads_max.load(Ordering::Relaxed) {
                break;
            }
            queue.idle += 1;
            let is_over;
            (queue, is_over) = self.news.wait_timeout(queue, REST);
            queue.idle -= 1;
            if is_over && queue.works.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
    }
}

/// Counts a closure until it is done or thrown away.
struct Pending(Arc<Shared>);

impl Pending {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.pending.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn work_is_done_on_no_more_threads_than_allowed() {
        let waiting = Waiting::new(2);
        let (let_go, gate) = mpsc::channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let (arrive, arrived) = mpsc::channel();
        let begin = |number: usize| {
            let (gate, arrive) = (Arc::clone(&gate), arrive.clone());
            let work = move || {
                arrive.send(number).expect("the test waits");
                gate.lock().expect("no panic").recv().expect("let go");
                number
            };
            waiting.begin(work).expect("room")
        };
        let results: Vec<_> = (0..4).map(begin).collect();
        let first = [arrived.recv(), arrived.recv()].map(|n| n.expect("it began"));
        assert!(first.contains(&0) && first.contains(&1), "{first:?}");
        assert_eq!(waiting.pending(), 4);
        assert!(arrived.try_recv().is_err(), "two threads only");
        for _ in 0..4 {
            let_go.send(()).expect("the job waits");
        }
        for (number, result) in results.into_iter().enumerate() {
            assert_eq!(result.blocking_recv(), Ok(number));
        }
    }

    #[test]
    fn a_panic_fails_its_own_request_only() {
        let waiting = Waiting::new(1);
        let failed = waiting.begin(|| panic!("on purpose")).expect("room");
        assert!(failed.blocking_recv().is_err());
        let next = waiting.begin(|| 7).expect("room");
        assert_eq!(next.blocking_recv(), Ok(7));
    }

    #[test]
    fn after_the_end_nothing_begins() {
        let owner = WaitingOwner(Waiting::new(1));
        let waiting = owner.0.clone();
        drop(owner);
        assert_eq!(waiting.begin(|| 7).err(), Some(Busy));
    }
}
