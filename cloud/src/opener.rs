//! Opens devices by name, whether the system has them or a store.
//!
//! Who only reads takes the device as of its newest commit, and hinders nobody. Who writes gets
//! what lies on this side, too: `$XDG_STATE_HOME/cenote/cloud`, or `/var/lib/cenote/cloud` for
//! root and `~/.local/state/cenote/cloud` for others, and there a directory for each device and way
//! to it. When the device is unlocked everything is uploaded, and it is released.

use crate::device::CloudDevice;
use crate::error::{CloudError, Result};
use crate::format::Hash;
use crate::format::device::Identity;
use crate::local::{DirectoryPlace, Place};
use crate::location::{Location, StoreName, is_location};
use crate::options::Options;
use crate::store::s3::{BucketStore, Surroundings};
use crate::store::{DirectoryStore, Store};
use cenote_base::{Env, RealEnv};
use cenote_device::{Device, DeviceError, Entry, Opener, SystemOpener};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens devices of the system and of stores.
#[derive(Clone, Debug)]
pub struct StoreOpener {
    system: SystemOpener,
    state: Option<PathBuf>,
    is_forced: bool,
    surroundings: Surroundings,
}

/// A store, and what names the way to it, however it was asked for.
struct Reached {
    store: Arc<dyn Store>,
    way: String,
}

impl StoreOpener {
    /// The opener of a running system. With `is_forced`, a device is taken over that its last
    /// writer did not release.
    pub fn new(is_forced: bool) -> Self {
        Self {
            system: SystemOpener::default(),
            state: state_directory(),
            is_forced,
            surroundings: Surroundings::of_process(),
        }
    }

    /// The same, with settings and keys of stores found in `surroundings`.
    pub fn with_surroundings(self, surroundings: Surroundings) -> Self {
        Self {
            surroundings,
            ..self
        }
    }

    /// The same, with what lies on this side in `directory`.
    pub fn with_state(self, directory: &Path) -> Self {
        Self {
            state: Some(directory.into()),
            ..self
        }
    }

    /// Opens the device at `path` for writing, and makes it before if it is one of a store that has
    /// none.
    ///
    /// # Errors
    /// As [`Opener::open_writable`]; if it has to be made and its size is not said.
    pub fn open_or_create(&self, path: &Path) -> std::result::Result<Arc<dyn Device>, DeviceError> {
        if !is_location(path) {
            return self.system.open_writable(path);
        }
        let fail = |error| open_error(path, error);
        let location = location(path)?;
        if let Some(size) = location.size {
            let made = self.create(&location, size);
            match made {
                Ok(()) | Err(CloudError::Exists { .. }) => {}
                Err(error) => return Err(fail(error)),
            }
        }
        self.open_at(&location, false).map_err(fail)
    }

    fn open_at(&self, location: &Location, is_read_only: bool) -> Result<Arc<dyn Device>> {
        let Reached { store, way } = self.store(location, false)?;
        let options = Options {
            is_read_only,
            is_forced: self.is_forced,
            ..Options::default()
        };
        let log_size = location.log_size;
        let state = self.state.as_ref().filter(|_| log_size > 0);
        let place = |identity: &Identity| {
            let Some(state) = state else {
                return Ok(None);
            };
            let way = Hash::of(way.as_bytes()).short();
            let path = state.join(format!("{}-{way:016x}", identity.uuid));
            let place = DirectoryPlace::open(&path, log_size, 0)?;
            Ok(Some(Arc::new(place) as Arc<dyn Place>))
        };
        let device = CloudDevice::open(store, place, options, &env())?;
        Ok(device)
    }

    fn create(&self, location: &Location, size: u64) -> Result<()> {
        let Reached { store, .. } = self.store(location, true)?;
        CloudDevice::create(store, size, &Options::default(), &env())?;
        Ok(())
    }

    /// The store of a device that is there or is to be made; only then a directory is made for it.
    fn store(&self, location: &Location, is_made: bool) -> Result<Reached> {
        let directory = match &location.store {
            StoreName::Directory(directory) => directory,
            StoreName::Bucket(name) => {
                let store = BucketStore::new(name, &self.surroundings)?;
                return Ok(Reached {
                    way: store.address(),
                    store: Arc::new(store),
                });
            }
        };
        if !is_made && !directory.is_dir() {
            let store = directory.display().to_string();
            return Err(CloudError::NoDevice { store });
        }
        let store = DirectoryStore::new(directory).map_err(|source| DeviceError::Open {
            path: directory.into(),
            source,
        })?;
        Ok(Reached {
            store: Arc::new(store),
            way: directory.to_string_lossy().into_owned(),
        })
    }
}

impl Opener for StoreOpener {
    fn open(&self, path: &Path) -> std::result::Result<Arc<dyn Device>, DeviceError> {
        if !is_location(path) {
            return self.system.open(path);
        }
        let opened = self.open_at(&location(path)?, true);
        opened.map_err(|error| open_error(path, error))
    }

    fn open_writable(&self, path: &Path) -> std::result::Result<Arc<dyn Device>, DeviceError> {
        if !is_location(path) {
            return self.system.open_writable(path);
        }
        let opened = self.open_at(&location(path)?, false);
        opened.map_err(|error| open_error(path, error))
    }

    fn list(&self, path: &Path) -> std::result::Result<Option<Vec<Entry>>, DeviceError> {
        match is_location(path) {
            true => Ok(None),
            false => self.system.list(path),
        }
    }
}

fn env() -> Arc<dyn Env> {
    Arc::new(RealEnv::new())
}

/// Where devices keep what they have on this side; `None` for users without a home.
fn state_directory() -> Option<PathBuf> {
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = match absolute("XDG_STATE_HOME") {
        Some(path) => path,
        None if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib"),
        None => absolute("HOME")?.join(".local/state"),
    };
    Some(state.join("cenote/cloud"))
}

fn location(path: &Path) -> std::result::Result<Location, DeviceError> {
    let location = Location::parse(&path.to_string_lossy());
    location.map_err(|error| DeviceError::Open {
        path: path.into(),
        source: io::Error::new(io::ErrorKind::InvalidInput, error),
    })
}

fn open_error(path: &Path, error: CloudError) -> DeviceError {
    let kind = match &error {
        CloudError::NoDevice { .. } => io::ErrorKind::NotFound,
        CloudError::Held { .. } => io::ErrorKind::ResourceBusy,
        _ => io::ErrorKind::Other,
    };
    DeviceError::Open {
        path: path.into(),
        source: io::Error::new(kind, error),
    }
}
