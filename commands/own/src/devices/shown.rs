//! A device of any kind that a command shows to other programs.
//!
//! Files and disks that the kernel uses are not opened for writing. A device in a store is created
//! if it does not exist and its name has a size. It belongs to the command until it is closed.
//! Exports of NBD servers are passed through.

use cenote_cloud::location::is_location;
use cenote_cloud::{Close, CloudDevice, CloudError, LOG_SIZE, Opening, Schemes, StoreOpener};
use cenote_connect::places::state_directory_of_process;
use cenote_device::{Device, FileOptions, Opener, SystemOpener, kernel_use};
use cenote_nbd_client::NbdOpener;
use cenote_words::context::{Outcome, failed};
use std::path::Path;
use std::sync::Arc;

/// Refuses to write to a device or file that the kernel uses: for example, a loop device would
/// write to it, too.
///
/// The kernel's use of it.
pub fn check_free(name: &str, is_read_only: bool) -> Result<(), String> {
    match kernel_use(Path::new(name)).filter(|_| !is_read_only) {
        None => Ok(()),
        Some(used) => Err(format!(
            "cannot show {name} for writing: it {used}. Free it first, or use --readonly"
        )),
    }
}

/// An open device.
pub struct Shown {
    /// The device.
    pub device: Arc<dyn Device>,
    store: Option<Arc<CloudDevice>>,
    is_read_only: bool,
}

impl Shown {
    /// Opens a device by name.
    ///
    /// A message for the user why it cannot be opened.
    pub fn open(name: &str, is_read_only: bool, is_forced: bool) -> Result<Self, String> {
        let path = Path::new(name);
        if is_location(path) {
            let store = open_store(path, is_read_only, is_forced)?;
            return Ok(Self {
                device: Arc::clone(&store) as Arc<dyn Device>,
                store: Some(store),
                is_read_only,
            });
        }
        check_free(name, is_read_only)?;
        let files = SystemOpener {
            options: FileOptions::default(),
        };
        let exports: Arc<dyn Opener> = Arc::new(NbdOpener::default());
        let opener = Schemes::new(Arc::new(files)).with_nbd(&exports);
        let device = match is_read_only {
            true => opener.open(path),
            false => opener.open_writable(path),
        };
        Ok(Self {
            device: device.map_err(|error| error.to_string())?,
            store: None,
            is_read_only,
        })
    }

    /// Flushes the device and releases it for others.
    pub fn close(&self) -> Outcome {
        if self.is_read_only {
            return Ok(0);
        }
        if let Err(error) = self.device.flush() {
            return failed(error.to_string());
        }
        match self.store.as_ref().map(|store| store.close(Close::Upload)) {
            Some(Err(error)) => failed(error.to_string()),
            _ => Ok(0),
        }
    }
}

fn open_store(
    path: &Path,
    is_read_only: bool,
    is_forced: bool,
) -> Result<Arc<CloudDevice>, String> {
    let mut opening = Opening {
        log_bytes: LOG_SIZE,
        ..Opening::default()
    };
    opening.options.is_read_only = is_read_only;
    opening.options.is_forced = is_forced;
    let opener = StoreOpener::new(false);
    let opener = match state_directory_of_process() {
        Some(state) => opener.with_state(&state.join("cloud")),
        None => opener,
    };
    let has_size = path.to_string_lossy().contains("size=");
    let made = match has_size && !is_read_only {
        true => match opener.create_device(path, &opening) {
            Ok(()) | Err(CloudError::Exists { .. }) => Ok(()),
            Err(error) => Err(error),
        },
        false => Ok(()),
    };
    let opened = made.and_then(|()| opener.open_device(path, &opening));
    opened.map_err(|error| error.to_string())
}
