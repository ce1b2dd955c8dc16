//! A cache of what recently requested paths name.
//!
//! In a tree that cannot change, an answer stays valid. In a head it is valid as long as nothing on
//! the way to it changes. To check this, an answer keeps the znodes on the way: the file system
//! replaces a znode when the object, or a name in a directory, changes. Absence is cached, too:
//! most lookups of a server that looks for compressed variants of files find nothing.
//!
//! Each shard has two generations, like the cache of znodes. A requested answer moves to the young
//! one. When that is full, the old one is dropped. The memory is leased from the pool's budget.

use cenote_base::rt::{Mutex, ranks};
use cenote_base::{MemoryBudget, MemoryLease};
use cenote_http::TreeError;
use cenote_posix::{FileSystem, Znode};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Shards; threads that ask for different names rarely meet.
const SHARDS: usize = 8;
/// The most bytes of one shard's young generation; both generations of all shards: 32 MiB.
const GENERATION_BYTES_MAX: u64 = 2 << 20;
/// How much a shard leases at once.
const LEASE_STEP: u64 = 128 << 10;
/// Bytes of an answer beside its path: the node, znodes with their dnodes, the table's slot.
const ANSWER_BYTES: u64 = 256;
const ZNODE_BYTES: u64 = 1024;
/// Bytes of a name in a link's target, beside the name.
const LINKED_BYTES: u64 = 40;
/// After this many requests a file counts as wanted by several clients, and stays in memory
/// regardless of its size.
const WANTED_BY_SEVERAL: u32 = 3;

/// What a path names.
#[derive(Debug)]
pub(crate) enum Named {
    /// A file with its tag, unless its contents are not on disk yet.
    File(Option<Arc<str>>),
    Directory,
    /// Nothing that is served.
    Not(TreeError),
}

/// An answer, and the way to it.
#[derive(Debug)]
pub(crate) struct Node {
    /// The objects on the way, from the root to the object itself.
    pub way: Vec<Arc<Znode>>,
    /// The names in the targets of links on the way.
    pub linked: Arc<[Vec<u8>]>,
    pub named: Named,
    pub modified: SystemTime,
    /// How often the contents of a file had changed when it was like this.
    pub changes: u64,
    /// How often it was requested.
    asked: AtomicU32,
}

impl Node {
    pub fn new(
        (way, linked): (Vec<Arc<Znode>>, Vec<Vec<u8>>),
        (named, changes): (Named, u64),
        modified: SystemTime,
    ) -> Self {
        Self {
            way,
            linked: linked.into(),
            named,
            modified,
            changes,
            asked: AtomicU32::new(0),
        }
    }

    /// The object.
    pub fn znode(&self) -> Option<&Arc<Znode>> {
        self.way.last()
    }

