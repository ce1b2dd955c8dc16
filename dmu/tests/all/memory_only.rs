//! Object sets that are changed in memory only, as replays of intent logs do where the pool must
//! not change.

use crate::common::{TestPool, gate, sync};
use cenote_base::{MemoryBudget, ObjectId, ObjsetId, RealEnv, Txg};
use cenote_dmu::{DmuError, NewObject, ObjectSet, TxCost, TxgGate};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use std::sync::Arc;

const BLOCK: u64 = 4096;
const BUDGET: u64 = 2 << 20;
/// Bytes of the bonus buffers.
const BONUS: usize = 8;

/// A set on disk with an object of two slots at number 10, and one of one slot at 20.
fn on_disk() -> Arc<ObjectSet> {
    let (pool, gate) = (TestPool::new(64), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    for (id, slots) in [(10, 2), (20, 1)] {
        let mut new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK)
            .with_bonus(ObjectType::SYSTEM_ATTRIBUTES, vec![0; BONUS]);
        new.slots = slots;
        let object = set.allocate_at(&tx, ObjectId(id), new).expect("is free");
        object.write(&tx, 0, &[1; 8192]).expect("is written");
    }
    drop(tx);
    let root = sync(&pool, &gate, &set);
    pool.reopen(root, ObjsetId(7))
}

fn first_byte(set: &Arc<ObjectSet>, id: u64) -> u8 {
    let mut byte = [0];
    let object = set.object(ObjectId(id)).expect("is there");
    object.read(0, &mut byte).expect("readable");
    byte[0]
}

#[test]
fn changes_are_seen_and_nothing_is_written() {
    let on_disk = on_disk();
    let budget = MemoryBudget::new(BUDGET);
    let gate = TxgGate::in_memory(Txg(9), &budget, Arc::new(RealEnv::new()));
    let set = on_disk.in_memory(Arc::clone(&gate));
    let tx = gate.begin(TxCost::default()).expect("there is room");
    assert_eq!(tx.txg(), Txg(10));
    let object = set.object(ObjectId(20)).expect("is there");
    object.write(&tx, 0, &[2; 10]).expect("is written");
    // On disk its second slot would be taken until a sync gave it up.
    set.free(&tx, ObjectId(10)).expect("is there");
    let new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK);
    let inner = set.allocate_at(&tx, ObjectId(11), new).expect("is free");
    inner.write(&tx, 0, &[3; 10]).expect("is written");
    drop(tx);
    assert_eq!([20, 11].map(|id| first_byte(&set, id)), [2, 3]);
    let listed = set
        .objects(ObjectId(1))
        .map(|found| found.expect("readable").0.0);
    assert_eq!(listed.collect::<Vec<_>>(), [11, 20]);
    assert_eq!([10, 20].map(|id| first_byte(&on_disk, id)), [1, 1]);
    let waited = gate.wait_synced(Txg(10));
    assert!(matches!(waited, Err(DmuError::MemoryOnly)), "{waited:?}");
    assert!(gate.is_in_memory() && !set.moves_space(ObjectId(20)));
}

/// A log whose outcome is larger than memory is refused, and what it took is given back.
#[test]
fn changes_take_no_more_than_their_budget() {
    let on_disk = on_disk();
    let budget = MemoryBudget::new(BUDGET);
    let gate = TxgGate::in_memory(Txg(9), &budget, Arc::new(RealEnv::new()));
    let set = on_disk.in_memory(Arc::clone(&gate));
    let object = set.object(ObjectId(20)).expect("is there");
    let cost = TxCost { dirty_bytes: BLOCK };
    let mut written = 0;
    let refused = loop {
        match gate.begin(cost) {
            Ok(tx) => object
                .write(&tx, written * BLOCK, &[4; BLOCK as usize])
                .expect("is written"),
            Err(error) => break error,
        }
        written += 1;
        assert!(gate.dirty_bytes() <= BUDGET);
        assert!(budget.leased() >= gate.dirty_bytes());
    };
    assert!(matches!(refused, DmuError::Memory(_)), "{refused:?}");
    assert!(written > BUDGET / BLOCK / 2, "{written} blocks fitted");
    // Writing the same blocks again takes nothing more, nor do attributes and spill blocks that
    // replace others; new spill blocks do.
    let before = gate.dirty_bytes();
    let tx = gate.begin(TxCost::default()).expect("there is room");
    object
        .write(&tx, 0, &[5; BLOCK as usize])
        .expect("is written");
    assert_eq!(gate.dirty_bytes(), before);
    for _ in 0..3 {
        let spill = object.set_spill(&tx, Some(vec![6; 8 << 10]));
        spill.expect("is written");
    }
    assert_eq!(gate.dirty_bytes(), before + (8 << 10) + BONUS as u64);
    // An object with three pointers in its only slot has no room for one.
    let new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK);
    let full = set.allocate_at(&tx, ObjectId(30), new).expect("is free");
    let refused = full.set_spill(&tx, Some(vec![6; 512]));
    assert!(
        matches!(refused, Err(DmuError::BadChange { .. })),
        "{refused:?}"
    );
    drop((tx, full, object, set, gate));
    assert_eq!(budget.leased(), 0);
}
