//! What was fetched from data objects, kept to be read again.

use crate::core::lock;
use crate::format::ObjectNumber;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Ranges of one object by their first byte.
type Ranges = BTreeMap<(ObjectNumber, u64), Arc<Vec<u8>>>;

#[derive(Debug, Default)]
struct Memory {
    ranges: Ranges,
    order: VecDeque<(ObjectNumber, u64)>,
    bytes: u64,
}

/// Ranges of objects.
#[derive(Debug)]
pub(crate) struct Cache {
    memory: Mutex<Memory>,
    limit: u64,
}

impl Cache {
    /// An empty one for so many bytes in memory.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            memory: Mutex::default(),
            limit,
        }
    }

    /// The bytes `[offset, offset + length)` of an object, if one range has all of them.
    pub(crate) fn get(&self, object: ObjectNumber, offset: u64, buffer: &mut [u8]) -> bool {
        let memory = lock(&self.memory);
        let own = memory.ranges.range((object, 0)..=(object, offset));
        let Some(((_, start), bytes)) = own.last() else {
            return false;
        };
        let from = (offset - start) as usize;
        match bytes.get(from..from + buffer.len()) {
            Some(found) => {
                buffer.copy_from_slice(found);
                true
            }
            None => false,
        }
    }

    /// Keeps a range.
    pub(crate) fn insert(&self, object: ObjectNumber, offset: u64, bytes: Arc<Vec<u8>>) {
        let mut memory = lock(&self.memory);
        let key = (object, offset);
        memory.bytes += bytes.len() as u64;
        if let Some(old) = memory.ranges.insert(key, bytes) {
            memory.bytes -= old.len() as u64;
        } else {
            memory.order.push_back(key);
        }
        while memory.bytes > self.limit {
            let Some(oldest) = memory.order.pop_front() else {
                break;
            };
            if let Some(old) = memory.ranges.remove(&oldest) {
                memory.bytes -= old.len() as u64;
            }
        }
    }
}
