//! Each block that a caller asks for is one lookup of the cache.
//!
//! Regression: blocks that are read together are fetched first and then taken from the cache. Both
//! steps were counted, so that a cold read looked half warm: graphs showed hits of which each was a
//! read of a device.

//!
//! A block of dnodes that was noted by its place was counted as data: programs that open many files
//! had hits of contents that they never read.
//!
//! Each is counted for the dataset whose reader asked, too. The figures of a pool did not say which
//! of its datasets went without the cache.

use crate::common::{TestPool, gate, sync};
use cenote_base::{ObjectId, ObjsetId};
use cenote_cache::{BlockCache, DatasetFigures, Outcome};
use cenote_dmu::{NewObject, ObjectSet, TxCost};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use std::sync::Arc;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 16;

/// Hits, waits and misses of data that a caller asked for.
fn demand(cache: &BlockCache) -> [u64; 3] {
    let lookups = &cache.lookups().demand[0];
    [Outcome::Hit, Outcome::Wait, Outcome::Miss].map(|outcome| lookups.get(outcome))
}

/// A file of [`BLOCKS`] blocks on disk: the pool, the root of its object set, and its number.
fn file() -> (Arc<TestPool>, BlockPointer, ObjectId) {
    let (pool, gate) = (TestPool::new(8), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let cost = TxCost {
        dirty_bytes: BLOCKS * BLOCK,
    };
    let tx = gate.begin(cost).expect("not suspended");
    let new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK);
    let object = set.allocate(&tx, new).expect("a number is free");
    object.write(&tx, 0, &contents()).expect("it is written");
    let id = object.id();
    drop(tx);
    let root = sync(&pool, &gate, &set);
    (pool, root, id)
}

fn contents() -> Vec<u8> {
    vec![7; (BLOCKS * BLOCK) as usize]
}

/// Reads the file in pieces.
fn read(set: &Arc<ObjectSet>, id: ObjectId, piece: usize) {
    let object = set.object(id).expect("it exists");
    let mut buffer = contents();
    for (place, piece) in buffer.chunks_mut(piece).enumerate() {
        piece.fill(0);
        let offset = (place * piece.len()) as u64;
        object.read(offset, piece).expect("it is read");
    }
    assert_eq!(buffer, contents());
}

fn of(set: &ObjectSet) -> DatasetFigures {
    set.cache().datasets()[&set.id()]
}

#[test]
fn blocks_read_together_are_counted_once_each() {
    let (pool, root, id) = file();
    let cold = pool.reopen(root, ObjsetId(7));
    let object = cold.object(id).expect("it exists");
    let before = demand(cold.cache());
    let mut buffer = vec![0; contents().len()];
    object.read(0, &mut buffer).expect("it is read");
    assert_eq!(buffer, contents());
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

/// The clone has the same blocks: it reads none of them, and they are the memory of the dataset
/// that read them.
#[test]
fn a_dataset_and_its_clone_are_counted_apart() {
    let (pool, root, id) = file();
    let head = pool.reopen(root, ObjsetId(7));
    let all = contents().len();
    read(&head, id, all);
    assert_eq!(of(&head).demand[0], [0, 0, BLOCKS], "nothing was in memory");
    let metadata = of(&head).demand[1];
    assert!(metadata[2] > 0, "its head and dnodes: {metadata:?}");
    read(&head, id, all);
    assert_eq!(of(&head).demand[0], [BLOCKS, 0, BLOCKS]);
    let again = of(&head).demand[1];
    assert!(
        again[0] > metadata[0] && again[2] == metadata[2],
        "{again:?}"
    );

    let (cache, before) = (Arc::clone(head.cache()), of(&head));
    let clone = ObjectSet::open(cache, ObjsetId(9), root, None).expect("it opens");
    read(&clone, id, all);
    let found = of(&clone);
    assert_eq!(found.demand[0], [BLOCKS, 0, 0], "all was in memory");
    assert_eq!((found.demand[1][2], found.prefetch), (0, [[0; 3]; 2]));
    assert_eq!(found.bytes, Some([0, 0]), "the other one brought them");
    assert_eq!(of(&head), before, "nothing happened there");

    let [stored, decoded] = head.cache().bytes();
    let bytes = before.bytes.expect("tags are left");
    assert!(bytes[0] >= BLOCKS * BLOCK && bytes[1] > 0, "{bytes:?}");
    assert_eq!(bytes[0] + bytes[1], stored + decoded, "there are no others");
    // What the pool counted is what its datasets counted.
    let sum = |kind: usize, outcome: usize| {
        let sets = [before, found].map(|figures| figures.demand[kind][outcome]);
        sets[0] + sets[1]
    };
    let pool = demand(head.cache());
    assert_eq!(pool, [sum(0, 0), sum(0, 1), sum(0, 2)]);
}

/// Closed datasets keep their counters; those that are gone leave nothing to the next ones.
#[test]
fn counters_outlive_the_handle_and_not_the_dataset() {
    let (pool, root, id) = file();
    let set = pool.reopen(root, ObjsetId(7));
    read(&set, id, contents().len());
    let (cache, before) = (Arc::clone(set.cache()), of(&set));
    drop(set);
    assert_eq!(cache.datasets()[&ObjsetId(7)], before);
    let again = ObjectSet::open(Arc::clone(&cache), ObjsetId(7), root, None).expect("it opens");
    read(&again, id, contents().len());
    assert_eq!(of(&again).demand[0], [BLOCKS, 0, BLOCKS]);

    cache.forget_dataset(ObjsetId(7));
    read(&again, id, contents().len());
    assert!(cache.datasets().is_empty(), "its figures are gone");
    let new = ObjectSet::open(Arc::clone(&cache), ObjsetId(7), root, None).expect("it opens");
    let found = of(&new);
    assert_eq!((found.data_lookups(), found.bytes), (0, Some([0, 0])));
}

/// The pool's own metadata is of no dataset.
#[test]
fn the_meta_object_set_is_no_dataset() {
    let (pool, root, id) = file();
    let meta = pool.reopen(root, ObjsetId(0));
    read(&meta, id, contents().len());
    assert!(meta.cache().datasets().is_empty());
    assert_eq!(demand(meta.cache())[2], BLOCKS);
}

/// Each block is read from the device once, by its reader or ahead of it; a reader asks for each
/// once, however many were read ahead.
#[test]
fn what_is_read_ahead_is_counted_apart() {
    let (pool, root, id) = file();
    let set = pool.reopen(root, ObjsetId(7));
    read(&set, id, BLOCK as usize);
    let found = of(&set);
    assert_eq!(found.demand[0].iter().sum::<u64>(), BLOCKS, "{found:?}");
    // Jobs that come too late find the blocks in memory.
    let misses = found.demand[0][2] + found.prefetch[0][2];
    assert_eq!(misses, BLOCKS, "{found:?}");
    let counts = set.cache().read_ahead();
    assert_eq!(counts.begun.get(), 1);
    assert_eq!(counts.continued.get(), BLOCKS - 1);
}

/// What is written is in memory, for the dataset that it was written to.
#[test]
fn written_blocks_are_the_writers() {
    let (pool, ..) = file();
    let datasets = pool.cache.datasets();
    let bytes = datasets[&ObjsetId(7)].bytes.expect("tags are left");
    assert!(bytes[0] >= BLOCKS * BLOCK, "{bytes:?}");
    let [stored, decoded] = pool.cache.bytes();
    assert_eq!(bytes[0] + bytes[1], stored + decoded);
}
