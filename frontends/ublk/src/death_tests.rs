//! The daemon dies at any moment, and the kernel's disk stays, with a mounted file system on it.

use crate::gate::{Gate, Lasting};
use crate::kept::{Place, Segment};
use crate::unflushed::Unflushed;
use cenote_base::rt::{self, Mutex, Random, Unranked, World};
use cenote_nbd::{BlockDevice, BlockError, Extent, ReadData, ZeroMode};
use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, IoSlice, Read};
use std::ops::Range;
use std::sync::Arc;

const SECTOR: usize = 512;
/// Each is written by one thread only, so that at most one of its writes has no answer.
const SECTORS: usize = 6;
const WRITERS: usize = 3;
const REQUESTS: u64 = 12;

/// What outlives a daemon, and what the file system knows.
#[derive(Clone, Default)]
struct Lasts {
    /// The volume, by the last byte written to each sector.
    disk: [u8; SECTORS],
    segments: BTreeMap<u64, Vec<u8>>,
    /// The last values that were requested and answered.
    asked: [u8; SECTORS],
    answered: [u8; SECTORS],
}

struct State {
    lasts: Lasts,
    /// The volume as the daemon has it.
    now: [u8; SECTORS],
    /// Steps until the daemon dies.
    left: u64,
    /// The state when it died. Threads that still run do not change it.
    died: Option<Lasts>,
    random: Random,
    is_sync_disabled: bool,
}

impl State {
    /// Does a step, after which the daemon may die.
    fn step<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let done = act(self);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && self.died.is_none() {
            self.died = Some(self.lasts.clone());
        }
        done
    }
}

#[derive(Clone)]
struct Machine(Arc<Mutex<State, Unranked>>);

impl Machine {
    fn new(lasts: Lasts, left: u64, random: Random, is_sync_disabled: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            now: lasts.disk,
            lasts,
            left,
            died: None,
            random,
            is_sync_disabled,
        })))
    }

    fn step<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        rt::yield_now();
        self.0.lock().step(act)
    }

    fn gate(&self) -> Gate<Self> {
        let unflushed = Unflushed::begin(self.clone(), false, Arc::default());
        Gate::new(self.clone(), unflushed.expect("begun"))
    }

    /// What outlived the daemon, which dies now if it did not before.
    fn dead(&self) -> Lasts {
        let state = self.0.lock();
        state.died.clone().unwrap_or_else(|| state.lasts.clone())
    }
}

impl Place for Machine {
    fn segments(&self) -> io::Result<Vec<(u64, u64)>> {
        let state = self.0.lock();
        let segments = state.lasts.segments.iter();
        Ok(segments
            .map(|(number, bytes)| (*number, bytes.len() as u64))
            .collect())
    }

    fn create(&self, number: u64) -> io::Result<Box<dyn Segment>> {
        self.step(|state| {
            let before = state.lasts.segments.insert(number, Vec::new());
            assert_eq!(before, None, "a segment is made once");
        });
        Ok(Box::new(Open(self.clone(), number)))
    }

    fn read(&self, number: u64) -> io::Result<Box<dyn Read>> {
        let bytes = self.0.lock().lasts.segments[&number].clone();
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        self.step(|state| state.lasts.segments.remove(&number));
        Ok(())
    }

    fn end(&self) {}

    fn name(&self, number: u64) -> String {
        number.to_string()
    }
}

/// A segment that is appended to.
struct Open(Machine, u64);

impl Segment for Open {
    /// Appends a part at a time, and now and then there is no room.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied());
        let bytes: Vec<u8> = bytes.collect();
        self.0.step(|state| {
            if state.random.below(20) == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            let count = 1 + state.random.below(bytes.len() as u64);
            let count = usize::try_from(count).expect("small");
            let segment = state.lasts.segments.get_mut(&self.1).expect("it is there");
            segment.extend_from_slice(&bytes[..count]);
            Ok(count)
        })
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).expect("small");
        self.0.step(|state| {
            let segment = state.lasts.segments.get_mut(&self.1).expect("it is there");
            segment.truncate(size);
        });
        Ok(())
    }

    fn is_there(&self) -> io::Result<bool> {
        Ok(self.0.0.lock().lasts.segments.contains_key(&self.1))
    }
}

