//! What stands where a missing device was last known.
//!
//! Devices are found by their labels, wherever they are. One that is not found may still be in
//! its place: with its labels overwritten, used for another pool, cut off, or closed to this user.

use cenote_device::{DEVICE_SIZE_MIN, Opener, SystemOpener};
use cenote_ondisk::VdevConfig;
use cenote_vdev::{DeviceLabels, VdevAux};
use std::os::unix::fs::FileTypeExt;

/// Why the device in a missing one's place is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// It cannot be opened.
    Unreadable {
        /// The system's reason.
        reason: String,
    },
    /// No label of it verifies.
    Unlabelled,
    /// It is another device, of this pool or of another.
    Foreign {
        /// The name of its pool.
        pool: String,
    },
    /// It is the one, and smaller than devices of pools are.
    TooSmall {
        /// Its size.
        bytes: u64,
    },
}

impl Stranger {
    /// What lists say of the vdev.
    pub fn aux(&self) -> VdevAux {
        match self {
            Self::Unreadable { .. } => VdevAux::OpenFailed,
            Self::Unlabelled => VdevAux::BadLabel,
            Self::Foreign { .. } => VdevAux::CorruptData,
            Self::TooSmall { .. } => VdevAux::TooSmall,
        }
    }
}

/// Inspects the last known path of a missing leaf. Returns `None` if there is no disk or file, or
/// if it is the leaf itself, which the search did not cover.
///
/// A label may name any path: what is neither file nor block device is not opened, since some
/// others do something when they are.
pub fn at_last_path(leaf: &VdevConfig) -> Option<Stranger> {
    let path = leaf.path.as_deref()?;
    let kind = std::fs::metadata(path).ok()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return None;
    }
    let device = match SystemOpener::default().open(path) {
        Ok(device) => device,
        Err(error) => {
            let reason = error.to_string();
            return Some(Stranger::Unreadable { reason });
        }
    };
    let labels = DeviceLabels::read(device.as_ref());
    let Some(label) = labels.newest_config() else {
        return Some(Stranger::Unlabelled);
    };
    if label.guid() != Some(leaf.guid) {
        let config = label.config.as_ref();
        let name = config.and_then(|config| config.name.clone());
        let pool = name.or_else(|| Some(label.pool_guid()?.to_string()));
        return Some(match pool {
            Some(pool) => Stranger::Foreign { pool },
            None => Stranger::Unlabelled,
        });
    }
    let bytes = device.size();
    (bytes < DEVICE_SIZE_MIN).then_some(Stranger::TooSmall { bytes })
}
