//! Trimming and initializing: one pass over all free space of leaves (format/1d.10).
//!
//! Each leaf has a job that walks the metaslabs of its top-level vdev in order. It holds one free
//! range at a time, so that it is not allocated, and trims or initializes the part of it on the
//! leaf. The progress is stored in the leaf's ZAP every few seconds: after an import it resumes
//! from there, here or in OpenZFS. It rests while the leaf is not in use, and resumes when the
//! leaf is back; a leaf that an administrator declares faulted is not treated any more.
//!
//! *Autotrim* discards space soon after it was freed; see [`auto`].

mod auto;
mod record;
mod work;

pub(crate) use auto::FreedRanges;
pub use record::{TreatmentKind, TreatmentState};

use crate::pool::Pool;
use crate::sync::{Actor, SyncError, Syncer, log_event};
use auto::Autotrim;
use cenote_base::rt::{Job, Mutex, MutexGuard, ranks};
use cenote_base::{Guid, ObjectId, VdevId};
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;
use work::Worker;

/// What a command wants of a treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreatmentCommand {
    /// Start, or resume after a suspension.
    Start {
        /// Bytes a second; 0 for what it was begun with, which is no limit if nothing else was
        /// said.
        rate: u64,
        /// An initialization fills the space with zeros.
        zeros: bool,
    },
    /// Give it up.
    Cancel,
    /// Stop for now.
    Suspend,
    /// Forget that it was ever done.
    Reset,
}

/// Why a leaf is not treated as wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreatmentRefusal {
    /// The pool has no such leaf, or it cannot be written to.
    Unavailable,
    /// It is under way already.
    Running,
    /// It is not under way.
    NotRunning,
    /// The device takes no note of discards.
    NotSupported,
}

/// A leaf's treatment as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreatmentStatus {
    /// The leaf.
    pub leaf: Guid,
    /// What is done to it.
    pub kind: TreatmentKind,
    /// How far it is.
    pub state: TreatmentState,
    /// When it was started or ended, in seconds.
    pub time: u64,
    /// Bytes of the leaf that were treated.
    pub done: u64,
    /// Bytes of the leaf that are to be treated.
    pub total: u64,
}

/// One treatment of one leaf.
#[derive(Debug, Default)]
struct Entry {
    record: Record,
    /// Works on it where the record says that it is active, and knows how far it is.
    job: Arc<Job>,
}

type Key = (Guid, TreatmentKind);

/// All treatments of a pool.
#[derive(Debug, Default)]
pub(crate) struct Treatments {
    entries: Mutex<BTreeMap<Key, Entry>, ranks::Treatments>,
    /// Held by a command from the end of the jobs that it stops to the begin of its own: of two
    /// commands at once one would store a state, and the other one's job work.
    commands: Mutex<(), ranks::TreatmentCommands>,
    /// Held with a range: what another leaf's job holds is not free to look at.
    turns: Mutex<BTreeMap<VdevId, Arc<Mutex<(), ranks::TreatmentTurns>>>, ranks::TreatmentTurns>,
    autotrim: Autotrim,
}

/// Where a leaf is.
#[derive(Clone, Copy, Debug)]
struct LeafPlace {
    leaf: Guid,
    top: VdevId,
    zap: Option<ObjectId>,
}

/// Stores records, and notes in the history what was begun or ended.
///
/// A leaf that has left the pool when the group is written has no record any more.
struct StoreRecords {
    syncer: Arc<Syncer>,
    records: Vec<(Guid, TreatmentKind, Record)>,
    events: Vec<(Actor, &'static str, String)>,
}

impl SyncTask for StoreRecords {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for (leaf, kind, record) in &self.records {
            let zap = self.syncer.config().leaf_zap(*leaf);
            if let Some(zap) = zap {
                record.store(context, zap, *kind)?;
            }
        }
        for (actor, event, detail) in &self.events {
            log_event(context, actor, event, detail)?;
        }
        Ok(())
    }
}

