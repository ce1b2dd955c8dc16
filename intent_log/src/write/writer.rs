//! The log writer of one open head: how concurrent commits share its two stages.

mod aged;
mod ending;

use super::block;
use super::chain::{Chain, LogSync, Stage, Written};
use super::error::LogWriteError;
use super::pack::pack;
use super::records::{Body, Data, Item, Lists, Unlogged};
use super::sizes::block_size_for;
use super::space::{LogData, LogHold, LogSpace};
use cenote_base::rt::{self, Condvar, Mutex, MutexGuard, ranks};
use cenote_base::{ObjectId, ObjsetId, Txg};
use cenote_device::BlockBuffer;
use cenote_dmu::DmuError;
use cenote_io::{IoError, LogMark, ObjsetKeys};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::intent_log::record::{Record, RecordBody};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes of operations that one writing stage takes: a commit of more has several.
const STAGE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of operations that a commit puts into the log at most: of more the transaction group is
/// cheaper, which has to write all of it in any case.
const COMMIT_BYTES_MAX: u64 = 4 << 20;
/// Stages whose sizes decide how large the next block is.
const HISTORY: usize = 8;
/// Bytes of records that are expected before anything is known.
const FIRST_GUESS: usize = 8 << 10;

/// What a writer is made of.
#[derive(Clone, Debug)]
pub struct LogParams {
    /// The pool.
    pub space: Arc<dyn LogSpace>,
    /// The objects that are logged.
    pub data: Arc<dyn LogData>,
    /// The object set that the log is of.
    pub objset: ObjsetId,
    /// Its keys, if it is encrypted.
    pub keys: Option<Arc<ObjsetKeys>>,
}

/// What is to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The contents and attributes of an object, and all operations on names.
    Object(ObjectId),
    /// Everything.
    All,
}

/// How something became durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// By the log.
    Log,
    /// By its transaction group.
    Group,
}

/// What a log did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// Commits that the log served.
    pub commits: u64,
    /// Commits that waited for a group.
    pub by_group: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes of them that were written.
    pub bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Stages that failed.
    pub failures: u64,
}

#[derive(Debug, Default)]
struct State {
    lists: Lists,
    /// Operations that commits have asked for, each with its position.
    queue: VecDeque<(u64, Item)>,
    /// The position of the last one in the queue, ever.
    gathered: u64,
    /// The last group of any of them.
    gathered_txg: Txg,
    /// The last position that a writing stage has taken; that were written, all before it as well
    /// unless they failed; and that are durable.
    taken: u64,
    written: u64,
    durable: u64,
    /// The last group that is known to be on disk.
    synced: Txg,
    /// The last group of an operation that the log does not have and later ones may depend on.
    hole_txg: Txg,
    is_writing: bool,
    is_flushing: bool,
    /// What was written since the last flushing stage began.
    mark: Option<LogMark>,
    chain: Chain,
    /// The number of the last record.
    sequence: u64,
    /// Bytes of records of the last stages.
    history: VecDeque<usize>,
    /// Objects that were truncated or freed, each with the position of the last operation that
    /// commits had asked for then: what is read for earlier ones is not what was written.
    shrunk: BTreeMap<ObjectId, u64>,
    ending: Ending,
    aging: Aging,
    /// Threads that are about to change the head for the log's sake, and the last group in which
    /// one did.
    holding: usize,
    held_txg: Txg,
    figures: LogFigures,
    last_failure: Option<Arc<LogWriteError>>,
}

/// What the log knows of aged changes.
#[derive(Clone, Copy, Debug, Default)]
struct Aging {
    /// They are not committed: `sync=disabled`.
    is_off: bool,
    /// The object at which the next call begins.
    next: ObjectId,
}

/// What became of changes that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aged {
    /// There is nothing that the log could take.
    Nothing,
    /// Some are in the log now.
    Committed,
    /// The log cannot take them before a group is on disk.
    NeedsGroup,
}

/// Whether the log is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ending {
    #[default]
    No,
    /// This chain is; the next commit begins another.
    Chain,
    /// It is, for good.
    ForGood,
}

