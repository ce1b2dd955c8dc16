//! Counters that many threads bump without sharing a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Enough shards that two busy threads rarely meet on one; a power of two for a cheap index.
const SHARDS: usize = 8;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

/// A monotonic event or byte count.
#[derive(Debug, Default)]
pub struct Counter {
    shards: [Shard; SHARDS],
}

fn shard_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    INDEX.with(|index| {
        if index.get() == usize::MAX {
            index.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        index.get()
    })
}

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.shards[shard_index()]
            .0
            .fetch_add(amount, Ordering::Relaxed);
    }

    /// The sum over all shards; concurrent additions may or may not be in it.
    pub fn get(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.0.load(Ordering::Relaxed))
            .sum()
    }
}
