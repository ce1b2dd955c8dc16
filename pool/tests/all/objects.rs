//! Random changes of objects in a dataset of a real pool, compared with a model after the pool was
//! reopened, and checked by OpenZFS.

use crate::common::{self, Bench};
use crate::model::World;
use cenote_base::RealEnv;
use cenote_dmu::{Owner, OwnerHook, TxCost};
use cenote_ondisk::ObjectType;
use cenote_pool::{Pool, VdevShape};
use cenote_vdev::AllocationClass::{Normal, Special};
use std::sync::Arc;

/// Objects here have no owner, but are marked as accounted.
#[derive(Debug)]
struct Nobody;

impl OwnerHook for Nobody {
    fn owner(&self, _: ObjectType, _: &[u8], _: Option<&[u8]>) -> Option<Owner> {
        None
    }
}

fn change(pool: &Pool, world: &mut World, groups: u64) {
    let root = pool.dsl().root().expect("read").head().expect("read");
    let dataset = root.expect("the root directory has a dataset");
    let gate = pool.gate().expect("open for writing");
    let head = pool.dsl().open_for_writing(&dataset, gate).expect("a head");
    head.set().set_owner_hook(Arc::new(Nobody));
    world.compare(head.set());
    for _ in 0..groups {
        for _ in 0..60 {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            world.step(head.set(), &tx);
        }
        gate.wait_synced(gate.request_sync()).expect("on disk");
    }
    world.compare(head.set());
}

fn run(name: &'static str, seed: u64, vdevs: &[(VdevShape, cenote_vdev::AllocationClass, usize)]) {
    println!("{name}, seed {seed}");
    let mut bench = Bench::new(name);
    let make = |(shape, class, count): &(VdevShape, _, usize)| bench.vdev(*shape, *class, *count);
    let vdevs = vdevs.iter().map(make).collect();
    let mut world = World::new(seed);
    world.types = (ObjectType::OTHER_UINT8, ObjectType::OTHER_UINT64);
    let pool = bench.create(vdevs);
    change(&pool, &mut world, 12);
    pool.close().expect("written");
    drop(pool);
    bench.check();
    let candidates = common::candidates(bench.dir.path());
    let (options, env) = (common::options(), Arc::new(RealEnv::new()));
    let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
    change(&pool, &mut world, 6);
    pool.export().expect("written");
    drop(pool);
    bench.check();
}

#[test]
fn objects_on_one_device() {
    run("objects", 1, &[(VdevShape::Single, Normal, 1)]);
}

#[test]
fn objects_on_raidz_with_a_special_vdev() {
    let raidz = (VdevShape::Raidz { parity: 1 }, Normal, 3);
    run("objectsz", 2, &[raidz, (VdevShape::Mirror, Special, 2)]);
}

/// A panic in the middle of an operation was caught by the mount, and the half that was done went
/// to disk with its group.
#[test]
fn a_change_that_panics_never_reaches_the_disk() {
    let mut bench = Bench::new("panics");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let mut world = World::new(3);
    world.types = (ObjectType::OTHER_UINT8, ObjectType::OTHER_UINT64);
    let pool = bench.create(vec![vdev]);
    change(&pool, &mut world, 2);
    let synced = pool.synced_txg();
    let gate = Arc::clone(pool.gate().expect("open for writing"));
    let root = pool.dsl().root().expect("read").head().expect("read");
    let dataset = root.expect("the root directory has a dataset");
    let head = pool
        .dsl()
        .open_for_writing(&dataset, &gate)
        .expect("a head");
    drop(dataset);
    let mut half = World::new(4);
    half.types = world.types;
    let panicked = std::thread::spawn(move || {
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        (0..5).for_each(|_| half.step(head.set(), &tx));
        panic!("as a test wants it");
    });
    assert!(panicked.join().is_err());
    assert!(pool.sync().is_err(), "the group was written");
    assert!(pool.close().is_err(), "and was written at the end");
    drop(pool);
    bench.check();
    let candidates = common::candidates(bench.dir.path());
    let (options, env) = (common::options(), Arc::new(RealEnv::new()));
    let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
    assert_eq!(pool.opened_uberblock().txg, synced);
    change(&pool, &mut world, 1);
    pool.export().expect("written");
    drop(pool);
    bench.check();
}
