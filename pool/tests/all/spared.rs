//! What can be taken away from a pool: what it has elsewhere, on devices that answer.

use crate::common::{self, Bench};
use cenote_base::{Guid, RealEnv};
use cenote_device::{Device, FaultyDevice, Opener};
use cenote_pool::{
    Actor, ImportOptions, NewVdev, Offline, Pool, SplitRequest, VdevShape, assemble,
};
use cenote_sim::Disks;
use cenote_vdev::{AllocationClass, VdevState, scan};
use std::sync::Arc;

/// A mirror whose first side is pulled out while the pool is idle.
fn pulled() -> (Arc<Disks>, Pool, Vec<Guid>, Arc<FaultyDevice>) {
    let world = common::disks(2, 64 << 20);
    let mut leaves = world.leaves();
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&leaves[0].device)));
    leaves[0].device = Arc::clone(&faulty) as Arc<dyn Device>;
    let vdev = NewVdev {
        shape: VdevShape::Mirror,
        class: AllocationClass::Normal,
        leaves,
    };
    let request = Bench::new("tank").request(vec![vdev]);
    let options = ImportOptions {
        opener: Arc::clone(&world) as Arc<dyn Opener>,
        ..common::options()
    };
    let pool = cenote_pool::create(request, &options, Arc::new(RealEnv::new())).expect("created");
    common::change(&pool, 0).expect("written");
    let guids = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    faulty.set_missing(true);
    (world, pool, guids, faulty)
}

fn by() -> Actor {
    Actor::default()
}

/// A split took the only side that was there, a detachment or a rest would have: the other one had
/// been pulled out, which the pool did not know yet. It was suspended with its next group.
#[test]
fn who_would_be_left_is_asked_first() {
    type Taken<'a> = &'a dyn Fn(&Pool, Guid) -> Result<(), String>;
    let split: Taken<'_> = &|pool, side| {
        let request = SplitRequest {
            name: "half".to_owned(),
            sides: vec![side],
        };
        let made = pool.split(&request, (&by(), "")).map(drop);
        made.map_err(|error| error.to_string())
    };
    let detach: Taken<'_> = &|pool, side| {
        let done = pool.detach(side, (&by(), ""));
        done.map_err(|error| error.to_string())
    };
    let rest: Taken<'_> = &|pool, side| {
        let done = pool.offline(side, Offline::default(), (&by(), ""));
        done.map_err(|error| error.to_string())
    };
    for take in [split, detach, rest] {
        let (_world, pool, guids, faulty) = pulled();
        let refused = take(&pool, guids[1]).expect_err("nothing would be left");
        assert!(refused.contains("do not answer: disk0"), "{refused}");
        common::change(&pool, 1).expect("the other side is there");
        drop(faulty);
        pool.close().expect("written");
    }
}

/// A log device could not be taken out of use. The pool can do without: nothing is on it.
#[test]
fn a_log_rests_and_comes_back() {
    let mut bench = Bench::new("tank");
    let data = bench.vdev(VdevShape::Single, AllocationClass::Normal, 1);
    let log = bench.vdev(VdevShape::Single, AllocationClass::Log, 1);
    let pool = bench.create(vec![data, log]);
    let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    let refused = pool.offline(leaves[0], Offline::default(), (&by(), ""));
    refused.expect_err("that has all data");
    let done = pool.offline(leaves[1], Offline::default(), (&by(), ""));
    done.expect("the pool does without");
    common::change(&pool, 1).expect("written");
    assert_eq!(pool.vdevs().state().0, VdevState::Degraded);
    pool.close().expect("written");
    drop(pool);
    let found = assemble(scan(
        &[bench.dir.path().to_owned()],
        &cenote_device::SystemOpener::default(),
    ));
    let pool = cenote_pool::import(&found[0], &common::options(), Arc::new(RealEnv::new()));
    let pool = pool.expect("the log is still out of use");
    assert!(pool.is_out_of_use(leaves[1]));
    common::change(&pool, 2).expect("written");
    // It is closed, so that it may be exchanged, and opened by its name when it comes back.
    assert!(!pool.vdevs().is_open(leaves[1]));
    let mut looked = pool.look_for(vec![leaves[1]]).expect("it can be opened");
    let found = looked.devices.remove(&leaves[1]);
    assert!(found.is_some(), "{:?}", looked.outsiders);
    pool.online(leaves[1], found, (&by(), ""))
        .expect("it is there");
    common::change(&pool, 3).expect("written");
    assert_eq!(pool.vdevs().state().0, VdevState::Healthy);
    pool.close().expect("written");
    drop(pool);
    bench.check();
}
