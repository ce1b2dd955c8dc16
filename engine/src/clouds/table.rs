//! The devices in stores and in the network that are open for writing, by their places.
//!
//! Each device in a store is opened only once: a search that has opened it and the import behind it
//! use the same. The table does not keep a device; its pool does.
//!
//! NBD has no locks, so the table is the lock of exports: one that is open for writing here cannot
//! be opened again, like a file. After an interruption the client repeats unflushed writes, which
//! would overwrite those of a second writer.

use super::own_disks::OwnDisks;
use cenote_base::rt::{self, Mutex, MutexGuard, ranks};
use cenote_base::settings;
use cenote_cloud::location::{Location, is_location, place};
use cenote_cloud::{
    CloudDevice, CloudError, Known, Opening, Options, Result, StoreOpener, WriteMode,
};
use cenote_device::DeviceError;
use cenote_nbd_client::{NbdDevice, NbdOpener};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long an open waits until the same device is released.
const LEAVE_WAIT: Duration = Duration::from_secs(10);
/// How often to check whether it is closed.
const LEAVE_POLL: Duration = Duration::from_millis(10);

/// How long a store may take to answer when a device is released after a failed open.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// How a device is opened, beside what its name and the settings say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Take it over from a writer that did not release it.
    pub is_forced: bool,
    /// Flushes wait for the store, unless the name says otherwise.
    pub is_writethrough: bool,
}

/// The devices that are open for writing.
#[derive(Debug)]
pub(crate) struct Clouds {
    stores: StoreOpener,
    open: Mutex<Open, ranks::Clouds>,
    /// Disks of this machine that are volumes of this daemon.
    pub own_disks: Arc<OwnDisks>,
}

#[derive(Debug, Default)]
struct Open {
    stores: BTreeMap<PathBuf, Weak<CloudDevice>>,
    exports: Vec<Weak<NbdDevice>>,
}

impl Clouds {
    /// An empty table. What devices have on this side is below `state`, or where the system keeps
    /// such things.
    pub fn new(state: Option<&Path>, own_disks: Arc<OwnDisks>) -> Self {
        let stores = StoreOpener::new(false);
        Self {
            stores: match state {
                Some(state) => stores.with_state(&state.join("cloud")),
                None => stores,
            },
            open: Mutex::default(),
            own_disks,
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }

    /// Opens an export of an NBD server for writing.
    pub fn open_export(&self, path: &Path) -> std::result::Result<Arc<NbdDevice>, DeviceError> {
        // Only a connection shows which export a name means.
        let device = EXPORTS.open_device(path)?;
        let mut open = self.open();
        open.exports.retain(|device| device.strong_count() > 0);
        let others = open.exports.iter().filter_map(Weak::upgrade);
        let others = others.filter(|other| other.identity() == device.identity());
        let others: Vec<Arc<NbdDevice>> = others.collect();
        let is_free = !others.iter().any(|other| other.is_in_use());
        if is_free {
            open.exports.push(Arc::downgrade(&device));
        }
        drop(open);
        if !is_free {
            return Err(DeviceError::InUse { path: path.into() });
        }
        others.iter().for_each(|other| other.give_way());
        Ok(device)
    }

    /// The device at a place, if it is open for writing.
    pub fn device(&self, path: &Path) -> Option<Arc<CloudDevice>> {
        self.open().stores.get(&place(path))?.upgrade()
    }

    /// Opens a device for reading, as of its newest commit.
    pub fn open_to_read(&self, name: &Path) -> Result<Arc<CloudDevice>> {
        let mut opening = opening(How::default());
        opening.options.is_read_only = true;
        self.stores.open_device(name, &opening)
    }

    /// Opens a device for writing, or gives the one that is open.
    pub fn open_to_write(
        &self,
        name: &Path,
        how: How,
        known: Option<Known>,
    ) -> Result<Arc<CloudDevice>> {
        let place = place(name);
        if let Some(device) = self.device(&place)
            && device.is_usable()
        {
            return Ok(device);
        }
        self.wait_for_leave(&place);
        let device = self.stores.open_known(name, &opening(how), known)?;
        let stores = &mut self.open().stores;
        stores.retain(|_, device| device.strong_count() > 0);
        stores.insert(place, Arc::downgrade(&device));
        Ok(device)
    }

    /// The same, made before if its store has none.
    pub fn make(&self, name: &Path, how: How) -> Result<Arc<CloudDevice>> {
        if self.device(name).is_none() {
            match self.stores.create_device(name, &opening(how)) {
                Ok(()) | Err(CloudError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.open_to_write(name, how, None)
    }

    /// Waits until a device that is being released no longer uses its local directory.
    fn wait_for_leave(&self, place: &Path) {
        let rounds = LEAVE_WAIT.as_millis() / LEAVE_POLL.as_millis();
        for _ in 0..rounds {
            let entry = self.open().stores.get(place).cloned();
            if entry.is_none_or(|device| device.strong_count() == 0) {
                return;
            }
            rt::sleep(LEAVE_POLL);
        }
    }
}

/// Opens exports of other processes.
pub(super) const EXPORTS: NbdOpener = NbdOpener {
    must_be_foreign: true,
};

/// Devices that were opened for something that may fail: then they are released again.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<Arc<CloudDevice>>);

impl Held {
    /// Adds one.
    pub fn push(&mut self, device: &Arc<CloudDevice>) {
        self.0.push(Arc::clone(device));
    }

    /// It succeeded: a pool owns them now.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Held {
    /// Returns once all that was written to them is in their stores.
    ///
    /// # Errors
    /// What keeps a device from being changed any more.
    pub fn upload(&self) -> std::result::Result<(), Arc<CloudError>> {
        self.0.iter().try_for_each(|device| device.upload())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for device in self.0.drain(..) {
            // If releasing it fails, the next open reports the reason.
            let _ = device.close_within(RELEASE_PATIENCE);
        }
    }
}

/// How the settings have devices opened.
fn opening(how: How) -> Opening {
    let rate = |setting: &settings::Setting| Some(setting.get()).filter(|rate| *rate > 0);
    let mut options = Options {
        mode: match how.is_writethrough {
            true => WriteMode::Writethrough,
            false => WriteMode::Writeback,
        },
        is_forced: how.is_forced,
        batch_age: Duration::from_secs(settings::CLOUD_COMMIT_SECONDS.get()),
        ..Options::default()
    };
    options.rates.upload = rate(&settings::CLOUD_UPLOAD_RATE);
    options.rates.download = rate(&settings::CLOUD_DOWNLOAD_RATE);
    Opening {
        options,
        log_bytes: settings::CLOUD_LOG_BYTES.get(),
        cache_bytes: settings::CLOUD_CACHE_BYTES.get(),
    }
}

/// Whether a word names a device in a store.
pub(crate) fn is_in_store(path: &str) -> bool {
    is_location(Path::new(path))
}

/// Parses the name of a device in a store.
pub(crate) fn parse(name: &str) -> std::result::Result<Location, String> {
    Location::parse(name).map_err(|error| error.to_string())
}
