//! The writer on a simulated pool: commits by several threads, failures, power cuts.

#[path = "aged_tests.rs"]
mod aged;
#[path = "ending_tests.rs"]
mod ending;
#[path = "holes_tests.rs"]
mod holes;

use super::*;
use crate::chain::judge;
use cenote_base::rt::{Unranked, World};
use cenote_base::{Bookmark, VdevId};
use cenote_codec::cipher::{HmacKey, MasterKey, Suite};
use cenote_dmu::DmuError;
use cenote_io::NoSpace;
use cenote_io::crypt::open_log_block;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::block::verifier;
use cenote_ondisk::intent_log::record::{RecordBody, Records, WriteData, record_type};
use cenote_ondisk::{ChecksumKind, Dva};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const OBJSET: ObjsetId = ObjsetId(54);
/// Space that blocks are allocated from, and never again.
const SECTOR: usize = 512;

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Debug, Default)]
struct Disk {
    durable: BTreeMap<u64, Vec<u8>>,
    cache: Vec<(u64, Vec<u8>)>,
}

#[derive(Debug)]
struct PoolState {
    open: Txg,
    synced: Txg,
    holders: u32,
    quiescing: bool,
    disk: Disk,
    header: IntentLogHeader,
    /// Space by address: the group that it was allocated in.
    allocated: BTreeMap<u64, Txg>,
    next_address: u64,
    dice: Dice,
    /// Percent of requests that fail.
    failures: u64,
    refuses_space: bool,
    /// Flushes are answered and keep nothing.
    lies: bool,
}

/// A pool with one disk, whose groups are synced when a caller waits for one.
#[derive(Debug)]
struct Pool {
    state: Mutex<PoolState, Unranked>,
    changed: Condvar,
    writer: std::sync::OnceLock<Arc<LogWriter>>,
}

/// A transaction.
#[derive(Debug)]
struct Hold<'a>(&'a Pool, Txg);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.state.lock().holders -= 1;
        self.0.changed.notify_all();
    }
}

fn bookmark() -> Bookmark {
    Bookmark::default()
}

/// A pointer to a log block.
fn pointer(address: u64, size: u64, birth: Txg, verifier: [u64; 4]) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    let dva = Dva::new(VdevId(0), address, size);
    (pointer.words[0], pointer.words[1]) = (dva.word0, dva.word1);
    let sectors = size / 512 - 1;
    pointer.words[6] = 1 << 63 | 9 << 48 | 9 << 40 | 2 << 32 | sectors << 16 | sectors;
    pointer.words[10] = birth.0;
    pointer.words[12..].copy_from_slice(&verifier);
    pointer
}

impl LogHold for Hold<'_> {
    fn txg(&self) -> Txg {
        self.1
    }

    fn allocate(
        &self,
        size: u64,
        verifier: [u64; 4],
        keys: Option<&ObjsetKeys>,
    ) -> Result<BlockPointer, IoError> {
        assert!((4096..=128 << 10).contains(&size) && size.is_multiple_of(4096));
        let mut state = self.0.state.lock();
        if state.refuses_space {
            let (bookmark, source) = (bookmark(), NoSpace::Full);
            return Err(IoError::NoSpace { bookmark, source });
        }
        let address = state.next_address;
        state.next_address += size;
        state.allocated.insert(address, self.1);
        let mut pointer = pointer(address, size, self.1, verifier);
        if keys.is_some() {
            pointer.words[6] |= 1 << 61;
            pointer.words[4] = 5;
            pointer.words[5] = address;
        }
        Ok(pointer)
    }
}

