//! Log devices that fail, are missing at an import, or are locked by another process.

use crate::common::{self, Bench};
use crate::log_writer::{head_of, names_in_log, operate, place_of_chain, writer_of};
use cenote_base::rt::{self as base_rt, World};
use cenote_base::{Env, RealEnv, Txg, VdevId};
use cenote_device::{Device, DeviceError, Entry, FaultyDevice, Lead, Opener};
use cenote_dsl::write::Head;
use cenote_intent_log::{Commit, Committed, LogWriter};
use cenote_ondisk::features;
use cenote_pool::{
    Actor, Attachment, Companion, ImportError, ImportOptions, NewVdev, Offline, Pool, VdevShape,
    assemble,
};
use cenote_sim::{Disks, Random};
use cenote_vdev::AllocationClass::{Log, Normal};
use cenote_vdev::{DeviceLabels, VdevState, scan};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A pool of a mirror and a log device, the last of the three disks.
fn pool_with_log(disks: &Arc<Disks>, log: Option<Arc<dyn Device>>) -> Pool {
    let mut leaves = disks.leaves();
    let mut last = leaves.pop().expect("three disks");
    last.device = log.unwrap_or(last.device);
    let vdevs = [
        (VdevShape::Mirror, Normal, leaves),
        (VdevShape::Single, Log, vec![last]),
    ];
    let vdevs = vdevs.map(|(shape, class, leaves)| NewVdev {
        shape,
        class,
        leaves,
    });
    Bench::new("logged").create(vdevs.into())
}

