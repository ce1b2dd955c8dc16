//! Scrubs and resilvers of pools on disks in memory.

use crate::common;
use cenote_base::rt::{self, Instant, World};
use cenote_base::{RealEnv, Txg, settings};
use cenote_device::Opener;
use cenote_ondisk::scan::{ScanFunction, ScanState};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{
    Actor, ImportOptions, NewVdev, Pool, ScanError, ScanRequest, ScanStatus, VdevShape, assemble,
};
use cenote_sim::Disks;
use cenote_vdev::{AllocationClass, scan};
use std::sync::Arc;
use std::time::Duration;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Where addresses are counted from: behind two labels and the boot region.
const LABELS: usize = 4 << 20;
const SIZE: usize = 64 << 20;

fn create(world: &Arc<Disks>, shape: VdevShape) -> Pool {
    let vdev = NewVdev {
        shape,
        class: AllocationClass::Normal,
        leaves: world.leaves(),
    };
    common::Bench::new("tank").create(vec![vdev])
}

fn import(world: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(world) as Arc<dyn Opener>,
        ..common::options()
    };
    let env = Arc::new(RealEnv::new());
    cenote_pool::import(&candidates[0], &options, env).expect("imported")
}

fn actor() -> Actor {
    Actor {
        user: 0,
        host: "test".to_owned(),
    }
}

fn scrub(pool: &Pool) -> Result<(), ScanError> {
    scrub_groups(pool, 0, None)
}

fn scrub_groups(pool: &Pool, since: u64, until: Option<u64>) -> Result<(), ScanError> {
    let (since, until) = (Txg(since), until.map(Txg));
    let request = ScanRequest::Scrub { since, until };
    pool.start_scan(request, (&actor(), "zpool scrub tank"))
}

/// The scan once it is over.
fn ended(pool: &Pool) -> ScanStatus {
    let begun = Instant::now();
    loop {
        let status = pool.scan_status().expect("readable").expect("one began");
        if status.scan.state != ScanState::Scanning {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{status:?}");
        rt::sleep(Duration::from_millis(5));
    }
}

/// Overwrites what a disk holds, but for its labels.
fn spoil(world: &Disks, disk: usize) {
    let device = Arc::clone(&world.leaves()[disk].device);
    let noise = vec![0xa5; SIZE - 2 * LABELS];
    device.write_at(LABELS as u64, &noise).expect("in range");
}

/// Whether everything can be read without a disk.
fn is_whole_without(world: &Arc<Disks>, disk: usize) {
    spoil(world, disk);
    let pool = import(world);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.damaged.is_empty(), "{report:?}");
    pool.close().expect("written");
}

/// A side that was away while the other was written to came back at an import, was shown healthy,
/// and nothing brought it what it had missed.
#[test]
fn a_side_that_comes_back_at_an_import_is_resilvered() {
    for shape in [VdevShape::Mirror, VdevShape::Raidz { parity: 1 }] {
        let world = common::disks(3, SIZE);
        let pool = create(&world, shape);
        common::change(&pool, 0).expect("written");
        pool.close().expect("written");
        drop(pool);
        let device = Arc::clone(&world.leaves()[1].device);
        let copy = device.read_vec(0, SIZE).expect("in range");
        let pool = import(&world);
        (1..5).for_each(|round| common::change(&pool, round).expect("written"));
        pool.close().expect("written");
        drop(pool);
        device.write_at(0, &copy).expect("in range");

        let pool = import(&world);
        let status = ended(&pool);
        let scan = status.scan;
        assert_eq!(
            (scan.function, scan.state, scan.errors),
            (ScanFunction::Resilver, ScanState::Finished, 0)
        );
        assert!(scan.processed > 0 && scan.end_time >= scan.start_time);
        assert!(pool.vdevs().is_resilver_needed().is_none());
        assert!(
            !pool.look_for_resilver().expect("it can"),
            "nothing is missed"
        );
        pool.close().expect("written");
        drop(pool);
        // What the log says now is on disk.
        let pool = import(&world);
        assert_eq!(ended(&pool).scan.start_time, scan.start_time);
        assert!(pool.vdevs().is_resilver_needed().is_none());
        pool.close().expect("written");
        drop(pool);
        is_whole_without(&world, 0);
    }
}

#[test]
fn a_scrub_writes_again_what_is_wrong() {
    for shape in [VdevShape::Mirror, VdevShape::Raidz { parity: 1 }] {
        let world = common::disks(3, SIZE);
        let pool = create(&world, shape);
        (0..5).for_each(|round| common::change(&pool, round).expect("written"));
        spoil(&world, 1);
        scrub(&pool).expect("begun");
        let scan = ended(&pool).scan;
        assert_eq!((scan.function, scan.errors), (ScanFunction::Scrub, 0));
        assert!(scan.processed > 0 && scan.examined > 0, "{scan:?}");
        scrub(&pool).expect("begun again");
        let again = ended(&pool).scan;
        assert_eq!((again.processed, again.errors), (0, 0));
        pool.close().expect("written");
        drop(pool);
        is_whole_without(&world, 0);
    }
}

/// `zfs_scan_suspend_progress` holds a scrub where it is, for an hour here.
#[test]
fn a_scrub_can_be_held() {
    World::simulated(1).run(|| {
        let world = common::disks(2, SIZE);
        let pool = create(&world, VdevShape::Mirror);
        (0..5).for_each(|round| common::change(&pool, round).expect("written"));
        let hold = &settings::SCAN_SUSPEND_PROGRESS;
        hold.set(1).expect("a switch");
        scrub(&pool).expect("begun");
        rt::sleep(Duration::from_secs(3600));
        let status = pool.scan_status().expect("readable").expect("one began");
        let scan = status.scan;
        assert_eq!((scan.state, scan.examined), (ScanState::Scanning, 0));
        hold.set(0).expect("a switch");
        let scan = ended(&pool).scan;
        assert!(scan.state == ScanState::Finished && scan.examined > 0);
        pool.close().expect("written");
    });
}

/// A scrub that leaves groups out does not replace the list of damaged blocks; nor do scrubs of
/// what is new begin behind what it left out.
#[test]
fn a_scrub_of_some_groups_is_not_complete() {
    let world = common::disks(2, SIZE);
    let pool = create(&world, VdevShape::Mirror);
    (0..5).for_each(|round| common::change(&pool, round).expect("written"));
    let ended_as = |since, until| {
        scrub_groups(&pool, since, until).expect("begun");
        let scan = ended(&pool).scan;
        let last = pool.dsl().last_scrubbed_txg().expect("readable");
        ((scan.txg_min.0, scan.txg_max), last)
    };
    let groups = ((1, Txg(3)), Txg(0));
    assert_eq!(ended_as(0, Some(3)), groups, "an old group");
    let ((_, first), last) = ended_as(0, None);
    assert_eq!(last, first);
    let ((_, second), last) = ended_as(first.0, None);
    assert!(second > first && last == second);
    let (_, last) = ended_as(second.0 + 1, None);
    assert_eq!(last, second, "a group was left out");
    assert_eq!(ended_as(1, Some(8)).1, second);
    pool.close().expect("written");
}
