//! Transactions whose changes can be taken back; [`crate::live::undo`] says how.

use crate::error::DmuError;
use crate::live::undo::{UndoLog, UndoSet};
use crate::live::{Generation, LiveObject, LiveState};
use crate::object_set::ObjectSet;
use crate::txg::Transaction;
use cenote_base::ObjectId;
use cenote_base::rt::MutexGuard;
use std::sync::Arc;

impl Transaction {
    /// From now on changes can be taken back, until [`Self::keep`] or [`Self::undo`].
    pub fn begin_undo(&self) {
        self.undo.lock().get_or_insert_default();
    }

    /// Keeps the changes.
    pub fn keep(&self) {
        *self.undo.lock() = None;
    }

    /// Takes back the changes since [`Self::begin_undo`]; returns the objects that had any.
    pub fn undo(&self) -> Vec<ObjectId> {
        let log = self.undo.lock().take();
        log.map_or_else(Vec::new, |log| log.take_back(self.txg()))
    }

    /// Changes what other transactions change, too, under its own lock, which the caller holds:
    /// all of it or nothing. What was done stays when the rest of the transaction is taken back.
    pub fn apart<R, E>(&self, change: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let outer = self.undo.lock().replace(UndoLog::default());
        let result = change();
        if result.is_err() {
            self.undo();
        }
        *self.undo.lock() = outer;
        result
    }

    /// Makes one change of several steps: all of it or nothing.
    pub(crate) fn as_one<R, E>(&self, change: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let outer = self.undo.lock().replace(UndoLog::default());
        let result = change();
        let inner = self.undo.lock().take().unwrap_or_default();
        let merged = match (&result, outer) {
            (Ok(_), outer) => outer.map(|outer| outer.followed_by(inner)),
            (Err(_), outer) => {
                inner.take_back(self.txg());
                outer
            }
        };
        *self.undo.lock() = merged;
        result
    }

    pub(crate) fn undo_log(&self) -> MutexGuard<'_, Option<UndoLog>> {
        self.undo.lock()
    }
}

impl UndoSet for ObjectSet {
    fn dirty_bytes_undone(&self, now: u64, before: u64) {
        if let Some(live) = &self.live {
            live.add_dirty_bytes(before);
            live.remove_dirty_bytes(now);
        }
    }

    fn set_fresh(&self, id: ObjectId, is_fresh: bool) {
        if let Some(live) = &self.live {
            let mut fresh = live.fresh.lock();
            match is_fresh {
                true => fresh.insert(id),
                false => fresh.remove(&id),
            };
        }
    }
}

impl ObjectSet {
    /// The generation of an object for the transaction's group, noted as dirty, and how the
    /// transaction found it.
    pub(crate) fn open_generation<'s>(
        self: &Arc<Self>,
        tx: &Transaction,
        (live, state): (&Arc<LiveObject>, &'s mut LiveState),
    ) -> Result<&'s mut Generation, DmuError> {
        self.step(live.id)?;
        let committed = state.committed.clone();
        let (generation, is_new) = state.generation(tx.txg());
        if is_new {
            self.note_dirty(tx, Some(live))?;
        }
        if let Some(undo) = &mut *tx.undo_log() {
            undo.object(Arc::clone(self) as _, live, (committed, generation));
        }
        Ok(generation)
    }
}
