//! Faults of one leaf: which of its requests fail, are spoiled, or take long.

use crate::chance::Chance;
use cenote_base::Env;
use cenote_base::rt::{Mutex, ranks};
use cenote_ondisk::label::{
    BOOT_ENVIRONMENT_OFFSET, CONFIG_OFFSET, CONFIG_SIZE, LABEL_SIZE, LABELS, UBERBLOCK_RING_OFFSET,
    UBERBLOCK_RING_SIZE, label_offset,
};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a request to a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It says that space is free.
    Free,
    /// It makes writes durable.
    Flush,
    /// It asks whether the device is there.
    Probe,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafError {
    /// With an error of the device (EIO). It is carried out all the same.
    Io,
    /// Because there is no device (ENXIO), which opening it again finds, too.
    NoDevice,
    /// As if the device had missed the data (ECHILD).
    Missed,
    /// Because the device says itself that its data is damaged.
    Checksum,
    /// As what cannot be decompressed (EINVAL).
    Decompress,
    /// As what cannot be decrypted (EACCES).
    Decrypt,
    /// Not at all: one bit of what was read is wrong.
    Corrupt,
    /// Not at all: it was not carried out.
    Noop,
}

/// A part of the four labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelPart {
    /// The blank beginning.
    Pad1,
    /// The boot environment.
    Pad2,
    /// The configuration.
    Config,
    /// The uberblocks.
    Uberblocks,
}

impl LabelPart {
    fn range(self) -> Range<u64> {
        match self {
            Self::Pad1 => 0..BOOT_ENVIRONMENT_OFFSET,
            Self::Pad2 => BOOT_ENVIRONMENT_OFFSET..CONFIG_OFFSET,
            Self::Config => CONFIG_OFFSET..CONFIG_OFFSET + CONFIG_SIZE,
            Self::Uberblocks => UBERBLOCK_RING_OFFSET..UBERBLOCK_RING_OFFSET + UBERBLOCK_RING_SIZE,
        }
    }
}

/// A fault of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafFault {
    /// How requests fail.
    pub error: LeafError,
    /// Which requests; `None` for all except probes.
    pub work: Option<Work>,
    /// How many of them.
    pub chance: Chance,
    /// Only requests to this part of the labels. `None` for all requests elsewhere: without its
    /// labels a leaf would be lost to the pool.
    pub label: Option<LabelPart>,
}

impl LeafFault {
    fn acts_on(&self, request: &Asked) -> bool {
        let is_meant = match self.work {
            None => request.work != Work::Probe,
            Some(work) => work == request.work,
        };
        if request.work == Work::Probe {
            return is_meant || self.error == LeafError::NoDevice;
        }
        is_meant
            && match self.label {
                Some(part) => request.touches_labels(&part.range()),
                None => !request.touches_labels(&(0..LABEL_SIZE)),
            }
    }
}

/// Reads and writes that take long. A lane carries out one request at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// What each request takes at least.
    pub latency: Duration,
    /// How many are carried out at once.
    pub lanes: u32,
    /// Which requests; `None` for reads and writes.
    pub work: Option<Work>,
}

/// A request, as faults see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub work: Work,
    pub offset: u64,
    pub length: u64,
    /// Bytes of the device.
    pub size: u64,
}

impl Asked {
    fn touches_labels(&self, part: &Range<u64>) -> bool {
        let end = self.offset.saturating_add(self.length);
        let starts = (0..LABELS).filter_map(|index| label_offset(self.size, index));
        let mut parts = starts.map(|start| start + part.start..start + part.end);
        self.length > 0 && parts.any(|part| part.start < end && self.offset < part.end)
    }
}

/// A delay, and until when each of its lanes is busy.
#[derive(Debug)]
struct Lanes {
    delay: Delay,
    busy: Vec<Duration>,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<(u64, LeafFault)>,
    delays: Vec<(u64, Lanes)>,
}

/// The faults of one leaf, by the numbers that they were given.
#[derive(Debug, Default)]
pub struct LeafFaults {
    has_any: AtomicBool,
    state: Mutex<State, ranks::InjectedFaults>,
}

impl LeafFaults {
    /// Whether the leaf is left alone.
    pub fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let has_any = !state.faults.is_empty() || !state.delays.is_empty();
        self.has_any.store(has_any, Ordering::Relaxed);
    }

    /// From now on, requests fail like this.
    pub fn add(&self, id: u64, fault: LeafFault) {
        self.change(|state| state.faults.push((id, fault)));
    }

    /// From now on, requests take so long. Lanes of several delays add up.
    pub fn add_delay(&self, id: u64, delay: Delay) {
        let busy = vec![Duration::ZERO; delay.lanes as usize];
        self.change(|state| state.delays.push((id, Lanes { delay, busy })));
    }

    /// Ends a fault or a delay. Requests that are delayed by it end, too.
    pub fn remove(&self, id: u64) {
        self.change(|state| {
            state.faults.retain(|(other, _)| *other != id);
            state.delays.retain(|(other, _)| *other != id);
        });
    }

    /// Whether the device cannot be opened.
    pub fn is_gone(&self) -> bool {
        let is_gone = |(_, fault): &(u64, LeafFault)| fault.error == LeafError::NoDevice;
        !self.is_empty() && self.state.lock().faults.iter().any(is_gone)
    }

    /// What goes wrong with a request.
    pub(crate) fn effect_on(&self, asked: &Asked, env: &dyn Env) -> Option<LeafError> {
        let state = self.state.lock();
        let mut faults = state.faults.iter();
        let hit = faults.find(|(_, fault)| fault.acts_on(asked) && fault.chance.hits(env));
        hit.map(|(_, fault)| fault.error)
    }

    /// When a request ends at the earliest that begins `now`, and by which delay.
    pub(crate) fn take_lane(&self, work: Work, now: Duration) -> Option<(u64, Duration)> {
        let mut state = self.state.lock();
        let is_meant = |delay: &Delay| match delay.work {
            None => matches!(work, Work::Read | Work::Write),
            Some(meant) => meant == work,
        };
        let delays = state.delays.iter_mut();
        let lanes = delays
            .filter(|(_, lanes)| is_meant(&lanes.delay))
            .flat_map(|(id, lanes)| {
                let latency = lanes.delay.latency;
                lanes.busy.iter_mut().map(move |busy| (*id, latency, busy))
            });
        let ends = lanes.map(|(id, latency, busy)| (id, (*busy).max(now) + latency, busy));
        let (id, end, busy) = ends.min_by_key(|(_, end, _)| *end)?;
        *busy = end;
        Some((id, end))
    }

    /// Whether a delay is still on.
    pub(crate) fn is_delayed_by(&self, id: u64) -> bool {
        let state = self.state.lock();
        state.delays.iter().any(|(other, _)| *other == id)
    }
}
