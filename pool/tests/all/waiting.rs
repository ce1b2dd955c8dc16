//! Pools that wait for missing devices, according to `failmode`.

use crate::common;
use crate::log_writer::{head_of, operate, writer_of};
use cenote_base::rt::{self, Instant, World};
use cenote_base::{Bookmark, RealEnv};
use cenote_device::{Device, DeviceError, Entry, FaultyDevice, Opener};
use cenote_dmu::{DmuError, TxCost};
use cenote_intent_log::{Commit, Committed};
use cenote_io::IoContext;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{
    ClearError, FailMode, ImportOptions, NewVdev, Pool, SyncError, VdevShape, assemble,
};
use cenote_sim::{Disks, Random};
use cenote_vdev::{AllocationClass, scan};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Opens the disks of a world so that they can be made to fail, a new one each time.
#[derive(Debug)]
struct Plugs {
    world: Mutex<Arc<Disks>>,
    plugged: Mutex<Vec<Arc<FaultyDevice>>>,
    /// There are no disks.
    is_empty: AtomicBool,
}

impl Plugs {
    /// The disk that was plugged in last.
    fn last(&self) -> Arc<FaultyDevice> {
        let plugged = self.plugged.lock().expect("sound");
        Arc::clone(plugged.last().expect("one was opened"))
    }

    fn look(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let is_there = !self.is_empty.load(Ordering::Relaxed);
        let world = self.world.lock().expect("sound");
        match is_there && world.paths().iter().any(|disk| disk == path) {
            true => world.open(path),
            false => Err(DeviceError::Open {
                path: path.into(),
                source: ErrorKind::NotFound.into(),
            }),
        }
    }

    fn count(&self) -> usize {
        self.plugged.lock().expect("sound").len()
    }
}

impl Opener for Plugs {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.look(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let plugged = Arc::new(FaultyDevice::new(self.look(path)?));
        let mut all = self.plugged.lock().expect("sound");
        all.push(Arc::clone(&plugged));
        Ok(plugged)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.world.lock().expect("sound").list(path)
    }
}

/// A pool on one disk that waits for it.
fn waiting_pool(mode: FailMode) -> (Arc<Disks>, Arc<Plugs>, Pool) {
    let world = common::disks(1, 64 << 20);
    let vdev = NewVdev {
        shape: VdevShape::Single,
        class: AllocationClass::Normal,
        leaves: world.leaves(),
    };
    let pool = common::Bench::new("tank").create(vec![vdev]);
    pool.export().expect("written");
    drop(pool);
    let plugs = Arc::new(Plugs {
        world: Mutex::new(Arc::clone(&world)),
        plugged: Mutex::default(),
        is_empty: AtomicBool::new(false),
    });
    let pool = import(&world, &plugs);
    pool.set_fail_mode(mode);
    common::change(&pool, 0).expect("written");
    (world, plugs, pool)
}

fn import(world: &Arc<Disks>, plugs: &Arc<Plugs>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(plugs) as Arc<dyn Opener>,
        ..common::options()
    };
    let env = Arc::new(RealEnv::new());
    cenote_pool::import(&candidates[0], &options, env).expect("imported")
}

/// Waits until the pool waits, for a minute at most.
fn until_waiting(pool: &Pool) {
    let begun = Instant::now();
    while !pool.is_waiting() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it does not wait"
        );
        rt::sleep(Duration::from_millis(1));
    }
}

/// Loses the disk while a change is being written; what `meanwhile` does must let that end.
fn lose(pool: &Pool, lost: impl FnOnce(), meanwhile: impl FnOnce()) -> Result<(), SyncError> {
    lost();
    rt::scope(|scope| {
        let change = scope.spawn(|| common::change(pool, 1));
        until_waiting(pool);
        assert!(pool.suspended().is_some() && !change.is_finished());
        meanwhile();
        change.join().expect("no panic")
    })
}

