//! Intent logs written on real pools: what a commit promised is found after a power cut, the pool
//! can be written to then, and OpenZFS finds no space that is lost or taken twice.

use crate::common::{self, Bench};
use cenote_base::rt::{self, World};
use cenote_base::{ObjectId, RealEnv, Txg, VdevId};
use cenote_dmu::{DmuError, TxCost};
use cenote_dsl::DatasetName;
use cenote_dsl::write::{Encryption, Head, NewKeyFormat, UserKey};
use cenote_intent_log::{Commit, Committed, HeadSpace, IntentLog, LogData, LogParams, LogWriter};
use cenote_ondisk::intent_log::record::{Record, RecordBody, record_type};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{Actor, ImportOptions, NewVdev, Offline, Pool, VdevShape, assemble};
use cenote_sim::{Disks, Event, Random};
use cenote_vdev::AllocationClass::{self, Log, Normal, Special};
use cenote_vdev::scan;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const THREADS: usize = 3;
const OPERATIONS: usize = 30;
const CUTS: usize = 12;
const KEY: &[u8] = &[7; 32];

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Nothing is read at commit here.
#[derive(Debug)]
struct NoData;

impl LogData for NoData {
    fn read(&self, _: ObjectId, _: u64, _: u64) -> Result<Option<Vec<u8>>, DmuError> {
        Ok(None)
    }
}

pub fn head_of(pool: &Pool) -> Arc<Head> {
    let root = pool.dsl().root().expect("read").head().expect("read");
    let dataset = root.expect("the root directory has a dataset");
    if dataset.directory().crypto_key().expect("read").is_some() {
        // Right after the pool was made it is loaded already.
        let _ = pool.dsl().load_key(dataset.directory(), KEY, false);
    }
    let gate = pool.gate().expect("open for writing");
    pool.dsl().open_for_writing(&dataset, gate).expect("a head")
}

pub fn writer_of(pool: &Pool, head: &Head) -> Arc<LogWriter> {
    writer_avoiding(pool, head, &Arc::default())
}

fn writer_avoiding(pool: &Pool, head: &Head, avoids: &Arc<AtomicBool>) -> Arc<LogWriter> {
    let set = head.set();
    let gate = Arc::clone(pool.gate().expect("open for writing"));
    let blocks = Arc::clone(pool.block_writer().expect("open for writing"));
    let (set, env) = (Arc::clone(set), Arc::clone(pool.env()));
    let space = HeadSpace::new(Arc::clone(&set), gate, env, blocks, Arc::clone(avoids));
    let writer = LogWriter::new(LogParams {
        space: Arc::new(space),
        data: Arc::new(NoData),
        objset: set.id(),
        keys: set.keys().cloned(),
    });
    head.set_log(Arc::clone(&writer));
    writer
}

/// Logs an operation as a record with its name, some of them long; returns its group.
pub fn operate(pool: &Pool, head: &Head, writer: &LogWriter, name: &str) -> Txg {
    let gate = pool.gate().expect("open for writing");
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    head.set().mark_dirty(&tx).expect("open for writing");
    writer.append(&Record {
        record_type: record_type::REMOVE,
        case_insensitive: false,
        txg: tx.txg(),
        sequence: 0,
        body: RecordBody::Remove {
            directory: ObjectId(3),
            name: name.as_bytes(),
        },
    });
    tx.txg()
}

pub fn name_of(thread: usize, number: usize) -> String {
    let long = number.is_multiple_of(7);
    format!(
        "{thread}-{number}-{}",
        "x".repeat(if long { 9000 } else { 0 })
    )
}

/// The names in the log that an import finds.
pub fn names_in_log(pool: &Pool) -> BTreeSet<String> {
    let head = head_of(pool);
    let mut names = BTreeSet::new();
    let Some(log) = IntentLog::open(head.set()).expect("readable") else {
        return names;
    };
    for block in log.chain() {
        let block = block.expect("readable");
        for record in block.records().expect("the key is loaded") {
            if let RecordBody::Remove { name, .. } = record.expect("valid").body {
                names.insert(String::from_utf8(name.to_vec()).expect("as it was written"));
            }
        }
    }
    names
}

