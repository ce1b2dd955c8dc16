//! Disks of the kernel that outlive their daemons.
//!
//! The kernel keeps a disk when the daemon that serves it dies, and the file system on it stays
//! mounted. To that file system the disk never lost power. So every answered write must be there,
//! flushed or not, and no write may come back that another one replaced. The pool below has only
//! what reached its devices. The journal of unflushed writes ([`Unflushed`]) makes up for the
//! difference.
//!
//! Here a daemon serves a volume through a [`Gate`], and several threads write to it. The record of
//! its devices also has the files of the journal. From it follows what a daemon leaves that is
//! killed at any moment: all that it gave to the devices, as the machine keeps its power. The next
//! daemon imports the pool, replays the intent log and then the journal, and is killed as well,
//! perhaps while it replays.

use crate::disks::Disks;
use crate::machine::{self, DISK_SIZE, Layout};
use crate::record::{Bounds, Event, bounds};
use crate::volumes;
use crate::wrong::Wrong;
use anyhow::{Context, Result, bail, ensure};
use cenote_base::rt::{self, Mutex, Random, World, ranks};
use cenote_dataset::SyncPolicy;
use cenote_nbd::protocol::ErrorCode;
use cenote_nbd::{BlockDevice, BlockError, Extent, ReadData, ZeroMode};
use cenote_pool::Pool;
use cenote_ublk::{Gate, Lasting, Place, Segment, Unflushed};
use cenote_volume::{Volume, VolumeError};
use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, IoSlice, Read};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the volume that belong together: they are written whole, by one thread, and are less
/// than a block of the volume, so that threads write to the same blocks.
const CELL: usize = 2 << 10;
const CELLS: usize = 24;
const WRITERS: usize = 4;
/// Requests of each writer of a daemon.
const REQUESTS: usize = 16;
/// Daemons that are killed.
const LIVES: usize = 3;
const BLOCK: u64 = 8 << 10;

/// What happened to a disk.
#[derive(Clone, Debug, Default)]
pub struct Inheritance {
    /// The pool, and what was done.
    pub told: String,
    /// Writes that were replayed from journals.
    pub replayed: u64,
}

/// Lives through a seed in the world that was made for it. With `forgets` the journals are lost
/// with their daemons.
///
/// # Errors
/// What was lost, or came back.
pub fn take_over(world: &World, seed: u64, forgets: bool) -> Result<Inheritance> {
    let lived = || world.run(|| live(Random::new(seed), forgets));
    let lived = std::panic::AssertUnwindSafe(lived);
    let lived = std::panic::catch_unwind(lived).unwrap_or_else(|payload| {
        bail!("a panic: {}", rt::panic_words(&*payload));
    });
    lived.with_context(|| format!("seed {seed}"))
}

fn live(mut random: Random, forgets: bool) -> Result<Inheritance> {
    let layout = Layout::draw(&mut random);
    let mut disks = Arc::new(Disks::new(layout.disks(), DISK_SIZE, random.fork()));
    let policy = match random.happens(30) {
        true => SyncPolicy::Disabled,
        false => SyncPolicy::Standard,
    };
    let pool = machine::create(&disks, &layout)?;
    volumes::create(&pool, (CELL * CELLS) as u64, BLOCK)?;
    pool.close()?;
    drop(pool);
    // What each cell may hold: the bytes that it is filled with, as a number.
    let mut allowed = vec![vec![0]; CELLS];
    let (mut files, mut replayed) = (BTreeMap::new(), 0);
    for life in 0..LIVES {
        let killed = serve(
            &disks,
            files,
            policy,
            &mut allowed,
            &mut replayed,
            &mut random,
        );
        (disks, files) = killed.with_context(|| format!("life {life}; {}", layout.told()))?;
        if forgets {
            files.clear();
        }
    }
    let last = Daemon::begin(&disks, files, policy, random.fork())?;
    replayed += last.gate.replay()?;
    last.judge(&allowed).context("the last life")?;
    let report = machine::report(&last.pool)?;
    let is_whole = report.complete && report.problems == 0;
    ensure!(is_whole, "verify found faults: {report:?}");
    last.gate.end();
    last.end()?;
    let told = format!("{}; {policy:?}; {replayed} writes replayed", layout.told());
    Ok(Inheritance { told, replayed })
}

/// What outlives a daemon: the devices, and the files of its journal.
type Left = (Arc<Disks>, BTreeMap<u64, Vec<u8>>);

