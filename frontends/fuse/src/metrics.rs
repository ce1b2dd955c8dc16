//! What a mount's session has done: requests by operation, and how long they took.
//!
//! A request is counted when the file system has answered it, before the answer goes to the kernel.
//! So a caller that has its answer finds it counted.

use crate::protocol::opcode;
use cenote_base::metrics::{Counter, Distribution, DurationHistogram};
use std::time::Duration;

/// Names of the operations that are counted one by one, with their codes.
const NAMED: [(u32, &str); 38] = [
    (opcode::LOOKUP, "lookup"),
    (opcode::FORGET, "forget"),
    (opcode::BATCH_FORGET, "batch_forget"),
    (opcode::GETATTR, "getattr"),
    (opcode::STATX, "statx"),
    (opcode::READLINK, "readlink"),
    (opcode::OPEN, "open"),
    (opcode::READ, "read"),
    (opcode::RELEASE, "release"),
    (opcode::LSEEK, "lseek"),
    (opcode::OPENDIR, "opendir"),
    (opcode::READDIR, "readdir"),
    (opcode::READDIRPLUS, "readdirplus"),
    (opcode::RELEASEDIR, "releasedir"),
    (opcode::STATFS, "statfs"),
    (opcode::GETXATTR, "getxattr"),
    (opcode::LISTXATTR, "listxattr"),
    (opcode::INTERRUPT, "interrupt"),
    (opcode::SETATTR, "setattr"),
    (opcode::SYMLINK, "symlink"),
    (opcode::MKNOD, "mknod"),
    (opcode::MKDIR, "mkdir"),
    (opcode::UNLINK, "unlink"),
    (opcode::RMDIR, "rmdir"),
    (opcode::RENAME, "rename"),
    (opcode::RENAME2, "rename2"),
    (opcode::LINK, "link"),
    (opcode::WRITE, "write"),
    (opcode::FSYNC, "fsync"),
    (opcode::FSYNCDIR, "fsyncdir"),
    (opcode::FLUSH, "flush"),
    (opcode::SETXATTR, "setxattr"),
    (opcode::REMOVEXATTR, "removexattr"),
    (opcode::CREATE, "create"),
    (opcode::FALLOCATE, "fallocate"),
    (opcode::COPY_FILE_RANGE, "copy_file_range"),
    (opcode::TMPFILE, "tmpfile"),
    (opcode::IOCTL, "ioctl"),
];

/// Counters of one mount since it began.
#[derive(Debug)]
pub struct SessionMetrics {
    /// By code. A few cells of one word: a request takes microseconds, and the kernel gives each
    /// to one thread.
    operations: Box<[DurationHistogram]>,
    /// Requests answered with an error, a missing name included.
    pub errors: Counter,
    /// Bytes of file data handed to the kernel.
    pub bytes_read: Counter,
    /// Bytes of data that writes brought.
    pub bytes_written: Counter,
    /// Requests that could not be decoded.
    pub malformed: Counter,
    /// Requests during which the file system panicked; they were answered with EIO.
    pub panics: Counter,
    /// Failures of the channel itself.
    pub channel_errors: Counter,
}

impl Default for SessionMetrics {
    fn default() -> Self {
        SessionMetrics {
            operations: (0..opcode::LIMIT).map(|_| Default::default()).collect(),
            errors: Counter::default(),
            bytes_read: Counter::default(),
            bytes_written: Counter::default(),
            malformed: Counter::default(),
            panics: Counter::default(),
            channel_errors: Counter::default(),
        }
    }
}

impl SessionMetrics {
    pub(crate) fn note(&self, code: u32, took: Duration) {
        if let Some(operation) = self.operations.get(code as usize) {
            operation.note_duration(took);
        }
    }

    /// How many requests of each kind there were and how many nanoseconds they took, by the
    /// operation's name.
    pub fn operations(&self) -> impl Iterator<Item = (&'static str, Distribution)> {
        NAMED
            .iter()
            .map(|(code, name)| (*name, self.operations[*code as usize].distribution()))
    }

    /// The number of requests of the named kind; 0 for names that do not exist.
    pub fn operation(&self, name: &str) -> u64 {
        self.operations()
            .find(|(each, _)| *each == name)
            .map_or(0, |(_, requests)| requests.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_name() {
        let metrics = SessionMetrics::default();
        metrics.note(opcode::READ, Duration::from_micros(2));
        metrics.note(opcode::READ, Duration::from_micros(3));
        metrics.note(9999, Duration::ZERO);
        assert_eq!(metrics.operation("read"), 2);
        assert_eq!(metrics.operation("lookup"), 0);
        let mut all = metrics.operations();
        let read = all.find(|(name, _)| *name == "read").expect("named").1;
        assert_eq!((read.count(), read.sum), (2, 5000));
    }
}
