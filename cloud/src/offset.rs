//! Opening devices of which the pool's begins somewhere inside.
//!
//! Partitions are found by themselves; what lies at another place, as in a dump of several disks
//! or behind a header, is named by its offset.

use cenote_device::{Device, DeviceError, Entry, Opener, SystemOpener, WindowDevice};
use std::path::Path;
use std::sync::Arc;

/// The system's devices from a byte on.
#[derive(Clone, Copy, Debug, Default)]
pub struct OffsetOpener {
    system: SystemOpener,
    /// Where each device begins, in bytes.
    offset: u64,
}

impl OffsetOpener {
    /// Opens devices from `offset` on; all of them if that is 0.
    pub fn new(offset: u64) -> Self {
        Self {
            system: SystemOpener::default(),
            offset,
        }
    }
}

impl Opener for OffsetOpener {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let device = self.system.open(path)?;
        match self.offset {
            0 => Ok(device),
            offset => Ok(Arc::new(WindowDevice::new(device, offset, None)?)),
        }
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        // Whole: by its size the import sees that this is not what it read from, and refuses.
        self.system.open_writable(path)
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        self.system.identity(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.system.list(path)
    }
}