    /// Counts a request for it.
    pub fn note(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        // Concurrent requests may count as one. It need not be exact.
        self.asked.store(asked.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether several clients asked for it lately.
    pub fn is_wanted_by_several(&self) -> bool {
        self.asked.load(Ordering::Relaxed) >= WANTED_BY_SEVERAL
    }

    /// Whether nothing on the way has changed.
    pub fn holds(&self, files: &FileSystem) -> bool {
        let is_same = |znode: &Arc<Znode>| {
            let now = files.znode_at_hand(znode.id());
            now.is_some_and(|now| Arc::ptr_eq(&now, znode))
        };
        self.way.iter().rev().all(is_same)
    }
}

#[derive(Debug, Default)]
struct Shard {
    young: HashMap<Vec<u8>, Arc<Node>>,
    old: HashMap<Vec<u8>, Arc<Node>>,
    /// Bytes of the young generation.
    bytes: u64,
    leases: Vec<MemoryLease>,
}

impl Shard {
    /// Leased bytes cover both generations, hence the half.
    fn room(&self) -> u64 {
        self.leases.len() as u64 * LEASE_STEP / 2
    }

    /// Adds an answer; returns the answers that were evicted for it.
    fn insert(
        &mut self,
        path: Vec<u8>,
        node: Arc<Node>,
        memory: &Arc<MemoryBudget>,
    ) -> HashMap<Vec<u8>, Arc<Node>> {
        let znodes = match node.named {
            // Directories on the way are shared with others.
            Named::File(_) | Named::Directory => ZNODE_BYTES,
            Named::Not(_) => 0,
        };
        let linked = node
            .linked
            .iter()
            .map(|name| LINKED_BYTES + name.len() as u64);
        let size = ANSWER_BYTES
            + znodes
            + 2 * path.len() as u64
            + 8 * node.way.len() as u64
            + linked.sum::<u64>();
        let mut gone = HashMap::new();
        if self.bytes + size > self.room() {
            let may_grow = self.room() < GENERATION_BYTES_MAX;
            match may_grow.then(|| memory.lease_spare(LEASE_STEP)) {
                Some(Ok(lease)) => self.leases.push(lease),
                Some(Err(_)) | None => {
                    let young = std::mem::take(&mut self.young);
                    gone = std::mem::replace(&mut self.old, young);
                    self.bytes = 0;
                }
            }
        }
        if self.bytes + size <= self.room() {
            self.bytes += size;
            self.young.insert(path, node);
        }
        gone
    }
}

/// A bounded table of answers by path.
#[derive(Debug)]
pub(crate) struct Names {
    shards: [Mutex<Shard, ranks::SiteNames>; SHARDS],
    hasher: RandomState,
    memory: Arc<MemoryBudget>,
}

impl Names {
    pub fn new(memory: Arc<MemoryBudget>) -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            memory,
        }
    }

    /// A path as the table has it.
    pub fn key(path: &[Vec<u8>]) -> Vec<u8> {
        path.join(&b'/')
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard, ranks::SiteNames> {
        let index = self.hasher.hash_one(key) % SHARDS as u64;
        &self.shards[usize::try_from(index).expect("below 8")]
    }

    /// The cached answer for a path.
    pub fn get(&self, key: &[u8]) -> Option<Arc<Node>> {
        let mut shard = self.shard(key).lock();
        if let Some(node) = shard.young.get(key) {
            return Some(Arc::clone(node));
        }
        let (path, node) = shard.old.remove_entry(key)?;
        let gone = shard.insert(path, Arc::clone(&node), &self.memory);
        drop(shard);
        // Without the lock: the znodes of many files may be freed here.
        drop(gone);
        Some(node)
    }

    /// Remembers what a path names.
    pub fn insert(&self, key: Vec<u8>, node: &Arc<Node>) {
        let gone = (self.shard(&key).lock()).insert(key.clone(), Arc::clone(node), &self.memory);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent() -> Arc<Node> {
        let named = Named::Not(TreeError::NotFound);
        let way = (Vec::new(), Vec::new());
        Arc::new(Node::new(way, (named, 0), SystemTime::UNIX_EPOCH))
    }

    /// A client that asks for a million names that are not there must not take the memory.
    #[test]
    fn memory_is_bounded_and_what_is_asked_for_stays() {
        let memory = MemoryBudget::new(64 << 20);
        let names = Names::new(Arc::clone(&memory));
        let hot = Names::key(&[b"pub".to_vec(), b"hot".to_vec()]);
        names.insert(hot.clone(), &absent());
        for number in 0..200_000 {
            names.insert(format!("{number}").into_bytes(), &absent());
            assert!(names.get(&hot).is_some(), "after {number}");
        }
        assert!(memory.leased() <= 2 * SHARDS as u64 * GENERATION_BYTES_MAX + LEASE_STEP);
        assert!(names.get(b"0").is_none() && names.get(b"199999").is_some());
        drop(names);
        assert_eq!(memory.leased(), 0);
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let names = Names::new(MemoryBudget::new(0));
        names.insert(b"a".to_vec(), &absent());
        assert!(names.get(b"a").is_none());
    }
}
