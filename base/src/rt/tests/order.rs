//! The order of locks.

use super::panic_of;
use crate::rt::{Condvar, Mutex, Rank, RankInfo, RwLock, Unranked, assert_io_allowed};

enum Outer {}
enum Inner {}
enum Leaf {}

impl Rank for Outer {
    const INFO: &'static RankInfo = &RankInfo {
        nested: true,
        ..RankInfo::new("Outer", "tests", "nothing", Some(1))
    };
}

impl Rank for Inner {
    const INFO: &'static RankInfo = &RankInfo {
        no_io: true,
        ..RankInfo::new("Inner", "tests", "nothing", Some(2))
    };
}

impl Rank for Leaf {
    const INFO: &'static RankInfo = &RankInfo {
        leaf: true,
        ..RankInfo::new("Leaf", "tests", "nothing", Some(3))
    };
}

/// What the check says; release builds have none.
fn complaint<T>(work: impl FnOnce() -> T) -> String {
    match cfg!(debug_assertions) {
        true => panic_of(work).unwrap_or_default(),
        false => String::new(),
    }
}

#[track_caller]
fn assert_complains(complaint: &str, words: &[&str]) {
    for word in words.iter().filter(|_| cfg!(debug_assertions)) {
        assert!(complaint.contains(word), "{word:?} is not in {complaint:?}");
    }
}

#[test]
fn locks_are_taken_in_the_order_of_the_table() {
    let outer = Mutex::<(), Outer>::default();
    let (inner, leaf) = (RwLock::<(), Inner>::default(), Mutex::<(), Leaf>::default());
    let guards = (outer.lock(), inner.read(), leaf.lock());
    drop(guards);
    let wrong = complaint(|| {
        let _inner = inner.write();
        drop(outer.lock());
    });
    let here = "base/src/rt/tests/order.rs:";
    assert_complains(
        &wrong,
        &[
            "order of locks",
            "Outer is taken at",
            "while Inner is held",
            here,
        ],
    );
    // What was violated is forgotten with its guards.
    drop((outer.lock(), inner.write()));
    // Taking a lock without waiting needs no order.
    let _inner = inner.write();
    assert!(outer.try_lock().is_some());
}

#[test]
fn a_rank_is_held_once_unless_it_is_nested() {
    let (parent, child) = (Mutex::<(), Outer>::default(), Mutex::<(), Outer>::default());
    drop((parent.lock(), child.lock()));
    let (first, second) = (
        RwLock::<(), Inner>::default(),
        RwLock::<(), Inner>::default(),
    );
    let wrong = complaint(|| drop((first.read(), second.read())));
    assert_complains(&wrong, &["Inner is taken at", "while Inner is held"]);
}

/// Without the check a thread would wait for itself for ever.
#[test]
fn a_lock_is_not_taken_twice() {
    let (mutex, lock) = (
        Mutex::<(), Outer>::default(),
        RwLock::<(), Inner>::default(),
    );
    let wrong = complaint(|| drop((mutex.lock(), mutex.lock())));
    assert_complains(&wrong, &["Outer is taken twice by one thread"]);
    let wrong = complaint(|| drop((lock.read(), lock.read())));
    assert_complains(&wrong, &["Inner is taken twice by one thread"]);
    let unranked = Mutex::<u8, Unranked>::default();
    let wrong = complaint(|| drop((unranked.lock(), unranked.lock())));
    assert_complains(
        &wrong,
        &["Unranked(u8 of base/src/rt/tests/order.rs:", "twice"],
    );
}

#[test]
fn nothing_is_taken_under_a_leaf() {
    let (leaf, other) = (
        Mutex::<(), Leaf>::default(),
        Mutex::<(), Unranked>::default(),
    );
    let wrong = complaint(|| drop((leaf.lock(), other.lock())));
    assert_complains(&wrong, &["while Leaf is held", "Leaf is a leaf"]);
    let wrong = panic_of(|| Condvar::new().wait(leaf.lock())).expect("in release builds, too");
    assert!(wrong.contains("with Leaf, a leaf"), "{wrong}");
}

/// A wait takes its mutex again afterwards, while the thread holds its other locks.
#[test]
fn a_wait_takes_its_lock_anew() {
    let (outer, inner) = (Mutex::<(), Outer>::default(), Mutex::<(), Inner>::default());
    let wrong = complaint(|| {
        let guard = outer.lock();
        let _inner = inner.lock();
        drop(Condvar::new().wait(guard));
    });
    assert_complains(&wrong, &["Outer is taken at", "while Inner is held"]);
}

#[test]
fn devices_are_left_alone_under_some_locks() {
    let (outer, inner) = (Mutex::<(), Outer>::default(), Mutex::<(), Inner>::default());
    let _outer = outer.lock();
    assert_io_allowed();
    let wrong = complaint(|| {
        let _inner = inner.lock();
        assert_io_allowed();
    });
    assert_complains(&wrong, &["device I/O while Inner is held, taken at"]);
    assert_io_allowed();
}

/// The table is in order, and its leaves come after all other locks.
#[test]
fn the_table_is_an_order() {
    let table = crate::rt::ranks::TABLE;
    for (place, rank) in (0..).zip(table) {
        assert_eq!(rank.order, Some(place), "{}", rank.name);
    }
    let leaves = table.iter().skip_while(|rank| !rank.leaf);
    assert!(leaves.clone().count() > 0 && leaves.clone().all(|rank| rank.leaf));
}