/// Imports the pool from its first `count` disks.
fn import(
    disks: &Arc<Disks>,
    count: usize,
    opener: &Arc<dyn Opener>,
    missing_logs: bool,
) -> Result<Pool, ImportError> {
    let candidates = assemble(scan(&disks.paths()[..count], disks.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(opener),
        missing_logs,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

fn ended(writer: &LogWriter, pool: &Pool) {
    writer.end().expect("the pool is well");
    pool.sync().expect("written");
    pool.sync().expect("written");
}

/// While the pool works, its log is in memory, too: a log device that takes no more writes costs
/// speed. Commits wait for their groups, the status has the errors, and the chain goes elsewhere
/// once the device is out of use.
#[test]
fn a_log_device_that_fails_costs_no_promise() {
    World::simulated(1).run(|| {
        let disks = common::disks(3, 64 << 20);
        let faulty = Arc::new(FaultyDevice::new(Arc::clone(&disks.leaves()[2].device)));
        let pool = pool_with_log(&disks, Some(Arc::clone(&faulty) as Arc<dyn Device>));
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
        faulty.fail_writes(true);
        for number in 0..5 {
            let txg = operate(&pool, &head, &writer, &format!("failed {number}"));
            let by = writer.commit(Commit::All).expect("the pool is well");
            // The chain may be on the other disks by now.
            let is_kept = by == Committed::Log || pool.synced_txg() >= txg;
            assert!(is_kept, "{number}: the promise is in no group");
        }
        assert!(pool.suspended().is_none());
        assert!(writer.figures().failures > 0 && writer.figures().by_group > 0);
        let log = pool.vdevs().status().children.remove(1);
        let errors = log.figures.write_errors;
        let is_told = errors > 0 || log.state < VdevState::Healthy;
        assert!(is_told, "{log:?}");
        faulty.heal();
        ended(&writer, &pool);
        pool.close().expect("written");
    });
}

/// What the log of a pool has that lost its power with these names in it.
fn cut_with(names: &[&str]) -> Arc<Disks> {
    let disks = common::disks(3, 64 << 20);
    let pool = pool_with_log(&disks, None);
    let head = head_of(&pool);
    let writer = writer_of(&pool, &head);
    assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
    cut_after(&disks, &pool, (&head, &writer), names)
}

/// The disks after a power cut once these names were promised.
fn cut_after(
    disks: &Arc<Disks>,
    pool: &Pool,
    (head, writer): (&Head, &LogWriter),
    names: &[&str],
) -> Arc<Disks> {
    disks.record();
    for name in names {
        operate(pool, head, writer, name);
        let by = writer.commit(Commit::All).expect("the pool is well");
        assert_eq!(by, Committed::Log);
    }
    let record = disks.take_record();
    let cut = disks.after(&record, record.len(), 0, &mut Random::new(1));
    ended(writer, pool);
    pool.close().expect("written");
    Arc::new(cut)
}

/// A pool with a missing log device is not imported unless its contents are given up explicitly.
/// For an exported pool nothing is lost, so `-m` is not needed: an import required it.
#[test]
fn a_missing_log_device_has_to_be_given_up_in_words() {
    World::simulated(1).run(|| {
        let cut = cut_with(&["promised"]);
        let opener = Arc::clone(&cut) as Arc<dyn Opener>;
        let refused = import(&cut, 2, &opener, false);
        assert!(
            matches!(&refused, Err(ImportError::MissingLogs { missing }) if missing.len() == 1),
            "{refused:?}"
        );
        assert!(refused.is_err_and(|error| error.to_string().contains("-m")));
        // Nothing was changed.
        let pool = import(&cut, 3, &opener, false).expect("all are there");
        assert!(names_in_log(&pool).contains("promised"));
        assert!(pool.discarded_logs().is_empty());
        pool.close().expect("written");
        drop(pool);
        let pool = import(&cut, 2, &opener, true).expect("it is given up");
        assert!(names_in_log(&pool).is_empty());
        assert_eq!(pool.discarded_logs().len(), 1, "and it is reported");
        pool.close().expect("written");
        drop(pool);
        let disks = common::disks(3, 64 << 20);
        let pool = pool_with_log(&disks, None);
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
        end_head(&pool, head, &writer);
        pool.export().expect("written");
        drop(pool);
        let opener = Arc::clone(&disks) as Arc<dyn Opener>;
        assert_does_without_log(&import(&disks, 2, &opener, false).expect("nothing is on it"));
    });
}

/// The pool works, its log device is not there, and nothing was on it.
fn assert_does_without_log(pool: &Pool) {
    assert!(pool.discarded_logs().is_empty(), "there was nothing on it");
    assert_eq!(pool.vdevs().state().0, VdevState::Degraded);
    let log = pool.vdevs().top_state(VdevId(1)).expect("it is the pool's");
    assert_eq!(log.0, VdevState::CannotOpen);
    common::change(pool, 7).expect("written");
    pool.close().expect("written");
}

/// A log device was deleted while it was in use. The pool was healthy otherwise, since its groups
/// had everything in the log. Still, the next import required `-m`. After a crash it also did so
/// because an idle log led there.
#[test]
fn a_log_device_that_was_lost_in_use_is_not_asked_for() {
    World::simulated(1).run(|| {
        let disks = common::disks(3, 64 << 20);
        let faulty = Arc::new(FaultyDevice::new(Arc::clone(&disks.leaves()[2].device)));
        let pool = pool_with_log(&disks, Some(Arc::clone(&faulty) as Arc<dyn Device>));
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
        operate(&pool, &head, &writer, "promised");
        writer.commit(Commit::All).expect("the pool is well");
        let killed = || Arc::new(Disks::of(disks.images(), Random::new(1)));
        let imported = |disks: &Arc<Disks>| {
            let opener = Arc::clone(disks) as Arc<dyn Opener>;
            import(disks, 2, &opener, false)
        };
        let refused = imported(&killed());
        let is_asked = matches!(refused, Err(ImportError::MissingLogs { .. }));
        assert!(is_asked, "the promise is in no group: {refused:?}");
        faulty.set_lead(Lead::Deleted);
        base_rt::sleep(Duration::from_secs(5));
        let log = pool.vdevs().top_state(VdevId(1)).expect("it is the pool's");
        assert!(!log.0.is_readable(), "{log:?}");
        let after_a_kill = killed();
        assert_does_without_log(&imported(&after_a_kill).expect("groups have it all"));
        ended(&writer, &pool);
        pool.dsl().close_head(head.id());
        pool.export().expect("written");
        assert_does_without_log(&imported(&disks).expect("groups have it all"));
    });
}

/// The newest group on a device.
fn newest(disks: &Disks, disk: usize) -> Txg {
    let labels = DeviceLabels::read(disks.leaves()[disk].device.as_ref());
    let best = labels.best_uberblock(None);
    best.map_or(Txg(0), |best| best.uberblock.txg)
}

/// A power cut came when only the log device had the uberblock of the next group. The pool was
/// imported without the log device, wrote another group of that number, and was imported with it.
/// The log device had a group that the pool never had, so it was left out, and then asked for with
/// `-m`, although no log led to it.
#[test]
fn a_log_device_with_a_group_that_never_was_is_left_out() {
    World::simulated(1).run(|| {
        let disks = common::disks(3, 64 << 20);
        let pool = pool_with_log(&disks, None);
        common::change(&pool, 0).expect("written");
        disks.record();
        common::change(&pool, 1).expect("written");
        let record = disks.take_record();
        pool.close().expect("written");
        drop(pool);
        let mut cuts = (0..=record.len()).map(|cut| {
            let after = disks.after(&record, cut, 0, &mut Random::new(1));
            Arc::new(after)
        });
        let is_ahead = |disks: &Arc<Disks>| newest(disks, 2) > newest(disks, 0);
        let cut = cuts.find(is_ahead).expect("log devices come first");
        let opener = Arc::clone(&cut) as Arc<dyn Opener>;
        assert_does_without_log(&import(&cut, 2, &opener, false).expect("nothing is on it"));
        let pool = import(&cut, 3, &opener, false).expect("nothing is on it");
        assert_eq!(pool.outsiders().len(), 1, "{:?}", pool.outsiders());
        assert_does_without_log(&pool);
    });
}

fn end_head(pool: &Pool, head: Arc<Head>, writer: &LogWriter) {
    ended(writer, pool);
    pool.dsl().close_head(head.id());
}

/// Disks of which another process has one for a while.
#[derive(Debug)]
struct Locked {
    disks: Arc<Disks>,
    path: PathBuf,
    until: Duration,
}

impl Opener for Locked {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.disks.open(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        match path == self.path && RealEnv::new().monotonic() < self.until {
            true => Err(DeviceError::InUse { path: path.into() }),
            false => self.disks.open_writable(path),
        }
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.disks.list(path)
    }
}

/// A daemon was killed, and the next import began while the system was still closing its files. Its
/// locked devices must not count as missing: a mirror would be imported without a side, and without
/// a log device the data promised by `fsync` would be lost. The import waits a little, and then
/// reports that the device is in use, whatever its options allow to be missing.
#[test]
fn a_device_that_another_process_has_is_in_use_and_never_missing() {
    World::simulated(1).run(|| {
        for disk in 0..3 {
            let disks = cut_with(&["promised"]);
            let now = || RealEnv::new().monotonic();
            let locked = |time: Duration| -> Arc<dyn Opener> {
                Arc::new(Locked {
                    disks: Arc::clone(&disks),
                    path: disks.paths()[disk].clone(),
                    until: now() + time,
                })
            };
            for missing_logs in [false, true] {
                let begun = now();
                let refused = import(&disks, 3, &locked(Duration::MAX / 2), missing_logs);
                assert!(
                    matches!(&refused, Err(ImportError::Device(DeviceError::InUse { path }))
                        if *path == disks.paths()[disk]),
                    "{disk}: {refused:?}"
                );
                assert!(now() - begun < Duration::from_secs(10), "it waits for ever");
            }
            let opener = locked(Duration::from_secs(1));
            let pool = import(&disks, 3, &opener, false).expect("it is free soon");
            assert_eq!(pool.vdevs().state().0, VdevState::Healthy);
            assert!(names_in_log(&pool).contains("promised"));
            pool.close().expect("written");
        }
    });
}

/// A log device was removed while another one was being rebuilt in its place. The rebuild then
/// wrote into a table that was removed with the device, and the pool took no more changes. The
/// feature of rebuilds stayed active.
#[test]
fn a_log_device_that_is_being_rebuilt_can_be_removed() {
    World::simulated(1).run(|| {
        let disks = common::disks(4, 64 << 20);
        let leaves = disks.leaves();
        let vdevs = [
            (VdevShape::Mirror, Normal, leaves[..2].to_vec()),
            (VdevShape::Single, Log, leaves[2..3].to_vec()),
        ];
        let vdevs = vdevs.map(|(shape, class, leaves)| NewVdev {
            shape,
            class,
            leaves,
        });
        let pool = Bench::new("logged").create(vdevs.into());
        let log = pool.vdev_tree().children[1].guid;
        let actor = Actor::default();
        let request = Attachment {
            old: log,
            new: disks.leaf(3),
            companion: Companion::Replacement,
            sequential: true,
            ashift: None,
        };
        pool.attach(&request, (&actor, "")).expect("attached");
        let feature = || pool.dsl().features().is_active(features::DEVICE_REBUILD);
        assert!(feature());
        let top = pool.vdev_tree().children[1].guid;
        pool.remove_log(top, (&actor, "")).expect("no log is on it");
        for _ in 0..5 {
            base_rt::sleep(Duration::from_millis(100));
            pool.sync().expect("written");
        }
        assert!(pool.suspended().is_none());
        assert!(!feature(), "nothing is being rebuilt");
        pool.close().expect("written");
    });
}

/// A pool of a mirror and two log devices lost power. If one of the devices was missing or offline,
/// an import discarded all logs, also those on the other: the data promised by `fsync` was lost.
#[test]
fn a_log_device_that_is_not_there_costs_no_log_on_another() {
    World::simulated(1).run(|| {
        for rests in [true, false] {
            let (cut, chain) = cut_with_two_logs(rests);
            let opener = Arc::clone(&cut) as Arc<dyn Opener>;
            let other = 3 - chain;
            let import_without = |disk: Option<usize>| {
                let mut paths = cut.paths().to_vec();
                disk.map(|disk| paths.remove(disk));
                let options = ImportOptions {
                    opener: Arc::clone(&opener),
                    missing_logs: disk == Some(1 + chain),
                    ..common::options()
                };
                let candidates = assemble(scan(&paths, cut.as_ref()));
                cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
            };
            let whole = import_without(rests.then_some(1 + other));
            for pool in [import_without(Some(1 + other)), whole] {
                let pool = pool.expect("imports");
                assert!(names_in_log(&pool).contains("promised"), "{rests}");
                assert!(pool.discarded_logs().is_empty(), "{rests}");
                pool.close().expect("written");
            }
            let pool = import_without(Some(1 + chain)).expect("it is given up");
            assert!(names_in_log(&pool).is_empty(), "{rests}");
            assert_eq!(pool.discarded_logs().len(), 1, "{rests}");
            pool.close().expect("written");
        }
    });
}

/// A pool of a mirror and two log devices after it lost its power, and which of them, 1 or 2, its
/// log is on. If one `rests`, it was taken offline before the promise: the other has it then.
fn cut_with_two_logs(rests: bool) -> (Arc<Disks>, usize) {
    let disks = common::disks(4, 64 << 20);
    let mut leaves = disks.leaves();
    let logs = leaves.split_off(2).into_iter();
    let mut vdevs = vec![(VdevShape::Mirror, Normal, leaves)];
    vdevs.extend(logs.map(|leaf| (VdevShape::Single, Log, vec![leaf])));
    let vdevs = vdevs.into_iter().map(|(shape, class, leaves)| NewVdev {
        shape,
        class,
        leaves,
    });
    let pool = Bench::new("logged").create(vdevs.collect());
    let head = head_of(&pool);
    let writer = writer_of(&pool, &head);
    let mut chain = place_of_chain(&pool, &head, &writer).0 as usize;
    if rests {
        let tree = pool.vdev_tree();
        let leaf = tree.children[chain].leaves().next();
        let leaf = leaf.expect("a disk").guid;
        let done = pool.offline(leaf, Offline::default(), (&Actor::default(), ""));
        done.expect("its log goes elsewhere");
        let rests = chain;
        chain = place_of_chain(&pool, &head, &writer).0 as usize;
        assert_ne!(chain, rests, "a device that rests gets no blocks");
    }
    let cut = cut_after(&disks, &pool, (&head, &writer), &["promised"]);
    (cut, chain)
}

/// One side of a log mirror was away while the other took data promised by `fsync`. After a crash
/// only the first one was there: the import succeeded silently, and without that data.
#[test]
fn a_log_mirror_without_the_side_that_was_there_last_is_missing() {
    World::simulated(1).run(|| {
        let disks = common::disks(4, 64 << 20);
        let leaves = disks.leaves();
        let vdevs = [(Normal, &leaves[..2]), (Log, &leaves[2..])];
        let vdevs = vdevs.map(|(class, leaves)| NewVdev {
            shape: VdevShape::Mirror,
            class,
            leaves: leaves.to_vec(),
        });
        let pool = Bench::new("logged").create(vdevs.into());
        pool.close().expect("written");
        drop(pool);
        let import = |disks: &Arc<Disks>, without: Option<usize>, missing_logs| {
            let mut paths = disks.paths().to_vec();
            without.map(|disk| paths.remove(disk));
            let options = ImportOptions {
                opener: Arc::clone(disks) as Arc<dyn Opener>,
                missing_logs,
                ..common::options()
            };
            let candidates = assemble(scan(&paths, disks.as_ref()));
            cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
        };
        let pool = import(&disks, Some(2), false).expect("a side is there");
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
        disks.record();
        operate(&pool, &head, &writer, "promised");
        let by = writer.commit(Commit::All).expect("the pool is well");
        assert_eq!(by, Committed::Log);
        let record = disks.take_record();
        let cut = || Arc::new(disks.after(&record, record.len(), 0, &mut Random::new(1)));
        let copies = [cut(), cut()];
        let cut = cut();
        ended(&writer, &pool);
        pool.close().expect("written");

        let refused = import(&cut, Some(3), false);
        assert!(
            matches!(&refused, Err(ImportError::MissingLogs { missing }) if missing.len() == 1),
            "{refused:?}"
        );
        for (copy, without) in copies.iter().zip([None, Some(2)]) {
            let pool = import(copy, without, false).expect("it has the promise");
            assert!(names_in_log(&pool).contains("promised"), "{without:?}");
            assert!(pool.discarded_logs().is_empty());
            pool.close().expect("written");
        }
        let pool = import(&cut, Some(3), true).expect("it is given up");
        assert!(names_in_log(&pool).is_empty());
        assert_eq!(pool.discarded_logs().len(), 1, "and it is reported");
        pool.close().expect("written");
    });
}

/// An old copy replaced a log device. Its chain ended early, and the import succeeded silently,
/// without the data that `fsync` had promised.
#[test]
fn an_old_copy_of_a_log_device_is_as_good_as_none() {
    World::simulated(1).run(|| {
        let disks = common::disks(3, 64 << 20);
        pool_with_log(&disks, None).close().expect("written");
        let log = |disks: &Disks| Arc::clone(&disks.leaves()[2].device);
        let size = usize::try_from(log(&disks).size()).expect("small");
        let old = log(&disks).read_vec(0, size).expect("in range");
        let opener = Arc::clone(&disks) as Arc<dyn Opener>;
        let pool = import(&disks, 3, &opener, false).expect("all are there");
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
        disks.record();
        for name in ["one", "two", "promised"] {
            operate(&pool, &head, &writer, name);
            let by = writer.commit(Commit::All).expect("the pool is well");
            assert_eq!(by, Committed::Log);
        }
        let record = disks.take_record();
        let cut = Arc::new(disks.after(&record, record.len(), 0, &mut Random::new(1)));
        ended(&writer, &pool);
        pool.close().expect("written");

        log(&cut).write_at(0, &old).expect("in range");
        let opener = Arc::clone(&cut) as Arc<dyn Opener>;
        let refused = import(&cut, 3, &opener, false);
        assert!(
            matches!(&refused, Err(ImportError::MissingLogs { missing }) if missing.len() == 1),
            "{refused:?}"
        );
        let pool = import(&cut, 3, &opener, true).expect("it is given up");
        assert_eq!(pool.discarded_logs().len(), 1, "and it is reported");
        pool.close().expect("written");
        drop(pool);
        let pool = import(&cut, 3, &opener, false).expect("nothing is left to give up");
        assert!(pool.discarded_logs().is_empty());
        pool.close().expect("written");
    });
}