fn check(world: &Arc<Disks>, plugs: &Arc<Plugs>, pool: Pool, value: u64) {
    common::change(&pool, 2).expect("written");
    let tree = pool.vdev_tree();
    let leaf = tree.leaves().next().expect("one").guid;
    assert!(pool.vdevs().dtl(leaf).is_empty(), "nothing was missed");
    pool.export().expect("written");
    drop(pool);
    let pool = import(world, plugs);
    let dataset = pool.dsl().dataset(pool.dsl().pool_name()).expect("there");
    assert_eq!(common::value_of(&dataset, 1), Some(value));
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{report:?}");
    pool.close().expect("written");
}

#[test]
fn a_group_waits_for_a_disk_that_takes_no_writes() {
    let (world, plugs, pool) = waiting_pool(FailMode::Wait);
    let (told, causes) = channel();
    pool.on_suspension(move |cause| told.send(cause.to_owned()).expect("heard"));
    let disk = plugs.last();
    lose(
        &pool,
        || disk.fail_writes(true),
        || {
            let cause = causes.recv().expect("told");
            assert!(cause.contains("not written"), "{cause}");
            // It answers and takes nothing: all is tried again, and waits again.
            let again = pool.clear(&[]).expect_err("it takes nothing");
            assert!(again.to_string().contains("waits again"), "{again}");
            causes.recv().expect("told again");
            disk.heal();
            pool.clear(&[]).expect("all is well");
        },
    )
    .expect("it is on disk at last");
    assert_eq!(plugs.count(), 1, "the open disk is well");
    check(&world, &plugs, pool, 1);
}

/// Metadata, labels and the uberblock wait as contents do: each time another few blocks fail.
#[test]
fn every_step_of_a_group_waits() {
    const BLOCK: u64 = 16 << 10;
    const LABELS: u64 = 4 << 20;
    let (world, plugs, pool) = waiting_pool(FailMode::Wait);
    let disk = plugs.last();
    let root = pool.uberblock().root.dva(0).offset() + LABELS;
    let behind = (0..16).map(|step| root + step * BLOCK..root + (step + 1) * BLOCK);
    let rings = [128 << 10..256 << 10, 384 << 10..512 << 10];
    let mut waited = 0;
    for range in behind.chain(rings.clone()) {
        disk.fail_writes_to(range.clone());
        if range.start == rings[1].start {
            // Without any ring, there is no uberblock.
            disk.fail_writes_to(rings[0].clone());
            let end = disk.size() - (512 << 10);
            disk.fail_writes_to(end..disk.size());
        }
        rt::scope(|scope| {
            let change = scope.spawn(|| common::change(&pool, 1));
            while !change.is_finished() {
                if pool.is_waiting() {
                    waited += 1;
                    disk.heal();
                    pool.clear(&[]).expect("all is well");
                }
                rt::sleep(Duration::from_millis(1));
            }
            change.join().expect("no panic").expect("written");
        });
        disk.heal();
    }
    assert!(waited > 1, "nothing was written there");
    check(&world, &plugs, pool, 1);
}

#[test]
fn a_disk_that_was_taken_out_is_opened_anew() {
    let (world, plugs, pool) = waiting_pool(FailMode::Wait);
    let disk = plugs.last();
    lose(
        &pool,
        || {
            disk.set_missing(true);
            plugs.is_empty.store(true, Ordering::Relaxed);
        },
        || {
            let silent = pool.clear(&[]);
            assert!(
                matches!(silent, Err(ClearError::Silent { .. })),
                "{silent:?}"
            );
            plugs.is_empty.store(false, Ordering::Relaxed);
            pool.clear(&[]).expect("it is there again");
        },
    )
    .expect("it is on disk at last");
    assert_eq!(plugs.count(), 2, "the disk was reopened");
    check(&world, &plugs, pool, 1);
}

/// A disk that another system wrote to meanwhile must not be used again.
#[test]
fn a_disk_that_others_wrote_to_is_refused() {
    let (world, plugs, pool) = waiting_pool(FailMode::Wait);
    let disk = plugs.last();
    let refused = lose(
        &pool,
        || disk.set_missing(true),
        || {
            let other = import(&world, &plugs);
            common::change(&other, 7).expect("written");
            common::change(&other, 8).expect("written");
            other.close().expect("written");
            let refused = pool.clear(&[]);
            let is_refused = matches!(refused, Err(ClearError::WrittenElsewhere { .. }));
            assert!(is_refused, "{refused:?}");
            assert!(pool.is_waiting());
            pool.give_up();
        },
    );
    assert!(
        matches!(refused, Err(SyncError::Stopped { .. })),
        "{refused:?}"
    );
    assert!(!pool.is_waiting() && pool.suspended().is_some());
    let stopped = pool.clear(&[]);
    assert!(
        matches!(stopped, Err(ClearError::Stopped { .. })),
        "{stopped:?}"
    );
    pool.abandon();
}

