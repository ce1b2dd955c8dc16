//! What a mount's session has done: counters by operation.

use crate::protocol::opcode;
use cenote_base::metrics::Counter;

/// Names of the operations that are counted one by one, with their codes.
const NAMED: [(u32, &str); 18] = [
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
];

/// Counters of one mount since it began.
#[derive(Debug)]
pub struct SessionMetrics {
    operations: Box<[Counter]>,
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
            operations: (0..opcode::LIMIT).map(|_| Counter::default()).collect(),
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
    pub(crate) fn count(&self, code: u32) {
        if let Some(counter) = self.operations.get(code as usize) {
            counter.add(1);
        }
    }

    /// The number of requests of each kind, by the operation's name.
    pub fn operations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMED
            .iter()
            .map(|(code, name)| (*name, self.operations[*code as usize].get()))
    }

    /// The number of requests of the named kind; 0 for names that do not exist.
    pub fn operation(&self, name: &str) -> u64 {
        self.operations()
            .find(|(each, _)| *each == name)
            .map_or(0, |(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_name() {
        let metrics = SessionMetrics::default();
        metrics.count(opcode::READ);
        metrics.count(opcode::READ);
        metrics.count(9999);
        assert_eq!(metrics.operation("read"), 2);
        assert_eq!(metrics.operation("lookup"), 0);
        assert_eq!(metrics.operations().count(), NAMED.len());
    }
}