fn import(disks: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(disks) as Arc<dyn cenote_device::Opener>,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new())).expect("imports")
}

fn check(pool: &Pool, what: &str) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    let is_whole = report.complete && report.problems == 0;
    assert!(is_whole, "{what}: {report:?}");
}

/// The groups of the operations of each thread.
type Groups = [Mutex<Vec<Txg>>; THREADS];

/// Threads operate and commit while groups are synced.
fn work(disks: &Disks, pool: &Pool, head: &Head, writer: &LogWriter) -> Groups {
    let groups = Groups::default();
    let running = AtomicUsize::new(THREADS);
    rt::scope(|scope| {
        for thread in 0..THREADS {
            let (groups, running) = (&groups[thread], &running);
            scope.spawn(move || {
                for number in 0..OPERATIONS {
                    let txg = operate(pool, head, writer, &name_of(thread, number));
                    groups.lock().expect("sound").push(txg);
                    if number % 3 == 2 {
                        writer.commit(Commit::All).expect("the pool is well");
                        let operations = number + 1;
                        disks.note(Event::Promised {
                            writer: thread,
                            operations,
                        });
                    }
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while running.load(Ordering::SeqCst) > 0 {
            rt::sleep(Duration::from_millis(15));
            pool.sync().expect("written");
        }
    });
    groups
}

fn judge(disks: &Arc<Disks>, promised: &[usize], groups: &Groups, what: &str) {
    let pool = import(disks);
    let synced = pool.opened_uberblock().txg;
    let names = names_in_log(&pool);
    for (thread, promised) in promised.iter().enumerate() {
        let groups = groups[thread].lock().expect("sound");
        for number in 0..*promised {
            let is_there = groups[number] <= synced || names.contains(&name_of(thread, number));
            assert!(is_there, "{what}: operation {number} of {thread} is lost");
        }
        // Nothing without what came before it.
        let there =
            |number: usize| groups[number] <= synced || names.contains(&name_of(thread, number));
        let count = (0..groups.len())
            .take_while(|number| there(*number))
            .count();
        assert!(
            !(count..groups.len()).any(there),
            "{what}: a gap at {count}"
        );
    }
    check(&pool, what);
    pool.sync().expect("written");
    check(&pool, what);
    pool.close().expect("written");
}

fn live(name: &'static str, seed: u64, vdevs: &[(VdevShape, AllocationClass, usize)], key: bool) {
    let count = vdevs.iter().map(|(_, _, count)| count).sum();
    let disks = common::disks(count, 64 << 20);
    let bench = Bench::new(name);
    let mut leaves = disks.leaves().into_iter();
    let mut made = |(shape, class, count): &(VdevShape, AllocationClass, usize)| NewVdev {
        shape: *shape,
        class: *class,
        leaves: leaves.by_ref().take(*count).collect(),
    };
    let mut request = bench.request(vdevs.iter().map(&mut made).collect());
    if key {
        let name = DatasetName::parse(name).expect("a name");
        let key = UserKey::derive(&name, KEY, NewKeyFormat::Raw, "prompt", &RealEnv::new());
        request.encryption = Encryption::On {
            suite: None,
            key: Some(key.expect("derived")),
        };
    }
    let pool = cenote_pool::create(request, &common::options(), Arc::new(RealEnv::new()));
    let pool = pool.expect("created");
    let head = head_of(&pool);
    let writer = writer_of(&pool, &head);
    disks.record();
    let groups = work(&disks, &pool, &head, &writer);
    let record = disks.take_record();
    let figures = writer.figures();
    eprintln!("{name}: {} events, {figures:?}", record.len());
    assert!(figures.blocks > 0 && figures.failures == 0, "{figures:?}");
    let mut random = Random::new(seed);
    for number in 0..CUTS {
        let cut = random.index(record.len());
        let keep = [0, 50, 100][number % 3];
        let after = Arc::new(disks.after(&record, cut, keep, &mut random));
        let what = format!("{name}: cut at {cut} of {}, {keep} % kept", record.len());
        let mut promised = [0; THREADS];
        for event in &record[..cut] {
            if let Event::Promised { writer, operations } = event {
                promised[*writer] = *operations;
            }
        }
        judge(&after, &promised, &groups, &what);
        // A cut between the flushes of two sides leaves a block of the chain on one of them: with
        // redundancy a scrub rightly finds something to repair.
        if number == 0 && count == vdevs.len() {
            let dir = tempfile::tempdir().expect("a temporary directory");
            after.save(dir.path()).expect("room");
            cenote_tests::referee::judge(dir.path(), name);
        }
    }
    writer.end().expect("the pool is well");
    pool.sync().expect("written");
    pool.sync().expect("written");
    let header = head.set().header().intent_log_header;
    assert_eq!(header, [0; 192], "the log has ended");
    drop((head, writer));
    pool.close().expect("written");
    drop(pool);
    disks.save(bench.dir.path()).expect("room");
    bench.check();
}

/// Lives through some seeds in simulated worlds; more of them with `CENOTE_LOG_SEEDS`.
fn seeds(name: &'static str, vdevs: &[(VdevShape, AllocationClass, usize)], key: bool) {
    let seeds = std::env::var("CENOTE_LOG_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(1);
    for seed in 1..=seeds {
        World::simulated(seed).run(|| live(name, seed, vdevs, key));
    }
}

#[test]
fn on_one_device() {
    seeds("logs1", &[(VdevShape::Single, Normal, 1)], false);
}

#[test]
fn encrypted_with_a_mirrored_log_device() {
    let vdevs = [(VdevShape::Single, Normal, 1), (VdevShape::Mirror, Log, 2)];
    seeds("logs2", &vdevs, true);
}

#[test]
fn on_raidz() {
    let raidz = (VdevShape::Raidz { parity: 1 }, Normal, 3);
    seeds("logs3", &[raidz], false);
}

/// A verification uses one state: log blocks of later groups are in no space map of it.
#[test]
fn verified_while_a_log_is_written() {
    let disks = common::disks(1, 64 << 20);
    let bench = Bench::new("logs5");
    let vdev = NewVdev {
        shape: VdevShape::Single,
        class: Normal,
        leaves: disks.leaves(),
    };
    let pool = bench.create(vec![vdev]);
    let head = head_of(&pool);
    let writer = writer_of(&pool, &head);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| work(&disks, &pool, &head, &writer));
        let mut rounds = 0;
        while !working.is_finished() || rounds < 2 {
            let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
            assert!(report.is_clean(), "{report:?}");
            rounds += 1;
        }
    });
    assert!(writer.figures().blocks > 0);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{report:?}");
    writer.end().expect("the pool is well");
    pool.close().expect("written");
}

/// A pool of one disk of each class.
fn pool_of(bench: &Bench, classes: &[AllocationClass]) -> Pool {
    let disks = common::disks(classes.len(), 64 << 20);
    let vdevs = classes
        .iter()
        .zip(disks.leaves())
        .map(|(class, leaf)| NewVdev {
            shape: VdevShape::Single,
            class: *class,
            leaves: vec![leaf],
        });
    bench.create(vdevs.collect())
}

/// Commits until the log takes it; returns where the chain begins then.
pub fn place_of_chain(pool: &Pool, head: &Head, writer: &LogWriter) -> VdevId {
    let is_over = AtomicBool::new(false);
    rt::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                pool.sync().expect("written");
            }
        });
        for number in 0.. {
            operate(pool, head, writer, &name_of(0, number));
            if writer.commit(Commit::All).expect("the pool is well") == Committed::Log {
                break;
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    pool.sync().expect("written");
    let log = IntentLog::open(head.set()).expect("readable");
    log.expect("a log").header().log.dva(0).vdev()
}

/// Where log blocks go: a log device, else a special vdev, else the others.
#[test]
fn log_devices_come_first_and_then_special_ones() {
    let classes: [&[AllocationClass]; 3] = [&[Normal], &[Normal, Special], &[Normal, Special, Log]];
    for classes in classes {
        let bench = Bench::new("logs4");
        let pool = pool_of(&bench, classes);
        let head = head_of(&pool);
        let writer = writer_of(&pool, &head);
        let vdev = place_of_chain(&pool, &head, &writer);
        assert_eq!(vdev.0, classes.len() as u64 - 1, "{classes:?}");
        writer.end().expect("the pool is well");
        pool.sync().expect("written");
        pool.close().expect("written");
    }
}

/// `logbias=throughput` had no effect. Such a dataset leaves log devices to the others.
#[test]
fn log_devices_are_avoided_on_request() {
    for classes in [&[Normal, Log][..], &[Normal, Log, Special]] {
        let bench = Bench::new("logs7");
        let pool = pool_of(&bench, classes);
        let head = head_of(&pool);
        let avoids = Arc::new(AtomicBool::new(true));
        let writer = writer_avoiding(&pool, &head, &avoids);
        let vdev = place_of_chain(&pool, &head, &writer);
        let wanted = [0, 0, 0, 2][classes.len()];
        assert_eq!(vdev.0, wanted, "{classes:?}");
        // It holds from the next block on.
        avoids.store(false, Ordering::SeqCst);
        writer.end_chain().expect("the pool is well");
        pool.sync().expect("written");
        pool.sync().expect("written");
        assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
        writer.end().expect("the pool is well");
        pool.sync().expect("written");
        pool.close().expect("written");
    }
}

/// The block that a chain ends with is allocated before it is written. So a log device was never
/// empty while a dataset was open that had synced something, and could not be removed.
#[test]
fn a_log_device_in_use_is_removed() {
    let bench = Bench::new("logs6");
    let pool = pool_of(&bench, &[Normal, Log]);
    let head = head_of(&pool);
    let writer = writer_of(&pool, &head);
    assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
    let tree = pool.vdev_tree();
    let log = tree.children.iter().find(|top| top.is_log).expect("a log");
    let actor = Actor {
        user: 0,
        host: "test".to_owned(),
    };
    let removed = pool.remove_log(log.guid, (&actor, "zpool remove"));
    removed.expect("its chain goes elsewhere");
    assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(0));
    check(&pool, "after the removal");
    writer.end().expect("the pool is well");
    pool.sync().expect("written");
    pool.close().expect("written");
}

