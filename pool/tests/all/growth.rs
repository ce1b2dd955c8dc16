//! Devices that become larger under their pool, or between two imports.

use crate::common;
use cenote_base::{RealEnv, VdevId};
use cenote_device::{FileDevice, FileOptions};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{Actor, ImportOptions, NewVdev, Pool, VdevShape, assemble};
use cenote_sim::Random;
use cenote_vdev::{AllocationClass, DeviceLabels, scan};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const AFTER: u64 = 300 * MIB;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn paths(vdev: &NewVdev) -> Vec<PathBuf> {
    vdev.leaves.iter().map(|leaf| leaf.path.clone()).collect()
}

fn enlarge(path: &Path, size: u64) {
    let file = std::fs::File::options().write(true).open(path);
    file.expect("a file").set_len(size).expect("room");
}

fn import(dir: &Path) -> Pool {
    let candidates = common::candidates(dir);
    let env = Arc::new(RealEnv::new());
    cenote_pool::import(&candidates[0], &common::options(), env).expect("imported")
}

fn expand(pool: &Pool, tops: Option<&[VdevId]>) -> bool {
    pool.expand(tops, &Actor::default(), "").expect("written")
}

fn size(pool: &Pool, top: u64) -> u64 {
    pool.space()[&VdevId(top)].size
}

/// All four labels of a device agree, and all have uberblocks.
fn check_labels(path: &Path, asize: u64) {
    let device = FileDevice::open(path, FileOptions::default()).expect("there");
    let labels = DeviceLabels::read(&device);
    for label in &labels.labels {
        assert!(label.is_valid(), "label {} of {path:?}", label.index);
        let config = label.config.as_ref().expect("valid");
        let tree = config.vdev_tree.as_ref().expect("of a pool");
        assert_eq!(tree.asize, asize, "label {} of {path:?}", label.index);
    }
    let of = |label| {
        let found = labels.uberblocks.iter();
        found.filter(|found| found.label == label).count()
    };
    assert!(of(0) > 2);
    assert!((1..4).all(|label| of(label) == of(0)), "uberblocks moved");
}

fn grows(shape: VdevShape, count: usize) {
    let mut bench = common::Bench::new("tank");
    let vdev = bench.vdev(shape, AllocationClass::Normal, count);
    let devices = paths(&vdev);
    let pool = bench.create(vec![vdev]);
    for round in 0..20 {
        common::change(&pool, round).expect("written");
    }
    let before = (pool.vdev_tree().children[0].asize, size(&pool, 0));
    assert!(pool.expandable().is_empty());
    let (last, others) = devices.split_last().expect("there are some");
    others.iter().for_each(|path| enlarge(path, AFTER));
    if count > 1 {
        assert!(pool.expandable().is_empty() && !expand(&pool, None));
    }
    enlarge(last, AFTER);
    let tree = pool.vdev_tree();
    let top = &tree.children[0];
    let gain = pool.expandable()[&VdevId(0)];
    assert!(gain > before.0 && gain.is_multiple_of(1 << top.metaslab_shift));
    assert!(!expand(&pool, Some(&[VdevId(1)])), "not this one");
    // A configuration lives as long as it has a holder, and not longer.
    let forgotten = Arc::downgrade(&pool.config());
    drop(tree);
    assert!(expand(&pool, Some(&[VdevId(0)])));
    assert!(pool.vdev_tree().children[0].asize > before.0);
    assert!(forgotten.upgrade().is_none(), "an old configuration stays");
    assert!(!expand(&pool, None), "nothing is left");
    assert!(pool.expandable().is_empty());
    let tree = pool.vdev_tree();
    let asize = tree.children[0].asize;
    assert!(asize >= before.0 + gain);
    assert!(size(&pool, 0) >= before.1 + gain * 9 / 10);
    for round in 20..40 {
        common::change(&pool, round).expect("written");
    }
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{report:?}");
    // As after a crash: the pool is not exported.
    pool.close().expect("written");
    drop(pool);
    devices.iter().for_each(|path| check_labels(path, asize));
    let pool = import(bench.dir.path());
    assert_eq!(pool.vdev_tree().children[0].asize, asize);
    common::change(&pool, 40).expect("written");
    pool.export().expect("written");
    drop(pool);
    bench.check();
}

#[test]
fn single() {
    grows(VdevShape::Single, 1);
}

#[test]
fn mirror() {
    grows(VdevShape::Mirror, 2);
}

#[test]
fn raidz() {
    grows(VdevShape::Raidz { parity: 2 }, 5);
}

#[test]
fn draid() {
    let shape = VdevShape::Draid {
        parity: 1,
        data: 3,
        spares: 1,
    };
    grows(shape, 6);
}

