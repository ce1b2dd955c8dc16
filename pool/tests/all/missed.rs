//! What a device missed is remembered across imports, and what all missed was not done.

use crate::common;
use crate::world::World;
use cenote_base::RealEnv;
use cenote_device::{Device, FaultyDevice, Opener};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportOptions, NewVdev, Pool, VdevShape, assemble};
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
fn create(world: &Arc<World>, shape: VdevShape) -> (Pool, Arc<FaultyDevice>) {
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

fn import(world: &Arc<World>) -> Pool {
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
    let world = World::new(2, 64 << 20);
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

/// Changes a pool whose device takes no writes to a block so far behind the last root. Whether
/// that failed; either way what is committed must be there.
fn fails_behind_the_root(distance: u64) -> bool {
    let world = World::new(1, 64 << 20);
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
        let world = World::new(3, 64 << 20);
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