/// The life of a daemon from the takeover of the disk to its death.
fn serve(
    disks: &Arc<Disks>,
    files: BTreeMap<u64, Vec<u8>>,
    policy: SyncPolicy,
    allowed: &mut [Vec<u64>],
    replayed: &mut u64,
    random: &mut Random,
) -> Result<Left> {
    disks.record();
    let mut left = files.clone();
    let daemon = Daemon::begin(disks, files, policy, random.fork())?;
    *replayed += daemon.gate.replay()?;
    let found = daemon.judge(allowed)?;
    let served_from = disks.recorded();
    let mut states: Vec<Vec<u64>> = found.into_iter().map(|found| vec![found]).collect();
    daemon.work(disks, &mut states, random)?;
    if random.happens(20) {
        daemon.gate.leave()?;
    }
    let record = disks.take_record();
    daemon.end()?;
    let cut = random.index(record.len() + 1);
    rt::trace!(
        "killed at {cut} of {}, served from {served_from}",
        record.len()
    );
    if cut >= served_from {
        let bounds = bounds(&record, cut, CELLS);
        for ((allowed, states), bounds) in allowed.iter_mut().zip(states).zip(bounds) {
            let Bounds { least, most, .. } = bounds;
            *allowed = states[least..=most].to_vec();
        }
    }
    for event in &record[..cut] {
        match event {
            Event::Kept { file, bytes: None } => drop(left.remove(file)),
            Event::Kept { file, bytes } => left.extend(bytes.clone().map(|bytes| (*file, bytes))),
            _ => {}
        }
    }
    let after = disks.after(&record, cut, 100, random);
    Ok((Arc::new(after), left))
}

/// A daemon that serves the volume as a disk.
struct Daemon {
    pool: Pool,
    volume: Arc<Volume>,
    gate: Gate<Served>,
}

impl Daemon {
    fn begin(
        disks: &Arc<Disks>,
        files: BTreeMap<u64, Vec<u8>>,
        policy: SyncPolicy,
        random: Random,
    ) -> Result<Self> {
        let pool = machine::open(disks, false)?;
        let volume = Arc::new(machine::volume(&pool, &volumes::name())?);
        volume.dataset()?.set_sync_policy(policy);
        let shelf = Shelf {
            disks: Arc::clone(disks),
            kept: Arc::new(Mutex::new(Kept { files, random })),
        };
        let unflushed = Unflushed::begin(shelf, false, Arc::default())?;
        let gate = Gate::new(Served(Arc::clone(&volume)), unflushed);
        Ok(Self { pool, volume, gate })
    }

    /// Compares each cell with what it may hold; what it holds.
    fn judge(&self, allowed: &[Vec<u64>]) -> Result<Vec<u64>> {
        let mut all = vec![0xEE; CELL * CELLS];
        self.volume.read(0, &mut all)?;
        let mut found = Vec::new();
        for (number, (cell, allowed)) in all.chunks(CELL).zip(allowed).enumerate() {
            let value = *cell.first_chunk().context("cells are larger")?;
            let is_whole = cell.chunks(value.len()).all(|part| part == value);
            let value = u64::from_le_bytes(value);
            if !is_whole || !allowed.contains(&value) {
                bail!(Wrong(format!(
                    "cell {number} holds {value:x}, whole {is_whole}, and may hold {allowed:x?}"
                )));
            }
            found.push(value);
        }
        Ok(found)
    }

    /// Several threads write, each to cells of its own.
    fn work(&self, disks: &Disks, states: &mut [Vec<u64>], random: &mut Random) -> Result<()> {
        let mut parts: Vec<Vec<(usize, &mut Vec<u64>)>> = Vec::new();
        parts.resize_with(WRITERS, Vec::new);
        for (cell, states) in states.iter_mut().enumerate() {
            parts[cell % WRITERS].push((cell, states));
        }
        rt::scope(|scope| {
            let mut threads = Vec::new();
            for (number, mut cells) in parts.into_iter().enumerate() {
                let mut random = random.fork();
                let body = move || {
                    (0..REQUESTS).try_for_each(|_| self.request(disks, &mut cells, &mut random))
                };
                threads.push(scope.spawn_named(format!("writer{number}"), body)?);
            }
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => bail!("a thread panicked"),
            });
            let ended: Vec<Result<()>> = ended.collect();
            ended.into_iter().collect()
        })
    }

    /// A request as a file system makes it.
    fn request(
        &self,
        disks: &Disks,
        cells: &mut [(usize, &mut Vec<u64>)],
        random: &mut Random,
    ) -> Result<()> {
        if random.happens(10) {
            return Ok(self.gate.flush()?);
        }
        let (cell, states) = &mut cells[random.index(cells.len())];
        let value = match random.happens(20) {
            true => 0,
            false => 1 + random.below(u64::MAX - 1),
        };
        let (writer, operation) = (*cell, states.len() - 1);
        states.push(value);
        disks.note(Event::Begun { writer, operation });
        let start = (*cell * CELL) as u64;
        match value {
            0 => {
                let range = start..start + CELL as u64;
                self.gate.zero(range, ZeroMode::default())?;
            }
            value => {
                let bytes = value.to_le_bytes().repeat(CELL / 8);
                self.gate.write(start, &bytes, random.happens(15))?;
            }
        }
        let operations = operation + 1;
        disks.note(Event::Promised { writer, operations });
        Ok(())
    }

    fn end(self) -> Result<()> {
        drop(self.gate);
        self.volume.dataset()?.end()?;
        drop(self.volume);
        Ok(self.pool.close()?)
    }
}

