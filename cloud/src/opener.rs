//! Opens devices of stores by name: the opener of [`SCHEMES`](crate::location::SCHEMES).
//!
//! A reader gets the device as of its newest commit, and blocks no other machine. A writer uses a
//! local directory, too: `/var/lib/cenote/cloud` for root, and for others
//! `$XDG_STATE_HOME/cenote/cloud` or `~/.local/state/cenote/cloud`, and there a directory for each
//! device and way to it. When the device is unlocked everything is uploaded, and it is released.

use crate::device::CloudDevice;
use crate::error::{CloudError, Result};
use crate::format::Hash;
use crate::format::device::Identity;
use crate::local::{DirectoryPlace, Place};
use crate::location::{Location, StoreName};
use crate::open::Known;
use crate::options::Options;
use crate::store::s3::{BucketStore, Surroundings};
use crate::store::{DirectoryStore, Store};
use cenote_base::{Env, RealEnv};
use cenote_device::{Device, DeviceError, Entry, Opener};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Default size of a local log in bytes.
pub const LOG_SIZE: u64 = 256 << 20;

/// How a device of a store is opened, beside what its name says.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How. What the name says goes before.
    pub options: Options,
    /// Bytes of a local log that has to be made.
    pub log_bytes: u64,
    /// Bytes of the read cache on disk; 0 for none.
    pub cache_bytes: u64,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            options: Options::default(),
            log_bytes: LOG_SIZE,
            cache_bytes: 0,
        }
    }
}

/// Opens devices of stores.
#[derive(Clone, Debug)]
pub struct StoreOpener {
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
        let fail = |error: CloudError| error.on_opening(path);
        let location = location(path)?;
        if let Some(size) = location.size {
            let made = self.create(&location, size, &Options::default());
            match made {
                Ok(()) | Err(CloudError::Exists { .. }) => {}
                Err(error) => return Err(fail(error)),
            }
        }
        self.open_at(&location, false).map_err(fail)
    }

    /// Makes the device that a name says, if its store has none.
    ///
    /// # Errors
    /// If the name has no size; if the store does not do what is needed.
    pub fn create_device(&self, path: &Path, opening: &Opening) -> Result<()> {
        let location = location(path)?;
        match location.size {
            Some(size) => self.create(&location, size, &opening.options),
            None => self.store(&location, false).map(drop),
        }
    }

    /// Opens the device of a store by its name.
    ///
    /// # Errors
    /// As [`CloudDevice::open`]; if it is no name of a device in a store.
    pub fn open_device(&self, path: &Path, opening: &Opening) -> Result<Arc<CloudDevice>> {
        self.open_with(&location(path)?, opening, None)
    }

    /// The same where something is known already of the device.
    ///
    /// # Errors
    /// As [`Self::open_device`].
    pub fn open_known(
        &self,
        path: &Path,
        opening: &Opening,
        known: Option<Known>,
    ) -> Result<Arc<CloudDevice>> {
        self.open_with(&location(path)?, opening, known)
    }

    fn open_at(&self, location: &Location, is_read_only: bool) -> Result<Arc<dyn Device>> {
        let options = Options {
            is_read_only,
            is_forced: self.is_forced,
            ..Options::default()
        };
        let opening = Opening {
            options,
            ..Opening::default()
        };
        let device = self.open_with(location, &opening, None)?;
        Ok(device)
    }

    fn open_with(
        &self,
        location: &Location,
        opening: &Opening,
        known: Option<Known>,
    ) -> Result<Arc<CloudDevice>> {
        let Reached { store, way } = self.store(location, false)?;
        let mut options = opening.options.clone();
        options.mode = location.mode.unwrap_or(options.mode);
        let log_size = location.log_size.unwrap_or(opening.log_bytes);
        let cache_size = opening.cache_bytes;
        let state = self.state.as_ref().filter(|_| log_size > 0);
        let place = |identity: &Identity| {
            let Some(state) = state else {
                return Ok(None);
            };
            let way = Hash::of(way.as_bytes()).short();
            let path = state.join(format!("{}-{way:016x}", identity.uuid));
            let place = DirectoryPlace::open(&path, log_size, cache_size)?;
            Ok(Some(Arc::new(place) as Arc<dyn Place>))
        };
        CloudDevice::open_known(store, place, options, &env(), known)
    }

    fn create(&self, location: &Location, size: u64, options: &Options) -> Result<()> {
        let Reached { store, .. } = self.store(location, true)?;
        CloudDevice::create(store, size, options, &env())?;
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
        let fail = |source| DeviceError::Open {
            path: directory.into(),
            source,
        };
        if !is_made && !is_directory(directory).map_err(fail)? {
            let store = directory.display().to_string();
            return Err(CloudError::NoDevice { store });
        }
        let store = DirectoryStore::new(directory).map_err(fail)?;
        Ok(Reached {
            store: Arc::new(store),
            way: directory.to_string_lossy().into_owned(),
        })
    }
}

impl Opener for StoreOpener {
    fn open(&self, path: &Path) -> std::result::Result<Arc<dyn Device>, DeviceError> {
        let opened = self.open_at(&location(path)?, true);
        opened.map_err(|error| error.on_opening(path))
    }

    fn open_writable(&self, path: &Path) -> std::result::Result<Arc<dyn Device>, DeviceError> {
        let opened = self.open_at(&location(path)?, false);
        opened.map_err(|error| error.on_opening(path))
    }

    fn list(&self, _path: &Path) -> std::result::Result<Option<Vec<Entry>>, DeviceError> {
        Ok(None)
    }
}

/// Whether there is a directory. One that cannot be looked at may be there.
fn is_directory(path: &Path) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(error),
        },
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
    // Root has one place, with a login's environment and without.
    let state = match absolute("XDG_STATE_HOME") {
        _ if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib"),
        Some(path) => path,
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