impl Treatments {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.entries.lock()
    }

    fn state_of(&self, key: Key) -> TreatmentState {
        let entries = self.lock();
        let entry = entries.get(&key);
        entry.map_or(TreatmentState::None, |entry| entry.record.state)
    }

    /// Whose holder may hold a range of a vdev.
    fn turn(&self, vdev: VdevId) -> Arc<Mutex<(), ranks::TreatmentTurns>> {
        let mut turns = self.turns.lock();
        Arc::clone(turns.entry(vdev).or_default())
    }

    /// Stops all where they are; what the disk says stays.
    pub fn stop(&self, syncer: &Arc<Syncer>) {
        self.autotrim.set(syncer, false);
        self.stop_some(|_| true);
    }

    /// Stops some treatments; what the disk says stays, with how far they came.
    fn stop_some(&self, is_meant: impl Fn(&Key) -> bool) {
        let jobs: Vec<Arc<Job>> = {
            let entries = self.lock();
            let meant = entries.iter().filter(|(key, _)| is_meant(key));
            meant.map(|(_, entry)| Arc::clone(&entry.job)).collect()
        };
        jobs.iter().for_each(|job| job.cancel());
        jobs.iter().for_each(|job| job.stop());
    }
}

impl Pool {
    /// The treatments, with what the disk says of those before the import.
    fn treatments(&self) -> &Arc<Treatments> {
        self.treatment_slot().get_or_init(|| {
            let treatments = Treatments::default();
            let kinds = [TreatmentKind::Trim, TreatmentKind::Initialize];
            for place in self.leaf_places() {
                for kind in kinds {
                    let record = place
                        .zap
                        .and_then(|zap| Record::read(self.mos(), zap, kind));
                    let Some(record) = record else { continue };
                    let (done, total) = self.figures_of(place, record.offset);
                    let job = Arc::default();
                    let entry = Entry { record, job };
                    entry.job.set_progress(done, total);
                    treatments.lock().insert((place.leaf, kind), entry);
                }
            }
            Arc::new(treatments)
        })
    }

    /// Bytes of free space on a leaf before `offset`, and in all.
    fn figures_of(&self, place: LeafPlace, offset: u64) -> (u64, u64) {
        match self.syncer() {
            Some(syncer) => work::figures(syncer, place, offset),
            None => (0, 0),
        }
    }

    fn leaf_places(&self) -> Vec<LeafPlace> {
        let mut places = Vec::new();
        for top in self
            .vdev_tree()
            .children
            .iter()
            .filter(|top| top.kind.is_concrete())
        {
            for leaf in top.leaves().filter(|leaf| leaf.is_leaf_device()) {
                places.push(LeafPlace {
                    leaf: leaf.guid,
                    top: top.id.unwrap_or_default(),
                    zap: leaf.leaf_zap,
                });
            }
        }
        places
    }

    /// The current or last treatment of each leaf's free space, without leaves that had none.
    pub fn treatment_status(&self) -> Vec<TreatmentStatus> {
        let entries = self.treatments().lock();
        let status = entries.iter().map(|((leaf, kind), entry)| {
            let progress = entry.job.progress();
            TreatmentStatus {
                leaf: *leaf,
                kind: *kind,
                state: entry.record.state,
                time: entry.record.time,
                done: progress.done,
                total: progress.total,
            }
        });
        status
            .filter(|status| status.state != TreatmentState::None)
            .collect()
    }

    /// Resumes what was active when the pool was last open, and autotrim.
    pub(crate) fn resume_treatments(&self) {
        self.resume_active_treatments();
        let properties = self.dsl().pool_properties().unwrap_or_default();
        let is_on = properties.get("autotrim") == Some(&cenote_dsl::Stored::Number(1));
        self.set_autotrim(is_on);
    }