impl Pool {
    fn new(seed: u64) -> Arc<Self> {
        let state = PoolState {
            open: Txg(10),
            synced: Txg(9),
            holders: 0,
            quiescing: false,
            disk: Disk::default(),
            header: IntentLogHeader::default(),
            allocated: BTreeMap::new(),
            next_address: 1 << 20,
            dice: Dice(seed),
            failures: 0,
            refuses_space: false,
            lies: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            writer: std::sync::OnceLock::new(),
        })
    }

    fn begin(&self) -> Hold<'_> {
        let state = self.state.lock();
        let mut state = self.changed.wait_while(state, |state| state.quiescing);
        state.holders += 1;
        Hold(self, state.open)
    }

    fn rest(&self) {
        let time = self.state.lock().dice.below(300);
        if rt::is_simulated() {
            rt::sleep(Duration::from_micros(time));
        }
    }

    /// Writes the open group; only one thread does.
    fn sync(&self) {
        let mut state = self.state.lock();
        state.quiescing = true;
        let mut state = self.changed.wait_while(state, |state| state.holders > 0);
        let txg = state.open;
        state.open = Txg(txg.0 + 1);
        state.quiescing = false;
        drop(state);
        self.changed.notify_all();
        self.rest();
        let todo = self.writer.get().expect("set").sync(txg);
        let mut state = self.state.lock();
        for freed in &todo.freed {
            let birth = state.allocated.remove(&freed.dva(0).offset());
            let birth = birth.expect("freed once, and allocated before");
            assert!(birth <= txg && freed.physical_birth() == birth);
        }
        let arrived = state.disk.cache.len();
        drop(state);
        self.rest();
        let mut state = self.state.lock();
        state.make_durable(arrived);
        if let Some(header) = todo.header {
            let first = header.log.dva(0).offset();
            let leads_on = header.log.is_hole() || state.allocated.contains_key(&first);
            assert!(leads_on, "the header leads to a block that is freed");
            state.header = header;
        }
        state.synced = txg;
        drop(state);
        self.changed.notify_all();
    }
}

impl PoolState {
    fn make_durable(&mut self, count: usize) {
        let count = count.min(self.disk.cache.len());
        let arrived = self.disk.cache.drain(..count);
        self.disk.durable.extend(arrived);
    }

    /// What a power cut leaves of the disk.
    fn after_cut(&mut self) -> BTreeMap<u64, Vec<u8>> {
        let mut left = self.disk.durable.clone();
        for (address, mut bytes) in self.disk.cache.clone() {
            if self.dice.happens(40) {
                continue;
            }
            if self.dice.happens(30) {
                let sectors = (bytes.len() / SECTOR) as u64;
                let cut = self.dice.below(sectors) as usize * SECTOR;
                bytes[cut..].fill(0xee);
            }
            left.insert(address, bytes);
        }
        left
    }
}

fn lost() -> IoError {
    IoError::Exchanged {
        bookmark: bookmark(),
    }
}

impl LogSpace for Pool {
    fn hold(&self) -> Result<Box<dyn LogHold + '_>, DmuError> {
        Ok(Box::new(self.begin()))
    }

    fn write(&self, blocks: Vec<(BlockPointer, Arc<BlockBuffer>)>) -> Result<LogMark, IoError> {
        for (pointer, bytes) in blocks {
            self.rest();
            let mut state = self.state.lock();
            let address = pointer.dva(0).offset();
            assert!(state.allocated.contains_key(&address), "it was freed");
            let known = state.disk.cache.iter().any(|(known, _)| *known == address);
            assert!(!known && !state.disk.durable.contains_key(&address));
            let failures = state.failures;
            if state.dice.happens(failures) {
                return Err(lost());
            }
            state.disk.cache.push((address, bytes.to_vec()));
        }
        Ok(LogMark::default())
    }

    fn flush(&self, _: &LogMark) -> Result<(), IoError> {
        let arrived = self.state.lock().disk.cache.len();
        self.rest();
        let mut state = self.state.lock();
        // A group may have flushed some of it meanwhile.
        let arrived = arrived.min(state.disk.cache.len());
        let failures = state.failures;
        if state.dice.happens(failures) {
            state.disk.cache.drain(..arrived);
            return Err(lost());
        }
        if !state.lies {
            state.make_durable(arrived);
        }
        Ok(())
    }

    fn durable_txg(&self) -> Txg {
        self.state.lock().synced
    }

    fn wait_durable(&self, txg: Txg) -> Result<(), DmuError> {
        let state = self.state.lock();
        let waited = self.changed.wait_while(state, |state| state.synced < txg);
        drop(waited);
        Ok(())
    }

    fn random_guid(&self) -> std::io::Result<[u64; 2]> {
        let mut state = self.state.lock();
        Ok([state.dice.below(u64::MAX), state.dice.below(u64::MAX)])
    }
}

/// Contents of which byte `i` is `i / 7`.
#[derive(Debug)]
struct Contents;

