//! Pools with wrong tables below right checksums, opened for writing.

use super::alone;
use cenote_sim::{Herd, catch_panics};

/// A value that a table got.
enum Value {
    /// The number of a group so much later than the pool's last.
    LaterGroup(u64),
    Number(u64),
}

use Value::{LaterGroup, Number};

/// The kind of pool, the place, the value, and the expected message.
type Found = (&'static str, (u64, u64, usize), Value, &'static str);

/// Bugs that mutants found: the kind of pool; the object of the meta object set (0 for dnodes), the
/// block in it and the byte in that; the value; and the message now. The former result is above
/// each.
#[rustfmt::skip]
const FOUND: &[Found] = &[
    // The log of the group that was being written was freed, and the syncing thread panicked; the
    // import waited forever, with the devices open.
    ("mirror2", (73, 0, 0), LaterGroup(3), "the table of unflushed metaslabs of top-level vdev 0"),
    ("mirror2", (73, 0, 0), Number(u64::MAX), "a transaction group after the pool's last one"),
    // A snapshot claims to be of a later group. The next one of its dataset waited for that.
    ("checksums", (0, 3, 2256), Number(0x1000_0000), "group that the pool has not come to"),
    // The clone of a snapshot is the meta object set. A scrub went in a circle.
    ("raidz1-ashift9", (58, 0, 128), Number(0), "scrub"),
    // The configuration's object has a last block without a place: an overflow.
    ("autotrim", (0, 1, 14864), Number(u64::MAX - 520), "import"),
    // The history's ring is smaller than a record. Making room in it took forever.
    ("raidz2-6", (0, 1, 14792), Number(0x3f6c), "import"),
    // An object uses all space there can be: an overflow.
    ("compression", (0, 1, 1048), Number(u64::MAX), "import"),
];

#[test]
fn mutants_are_refused_or_worked_with() {
    // It notes the panics of all threads.
    let _alone = alone();
    catch_panics();
    what_was_found_is_refused_with_its_place();
    some_are_opened_for_writing();
}

fn what_was_found_is_refused_with_its_place() {
    for (kind, place, value, words) in FOUND {
        let herd = Herd::new(kind).expect("a golden pool");
        let structure = herd.structure().expect("readable");
        let value = match value {
            LaterGroup(more) => structure.uberblock().txg.0 + more,
            Number(value) => *value,
        };
        let mutant = structure.words_mutant(&[(*place, value)]);
        let mutant = mutant.unwrap_or_else(|error| panic!("{kind}: {error:#}"));
        let fate = herd.visit(&mutant, 1).expect("a mutant of it");
        assert_eq!(fate.broken, None, "{kind} {place:?}: {}", fate.told);
        assert!(fate.told.contains(words), "{kind} {place:?}: {}", fate.told);
    }
}

/// A few of those that `cargo xtask mutate` makes.
fn some_are_opened_for_writing() {
    for kind in ["mirror2", "dedup-legacy", "snapshots-clones"] {
        let herd = Herd::new(kind).expect("a golden pool");
        let structure = herd.structure().expect("readable");
        for number in 0..2 {
            let mutant = herd.mutant(&structure, 7, number).expect("room");
            let fate = herd.visit(&mutant, number).expect("a mutant of it");
            assert_eq!(fate.broken, None, "{kind} {number}: {}", fate.damage);
        }
    }
}
