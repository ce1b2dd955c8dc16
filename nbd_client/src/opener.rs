//! Opens exports by name: the opener of [`SCHEMES`](crate::SCHEMES).

use crate::device::NbdDevice;
use crate::error::NbdError;
use crate::location::Location;
use cenote_device::{Device, DeviceError, Entry, Opener};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Opens exports of NBD servers.
///
/// The protocol has no locks: other clients can write to an export that is open here.
#[derive(Clone, Copy, Debug, Default)]
pub struct NbdOpener {
    /// Whether exports that this process serves are refused.
    pub must_be_foreign: bool,
}

impl NbdOpener {
    fn open_with(&self, path: &Path, is_writable: bool) -> Result<NbdDevice, NbdError> {
        let mut location = Location::parse(&path.to_string_lossy())?;
        location.must_be_foreign = self.must_be_foreign;
        NbdDevice::connect(location, path, is_writable)
    }

    /// Connects to an export, to write to it.
    ///
    /// # Errors
    /// It cannot be reached, or not be written to durably.
    pub fn open_device(&self, path: &Path) -> Result<Arc<NbdDevice>, DeviceError> {
        let fail = |error: NbdError| failed(path, io::Error::other(error));
        let device = self.open_with(path, true).map_err(fail)?;
        if !device.is_writable() {
            return Err(DeviceError::ReadOnly { path: path.into() });
        }
        if !device.can_flush() {
            let text = "the server does not offer flushes, so nothing written there is known to be \
                        durable; serve the export with a cache mode that has them";
            return Err(failed(path, io::Error::other(text)));
        }
        Ok(Arc::new(device))
    }
}

fn failed(path: &Path, source: io::Error) -> DeviceError {
    let path = path.into();
    DeviceError::Open { path, source }
}

impl Opener for NbdOpener {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let opened = self.open_with(path, false);
        let opened = opened.map(|device| Arc::new(device) as Arc<dyn Device>);
        opened.map_err(|error| failed(path, io::Error::other(error)))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        Ok(self.open_device(path)?)
    }

    fn list(&self, _path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        Ok(None)
    }
}
