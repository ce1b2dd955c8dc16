//! Going on after errors: `zpool clear`.
//!
//! Devices that do not answer are looked for again, where they were found and beside it, and
//! take their places if they are the same and nobody wrote to them meanwhile. Then errors are
//! forgotten and what waited for the devices is tried again.

use crate::candidate::speaking_label;
use crate::pool::{FoundDevice, Pool};
use cenote_base::{Guid, Txg};
use cenote_device::{Device, DeviceError};
use cenote_io::{Patience, with_patience};
use cenote_vdev::{DeviceLabels, Member, VdevError, scan};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long work that goes on may take until a sign of it is there.
const PROGRESS_MAX: Duration = Duration::from_secs(10);
/// Time between two looks for that sign.
const PROGRESS_POLL: Duration = Duration::from_millis(20);

/// Why a pool does not go on. What waits goes on waiting, but for [`ClearError::Stopped`].
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
    /// Somebody else had the pool meanwhile.
    #[error(
        "{} was written to meanwhile: it is at txg {theirs}, and the pool here at {ours}",
        path.display()
    )]
    WrittenElsewhere {
        /// The device.
        path: PathBuf,
        /// The last group on it.
        theirs: Txg,
        /// The last group here.
        ours: Txg,
    },
    /// A device that is there again cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What a device had taken before it went away is lost, or it does not fit its place.
    #[error(transparent)]
    Vdevs(#[from] VdevError),
}

impl Pool {
    /// Forgets the errors of some vdevs, or of all if none is named, and goes on if the pool waits
    /// for devices.
    ///
    /// # Errors
    /// Why it does not go on.
    pub fn clear(&self, vdevs: &[Guid]) -> Result<(), ClearError> {
        let is_meant = |guid: &Guid| vdevs.is_empty() || vdevs.contains(guid);
        if let Some(syncer) = self.syncer() {
            if let Some(cause) = syncer.gave_up() {
                return Err(ClearError::Stopped { cause });
            }
            let mut silent = self.vdevs().silent_leaves();
            silent.retain(is_meant);
            self.reopen(silent)?;
        }
        let silent = self.vdevs().silent_leaves();
        match vdevs.is_empty() && silent.is_empty() {
            true => self.vdevs().clear_errors(None),
            false => {
                let leaves = self.vdev_tree().leaves().map(|leaf| leaf.guid);
                let all = leaves.chain(vdevs.iter().copied());
                let answering = all.filter(|guid| is_meant(guid) && !silent.contains(guid));
                answering.for_each(|guid| self.vdevs().clear_errors(Some(guid)));
            }
        }
        let Some(syncer) = self.syncer() else {
            return Ok(());
        };
        let mut tops = self.vdev_tree().children.iter().filter_map(|top| top.id);
        if tops.any(|top| self.vdevs().has_gone(top)) {
            let devices = silent.iter().map(|guid| self.name_of(*guid)).collect();
            return Err(ClearError::Silent { devices });
        }
        let was_waiting = self.is_waiting();
        let synced = self.synced_txg();
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
        Ok(())
    }

    /// Waits until a group is on disk after that one, as sign that what waited goes on; or until
    /// it waits again, when whoever asked is to hear of it and not to wait, too. Where a reader
    /// waited there may be nothing to write, and after [`PROGRESS_MAX`] nobody is known to wait.
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

    /// Opens the devices of leaves that do not answer anew, as far as they are there.
    fn reopen(&self, silent: Vec<Guid>) -> Result<(), ClearError> {
        let devices = self.look_for(silent)?;
        if devices.is_empty() {
            return Ok(());
        }
        let pipeline = self.cache().pipeline();
        let is_complete = || with_patience(Patience::Never, || pipeline.exchanged());
        let reopened = self
            .vdevs_kept()
            .reopen(self.vdev_tree(), &devices, is_complete);
        Ok(reopened?)
    }

    /// Opens for writing what is there of the devices of some leaves that are not open: where they
    /// were found, where the configuration says, and beside that.
    ///
    /// # Errors
    /// If a device is there and cannot be opened, or somebody else wrote to it meanwhile.
    pub fn look_for(
        &self,
        mut leaves: Vec<Guid>,
    ) -> Result<HashMap<Guid, Arc<dyn Device>>, ClearError> {
        let mut devices = HashMap::new();
        if leaves.is_empty() {
            return Ok(devices);
        }
        let known = self.found_devices();
        let configs = self.vdev_tree().leaves();
        let configs = configs.filter(|leaf| leaves.contains(&leaf.guid));
        let remembered = configs.filter_map(|leaf| leaf.path.clone());
        let remembered = remembered.filter(|path| path.is_absolute());
        let places = leaves.iter().filter_map(|guid| known.get(guid));
        let places = places.map(|found| found.path.clone()).chain(remembered);
        let places: BTreeSet<PathBuf> = places.collect();
        self.find_again(&leaves, places.iter().cloned().collect(), &mut devices)?;
        leaves.retain(|guid| !devices.contains_key(guid));
        if !leaves.is_empty() {
            // Disks that are plugged in again may have another name.
            let parents = places.iter().filter_map(|path| path.parent());
            let parents: BTreeSet<&Path> = parents.filter(|path| path.is_absolute()).collect();
            let beside = parents.into_iter().map(Path::to_owned).collect();
            self.find_again(&leaves, beside, &mut devices)?;
        }
        let found = devices.iter().filter_map(|(guid, device)| {
            let path = PathBuf::from(device.description());
            let size = device.size();
            path.is_absolute()
                .then_some((*guid, FoundDevice { path, size }))
        });
        self.note_devices(found);
        Ok(devices)
    }

    /// Looks for leaves among these places, and opens for writing what is found.
    fn find_again(
        &self,
        leaves: &[Guid],
        places: Vec<PathBuf>,
        devices: &mut HashMap<Guid, Arc<dyn Device>>,
    ) -> Result<(), ClearError> {
        let opener = &self.options().opener;
        let found = scan(&places, opener.as_ref());
        for member in &found.members {
            let Some(guid) = self.guid_of(member).filter(|guid| leaves.contains(guid)) else {
                continue;
            };
            if devices.contains_key(&guid) {
                continue;
            }
            let path = member.candidate.path.clone();
            // From now on nobody else writes to it.
            let device = opener.open_writable(&path)?;
            let labels = DeviceLabels::read(device.as_ref());
            let best = labels.best_uberblock(None);
            let theirs = best.map_or(Txg(0), |best| best.uberblock.txg);
            let ours = self.synced_txg();
            if theirs > ours {
                return Err(ClearError::WrittenElsewhere { path, theirs, ours });
            }
            devices.insert(guid, device);
        }
        Ok(())
    }

    /// The leaf that a device is, if it is this pool's.
    fn guid_of(&self, member: &Member) -> Option<Guid> {
        let config = speaking_label(member)?.config.as_ref()?;
        config
            .guid
            .filter(|_| config.pool_guid == Some(self.guid()))
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
