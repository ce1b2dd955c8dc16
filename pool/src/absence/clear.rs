//! Resuming after errors: `zpool clear`.
//!
//! Searches again for devices that do not answer, and uses them if they are the same and were not
//! written to meanwhile. Then error counters are reset and the waiting work is retried.

use crate::import::outsider::Outsider;
use crate::pool::Pool;
use cenote_base::{Guid, Txg};
use cenote_device::{Device, DeviceError};
use cenote_intent_log::is_log_block;
use cenote_vdev::{Kept, TxgSet, VdevError};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for a sign that the pool resumed.
const PROGRESS_MAX: Duration = Duration::from_secs(10);
/// Time between two looks for that sign.
const PROGRESS_POLL: Duration = Duration::from_millis(20);

/// Why a pool does not resume. Waiting work keeps waiting, except after [`ClearError::Stopped`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClearError {
    /// The pool takes no more changes until it is exported and imported again.
    #[error("{cause}")]
    Stopped {
        /// Why.
        cause: String,
    },
    /// Without these devices it cannot.
    #[error("these devices do not answer: {}", devices.join(", "))]
    Silent {
        /// Where they were.
        devices: Vec<String>,
    },
    /// They answer, and what is wrong with them is still so.
    #[error("the pool waits again: {cause}")]
    WaitsAgain {
        /// What failed.
        cause: String,
    },
    /// What is there in their places is not the pool's.
    #[error("{}", outsiders.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    WrittenElsewhere {
        /// The devices.
        outsiders: Vec<Outsider>,
    },
    /// A device that is there again cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What a device had taken before it went away is lost, or it does not fit its place.
    #[error(transparent)]
    Vdevs(#[from] VdevError),
}

impl Pool {
    /// Clears the errors of the given vdevs, or of all if none is given, and resumes the pool if it
    /// waits for devices.
    ///
    /// # Errors
    /// Why the pool does not resume.
    pub fn clear(&self, vdevs: &[Guid]) -> Result<(), ClearError> {
        let is_meant = |guid: &Guid| vdevs.is_empty() || vdevs.contains(guid);
        let (mut outsiders, mut was_away) = (Vec::new(), false);
        if let Some(syncer) = self.syncer() {
            if let Some(cause) = syncer.gave_up() {
                return Err(ClearError::Stopped { cause });
            }
            let mut silent = self.vdevs().silent_leaves();
            silent.retain(is_meant);
            was_away = !silent.is_empty();
            outsiders = self.reopen(silent)?;
        }
        let refused = self.judge_given_up(is_meant);
        self.note_outsiders(&refused);
        let is_refused = |guid: &Guid| refused.iter().any(|outsider| outsider.leaf == *guid);
        let silent = self.vdevs().silent_leaves();
        match vdevs.is_empty() && silent.is_empty() && refused.is_empty() {
            true => self.vdevs().clear_errors(None),
            false => {
                let tree = self.vdev_tree();
                let leaves = tree.leaves().map(|leaf| leaf.guid);
                let all = leaves.chain(vdevs.iter().copied());
                let answering = all.filter(|guid| is_meant(guid) && !silent.contains(guid));
                let answering = answering.filter(|guid| !is_refused(guid));
                answering.for_each(|guid| self.vdevs().clear_errors(Some(guid)));
            }
        }
        outsiders.extend(refused);
        let Some(syncer) = self.syncer() else {
            return Ok(());
        };
        let tree = self.vdev_tree();
        let mut tops = tree.children.iter().filter_map(|top| top.id);
        if tops.any(|top| self.vdevs().has_gone(top)) {
            if !outsiders.is_empty() {
                return Err(ClearError::WrittenElsewhere { outsiders });
            }
            let devices = silent.iter().map(|guid| self.name_of(*guid)).collect();
            return Err(ClearError::Silent { devices });
        }
        let was_waiting = self.is_waiting();
        let synced = self.synced_txg();
        if was_waiting || was_away {
            // Before anything reads what a device may have lost while it was away.
            self.cache().pipeline().write_again_soon();
        }
        syncer.resume();
        if was_waiting {
            self.await_progress(synced)?;
        }
        // What fails here says the next change of the pool, too.
        if vdevs.is_empty() {
            let _ = self.clear_error_log();
        }
        // Devices that are there again may have missed something.
        let _ = self.look_for_resilver();
        match outsiders.is_empty() {
            true => Ok(()),
            false => Err(ClearError::WrittenElsewhere { outsiders }),
        }
    }

    /// Waits until a group after `synced` is on disk, as a sign that the pool resumed. Returns an
    /// error if the pool is suspended again. If only a reader waited there may be nothing to write,
    /// so this gives up without an error after [`PROGRESS_MAX`].
    fn await_progress(&self, synced: Txg) -> Result<(), ClearError> {
        let env = self.env();
        let begun = env.monotonic();
        while self.synced_txg() <= synced && env.monotonic() - begun < PROGRESS_MAX {
            if let Some(cause) = self.suspended() {
                let cause = cause.to_string();
                return Err(ClearError::WaitsAgain { cause });
            }
            env.sleep(PROGRESS_POLL);
        }
        Ok(())
    }

    /// Reopens the devices of leaves that do not answer, as far as they are found. Returns the
    /// found devices that cannot be used.
    pub(super) fn reopen(&self, silent: Vec<Guid>) -> Result<Vec<Outsider>, ClearError> {
        let looked = self.look_for(silent)?;
        if looked.devices.is_empty() {
            return Ok(looked.outsiders);
        }
        let devices = looked.devices.iter();
        let devices: HashMap<Guid, Arc<dyn Device>> = devices
            .map(|(guid, returned)| (*guid, Arc::clone(&returned.device)))
            .collect();
        let pipeline = self.cache().pipeline();
        let look = || {
            let mut kept = pipeline.exchanged();
            self.look_for_logs(&mut kept);
            kept
        };
        let tree = self.vdev_tree();
        let lacking = self.vdevs_kept().reopen(&tree, &devices, look)?;
        for (guid, returned) in &looked.devices {
            self.vdevs().add_missed(*guid, &returned.missed);
        }
        // Labels may have been written meanwhile: an import takes a device without them for one
        // that was not there.
        if let Some(syncer) = self.syncer() {
            syncer.config().touch();
        }
        let under_way = self.under_way();
        for leaf in lacking {
            self.vdevs().add_missed(leaf, &under_way);
        }
        Ok(looked.outsiders)
    }

    /// Looks for what `fsync` has promised, and no group on disk has.
    fn look_for_logs(&self, kept: &mut Kept) {
        let pipeline = self.cache().pipeline();
        let heads = self.syncer().map(|syncer| syncer.dsl.open_heads());
        for head in heads.into_iter().flatten() {
            let promised = head.log().map(|writer| writer.promised());
            for pointer in promised.into_iter().flatten() {
                let is_right = |bytes: &[u8]| is_log_block(&pointer, bytes);
                pipeline.look_for_copies(&pointer, &is_right, kept);
            }
        }
    }

    /// The groups that are not on disk and may have written something.
    fn under_way(&self) -> TxgSet {
        let first = Txg(self.synced_txg().0 + 1);
        let open = self.syncer().map_or(first, |syncer| syncer.gate.open_txg());
        TxgSet::from_ranges([first..Txg(open.0.max(first.0) + 1)])
    }

    /// Where a device was found, or its guid.
    pub(crate) fn name_of(&self, leaf: Guid) -> String {
        let known = self.found_devices();
        let path = known
            .get(&leaf)
            .map(|found| found.path.display().to_string());
        path.unwrap_or_else(|| leaf.0.to_string())
    }
}
