//! Opens exports by name: the opener of [`SCHEMES`](crate::SCHEMES).

use crate::device::NbdDevice;
use cenote_device::{Device, DeviceError, Entry, Opener};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Opens exports of NBD servers.
///
/// The protocol has no locks: nobody is kept from writing to an export that is open here.
#[derive(Clone, Copy, Debug, Default)]
pub struct NbdOpener;

impl NbdOpener {
    fn open_with(path: &Path, is_writable: bool) -> Result<Arc<NbdDevice>, DeviceError> {
        let opened = NbdDevice::open(path, is_writable);
        opened.map(Arc::new).map_err(|error| DeviceError::Open {
            path: path.into(),
            source: io::Error::other(error),
        })
    }
}

impl Opener for NbdOpener {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        Ok(Self::open_with(path, false)?)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let device = Self::open_with(path, true)?;
        match device.is_writable() {
            true => Ok(device),
            false => Err(DeviceError::ReadOnly { path: path.into() }),
        }
    }

    fn list(&self, _path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        Ok(None)
    }
}