/// Programs that synced all the time began another log on the device as soon as the old one had
/// left: `zpool offline` said that logs had to be replayed first.
#[test]
fn a_log_device_rests_while_programs_sync() {
    let bench = Bench::new("logs7");
    let pool = pool_of(&bench, &[Normal, Log]);
    let head = head_of(&pool);
    let writer = writer_of(&pool, &head);
    assert_eq!(place_of_chain(&pool, &head, &writer), VdevId(1));
    let tree = pool.vdev_tree();
    let log = tree.children.iter().find(|top| top.is_log);
    let leaf = log.expect("a log").leaves().next().expect("a disk").guid;
    let actor = Actor {
        user: 0,
        host: "test".to_owned(),
    };
    let is_over = AtomicBool::new(false);
    let done = rt::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, head, writer, is_over) = (&pool, &head, &writer, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    operate(pool, head, writer, &name_of(thread, number));
                    writer.commit(Commit::All).expect("durable");
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        rt::sleep(Duration::from_millis(50));
        let done = pool.offline(leaf, Offline::default(), (&actor, "zpool offline"));
        is_over.store(true, Ordering::Relaxed);
        done
    });
    done.expect("new blocks go elsewhere");
    assert!(pool.is_out_of_use(leaf));
    writer.end().expect("the pool is well");
    pool.sync().expect("written");
    pool.close().expect("written");
}