impl LogData for Contents {
    fn read(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
    ) -> Result<Option<Vec<u8>>, DmuError> {
        let bytes = offset..offset + length;
        Ok((object != ObjectId(404)).then(|| bytes.map(|i| (i / 7) as u8).collect()))
    }
}

fn keys() -> Arc<ObjsetKeys> {
    let master = MasterKey::new(Suite::Aes256Gcm, [1; 32]);
    Arc::new(ObjsetKeys::new(master, HmacKey::new([2; 64])))
}

/// Files that are truncated whenever they are about to be read.
#[derive(Debug)]
struct Truncated(Arc<Pool>);

impl LogData for Truncated {
    fn read(&self, object: ObjectId, _: u64, length: u64) -> Result<Option<Vec<u8>>, DmuError> {
        let body = RecordBody::Truncate {
            object,
            offset: 0,
            length: 0,
        };
        let hold = self.0.begin();
        let record = record(hold.txg(), record_type::TRUNCATE, body);
        self.0.writer.get().expect("it reads").append(&record);
        Ok(Some(vec![0; usize::try_from(length).expect("short")]))
    }
}

fn record(txg: Txg, record_type: u64, body: RecordBody<'_>) -> Record<'_> {
    Record {
        record_type,
        case_insensitive: false,
        txg,
        sequence: 0,
        body,
    }
}

fn writer_on(pool: &Arc<Pool>, keys: Option<Arc<ObjsetKeys>>) -> Arc<LogWriter> {
    writer_with(pool, keys, Arc::new(Contents))
}

fn writer_with(
    pool: &Arc<Pool>,
    keys: Option<Arc<ObjsetKeys>>,
    data: Arc<dyn LogData>,
) -> Arc<LogWriter> {
    let writer = LogWriter::new(LogParams {
        space: Arc::clone(pool) as _,
        data,
        objset: OBJSET,
        keys,
    });
    pool.writer.set(Arc::clone(&writer)).expect("once");
    writer
}

/// An operation: its number, and the object that it changes unless it is one on names.
type Operation = (u64, Option<ObjectId>);

fn append(writer: &LogWriter, pool: &Pool, operation: Operation) {
    append_in(writer, &pool.begin(), operation);
}

fn append_in(writer: &LogWriter, hold: &Hold<'_>, operation: Operation) -> Txg {
    let (number, object) = operation;
    let bytes = number.to_le_bytes();
    let name = number.to_string();
    let (record_type, body) = match object {
        Some(object) => {
            let data = WriteData::Immediate(&bytes);
            let (offset, length) = (8 * number, 8);
            let body = RecordBody::Write {
                object,
                offset,
                length,
                data,
            };
            (record_type::WRITE, body)
        }
        None => {
            let (directory, name) = (ObjectId(3), name.as_bytes());
            (record_type::REMOVE, RecordBody::Remove { directory, name })
        }
    };
    writer.append(&Record {
        record_type,
        case_insensitive: false,
        txg: hold.txg(),
        sequence: 0,
        body,
    });
    hold.txg()
}

/// The operations that the chain from `header` on holds, and how many blocks it has.
fn found(
    header: &IntentLogHeader,
    disk: &BTreeMap<u64, Vec<u8>>,
    keys: Option<&ObjsetKeys>,
) -> (Vec<u64>, Vec<Vec<u8>>) {
    let (mut numbers, mut data, mut sequence) = (Vec::new(), Vec::new(), 0);
    let mut next = header.log;
    while let Some(bytes) = disk.get(&next.dva(0).offset()).filter(|_| !next.is_hole()) {
        // What was not written reads as anything.
        let mut bytes = bytes.clone();
        bytes.resize(next.physical_size() as usize, 0xaa);
        let Some(block) = judge(&next, &mut bytes, ChecksumKind::Zilog2) else {
            break;
        };
        if let Some(keys) = keys {
            open_log_block(&next, &mut bytes, block.records.end, keys).expect("authentic");
        }
        for record in Records::new(&bytes[block.records.clone()]) {
            let record = record.expect("valid");
            assert!(record.sequence > sequence);
            sequence = record.sequence;
            match record.body {
                RecordBody::Write {
                    data: WriteData::Immediate(bytes),
                    ..
                } => {
                    let number = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                    numbers.extend(number);
                    data.push(bytes.to_vec());
                }
                RecordBody::Remove { name, .. } => {
                    let name = std::str::from_utf8(name).expect("digits");
                    numbers.push(name.parse().expect("digits"));
                }
                other => panic!("{other:?} was never written"),
            }
        }
        assert_eq!(verifier(&block.next)[2], OBJSET.0);
        next = block.next;
    }
    (numbers, data)
}

/// What the pool would find after everything that is durable now.
fn found_now(pool: &Pool) -> Vec<u64> {
    let state = pool.state.lock();
    found(&state.header, &state.disk.durable, None).0
}

/// Commits everything while groups are synced.
fn commit_with_groups(pool: &Pool, writer: &LogWriter) {
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| writer.commit(Commit::All));
        while !commit.is_finished() {
            pool.sync();
        }
        commit.join().expect("no panic").expect("the pool is well");
    });
}

