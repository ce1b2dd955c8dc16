//! The thread that treats one leaf.

use super::record::Record;
use super::{Key, LeafPlace, TreatmentKind, TreatmentState, Treatments, store};
use crate::sync::Syncer;
use cenote_base::rt::{self, JoinHandle};
use cenote_base::{Env, settings};
use cenote_vdev::FreeSpaceAction;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two notes on disk of how far it is.
const STORE_INTERVAL: Duration = Duration::from_secs(5);

/// Treats one leaf.
pub(super) struct Worker {
    /// The pool may go away without a word.
    syncer: Weak<Syncer>,
    treatments: Arc<Treatments>,
    place: LeafPlace,
    kind: TreatmentKind,
    /// Where the pass began: bytes of the leaf before it are done with.
    from: u64,
    record: Record,
    env: Arc<dyn Env>,
    started: Duration,
    treated: u64,
}

/// Bytes of free space on a leaf before `offset`, and in all: as many of each metaslab as are
/// free in it.
pub(super) fn figures(syncer: &Syncer, place: LeafPlace, offset: u64) -> (u64, u64) {
    let (mut done, mut total) = (0, 0);
    for (range, free) in syncer.space.metaslabs_of(place.top) {
        let size = (range.end - range.start).max(1);
        let extent = |range: Range<u64>, from| {
            let extent = syncer
                .vdevs
                .shape()
                .leaf_extent(place.top, place.leaf, range, from);
            extent.map_or(0, |(bytes, _)| bytes)
        };
        let all = extent(range.clone(), 0);
        let left = extent(range, offset);
        let share = |bytes: u64| {
            let bytes = u128::from(bytes) * u128::from(free) / u128::from(size);
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        total += share(all);
        done += share(all.saturating_sub(left));
    }
    (done, total)
}

impl Worker {
    /// Begins, or goes on where the record says.
    pub fn start(
        syncer: &Arc<Syncer>,
        treatments: &Arc<Treatments>,
        place: LeafPlace,
        kind: TreatmentKind,
    ) -> std::io::Result<JoinHandle<()>> {
        let env = Arc::clone(&syncer.env);
        let syncer = Arc::downgrade(syncer);
        let treatments = Arc::clone(treatments);
        let name = match kind {
            TreatmentKind::Trim => "vdev_trim",
            TreatmentKind::Initialize => "vdev_initialize",
        };
        rt::spawn(name.to_owned(), move || {
            let key = (place.leaf, kind);
            let record = treatments.lock().get(&key).map(|entry| entry.record);
            let record = record.unwrap_or_default();
            let worker = Self {
                syncer,
                treatments,
                place,
                kind,
                from: record.offset,
                record,
                started: env.monotonic(),
                env,
                treated: 0,
            };
            worker.run();
        })
    }

    fn key(&self) -> Key {
        (self.place.leaf, self.kind)
    }

    fn run(mut self) {
        let state = self.pass();
        let Some(syncer) = self.syncer.upgrade() else {
            return;
        };
        if let Some(entry) = self.treatments.lock().get_mut(&self.key()) {
            // Whoever asked for another state stores it.
            if entry
                .wanted
                .is_some_and(|wanted| wanted != TreatmentState::Active)
            {
                entry.record.offset = self.record.offset;
                return;
            }
        }
        self.record.state = state;
        if state == TreatmentState::Complete {
            self.record.time = syncer.env.wall_clock().as_secs();
        }
        store(&syncer, self.place, self.kind, self.record);
        if let Some(entry) = self.treatments.lock().get_mut(&self.key()) {
            entry.record = self.record;
            if state == TreatmentState::Complete {
                entry.done = entry.total;
            }
        }
    }

    /// Goes through all free space; returns the state that it ends in.
    fn pass(&mut self) -> TreatmentState {
        let mut stored = self.env.monotonic();
        let mut index = 0;
        loop {
            let Some(syncer) = self.syncer.upgrade() else {
                return TreatmentState::Active;
            };
            let metaslabs = syncer.space.metaslabs_of(self.place.top);
            let Some((range, _)) = metaslabs.get(index).cloned() else {
                return TreatmentState::Complete;
            };
            let mut cursor = range.start;
            while let Some(end) = match self.piece(&syncer, index, cursor) {
                Ok(end) => end,
                Err(state) => return state,
            } {
                cursor = end;
                if self.env.monotonic().saturating_sub(stored) > STORE_INTERVAL {
                    store(&syncer, self.place, self.kind, self.record);
                    stored = self.env.monotonic();
                }
                if self.is_stopped() {
                    return TreatmentState::Active;
                }
            }
            index += 1;
        }
    }

    /// Treats the first free range of a metaslab behind `cursor`; returns where it ends, `None`
    /// if there is none, or the state that the treatment ends in.
    fn piece(
        &mut self,
        syncer: &Syncer,
        index: usize,
        cursor: u64,
    ) -> Result<Option<u64>, TreatmentState> {
        let (length, action) = match self.kind {
            TreatmentKind::Trim => (settings::TRIM_EXTENT_MAX.get(), FreeSpaceAction::Discard),
            TreatmentKind::Initialize => (
                settings::INITIALIZE_CHUNK_SIZE.get(),
                FreeSpaceAction::Initialize(settings::INITIALIZE_VALUE.get()),
            ),
        };
        let LeafPlace { leaf, top, .. } = self.place;
        let turn = self.treatments.turn(top);
        let turn = turn.lock();
        let Some(held) = syncer.space.hold_range(top, index, cursor, length) else {
            return Ok(None);
        };
        let range = held.range.clone();
        // The vdev may have changed its shape: what is not there is not treated.
        let extent = syncer
            .vdevs
            .shape()
            .leaf_extent(top, leaf, range.clone(), self.from);
        let (bytes, end) = extent.map_err(|_| TreatmentState::Suspended)?;
        let least = settings::TRIM_EXTENT_MIN.get();
        let is_worth_it = self.kind == TreatmentKind::Initialize || bytes >= least;
        if bytes > 0 && is_worth_it {
            let done =
                syncer
                    .vdevs
                    .shape()
                    .treat_leaf_space(top, leaf, range.clone(), self.from, action);
            done.map_err(|_| TreatmentState::Suspended)?;
        }
        drop((held, turn));
        self.record.offset = self.record.offset.max(end);
        self.treated += bytes;
        if let Some(entry) = self.treatments.lock().get_mut(&self.key()) {
            entry.record.offset = self.record.offset;
            entry.done = (entry.done + bytes).min(entry.total);
        }
        self.keep_rate();
        Ok(Some(range.end))
    }

    fn is_stopped(&self) -> bool {
        let entries = self.treatments.lock();
        entries
            .get(&self.key())
            .is_none_or(|entry| entry.wanted.is_some())
    }

    /// Waits until no more was treated than the rate allows, or somebody stops it.
    fn keep_rate(&self) {
        if self.record.rate == 0 {
            return;
        }
        let due = u128::from(self.treated) * 1000 / u128::from(self.record.rate);
        let due = self.started + Duration::from_millis(u64::try_from(due).unwrap_or(u64::MAX));
        let mut entries = self.treatments.lock();
        loop {
            let left = due.saturating_sub(self.env.monotonic());
            let entry = entries.get(&self.key());
            if left.is_zero() || entry.is_none_or(|entry| entry.wanted.is_some()) {
                return;
            }
            let waited = self.treatments.changed.wait_timeout(entries, left);
            entries = waited.0;
        }
    }
}
