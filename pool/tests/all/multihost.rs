//! Pools with the property `multihost`: other systems see that they are in use, and a system that
//! cannot show it any more stops writing.
//!
//! These tests wait for long times, so they run in a simulated world.

use crate::common::{self, Bench};
use cenote_base::rt::{self, Instant, World};
use cenote_base::{Env, RealEnv, settings};
use cenote_device::{Device, FaultyDevice, Opener};
use cenote_dsl::Stored;
use cenote_ondisk::label::UberblockRing;
use cenote_ondisk::uberblock::Uberblock;
use cenote_pool::{
    CreateRequest, ImportError, ImportOptions, NewVdev, Pool, PoolCandidate, VdevShape, assemble,
    create, import,
};
use cenote_sim::Disks;
use cenote_tests::referee::judge;
use cenote_vdev::AllocationClass::Normal;
use cenote_vdev::scan;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const OTHER_HOST: u64 = 0x99;
/// Of the writer: how long it may be silent, in milliseconds.
const PATIENCE: u64 = 100 * 10;
const SIZE: usize = 128 << 20;

/// Machines that see the same disks, whose hearts beat ten times a second.
fn simulated(seed: u64, test: impl FnOnce()) {
    World::simulated(seed).run(|| {
        settings::MULTIHOST_INTERVAL.set(100).expect("in range");
        test();
    });
}

fn vdev(shape: VdevShape, disks: &Disks) -> NewVdev {
    NewVdev {
        shape,
        class: Normal,
        leaves: disks.leaves(),
    }
}

fn request(vdev: NewVdev) -> CreateRequest {
    CreateRequest {
        properties: vec![("multihost".to_owned(), Stored::Number(1))],
        ..Bench::new("shared").request(vec![vdev])
    }
}

fn new_pool(vdev: NewVdev) -> Pool {
    create(request(vdev), &common::options(), Arc::new(RealEnv::new())).expect("created")
}

fn candidate(disks: &Disks) -> PoolCandidate {
    assemble(scan(&disks.paths(), disks)).remove(0)
}

fn attempt(disks: &Arc<Disks>, options: ImportOptions) -> Result<Pool, ImportError> {
    let options = ImportOptions {
        opener: Arc::clone(disks) as Arc<dyn Opener>,
        ..options
    };
    import(&candidate(disks), &options, Arc::new(RealEnv::new()))
}

fn of_host(hostid: u64, force: bool) -> ImportOptions {
    ImportOptions {
        hostid,
        force,
        ..common::options()
    }
}

/// The newest uberblock on the devices.
fn newest(disks: &Disks) -> Uberblock {
    candidate(disks).uberblocks().remove(0)
}

/// The referee checks the disks.
fn check(disks: &Disks) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    disks.save(dir.path()).expect("room");
    judge(dir.path(), "shared");
}

#[test]
fn nobody_takes_a_pool_that_is_in_use() {
    let disks = common::disks(2, SIZE);
    simulated(1, || in_use(&disks));
    check(&disks);
}

fn in_use(disks: &Arc<Disks>) {
    let pool = new_pool(vdev(VdevShape::Mirror, disks));
    pool.sync().expect("written");
    let before = newest(disks);
    let multihost = before.multihost.expect("said");
    assert_eq!(multihost.interval_ms, Some(100));
    assert_eq!(multihost.fail_intervals, Some(10));
    assert!(multihost.delay_ns > 0 && multihost.sequence > Some(0));
    for (host, force) in [
        (OTHER_HOST, false),
        (OTHER_HOST, true),
        (common::options().hostid, true),
    ] {
        let refused = attempt(disks, of_host(host, force));
        assert!(
            matches!(refused, Err(ImportError::ActiveElsewhere { .. })),
            "{refused:?}"
        );
    }
    let after = newest(disks);
    assert_eq!(after.txg, before.txg, "no group was written for that");
    assert_ne!(after.rank(), before.rank());
    // Groups leave the last slot to the heartbeats, once around the ring.
    let ashift = candidate(disks).tree.children[0].ashift;
    let slots = UberblockRing::new(ashift.expect("in the label")).slots();
    for round in 0..=slots {
        common::change(&pool, round).expect("written");
    }
    // Without a hostid the pool cannot be imported either, once it is free.
    pool.close().expect("written");
    drop(pool);
    let nameless = attempt(disks, of_host(0, true));
    assert!(
        matches!(nameless, Err(ImportError::HostIdRequired)),
        "{nameless:?}"
    );
    let begun = Instant::now();
    let pool = attempt(disks, of_host(OTHER_HOST, true)).expect("it is not in use");
    assert!(begun.elapsed() >= Duration::from_millis(2 * PATIENCE));
    pool.export().expect("written");
    drop(pool);
    // An exported pool is not in use.
    let begun = Instant::now();
    let pool = attempt(disks, common::options()).expect("free");
    assert!(begun.elapsed() < Duration::from_millis(2 * PATIENCE));
    pool.set_multihost(false).expect("no thread is needed");
    common::change(&pool, 1).expect("written");
    let quiet = newest(disks);
    assert_eq!(quiet.multihost.map(|multihost| multihost.delay_ns), Some(0));
    pool.export().expect("written");
}

