//! Cache devices that are not to be used for a while, and their return.
//!
//! The pool's tree does not have them, so nothing can be missing on them, and the pool needs none.
//! Whether one is offline is in the pool's list of cache devices, as in OpenZFS. `zpool offline -t`
//! is only in memory, and holds until the next import.

use super::error::ChangeError;
use super::rest::Offline;
use crate::create::change_auxiliaries;
use crate::pool::Pool;
use crate::sync::Syncer;
use cenote_base::Guid;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, directory_keys as keys};
use cenote_ondisk::NvList;
use std::sync::Arc;

/// Takes a cache device offline, or brings it online.
struct RestCache {
    syncer: Arc<Syncer>,
    device: Guid,
    rest: Option<Offline>,
}

impl SyncTask for RestCache {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let is_lasting = self.rest.is_some_and(|rest| !rest.is_temporary);
        change_auxiliaries(context, keys::CACHE_DEVICES, |lists| {
            let is_it = |list: &&mut NvList| list.get_u64("guid") == Some(self.device.0);
            if let Some(list) = lists.iter_mut().find(is_it) {
                list.remove("offline");
                if is_lasting {
                    list.set_u64("offline", 1);
                }
            }
        })?;
        let resting = &mut self.syncer.config().resting_caches;
        resting.retain(|cache| *cache != self.device);
        resting.extend(self.rest.filter(|_| !is_lasting).map(|_| self.device));
        Ok(())
    }
}

impl Pool {
    /// Takes a cache device offline, or brings it online.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn rest_cache(&self, device: Guid, rest: Option<Offline>) -> Result<(), ChangeError> {
        let syncer = Arc::clone(self.writer()?);
        let task = RestCache {
            syncer,
            device,
            rest,
        };
        Ok(self.run_task(task).map(drop)?)
    }

    /// Whether a cache device is offline until the next import.
    pub fn is_cache_resting(&self, device: Guid) -> bool {
        let rests = |syncer: &Arc<Syncer>| syncer.config().resting_caches.contains(&device);
        self.syncer().is_some_and(rests)
    }
}
