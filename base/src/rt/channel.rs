//! Channels: queues from many senders to one receiver.
//!
//! They behave as `std::sync::mpsc` does and use its errors, but are made of our own mutex and
//! condition variables, so that they are the same code in all worlds. Values are dropped outside
//! of the lock, because their destructors may take others.

use super::condvar::Condvar;
use super::mutex::{Mutex, MutexGuard};
use super::ranks::Channel;
use super::time::Instant;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
    /// How many values were ever taken out.
    received: u64,
    /// How many were ever put in.
    sent: u64,
    /// How many receivers wait now: 0 or 1.
    is_awaited: bool,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>, Channel>,
    /// `None` for no limit; 0 makes each sender wait until its value is taken.
    capacity: Option<usize>,
    filled: Condvar,
    emptied: Condvar,
}

impl<T> Shared<T> {
    fn new(capacity: Option<usize>) -> Arc<Self> {
        let state = State {
            queue: VecDeque::new(),
            senders: 1,
            has_receiver: true,
            received: 0,
            sent: 0,
            is_awaited: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            capacity,
            filled: Condvar::new(),
            emptied: Condvar::new(),
        })
    }

    #[track_caller]
    fn push(&self, mut state: MutexGuard<'_, State<T>>, value: T) -> u64 {
        state.queue.push_back(value);
        state.sent += 1;
        let number = state.sent;
        drop(state);
        self.filled.notify_one();
        number
    }

    #[track_caller]
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.state.lock();
        let limit = self.capacity.map_or(usize::MAX, |capacity| capacity.max(1));
        state = self.emptied.wait_while(state, |state| {
            state.has_receiver && state.queue.len() >= limit
        });
        if !state.has_receiver {
            drop(state);
            return Err(SendError(value));
        }
        let number = self.push(state, value);
        if self.capacity != Some(0) {
            return Ok(());
        }
        let state = self.state.lock();
        let is_queued = |state: &mut State<T>| state.has_receiver && state.received < number;
        let mut state = self.emptied.wait_while(state, is_queued);
        match state.received < number {
            // The receiver went, and left the value where it was.
            true => state
                .queue
                .pop_front()
                .map_or(Ok(()), |value| Err(SendError(value))),
            false => Ok(()),
        }
    }

    #[track_caller]
    fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let state = self.state.lock();
        let has_room = match self.capacity {
            None => true,
            Some(0) => state.is_awaited && state.queue.is_empty(),
            Some(capacity) => state.queue.len() < capacity,
        };
        match (state.has_receiver, has_room) {
            (false, _) => Err(TrySendError::Disconnected(value)),
            (true, false) => Err(TrySendError::Full(value)),
            (true, true) => {
                self.push(state, value);
                Ok(())
            }
        }
    }

    #[track_caller]
    fn pop(&self, mut state: MutexGuard<'_, State<T>>) -> Result<T, bool> {
        match state.queue.pop_front() {
            Some(value) => {
                state.received += 1;
                drop(state);
                match self.capacity {
                    None => {}
                    // Senders wait for room, and for their own value to be taken.
                    Some(0) => self.emptied.notify_all(),
                    Some(_) => self.emptied.notify_one(),
                }
                Ok(value)
            }
            None => Err(state.senders == 0),
        }
    }
}

/// A channel without a limit.
///
/// Its use needs a reason why the queue cannot grow: each queue has a limit that can be named.
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Shared::new(None);
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// A channel for `capacity` values; senders wait while it is full.
///
/// With 0 each sender waits until its value is taken.
#[track_caller]
pub fn sync_channel<T>(capacity: usize) -> (SyncSender<T>, Receiver<T>) {
    let shared = Shared::new(Some(capacity));
    (SyncSender(Sender(Arc::clone(&shared))), Receiver(shared))
}

/// Puts values into a [`channel`].
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Puts in a value.
    ///
    /// # Errors
    /// The value, if there is no receiver any more.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send(value)
    }
}

impl<T> Clone for Sender<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.0.filled.notify_all();
        }
    }
}

/// Puts values into a [`sync_channel`].
pub struct SyncSender<T>(Sender<T>);

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> SyncSender<T> {
    /// Puts in a value, as soon as there is room.
    ///
    /// # Errors
    /// The value, if there is no receiver any more.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.0.send(value)
    }

    /// Puts in a value if there is room.
    ///
    /// # Errors
    /// The value, if there is no room or no receiver any more.
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.0.try_send(value)
    }
}

/// Takes values out of a channel.
pub struct Receiver<T>(Arc<Shared<T>>);

impl<T> Receiver<T> {
    /// Waits for a value.
    ///
    /// # Errors
    /// The channel is empty and there are no senders any more.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let state = self.wait(None);
        self.0.pop(state).map_err(|_| RecvError)
    }

    /// Waits for a value, at most for so long.
    ///
    /// # Errors
    /// The time is over, or the channel is empty and there are no senders any more.
    #[track_caller]
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        let state = self.wait(Some(limit));
        let result = self.0.pop(state);
        result.map_err(|is_over| match is_over {
            true => RecvTimeoutError::Disconnected,
            false => RecvTimeoutError::Timeout,
        })
    }

    /// Takes a value if there is one.
    ///
    /// # Errors
    /// The channel is empty, or it is empty and has no senders.
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let result = self.0.pop(self.0.state.lock());
        result.map_err(|is_over| match is_over {
            true => TryRecvError::Disconnected,
            false => TryRecvError::Empty,
        })
    }

    /// Values until there are no senders any more.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// Values that are there now.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    #[track_caller]
    fn wait(&self, limit: Option<Duration>) -> MutexGuard<'_, State<T>> {
        let end = limit.map(|limit| Instant::now().checked_add(limit));
        let mut state = self.0.state.lock();
        state.is_awaited = true;
        while state.queue.is_empty() && state.senders > 0 {
            state = match end
                .flatten()
                .map(|end| end.saturating_duration_since(Instant::now()))
            {
                Some(Duration::ZERO) => break,
                Some(left) => self.0.filled.wait_timeout(state, left).0,
                None => self.0.filled.wait(state),
            };
        }
        state.is_awaited = false;
        state
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_receiver = false;
        // A sender that waits until its value is taken gets it back.
        let left = match self.0.capacity {
            Some(0) => VecDeque::new(),
            _ => std::mem::take(&mut state.queue),
        };
        drop(state);
        self.0.emptied.notify_all();
        drop(left);
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Box<dyn Iterator<Item = T> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// Values of a channel until there are no senders any more.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SyncSender")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}
