//! What single changes make of the pointers of a tree: holes and their births, growth, clones.

use crate::common::{TestPool, gate, sync};
use cenote_base::{BlockId, Level, ObjectId, ObjsetId, Txg};
use cenote_dmu::{NewObject, Object, ObjectSet, RawHeader, StoredForm, TxCost, TxgGate};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::sync::Arc;
use std::time::Duration;

const FILE: ObjectType = ObjectType::PLAIN_FILE;

struct Bench {
    pool: Arc<TestPool>,
    gate: Arc<TxgGate>,
    set: Arc<ObjectSet>,
    id: ObjectId,
}

impl Bench {
    /// A file with blocks of 512 bytes and 32 pointers in an indirect block.
    fn new() -> Self {
        let (pool, gate) = (TestPool::new(64), gate());
        let set = pool.create(&gate, ObjsetKind::Zfs, 0);
        let mut new = NewObject::new(FILE, 512);
        new.indirect_shift = 12;
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        let id = set.allocate(&tx, new).expect("there is room").id();
        drop(tx);
        Self {
            pool,
            gate,
            set,
            id,
        }
    }

    /// Changes the file in a group of its own; returns it as it is on disk then.
    fn change(&self, change: impl FnOnce(&Object, &cenote_dmu::Transaction)) -> Object {
        let tx = self.gate.begin(TxCost::default()).expect("not suspended");
        change(&self.set.object(self.id).expect("it exists"), &tx);
        drop(tx);
        let root = sync(&self.pool, &self.gate, &self.set);
        let set = self.pool.reopen(root, ObjsetId(7));
        set.object(self.id).expect("it exists")
    }
}

fn pointer(object: &Object, level: u8, block: u64) -> BlockPointer {
    object
        .block_pointer(level, BlockId(block))
        .expect("the tree is good")
}

/// A hole that says when and of what it was made.
fn is_hole_of(pointer: &BlockPointer, level: u8, size: u64, birth: u64) -> bool {
    let plain = [7, 8, 9, 11, 12, 13, 14, 15]
        .iter()
        .all(|word| pointer.words[*word] == 0);
    pointer.is_hole()
        && plain
        && pointer.level() == Level(level)
        && pointer.object_type() == FILE
        && pointer.logical_size() == size
        && pointer.logical_birth() == Txg(birth)
}

#[test]
fn holes_remember_when_they_were_made() {
    let bench = Bench::new();
    // Blocks 0 to 95 of three indirect blocks, in group 4.
    let file = bench.change(|file, tx| file.write(tx, 0, &[1; 96 * 512]).expect("written"));
    assert_eq!((file.dnode().levels, pointer(&file, 1, 2).fill()), (2, 32));
    // The second indirect block goes as a whole, of the third the first two blocks.
    let file = bench.change(|file, tx| file.free_range(tx, 32 * 512, 34 * 512).expect("freed"));
    assert!(is_hole_of(&pointer(&file, 1, 1), 1, 4096, 5));
    assert!(is_hole_of(&pointer(&file, 0, 64), 0, 512, 5));
    assert!(is_hole_of(&pointer(&file, 0, 65), 0, 512, 5));
    assert!(!pointer(&file, 0, 66).is_hole());
    assert_eq!(pointer(&file, 1, 2).fill(), 30);
    // A block below the hole is written again: its neighbours stay as old as the hole was.
    let file = bench.change(|file, tx| file.write(tx, 40 * 512, &[2; 512]).expect("written"));
    assert_eq!(pointer(&file, 1, 1).logical_birth(), Txg(6));
    assert!(is_hole_of(&pointer(&file, 0, 39), 0, 512, 5));
    assert!(!pointer(&file, 0, 40).is_hole());
    // Freed and written in one group.
    let file = bench.change(|file, tx| {
        file.free_range(tx, 0, 32 * 512).expect("freed");
        file.write(tx, 7 * 512, &[3; 512]).expect("written");
    });
    assert!(is_hole_of(&pointer(&file, 0, 6), 0, 512, 7));
    assert_eq!(pointer(&file, 1, 0).fill(), 1);
    // Zeros make holes, and freeing a hole changes nothing.
    let file = bench.change(|file, tx| {
        file.write(tx, 7 * 512, &[0; 512]).expect("written");
        file.free_range(tx, 64 * 512, 512).expect("freed");
    });
    assert!(
        is_hole_of(&pointer(&file, 1, 0), 1, 4096, 8),
        "nothing is left below"
    );
    assert!(is_hole_of(&pointer(&file, 0, 64), 0, 512, 5));
    assert_eq!(file.dnode().block_id_max, BlockId(95));
}

#[test]
fn what_was_never_written_has_no_birth() {
    let bench = Bench::new();
    let file = bench.change(|file, tx| {
        file.write(tx, 100 * 512, &[1; 512]).expect("written");
        file.write(tx, 101 * 512, &[0; 512]).expect("written");
        file.free_range(tx, 0, 50 * 512).expect("freed");
    });
    for (level, block) in [(0, 99), (0, 101), (1, 0), (1, 2), (1, 4)] {
        let found = pointer(&file, level, block);
        assert_eq!(found, BlockPointer::HOLE, "level {level} block {block}");
    }
    assert_eq!(file.dnode().block_id_max, BlockId(101));
}