/// A copy of the only disk, made one or two groups before the pool lost the disk, was taken for it:
/// the data of those groups was lost, and the pool kept writing.
#[test]
fn a_copy_of_the_only_disk_is_refused_however_new() {
    for groups in 1..3 {
        let (world, plugs, pool) = waiting_pool(FailMode::Wait);
        let path = world.paths().pop().expect("it has a disk");
        let device = world.open(&path).expect("there");
        let size = usize::try_from(device.size()).expect("small");
        let copy = device.read_vec(0, size).expect("in range");
        (0..groups).for_each(|round| common::change(&pool, 3 + round).expect("written"));
        let disk = plugs.last();
        let lost = lose(
            &pool,
            || disk.set_missing(true),
            || {
                let right = device.read_vec(0, size).expect("in range");
                device.write_at(0, &copy).expect("in range");
                let refused = pool.clear(&[]);
                let is_refused = matches!(refused, Err(ClearError::WrittenElsewhere { .. }));
                assert!(is_refused, "{groups} groups earlier: {refused:?}");
                assert!(pool.is_waiting());
                // The disk itself is taken.
                device.write_at(0, &right).expect("in range");
                pool.clear(&[]).expect("it is back");
            },
        );
        lost.expect("nothing was lost");
        check(&world, &plugs, pool, 1);
    }
}

/// A disk came back as a copy from before an `fsync`, whose data only the intent log had. It has
/// the same labels as the disk itself: it was used and written to.
#[test]
fn a_copy_from_before_an_fsync_is_refused() {
    World::simulated(1).run(|| {
        let (world, plugs, pool) = waiting_pool(FailMode::Wait);
        let (head, disk) = (head_of(&pool), plugs.last());
        let writer = writer_of(&pool, &head);
        let commit = || writer.commit(Commit::All).expect("the disk is well");
        for name in ["first", "second"] {
            operate(&pool, &head, &writer, name);
            commit();
            pool.sync().expect("written");
        }
        let path = world.paths().pop().expect("it has a disk");
        let device = world.open(&path).expect("there");
        let size = usize::try_from(device.size()).expect("small");
        let copy = device.read_vec(0, size).expect("in range");
        operate(&pool, &head, &writer, "promised");
        assert_eq!(commit(), Committed::Log);
        let lost = || disk.set_missing(true);
        let meanwhile = || {
            let right = device.read_vec(0, size).expect("in range");
            device.write_at(0, &copy).expect("in range");
            let refused = pool.clear(&[]).expect_err("it lacks what was promised");
            let text = refused.to_string();
            assert!(text.contains("an older copy"), "{text}");
            assert!(pool.is_waiting());
            let now = device.read_vec(0, size).expect("in range");
            assert!(now == copy, "it was not written to");
            device.write_at(0, &right).expect("in range");
            pool.clear(&[]).expect("it is back");
        };
        lose(&pool, lost, meanwhile).expect("nothing was lost");
        writer.end().expect("the pool is well");
        pool.sync().expect("written");
        pool.sync().expect("written");
        pool.dsl().close_head(head.id());
        drop((head, writer));
        check(&world, &plugs, pool, 1);
    });
}