/// A device that grew while the pool was exported changes nothing until requested. Its labels are
/// then at the new end.
#[test]
fn between_imports() {
    let mut bench = common::Bench::new("tank");
    let data = bench.vdev(VdevShape::Single, AllocationClass::Normal, 1);
    let log = bench.vdev(VdevShape::Mirror, AllocationClass::Log, 2);
    let devices = [paths(&data), paths(&log)].concat();
    let pool = bench.create(vec![data, log]);
    let old = (size(&pool, 0), size(&pool, 1));
    for round in 0..20 {
        common::change(&pool, round).expect("written");
    }
    pool.export().expect("written");
    drop(pool);
    devices.iter().for_each(|path| enlarge(path, AFTER));
    let pool = import(bench.dir.path());
    common::change(&pool, 20).expect("written");
    assert_eq!((size(&pool, 0), size(&pool, 1)), old);
    assert_eq!(pool.expandable().len(), 2);
    assert!(expand(&pool, None));
    assert!(size(&pool, 0) > 2 * old.0 && size(&pool, 1) > 2 * old.1);
    let asizes: Vec<u64> = pool.vdev_tree().children.iter().map(|t| t.asize).collect();
    pool.export().expect("written");
    drop(pool);
    check_labels(&devices[0], asizes[0]);
    check_labels(&devices[1], asizes[1]);
    bench.check();
}

/// A vdev does not grow while one of its devices is not there: that one may be small.
#[test]
fn not_without_a_device() {
    let mut bench = common::Bench::new("tank");
    let vdev = bench.vdev(VdevShape::Mirror, AllocationClass::Normal, 2);
    let devices = paths(&vdev);
    let pool = bench.create(vec![vdev]);
    pool.export().expect("written");
    drop(pool);
    let away = devices[1].with_extension("away");
    std::fs::rename(&devices[1], &away).expect("moved");
    enlarge(&devices[0], AFTER);
    let pool = import(bench.dir.path());
    assert!(pool.expandable().is_empty() && !expand(&pool, None));
    pool.export().expect("written");
    drop(pool);
    std::fs::rename(&away, &devices[1]).expect("moved");
}

/// The power fails at every write of groups one of which makes the pool larger.
#[test]
fn power_cuts() {
    const SMALL: usize = 64 << 20;
    let world = common::disks(2, SMALL);
    let bench = common::Bench::new("world");
    let vdev = NewVdev {
        shape: VdevShape::Mirror,
        class: AllocationClass::Normal,
        leaves: world.leaves(),
    };
    let pool = bench.create(vec![vdev]);
    for round in 0..20 {
        common::change(&pool, round).expect("written");
    }
    world.grow(SMALL + (32 << 20));
    world.record();
    common::change(&pool, 20).expect("written");
    assert!(expand(&pool, None));
    let expanded = world.recorded();
    common::change(&pool, 21).expect("written");
    let tree = pool.vdev_tree();
    let asize = tree.children[0].asize;
    drop(pool);
    let log = world.take_record();
    let mut random = Random::new(1);
    let mut last = None;
    let mut sizes = std::collections::BTreeSet::new();
    eprintln!("{} operations", log.len());
    for (number, at) in (0..=log.len()).step_by((log.len() / 50).max(1)).enumerate() {
        for keep in [[100], [0], [50]][number % 3] {
            let image = Arc::new(world.after(&log, at, keep, &mut random));
            let what = format!("cut at {at} of {}, {keep} % kept", log.len());
            let candidates = assemble(scan(&image.paths(), image.as_ref()));
            let options = ImportOptions {
                opener: Arc::clone(&image) as Arc<dyn cenote_device::Opener>,
                ..common::options()
            };
            let env = Arc::new(RealEnv::new());
            let pool = cenote_pool::import(&candidates[0], &options, env);
            let pool = pool.unwrap_or_else(|error| panic!("{what}: {error}"));
            let tree = pool.vdev_tree();
            let found = tree.children[0].asize;
            assert!(at < expanded || found == asize, "{what}: it is small again");
            sizes.insert(found);
            let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
            // A side without the last uberblock is given that group again.
            let is_whole = report.complete && report.problems == 0;
            assert!(is_whole, "{what}: {report:?}");
            common::change(&pool, 30).expect("written");
            expand(&pool, None);
            common::change(&pool, 31).expect("written");
            assert_eq!(pool.vdev_tree().children[0].asize, asize, "{what}");
            pool.close().expect("written");
            last = Some(image);
        }
    }
    assert_eq!(sizes.len(), 2, "before and after were seen");
    last.expect("there were cuts")
        .save(bench.dir.path())
        .expect("room");
    bench.check();
}