/// The files of the journal. They outlive the daemon, and the record has each of their states.
struct Shelf {
    disks: Arc<Disks>,
    kept: Arc<Mutex<Kept, ranks::SimRecord>>,
}

struct Kept {
    files: BTreeMap<u64, Vec<u8>>,
    random: Random,
}

impl Shelf {
    /// Changes a file, and notes what it holds now.
    fn change(&self, file: u64, change: impl FnOnce(&mut Vec<u8>, &mut Random)) {
        let bytes = {
            let Kept { files, random } = &mut *self.kept.lock();
            let bytes = files.entry(file).or_default();
            change(bytes, random);
            Some(bytes.clone())
        };
        self.disks.note(Event::Kept { file, bytes });
    }

    fn clone_handle(&self) -> Self {
        Self {
            disks: Arc::clone(&self.disks),
            kept: Arc::clone(&self.kept),
        }
    }
}

impl Place for Shelf {
    fn segments(&self) -> io::Result<Vec<(u64, u64)>> {
        let kept = self.kept.lock();
        let sizes = kept.files.iter();
        Ok(sizes
            .map(|(file, bytes)| (*file, bytes.len() as u64))
            .collect())
    }

    fn create(&self, number: u64) -> io::Result<Box<dyn Segment>> {
        self.change(number, |bytes, _| {
            assert!(bytes.is_empty(), "a segment is made once");
        });
        Ok(Box::new(Open(self.clone_handle(), number)))
    }

    fn read(&self, number: u64) -> io::Result<Box<dyn Read>> {
        let bytes = self.kept.lock().files.get(&number).cloned();
        let bytes = bytes.ok_or(io::Error::from(ErrorKind::NotFound))?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let removed = self.kept.lock().files.remove(&number);
        removed.ok_or(io::Error::from(ErrorKind::NotFound))?;
        self.disks.note(Event::Kept {
            file: number,
            bytes: None,
        });
        Ok(())
    }

    fn end(&self) {}

    fn name(&self, number: u64) -> String {
        format!("segment {number}")
    }
}

/// A segment that is appended to.
struct Open(Shelf, u64);

impl Segment for Open {
    /// Appends a part at a time, and now and then there is no room.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let new: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        if self.0.kept.lock().random.happens(3) {
            return Err(ErrorKind::StorageFull.into());
        }
        let mut count = new.len();
        self.0.change(self.1, |bytes, random| {
            if random.happens(20) {
                count = 1 + random.index(new.len());
            }
            bytes.extend_from_slice(&new[..count]);
        });
        Ok(count)
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        self.0.change(self.1, |bytes, _| bytes.truncate(size));
        Ok(())
    }

    fn is_there(&self) -> io::Result<bool> {
        Ok(self.0.kept.lock().files.contains_key(&self.1))
    }
}

/// The volume, as the daemon serves it.
struct Served(Arc<Volume>);

fn failed(error: VolumeError) -> BlockError {
    BlockError::new(ErrorCode::Io, error)
}

impl Lasting for Served {
    fn flushes_last(&self) -> bool {
        let dataset = self.0.dataset();
        dataset.is_ok_and(|dataset| dataset.sync_policy() != SyncPolicy::Disabled)
    }

    fn make_last(&self) -> Result<(), BlockError> {
        let dataset = self.0.dataset().map_err(failed)?;
        let synced = dataset.sync();
        synced.map_err(|error| BlockError::new(ErrorCode::Io, error))
    }
}

impl BlockDevice for Served {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, _: u64, _: usize, _: &mut ReadData) -> Result<(), BlockError> {
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        self.0.write(offset, bytes).map_err(failed)?;
        match is_durable {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.0.flush().map_err(failed)
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.zero(range, ZeroMode::default())
    }

    fn zero(&self, range: Range<u64>, _: ZeroMode) -> Result<(), BlockError> {
        let zeroed = self.0.zero(range.start, range.end - range.start);
        zeroed.map_err(failed)
    }

    fn extents(&self, _: &str, _: Range<u64>, _: usize) -> Result<Vec<Extent>, BlockError> {
        Ok(Vec::new())
    }
}