/// `failmode=continue`: `fsync` waited for the group, which waited for the disk. It fails, and
/// succeeds once the disk is back and the group is on it.
#[test]
fn a_commit_fails_if_it_is_not_to_wait() {
    World::simulated(1).run(|| {
        let (world, plugs, pool) = waiting_pool(FailMode::Continue);
        let disk = plugs.last();
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        let commit = || writer.commit(Commit::All);
        operate(&pool, &head, &writer, "kept");
        commit().expect("the disk is well");
        operate(&pool, &head, &writer, "late");
        lose(
            &pool,
            || disk.fail_writes(true),
            || {
                for _ in 0..2 {
                    let refused = commit();
                    assert!(
                        matches!(refused, Err(DmuError::Suspended { .. })),
                        "{refused:?}"
                    );
                }
                disk.heal();
                pool.clear(&[]).expect("all is well");
                commit().expect("the disk is back");
            },
        )
        .expect("it is on disk at last");
        writer.end().expect("the pool is well");
        pool.sync().expect("written");
        pool.sync().expect("written");
        pool.dsl().close_head(head.id());
        drop((head, writer));
        check(&world, &plugs, pool, 1);
    });
}

/// `failmode=continue`: the group waits, and new changes are refused.
#[test]
fn changes_are_refused_or_wait_as_wanted() {
    for mode in [FailMode::Continue, FailMode::Wait] {
        let (world, plugs, pool) = waiting_pool(mode);
        let disk = plugs.last();
        lose(
            &pool,
            || disk.fail_writes(true),
            || {
                let gate = pool.gate().expect("writable");
                match mode {
                    FailMode::Continue => {
                        assert!(gate.begin(TxCost::default()).is_err());
                        disk.heal();
                        pool.clear(&[]).expect("all is well");
                    }
                    _ => rt::scope(|scope| {
                        let begun = scope.spawn(|| gate.begin(TxCost::default()).is_ok());
                        rt::sleep(Duration::from_millis(50));
                        assert!(!begun.is_finished());
                        disk.heal();
                        pool.clear(&[]).expect("all is well");
                        assert!(begun.join().expect("no panic"));
                    }),
                }
            },
        )
        .expect("it is on disk at last");
        check(&world, &plugs, pool, 1);
    }
}

/// Abandoning a waiting pool loses the changes that waited, and nothing else.
#[test]
fn a_pool_that_waits_is_left() {
    let (world, plugs, pool) = waiting_pool(FailMode::Wait);
    let disk = plugs.last();
    let synced = pool.synced_txg();
    let given_up = lose(&pool, || disk.fail_writes(true), || drop(pool.close()));
    assert!(given_up.is_err());
    drop(pool);
    let pool = import(&world, &plugs);
    assert_eq!(pool.opened_uberblock().txg, synced);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{report:?}");
    pool.close().expect("written");
}

/// What a disk that comes back has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loses {
    Nothing,
    /// Writes that were not flushed.
    Cache,
    /// All of the group: it is a copy from before.
    Group,
}

/// A disk is taken out during a group, each time a few writes later. It comes back with all writes,
/// with the flushed ones only, or as an older copy. Of a copy the last two writes of a group were
/// enough, once all others had been flushed: the pool wrote an uberblock whose blocks were missing.
#[test]
fn a_group_is_finished_if_nothing_of_it_is_lost() {
    for loses in [Loses::Nothing, Loses::Cache, Loses::Group] {
        let (mut finished, mut lost) = (0, 0);
        // To the last write of the group: its blocks, its labels, and its uberblock.
        for writes in 0.. {
            match is_finished_after(writes, loses) {
                Some(true) => finished += 1,
                Some(false) => lost += 1,
                None => break,
            }
        }
        assert!(finished > 0, "a group that lost nothing is finished");
        // What a cache lost is written again.
        assert_eq!(lost > 0, loses == Loses::Group, "{finished} finished");
    }
}

