//! What a device missed is remembered across imports, and what all missed was not done.

use crate::common;
use cenote_base::{Guid, RealEnv, Txg};
use cenote_device::{Device, FaultyDevice, Opener};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportOptions, NewVdev, Pool, VdevShape, assemble};
use cenote_sim::Disks;
use cenote_vdev::{AllocationClass, VdevState, scan};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// A pool of one vdev on all devices of a world, the last of which can be made to fail.
fn create(world: &Arc<Disks>, shape: VdevShape) -> (Pool, Arc<FaultyDevice>) {
    let mut leaves = world.leaves();
    let last = leaves.last_mut().expect("a world has devices");
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&last.device)));
    last.device = Arc::clone(&faulty) as Arc<dyn Device>;
    let vdev = NewVdev {
        shape,
        class: AllocationClass::Normal,
        leaves,
    };
    (common::Bench::new("tank").create(vec![vdev]), faulty)
}

fn import(world: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(world) as Arc<dyn Opener>,
        // What was missed is to be seen.
        scans: false,
        ..common::options()
    };
    let env = Arc::new(RealEnv::new());
    cenote_pool::import(&candidates[0], &options, env).expect("imported")
}

/// What is needed is right, and this device is said to be behind.
fn assert_only_stale(pool: &Pool, device: &str) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.complete && report.problems == 0, "{report:?}");
    assert_eq!(report.stale, [device], "{report:?}");
    assert!(!report.is_clean());
}

/// A side of a mirror that took no writes for a while comes back with what it had: nothing that
/// was written meanwhile is believed from it.
#[test]
fn a_side_that_took_no_writes() {
    let world = common::disks(2, 64 << 20);
    let (pool, faulty) = create(&world, VdevShape::Mirror);
    common::change(&pool, 0).expect("written");
    faulty.fail_writes(true);
    for round in 1..5 {
        common::change(&pool, round).expect("written on the other side");
    }
    let synced = pool.synced_txg();
    pool.close().expect("written");
    drop(pool);
    let pool = import(&world);
    let guids: Vec<_> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    assert!(pool.vdevs().dtl(guids[0]).is_empty());
    let missed = pool.vdevs().dtl(guids[1]);
    assert!(
        missed.iter().any(|range| range.contains(&synced)),
        "{missed:?}"
    );
    common::change(&pool, 9).expect("written to both");
    assert_only_stale(&pool, "disk1");
    let txg = pool.synced_txg();
    let missed = pool.vdevs().dtl(guids[1]);
    assert!(
        !missed.iter().any(|range| range.contains(&txg)),
        "{missed:?}"
    );
    pool.close().expect("written");
}

/// Metadata is sent off without waiting for it: what fails must be noticed before the commit. Each
/// time another few blocks where the next metadata will go take no writes.
#[test]
fn a_group_whose_metadata_was_not_taken_is_not_committed() {
    let mut failed = 0;
    for step in 0..8 {
        failed += u32::from(fails_behind_the_root(step * BLOCK));
    }
    assert!(failed > 0, "nothing was written there");
}

const BLOCK: u64 = 4096;
const SIZE: usize = 64 << 20;
/// There are as many at either end of a device.
const TWO_LABELS: usize = 512 << 10;

/// Changes a pool whose device takes no writes to a block so far behind the last root. Whether
/// that failed; either way what is committed must be there.
fn fails_behind_the_root(distance: u64) -> bool {
    let world = common::disks(1, 64 << 20);
    let (pool, faulty) = create(&world, VdevShape::Single);
    common::change(&pool, 0).expect("written");
    let (synced, root) = (pool.synced_txg(), pool.uberblock().root.dva(0));
    let start = LABELS + root.offset() + distance;
    faulty.fail_writes_to(start..start + BLOCK);
    let is_failed = common::change(&pool, 1).is_err();
    if is_failed {
        assert_eq!(pool.synced_txg(), synced, "at {distance}");
        faulty.heal();
        assert!(common::change(&pool, 2).is_err(), "it is suspended");
    }
    let vdevs = Arc::downgrade(&pool.vdevs());
    drop(pool);
    // A worker may just be coming back from something that others had done before it came.
    let begun = Instant::now();
    while vdevs.strong_count() > 0 {
        let is_long = begun.elapsed() > Duration::from_secs(60);
        assert!(!is_long, "something holds the devices");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pool = import(&world);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "at {distance}: {report:?}");
    common::change(&pool, 3).expect("written");
    pool.close().expect("written");
    is_failed
}

/// Where addresses are counted from: behind two labels and the boot region.
const LABELS: u64 = 4 << 20;