/// Waits until the pool is suspended, for a minute at most.
fn wait_for_suspension(pool: &Pool) {
    let begun = Instant::now();
    while pool.suspended().is_none() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is not suspended"
        );
        rt::sleep(Duration::from_millis(20));
    }
    assert!(pool.has_lost_heartbeat(), "{:?}", pool.suspended());
}

#[test]
fn a_pool_that_cannot_show_that_it_is_in_use_is_suspended() {
    let disks = common::disks(1, SIZE);
    simulated(2, || silent(&disks));
    check(&disks);
}

fn silent(disks: &Arc<Disks>) {
    let mut vdev = vdev(VdevShape::Single, disks);
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&vdev.leaves[0].device)));
    vdev.leaves[0].device = Arc::clone(&faulty) as Arc<dyn Device>;
    let pool = new_pool(vdev);
    common::change(&pool, 0).expect("written");
    faulty.fail_writes(true);
    wait_for_suspension(&pool);
    faulty.fail_writes(false);
    assert!(common::change(&pool, 1).is_err(), "it does not come back");
    let before = newest(disks);
    rt::sleep(Duration::from_millis(500));
    assert_eq!(newest(disks), before, "nothing is written any more");
    pool.abandon();
    drop(pool);
    drop(faulty);
    let pool = attempt(disks, of_host(OTHER_HOST, true)).expect("it is not in use");
    pool.export().expect("written");
}

/// A clock that can be put forward, as for a machine that was stopped for a while.
#[derive(Debug)]
struct Clock {
    real: RealEnv,
    seconds_ahead: AtomicU64,
}

impl Env for Clock {
    fn wall_clock(&self) -> Duration {
        self.real.wall_clock()
    }

    fn monotonic(&self) -> Duration {
        let ahead = Duration::from_secs(self.seconds_ahead.load(Ordering::Relaxed));
        self.real.monotonic() + ahead
    }

    fn sleep(&self, duration: Duration) {
        self.real.sleep(duration);
    }

    fn fill_random(&self, buffer: &mut [u8]) -> std::io::Result<()> {
        self.real.fill_random(buffer)
    }
}

#[test]
fn a_system_that_was_stopped_writes_nothing_when_it_goes_on() {
    let disks = common::disks(1, SIZE);
    simulated(3, || stopped(&disks));
    check(&disks);
}

fn stopped(disks: &Arc<Disks>) {
    let clock = Arc::new(Clock {
        real: RealEnv::new(),
        seconds_ahead: AtomicU64::new(0),
    });
    let env = Arc::clone(&clock) as Arc<dyn Env>;
    let pool = create(
        request(vdev(VdevShape::Single, disks)),
        &common::options(),
        env,
    )
    .expect("created");
    common::change(&pool, 0).expect("written");
    let before = newest(disks);
    clock.seconds_ahead.store(60, Ordering::Relaxed);
    assert!(
        common::change(&pool, 1).is_err(),
        "the group comes too late"
    );
    wait_for_suspension(&pool);
    assert_eq!(newest(disks).txg, before.txg);
    pool.abandon();
    drop(pool);
    let pool = attempt(disks, of_host(OTHER_HOST, true)).expect("it is not in use");
    pool.export().expect("written");
}