/// Whether a group was finished whose disk vanished after so many writes; `None` if it had no more.
fn is_finished_after(writes: u64, loses: Loses) -> Option<bool> {
    let (mut world, plugs, pool) = waiting_pool(FailMode::Wait);
    let synced = pool.synced_txg();
    world.record();
    plugs.last().vanish_after(writes);
    let mut is_finished = None;
    let changed = rt::scope(|scope| {
        let change = scope.spawn(|| common::change(&pool, 1));
        while !change.is_finished() {
            if pool.is_waiting() && is_finished.is_none() {
                if loses != Loses::Nothing {
                    let log = world.take_record();
                    let kept = match loses {
                        Loses::Group => 0,
                        _ => log.len(),
                    };
                    world = Arc::new(world.after(&log, kept, 0, &mut Random::new(1)));
                    *plugs.world.lock().expect("sound") = Arc::clone(&world);
                }
                let cleared = pool.clear(&[]);
                is_finished = Some(cleared.is_ok());
                if let Err(error) = cleared {
                    let text = error.to_string();
                    let is_told = text.contains("was away before it was flushed")
                        || loses == Loses::Group && text.contains("an older copy");
                    assert!(is_told, "{text}");
                    assert!(pool.is_waiting());
                    pool.give_up();
                }
            }
            rt::sleep(Duration::from_millis(1));
        }
        change.join().expect("no panic")
    });
    assert_eq!(changed.is_ok(), is_finished != Some(false), "{changed:?}");
    match is_finished {
        Some(false) => {
            pool.abandon();
            drop(pool);
            let pool = import(&world, &plugs);
            assert_eq!(pool.opened_uberblock().txg, synced);
            let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
            assert!(report.is_clean(), "{report:?}");
            pool.close().expect("written");
        }
        _ => {
            plugs.last().heal();
            check(&world, &plugs, pool, 1);
        }
    }
    is_finished
}

/// Reads wait for a missing disk, but not for damaged bytes or sectors, and not forever.
///
/// They do not fail at once either: they retry for some seconds of simulated time.
#[test]
fn reads_wait_for_disks_that_are_gone() {
    World::simulated(1).run(reads_wait);
}

fn reads_wait() {
    let (world, plugs, pool) = waiting_pool(FailMode::Wait);
    let root = pool.uberblock().root;
    let bookmark = Bookmark::default();
    let pipeline = pool.cache().pipeline();
    let read = || pipeline.read_stored(&root, bookmark, &IoContext::USER);
    let whole = read().expect("readable");
    let disk = plugs.last();

    let everything = 0..disk.size();
    disk.add_errors(4 << 20..disk.size());
    assert!(read().is_err(), "the disk answers");
    disk.heal();
    disk.add_noise(everything);
    assert!(read().is_err(), "the bytes are there, and wrong");
    disk.heal();
    assert!(pool.suspended().is_none());

    disk.set_missing(true);
    let asked = pool.cache().read_stored(&root, bookmark);
    assert!(asked.is_err() && pool.suspended().is_none());
    // Nor does a worker that reads for a caller that must not wait: a worker did not know its
    // caller's context, and waited like a program.
    let cache = Arc::clone(pool.cache());
    let read_by_worker = move |root| cache.read_stored(&root, bookmark);
    let asked = pool
        .cache()
        .workers()
        .map(vec![root, root, root], read_by_worker);
    assert!(asked.iter().all(Result::is_err) && pool.suspended().is_none());
    rt::scope(|scope| {
        let reader = scope.spawn(read);
        until_waiting(&pool);
        assert!(!reader.is_finished());
        disk.heal();
        pool.clear(&[]).expect("it answers");
        let found = reader.join().expect("no panic");
        assert_eq!(found.expect("readable"), whole);
    });
    pool.set_fail_mode(FailMode::Continue);
    disk.set_missing(true);
    assert!(read().is_err());
    disk.heal();
    common::change(&pool, 1).expect("written");
    check(&world, &plugs, pool, 1);
}

/// Calls that wait behind a reader end with it when the pool is abandoned.
#[test]
fn nobody_waits_in_a_pool_that_is_left() {
    let (_, plugs, pool) = waiting_pool(FailMode::Wait);
    let root = pool.uberblock().root;
    let disk = plugs.last();
    disk.set_missing(true);
    rt::scope(|scope| {
        let reader = scope.spawn(|| {
            let pipeline = pool.cache().pipeline();
            pipeline.read_stored(&root, Bookmark::default(), &IoContext::USER)
        });
        until_waiting(&pool);
        let gate = pool.gate().expect("writable");
        let writer = scope.spawn(|| gate.begin(TxCost::default()).map(drop));
        pool.give_up();
        assert!(reader.join().expect("no panic").is_err());
        // It enters, or comes after the group that failed: but it does not wait.
        let _ = writer.join().expect("no panic");
    });
    assert!(!pool.is_waiting());
    pool.abandon();
}