impl Lasting for Machine {
    fn flushes_last(&self) -> bool {
        !self.0.lock().is_sync_disabled
    }

    fn make_last(&self) -> Result<(), BlockError> {
        self.step(|state| state.lasts.disk = state.now);
        Ok(())
    }
}

impl BlockDevice for Machine {
    fn size(&self) -> u64 {
        (SECTORS * SECTOR) as u64
    }

    fn read(&self, _: u64, _: usize, _: &mut ReadData) -> Result<(), BlockError> {
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], _durable: bool) -> Result<(), BlockError> {
        let sector = usize::try_from(offset).expect("small") / SECTOR;
        self.step(|state| state.now[sector] = bytes[0]);
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockError> {
        match self.flushes_last() {
            true => self.make_last(),
            false => Ok(()),
        }
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.zero(range, ZeroMode::default())
    }

    fn zero(&self, range: Range<u64>, _: ZeroMode) -> Result<(), BlockError> {
        self.write(range.start, &[0], false)
    }

    fn extents(&self, _: &str, _: Range<u64>, _: usize) -> Result<Vec<Extent>, BlockError> {
        Ok(Vec::new())
    }
}

/// Requests of one thread, as a file system makes them.
fn requests(machine: &Machine, gate: &Gate<Machine>, writer: usize, mut random: Random) {
    for _ in 0..REQUESTS {
        let sector = writer + WRITERS * random.index(2);
        let start = (sector * SECTOR) as u64;
        let value = match random.below(8) {
            0 => {
                gate.flush().expect("flushed");
                continue;
            }
            1 => 0,
            _ => 1 + u8::try_from(random.below(255)).expect("a byte"),
        };
        machine.0.lock().lasts.asked[sector] = value;
        let done = match value {
            0 => gate.zero(start..start + SECTOR as u64, ZeroMode::default()),
            value => gate.write(start, &[value; SECTOR], random.below(4) == 0),
        };
        done.expect("done");
        machine.0.lock().lasts.answered[sector] = value;
    }
}

/// To the file system the disk never lost power. So answered writes must be there, whenever the
/// daemon dies, even if the next one dies while it takes the disk over.
#[test]
fn whenever_the_daemon_dies_the_next_has_what_was_answered() {
    let mut replays = 0;
    for seed in 0..400 {
        World::simulated(seed).run(|| {
            let mut random = Random::new(seed);
            let is_sync_disabled = random.below(2) == 0;
            let left = 1 + random.below(150);
            let machine = Machine::new(
                Lasts::default(),
                left,
                Random::new(random.below(u64::MAX)),
                is_sync_disabled,
            );
            let gate = machine.gate();
            rt::scope(|scope| {
                for writer in 0..WRITERS {
                    let own = Random::new(random.below(u64::MAX));
                    let (machine, gate) = (&machine, &gate);
                    scope.spawn(move || requests(machine, gate, writer, own));
                }
            });
            let mut lasts = machine.dead();
            for left in [1 + random.below(8), u64::MAX] {
                let next = Machine::new(lasts, left, Random::new(seed), is_sync_disabled);
                replays += next.gate().replay().expect("replayed");
                lasts = next.dead();
            }
            for sector in 0..SECTORS {
                let (asked, answered) = (lasts.asked[sector], lasts.answered[sector]);
                let found = lasts.disk[sector];
                assert!(
                    found == answered || found == asked,
                    "seed {seed}, sector {sector}: {found}; answered {answered}, asked {asked}"
                );
            }
        });
    }
    assert!(
        replays > 1000,
        "the daemon dies with unflushed writes: {replays}"
    );
}