/// A stage that a thread is in. If it panics there, other commits do without the log.
struct StageGuard<'a>(&'a LogWriter);

impl Drop for StageGuard<'_> {
    fn drop(&mut self) {
        if rt::panicking() {
            let mut state = self.0.lock();
            (state.is_writing, state.is_flushing) = (false, false);
            let gathered = state.gathered_txg;
            state.make_hole(gathered);
            state.ending = Ending::ForGood;
            drop(state);
            self.0.turn.notify_all();
        }
    }
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug)]
struct Target {
    position: u64,
    txg: Txg,
    /// The last group of an operation that the log did not have when the commit began.
    hole_txg: Txg,
}

/// What a commit does next.
#[derive(Debug)]
enum Step {
    Done(Committed),
    WaitForOthers,
    WaitForGroup,
    StartChain,
    Write(WriteJob),
    Flush(FlushJob),
}

#[derive(Debug)]
struct WriteJob {
    items: Vec<Item>,
    /// What is to be read for some of them, with their positions.
    to_be_read: Vec<(u64, ObjectId)>,
    /// The position of the last of them.
    upto: u64,
    tail: BlockPointer,
    /// The number of the last record.
    sequence: u64,
    /// The size of the block behind the last one.
    next_size: usize,
}

#[derive(Debug)]
struct FlushJob {
    mark: Option<LogMark>,
    upto: u64,
}

/// Blocks that were sent, and what they say.
#[derive(Debug)]
struct Batch {
    written: Vec<Written>,
    next: BlockPointer,
    mark: LogMark,
    record_bytes: usize,
    block_bytes: u64,
}

/// A writing stage that failed.
#[derive(Debug)]
struct Failure {
    error: Arc<LogWriteError>,
    /// Blocks that were allocated.
    allocated: Vec<BlockPointer>,
    /// Blocks were sent, so the contents of their places are unknown.
    is_sent: bool,
}

impl State {
    fn note_synced(&mut self, synced: Txg) {
        // There may be very many lists: they are gone through once for each group.
        if synced <= self.synced {
            return;
        }
        self.synced = synced;
        self.lists.drop_synced(synced);
        self.queue.retain(|(_, item)| item.txg > synced);
        self.chain.note_synced(synced);
    }

    fn make_hole(&mut self, txg: Txg) {
        self.hole_txg = self.hole_txg.max(txg);
    }

    /// Notes that a commit asks for operations.
    fn enqueue(&mut self, items: Vec<Item>) -> Target {
        for item in items {
            self.gathered += 1;
            self.gathered_txg = self.gathered_txg.max(item.txg);
            self.queue.push_back((self.gathered, item));
        }
        // An operation without a record may be what the caller waits for.
        Target {
            position: self.gathered,
            txg: self.gathered_txg.max(self.hole_txg),
            hole_txg: self.hole_txg,
        }
    }

    /// Asserts the order in which operations become durable: gathered, taken, written, flushed.
    fn assert_ordered(&self) {
        let stages = [self.durable, self.written, self.taken, self.gathered];
        assert!(stages.is_sorted(), "positions of a log: {stages:?}");
    }

    /// Decides what a commit does, and takes the stage if it is to work.
    fn step(&mut self, target: Target, synced: Txg) -> Step {
        self.assert_ordered();
        if target.hole_txg > synced {
            return Step::WaitForGroup;
        }
        if self.durable >= target.position {
            return Step::Done(Committed::Log);
        }
        if synced >= target.txg {
            return Step::Done(Committed::Group);
        }
        if self.hole_txg > synced || self.ending != Ending::No {
            return Step::WaitForGroup;
        }
        match &self.chain.stage {
            Stage::Absent if self.is_writing => return Step::WaitForGroup,
            Stage::Absent => {
                self.is_writing = true;
                return Step::StartChain;
            }
            Stage::Starting { .. } | Stage::Broken { .. } => return Step::WaitForGroup,
            Stage::Live { tail, .. } => {
                let tail = *tail;
                if target.position > self.taken && !self.is_writing {
                    return Step::Write(self.take_write(tail));
                }
            }
        }
        if target.position > self.written {
            // Those that a stage took and did not write have left a hole.
            return match self.is_writing || target.position > self.taken {
                true => Step::WaitForOthers,
                false => Step::WaitForGroup,
            };
        }
        match self.is_flushing {
            true => Step::WaitForOthers,
            false => {
                self.is_flushing = true;
                Step::Flush(FlushJob {
                    mark: self.mark.take(),
                    upto: self.written,
                })
            }
        }
    }

