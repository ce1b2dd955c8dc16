//! Counting the usage of users, groups and projects where it is unknown: after a raw receive, and
//! after an upgrade of the pool.
//!
//! Quotas depend on these accounts, and a raw stream cannot carry them. So a file system that is
//! opened for writing counts what is missing, in the background and a part in each transaction
//! ([`cenote_dmu::ObjectSet::recount_some`]). Only when all is on disk the object set says that the
//! accounts are complete; a mount that ends before leaves that to the next one. Files get project
//! ids from the start.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::master::VERSION_QUOTAS;
use cenote_base::rt::job::{Control, Next};
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::features;
use cenote_ondisk::objset::{
    FLAG_PROJECT_QUOTA_COMPLETE, FLAG_USER_ACCOUNTING_COMPLETE,
    FLAG_USER_OBJECT_ACCOUNTING_COMPLETE,
};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Memory until the next sync for what one transaction counts.
const STEP_BYTES: u64 = 2 << 20;
/// Between two checks whether the counted accounts are on disk.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Accounts that depend on features of the pool.
const BY_FEATURE: [(&str, u64); 2] = [
    (
        features::USEROBJ_ACCOUNTING,
        FLAG_USER_OBJECT_ACCOUNTING_COMPLETE,
    ),
    (features::PROJECT_QUOTA, FLAG_PROJECT_QUOTA_COMPLETE),
];

/// How far a count is.
enum Stage {
    Counting { after: ObjectId },
    Written { with: Txg },
}

impl FileSystem {
    /// Begins to count in the background what accounts are missing; whether any are. `is_enabled`
    /// says which features the pool has.
    ///
    /// # Errors
    /// If the file system takes no changes.
    pub fn complete_accounts(
        self: &Arc<Self>,
        is_enabled: impl Fn(&str) -> bool,
    ) -> Result<bool, PosixError> {
        let writer = self.require_writer()?;
        if self.version() < VERSION_QUOTAS || writer.dataset.is_in_memory() {
            return Ok(false);
        }
        let complete = self.set().header().flags;
        let mut wanted = FLAG_USER_ACCOUNTING_COMPLETE;
        for (guid, flag) in BY_FEATURE {
            wanted |= if is_enabled(guid) { flag } else { 0 };
        }
        // If user accounting is missing, all accounts are emptied and counted again.
        let missing = match complete & FLAG_USER_ACCOUNTING_COMPLETE {
            0 => wanted,
            _ => wanted & !complete,
        };
        if missing == 0 || !self.set().begin_recount(missing) {
            return Ok(false);
        }
        let files = Arc::downgrade(self);
        let after = ObjectId(0);
        let mut stage = Stage::Counting { after };
        let work = move |_: &Control| step(&files, &mut stage);
        let is_started = writer.recount.start("accounts", work).is_ok();
        if !is_started {
            // The next mount tries again.
            self.set().stop_recount();
        }
        Ok(is_started)
    }

    fn recount(&self, stage: &mut Stage) -> Result<Next, PosixError> {
        let dataset = &self.require_writer()?.dataset;
        match stage {
            Stage::Counting { after } => {
                let tx = dataset.begin_freeing(STEP_BYTES)?;
                match self.set().recount_some(&tx, *after)? {
                    Some(last) => *after = last,
                    None => *stage = Stage::Written { with: tx.txg() },
                }
                Ok(Next::Now)
            }
            Stage::Written { with } => {
                if dataset.gate().synced_txg() < *with {
                    dataset.gate().request_sync();
                    return Ok(Next::After(LOOK_INTERVAL));
                }
                let tx = dataset.begin_freeing(0)?;
                let counted = self.set().counted_now();
                for (guid, flag) in BY_FEATURE {
                    if counted & flag != 0 {
                        dataset.use_feature(guid);
                    }
                }
                self.set().finish_recount(&tx)?;
                Ok(Next::Done)
            }
        }
    }
}

/// One step; the file system is held only for that.
fn step(files: &Weak<FileSystem>, stage: &mut Stage) -> Next {
    let Some(files) = files.upgrade() else {
        return Next::Done;
    };
    match files.recount(stage) {
        Ok(next) => next,
        Err(error) => {
            // The next mount tries again.
            files.set().stop_recount();
            if let Some(sink) = files.writer().and_then(|writer| writer.dataset.damage())
                && error.is_damage()
            {
                sink.report(&error, error.place());
            }
            Next::Done
        }
    }
}
