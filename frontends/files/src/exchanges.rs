//! The exchanges that a mount has seen, and the open files that disappeared in them.

use cenote_base::ObjectId;
use cenote_base::rt::{RwLock, ranks};
use cenote_fuse::Handle;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the number of exchanges begins in a handle.
const SHIFT: u32 = 8;

/// A handle that says how many exchanges there had been when it was given out.
pub(super) fn stamped(handle: Handle, exchanges: u32) -> Handle {
    Handle(handle.0 | u64::from(exchanges) << SHIFT)
}

fn stamp_of(handle: Handle) -> u32 {
    u32::try_from(handle.0 >> SHIFT).unwrap_or(u32::MAX)
}

/// What exchanges left behind.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    count: AtomicU32,
    /// Files that were open and gone after an exchange, and the number of the last of these.
    gone: RwLock<HashMap<ObjectId, u32>, ranks::Exchanges>,
}

impl Exchanges {
    /// How many there were.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether a handle is of a file that disappeared in an exchange.
    pub fn is_gone(&self, object: ObjectId, handle: Handle) -> bool {
        if self.count() == 0 {
            return false;
        }
        let gone = self.gone.read();
        let last = gone.get(&object);
        last.is_some_and(|last| stamp_of(handle) < *last)
    }

    /// There was one more, which took these away.
    pub fn note(&self, objects: &[ObjectId]) {
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        let mut gone = self.gone.write();
        gone.extend(objects.iter().map(|object| (*object, number)));
    }
}
