//! Adaptive replacement (Megiddo and Modha, FAST 2003) by bytes.
//!
//! Four lists: blocks seen once lately (*recent*) and more than once (*frequent*), and for each
//! the names of blocks that fell off its end (*ghosts*). A hit on a ghost says that its list
//! should have been longer, so the target between the two moves. A scan of a big file fills only
//! the recent list and leaves what is used again alone.
//!
//! A hit on a frequent block only marks it; blocks that were marked since go back to the head of
//! their list when they come up for eviction. Moving a block at each hit would touch its three
//! neighbours in the list, each a line that no other core's cache has, which took most of a hit.

use crate::hash::BlockHashState;
use cenote_base::rt::{Mutex, ranks};
use cenote_device::BlockBuffer;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tag of blocks that no dataset's reader brought.
pub(crate) const NOBODY: u32 = 0;

/// The kind of a block, and the dataset that brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Whether it is metadata.
    pub(crate) is_metadata: bool,
    /// The tag of the dataset whose reader or writer brought it, or [`NOBODY`].
    pub(crate) tag: u32,
}

/// The name of a block's contents: where its first copy is and when that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The words of the first DVA; its allocated size does no harm.
    pub dva: [u64; 2],
    /// The physical birth txg.
    pub birth: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListId {
    Recent,
    Frequent,
    RecentGhost,
    FrequentGhost,
}

use ListId::{Frequent, FrequentGhost, Recent, RecentGhost};

const NONE: usize = usize::MAX;

/// Memory that an entry takes beside its block: node, hash slot and allocation, rounded up.
const ENTRY_OVERHEAD: u64 = 160;

/// One line of a processor's cache: a lookup that misses it waits for one line here and not two.
#[derive(Debug)]
#[repr(align(64))]
struct Node {
    id: BlockId,
    block: Option<Arc<BlockBuffer>>,
    size: u64,
    list: ListId,
    /// Hit since it came to its place in the frequent list.
    is_used: bool,
    is_metadata: bool,
    /// Of its [`Origin`].
    tag: u32,
    previous: usize,
    next: usize,
}

const _: () = assert!(size_of::<Node>() == 64);

#[derive(Clone, Copy, Debug)]
struct List {
    /// Most lately used.
    head: usize,
    tail: usize,
    bytes: u64,
    /// Of these, what is metadata.
    metadata_bytes: u64,
}

/// What a cache has, and what it did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArcFigures {
    /// Lists in the order *recent*, *frequent*, and the ghosts of both.
    pub lists: [ListFigures; 4],
    /// Bytes that the recent list should have.
    pub recent_target: u64,
    /// Blocks that were dropped for want of room.
    pub evicted_blocks: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
    /// Blocks that are cached.
    pub blocks: u64,
}

/// One list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListFigures {
    /// Bytes of the blocks in it; of a ghost, those that its blocks had.
    pub bytes: u64,
    /// Of these, what is metadata.
    pub metadata_bytes: u64,
    /// Lookups that found a block in it; of a ghost, blocks that came back.
    pub hits: u64,
}

#[derive(Debug)]
struct Shard {
    index: HashMap<BlockId, usize, BlockHashState>,
    nodes: Vec<Node>,
    free: Vec<usize>,
    lists: [List; 4],
    /// Bytes that the recent list should have.
    recent_target: u64,
    limit: u64,
    /// Counted under the shard's lock, so plain words do.
    hits: [u64; 4],
    /// Blocks and bytes.
    evicted: [u64; 2],
    /// Nodes that have their block.
    blocks: u64,
    /// Bytes of the blocks with each tag, data and metadata; a tag without a block has no entry.
    tagged: HashMap<u32, [u64; 2], BlockHashState>,
}

/// A cache of blocks, bounded in bytes, safe to use from many threads.
#[derive(Debug)]
pub struct ArcCache {
    shards: Vec<Mutex<Shard, ranks::ArcShard>>,
    hasher: BlockHashState,
    limit: AtomicU64,
}

/// A shard must have room for several blocks of 16 MiB, or those would never be cached.
const SHARD_BYTES_MIN: u64 = 64 << 20;
const SHARDS_MAX: u64 = 16;
/// Blocks seen once of which a shard keeps so many bytes, however slowly memory comes.
const RECENT_BYTES_MIN: u64 = 16 << 20;

