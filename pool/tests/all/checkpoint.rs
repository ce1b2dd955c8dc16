//! Checkpoints: made, discarded and gone back to, with power cuts; of pools made here and by
//! OpenZFS, and judged by that.

use crate::common::{self, Bench};
use crate::tree::{Tree, named};
use cenote_base::{ObjectId, RealEnv};
use cenote_device::Opener;
use cenote_dmu::{NewObject, TxCost};
use cenote_dsl::{DatasetName, DslError};
use cenote_ondisk::ObjectType;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{Actor, ImportError, ImportOptions, NewVdev, Pool, SyncError, VdevShape};
use cenote_sim::{Disks, Random, Record};
use cenote_tests::referee;
use cenote_vdev::{AllocationClass, scan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DISK: usize = 128 << 20;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn create(world: &Arc<Disks>, shape: VdevShape) -> Pool {
    let vdev = NewVdev {
        shape,
        class: AllocationClass::Normal,
        leaves: world.leaves(),
    };
    Bench::new("tank").create(vec![vdev])
}

fn import(world: &Arc<Disks>, rewind: bool, read_only: bool) -> Result<Pool, ImportError> {
    let candidates = cenote_pool::assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(world) as Arc<dyn Opener>,
        rewind_to_checkpoint: rewind,
        read_only,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

fn actor() -> Actor {
    Actor {
        user: 0,
        host: "test".to_owned(),
    }
}

fn take(pool: &Pool) -> Result<(), SyncError> {
    pool.take_checkpoint(&actor(), "zpool checkpoint tank")
}

fn discard(pool: &Pool) -> Result<(), SyncError> {
    pool.discard_checkpoint(&actor(), "zpool checkpoint -d tank")
}

/// Waits until the checkpoint is discarded completely.
fn discarded(pool: &Pool) {
    let begun = Instant::now();
    while pool.is_discarding().expect("readable") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        pool.sync().expect("written");
    }
    assert_eq!(kept(pool), 0);
}

/// Bytes that only the checkpoint needs.
fn kept(pool: &Pool) -> u64 {
    pool.space().values().map(|space| space.checkpoint).sum()
}

/// The newest round in the pool's properties.
fn round(pool: &Pool) -> u64 {
    let name = DatasetName::parse(pool.name()).expect("a name");
    let dataset = pool.dsl().dataset(&name).expect("readable");
    let values = (0..3).filter_map(|i| common::value_of(&dataset, i));
    values.max().expect("there was a round")
}

fn change(pool: &Pool, rounds: std::ops::Range<u64>) {
    for round in rounds {
        common::change(pool, round).expect("written");
    }
}

fn check(pool: &Pool, what: &str) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{what}: {report:?}");
}

fn judge(world: &Disks) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    world.save(dir.path()).expect("room");
    referee::judge(dir.path(), "tank");
}

