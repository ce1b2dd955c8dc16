//! Each block that somebody asks for is one lookup of the cache.
//!
//! Blocks that are read together are fetched first and taken from the cache then. Both steps were
//! counted, so that a cold read looked half warm: graphs showed hits of which each was a read of a
//! device.

use crate::common::{TestPool, gate, sync};
use cenote_base::ObjsetId;
use cenote_cache::{BlockCache, Outcome};
use cenote_dmu::{NewObject, TxCost};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 16;

/// Hits, waits and misses of data that somebody asked for.
fn demand(cache: &BlockCache) -> [u64; 3] {
    let lookups = &cache.lookups().demand[0];
    [Outcome::Hit, Outcome::Wait, Outcome::Miss].map(|outcome| lookups.get(outcome))
}

#[test]
fn blocks_read_together_are_counted_once_each() {
    let (pool, gate) = (TestPool::new(8), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let cost = TxCost {
        dirty_bytes: BLOCKS * BLOCK,
    };
    let tx = gate.begin(cost).expect("not suspended");
    let new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK);
    let object = set.allocate(&tx, new).expect("a number is free");
    let bytes = vec![7; (BLOCKS * BLOCK) as usize];
    object.write(&tx, 0, &bytes).expect("it is written");
    let id = object.id();
    drop(tx);
    let root = sync(&pool, &gate, &set);
    let cold = pool.reopen(root, ObjsetId(7));
    let object = cold.object(id).expect("it exists");
    let before = demand(cold.cache());
    let mut buffer = vec![0; bytes.len()];
    object.read(0, &mut buffer).expect("it is read");
    assert_eq!(buffer, bytes);
    let after = demand(cold.cache());
    let asked: u64 = after.iter().sum::<u64>() - before.iter().sum::<u64>();
    assert_eq!(asked, BLOCKS, "{before:?}, {after:?}");
    assert_eq!(after[0], before[0], "nothing was in memory");
    // The second time everything is.
    object.read(0, &mut buffer).expect("it is read");
    let again = demand(cold.cache());
    assert_eq!(again[2], after[2], "no block is read again");
    assert_eq!(again[0] - after[0], BLOCKS);
}
