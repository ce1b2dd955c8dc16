//! Power cuts at every write: whichever unflushed writes the devices kept, the pool opens at the
//! last committed group or the next, and every block of it is valid.

use crate::common;
use cenote_base::RealEnv;
use cenote_dsl::DatasetName;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportError, ImportOptions, NewVdev, Pool, VdevShape, assemble};
use cenote_sim::{Disks, Event, Random};
use cenote_vdev::{AllocationClass, scan};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Groups before the recording starts: so many that freed space is used again.
const WARM_UP: u64 = 220;
/// Groups that are recorded.
const ROUNDS: u64 = 12;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn import(world: &Arc<Disks>, read_only: bool) -> Result<Pool, ImportError> {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        read_only,
        opener: Arc::clone(world) as Arc<dyn cenote_device::Opener>,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

/// The newest round in the pool's properties.
fn newest_round(pool: &Pool) -> u64 {
    let name = DatasetName::parse(pool.name()).expect("a name");
    let dataset = pool.dsl().dataset(&name).expect("readable");
    let values = (0..3).filter_map(|i| common::value_of(&dataset, i));
    values.max().expect("there was a round")
}

fn judge(world: &Arc<Disks>, allowed: std::ops::RangeInclusive<u64>, what: &str) {
    let pool = import(world, true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let round = newest_round(&pool);
    assert!(
        allowed.contains(&round),
        "{what}: round {round} and not {allowed:?}"
    );
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    let is_whole = report.complete && report.problems == 0;
    assert!(is_whole, "{what}: {report:?}");
    // A device without the last uberblock may lack that group, and nothing before.
    let last = pool.uberblock().txg;
    for leaf in pool.vdev_tree().leaves() {
        let missed = pool.vdevs().dtl(leaf.guid);
        let is_last = missed.iter().all(|missed| missed.start == last);
        assert!(is_last, "{what}: {missed:?}");
    }
}

/// Waits until no device lacks anything; a group of its own may be needed for that.
fn bring_what_is_missed(pool: &Pool) {
    let begun = Instant::now();
    while pool.vdevs().is_resilver_needed().is_some() {
        let is_long = begun.elapsed() > Duration::from_secs(120);
        assert!(!is_long, "{:?}", pool.scan_status());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn cut(shape: VdevShape, count: usize, seed: u64) {
    let world = common::disks(count, 64 << 20);
    let mut bench = common::Bench::new("world");
    let leaves = world.leaves();
    let vdev = NewVdev {
        shape,
        class: AllocationClass::Normal,
        leaves,
    };
    let pool = bench.create(vec![vdev]);
    for round in 0..WARM_UP {
        common::change(&pool, round).expect("written");
    }
    world.record();
    let mut committed = vec![0];
    for round in WARM_UP..WARM_UP + ROUNDS {
        common::change(&pool, round).expect("written");
        committed.push(world.recorded());
    }
    drop(pool);
    let _ = &mut bench;
    let log = world.take_record();
    eprintln!("seed {seed}: {} operations", log.len());
    let flushes = log
        .iter()
        .filter(|event| matches!(event, Event::Flush { .. }));
    let flushes = flushes.count();
    assert!(flushes >= 2 * ROUNDS as usize, "groups are flushed");
    let step = (log.len() / 60).max(1);
    let mut random = Random::new(seed);
    let mut last = None;
    for at in (0..=log.len()).step_by(step) {
        let done = committed
            .iter()
            .rposition(|end| *end <= at)
            .expect("0 is there") as u64;
        let allowed = WARM_UP - 1 + done..=WARM_UP + done;
        for keep in [100, 0, 50] {
            let image = Arc::new(world.after(&log, at, keep, &mut random));
            let what = format!("cut at {at} of {}, {keep} % kept, seed {seed}", log.len());
            judge(&image, allowed.clone(), &what);
            if at % (7 * step) == 0 {
                let pool = import(&image, false).expect("can be written");
                for round in 0..4 {
                    common::change(&pool, 1000 + round).expect("written");
                }
                bring_what_is_missed(&pool);
                pool.close().expect("written");
                drop(pool);
                judge(&image, 1003..=1003, &what);
                last = Some(image);
            }
        }
    }
    let last = last.expect("some images were written to");
    last.save(bench.dir.path()).expect("room");
    bench.check();
}

#[test]
fn single() {
    cut(VdevShape::Single, 1, 1);
}

#[test]
fn mirror() {
    cut(VdevShape::Mirror, 2, 2);
}

#[test]
fn raidz() {
    cut(VdevShape::Raidz { parity: 1 }, 3, 3);
}

/// A verification looks at one moment of a pool, however much it changes meanwhile.
#[test]
fn verified_while_it_changes() {
    let world = common::disks(1, 64 << 20);
    let bench = common::Bench::new("world");
    let leaves = world.leaves();
    let vdev = NewVdev {
        shape: VdevShape::Single,
        class: AllocationClass::Normal,
        leaves,
    };
    let pool = bench.create(vec![vdev]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..400 {
                common::change(&pool, round).expect("written");
            }
        });
        let mut rounds = 0;
        while !writer.is_finished() {
            let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
            assert!(report.is_clean(), "{report:?}");
            rounds += 1;
        }
        assert!(rounds > 1, "verified while it changed");
    });
    pool.close().expect("written");
    drop(pool);
    world.save(bench.dir.path()).expect("room");
    bench.check();
}
