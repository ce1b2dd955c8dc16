//! Parsed znodes, kept for the next asker.
//!
//! Two generations per shard: a lookup moves its entry to the young one; when that is full the old
//! one is dropped and the young one becomes old. Each step is a hash lookup, nothing is ordered,
//! and what was used since the last turn survives the next. The memory is leased from the pool's
//! budget in steps; when that refuses, the cache turns over early instead of growing.

use crate::znode::Znode;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{MemoryBudget, MemoryLease, ObjectId};
use std::collections::HashMap;
use std::sync::Arc;

/// Shards; threads that look at different objects rarely meet.
const SHARDS: usize = 8;
/// The most bytes of one shard's young generation; both generations of all shards: 16 MiB.
const GENERATION_BYTES_MAX: u64 = 1 << 20;
/// How much a shard leases at once.
const LEASE_STEP: u64 = 128 << 10;

#[derive(Debug, Default)]
struct Shard {
    young: HashMap<ObjectId, Arc<Znode>>,
    old: HashMap<ObjectId, Arc<Znode>>,
    /// Bytes of the young generation.
    bytes: u64,
    /// What the larger of the generations may take together with the other.
    leases: Vec<MemoryLease>,
    /// How often a znode was removed because its object changed.
    removals: u64,
}

impl Shard {
    fn turn_over(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.bytes = 0;
    }

    /// Leased bytes cover both generations, hence the half.
    fn room(&self) -> u64 {
        self.leases.len() as u64 * LEASE_STEP / 2
    }

    fn insert(&mut self, znode: Arc<Znode>, memory: &Arc<MemoryBudget>) {
        let size = znode.memory_size();
        if self.bytes + size > self.room() {
            let may_grow = self.room() < GENERATION_BYTES_MAX;
            match may_grow.then(|| memory.lease_spare(LEASE_STEP)) {
                Some(Ok(lease)) => self.leases.push(lease),
                Some(Err(_)) | None => self.turn_over(),
            }
        }
        if self.bytes + size <= self.room() {
            self.bytes += size;
            self.young.insert(znode.id(), znode);
        }
    }
}

/// A bounded cache of znodes by object number.
#[derive(Debug)]
pub(crate) struct ZnodeCache {
    shards: [Mutex<Shard, ranks::ZnodeCache>; SHARDS],
    memory: Arc<MemoryBudget>,
}

impl ZnodeCache {
    /// An empty cache that leases from `memory`.
    pub(crate) fn new(memory: Arc<MemoryBudget>) -> Self {
        Self {
            shards: Default::default(),
            memory,
        }
    }

    fn shard(&self, id: ObjectId) -> MutexGuard<'_, Shard> {
        let index = usize::try_from(id.0 % SHARDS as u64).expect("below 8");
        // A panic elsewhere leaves maps that are still maps.
        self.shards[index].lock()
    }

    /// The znode of object `id`, if it is cached.
    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<Znode>> {
        let mut shard = self.shard(id);
        if let Some(znode) = shard.young.get(&id) {
            return Some(Arc::clone(znode));
        }
        let znode = shard.old.remove(&id)?;
        shard.insert(Arc::clone(&znode), &self.memory);
        Some(znode)
    }

    /// Keeps `znode`.
    #[cfg(test)]
    pub(crate) fn insert(&self, znode: &Arc<Znode>) {
        self.shard(znode.id())
            .insert(Arc::clone(znode), &self.memory);
    }

    /// Get it before object `id` is read; see [`Self::insert_read`].
    pub(crate) fn stamp(&self, id: ObjectId) -> u64 {
        self.shard(id).removals
    }

    /// Keeps a znode that was read after [`Self::stamp`], unless it may have changed meanwhile.
    pub(crate) fn insert_read(&self, znode: &Arc<Znode>, stamp: u64) {
        let mut shard = self.shard(znode.id());
        if shard.removals == stamp {
            shard.insert(Arc::clone(znode), &self.memory);
        }
    }

    /// Drops the znode of object `id`, which has changed.
    pub(crate) fn remove(&self, id: ObjectId) {
        let mut shard = self.shard(id);
        shard.removals += 1;
        if let Some(znode) = shard.young.remove(&id) {
            shard.bytes = shard.bytes.saturating_sub(znode.memory_size());
        }
        shard.old.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn znode(id: u64) -> Arc<Znode> {
        Arc::new(Znode::for_tests(ObjectId(id)))
    }

    #[test]
    fn memory_is_bounded_and_recent_znodes_stay() {
        let memory = MemoryBudget::new(64 << 20);
        let cache = ZnodeCache::new(Arc::clone(&memory));
        for id in 1..100_000 {
            cache.insert(&znode(id));
            // The first one is looked up all the time.
            cache
                .get(ObjectId(8))
                .or_else(|| (id < 8).then(|| znode(8)))
                .expect("in use");
        }
        assert!(memory.leased() <= 2 * SHARDS as u64 * GENERATION_BYTES_MAX + LEASE_STEP);
        assert!(cache.get(ObjectId(99_999)).is_some());
        assert!(cache.get(ObjectId(9)).is_none());
        drop(cache);
        assert_eq!(memory.leased(), 0);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept() {
        let cache = ZnodeCache::new(MemoryBudget::new(64 << 20));
        let stamp = cache.stamp(ObjectId(1));
        cache.remove(ObjectId(1));
        cache.insert_read(&znode(1), stamp);
        assert!(cache.get(ObjectId(1)).is_none());
        cache.insert_read(&znode(1), cache.stamp(ObjectId(1)));
        assert!(cache.get(ObjectId(1)).is_some());
        cache.remove(ObjectId(1));
        assert!(cache.get(ObjectId(1)).is_none());
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let cache = ZnodeCache::new(MemoryBudget::new(0));
        cache.insert(&znode(1));
        assert!(cache.get(ObjectId(1)).is_none());
    }
}
