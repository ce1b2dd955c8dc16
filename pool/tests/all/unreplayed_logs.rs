//! Intent logs that were claimed and wait for their replay: their dataset is encrypted and its key
//! is not loaded, or it is not mounted. Until then their blocks are all that `fsync` promised.

use crate::common::{self, Bench};
use crate::log_writer::{head_of, name_of, operate, place_of_chain, writer_of};
use cenote_base::rt::{self, World};
use cenote_base::{ObjectId, RealEnv, VdevId};
use cenote_device::Opener;
use cenote_dmu::TxCost;
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_intent_log::{Commit, Committed, IntentLog};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::record::{Record, RecordBody, record_type};
use cenote_pool::{
    Actor, Attachment, Companion, ImportError, ImportOptions, NewVdev, Pool, SplitError,
    SplitRequest, VdevShape, assemble,
};
use cenote_sim::{Disks, Random};
use cenote_vdev::AllocationClass::{Log, Normal};
use cenote_vdev::scan;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Disks that the pools get beside those that they are made on.
const SPARE_DISKS: usize = 2;

fn disks(count: usize) -> Arc<Disks> {
    common::disks(count + SPARE_DISKS, 64 << 20)
}

/// A pool of a mirror, and of log vdevs of so many disks each.
fn create(disks: &Disks, logs: &[usize]) -> Pool {
    let mut leaves = disks.leaves().into_iter();
    let shape_of = |count| match count {
        1 => VdevShape::Single,
        _ => VdevShape::Mirror,
    };
    let all = [(2, Normal)].into_iter();
    let all = all.chain(logs.iter().map(|count| (*count, Log)));
    let vdevs = all.map(|(count, class)| NewVdev {
        shape: shape_of(count),
        class,
        leaves: leaves.by_ref().take(count).collect(),
    });
    Bench::new("logged").create(vdevs.collect())
}