    /// Resumes what is active on leaves that are in use.
    pub(crate) fn resume_active_treatments(&self) {
        let Some(syncer) = self.syncer() else { return };
        let treatments = self.treatments();
        let command_lock = treatments.commands.lock();
        let _command = command_lock;
        for place in self.leaf_places() {
            if self.vdevs().can_discard(place.leaf).is_none() {
                continue;
            }
            for kind in [TreatmentKind::Trim, TreatmentKind::Initialize] {
                if treatments.state_of((place.leaf, kind)) == TreatmentState::Active {
                    // Without a thread it stays as it is, until it is started or imported again.
                    let _ = Worker::start(syncer, treatments, place, kind);
                }
            }
        }
    }

    /// Gives up what is active on a leaf that has been declared faulted.
    pub(crate) fn cancel_treatments(&self, leaf: Guid, actor: &Actor) -> Result<(), SyncError> {
        for kind in [TreatmentKind::Trim, TreatmentKind::Initialize] {
            if self.treatments().state_of((leaf, kind)) == TreatmentState::Active {
                self.treat(kind, &[leaf], TreatmentCommand::Cancel, (actor, ""))?;
            }
        }
        Ok(())
    }

    /// Begins or ends telling devices of space that was freed.
    pub fn set_autotrim(&self, is_on: bool) {
        if let Some(syncer) = self.syncer() {
            self.treatments().autotrim.set(syncer, is_on);
        }
    }