/// A writer whose chain is on disk.
fn started() -> (Arc<Pool>, Arc<LogWriter>) {
    let pool = Pool::new(1);
    let writer = writer_on(&pool, None);
    start(&pool, &writer);
    (pool, writer)
}

fn start(pool: &Pool, writer: &LogWriter) {
    let before = writer.figures().blocks;
    while pool.state.lock().header.log.is_hole() {
        let blocks = writer.figures().blocks;
        assert_eq!(blocks, before, "no header leads to a chain yet");
        append(writer, pool, (1, None));
        commit_with_groups(pool, writer);
    }
    pool.sync();
}

fn commit(writer: &LogWriter, what: Commit) -> Committed {
    writer.commit(what).expect("the pool is well")
}

#[test]
fn a_commit_writes_what_it_needs_and_no_more() {
    let (pool, writer) = started();
    let (one, other) = (ObjectId(20), ObjectId(21));
    append(&writer, &pool, (2, Some(one)));
    append(&writer, &pool, (3, Some(other)));
    append(&writer, &pool, (4, None));
    assert_eq!(commit(&writer, Commit::Object(one)), Committed::Log);
    assert_eq!(found_now(&pool), [4, 2], "nothing of the other object");
    let before = writer.figures();
    assert_eq!(commit(&writer, Commit::Object(one)), Committed::Log);
    let after = writer.figures();
    assert_eq!(
        (after.blocks, after.flushes),
        (before.blocks, before.flushes)
    );
    assert_eq!(commit(&writer, Commit::All), Committed::Log);
    assert_eq!(found_now(&pool), [4, 2, 3]);
    append(&writer, &pool, (5, Some(other)));
    writer.forget(other);
    append(&writer, &pool, (6, None));
    commit(&writer, Commit::All);
    assert_eq!(found_now(&pool), [4, 2, 3, 6], "the object is gone");
    // Once the group is on disk, so are they, and the chain begins behind them.
    pool.sync();
    assert_eq!(found_now(&pool), []);
    append(&writer, &pool, (7, None));
    assert_eq!(commit(&writer, Commit::All), Committed::Log);
    assert_eq!(found_now(&pool), [7]);
}

/// A program that writes a new file and renames it over the old one without a sync has one or the
/// other after a crash. Regression: a commit of something else wrote the rename without the
/// contents.
#[test]
fn what_is_renamed_takes_its_contents_along() {
    let (pool, writer) = started();
    append(&writer, &pool, (2, Some(ObjectId(20))));
    writer.put_in_order(ObjectId(20));
    append(&writer, &pool, (3, None));
    assert_eq!(
        commit(&writer, Commit::Object(ObjectId(21))),
        Committed::Log
    );
    assert_eq!(found_now(&pool), [2, 3]);
}

/// A long write was logged as the zeros that a truncation had left of it, which was not logged: the
/// file had its old length then, and neither the old contents nor the new ones.
#[test]
fn what_was_truncated_meanwhile_waits_for_its_group() {
    let pool = Pool::new(1);
    let writer = writer_with(&pool, None, Arc::new(Truncated(Arc::clone(&pool))));
    start(&pool, &writer);
    let txg = pool.begin().txg();
    writer.append_write(txg, ObjectId(20), 0, 100_000);
    commit_with_groups(&pool, &writer);
    assert!(pool.durable_txg() >= txg);
    assert_eq!(writer.figures().blocks, 0);
}

