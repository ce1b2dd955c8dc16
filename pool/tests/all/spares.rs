//! Spares are opened for writing when they are taken, by one pool at a time.

use crate::common::{Bench, candidates, options};
use cenote_base::{Guid, RealEnv};
use cenote_dsl::directory_keys;
use cenote_pool::{Pool, SpareError, VdevShape};
use cenote_vdev::{AllocationClass, LabelPhase, write_device_labels};
use std::sync::Arc;

fn spare_of(pool: &Pool) -> Guid {
    let spares = pool.dsl().auxiliary_vdevs(directory_keys::SPARES);
    spares.expect("readable")[0].guid
}

#[test]
fn a_spare_is_taken_once() {
    let mut bench = Bench::new("tank");
    let mirror = bench.vdev(VdevShape::Mirror, AllocationClass::Normal, 2);
    let spare = bench.leaf(128);
    let path = spare.path.clone();
    let mut request = bench.request(vec![mirror]);
    request.spares.push(spare);
    let created = cenote_pool::create(request, &options(), Arc::new(RealEnv::new()));
    created.expect("created").export().expect("written");

    let candidate = candidates(bench.dir.path()).remove(0);
    let pool = cenote_pool::import(&candidate, &options(), Arc::new(RealEnv::new()));
    let pool = pool.expect("imported");
    let spare = spare_of(&pool);
    let device = pool.open_spare(spare).expect("it is there");
    assert!(device.is_writable() && device.path() == path);
    assert!(pool.open_spare(spare).is_err(), "it is open already");
    drop(device);
    let unknown = pool.open_spare(Guid(7));
    assert!(matches!(unknown, Err(SpareError::Unknown { .. })));

    // Another pool that has the same spare takes it.
    let device = pool.open_spare(spare).expect("it is free again");
    let mut label = cenote_ondisk::NvList::new();
    label.set_u64("version", 5000);
    label.set_u64("state", 0);
    label.set_str("name", "other");
    label.set_u64("pool_guid", 77);
    label.set_u64("txg", 10);
    label.set_u64("guid", spare.0);
    let image = device.read_vec(0, usize::try_from(device.size()).expect("small"));
    let image = image.expect("in range");
    for phase in [LabelPhase::Even, LabelPhase::Odd] {
        write_device_labels(device.as_ref(), &label, phase).expect("room");
    }
    drop(device);
    match pool.open_spare(spare) {
        Err(SpareError::Taken { pool, .. }) => assert_eq!(pool, "other"),
        other => panic!("{other:?}"),
    }
    // Back to what the referee is to see.
    crate::common::open(&path)
        .write_at(0, &image)
        .expect("in range");
    pool.close().expect("written");
}