    fn take_write(&mut self, tail: BlockPointer) -> WriteJob {
        self.is_writing = true;
        let (mut items, mut to_be_read) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while bytes < STAGE_BYTES_MAX
            && let Some((position, item)) = self.queue.pop_front()
        {
            self.taken = position;
            bytes += item.load();
            to_be_read.extend(item.to_be_read().map(|object| (position, object)));
            items.push(item);
        }
        if self.queue.is_empty() {
            self.taken = self.gathered;
        }
        let expected = self.history.iter().copied().max().unwrap_or(FIRST_GUESS);
        WriteJob {
            items,
            to_be_read,
            upto: self.taken,
            tail,
            sequence: self.sequence,
            next_size: block_size_for(expected, 0),
        }
    }

    /// Notes that an object is shorter now, or freed.
    fn note_shrunk(&mut self, object: ObjectId) {
        if self.is_writing || !self.queue.is_empty() {
            self.shrunk.insert(object, self.gathered);
        }
    }

    /// The first object that was truncated or freed before its contents were read.
    fn shrunk_before(&self, read: &[(u64, ObjectId)]) -> Option<ObjectId> {
        let mut objects = read.iter();
        let is_late = |(position, object): &&(u64, ObjectId)| {
            let shrunk = self.shrunk.get(object);
            shrunk.is_some_and(|shrunk| shrunk >= position)
        };
        objects.find(is_late).map(|(_, object)| *object)
    }

    fn note_failure(&mut self, error: Arc<LogWriteError>) {
        self.make_hole(self.gathered_txg);
        self.figures.failures += 1;
        self.last_failure = Some(error);
    }

