//! The job that treats one leaf.

use super::record::Record;
use super::{LeafPlace, TreatmentKind, TreatmentState, Treatments, store};
use crate::sync::Syncer;
use cenote_base::rt::job::{Control, Next, Work};
use cenote_base::settings;
use cenote_vdev::FreeSpaceAction;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// The least of a vdev's space that is initialized at a time: less may have no whole row of a raidz
/// vdev, which only itself may write.
const INITIALIZED_MIN: u64 = 64 << 10;

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
    /// The metaslab that it is in, and where in it, if not at its beginning.
    index: usize,
    cursor: Option<u64>,
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
    /// Starts, or resumes where the record says.
    pub fn start(
        syncer: &Arc<Syncer>,
        treatments: &Arc<Treatments>,
        place: LeafPlace,
        kind: TreatmentKind,
    ) -> std::io::Result<()> {
        let name = match kind {
            TreatmentKind::Trim => "vdev_trim",
            TreatmentKind::Initialize => "vdev_initialize",
        };
        let job = {
            let mut entries = treatments.lock();
            let entry = entries.entry((place.leaf, kind)).or_default();
            entry.job.set_rate(entry.record.rate);
            Arc::clone(&entry.job)
        };
        let worker = Self {
            syncer: Arc::downgrade(syncer),
            treatments: Arc::clone(treatments),
            place,
            kind,
            from: 0,
            record: Record::default(),
            index: 0,
            cursor: None,
        };
        job.start(name, worker)
    }

    /// The treatment ends like this.
    fn end(&mut self, state: TreatmentState, syncer: &Syncer) -> Next {
        self.record.state = state;
        if state == TreatmentState::Complete {
            self.record.time = syncer.env.wall_clock().as_secs();
        }
        Next::Done
    }

    /// What becomes of it when the leaf refuses: where the leaf is not in use, it waits for it.
    fn state_after_failure(&self, syncer: &Syncer) -> TreatmentState {
        match syncer.vdevs.shape().can_discard(self.place.leaf) {
            None => TreatmentState::Active,
            Some(_) => TreatmentState::Suspended,
        }
    }

    /// Treats the first free range of a metaslab behind `cursor`; returns where it ends, `None`
    /// if there is none, or the state that the treatment ends in.
    fn piece(
        &mut self,
        control: &Control,
        syncer: &Syncer,
        cursor: u64,
    ) -> Result<Option<u64>, TreatmentState> {
        let (length, action) = match self.kind {
            TreatmentKind::Trim => (settings::TRIM_EXTENT_MAX.get(), FreeSpaceAction::Discard),
            TreatmentKind::Initialize => {
                let chunk = settings::INITIALIZE_CHUNK_SIZE.get();
                let word = self.record.word;
                let word = word.unwrap_or_else(|| settings::INITIALIZE_VALUE.get());
                let action = FreeSpaceAction::Initialize { word, chunk };
                (chunk.max(INITIALIZED_MIN), action)
            }
        };
        let LeafPlace { leaf, top, .. } = self.place;
        let turn = self.treatments.turn(top);
        let turn = turn.lock();
        let Some(held) = syncer.space.hold_range(top, self.index, cursor, length) else {
            return Ok(None);
        };
        let range = held.range.clone();
        // The vdev may have changed its shape: what is not there is not treated.
        let extent = syncer
            .vdevs
            .shape()
            .leaf_extent(top, leaf, range.clone(), self.from);
        let (bytes, end) = extent.map_err(|_| self.state_after_failure(syncer))?;
        let least = settings::TRIM_EXTENT_MIN.get();
        let is_worth_it = self.kind == TreatmentKind::Initialize || bytes >= least;
        if bytes > 0 && is_worth_it {
            let done =
                syncer
                    .vdevs
                    .shape()
                    .treat_leaf_space(top, leaf, range.clone(), self.from, action);
            done.map_err(|_| self.state_after_failure(syncer))?;
        }
        drop((held, turn));
        self.record.offset = self.record.offset.max(end);
        control.advance(bytes);
        Ok(Some(range.end))
    }
}

impl Work for Worker {
    /// Treats one free range, or goes to the next metaslab.
    fn step(&mut self, control: &Control) -> Next {
        let Some(syncer) = self.syncer.upgrade() else {
            return Next::Done;
        };
        let cursor = self.cursor.or_else(|| {
            let metaslabs = syncer.space.metaslabs_of(self.place.top);
            metaslabs.get(self.index).map(|(range, _)| range.start)
        });
        let Some(cursor) = cursor else {
            control.complete();
            return self.end(TreatmentState::Complete, &syncer);
        };
        match self.piece(control, &syncer, cursor) {
            Err(state) => return self.end(state, &syncer),
            Ok(Some(end)) => self.cursor = Some(end),
            Ok(None) => {
                self.cursor = None;
                self.index += 1;
            }
        }
        Next::Now
    }

    fn load(&mut self, _: &Control) {
        let key = (self.place.leaf, self.kind);
        let record = self.treatments.lock().get(&key).map(|entry| entry.record);
        self.record = record.unwrap_or_default();
        self.from = self.record.offset;
    }

    fn save(&mut self) {
        if let Some(syncer) = self.syncer.upgrade() {
            store(&syncer, self.place, self.kind, self.record);
        }
        if let Some(entry) = self
            .treatments
            .lock()
            .get_mut(&(self.place.leaf, self.kind))
        {
            entry.record = self.record;
        }
    }
}
