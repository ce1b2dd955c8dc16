//! Requests that still wait after their callers were signalled.
//!
//! A request can wait in many places for a device that does not answer: for a block, for room, for
//! a transaction group. Its caller, once signalled, must not wait with it: it could not be killed,
//! nor the machine suspended. So where a request has not ended some seconds after its interrupt,
//! `EINTR` is answered in its place, and what it comes to later goes nowhere. Only requests are
//! treated so of which the kernel remembers nothing but the answer.

use crate::protocol::opcode;
use cenote_base::rt::Instant;
use std::time::Duration;

/// How long a request may continue after its caller was signalled. Long enough for any disk:
/// programs that handle signals and continue must not see errors.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// How often they are checked.
pub(crate) const POLL: Duration = Duration::from_millis(100);

/// Whether a request may be answered before it has ended. A lookup counts a reference, which its
/// worker takes back.
pub(crate) fn may_be_answered(code: u32) -> bool {
    matches!(
        code,
        opcode::LOOKUP
            | opcode::GETATTR
            | opcode::READLINK
            | opcode::READ
            | opcode::WRITE
            | opcode::STATFS
            | opcode::FSYNC
            | opcode::FLUSH
            | opcode::READDIR
            | opcode::FSYNCDIR
            | opcode::GETXATTR
            | opcode::LISTXATTR
            | opcode::STATX
    )
}

/// Interrupts that have been passed to their workers.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// Slot and number of each request, and when it is answered.
    requests: Vec<(usize, u64, Instant)>,
    /// Whether a thread watches them.
    pub is_watched: bool,
}

impl Overdue {
    /// Adds a request.
    pub fn push(&mut self, slot: usize, unique: u64) {
        let is_known = |known: &(usize, u64, Instant)| known.1 == unique;
        if !self.requests.iter().any(is_known) {
            let due = Instant::now() + PATIENCE;
            self.requests.push((slot, unique, due));
        }
    }

    /// Takes those that have waited long enough, and forgets those that have ended.
    pub fn take_due(&mut self, is_open: impl Fn(usize, u64) -> bool) -> Vec<(usize, u64)> {
        self.requests
            .retain(|(slot, unique, _)| is_open(*slot, *unique));
        let now = Instant::now();
        let (due, rest) = self
            .requests
            .drain(..)
            .partition(|request| request.2 <= now);
        self.requests = rest;
        let due: Vec<(usize, u64, Instant)> = due;
        due.into_iter()
            .map(|(slot, unique, _)| (slot, unique))
            .collect()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}
