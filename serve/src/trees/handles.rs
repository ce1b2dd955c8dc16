//! The files of a tree that clients have open.
//!
//! A client's file has only weak references. The strong references are here, in the tree, so
//! dropping the tree takes the files from all clients at once.

use super::names::Node;
use cenote_base::rt::{Mutex, ranks};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 8;

/// Open files by their number.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    next: AtomicU64,
    count: AtomicUsize,
    shards: [Mutex<HashMap<u64, Arc<Node>>, ranks::SiteHandles>; SHARDS],
}

impl Handles {
    fn shard(&self, number: u64) -> &Mutex<HashMap<u64, Arc<Node>>, ranks::SiteHandles> {
        &self.shards[usize::try_from(number % SHARDS as u64).expect("below 8")]
    }

    /// Keeps a file until [`Self::remove`]; returns its number.
    pub fn add(&self, node: Arc<Node>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::AcqRel);
        self.shard(number).lock().insert(number, node);
        number
    }

    /// A client closed a file.
    pub fn remove(&self, number: u64) {
        let gone = self.shard(number).lock().remove(&number);
        if gone.is_some() {
            let before = self.count.fetch_sub(1, Ordering::AcqRel);
            assert!(before > 0, "a file that is closed was counted");
        }
        drop(gone);
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}