#[test]
fn a_tree_grows_over_what_it_has() {
    let bench = Bench::new();
    let file = bench.change(|file, tx| file.write(tx, 512, &[1; 512]).expect("written"));
    assert_eq!(
        (file.dnode().levels, file.dnode().block_pointers.len()),
        (1, 3)
    );
    let block = pointer(&file, 0, 1);
    let file = bench.change(|file, tx| file.write(tx, 5000 << 9, &[2; 512]).expect("written"));
    assert_eq!(file.dnode().levels, 4, "3 * 32 ^ 2 blocks are not enough");
    assert_eq!(pointer(&file, 0, 1), block, "the old block was not touched");
    assert_eq!(pointer(&file, 3, 0).fill(), 2);
    // Cut off, it keeps its height.
    let file = bench.change(|file, tx| file.free_range(tx, 512, u64::MAX).expect("freed"));
    assert_eq!(
        (file.dnode().levels, file.dnode().block_id_max),
        (4, BlockId(0))
    );
    assert_eq!(file.dnode().used_bytes(), 0);
    let file = bench.change(|file, tx| {
        file.set_block_size(tx, 4096)
            .expect("there is one block at most");
        file.write(tx, 0, &[4; 4096]).expect("written");
    });
    assert_eq!(
        (
            pointer(&file, 0, 0).logical_size(),
            pointer(&file, 3, 0).fill()
        ),
        (4096, 1)
    );
}

#[test]
fn a_cloned_block_is_referred_to_and_told_of() {
    let bench = Bench::new();
    let file = bench.change(|file, tx| file.write(tx, 0, &[9; 512]).expect("written"));
    let source = pointer(&file, 0, 0);
    let file = bench.change(|file, tx| {
        file.set_block_pointer(tx, BlockId(3), source)
            .expect("same size");
        let read = file
            .block(BlockId(3))
            .expect("it is read")
            .expect("no hole");
        assert!(
            read.iter().all(|byte| *byte == 9),
            "seen before it is synced"
        );
    });
    assert_eq!(pointer(&file, 0, 3), source);
    assert_eq!(bench.pool.adopted(), [source]);
    let space = file.dnode().used_bytes();
    assert_eq!(
        space,
        512 + 512 + 4096,
        "both blocks and the indirect one count"
    );
}

#[test]
fn slots_are_taken_and_given_back() {
    let bench = Bench::new();
    let next = ObjectId(bench.id.0 + 1);
    let tx = bench.gate.begin(TxCost::default()).expect("not suspended");
    let file = bench.set.object(bench.id).expect("it exists");
    file.set_slots(&tx, 3)
        .expect("the slots behind it are free");
    let other = bench
        .set
        .allocate(&tx, NewObject::new(FILE, 512))
        .expect("room");
    assert_eq!(other.id(), ObjectId(bench.id.0 + 3));
    assert!(
        bench
            .set
            .allocate_at(&tx, next, NewObject::new(FILE, 512))
            .is_err()
    );
    assert!(file.set_slots(&tx, 4).is_err(), "the next slot is taken");
    drop(tx);
    sync(&bench.pool, &bench.gate, &bench.set);
    let tx = bench.gate.begin(TxCost::default()).expect("not suspended");
    bench.set.free(&tx, bench.id).expect("it exists");
    assert!(
        bench
            .set
            .allocate_at(&tx, next, NewObject::new(FILE, 512))
            .is_err()
    );
    let again = bench
        .set
        .allocate_at(&tx, bench.id, NewObject::new(FILE, 1024));
    assert_eq!(again.expect("its own number").dnode().slots(), 1);
    drop(tx);
    let root = sync(&bench.pool, &bench.gate, &bench.set);
    let set = bench.pool.reopen(root, ObjsetId(7));
    let found: Vec<u64> = set
        .objects(ObjectId(0))
        .map(|o| o.expect("good").0.0)
        .collect();
    assert_eq!(found, [bench.id.0, bench.id.0 + 3]);
    let tx = bench.gate.begin(TxCost::default()).expect("not suspended");
    let taken = bench.set.allocate_at(&tx, next, NewObject::new(FILE, 512));
    taken.expect("the slots are free again");
}

/// What a block was is of no use once it is another: tables of dnodes and large directories are
/// written again in group after group, and would push everything else out.
#[test]
fn blocks_that_were_replaced_leave_the_cache() {
    let bench = Bench::new();
    let fill = |byte: u8| {
        bench.change(|file, tx| {
            for block in 0..64 {
                file.write(tx, block << 9, &[byte; 512]).expect("written");
            }
        });
        bench.pool.cache.bytes().iter().sum::<u64>()
    };
    fill(1);
    let first = fill(2);
    let last = (3..40).fold(first, |_, byte| fill(byte));
    assert!(
        last < first + first / 4,
        "{last} bytes are cached for a file that once took {first}"
    );
}

/// A raw stream tells of a block of dnodes before it brings any of them. Where a group ended in
/// between, the sync waited for itself.
#[test]
fn a_group_may_end_between_a_raw_range_and_its_objects() {
    let bench = Bench::new();
    bench.change(|file, tx| file.write(tx, 0, &[1; 512]).expect("written"));
    let (pool, gate, set) = (
        Arc::clone(&bench.pool),
        Arc::clone(&bench.gate),
        Arc::clone(&bench.set),
    );
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        let header = RawHeader::default();
        set.begin_raw(&tx, header).expect("it is open");
        let form = StoredForm {
            mac: [7; 16],
            ..StoredForm::default()
        };
        let told = set.set_raw_range(&tx, ObjectId(0), form);
        told.expect("it is open");
        drop(tx);
        sync(&pool, &gate, &set);
        let block = set.meta_object().block_pointer(0, BlockId(0));
        sender.send(block.expect("it is there")).expect("awaited");
    });
    let block = receiver.recv_timeout(Duration::from_secs(60));
    let block = block.expect("the group comes to its end");
    assert_eq!(
        block.logical_birth(),
        Txg(5),
        "it is written with the new MAC"
    );
}
