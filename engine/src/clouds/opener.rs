//! The opener of an import: files, disks, stores and exports of NBD servers, each by the name that
//! was given for it.
//!
//! Labels keep the place of a device only. What a name says beside that holds for the import, and
//! for devices that come back while the pool is open.

use super::own_disks::Foreign;
use super::table::{Clouds, EXPORTS, Held, How};
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_cloud::location::{SCHEMES, is_location, place};
use cenote_cloud::{CloudDevice, CloudError, OffsetOpener, Schemes};
use cenote_device::{Device, DeviceError, Entry, Opener, SystemOpener};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens devices of the system, of stores and in the network.
#[derive(Debug)]
pub(crate) struct AllOpener {
    stores: Arc<Stores>,
    schemes: Schemes,
    /// Where in files and disks devices begin, in bytes.
    offset: u64,
}

/// Opens exports of NBD servers, one for writing at a time.
#[derive(Debug)]
struct Exports(Arc<Clouds>);

impl Opener for Exports {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        EXPORTS.open(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        Ok(self.0.open_export(path)?)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        EXPORTS.list(path)
    }
}

/// Opens devices that are in no store: files, disks, exports of NBD servers.
pub(crate) fn outside_stores(clouds: &Arc<Clouds>) -> Schemes {
    let disks = Foreign::new(Arc::new(SystemOpener::default()), &clouds.own_disks);
    with_exports(Schemes::new(Arc::new(disks)), clouds)
}

fn with_exports(schemes: Schemes, clouds: &Arc<Clouds>) -> Schemes {
    let exports: Arc<dyn Opener> = Arc::new(Exports(Arc::clone(clouds)));
    schemes.with_nbd(&exports)
}

/// Opens the devices in stores that an import is about.
#[derive(Debug)]
struct Stores {
    clouds: Arc<Clouds>,
    /// Names that say more than their place.
    names: BTreeMap<PathBuf, PathBuf>,
    /// Whether devices in stores are taken over when they are opened for reading.
    takes: Option<How>,
    how: How,
    held: Mutex<Held, ranks::HeldStores>,
    /// Devices in stores that were opened for reading, for their state.
    looked_at: Mutex<BTreeMap<PathBuf, Arc<CloudDevice>>, ranks::SeenStores>,
}

impl AllOpener {
    /// Opens what is named in `words`, files and disks from `offset` on; with the places to look
    /// at.
    pub fn new(clouds: &Arc<Clouds>, words: &[PathBuf], offset: u64) -> (Self, Vec<PathBuf>) {
        let named = words.iter().filter(|word| is_location(word));
        let stores = Stores {
            clouds: Arc::clone(clouds),
            names: named.map(|word| (place(word), word.clone())).collect(),
            takes: None,
            how: How::default(),
            held: Mutex::default(),
            looked_at: Mutex::default(),
        };
        let places = words.iter().map(|word| place(word)).collect();
        (Self::with_stores(stores, offset), places)
    }

    fn with_stores(stores: Stores, offset: u64) -> Self {
        let stores = Arc::new(stores);
        let clouds = Arc::clone(&stores.clouds);
        let opener = Arc::clone(&stores) as Arc<dyn Opener>;
        let disks = Foreign::new(Arc::new(OffsetOpener::new(offset)), &clouds.own_disks);
        let schemes = Schemes::new(Arc::new(disks));
        Self {
            stores,
            schemes: with_exports(schemes.with(&SCHEMES, &opener), &clouds),
            offset,
        }
    }

    /// The same, but devices in stores are taken over when they are opened for reading: this shows
    /// the data in their local logs.
    pub fn taking(&self, how: How) -> Self {
        let stores = Stores {
            clouds: Arc::clone(&self.stores.clouds),
            names: self.stores.names.clone(),
            takes: Some(how),
            how,
            held: Mutex::default(),
            looked_at: Mutex::new(std::mem::take(&mut *self.stores.looked_at())),
        };
        Self::with_stores(stores, self.offset)
    }

    /// What was taken over so far.
    pub fn take_held(&self) -> Held {
        let mut held = self.stores.held.lock();
        std::mem::take(&mut *held)
    }
}

impl Stores {
    /// The name that was given for a place.
    fn name(&self, path: &Path) -> PathBuf {
        let name = self.names.get(path).cloned();
        name.unwrap_or_else(|| path.into())
    }

    fn looked_at(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<CloudDevice>>> {
        self.looked_at.lock()
    }

    fn look_at(&self, path: &Path) -> Result<Arc<dyn Device>, CloudError> {
        let device = self.clouds.open_to_read(&self.name(path))?;
        self.looked_at().insert(path.into(), Arc::clone(&device));
        Ok(device)
    }

    fn hold(&self, path: &Path, how: How) -> Result<Arc<dyn Device>, CloudError> {
        let before = self.looked_at().remove(path);
        let known = before.and_then(|device| device.take_known());
        let device = self.clouds.open_to_write(&self.name(path), how, known)?;
        let mut held = self.held.lock();
        held.push(&device);
        Ok(device)
    }
}

impl Opener for Stores {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let opened = match self.takes {
            Some(how) => self.hold(path, how),
            None => self.look_at(path),
        };
        opened.map_err(|error| error.on_opening(path))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let opened = self.clouds.open_to_write(&self.name(path), self.how, None);
        let opened = opened.map(|device| device as Arc<dyn Device>);
        opened.map_err(|error| error.on_opening(path))
    }

    fn list(&self, _path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        Ok(None)
    }
}

impl Opener for AllOpener {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.schemes.open(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.schemes.open_writable(path)
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        self.schemes.identity(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.schemes.list(path)
    }
}