#[test]
fn what_is_much_goes_by_its_group() {
    let (pool, writer) = started();
    let txg = pool.begin().txg();
    writer.append_write(txg, ObjectId(20), 0, COMMIT_BYTES_MAX + 1);
    commit_with_groups(&pool, &writer);
    assert!(pool.durable_txg() >= txg);
    assert_eq!(writer.figures().blocks, 0);
}

#[test]
fn large_writes_are_read_at_commit_and_split() {
    let (pool, writer) = started();
    let txg = pool.begin().txg();
    writer.append_write(txg, ObjectId(20), 1000, 3 << 20);
    writer.append_write(txg, ObjectId(404), 0, 100_000);
    assert_eq!(commit(&writer, Commit::All), Committed::Log);
    let state = pool.state.lock();
    let (_, data) = found(&state.header, &state.disk.durable, None);
    let all: Vec<u8> = data.concat();
    let expected = 1000..1000 + (3 << 20);
    assert!(all.into_iter().eq(expected.map(|i: u64| (i / 7) as u8)));
}

#[test]
fn a_hole_sends_commits_to_groups_until_it_is_on_disk() {
    let (pool, writer) = started();
    let txg = pool.begin().txg();
    writer.append_unlogged(txg);
    // Even if nothing was logged: the operation may be what the caller waits for.
    commit_with_groups(&pool, &writer);
    assert!(pool.durable_txg() >= txg);
    assert_eq!(writer.figures().blocks, 0);
    append(&writer, &pool, (8, None));
    assert_eq!(commit(&writer, Commit::All), Committed::Log);
    assert_eq!(found_now(&pool), [8]);
}

#[test]
fn without_space_and_after_failures_a_commit_waits_for_its_group() {
    type Break = fn(&mut PoolState, bool);
    let space: Break = |state, is_broken| state.refuses_space = is_broken;
    let device: Break = |state, is_broken| state.failures = u64::from(is_broken) * 100;
    for breaks in [space, device] {
        let (pool, writer) = started();
        append(&writer, &pool, (2, None));
        assert_eq!(commit(&writer, Commit::All), Committed::Log);
        breaks(&mut pool.state.lock(), true);
        let before = writer.figures();
        append(&writer, &pool, (3, None));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| commit(&writer, Commit::All));
            while writer.figures().failures == before.failures {
                std::thread::yield_now();
            }
            while !waits.is_finished() {
                pool.sync();
            }
            assert_eq!(waits.join().expect("no panic"), Committed::Group);
        });
        assert!(writer.last_failure().is_some());
        breaks(&mut pool.state.lock(), false);
        // A broken chain starts again, with the help of a group or two.
        let mut number = 4;
        while writer.figures().blocks == before.blocks {
            append(&writer, &pool, (number, None));
            commit_with_groups(&pool, &writer);
            number += 1;
            assert!(number < 10_000, "it does not recover");
        }
        writer.end().expect("the pool is well");
        pool.sync();
        pool.sync();
        assert!(
            pool.state.lock().allocated.is_empty(),
            "all blocks are freed"
        );
        assert!(pool.state.lock().header.log.is_hole());
    }
}

/// What happened before a power cut.
#[derive(Clone, Debug, Default)]
struct Past {
    /// Operations in order, with their groups.
    appended: Vec<(Operation, Txg)>,
    /// Operations that were promised.
    promised: BTreeSet<u64>,
}

const THREADS: u64 = 4;
const OPERATIONS: u64 = 25;

/// One of several threads that append and commit.
fn work(pool: &Pool, writer: &LogWriter, past: &Mutex<Past, Unranked>, mut dice: Dice) {
    let mut mine: Vec<Operation> = Vec::new();
    for _ in 0..OPERATIONS {
        pool.rest();
        let object = ObjectId(20 + dice.below(3));
        let object = dice.happens(70).then_some(object);
        {
            // The order of the list is that of the log.
            let hold = pool.begin();
            let mut past = past.lock();
            let operation = (past.appended.len() as u64 + 1, object);
            let txg = append_in(writer, &hold, operation);
            past.appended.push((operation, txg));
            mine.push(operation);
        }
        if dice.happens(50) {
            let what = match (dice.happens(20), object) {
                (false, Some(object)) => Commit::Object(object),
                _ => Commit::All,
            };
            writer.commit(what).expect("the pool is well");
            let covers = |(_, of): &Operation| match what {
                Commit::All => true,
                Commit::Object(object) => of.is_none_or(|of| of == object),
            };
            let covered = mine.iter().filter(|operation| covers(operation));
            past.lock()
                .promised
                .extend(covered.map(|(number, _)| *number));
        }
    }
}