fn refusal(done: Result<(), SyncError>) -> DslError {
    match done {
        Err(SyncError::Dsl(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// A checkpoint, a history of everything with the tree of datasets, and the end of the checkpoint
/// under more of it.
#[test]
fn kept_and_discarded_under_a_history() {
    for (seed, shape, count) in [
        (1, VdevShape::Single, 1),
        (2, VdevShape::Raidz { parity: 1 }, 3),
    ] {
        let world = common::disks(count, DISK);
        let mut tree = Tree::new(seed, create(&world, shape), &[]);
        tree.steps(40);
        assert!(matches!(
            refusal(discard(tree.pool())),
            DslError::NoCheckpoint
        ));
        take(tree.pool()).expect("taken");
        assert!(matches!(
            refusal(take(tree.pool())),
            DslError::CheckpointExists
        ));
        assert_eq!(
            tree.pool()
                .dsl()
                .checkpoint()
                .expect("readable")
                .map(|_| ()),
            Some(())
        );
        tree.steps(60);
        assert!(kept(tree.pool()) > 0);
        tree.close();
        judge(&world);

        tree.open(&world);
        tree.steps(20);
        let before = tree.pool().space();
        discard(tree.pool()).expect("discarded");
        tree.steps(10);
        discarded(tree.pool());
        tree.compare();
        assert!(
            tree.pool()
                .space()
                .values()
                .all(|space| space.checkpoint == 0)
        );
        println!("{before:?} {:?}", tree.pool().space());
        take(tree.pool()).expect("another one");
        discard(tree.pool()).expect("and away with it");
        discarded(tree.pool());
        tree.close();
        judge(&world);
    }
}

/// Back to a checkpoint, and on from there.
#[test]
fn gone_back_to() {
    for (shape, count) in [(VdevShape::Single, 1), (VdevShape::Mirror, 2)] {
        let world = common::disks(count, DISK);
        let pool = create(&world, shape);
        change(&pool, 0..5);
        take(&pool).expect("taken");
        change(&pool, 5..60);
        pool.export().expect("written");
        drop(pool);

        let pool = import(&world, true, true).expect("can be read");
        assert_eq!(round(&pool), 4);
        drop(pool);
        let pool = import(&world, false, false).expect("nothing has changed");
        assert_eq!(round(&pool), 59);
        let newest = pool.synced_txg();
        pool.export().expect("written");
        drop(pool);

        let pool = import(&world, true, false).expect("rewound");
        assert_eq!(round(&pool), 4);
        assert!(pool.synced_txg() > newest, "{}", pool.synced_txg());
        assert_eq!(
            (kept(&pool), pool.dsl().checkpoint().expect("readable")),
            (0, None)
        );
        change(&pool, 100..160);
        check(&pool, "rewound");
        pool.export().expect("written");
        drop(pool);
        judge(&world);
        let again = import(&world, true, false).map(drop);
        assert!(matches!(again, Err(ImportError::NoCheckpoint)), "{again:?}");
        let pool = import(&world, false, false).expect("opens");
        assert_eq!(round(&pool), 159);
        take(&pool).expect("another one");
        pool.close().expect("written");
    }
}

/// Looks at the pool after power cuts at some 40 places of a log. `state` says which rounds a
/// cut at that place may show.
fn cut(
    world: &Disks,
    log: &Record,
    mut is_allowed: impl FnMut(usize, u64) -> bool,
    mut each: impl FnMut(&Arc<Disks>, &str),
) {
    let step = (log.len() / 40).max(1);
    let mut random = Random::new(7);
    for at in (0..=log.len()).step_by(step) {
        for keep in [100, 0, 50] {
            let image = Arc::new(world.after(log, at, keep, &mut random));
            let what = format!("cut at {at} of {}, {keep} % kept", log.len());
            let pool = import(&image, false, true);
            let pool = pool.unwrap_or_else(|error| panic!("{what}: {error}"));
            let round = round(&pool);
            assert!(is_allowed(at, round), "{what}: round {round}");
            check(&pool, &what);
            drop(pool);
            if at % (5 * step) == 0 {
                each(&image, &what);
            }
        }
    }
}

/// Power cuts while a checkpoint is made, kept and discarded; operations resume afterwards.
#[test]
fn power_cuts_while_one_is_kept() {
    let world = common::disks(1, 64 << 20);
    let pool = create(&world, VdevShape::Single);
    change(&pool, 0..200);
    world.record();
    take(&pool).expect("taken");
    change(&pool, 200..210);
    discard(&pool).expect("discarded");
    discarded(&pool);
    change(&pool, 210..214);
    drop(pool);
    let log = world.take_record();
    let mut last = None;
    let is_allowed = |_, round| (199..214).contains(&round);
    cut(&world, &log, is_allowed, |image, what| {
        let pool = import(image, false, false).expect("can be written");
        change(&pool, 1000..1004);
        discarded_if_so(&pool);
        check(&pool, what);
        pool.close().expect("written");
        last = Some(Arc::clone(image));
    });
    judge(&last.expect("some were written to"));
}

fn discarded_if_so(pool: &Pool) {
    let has_one = pool.dsl().checkpoint().expect("readable").is_some();
    if !has_one {
        discarded(pool);
    }
}

/// The power goes while the pool is taken back: it is as it was, or as the checkpoint has it.
///
/// The first groups after going back take space that the newer state has its blocks in.
#[test]
fn power_cuts_while_going_back() {
    let world = common::disks(1, 64 << 20);
    let pool = create(&world, VdevShape::Single);
    change(&pool, 0..20);
    take(&pool).expect("taken");
    change(&pool, 20..200);
    pool.export().expect("written");
    drop(pool);
    world.record();
    let pool = import(&world, true, false).expect("rewound");
    change(&pool, 1000..1012);
    drop(pool);
    let log = world.take_record();
    let mut was_newer = false;
    let mut was_back = false;
    let is_allowed = |_, round| {
        was_newer |= round == 199;
        was_back |= round == 19;
        matches!(round, 19 | 199 | 1000..1012)
    };
    cut(&world, &log, is_allowed, |_, _| {});
    assert!(was_newer && was_back, "both states were seen");
}

/// A checkpoint of OpenZFS's is discarded, and gone back to.
#[test]
fn of_openzfs() {
    for rewind in [false, true] {
        let Some((dir, golden)) = common::golden("checkpoint") else {
            return;
        };
        let candidates = common::candidates(dir.path());
        let options = ImportOptions {
            force: true,
            rewind_to_checkpoint: rewind,
            ..common::options()
        };
        let env = Arc::new(RealEnv::new());
        let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
        if !rewind {
            assert!(kept(&pool) > 0);
            discard(&pool).expect("discarded");
            discarded(&pool);
        }
        change(&pool, 0..40);
        check(&pool, "discarded or rewound");
        pool.export().expect("written");
        drop(pool);
        referee::judge_golden(dir.path(), &golden);
    }
}

/// OpenZFS discards what was kept here, and goes back to it.
#[test]
fn for_openzfs() {
    let world = common::disks(1, DISK);
    let pool = create(&world, VdevShape::Single);
    change(&pool, 0..30);
    take(&pool).expect("taken");
    change(&pool, 30..60);
    pool.export().expect("written");
    drop(pool);
    let dir = tempfile::tempdir().expect("a temporary directory");
    world.save(dir.path()).expect("room");
    if common::openzfs(dir.path(), "tank", "checkpoint", &["--discard"]) {
        referee::judge(dir.path(), "tank");
    }
}

/// A block that takes as much space on disk.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..4096).map(|_| next()).collect()
}

/// Writes two numbers, always together, and data over data, until `is_over`.
fn write_on(
    pool: &Pool,
    name: &str,
    (is_over, writes): (&AtomicBool, &AtomicU64),
) -> [ObjectId; 2] {
    let dataset = pool.dsl().dataset(&named(name)).expect("there");
    let gate = Arc::clone(pool.gate().expect("writable"));
    let head = pool.dsl().open_for_writing(&dataset, &gate).expect("opens");
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    let make = || {
        let new = NewObject::new(ObjectType(25), 4096);
        head.set().allocate(&tx, new).expect("there is room")
    };
    let pair = [make(), make()];
    drop(tx);
    let mut count = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        count += 1;
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        for object in &pair {
            let at = count % 512 * 4096;
            object.write(&tx, at, &noise(count)).expect("written");
            object.write(&tx, 0, &count.to_le_bytes()).expect("written");
        }
        writes.store(count, Ordering::Relaxed);
    }
    pair.each_ref().map(|object| object.id())
}

/// A checkpoint is of one moment, however much is written meanwhile: what the group that notes it
/// frees is kept from its first block on.
#[test]
fn taken_while_the_pool_is_written_to() {
    let world = common::disks(1, DISK);
    let mut tree = Tree::new(3, create(&world, VdevShape::Single), &[]);
    let is_over = AtomicBool::new(false);
    let writes = AtomicU64::new(0);
    let progress = |pool: &Pool| {
        let before = writes.load(Ordering::Relaxed);
        while writes.load(Ordering::Relaxed) < before + 600 {
            std::thread::yield_now();
        }
        pool.sync().expect("written");
    };
    let pair = std::thread::scope(|scope| {
        let pool = tree.pool();
        let writer = scope.spawn(|| write_on(pool, "tank/a", (&is_over, &writes)));
        for round in 0..6 {
            (0..2).for_each(|_| progress(pool));
            take(pool).expect("taken");
            if round < 5 {
                discard(pool).expect("discarded");
                discarded(pool);
            }
        }
        (0..4).for_each(|_| progress(pool));
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("it went well")
    });
    tree.close();
    judge(&world);

    let pool = import(&world, true, false).expect("rewound");
    check(&pool, "rewound");
    let dataset = pool.dsl().dataset(&named("tank/a")).expect("there");
    let set = dataset.object_set().expect("opens");
    let numbers = pair.map(|id| {
        let mut bytes = [0; 8];
        let object = set.object(id).expect("there");
        object.read(0, &mut bytes).expect("readable");
        u64::from_le_bytes(bytes)
    });
    assert!(numbers[0] == numbers[1] && numbers[0] > 0, "{numbers:?}");
    change(&pool, 0..10);
    pool.export().expect("written");
    drop(pool);
    judge(&world);
}
