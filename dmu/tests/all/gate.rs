//! The gate of transaction groups, with many threads at it.

use crate::common::{TestPool, gate, gate_with, sync};
use cenote_base::{ObjsetId, Txg};
use cenote_dmu::txg::{SyncReason, ThrottleLimits};
use cenote_dmu::{NewObject, TxCost};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn quiescing_waits_for_transactions_and_they_for_it() {
    let gate = gate();
    let first = gate.begin(TxCost::default()).expect("not suspended");
    assert_eq!(first.txg(), Txg(4));
    let quiescing = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.quiesce().expect("not suspended").txg)
    };
    std::thread::sleep(Duration::from_millis(20));
    assert!(!quiescing.is_finished(), "a transaction is under way");
    let late = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.begin(TxCost::default()).expect("not suspended").txg())
    };
    std::thread::sleep(Duration::from_millis(20));
    assert!(!late.is_finished(), "the next group is not open yet");
    drop(first);
    assert_eq!(quiescing.join().expect("no panic"), Txg(4));
    assert_eq!(late.join().expect("no panic"), Txg(5));
    let waiting = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.wait_synced(Txg(4)))
    };
    gate.synced(Txg(4));
    waiting.join().expect("no panic").expect("it is on disk");
}

/// A panic in the middle of an operation was caught by the mount and answered with EIO, and the
/// half of the operation that was done went to disk with its group.
#[test]
fn a_group_with_a_change_that_panicked_is_never_frozen() {
    let gate = gate();
    let begun = gate
        .begin(TxCost { dirty_bytes: 1 })
        .expect("not suspended");
    let quiescing = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.quiesce().map(|quiesced| quiesced.txg))
    };
    let waiting = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.wait_synced(Txg(4)))
    };
    let panicked = std::thread::spawn(move || {
        let _half_done = begun;
        panic!("as a test wants it");
    });
    assert!(panicked.join().is_err());
    let quiesced = quiescing.join().expect("no panic");
    assert!(quiesced.is_err(), "the group was frozen: {quiesced:?}");
    waiting
        .join()
        .expect("no panic")
        .expect_err("never on disk");
    let refusal = gate.begin(TxCost::default()).expect_err("nothing enters");
    assert!(refusal.to_string().contains("export the pool"), "{refusal}");
    assert_eq!(gate.synced_txg(), Txg(3));
}

#[test]
fn a_suspended_pool_lets_nobody_wait() {
    let gate = gate();
    let waiting = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.wait_synced(Txg(4)))
    };
    std::thread::sleep(Duration::from_millis(10));
    gate.suspend("a device is gone");
    let error = waiting
        .join()
        .expect("no panic")
        .expect_err("never on disk");
    assert!(error.to_string().contains("a device is gone"));
    assert!(gate.begin(TxCost::default()).is_err());
    assert_eq!(
        gate.wait_for_work(Duration::from_secs(60)),
        SyncReason::Suspended
    );
}

#[test]
fn reasons_to_sync() {
    let gate = gate();
    assert_eq!(
        gate.wait_for_work(Duration::from_millis(5)),
        SyncReason::Timeout
    );
    gate.request_sync();
    assert_eq!(
        gate.wait_for_work(Duration::from_secs(60)),
        SyncReason::Requested
    );
}

/// The kernel does not pass sync(2) to a FUSE server, so whatever it is called for has to be on disk
/// soon by itself: changes used to wait for five seconds.
#[test]
fn old_changes_are_written_before_the_time_of_their_group() {
    let (pool, gate) = (TestPool::new(16), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    sync(&pool, &gate, &set);
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    let begun = Instant::now();
    let object = set.allocate(&tx, NewObject::new(ObjectType::PLAIN_FILE, 4096));
    object.expect("there is room");
    drop(tx);
    assert_eq!(gate.wait_for_group(), SyncReason::Aged);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(900), "{took:?}");
}

