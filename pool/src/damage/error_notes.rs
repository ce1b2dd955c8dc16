//! Blocks that readers found damaged, on their way into the pool's error log (format/1b 7).
//!
//! Readers are not to wait for a transaction group, so what they report is kept here until the
//! next one stores it. In a pool that is only read it stays here.

use crate::sync::Syncer;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{BlockId, ObjectId, Txg};
use cenote_dmu::ObjectSet;
use cenote_dsl::write::{ErrorLog, SyncContext, SyncTask};
use cenote_dsl::{DslError, ErrorEntry};
use cenote_ondisk::dsl_dataset::DslDataset;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

/// Blocks that are remembered.
const ENTRIES_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct Noted {
    /// Not stored yet.
    fresh: BTreeSet<ErrorEntry>,
    /// Stored since the pool was opened or its errors were cleared.
    stored: BTreeSet<ErrorEntry>,
    /// A task waits that stores them.
    is_queued: bool,
}

/// What readers found damaged.
#[derive(Debug, Default)]
pub struct ErrorNotes {
    noted: Mutex<Noted, ranks::ErrorNotes>,
    syncer: OnceLock<Weak<Syncer>>,
}

impl ErrorNotes {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock()
    }

    /// Notes a damaged block; the next transaction group stores it.
    pub fn note(self: &Arc<Self>, entry: ErrorEntry) {
        let mut noted = self.lock();
        let count = noted.fresh.len() + noted.stored.len();
        if count >= ENTRIES_MAX || noted.stored.contains(&entry) || !noted.fresh.insert(entry) {
            return;
        }
        let syncer = self.syncer.get().and_then(Weak::upgrade);
        if let Some(syncer) = syncer.filter(|_| !noted.is_queued) {
            let notes = Arc::clone(self);
            // A pool that takes no changes keeps them here.
            noted.is_queued = syncer.queue(StoreErrors { notes }).is_ok();
        }
    }

    /// From now on what is noted is stored.
    pub(crate) fn store_in(&self, syncer: &Arc<Syncer>) {
        self.syncer.get_or_init(|| Arc::downgrade(syncer));
    }

    /// Forgets what was noted.
    pub(crate) fn forget(&self) {
        let mut noted = self.lock();
        noted.fresh.clear();
        noted.stored.clear();
    }

    /// What is not stored yet.
    pub(crate) fn fresh(&self) -> BTreeSet<ErrorEntry> {
        self.lock().fresh.clone()
    }
}

/// Stores what readers found.
struct StoreErrors {
    notes: Arc<ErrorNotes>,
}

/// The birth of the block that is in this place now; `None` if it is unknown.
fn birth_of(context: &SyncContext<'_>, entry: &ErrorEntry) -> Option<Txg> {
    let mos = context.mos();
    let level = u8::try_from(entry.level).ok()?;
    let dataset = mos.object(ObjectId(entry.objset.0)).ok()?;
    let root = DslDataset::decode(&dataset.dnode().bonus)
        .ok()?
        .block_pointer;
    let set = ObjectSet::open(Arc::clone(mos.cache()), entry.objset, root, None).ok()?;
    let object = set.object(entry.object).ok()?;
    let pointer = object.block_pointer(level, BlockId(entry.block)).ok()?;
    Some(pointer.logical_birth())
}

impl SyncTask for StoreErrors {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let fresh = {
            let mut noted = self.notes.lock();
            noted.is_queued = false;
            std::mem::take(&mut noted.fresh)
        };
        let dated = fresh.iter().map(|entry| ErrorEntry {
            birth: entry.birth.or_else(|| birth_of(context, entry)),
            ..*entry
        });
        context.add_errors(ErrorLog::Last, &dated.collect())?;
        self.notes.lock().stored.extend(fresh);
        Ok(())
    }
}