    /// Begins, suspends or gives up a treatment of leaves. Those that are refused come back with
    /// the reason; the others are done with when this returns, or under way.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn treat(
        &self,
        kind: TreatmentKind,
        leaves: &[Guid],
        wanted: TreatmentCommand,
        (actor, command): (&Actor, &str),
    ) -> Result<Vec<(Guid, TreatmentRefusal)>, SyncError> {
        let syncer = self.writer()?;
        let treatments = self.treatments();
        let command_lock = treatments.commands.lock();
        let _command = command_lock;
        let places = self.leaf_places();
        let (mut refused, mut meant) = (Vec::new(), Vec::new());
        for leaf in leaves {
            let place = places.iter().find(|place| place.leaf == *leaf);
            let refusal = match place {
                None => Some(TreatmentRefusal::Unavailable),
                Some(_) => self.treatment_refusal(*leaf, kind, wanted),
            };
            match (place, refusal) {
                (Some(place), None) => meant.push(*place),
                (_, refusal) => {
                    refused.push((*leaf, refusal.unwrap_or(TreatmentRefusal::Unavailable)));
                }
            }
        }
        if meant.is_empty() {
            return Ok(refused);
        }
        let state = match wanted {
            TreatmentCommand::Start { .. } => TreatmentState::Active,
            TreatmentCommand::Cancel => TreatmentState::Canceled,
            TreatmentCommand::Suspend => TreatmentState::Suspended,
            TreatmentCommand::Reset => TreatmentState::None,
        };
        let is_meant = |key: &Key| key.1 == kind && meant.iter().any(|place| place.leaf == key.0);
        treatments.stop_some(is_meant);
        let mut task = StoreRecords {
            syncer: Arc::clone(syncer),
            records: Vec::new(),
            events: Vec::new(),
        };
        for place in &meant {
            let record = self.next_record((place.leaf, kind), wanted, state);
            let (done, total) = self.figures_of(*place, record.offset);
            let mut entries = treatments.lock();
            let entry = entries.entry((place.leaf, kind)).or_default();
            entry.record = record;
            entry.job.set_progress(done, total);
            task.records.push((place.leaf, kind, record));
            task.events.push(self.event(actor, *place, kind, state));
        }
        self.run_command(task, actor, command)?;
        if state == TreatmentState::Active {
            for place in meant {
                let started = Worker::start(syncer, treatments, place, kind);
                started.map_err(|error| SyncError::Stopped {
                    cause: error.to_string(),
                })?;
            }
        }
        Ok(refused)
    }

    fn treatment_refusal(
        &self,
        leaf: Guid,
        kind: TreatmentKind,
        wanted: TreatmentCommand,
    ) -> Option<TreatmentRefusal> {
        let entries = self.treatments().lock();
        let entry = entries.get(&(leaf, kind));
        let state = entry.map(|entry| entry.record.state);
        let is_active = state == Some(TreatmentState::Active);
        // One without a running job can be started again.
        let is_running = is_active && entry.is_some_and(|entry| entry.job.is_at_work());
        match (wanted, self.vdevs().can_discard(leaf)) {
            (TreatmentCommand::Start { .. }, None) => Some(TreatmentRefusal::Unavailable),
            (TreatmentCommand::Start { .. }, Some(false)) if kind == TreatmentKind::Trim => {
                Some(TreatmentRefusal::NotSupported)
            }
            (TreatmentCommand::Start { .. }, _) if is_running => Some(TreatmentRefusal::Running),
            (TreatmentCommand::Reset, _) if is_running => Some(TreatmentRefusal::Running),
            (TreatmentCommand::Suspend, _) if !is_active => Some(TreatmentRefusal::NotRunning),
            (TreatmentCommand::Cancel, _)
                if !is_active && state != Some(TreatmentState::Suspended) =>
            {
                Some(TreatmentRefusal::NotRunning)
            }
            _ => None,
        }
    }

    /// What is to be kept of a treatment after a command.
    fn next_record(&self, key: Key, wanted: TreatmentCommand, state: TreatmentState) -> Record {
        let entries = self.treatments().lock();
        let before = entries.get(&key).map(|entry| entry.record);
        let before = before.unwrap_or_default();
        let unfinished = [TreatmentState::Active, TreatmentState::Suspended];
        let goes_on = unfinished.contains(&before.state);
        let keeps = matches!(state, TreatmentState::Suspended | TreatmentState::Canceled);
        Record {
            state,
            offset: match keeps || goes_on {
                true => before.offset,
                false => 0,
            },
            time: match state == TreatmentState::Active && goes_on {
                true => before.time,
                false => self.env().wall_clock().as_secs(),
            },
            rate: match wanted {
                TreatmentCommand::Start { rate, .. } if rate != 0 || !goes_on => rate,
                _ => before.rate,
            },
            word: match wanted {
                TreatmentCommand::Start { zeros: true, .. } => Some(0),
                TreatmentCommand::Start { .. } if !goes_on => None,
                _ => before.word,
            },
        }
    }

    fn event(
        &self,
        actor: &Actor,
        place: LeafPlace,
        kind: TreatmentKind,
        state: TreatmentState,
    ) -> (Actor, &'static str, String) {
        let tree = self.vdev_tree();
        let mut leaves = tree.walk();
        let path = leaves.find(|leaf| leaf.guid == place.leaf);
        let path = path.and_then(|leaf| leaf.path.as_ref());
        let path = path.map_or_else(String::new, |path| path.display().to_string());
        let event = match kind {
            TreatmentKind::Trim => "trim",
            TreatmentKind::Initialize => "initialize",
        };
        let word = match state {
            TreatmentState::Active => "activated",
            TreatmentState::Canceled => "canceled",
            TreatmentState::Suspended => "suspended",
            TreatmentState::Complete => "complete",
            TreatmentState::None => "reset",
        };
        (actor.clone(), event, format!("vdev={path} {word}"))
    }
}

/// Stores one record, where the leaf has a place for it.
fn store(syncer: &Arc<Syncer>, place: LeafPlace, kind: TreatmentKind, record: Record) {
    let task = StoreRecords {
        syncer: Arc::clone(syncer),
        records: vec![(place.leaf, kind, record)],
        events: Vec::new(),
    };
    // A stopped pool reports that elsewhere; the previous record stays.
    let _ = syncer.run_task(task);
}
