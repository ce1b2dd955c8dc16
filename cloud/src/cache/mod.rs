//! What was fetched of objects, or put, kept to be read again: in memory, and on disk below that.
//!
//! Objects never change, so a range of one is right for ever and is never looked after. Metadata
//! goes to both; contents go to disk alone, and only where the policy wants them there. What is
//! found on disk of metadata comes back into memory.
//!
//! In memory the longest unfetched goes first; on disk see [`disk`].

mod disk;
mod name;

pub(crate) use name::Name;

use crate::format::{Class, Uuid};
use crate::options::CachePolicy;
use cenote_base::rt::{Mutex, ranks};
use cenote_device::Device;
use disk::Disk;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Ranges of objects by their first byte.
type Ranges = BTreeMap<(Name, u64), Arc<Vec<u8>>>;

#[derive(Debug, Default)]
struct Memory {
    ranges: Ranges,
    order: VecDeque<(Name, u64)>,
    bytes: u64,
}

impl Memory {
    /// What is here of an object from `offset` on; not nothing.
    fn from(&self, name: Name, offset: u64) -> Option<&[u8]> {
        let own = self.ranges.range((name, 0)..=(name, offset));
        let ((_, start), bytes) = own.last()?;
        let from = usize::try_from(offset - start).ok()?;
        bytes.get(from..).filter(|found| !found.is_empty())
    }
}

/// Ranges of objects.
#[derive(Debug)]
pub(crate) struct Cache {
    memory: Mutex<Memory, ranks::CloudCacheMemory>,
    limit: u64,
    disk: Option<Disk>,
    policy: CachePolicy,
}

impl Cache {
    /// An empty one for `limit` bytes in memory.
    pub(crate) fn new(limit: u64, policy: CachePolicy) -> Self {
        Self {
            memory: Mutex::default(),
            limit,
            disk: None,
            policy,
        }
    }

    /// The same, with what is left of the device `uuid` on a disk.
    pub(crate) fn with_disk(self, device: Arc<dyn Device>, uuid: Uuid) -> Self {
        Self {
            disk: Disk::open(device, uuid),
            ..self
        }
    }

    /// Takes away what is in memory.
    pub(crate) fn take(&self) -> Self {
        Self {
            memory: Mutex::new(std::mem::take(&mut *self.memory.lock())),
            limit: self.limit,
            disk: None,
            policy: self.policy,
        }
    }

    /// The bytes `[offset, offset + length)` of an object, if all of them are here.
    pub(crate) fn get(&self, name: Name, class: Class, offset: u64, buffer: &mut [u8]) -> bool {
        if self.get_from_memory(name, offset, buffer) {
            return true;
        }
        let Some(disk) = &self.disk else {
            return false;
        };
        let Some(entries) = disk.get(name, offset, buffer) else {
            return false;
        };
        if class == Class::Metadata && matches!(name, Name::Data(..)) {
            for (start, bytes) in entries {
                self.keep(name, start, Arc::new(bytes));
            }
        }
        true
    }

    /// Neighbours may have come one by one.
    fn get_from_memory(&self, name: Name, offset: u64, buffer: &mut [u8]) -> bool {
        let memory = self.memory.lock();
        let mut filled = 0;
        while filled < buffer.len() {
            let Some(found) = memory.from(name, offset + filled as u64) else {
                return false;
            };
            let length = found.len().min(buffer.len() - filled);
            buffer[filled..filled + length].copy_from_slice(&found[..length]);
            filled += length;
        }
        true
    }

    /// Whether [`Self::get`] would find a range in memory.
    pub(crate) fn is_in_memory(&self, name: Name, offset: u64, length: u64) -> bool {
        let memory = self.memory.lock();
        let mut at = offset;
        while at < offset + length {
            match memory.from(name, at) {
                Some(found) => at += found.len() as u64,
                None => return false,
            }
        }
        true
    }

    /// Takes a range in, if it is of a kind that is kept.
    pub(crate) fn insert(&self, name: Name, class: Class, offset: u64, bytes: &Arc<Vec<u8>>) {
        let is_wanted = class == Class::Metadata || self.policy == CachePolicy::All;
        if let Some(disk) = self.disk.as_ref().filter(|_| is_wanted) {
            disk.insert(name, class, offset, bytes);
        }
        if class == Class::Metadata && matches!(name, Name::Data(..)) {
            self.keep(name, offset, Arc::clone(bytes));
        }
    }

    /// Keeps a range in memory.
    pub(crate) fn keep(&self, name: Name, offset: u64, bytes: Arc<Vec<u8>>) {
        let mut memory = self.memory.lock();
        let key = (name, offset);
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

    /// Saves the index of the cache on disk, so that the next opening can use it.
    pub(crate) fn save(&self) {
        if let Some(disk) = &self.disk {
            disk.save();
        }
    }
}
