//! Pools with the property `multihost`: other systems see that they are in use, and a system that
//! cannot show it any more stops writing.

use crate::common::{self, Bench};
use cenote_base::{Env, RealEnv, settings};
use cenote_device::{Device, FaultyDevice};
use cenote_dsl::Stored;
use cenote_ondisk::label::UberblockRing;
use cenote_ondisk::uberblock::Uberblock;
use cenote_pool::{
    CreateRequest, ImportError, ImportOptions, NewVdev, Pool, PoolCandidate, VdevShape, create,
    import,
};
use cenote_vdev::AllocationClass::Normal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const OTHER_HOST: u64 = 0x99;
/// Of the writer: how long it may be silent, in milliseconds.
const PATIENCE: u64 = 100 * 10;

/// The settings are the process's: all tests here want the same.
fn beat_fast() {
    let interval = &settings::MULTIHOST_INTERVAL;
    interval.set(100).expect("in range");
}

fn request(bench: &Bench, vdev: NewVdev) -> CreateRequest {
    CreateRequest {
        properties: vec![("multihost".to_owned(), Stored::Number(1))],
        ..bench.request(vec![vdev])
    }
}

fn new_pool(bench: &Bench, vdev: NewVdev) -> Pool {
    let request = request(bench, vdev);
    create(request, &common::options(), Arc::new(RealEnv::new())).expect("created")
}

fn candidate(bench: &Bench) -> PoolCandidate {
    common::candidates(bench.dir.path()).remove(0)
}

fn attempt(bench: &Bench, options: ImportOptions) -> Result<Pool, ImportError> {
    import(&candidate(bench), &options, Arc::new(RealEnv::new()))
}

fn of_host(hostid: u64, force: bool) -> ImportOptions {
    ImportOptions {
        hostid,
        force,
        ..common::options()
    }
}

/// The newest uberblock on the devices.
fn newest(bench: &Bench) -> Uberblock {
    candidate(bench).uberblocks().remove(0)
}

#[test]
fn nobody_takes_a_pool_that_is_in_use() {
    beat_fast();
    let mut bench = Bench::new("shared");
    let vdev = bench.vdev(VdevShape::Mirror, Normal, 2);
    let pool = new_pool(&bench, vdev);
    pool.sync().expect("written");
    let before = newest(&bench);
    let multihost = before.multihost.expect("said");
    assert_eq!(multihost.interval_ms, Some(100));
    assert_eq!(multihost.fail_intervals, Some(10));
    assert!(multihost.delay_ns > 0 && multihost.sequence > Some(0));
    for (host, force) in [
        (OTHER_HOST, false),
        (OTHER_HOST, true),
        (common::options().hostid, true),
    ] {
        let refused = attempt(&bench, of_host(host, force));
        assert!(
            matches!(refused, Err(ImportError::ActiveElsewhere { .. })),
            "{refused:?}"
        );
    }
    let after = newest(&bench);
    assert_eq!(after.txg, before.txg, "no group was written for that");
    assert_ne!(after.rank(), before.rank());
    // Groups leave the last slot to the heartbeats, once around the ring.
    let ashift = candidate(&bench).tree.children[0].ashift;
    let slots = UberblockRing::new(ashift.expect("in the label")).slots();
    for round in 0..=slots {
        common::change(&pool, round).expect("written");
    }
    // Whoever cannot say who it is does not get it either, once it is free.
    pool.close().expect("written");
    drop(pool);
    let nameless = attempt(&bench, of_host(0, true));
    assert!(
        matches!(nameless, Err(ImportError::HostIdRequired)),
        "{nameless:?}"
    );
    let begun = Instant::now();
    let pool = attempt(&bench, of_host(OTHER_HOST, true)).expect("nobody has it");
    assert!(begun.elapsed() >= Duration::from_millis(2 * PATIENCE));
    pool.export().expect("written");
    drop(pool);
    // What was exported nobody has.
    let begun = Instant::now();
    let pool = attempt(&bench, common::options()).expect("free");
    assert!(begun.elapsed() < Duration::from_millis(2 * PATIENCE));
    pool.set_multihost(false).expect("no thread is needed");
    common::change(&pool, 1).expect("written");
    let quiet = newest(&bench);
    assert_eq!(quiet.multihost.map(|multihost| multihost.delay_ns), Some(0));
    pool.export().expect("written");
    drop(pool);
    bench.check();
}

/// Waits until the pool is suspended, for a minute at most.
fn wait_for_suspension(pool: &Pool) {
    let begun = Instant::now();
    while pool.suspended().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(pool.has_lost_heartbeat(), "{:?}", pool.suspended());
}

#[test]
fn a_pool_that_cannot_show_that_it_is_in_use_is_suspended() {
    beat_fast();
    let mut bench = Bench::new("silent");
    let mut vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&vdev.leaves[0].device)));
    vdev.leaves[0].device = Arc::clone(&faulty) as Arc<dyn Device>;
    let pool = new_pool(&bench, vdev);
    common::change(&pool, 0).expect("written");
    faulty.fail_writes(true);
    wait_for_suspension(&pool);
    faulty.fail_writes(false);
    assert!(common::change(&pool, 1).is_err(), "it does not come back");
    let before = newest(&bench);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(newest(&bench), before, "nothing is written any more");
    pool.abandon();
    drop(pool);
    drop(faulty);
    let pool = attempt(&bench, of_host(OTHER_HOST, true)).expect("nobody has it");
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
    beat_fast();
    let mut bench = Bench::new("stopped");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let clock = Arc::new(Clock {
        real: RealEnv::new(),
        seconds_ahead: AtomicU64::new(0),
    });
    let env = Arc::clone(&clock) as Arc<dyn Env>;
    let pool = create(request(&bench, vdev), &common::options(), env).expect("created");
    common::change(&pool, 0).expect("written");
    let before = newest(&bench);
    clock.seconds_ahead.store(60, Ordering::Relaxed);
    assert!(
        common::change(&pool, 1).is_err(),
        "the group comes too late"
    );
    wait_for_suspension(&pool);
    assert_eq!(newest(&bench).txg, before.txg);
    pool.abandon();
    drop(pool);
    let pool = attempt(&bench, of_host(OTHER_HOST, true)).expect("nobody has it");
    pool.export().expect("written");
}
