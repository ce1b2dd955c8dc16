//! Taking a spare into use.
//!
//! Spares are found by reading their labels, and are not kept open otherwise. Several pools may
//! have the same spare, and the first that needs it takes it: its label is then that of the pool's
//! leaf. So a spare is checked again when it is opened for writing, which locks it.

use super::auxiliary_label::{is_free_spare, label_of, user_of_spare};
use crate::pool::{FoundDevice, Pool};
use cenote_base::Guid;
use cenote_device::{Device, DeviceError};
use cenote_dsl::{DslError, directory_keys};
use cenote_ondisk::VdevConfig;
use cenote_ondisk::pool_config::PoolState;
use cenote_vdev::{DeviceLabels, format_labels};
use std::path::PathBuf;
use std::sync::Arc;

/// Why a spare cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpareError {
    /// The pool has no such spare.
    #[error("{spare} is no spare of the pool")]
    Unknown {
        /// The requested guid.
        spare: Guid,
    },
    /// It is not where it was, or another device is.
    #[error("{} is not the spare", path.display())]
    Elsewhere {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A pool has taken it.
    #[error("{} is in use by the pool {pool}", path.display())]
    Taken {
        /// The device.
        path: PathBuf,
        /// The pool's name, or its guid.
        pool: String,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The pool's list of spares cannot be read.
    #[error(transparent)]
    Dsl(#[from] DslError),
}

impl Pool {
    /// Opens one of the pool's spares for writing, to be put into the vdev tree. It is locked until
    /// it is closed or unlocked.
    ///
    /// # Errors
    /// If it is none, not there, or in use.
    pub fn open_spare(&self, spare: Guid) -> Result<Arc<dyn Device>, SpareError> {
        let spares = self.dsl().auxiliary_vdevs(directory_keys::SPARES)?;
        let config = spares.iter().find(|config| config.guid == spare);
        let config = config.ok_or(SpareError::Unknown { spare })?;
        let found = self.found_devices().remove(&spare);
        let path = found
            .map(|found| found.path)
            .or_else(|| config.path.clone());
        let path = path.ok_or(SpareError::Unknown { spare })?;
        let device = self.options().opener.open_writable(&path)?;
        let labels = DeviceLabels::read(device.as_ref());
        let label = labels
            .newest_config()
            .and_then(|label| label.config.as_ref());
        let Some(label) = label.filter(|label| label.guid == Some(spare)) else {
            return Err(SpareError::Elsewhere { path });
        };
        let user = user_of_spare(&labels).filter(|user| user.pool != self.guid());
        if let Some(user) = user {
            let pool = user.name.clone();
            let found = FoundDevice {
                path: path.clone(),
                size: device.size(),
                used_by: Some(user),
            };
            self.note_devices([(spare, found)]);
            return Err(SpareError::Taken { path, pool });
        }
        if is_free_spare(label) {
            return Ok(device);
        }
        let guid = label.pool_guid.unwrap_or_default();
        let pool = label.name.clone().unwrap_or_else(|| guid.to_string());
        Err(SpareError::Taken { path, pool })
    }

    /// Writes the labels of waiting spares again that this pool was about to take, or to give back,
    /// when it went down: to other pools they are in use until then.
    pub(crate) fn settle_spares(&self) {
        let spares = self.dsl().auxiliary_vdevs(directory_keys::SPARES);
        let tree = self.vdev_tree();
        let is_waiting = |spare: &VdevConfig| tree.leaves().all(|leaf| leaf.guid != spare.guid);
        let found = self.found_devices();
        for spare in spares.unwrap_or_default().into_iter().filter(is_waiting) {
            let Some(place) = found.get(&spare.guid).map(|found| &found.path) else {
                continue;
            };
            let is_half_taken = |device: &dyn Device| {
                let labels = DeviceLabels::read(device);
                let is_it = labels.newest_config().and_then(|label| label.guid());
                let user = user_of_spare(&labels).map(|user| user.pool);
                is_it == Some(spare.guid) && user == Some(self.guid())
            };
            let opener = self.options().opener.as_ref();
            let read = opener.open(place).ok();
            if !read.is_some_and(|device| is_half_taken(device.as_ref())) {
                continue;
            }
            let device = opener.open_writable(place).ok();
            if let Some(device) = device.filter(|device| is_half_taken(device.as_ref())) {
                let label = label_of(&spare, PoolState::Spare, self.dsl().version());
                // The next import tries again.
                let _ = format_labels(device.as_ref(), Some(&label));
            }
        }
    }
}