    fn end_write(&mut self, upto: u64, sequence: u64, result: Result<Option<Batch>, Failure>) {
        self.is_writing = false;
        self.sequence = sequence;
        self.shrunk.retain(|_, position| *position > upto);
        let batch = match result {
            // Everything was on disk already, or is gone.
            Ok(None) => {
                self.written = upto;
                return;
            }
            Ok(Some(mut batch)) => {
                let written = batch.written.iter_mut();
                written.for_each(|block| block.position = upto);
                batch
            }
            Err(failure) => {
                match failure.is_sent {
                    true => self.chain.fail(failure.allocated),
                    false => self.chain.retire(failure.allocated),
                }
                return self.note_failure(failure.error);
            }
        };
        self.figures.blocks += batch.written.len() as u64;
        self.figures.bytes += batch.block_bytes;
        if !self.chain.add(batch.written, batch.next) {
            self.make_hole(self.gathered_txg);
            return;
        }
        self.written = upto;
        match &mut self.mark {
            Some(mark) => mark.join(&batch.mark),
            None => self.mark = Some(batch.mark),
        }
        self.history.push_back(batch.record_bytes);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn end_flush(&mut self, upto: u64, result: Result<(), LogWriteError>) {
        self.is_flushing = false;
        self.figures.flushes += 1;
        match result {
            Ok(()) => self.durable = self.durable.max(upto),
            Err(error) => {
                self.chain.fail(Vec::new());
                self.mark = None;
                self.note_failure(Arc::new(error));
            }
        }
    }
}

/// The log of one head.
#[derive(Debug)]
pub struct LogWriter {
    params: LogParams,
    state: Mutex<State, ranks::LogWriter>,
    /// A stage ended.
    turn: Condvar,
}

impl LogWriter {
    /// The writer of a head whose log is empty.
    pub fn new(params: LogParams) -> Arc<Self> {
        Arc::new(Self {
            params,
            state: Mutex::default(),
            turn: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Notes an operation. Its transaction is still under way, and so is whatever keeps others from
    /// the same object; the number of the record does not count.
    pub fn append(&self, record: &Record<'_>) {
        let mut state = self.lock();
        if let RecordBody::Truncate {
            object, length: 0, ..
        } = record.body
        {
            state.note_shrunk(object);
        }
        if let Err(Unlogged { upto }) = state.lists.append(record) {
            state.make_hole(upto);
        }
    }

    /// Notes a write whose data is read when a commit needs it.
    pub fn append_write(&self, txg: Txg, object: ObjectId, offset: u64, length: u64) {
        let mut state = self.lock();
        let appended = state.lists.append_write(txg, object, offset, length);
        if let Err(Unlogged { upto }) = appended {
            state.make_hole(upto);
        }
    }

    /// Notes an operation that no record tells of: until its group is on disk, commits wait for
    /// groups.
    pub fn append_unlogged(&self, txg: Txg) {
        self.lock().make_hole(txg);
    }

    /// Drops what was done to an object that is gone for good: its number may be given to another.
    pub fn forget(&self, object: ObjectId) {
        let mut state = self.lock();
        state.note_shrunk(object);
        // A change of names takes these contents along, and they cannot be read any more.
        if let Err(Unlogged { upto }) = state.lists.spoil_late(object, &(0..u64::MAX)) {
            state.make_hole(upto);
        }
        state.lists.forget(object);
    }

    /// Has what was done to an object come before what is done to names from now on: so a rename
    /// is durable only together with the contents of the file.
    pub fn put_in_order(&self, object: ObjectId) {
        self.lock().lists.put_in_order(object);
    }

    /// Forgets the operations of groups that are on disk: no commit needs them.
    pub fn note_durable(&self, synced: Txg) {
        self.lock().note_synced(synced);
    }

    /// What the log did.
    pub fn figures(&self) -> LogFigures {
        self.lock().figures
    }

    /// Why a commit waited for a group last, if the log failed.
    pub fn last_failure(&self) -> Option<Arc<LogWriteError>> {
        self.lock().last_failure.clone()
    }

    /// The blocks that hold what commits have promised, as far as no group on disk has it.
    pub fn promised(&self) -> Vec<BlockPointer> {
        let synced = self.params.space.durable_txg();
        let state = self.lock();
        state.chain.promised(state.durable, synced)
    }

    /// Makes everything durable that was appended before. The caller has no transaction, and no
    /// lock of an object.
    ///
    /// # Errors
    /// If the log cannot, and the transaction group is not written either.
    pub fn commit(&self, what: Commit) -> Result<Committed, DmuError> {
        let target = self.gather(what);
        let by_group = || self.params.space.wait_durable(target.txg);
        let _guard = StageGuard(self);
        let committed = loop {
            match self.next_step(target) {
                Step::Done(committed) => break committed,
                Step::WaitForOthers => {}
                Step::WaitForGroup => {
                    by_group()?;
                    break Committed::Group;
                }
                Step::StartChain => {
                    self.start_chain();
                    by_group()?;
                    break Committed::Group;
                }
                Step::Write(job) => self.write(job),
                Step::Flush(job) => self.flush(job),
            }
        };
        let figures = &mut self.lock().figures;
        match committed {
            Committed::Log => figures.commits += 1,
            Committed::Group => figures.by_group += 1,
        }
        Ok(committed)
    }

    fn gather(&self, what: Commit) -> Target {
        let mut state = self.lock();
        let object = match what {
            Commit::Object(object) => Some(object),
            Commit::All => None,
        };
        let items = state.lists.take(object);
        if items.iter().map(Item::load).sum::<u64>() > COMMIT_BYTES_MAX {
            let txg = items.iter().map(|item| item.txg).max();
            state.make_hole(txg.unwrap_or_default());
            return state.enqueue(Vec::new());
        }
        state.enqueue(items)
    }

    /// Decides what a commit does next; waits if that is for others to end.
    fn next_step(&self, target: Target) -> Step {
        let synced = self.params.space.durable_txg();
        let mut state = self.lock();
        state.note_synced(synced);
        let step = state.step(target, synced);
        if matches!(step, Step::WaitForOthers) {
            drop(self.turn.wait(state));
        }
        step
    }

    /// The verifier of a block of this log: chain guid, object set, number.
    fn verifier(&self, guid: [u64; 2], number: u64) -> [u64; 4] {
        [guid[0], guid[1], self.params.objset.0, number]
    }

    fn block_error(&self, source: IoError) -> LogWriteError {
        let objset = self.params.objset;
        LogWriteError::Block { objset, source }
    }

    fn group_error(&self, source: DmuError) -> LogWriteError {
        let objset = self.params.objset;
        LogWriteError::Group { objset, source }
    }

    /// Allocates the first block of a new chain. It counts once a header on disk leads there.
    fn start_chain(&self) {
        let decided = self.decide(&mut self.lock());
        let hold = self.hold(decided);
        let first = match &hold {
            Ok(hold) => self.first_block(hold.as_ref()),
            Err(_) => Ok(None),
        };
        let mut state = self.lock();
        state.is_writing = false;
        match first {
            Ok(Some(first)) => {
                let header = None;
                state.chain.stage = Stage::Starting { first, header };
            }
            // The group that is waited for now will say why.
            Ok(None) => {}
            Err(error) => {
                state.figures.failures += 1;
                state.last_failure = Some(Arc::new(error));
            }
        }
        drop(state);
        self.turn.notify_all();
    }

    fn first_block(&self, hold: &dyn LogHold) -> Result<Option<BlockPointer>, LogWriteError> {
        let objset = self.params.objset;
        let guid = self.params.space.random_guid();
        let guid = guid.map_err(|source| LogWriteError::Random { objset, source })?;
        let size = block_size_for(FIRST_GUESS, 0) as u64;
        let first = hold.allocate(size, self.verifier(guid, 1), self.keys());
        first.map(Some).map_err(|source| self.block_error(source))
    }

    fn keys(&self) -> Option<&ObjsetKeys> {
        self.params.keys.as_deref()
    }

    /// The writing stage.
    fn write(&self, job: WriteJob) {
        let upto = job.upto;
        let mut sequence = job.sequence;
        let filled = self.fill(job.items);
        let items = match filled {
            Ok(items) => items,
            Err(error) => return self.end_write(upto, sequence, Err(not_sent(error))),
        };
        // A truncation is noted before the file is unlocked, and a file is locked while it is read.
        let shrunk = self.lock().shrunk_before(&job.to_be_read);
        if let Some(object) = shrunk {
            let objset = self.params.objset;
            let error = LogWriteError::Truncated { objset, object };
            return self.end_write(upto, sequence, Err(not_sent(error)));
        }
        if items.is_empty() {
            return self.end_write(upto, sequence, Ok(None));
        }
        // Not earlier: a thread that changes an object while it is read may wait for the next
        // group.
        let decided = self.decide(&mut self.lock());
        match self.hold(decided) {
            Err(source) => {
                let error = self.group_error(source);
                self.end_write(upto, sequence, Err(not_sent(error)));
            }
            Ok(hold) => {
                let first_size = usize::try_from(job.tail.physical_size()).expect("128 KiB");
                let contents = pack(items, first_size, &mut sequence);
                let sent = self.send(hold.as_ref(), job.tail, job.next_size, contents);
                self.end_write(upto, sequence, sent.map(Some));
                // The group may be synced, now that everybody knows its blocks.
                drop(hold);
            }
        }
    }

    fn end_write(&self, upto: u64, sequence: u64, result: Result<Option<Batch>, Failure>) {
        self.lock().end_write(upto, sequence, result);
        self.turn.notify_all();
    }

    /// Reads what was to be read at commit, and drops what is gone.
    fn fill(&self, items: Vec<Item>) -> Result<Vec<Item>, LogWriteError> {
        let mut filled = Vec::with_capacity(items.len());
        for mut item in items {
            if let Body::Write {
                object,
                offset,
                data,
            } = &mut item.body
                && let Data::Later(length) = *data
            {
                let read = self.params.data.read(*object, *offset, length);
                let read = read.map_err(|source| LogWriteError::Data {
                    objset: self.params.objset,
                    object: *object,
                    source,
                })?;
                match read {
                    Some(bytes) if !bytes.is_empty() => *data = Data::Copied(bytes),
                    _ => continue,
                }
            }
            filled.push(item);
        }
        Ok(filled)
    }

    /// Allocates, encodes and sends the blocks with these contents, the first of them at `tail`.
    fn send(
        &self,
        hold: &dyn LogHold,
        tail: BlockPointer,
        next_size: usize,
        contents: Vec<super::pack::Contents>,
    ) -> Result<Batch, Failure> {
        let mut pointers = vec![tail];
        let [guid0, guid1, _, mut number] = tail.checksum();
        let sizes = contents.iter().skip(1).map(|contents| contents.size);
        for size in sizes.chain([next_size]) {
            number += 1;
            let verifier = self.verifier([guid0, guid1], number);
            match hold.allocate(size as u64, verifier, self.keys()) {
                Ok(pointer) => pointers.push(pointer),
                Err(source) => {
                    let allocated = pointers.split_off(1);
                    return Err(Failure {
                        error: Arc::new(self.block_error(source)),
                        allocated,
                        is_sent: false,
                    });
                }
            }
        }
        let mut blocks = Vec::with_capacity(contents.len());
        let mut written = Vec::with_capacity(contents.len());
        let (mut record_bytes, mut block_bytes) = (0, 0);
        for (pair, contents) in pointers.windows(2).zip(&contents) {
            let encoded = block::encode(&pair[0], &pair[1], &contents.records, self.keys());
            let Ok(bytes) = encoded else {
                let objset = self.params.objset;
                return Err(Failure {
                    error: Arc::new(LogWriteError::TooLong { objset }),
                    allocated: pointers.split_off(1),
                    is_sent: true,
                });
            };
            record_bytes += contents.records.len();
            block_bytes += bytes.len() as u64;
            blocks.push((pair[0], Arc::new(BlockBuffer::from(bytes))));
            written.push(Written {
                pointer: pair[0],
                max_txg: contents.max_txg,
                position: 0,
            });
        }
        match self.params.space.write(blocks) {
            Ok(mark) => Ok(Batch {
                written,
                next: *pointers.last().expect("one behind the last block"),
                mark,
                record_bytes,
                block_bytes,
            }),
            Err(source) => Err(Failure {
                error: Arc::new(self.block_error(source)),
                allocated: pointers.split_off(1),
                is_sent: true,
            }),
        }
    }

    /// The flushing stage.
    fn flush(&self, job: FlushJob) {
        let flushed = match &job.mark {
            Some(mark) => self.params.space.flush(mark),
            None => Ok(()),
        };
        let flushed = flushed.map_err(|source| self.block_error(source));
        self.lock().end_flush(job.upto, flushed);
        self.turn.notify_all();
    }

    /// The log's part in the sync of `txg`, whose transactions have all ended: the header that the
    /// group is to have, and the blocks that it frees.
    pub fn sync(&self, txg: Txg) -> LogSync {
        let mut state = self.lock();
        state.note_synced(Txg(txg.0.saturating_sub(1)));
        let is_idle = !state.is_writing && !state.is_flushing;
        let ends = is_idle
            && match state.chain.stage {
                Stage::Broken { .. } => state.hole_txg <= txg,
                _ => state.ending != Ending::No && state.gathered_txg <= txg,
            };
        let sync = state.chain.sync(txg, ends);
        if ends && state.ending == Ending::Chain {
            state.ending = Ending::No;
        }
        sync
    }
}

fn not_sent(error: LogWriteError) -> Failure {
    Failure {
        error: Arc::new(error),
        allocated: Vec::new(),
        is_sent: false,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
