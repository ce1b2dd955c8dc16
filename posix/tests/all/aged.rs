//! A busy writer, and small changes by other programs without `fsync`; and `fsync` without space.

use crate::logged::replay;
use crate::made;
use crate::pools;
use crate::power_cut::{create, files, import, plain};
use cenote_base::rt::{self, World};
use cenote_base::{ObjectId, settings};
use cenote_intent_log::IntentLog;
use cenote_pool::VdevShape;
use cenote_posix::write::{NewFile, WriteOptions};
use cenote_posix::{FileKind, PosixError};
use cenote_sim::Random;
use std::sync::Arc;
use std::time::Duration;

/// Small changes that were made, and those that were there after a power cut: each is the number of
/// a file, made 50 ms after the one before.
struct Outcome {
    made: u64,
    kept: Vec<u64>,
}

const TICK: Duration = Duration::from_millis(10);
const TICKS: u64 = 320;
const TICKS_PER_FILE: u64 = 5;

fn contents(number: u64) -> Vec<u8> {
    format!("the contents of {number}").into_bytes()
}

fn run(age_ms: u64) -> Outcome {
    settings::DIRTY_AGE_MAX.set(age_ms).expect("in range");
    let disks = pools::disks(1, 96 << 20);
    let pool = create(&disks, &plain(VdevShape::Single, 1));
    let fs = files(&pool, true);
    let new = NewFile::new(FileKind::Regular, 0o644);
    let make = |name: &str| {
        let made = fs.create(fs.root(), name.as_bytes(), &new);
        made.expect("makes").id()
    };
    let write = |file: ObjectId, offset: u64, data: &[u8]| {
        let written = fs.write(file, offset, data, WriteOptions::default());
        written.expect("writes");
    };
    let big = make("big");
    // The first commit begins the log, whose header comes with a group.
    for name in ["a", "b", "c"] {
        make(name);
        fs.fsync_all().expect("durable");
        pool.sync().expect("written");
    }
    let synced = pool.synced_txg();
    disks.record();
    let mut end = 0;
    for _ in 0..10 {
        write(big, end, &vec![7; 1 << 20]);
        end += 1 << 20;
    }
    let mut number = 0;
    for tick in 0..TICKS {
        rt::sleep(TICK);
        write(big, end, &[8; 20_000]);
        end += 20_000;
        if tick % TICKS_PER_FILE == 0 {
            let file = make(&format!("small {number}"));
            write(file, 0, &contents(number));
            number += 1;
        }
    }
    assert_eq!(pool.synced_txg(), synced, "the group is late");
    let record = disks.take_record();
    let cut = Arc::new(disks.after(&record, record.len(), 0, &mut Random::new(1)));
    let pool = import(&cut, false);
    if age_ms > 0 {
        assert!(replay(&pool) > 0);
    }
    let fs = made::open(&pool);
    let root = fs.znode(fs.root()).expect("exists");
    let mut kept = Vec::new();
    for number in 0..number {
        let name = format!("small {number}");
        let found = fs.lookup(&root, name.as_bytes()).expect("readable");
        let Some(found) = found else { continue };
        let file = fs.znode(found.object).expect("exists");
        let mut data = vec![0; 100];
        let length = fs.read(&file, 0, &mut data).expect("readable");
        assert_eq!(data[..length], contents(number), "{name}");
        kept.push(number);
    }
    Outcome { made: number, kept }
}

/// A bulk copy made the transaction group large, and large groups are left to grow for up to five
/// seconds. A crash then lost all small writes of other programs since, instead of about the last
/// second.
#[test]
fn small_changes_beside_a_busy_writer_are_not_lost() {
    World::simulated(1).run(|| {
        let outcome = run(1000);
        let seconds = 1000 / (10 * TICKS_PER_FILE);
        let missing = outcome.made - outcome.kept.len() as u64;
        assert!(missing < 2 * seconds, "{missing} of {}", outcome.made);
        let in_order = (0..).zip(&outcome.kept);
        assert!(in_order.clone().all(|(index, kept)| index == *kept));
    });
}

#[test]
fn at_age_0_they_wait_for_their_group() {
    World::simulated(1).run(|| assert!(run(0).kept.is_empty()));
}

/// Each small write counted for a whole record until its group was on disk. So a few hundred of
/// them used up the room of a small pool, and writers waited for groups that wrote next to nothing.
#[test]
fn what_is_written_again_in_a_group_counts_once() {
    World::simulated(1).run(|| {
        let disks = pools::disks(1, 96 << 20);
        let pool = create(&disks, &plain(VdevShape::Single, 1));
        let fs = files(&pool, true);
        let new = NewFile::new(FileKind::Regular, 0o644);
        let file = fs.create(fs.root(), b"file", &new).expect("makes").id();
        let write = |offset: u64, data: &[u8]| {
            let written = fs.write(file, offset, data, WriteOptions::default());
            written.expect("has room");
        };
        let synced = pool.synced_txg();
        // The only record grows; then the second of several is filled.
        for number in 0..3000 {
            write(number * 40, &[1; 40]);
        }
        for number in 0..3000 {
            write((128 << 10) + number * 40, &[2; 40]);
        }
        assert_eq!(pool.synced_txg(), synced, "no caller waited");
    });
}

/// Of a full pool: the log may not take what its group needs. `fsync` then waits for the group, and
/// keeps its promise.
#[test]
fn fsync_in_a_full_pool_keeps_its_promise() {
    World::simulated(1).run(|| {
        let disks = pools::disks(1, 64 << 20);
        let pool = create(&disks, &plain(VdevShape::Single, 1));
        let fs = files(&pool, true);
        let new = NewFile::new(FileKind::Regular, 0o644);
        let big = fs.create(fs.root(), b"big", &new).expect("makes").id();
        disks.record();
        let (mut end, mut random) = (0, Random::new(7));
        loop {
            let data: Vec<u8> = (0..300_000).map(|_| random.index(256) as u8).collect();
            match fs.write(big, end, &data, WriteOptions::default()) {
                Ok(_) => end += data.len() as u64,
                Err(PosixError::NoSpace) => break,
                Err(other) => panic!("{other}"),
            }
            fs.fsync(big).expect("durable");
        }
        let file = fs.znode(big).expect("exists");
        let mut wanted = vec![0; usize::try_from(end).expect("small")];
        fs.read(&file, 0, &mut wanted).expect("readable");
        assert!(pool.suspended().is_none());
        let record = disks.take_record();
        let cut = Arc::new(disks.after(&record, record.len(), 0, &mut random));
        let pool = import(&cut, false);
        // What was in a group needs no replay.
        let dataset = pool.dsl().dataset(pool.dsl().pool_name()).expect("exists");
        let set = dataset.object_set().expect("opens");
        let log = IntentLog::open(&set).expect("readable");
        if log.is_some_and(|log| log.is_claimed()) {
            replay(&pool);
        }
        let fs = made::open(&pool);
        let root = fs.znode(fs.root()).expect("exists");
        let found = fs.lookup(&root, b"big").expect("readable").expect("made");
        let file = fs.znode(found.object).expect("exists");
        let mut found = vec![1; wanted.len()];
        assert_eq!(
            fs.read(&file, 0, &mut found).expect("readable"),
            wanted.len()
        );
        assert!(found == wanted, "bytes are lost");
    });
}
