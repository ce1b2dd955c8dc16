//! Spares are opened for writing when they are taken, by one pool at a time.

use crate::common::{Bench, candidates, options};
use cenote_base::{Guid, RealEnv};
use cenote_device::SystemOpener;
use cenote_dsl::directory_keys;
use cenote_pool::{Actor, Auxiliary, NewLeaf, Pool, Reach, SpareError, VdevShape, assemble};
use cenote_vdev::{AllocationClass, LabelPhase, scan, write_device_labels};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
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

/// Spares and cache devices were UNAVAIL after every import that was given the paths of the pool's
/// tree: the tree does not name them, and their recorded paths were not looked at.
#[test]
fn spares_and_cache_devices_are_opened_by_their_recorded_paths() {
    let mut bench = Bench::new("tank");
    let mirror = bench.vdev(VdevShape::Mirror, AllocationClass::Normal, 2);
    let data: Vec<PathBuf> = mirror.leaves.iter().map(|leaf| leaf.path.clone()).collect();
    let (spare, cache) = (bench.leaf(128), bench.leaf(128));
    let paths = [spare.path.clone(), cache.path.clone()];
    let mut request = bench.request(vec![mirror]);
    request.spares.push(spare);
    request.cache_devices.push(cache);
    let created = cenote_pool::create(request, &options(), Arc::new(RealEnv::new()));
    created.expect("created").export().expect("written");
    let import = || {
        let found = scan(&data, &SystemOpener::default());
        let candidate = assemble(found).remove(0);
        let pool = cenote_pool::import(&candidate, &options(), Arc::new(RealEnv::new()));
        pool.expect("imported")
    };
    let places = |pool: &Pool| {
        let keys = [directory_keys::SPARES, directory_keys::CACHE_DEVICES];
        let guids = keys.map(|key| pool.dsl().auxiliary_vdevs(key).expect("readable")[0].guid);
        let found = pool.found_devices();
        guids.map(|guid| found.get(&guid).map(|found| found.path.clone()))
    };
    let pool = import();
    assert_eq!(places(&pool), paths.clone().map(Some));
    drop(pool.open_spare(spare_of(&pool)).expect("it can serve"));

    // It is active when the pool crashes, and no cache file says so.
    let by = (&Actor::default(), "");
    let (spare, side) = (
        spare_of(&pool),
        pool.vdev_tree().leaves().next().expect("a side").guid,
    );
    pool.attach_spare(side, spare, false, by)
        .expect("it stands in");
    pool.close().expect("written");
    drop(pool);
    let pool = import();
    assert!(pool.vdevs().is_open(spare), "{:?}", pool.vdev_tree());
    pool.detach(spare, by).expect("it is free again");
    pool.close().expect("written");
    drop(pool);

    // Another disk has the path of the spare by now, and the spare has another one.
    let moved = bench.dir.path().join("moved.img");
    fs::rename(&paths[0], &moved).expect("moved");
    fs::copy(&paths[1], &paths[0]).expect("copied");
    let pool = import();
    assert_eq!(places(&pool), [None, Some(paths[1].clone())]);
    assert_eq!(pool.find_auxiliary(Reach::Recorded), 1);
    assert_eq!(pool.find_auxiliary(Reach::Beside), 0);
    assert_eq!(places(&pool)[0].as_ref(), Some(&moved));
    pool.close().expect("written");
    drop(pool);
    fs::remove_file(&paths[0]).expect("there");
}

/// Bytes of the two labels at the end of a device.
const LABELS_AT_END: u64 = 512 << 10;

/// Where the last two labels of a device begin.
fn end_of(path: &Path) -> u64 {
    fs::metadata(path).expect("there").len() - LABELS_AT_END
}

fn leaf_at(path: &Path) -> NewLeaf {
    NewLeaf {
        path: path.to_owned(),
        device: crate::common::open(path),
        whole_disk: false,
    }
}

/// Pools share a spare by its guid, and its labels say which of them uses it. A pool that crashes
/// while it returns the spare leaves labels of both kinds: until it is imported again, no other
/// pool takes the spare, because it may be needed.
#[test]
fn a_shared_spare_is_used_by_one_pool() {
    let mut bench = Bench::new("a");
    let mirrors = [(); 2].map(|()| bench.vdev(VdevShape::Mirror, AllocationClass::Normal, 2));
    let data: Vec<PathBuf> = mirrors[0]
        .leaves
        .iter()
        .map(|leaf| leaf.path.clone())
        .collect();
    let path = bench.leaf(128).path;
    let names = ["a", "b"].map(Bench::new);
    let mut pools = names.iter().zip(mirrors).map(|(bench, mirror)| {
        let mut request = bench.request(vec![mirror]);
        request.spares.push(leaf_at(&path));
        let created = cenote_pool::create(request, &options(), Arc::new(RealEnv::new()));
        created.expect("created")
    });
    let (a, b) = (pools.next().expect("two"), pools.next().expect("two"));
    let spare = spare_of(&a);
    assert_eq!(spare_of(&b), spare);
    let by = (&Actor::default(), "");
    let side = |pool: &Pool| pool.vdev_tree().leaves().next().expect("a side").guid;
    let user = |pool: &Pool| {
        let found = pool.found_devices().remove(&spare);
        found.and_then(|found| found.used_by).map(|user| user.name)
    };
    a.attach_spare(side(&a), spare, false, by)
        .expect("it stands in");
    let end = usize::try_from(end_of(&path)).expect("small");
    let in_use = fs::read(&path).expect("there")[end..].to_vec();
    a.detach(spare, by).expect("it goes back");
    drop(b.open_spare(spare).expect("it is free"));
    b.attach_spare(side(&b), spare, false, by)
        .expect("it stands in");
    a.look_at_spare(spare);
    assert_eq!(user(&a).as_deref(), Some("b"));
    b.detach(spare, by).expect("it goes back");
    a.look_at_spare(spare);
    assert_eq!(user(&a), None);
    a.close().expect("written");
    drop(a);

    // As far as the first two labels it had not come when it gave the spare back.
    let file = fs::OpenOptions::new().write(true).open(&path);
    let written = file.expect("there").write_all_at(&in_use, end_of(&path));
    written.expect("in range");
    match b.open_spare(spare) {
        Err(SpareError::Taken { pool, .. }) => assert_eq!(pool, "a"),
        other => panic!("{other:?}"),
    }
    assert_eq!(user(&b).as_deref(), Some("a"));
    let candidate = assemble(scan(&data, &SystemOpener::default())).remove(0);
    let a = cenote_pool::import(&candidate, &options(), Arc::new(RealEnv::new()));
    let a = a.expect("imported");
    b.look_at_spare(spare);
    assert_eq!(user(&b), None);
    b.attach_spare(side(&b), spare, false, by)
        .expect("it stands in");
    a.open_spare(spare).expect_err("the other one has it open");

    // A removal leaves the label alone, also if the other pool is unknown here.
    a.remove_auxiliary((Auxiliary::Spare, spare), by)
        .expect("a list entry");
    b.detach(spare, by).expect("it goes back");
    drop(b.open_spare(spare).expect("it is still a spare"));
    for pool in [a, b] {
        pool.close().expect("written");
    }
}