/// A large directory's blocks, all of which are dirty after changes here and there, wait for the
/// group's time: written early they would be written more often.
#[test]
fn much_data_is_written_early_and_metadata_is_not() {
    const CONTENTS: ObjectType = ObjectType::PLAIN_FILE;
    let limits = ThrottleLimits::of_memory(64 << 30);
    for (object_type, expected) in [
        (CONTENTS, SyncReason::Dirty),
        (ObjectType::DIRECTORY, SyncReason::Timeout),
    ] {
        let pool = TestPool::new(4096);
        let gate = gate_with(limits);
        let set = pool.create(&gate, ObjsetKind::Zfs, 0);
        sync(&pool, &gate, &set);
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        let object = set.allocate(&tx, NewObject::new(object_type, 1 << 20));
        let object = object.expect("there is room");
        for mebibyte in 0..100 {
            let written = object.write(&tx, mebibyte << 20, &[1; 1 << 20]);
            written.expect("it is in memory");
        }
        drop(tx);
        assert_eq!(gate.wait_for_work(Duration::from_millis(5)), expected);
        gate.quiesce().expect("not suspended");
        assert_eq!(
            gate.wait_for_work(Duration::from_millis(5)),
            SyncReason::Timeout,
            "what is being written does not count for the next group"
        );
    }
}

/// Writers never have more than the limit dirty, and none starves.
#[test]
fn writers_are_held_up_at_the_limit() {
    const LIMIT: u64 = 8 << 20;
    const BLOCK: u64 = 128 << 10;
    let limits = ThrottleLimits {
        dirty_bytes_max: LIMIT,
        ..ThrottleLimits::of_memory(0)
    };
    let (pool, gate) = (TestPool::new(128), gate_with(limits));
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let (is_done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = |byte: u8| {
        let new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK);
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        let object = set.allocate(&tx, new).expect("there is room");
        drop(tx);
        for block in 0..200 {
            let cost = TxCost { dirty_bytes: BLOCK };
            let tx = gate.begin(cost).expect("not suspended");
            let data = vec![byte; BLOCK as usize];
            object
                .write(&tx, block % 50 * BLOCK, &data)
                .expect("it is written");
            drop(tx);
            most.fetch_max(gate.dirty_bytes(), Ordering::Relaxed);
        }
        object.id()
    };
    let started = Instant::now();
    let ids = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                gate.wait_for_work(Duration::from_millis(50));
                sync(&pool, &gate, &set);
            }
        });
        let writers = [1, 2, 3].map(|byte| scope.spawn(move || write(byte)));
        let ids = writers.map(|writer| writer.join().expect("no panic"));
        is_done.store(true, Ordering::Relaxed);
        syncing.join().expect("no panic");
        ids
    });
    let most = most.into_inner();
    assert!(most <= LIMIT + 4 * 1024, "{most} bytes were dirty");
    assert!(started.elapsed() < Duration::from_secs(60));
    let root = sync(&pool, &gate, &set);
    let on_disk = pool.reopen(root, ObjsetId(7));
    for (id, byte) in ids.into_iter().zip(1..) {
        let mut data = vec![0; (50 * BLOCK) as usize];
        on_disk
            .object(id)
            .expect("there")
            .read(0, &mut data)
            .expect("read");
        assert!(data.iter().all(|found| *found == byte));
    }
}

/// An object is emptied in steps, over holes of any size.
#[test]
fn a_large_object_is_emptied_step_by_step() {
    let (pool, gate) = (TestPool::new(64), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    let new = NewObject::new(ObjectType::PLAIN_FILE, 512);
    let object = set.allocate(&tx, new).expect("there is room");
    for block in [0, 5, 70_000, 1 << 30, (1 << 40) + 3] {
        object
            .write(&tx, block << 9, &[1; 512])
            .expect("it is written");
    }
    drop(tx);
    sync(&pool, &gate, &set);
    let mut steps = 1;
    loop {
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        if !object.free_some(&tx).expect("it is freed") {
            break;
        }
        steps += 1;
        assert!(gate.dirty_bytes() > 0, "freeing is throttled");
        drop(tx);
        sync(&pool, &gate, &set);
    }
    assert_eq!(steps, 4, "two blocks in the first step, one in each other");
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    set.free(&tx, object.id()).expect("it exists");
    drop(tx);
    let root = sync(&pool, &gate, &set);
    assert_eq!((root.fill(), gate.dirty_bytes()), (0, 0));
    assert_eq!(pool.in_use().len(), 1, "the object set block alone is left");
}