/// A device that is put back from an older copy of itself looked as good as the others: its log
/// of what it missed was empty, since it had been there all the time.
#[test]
fn a_device_put_back_from_a_copy_is_behind() {
    for shape in [VdevShape::Mirror, VdevShape::Raidz { parity: 1 }] {
        let world = common::disks(3, 64 << 20);
        let (pool, _) = create(&world, shape);
        common::change(&pool, 0).expect("written");
        pool.close().expect("written");
        let before = pool.uberblock().txg;
        drop(pool);
        let device = Arc::clone(&world.leaves()[1].device);
        let size = usize::try_from(device.size()).expect("small");
        let copy = device.read_vec(0, size).expect("in range");

        let pool = import(&world);
        let guids: Vec<_> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
        (1..5).for_each(|round| common::change(&pool, round).expect("written"));
        assert!(guids.iter().all(|guid| pool.vdevs().dtl(*guid).is_empty()));
        let written = pool.uberblock().txg;
        pool.close().expect("written");
        drop(pool);
        device.write_at(0, &copy).expect("in range");

        let pool = import(&world);
        let vdevs = pool.vdevs();
        let missed = vdevs.dtl(guids[1]);
        let is_told = missed[0].start > before && missed[0].contains(&written);
        assert!(is_told, "{before} {written} {missed:?}");
        assert!(vdevs.dtl(guids[0]).is_empty() && vdevs.dtl(guids[2]).is_empty());
        assert!(vdevs.needs_resilver(guids[1]) && !vdevs.needs_resilver(guids[0]));
        assert!(vdevs.is_resilver_needed().is_some());
        assert_eq!(vdevs.state().0, VdevState::Healthy, "as OpenZFS has it");
        assert!(!vdevs.is_required(guids[1]));
        // Of a mirror each other side is enough; a raidz needs both.
        assert_eq!(vdevs.is_required(guids[0]), shape != VdevShape::Mirror);
        common::change(&pool, 6).expect("written");
        assert_only_stale(&pool, "disk1");
        pool.close().expect("written");
        drop(pool);
        // It was noted with the first group, for whoever opens the pool next.
        let pool = import(&world);
        assert!(
            pool.vdevs()
                .dtl(guids[1])
                .iter()
                .any(|r| r.contains(&written))
        );
        pool.close().expect("written");
    }
}

/// A pool some of whose devices are as they were one group earlier: all that is on them, or their
/// labels only.
fn one_group_behind(
    (shape, count): (VdevShape, usize),
    behind: std::ops::Range<usize>,
    is_copy: bool,
) -> (Arc<Disks>, Vec<Guid>) {
    let world = common::disks(count, SIZE);
    let (pool, _) = create(&world, shape);
    (0..3).for_each(|round| common::change(&pool, round).expect("written"));
    let before = pool.synced_txg();
    let copies = behind.map(|disk| {
        let device = Arc::clone(&world.leaves()[disk].device);
        let copy = device.read_vec(0, SIZE).expect("in range");
        (device, copy)
    });
    let copies: Vec<_> = copies.collect();
    common::change(&pool, 3).expect("written");
    assert_eq!(pool.synced_txg(), Txg(before.0 + 1), "one group");
    let guids = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    drop(pool);
    for (device, copy) in copies {
        let end = match is_copy {
            true => SIZE - TWO_LABELS,
            false => TWO_LABELS,
        };
        for part in [0..end, SIZE - TWO_LABELS..SIZE] {
            let bytes = &copy[part.clone()];
            device.write_at(part.start as u64, bytes).expect("in range");
        }
    }
    (world, guids)
}

/// Opens the pool with its scans, and waits until no device lacks anything.
fn bring_what_is_missed(world: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(world) as Arc<dyn Opener>,
        ..common::options()
    };
    let env = Arc::new(RealEnv::new());
    let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
    let begun = Instant::now();
    while pool.vdevs().is_resilver_needed().is_some() {
        let is_long = begun.elapsed() > Duration::from_secs(120);
        assert!(!is_long, "{:?}", pool.scan_status());
        common::change(&pool, 4).expect("written");
        std::thread::sleep(Duration::from_millis(1));
    }
    pool
}

/// A copy of a device that was made exactly one group before the pool went down looked like a
/// device that had lost its power in the middle of a commit. It counted as complete, and when the
/// other devices were gone, so was what that group had written.
#[test]
fn a_copy_made_one_group_earlier_is_behind() {
    for shape in [VdevShape::Mirror, VdevShape::Raidz { parity: 1 }] {
        let (world, guids) = one_group_behind((shape, 3), 1..2, true);
        let pool = import(&world);
        let last = pool.uberblock().txg;
        assert_eq!(pool.vdevs().dtl(guids[1]), [last..Txg(last.0 + 1)]);
        assert!(pool.vdevs().dtl(guids[0]).is_empty());
        assert_eq!(
            pool.vdevs().is_required(guids[0]),
            shape != VdevShape::Mirror
        );
        drop(pool);

        let pool = bring_what_is_missed(&world);
        pool.close().expect("written");
        drop(pool);
        let gone = if shape == VdevShape::Mirror { 2 } else { 1 };
        for disk in [0, 2].into_iter().take(gone) {
            let noise = vec![0xa5; SIZE - 4 * TWO_LABELS];
            let device = Arc::clone(&world.leaves()[disk].device);
            let start = 2 * TWO_LABELS as u64;
            device.write_at(start, &noise).expect("in range");
        }
        let report = verify(&import(&world), &VerifyOptions::default(), &Silent).expect("runs");
        assert!(report.damaged.is_empty(), "{report:?}");
    }
}

/// A power cut left the newest uberblock on one device of a raidz. Neither of the others can be
/// called complete, and both have what it needs: all can be read, and they are soon complete.
#[test]
fn more_devices_than_parity_lack_the_last_uberblock() {
    let draid = VdevShape::Draid {
        parity: 1,
        data: 2,
        spares: 1,
    };
    let raidz = |parity| VdevShape::Raidz { parity };
    for (shape, count) in [(raidz(1), 3), (raidz(3), 6), (draid, 5)] {
        let (world, guids) = one_group_behind((shape, count), 1..count, false);
        let pool = import(&world);
        let last = pool.uberblock().txg;
        for guid in &guids[1..count] {
            assert_eq!(pool.vdevs().dtl(*guid), [last..Txg(last.0 + 1)]);
        }
        let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
        let is_whole = report.complete && report.problems == 0;
        assert!(is_whole, "{shape:?}: {report:?}");
        drop(pool);
        let pool = bring_what_is_missed(&world);
        let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
        assert!(report.is_clean(), "{shape:?}: {report:?}");
        pool.close().expect("written");
    }
}