impl ArcCache {
    /// A cache of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let count = (limit / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shards = (0..count)
            .map(|_| Mutex::new(Shard::new(limit / count)))
            .collect();
        Self {
            shards,
            hasher: BlockHashState::new(),
            limit: AtomicU64::new(limit),
        }
    }

    fn shard(&self, id: &BlockId) -> &Mutex<Shard, ranks::ArcShard> {
        let count = self.shards.len() as u64;
        let index = usize::try_from(self.hasher.hash_one(id) % count).expect("at most 16 shards");
        &self.shards[index]
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets another limit; what is above it is dropped before this returns.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        let count = self.shards.len() as u64;
        for shard in &self.shards {
            shard.lock().set_limit(limit / count);
        }
    }

    /// The block, if it is cached.
    pub fn get(&self, id: &BlockId) -> Option<Arc<BlockBuffer>> {
        self.shard(id).lock().get(id)
    }

    /// What it has and did.
    pub fn figures(&self) -> ArcFigures {
        let mut all = ArcFigures::default();
        for shard in &self.shards {
            let shard = shard.lock();
            for (sum, (list, hits)) in all.lists.iter_mut().zip(shard.lists.iter().zip(shard.hits))
            {
                sum.bytes += list.bytes;
                sum.metadata_bytes += list.metadata_bytes;
                sum.hits += hits;
            }
            all.recent_target += shard.recent_target;
            all.evicted_blocks += shard.evicted[0];
            all.evicted_bytes += shard.evicted[1];
            all.blocks += shard.blocks;
        }
        all
    }

    /// Whether the block is cached; not counted as a use.
    pub fn contains(&self, id: &BlockId) -> bool {
        let shard = self.shard(id).lock();
        shard
            .index
            .get(id)
            .is_some_and(|node| shard.nodes[*node].block.is_some())
    }

    /// Caches a block; a block larger than a shard is not kept.
    pub fn insert(&self, id: BlockId, block: Arc<BlockBuffer>, origin: Origin) {
        self.shard(&id).lock().insert(id, block, origin);
    }

    /// Adds the bytes of cached blocks by their tag: data, metadata.
    pub fn add_tagged(&self, sums: &mut HashMap<u32, [u64; 2]>) {
        for shard in &self.shards {
            for (tag, bytes) in &shard.lock().tagged {
                let sum = sums.entry(*tag).or_default();
                *sum = [sum[0] + bytes[0], sum[1] + bytes[1]];
            }
        }
    }

    /// Forgets a block.
    pub fn remove(&self, id: &BlockId) {
        self.shard(id).lock().remove(id);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let (hits, evicted) = (shard.hits, shard.evicted);
            *shard = Shard {
                hits,
                evicted,
                ..Shard::new(shard.limit)
            };
        }
    }

    /// Bytes of cached blocks with their overhead.
    pub fn bytes(&self) -> u64 {
        let of = |shard: &Mutex<Shard, ranks::ArcShard>| {
            let shard = shard.lock();
            shard.bytes(Recent) + shard.bytes(Frequent)
        };
        self.shards.iter().map(of).sum()
    }
}

impl Shard {
    fn new(limit: u64) -> Self {
        let empty = List {
            head: NONE,
            tail: NONE,
            bytes: 0,
            metadata_bytes: 0,
        };
        let lists = [empty; 4];
        let (index, nodes, free) = (
            HashMap::with_hasher(BlockHashState::new()),
            Vec::new(),
            Vec::new(),
        );
        Self {
            index,
            nodes,
            free,
            lists,
            recent_target: 0,
            limit,
            hits: [0; 4],
            evicted: [0; 2],
            blocks: 0,
            tagged: HashMap::with_hasher(BlockHashState::new()),
        }
    }

    fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        self.recent_target = self.recent_target.min(limit);
        self.shrink();
    }

    fn bytes(&self, list: ListId) -> u64 {
        self.lists[list as usize].bytes
    }

    fn get(&mut self, id: &BlockId) -> Option<Arc<BlockBuffer>> {
        let index = *self.index.get(id)?;
        let node = &mut self.nodes[index];
        let block = node.block.clone()?;
        self.hits[node.list as usize] += 1;
        match node.list {
            Frequent => node.is_used = true,
            _ => self.move_to(index, Frequent),
        }
        Some(block)
    }

    fn insert(&mut self, id: BlockId, block: Arc<BlockBuffer>, origin: Origin) {
        let size = block.capacity() as u64 + ENTRY_OVERHEAD;
        if size > self.limit {
            return;
        }
        match self.index.get(&id).copied() {
            Some(node) => {
                self.learn_from_ghost(node);
                self.unlink(node);
                match self.nodes[node].block.is_some() {
                    true => self.untag(node),
                    false => self.blocks += 1,
                }
                let node_of_block = &mut self.nodes[node];
                (node_of_block.block, node_of_block.size) = (Some(block), size);
                node_of_block.is_metadata = origin.is_metadata;
                node_of_block.tag = origin.tag;
                self.tag(node);
                self.link(node, Frequent);
            }
            None => {
                let node = self.allocate(id, block, size, origin);
                self.blocks += 1;
                self.index.insert(id, node);
                self.tag(node);
                self.link(node, Recent);
            }
        }
        if cenote_device::fresh_pages_are_late() && self.bytes(Recent) > RECENT_BYTES_MIN {
            self.give_back(size);
        }
        self.shrink();
        assert!(self.bytes(Recent) + self.bytes(Frequent) <= self.limit);
    }

    /// Drops about so many bytes of blocks that were seen once, so that others need not wait for
    /// fresh memory.
    fn give_back(&mut self, size: u64) {
        let enough = self.bytes(Recent).saturating_sub(size);
        while self.bytes(Recent) > enough {
            let node = self.lists[Recent as usize].tail;
            self.evict(node, RecentGhost);
        }
    }

    /// Drops the block of a node, whose name goes to `ghost`.
    fn evict(&mut self, node: usize, ghost: ListId) {
        self.untag(node);
        self.nodes[node].block = None;
        self.blocks -= 1;
        self.evicted[0] += 1;
        self.evicted[1] += self.nodes[node].size;
        self.move_to(node, ghost);
    }

    fn remove(&mut self, id: &BlockId) {
        if let Some(node) = self.index.remove(id) {
            self.unlink(node);
            if self.nodes[node].block.take().is_some() {
                self.untag(node);
                self.blocks -= 1;
            }
            self.free.push(node);
        }
    }

    /// Counts a node's block for its tag.
    fn tag(&mut self, node: usize) {
        let Node {
            tag,
            size,
            is_metadata,
            ..
        } = self.nodes[node];
        if tag != NOBODY {
            self.tagged.entry(tag).or_default()[usize::from(is_metadata)] += size;
        }
    }

    /// Counts a node's block no more, which [`Self::tag`] had counted.
    fn untag(&mut self, node: usize) {
        let Node {
            tag,
            size,
            is_metadata,
            ..
        } = self.nodes[node];
        if tag == NOBODY {
            return;
        }
        let bytes = self.tagged.get_mut(&tag).expect("its block was counted");
        bytes[usize::from(is_metadata)] -= size;
        if *bytes == [0; 2] {
            self.tagged.remove(&tag);
        }
    }

    /// Moves the target towards the list whose ghost came back.
    fn learn_from_ghost(&mut self, node: usize) {
        let size = self.nodes[node].size;
        if let list @ (RecentGhost | FrequentGhost) = self.nodes[node].list {
            self.hits[list as usize] += 1;
        }
        let (recent, frequent) = (self.bytes(RecentGhost), self.bytes(FrequentGhost));
        match self.nodes[node].list {
            RecentGhost => {
                let step = size.saturating_mul((frequent / recent.max(1)).max(1));
                self.recent_target = self.recent_target.saturating_add(step).min(self.limit);
            }
            FrequentGhost => {
                let step = size.saturating_mul((recent / frequent.max(1)).max(1));
                self.recent_target = self.recent_target.saturating_sub(step);
            }
            Recent | Frequent => {}
        }
    }

    fn shrink(&mut self) {
        while self.bytes(Recent) + self.bytes(Frequent) > self.limit {
            let from_recent = self.bytes(Recent) > self.recent_target
                || self.lists[Frequent as usize].tail == NONE;
            let (list, ghost) = if from_recent {
                (Recent, RecentGhost)
            } else {
                (Frequent, FrequentGhost)
            };
            let mut node = self.lists[list as usize].tail;
            if node == NONE {
                node = self.lists[Frequent as usize].tail;
            }
            assert!(node != NONE, "lists with bytes have a tail");
            // Each step takes a mark away, and none is set under this lock: the loop ends.
            if self.nodes[node].is_used {
                self.move_to(node, Frequent);
                continue;
            }
            self.evict(node, ghost);
        }
        for ghost in [RecentGhost, FrequentGhost] {
            while self.bytes(ghost) > self.limit / 2 {
                let node = self.lists[ghost as usize].tail;
                self.unlink(node);
                self.index.remove(&self.nodes[node].id);
                self.free.push(node);
            }
        }
    }

    fn allocate(
        &mut self,
        id: BlockId,
        block: Arc<BlockBuffer>,
        size: u64,
        origin: Origin,
    ) -> usize {
        let node = Node {
            id,
            block: Some(block),
            size,
            list: Recent,
            is_used: false,
            is_metadata: origin.is_metadata,
            tag: origin.tag,
            previous: NONE,
            next: NONE,
        };
        match self.free.pop() {
            Some(index) => {
                self.nodes[index] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }

    fn move_to(&mut self, node: usize, list: ListId) {
        self.unlink(node);
        self.link(node, list);
    }

    fn unlink(&mut self, node: usize) {
        let Node {
            previous,
            next,
            list,
            size,
            is_metadata,
            ..
        } = self.nodes[node];
        match previous {
            NONE => self.lists[list as usize].head = next,
            _ => self.nodes[previous].next = next,
        }
        match next {
            NONE => self.lists[list as usize].tail = previous,
            _ => self.nodes[next].previous = previous,
        }
        let list = &mut self.lists[list as usize];
        list.bytes -= size;
        list.metadata_bytes -= if is_metadata { size } else { 0 };
    }

    fn link(&mut self, node: usize, list: ListId) {
        let head = self.lists[list as usize].head;
        self.nodes[node].list = list;
        self.nodes[node].is_used = false;
        self.nodes[node].previous = NONE;
        self.nodes[node].next = head;
        match head {
            NONE => self.lists[list as usize].tail = node,
            _ => self.nodes[head].previous = node,
        }
        self.lists[list as usize].head = node;
        let Node {
            size, is_metadata, ..
        } = self.nodes[node];
        let list = &mut self.lists[list as usize];
        list.bytes += size;
        list.metadata_bytes += if is_metadata { size } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> BlockId {
        BlockId {
            dva: [8, n],
            birth: 1,
        }
    }

    /// A file's block that no dataset's reader brought.
    const DATA: Origin = Origin {
        is_metadata: false,
        tag: NOBODY,
    };

    fn block(size: u64) -> Arc<BlockBuffer> {
        let length = usize::try_from(size - ENTRY_OVERHEAD).expect("small");
        Arc::new(vec![0; length].into())
    }

    #[test]
    fn stays_below_its_limit_whatever_comes() {
        let cache = ArcCache::new(100_000);
        for n in 0..10_000 {
            cache.insert(id(n * 7919 % 300), block(500 + n % 900), DATA);
            cache.get(&id(n % 17));
            assert!(cache.bytes() <= 100_000);
        }
        cache.insert(id(1 << 40), block(100_001), DATA);
        assert!(!cache.contains(&id(1 << 40)), "larger than the cache");
    }

    #[test]
    fn a_smaller_limit_holds_at_once() {
        let cache = ArcCache::new(256 << 20);
        for n in 0..1000 {
            cache.insert(id(n), block(100_000), DATA);
        }
        let before = cache.bytes();
        cache.set_limit(4 << 20);
        assert!(before > 90_000_000 && cache.bytes() <= 4 << 20);
        cache.set_limit(256 << 20);
        for n in 0..1000 {
            cache.insert(id(n), block(100_000), DATA);
        }
        assert_eq!(cache.bytes(), before, "room again");
        assert_eq!(cache.limit(), 256 << 20);
    }

    #[test]
    fn what_is_given_back_was_seen_once() {
        let mut shard = Shard::new(1 << 20);
        for n in 0..20 {
            shard.insert(id(n), block(10_000), DATA);
        }
        assert!((0..5).all(|n| shard.get(&id(n)).is_some()));
        shard.give_back(20_000);
        let kept = |n| shard.index.get(&id(n)).map(|node| &shard.nodes[*node]);
        let has = |n| kept(n).is_some_and(|node| node.block.is_some());
        assert!((0..5).all(has), "used again");
        assert!(!has(5) && !has(6) && (7..20).all(has), "the oldest two");
        shard.give_back(1 << 30);
        assert_eq!(shard.bytes(Recent), 0);
    }

    /// The sums by tag are those of the blocks, whatever comes, goes, returns and is replaced.
    #[test]
    fn bytes_are_counted_for_who_brought_them() {
        let cache = ArcCache::new(100_000);
        let tagged = || {
            let mut sums = HashMap::new();
            cache.add_tagged(&mut sums);
            sums
        };
        let origin = |n: u64| Origin {
            is_metadata: n.is_multiple_of(3),
            tag: (n % 4) as u32,
        };
        for n in 0..20_000_u64 {
            let place = id(n * 7919 % 300);
            match n % 11 {
                0 => cache.remove(&place),
                5 => drop(cache.get(&place)),
                _ => cache.insert(place, block(500 + n % 900), origin(n)),
            }
            if n.is_multiple_of(97) {
                let shard = cache.shards[0].lock();
                let mut expected: HashMap<u32, [u64; 2]> = HashMap::new();
                let live = shard.index.values().map(|node| &shard.nodes[*node]);
                for node in live.filter(|node| node.block.is_some() && node.tag != NOBODY) {
                    expected.entry(node.tag).or_default()[usize::from(node.is_metadata)] +=
                        node.size;
                }
                drop(shard);
                assert_eq!(tagged(), expected);
            }
        }
        let of_nobody = cache.bytes() - tagged().values().flatten().sum::<u64>();
        assert!(of_nobody > 0 && tagged().len() == 3);
        cache.set_limit(0);
        assert!(
            tagged().is_empty(),
            "an empty cache has no bytes of any dataset"
        );
    }

    #[test]
    fn a_scan_leaves_what_is_used_again() {
        let cache = ArcCache::new(100_000);
        for _ in 0..3 {
            for n in 0..20 {
                if cache.get(&id(n)).is_none() {
                    cache.insert(id(n), block(1000), DATA);
                }
            }
        }
        for n in 1000..5000 {
            cache.insert(id(n), block(1000), DATA);
        }
        let kept = (0..20).filter(|n| cache.contains(&id(*n))).count();
        assert_eq!(
            kept, 20,
            "blocks seen twice survive a scan of 40 times the cache"
        );
    }

    #[test]
    fn what_was_hit_outlives_what_was_not() {
        let mut shard = Shard::new(10_000);
        for n in 0..10 {
            shard.insert(id(n), block(1000), DATA);
            shard.get(&id(n));
        }
        // All ten are frequent; the oldest is hit again.
        shard.get(&id(0));
        // The second time it comes as a ghost that returns, and pushes out a frequent block.
        shard.insert(id(100), block(1000), DATA);
        shard.insert(id(100), block(1000), DATA);
        let kept = |shard: &mut Shard, n| shard.get(&id(n)).is_some();
        assert!(kept(&mut shard, 0), "it was marked");
        assert!(!kept(&mut shard, 1), "it was the oldest without a mark");
    }

    #[test]
    fn a_ghost_that_returns_moves_the_target() {
        let mut shard = Shard::new(10_000);
        for n in 0..10 {
            shard.insert(id(n), block(1000), DATA);
            shard.get(&id(n));
        }
        shard.insert(id(100), block(1000), DATA);
        shard.insert(id(101), block(1000), DATA);
        assert!(shard.get(&id(100)).is_none(), "pushed out by the next one");
        shard.insert(id(100), block(1000), DATA);
        assert!(shard.recent_target >= 1000);
    }
}
