//! What clones write down of themselves, and how they are destroyed by it.

use crate::common::Bench;
use crate::tree::{LIVELIST_MAX_ENTRIES, Tree, named};
use crate::world::World as Disks;
use cenote_base::{ObjectId, settings};
use cenote_dmu::{NewObject, TxCost};
use cenote_dsl::write::{CloneDataset, CreateSnapshots, DestroyDataset, PromoteDataset};
use cenote_dsl::{Deadlist, directory_keys};
use cenote_ondisk::ObjectType;
use cenote_ondisk::bpobj::BpobjHeader;
use cenote_pool::{NewVdev, VdevShape};
use cenote_tests::referee;
use cenote_vdev::AllocationClass::Normal;
use std::sync::Arc;

const BLOCK: u64 = 4096;

/// Writes an object of so many blocks, a new one or that with a number, and a group.
fn write(tree: &Tree, name: &str, object: Option<ObjectId>, blocks: u64, seed: u8) -> ObjectId {
    let pool = tree.pool();
    let dataset = pool.dsl().dataset(&named(name)).expect("there");
    let gate = Arc::clone(pool.gate().expect("writable"));
    let head = pool.dsl().open_for_writing(&dataset, &gate).expect("opens");
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    let object = match object {
        Some(id) => head.set().object(id).expect("there"),
        None => {
            let new = NewObject::new(ObjectType(25), BLOCK);
            head.set().allocate(&tx, new).expect("there is room")
        }
    };
    for block in 0..blocks {
        let bytes: Vec<u8> = (0..BLOCK)
            .map(|at| (at as u8).wrapping_mul(31) ^ (at >> 5) as u8 ^ seed ^ block as u8)
            .collect();
        object.write(&tx, block * BLOCK, &bytes).expect("written");
    }
    let id = object.id();
    drop((tx, object, head));
    pool.sync().expect("written");
    id
}

/// How many entries each part of a clone's livelist has.
fn parts(tree: &Tree, name: &str) -> Option<Vec<u64>> {
    let dsl = tree.pool().dsl();
    let dataset = dsl.dataset(&named(name)).expect("there");
    let livelist = dataset.directory().livelist().expect("readable")?;
    let list = Deadlist::open(dsl, livelist).expect("readable");
    let entries = list.entries().expect("with keys").iter();
    let count = entries.map(|entry| {
        let object = dsl.mos().object(entry.bpobj).expect("there");
        let header = BpobjHeader::decode(&object.dnode().bonus);
        header.expect("a header").entries
    });
    Some(count.collect())
}

fn check(tree: &Tree) {
    let problems = cenote_dsl::check(tree.pool().dsl());
    assert!(problems.is_empty(), "{problems:#?}");
}

fn clone(tree: &Tree, name: &str) {
    let task = CloneDataset {
        origin: named("live/a@s"),
        name: named(name),
        properties: Vec::new(),
        created: None,
    };
    tree.pool().run_task(task).expect("made");
}

/// A list grows in parts, forgets what came and went, is dropped when it has no use any more, and
/// frees its clone, across an import.
#[test]
fn grow_shrink_and_free_their_clones() {
    let disks = Disks::new(1, 128 << 20);
    let vdev = NewVdev {
        shape: VdevShape::Single,
        class: Normal,
        leaves: disks.leaves(),
    };
    let mut tree = Tree::new(1, Bench::new("live").create(vec![vdev]), &[]);
    write(&tree, "live/a", None, 2000, 1);
    let names = vec![named("live/a@s")];
    let properties = Vec::new();
    let snapshot = CreateSnapshots { names, properties };
    tree.pool().run_task(snapshot).expect("made");
    for name in ["live/k", "live/p", "live/u"] {
        clone(&tree, name);
        assert_eq!(parts(&tree, name), Some(Vec::new()));
    }
    for round in 0..4 {
        write(&tree, "live/k", None, LIVELIST_MAX_ENTRIES, round);
        check(&tree);
    }
    let grown = parts(&tree, "live/k").expect("a list");
    assert!(grown.len() > 2, "{grown:?}");
    let object = write(&tree, "live/k", None, 30, 9);
    for round in 0..20 {
        write(&tree, "live/k", Some(object), 30, 10 + round);
        check(&tree);
    }
    let shrunk = parts(&tree, "live/k").expect("a list");
    let written: u64 = shrunk.iter().sum();
    assert!(written < 20 * 30, "{shrunk:?}, and before {grown:?}");

    // Promoted: both lists go.
    write(&tree, "live/p", None, 10, 3);
    let name = named("live/p");
    tree.pool()
        .run_task(PromoteDataset { name })
        .expect("promoted");
    assert_eq!(parts(&tree, "live/p"), None);
    let name = named("live/a");
    tree.pool()
        .run_task(PromoteDataset { name })
        .expect("promoted");
    assert_eq!(parts(&tree, "live/a"), None);

    // Next to nothing shared: of no use.
    let shared = &settings::LIVELIST_MIN_PERCENT_SHARED;
    shared.set(99).expect("in its range");
    write(&tree, "live/u", None, 100, 4);
    shared.set(0).expect("in its range");
    assert_eq!(parts(&tree, "live/u"), None);
    check(&tree);

    let dataset = tree.pool().dsl().dataset(&named("live/k")).expect("there");
    tree.pool().dsl().close_head(dataset.id());
    drop(dataset);
    let name = named("live/k");
    tree.pool()
        .run_task(DestroyDataset { name })
        .expect("destroyed");
    let queue = |tree: &Tree| {
        let directory = tree.pool().dsl().object_directory();
        directory.object(directory_keys::DELETED_CLONES)
    };
    assert!(queue(&tree).expect("readable").is_some(), "in parts");
    check(&tree);
    tree.close();
    tree.open(&disks);
    let free = || {
        let root = tree.pool().dsl().root().expect("readable");
        let free = root.child(b"$FREE").expect("readable").expect("there");
        free.phys().used_bytes
    };
    for _ in 0..100 {
        if queue(&tree).expect("readable").is_none() && free() == 0 {
            break;
        }
        tree.pool().sync().expect("written");
    }
    assert_eq!((queue(&tree).expect("readable"), free()), (None, 0));
    check(&tree);
    tree.close();
    let dir = tempfile::tempdir().expect("a temporary directory");
    disks.save(dir.path());
    referee::judge(dir.path(), "live");
}
