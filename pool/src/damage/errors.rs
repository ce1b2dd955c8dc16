//! The pool's list of damaged blocks: what `zpool status -v` shows and `zpool clear` forgets.

use crate::damage::error_notes::ErrorNotes;
use crate::pool::Pool;
use crate::sync::SyncError;
use cenote_dsl::write::{ErrorLog, SyncContext, SyncTask};
use cenote_dsl::{DslError, ErrorEntry};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Forgets all errors.
struct ClearErrors;

impl SyncTask for ClearErrors {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        context.clear_errors(ErrorLog::Last)?;
        context.clear_errors(ErrorLog::Scrub)
    }
}

impl Pool {
    /// Where readers note what they find damaged.
    pub fn error_notes(&self) -> &Arc<ErrorNotes> {
        let notes = self.notes();
        if let Some(syncer) = self.syncer() {
            notes.store_in(syncer);
        }
        notes
    }

    /// All damaged blocks that are known.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn error_log(&self) -> Result<BTreeSet<ErrorEntry>, DslError> {
        let mut log = self.dsl().error_log()?;
        log.append(&mut self.error_notes().fresh());
        Ok(log)
    }

    /// Forgets the damaged blocks that are known: those that are still damaged are found again.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn clear_error_log(&self) -> Result<(), SyncError> {
        self.notes().forget();
        let log = self.dsl().error_log();
        match log.is_ok_and(|log| log.is_empty()) {
            true => Ok(()),
            false => self.run_task(ClearErrors).map(drop),
        }
    }
}