/// Imports what is on these disks.
fn import(disks: &Arc<Disks>, numbers: &[usize], missing_logs: bool) -> Result<Pool, ImportError> {
    let paths: Vec<PathBuf> = numbers.iter().map(|i| disks.paths()[*i].clone()).collect();
    let candidates = assemble(scan(&paths, disks.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(disks) as Arc<dyn Opener>,
        missing_logs,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

/// What is on the disks when the power goes right after `work`, which promises.
fn cut_after(disks: &Arc<Disks>, pool: &Pool, work: impl FnOnce()) -> Arc<Disks> {
    disks.record();
    work();
    let record = disks.take_record();
    let cut = disks.after(&record, record.len(), 0, &mut Random::new(1));
    pool.sync().expect("written");
    Arc::new(cut)
}

fn log_of(pool: &Pool) -> Option<IntentLog> {
    IntentLog::open(head_of(pool).set()).expect("readable")
}

/// The names of the operations that a replay would repeat.
fn names_to_replay(pool: &Pool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some(log) = log_of(pool) else {
        return names;
    };
    let window = log.replay_window(pool.synced_txg()).expect("it is claimed");
    let mut chain = log.chain();
    for block in &mut chain {
        for record in block.expect("readable").records().expect("in clear") {
            let record = record.expect("valid");
            match record.body {
                RecordBody::Remove { name, .. } if window.contains(record.txg, record.sequence) => {
                    names.insert(String::from_utf8(name.to_vec()).expect("as it was written"));
                }
                _ => {}
            }
        }
    }
    log.check_end(&chain).expect("it is as long as it was");
    names
}

/// Puts another disk in the place of one, and waits until that has all.
fn replace(pool: &Pool, disks: &Disks, (old, new): (usize, usize)) {
    let path = &disks.paths()[old];
    let tree = pool.vdev_tree();
    let leaf = tree.leaves().find(|leaf| leaf.path.as_ref() == Some(path));
    let request = Attachment {
        old: leaf.expect("one of the pool").guid,
        new: disks.leaf(new),
        companion: Companion::Replacement,
        sequential: false,
        ashift: None,
    };
    pool.attach(&request, (&Actor::default(), ""))
        .expect("attached");
    let is_there = || {
        pool.vdev_tree()
            .leaves()
            .any(|leaf| leaf.guid == request.old)
    };
    while is_there() {
        rt::sleep(Duration::from_millis(50));
    }
}

/// A resilver passed over intent logs. A disk that took the place of another had none of a log that
/// waited for its key, and the other was detached: what `fsync` had promised was lost, with "0
/// errors". It made no difference whether the pool had a log device.
#[test]
fn a_resilver_brings_logs_that_wait_for_their_replay() {
    World::simulated(1).run(|| {
        for (logs, replaced) in [(&[1][..], &[(2, 3)][..]), (&[][..], &[(0, 2), (1, 3)][..])] {
            let count = 2 + logs.len();
            let disks = disks(count);
            let pool = create(&disks, logs);
            let head = head_of(&pool);
            let writer = writer_of(&pool, &head);
            assert_eq!(
                place_of_chain(&pool, &head, &writer),
                VdevId(logs.len() as u64)
            );
            let promised: BTreeSet<String> = (0..9).map(|i| name_of(1, i)).collect();
            let cut = cut_after(&disks, &pool, || {
                for name in &promised {
                    operate(&pool, &head, &writer, name);
                    let by = writer.commit(Commit::All).expect("the pool is well");
                    assert_eq!(by, Committed::Log);
                }
            });
            let pool = import(&cut, &[0, 1, 2, 3][..count], false).expect("all are there");
            assert!(names_to_replay(&pool).is_superset(&promised));
            for places in replaced {
                replace(&pool, &cut, *places);
            }
            assert_eq!(pool.vdevs().status().figures.checksum_errors, 0);
            assert!(names_to_replay(&pool).is_superset(&promised), "{logs:?}");
            pool.close().expect("written");
        }
    });
}

/// A log that was claimed led from one log device to another, which was missing at a later import.
/// The whole log was discarded, with its blocks on the first device. And blocks that the claim had
/// not reached were freed with the log once the other device was back, although they were not the
/// log's.
#[test]
fn a_claimed_log_is_kept_up_to_a_device_that_is_missing_later() {
    World::simulated(1).run(|| {
        let disks = disks(4);
        let pool = create(&disks, &[1, 1]);
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        place_of_chain(&pool, &head, &writer);
        let cut = cut_after(&disks, &pool, || {
            let vdevs = || -> BTreeSet<VdevId> {
                let promised = writer.promised();
                promised
                    .iter()
                    .map(|pointer| pointer.dva(0).vdev())
                    .collect()
            };
            for number in 0..200 {
                operate(&pool, &head, &writer, &name_of(1, 7 * number));
                let by = writer.commit(Commit::All).expect("the pool is well");
                assert_eq!(by, Committed::Log);
                if vdevs().len() == 2 {
                    break;
                }
            }
            assert_eq!(vdevs().len(), 2, "the chain is on both log devices");
            operate(&pool, &head, &writer, "the last");
            writer.commit(Commit::All).expect("the pool is well");
        });
        let pool = import(&cut, &[0, 1, 2, 3], false).expect("all are there");
        let all = names_to_replay(&pool);
        assert!(all.contains("the last"));
        let log = log_of(&pool).expect("it waits");
        let chain = log.chain().map(|block| block.expect("readable").pointer);
        let chain: Vec<VdevId> = chain.map(|pointer| pointer.dva(0).vdev()).collect();
        let last = chain.last().expect("it has blocks");
        assert_ne!(chain.first(), Some(last));
        pool.close().expect("written");
        drop(pool);

        let mut rest = vec![0, 1, 2, 3];
        rest.retain(|disk| *disk != 1 + usize::try_from(last.0).expect("small"));
        let refused = import(&cut, &rest, false);
        assert!(
            matches!(refused, Err(ImportError::MissingLogs { .. })),
            "{refused:?}"
        );
        let pool = import(&cut, &rest, true).expect("it is given up");
        let kept = names_to_replay(&pool);
        assert!(!kept.is_empty() && kept.is_subset(&all) && !kept.contains("the last"));
        assert_eq!(pool.discarded_logs().len(), 1, "and it is reported");
        pool.close().expect("written");
        drop(pool);

        // What was given up does not come back.
        let pool = import(&cut, &[0, 1, 2, 3], false).expect("all are there");
        assert_eq!(names_to_replay(&pool), kept);
        assert!(pool.discarded_logs().is_empty());
        let owned = log_of(&pool)
            .expect("it waits")
            .owned_blocks()
            .expect("readable");
        assert!(owned.chain.len() < chain.len());
        pool.close().expect("written");
    });
}

/// The new pool of a split has no log devices, so it cannot have a log that waits on one. Nothing
/// becomes of the split then. A log on the mirrors itself is in both pools.
#[test]
fn a_split_leaves_no_log_behind() {
    World::simulated(1).run(|| {
        for logs in [&[1][..], &[][..]] {
            let count = 2 + logs.len();
            let disks = disks(count);
            let pool = create(&disks, logs);
            let head = head_of(&pool);
            let writer = writer_of(&pool, &head);
            place_of_chain(&pool, &head, &writer);
            let promised: BTreeSet<String> = (0..9).map(|i| name_of(1, i)).collect();
            let cut = cut_after(&disks, &pool, || {
                for name in &promised {
                    operate(&pool, &head, &writer, name);
                    let by = writer.commit(Commit::All).expect("the pool is well");
                    assert_eq!(by, Committed::Log);
                }
            });
            let pool = import(&cut, &[0, 1, 2][..count], false).expect("all are there");
            let request = SplitRequest {
                name: "half".to_owned(),
                sides: Vec::new(),
            };
            let split = || {
                let split = pool.split(&request, (&Actor::default(), ""));
                split.map_err(|error| match error {
                    SplitError::Change(error) => Box::new(error),
                    error => panic!("{error}"),
                })
            };
            if logs.is_empty() {
                let half = split().expect("the log is on both sides");
                assert!(names_to_replay(&half).is_superset(&promised));
                half.close().expect("written");
            } else {
                // While its head is closed, and while it is open.
                for _ in 0..2 {
                    let refused = match pool.sides_to_split(&[]) {
                        Err(error) => error.to_string(),
                        Ok(_) => split().map(drop).expect_err("it waits").to_string(),
                    };
                    let words = "disk2: it holds intent logs that were not replayed yet, of logged";
                    assert!(refused.contains(words), "{refused}");
                    assert!(names_to_replay(&pool).is_superset(&promised));
                }
                let shape = pool.vdevs();
                let tree = pool.vdev_tree();
                assert!(tree.leaves().all(|leaf| shape.is_writable(leaf.guid)));
            }
            assert!(names_to_replay(&pool).is_superset(&promised));
            pool.close().expect("written");
        }
    });
}

/// Stores a log's header as a claim leaves it that did not come to the last record.
struct EndEarlier(ObjectId, IntentLogHeader);

impl SyncTask for EndEarlier {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.1.claim_record_sequence -= 1;
        context.store_log_header(self.0, &self.1)
    }
}

/// A claim ends within a block at a record whose data is missing. The blocks of later records there
/// were freed with the log, although they had not been claimed. The pool then took no more changes,
/// or a cloned block was free that a file still had.
#[test]
fn a_log_owns_nothing_of_records_that_were_not_claimed() {
    World::simulated(1).run(|| {
        let disks = disks(3);
        let pool = create(&disks, &[1]);
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        place_of_chain(&pool, &head, &writer);
        let cloned = pool.uberblock().root.encode();
        let cut = cut_after(&disks, &pool, || {
            operate(&pool, &head, &writer, "promised");
            let gate = pool.gate().expect("open for writing");
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            head.set().mark_dirty(&tx).expect("open for writing");
            writer.append(&Record {
                record_type: record_type::CLONE_RANGE,
                case_insensitive: false,
                txg: tx.txg(),
                sequence: 0,
                body: RecordBody::CloneRange {
                    object: ObjectId(3),
                    offset: 0,
                    length: 4096,
                    block_size: 4096,
                    pointers: &cloned,
                },
            });
            drop(tx);
            writer.commit(Commit::All).expect("the pool is well");
        });
        let pool = import(&cut, &[0, 1, 2], false).expect("all are there");
        let id = head_of(&pool).id();
        pool.dsl().close_head(id);
        let owned = |pool: &Pool| {
            let log = log_of(pool).expect("it waits");
            let owned = log.owned_blocks().expect("readable");
            pool.dsl().close_head(id);
            (log.header().clone(), owned.clones.len())
        };
        let (header, clones) = owned(&pool);
        assert_eq!(clones, 1);
        pool.run_task(EndEarlier(id, header)).expect("stored");
        assert_eq!(owned(&pool).1, 0);
        pool.close().expect("written");
    });
}

/// Overwrites blocks on a disk.
fn spoil(disks: &Disks, disk: usize, blocks: &[BlockPointer]) {
    const LABELS: u64 = 4 << 20;
    assert!(!blocks.is_empty());
    for pointer in blocks {
        let at = LABELS + pointer.dva(0).offset();
        let device = disks.leaf(disk).device;
        device.write_at(at, &[0xa5; 512]).expect("in range");
    }
}

/// A cut left the last blocks of a log on one side of a mirror only. The claim came to them, and
/// when that side was lost, or a sequential rebuild had read the other one, the dataset did not
/// mount any more.
#[test]
fn an_import_brings_all_sides_the_logs_that_it_claims() {
    World::simulated(1).run(|| {
        for side in 0..2 {
            let disks = disks(2);
            let pool = create(&disks, &[]);
            let head = head_of(&pool);
            let writer = writer_of(&pool, &head);
            place_of_chain(&pool, &head, &writer);
            let promised: BTreeSet<String> = (0..9).map(|i| name_of(1, i)).collect();
            let mut blocks = Vec::new();
            let cut = cut_after(&disks, &pool, || {
                for name in &promised {
                    operate(&pool, &head, &writer, name);
                    let by = writer.commit(Commit::All).expect("the pool is well");
                    assert_eq!(by, Committed::Log);
                }
                blocks.extend(writer.promised());
            });
            spoil(&cut, side, &blocks[3..]);
            let pool = import(&cut, &[0, 1], false).expect("all are there");
            assert!(names_to_replay(&pool).is_superset(&promised));
            assert_eq!(pool.vdevs().status().figures.checksum_errors, 0);
            pool.close().expect("written");
            drop(pool);
            let pool = import(&cut, &[side], false).expect("a side is enough");
            assert!(names_to_replay(&pool).is_superset(&promised), "{side}");
            pool.close().expect("written");
        }
    });
}

/// A claimed log that was damaged later kept its dataset from being mounted forever. `-m` gives up
/// the unreadable part, and no more.
#[test]
fn what_rotted_of_a_claimed_log_is_given_up_in_words() {
    World::simulated(1).run(|| {
        let disks = disks(2);
        let pool = create(&disks, &[]);
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        place_of_chain(&pool, &head, &writer);
        let cut = cut_after(&disks, &pool, || {
            for number in 0..9 {
                operate(&pool, &head, &writer, &name_of(1, number));
                writer.commit(Commit::All).expect("the pool is well");
            }
        });
        let pool = import(&cut, &[0, 1], false).expect("all are there");
        let all = names_to_replay(&pool);
        let log = log_of(&pool).expect("it waits");
        let chain = log.chain().map(|block| block.expect("readable").pointer);
        let blocks: Vec<BlockPointer> = chain.collect();
        drop(log);
        for disk in 0..2 {
            spoil(&cut, disk, &blocks[3..]);
        }
        pool.close().expect("written");
        drop(pool);

        let pool = import(&cut, &[0, 1], false).expect("a damaged log harms its dataset only");
        let log = log_of(&pool).expect("it waits");
        let mut chain = log.chain();
        assert!(chain.by_ref().take_while(Result::is_ok).count() < 9);
        let error = log.check_end(&chain).expect_err("it is shorter");
        assert!(error.to_string().contains("zpool import -m"), "{error}");
        assert!(pool.discarded_logs().is_empty());
        pool.close().expect("written");
        drop((chain, log, pool));

        let pool = import(&cut, &[0, 1], true).expect("it is given up");
        let kept = names_to_replay(&pool);
        assert!(!kept.is_empty() && kept.is_subset(&all) && kept.len() < all.len());
        assert_eq!(pool.discarded_logs().len(), 1, "and it is reported");
        pool.close().expect("written");
        drop(pool);
        let pool = import(&cut, &[0, 1], false).expect("all are there");
        assert_eq!(names_to_replay(&pool), kept);
        pool.close().expect("written");
    });
}