/// Everything that was promised is on disk, by the log or its group; nothing is there without
/// what it depends on. Otherwise says what is wrong.
fn judge_cut(past: &Past, in_log: &[u64], synced: Txg) -> Result<(), String> {
    let found: BTreeSet<u64> = in_log.iter().copied().collect();
    let is_there = |number: u64, txg: Txg| txg <= synced || found.contains(&number);
    for ((number, _), txg) in &past.appended {
        if past.promised.contains(number) && !is_there(*number, *txg) {
            return Err(format!("{number} is lost"));
        }
    }
    for (index, ((number, object), _)) in past.appended.iter().enumerate() {
        if !found.contains(number) {
            continue;
        }
        for ((before, of), txg) in &past.appended[..index] {
            let depends = of.is_none() || of == object;
            if depends && !is_there(*before, *txg) {
                return Err(format!("{number} is there without {before}"));
            }
        }
    }
    Ok(())
}

/// Cuts the power now, and judges what is left.
fn cut(pool: &Pool, past: &Mutex<Past, Unranked>, keys: Option<&ObjsetKeys>) -> Result<(), String> {
    // Before the disk: what was promised in between is more than need be there.
    let past = past.lock().clone();
    let mut state = pool.state.lock();
    let disk = state.after_cut();
    let (in_log, _) = found(&state.header, &disk, keys);
    judge_cut(&past, &in_log, state.synced)
}

fn live(seed: u64, lies: bool) -> Result<LogFigures, String> {
    let mut dice = Dice(seed);
    let pool = Pool::new(seed ^ 0x5555);
    let keys = dice.happens(30).then(keys);
    pool.state.lock().failures = [0, 0, 5, 20][dice.below(4) as usize];
    pool.state.lock().lies = lies;
    let writer = writer_on(&pool, keys.clone());
    let past: Mutex<Past, Unranked> = Mutex::new(Past::default());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let mut verdict = Ok(());
    rt::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let dice = Dice(dice.below(u64::MAX));
                let (pool, writer, past) = (&pool, &writer, &past);
                scope.spawn(move || work(pool, writer, past, dice))
            })
            .collect();
        let syncing = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                pool.sync();
                rt::sleep(Duration::from_micros(1500));
            }
        });
        for number in 0..6 {
            rt::sleep(Duration::from_micros(200 + dice.below(3000)));
            let judged = cut(&pool, &past, keys.as_deref());
            let judged = judged.map_err(|problem| format!("cut {number}: {problem}"));
            verdict = std::mem::replace(&mut verdict, Ok(())).and(judged);
        }
        let ended: Vec<_> = threads
            .into_iter()
            .map(rt::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        syncing.join().expect("no panic");
        for thread in ended {
            thread.expect("no panic");
        }
    });
    verdict?;
    writer.end().expect("the pool is well");
    for _ in 0..3 {
        pool.sync();
    }
    let left = pool.state.lock().allocated.clone();
    match left.is_empty() {
        true => Ok(writer.figures()),
        false => Err(format!("not freed: {left:?}")),
    }
}

/// Threads append and commit while groups are synced, requests fail and the power is cut.
#[test]
fn three_hundred_seeds_lose_nothing() {
    let seeds = std::env::var("CENOTE_LOG_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    let mut all = LogFigures::default();
    for seed in 1..=seeds {
        let lived = World::simulated(seed).run(|| live(seed, false));
        let figures = lived.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        all.commits += figures.commits;
        all.by_group += figures.by_group;
        all.flushes += figures.flushes;
        all.failures += figures.failures;
    }
    eprintln!("{all:?}");
    assert!(all.commits > 1000, "{all:?}");
    assert!(all.flushes < all.commits, "commits share flushes: {all:?}");
    assert!(all.failures > 0, "{all:?}");
}

/// A simulation that finds nothing where something must be lost proves nothing.
#[test]
fn disks_that_lie_about_flushes_are_found_out() {
    let lost = |seed: u64| World::simulated(seed).run(|| live(seed, true)).is_err();
    assert!((1..=20).any(lost));
}
