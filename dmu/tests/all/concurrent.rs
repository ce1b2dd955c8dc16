//! Many threads at one object set while it is synced all the time.
//!
//! Every block is written with one byte repeated. So a reader that sees two has seen a torn block,
//! one that sees the junk that freed blocks are filled with has read what was given up, and one
//! that sees an older byte after a newer one has gone back in time.

use crate::common::{Random, TestPool, Way, gate, sync};
use cenote_base::{BlockId, ObjectId, ObjsetId};
use cenote_dmu::{NewObject, ObjectSet, TxCost, TxgGate};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 300;
const OBJECTS: u64 = 4;
const ROUNDS: u64 = 120;

/// Writes all blocks of an object with 1, 2, 3 and so on, in random order and pieces.
fn write(set: &Arc<ObjectSet>, gate: &Arc<TxgGate>, id: ObjectId) {
    let mut random = Random::new(id.0);
    let object = set.object(id).expect("it exists");
    for round in 1..=ROUNDS {
        if round % 8 == 0 {
            gate.wait_synced(gate.request_sync()).expect("on disk");
        }
        let data = vec![round as u8; (8 * BLOCK) as usize];
        let start = random.below(BLOCKS / 6) * 6;
        for step in 0..BLOCKS / 6 {
            let first = (start + step * 6) % BLOCKS;
            let count = 6.min(BLOCKS - first);
            let cost = TxCost {
                dirty_bytes: count * BLOCK,
            };
            let tx = gate.begin(cost).expect("not suspended");
            let bytes = &data[..(count * BLOCK) as usize];
            object
                .write(&tx, first * BLOCK, bytes)
                .expect("it is written");
        }
    }
}

fn read(set: &Arc<ObjectSet>, ids: &[ObjectId], is_done: &AtomicBool, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut seen = vec![0_u8; (OBJECTS * BLOCKS) as usize];
    let mut count = 0;
    while count < 100 || !is_done.load(Ordering::Relaxed) {
        let which = random.below(OBJECTS);
        let object = set.object(ids[which as usize]).expect("it exists");
        let first = random.below(BLOCKS);
        let length = 1 + random.below(8.min(BLOCKS - first));
        let mut buffer = vec![0; (length * BLOCK) as usize];
        object.read(first * BLOCK, &mut buffer).expect("it is read");
        for (block, bytes) in (first..).zip(buffer.chunks(BLOCK as usize)) {
            let byte = bytes[0];
            assert!(
                bytes.iter().all(|other| *other == byte),
                "block {block} is torn"
            );
            let before = &mut seen[(which * BLOCKS + block) as usize];
            assert!(
                u64::from(byte) <= ROUNDS && byte >= *before,
                "{byte} after {before}"
            );
            *before = byte;
        }
        let next = object
            .next_data_block(BlockId(first))
            .expect("the tree is good");
        assert!(next.is_none_or(|next| next.0 >= first));
        count += 1;
    }
    count
}

fn run(way: Way) {
    // A cache of almost nothing, so that readers go to the device.
    let (pool, gate) = (TestPool::with(256, 1 << 20, way), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let ids: Vec<ObjectId> = (0..OBJECTS)
        .map(|_| {
            let mut new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK);
            new.indirect_shift = 12;
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            set.allocate(&tx, new).expect("there is room").id()
        })
        .collect();
    let (writers_done, all_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (syncs, reads) = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| {
            let mut syncs = 0;
            while !writers_done.load(Ordering::Relaxed) {
                sync(&pool, &gate, &set);
                syncs += 1;
            }
            syncs
        });
        let readers = [7, 8].map(|seed| {
            let (set, ids, all_done) = (&set, &ids, &all_done);
            scope.spawn(move || read(set, ids, all_done, seed))
        });
        let writers: Vec<_> = ids
            .iter()
            .map(|id| {
                let (set, gate) = (&set, &gate);
                scope.spawn(move || write(set, gate, *id))
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        writers_done.store(true, Ordering::Relaxed);
        let syncs = syncing.join();
        all_done.store(true, Ordering::Relaxed);
        let syncs = syncs.expect("no panic");
        let reads: u64 = readers
            .map(|reader| reader.join().expect("no panic"))
            .iter()
            .sum();
        results
            .into_iter()
            .for_each(|result| result.expect("no panic"));
        (syncs, reads)
    });
    println!("{syncs} syncs, {reads} reads");
    assert!(syncs >= ROUNDS / 8 && reads >= 200);
    let root = sync(&pool, &gate, &set);
    let on_disk = pool.reopen(root, ObjsetId(7));
    for id in ids {
        let mut buffer = vec![0; (BLOCKS * BLOCK) as usize];
        let object = on_disk.object(id).expect("it exists");
        object.read(0, &mut buffer).expect("it is read");
        assert!(buffer.iter().all(|byte| u64::from(*byte) == ROUNDS));
    }
    assert_eq!(gate.dirty_bytes(), 0);
}

#[test]
fn readers_and_writers_beside_the_sync() {
    run(Way::Plain);
}

#[test]
fn readers_and_writers_beside_the_pipeline() {
    run(Way::Pipeline);
}
