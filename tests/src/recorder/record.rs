//! The requests of disks, in the order of their replies.

use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Something that a disk answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Bytes were taken; they lie at `record` of the record's file.
    Write {
        disk: usize,
        offset: u64,
        record: u64,
        length: usize,
        /// Whether it was durable when it was answered (FUA).
        is_durable: bool,
    },
    /// A range became zeros.
    Zero {
        disk: usize,
        offset: u64,
        length: u64,
    },
    /// Everything that the disk had answered before event `begun` is durable.
    Flush { disk: usize, begun: u64 },
}

/// The events, and a file with the bytes of the writes.
pub(super) struct Record {
    file: File,
    disks: usize,
    has_ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// Bytes in the file.
    bytes: u64,
    /// Events before this one made the pool and its first files.
    begun: u64,
}

impl Record {
    /// An empty one for the disks of a layout.
    pub fn create(path: &Path, layout: &str) -> Result<Self> {
        let disks = layout.split(' ').filter(|word| word.parse::<u32>().is_ok());
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path)?;
        Ok(Self {
            file,
            disks: disks.count(),
            has_ended: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a single push.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many disks there are.
    pub fn disks(&self) -> usize {
        self.disks
    }

    /// The number of events so far: the time at which a thread was acknowledged something.
    pub fn now(&self) -> u64 {
        self.state().events.len() as u64
    }

    /// From here on cuts are made.
    pub fn begin(&self) {
        let mut state = self.state();
        state.begun = state.events.len() as u64;
    }

    /// The events between which cuts are made.
    pub fn span(&self) -> (u64, u64) {
        let state = self.state();
        (state.begun, state.events.len() as u64)
    }

    /// What comes from here on is not written down.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    /// Notes a write that is about to be answered.
    pub fn write(
        &self,
        disk: usize,
        offset: u64,
        bytes: &[u8],
        is_durable: bool,
    ) -> std::io::Result<()> {
        if self.has_ended.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut state = self.state();
        let record = state.bytes;
        self.file.write_all_at(bytes, record)?;
        state.bytes += bytes.len() as u64;
        state.events.push(Event::Write {
            disk,
            offset,
            record,
            length: bytes.len(),
            is_durable,
        });
        Ok(())
    }

    /// Notes something else that is about to be answered.
    pub fn note(&self, event: Event) {
        if !self.has_ended.load(Ordering::SeqCst) {
            self.state().events.push(event);
        }
    }

    /// All events.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// Bytes of a write.
    pub fn bytes(&self, record: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, record)?;
        Ok(bytes)
    }

    /// Writes in it.
    pub fn writes(&self) -> usize {
        let is_write = |event: &&Event| matches!(event, Event::Write { .. });
        self.state().events.iter().filter(is_write).count()
    }

    /// Flushes in it.
    pub fn flushes(&self) -> usize {
        let is_flush = |event: &&Event| matches!(event, Event::Flush { .. });
        self.state().events.iter().filter(is_flush).count()
    }
}
