//! The search for devices of pools.

use crate::registry::cache_file;
use cenote_control::model::{ControlError, Search};
use cenote_device::{Device, DeviceError, Entry, Opener, SystemOpener, WindowDevice};
use cenote_ondisk::pool_config::PoolState;
use cenote_pool::{PoolCandidate, assemble};
use cenote_vdev::{Scan, scan};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where devices are looked for when no place is named.
const PLACES: [&str; 2] = ["/dev/disk/by-id", "/dev"];

/// Devices that a line about what was not looked at names.
const NAMED_MAX: usize = 8;

/// Opens devices as of a byte offset: pools inside images.
#[derive(Debug)]
struct OffsetOpener {
    system: SystemOpener,
    offset: u64,
}

impl Opener for OffsetOpener {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let device = self.system.open(path)?;
        Ok(match self.offset {
            0 => device,
            offset => Arc::new(WindowDevice::new(device, offset, None)?),
        })
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.system.list(path)
    }
}

/// What a search came to.
pub(crate) struct Found {
    /// The pools.
    pub candidates: Vec<PoolCandidate>,
    /// Places that could not be looked at, and why, a line each.
    pub unreadable: Vec<String>,
}

/// Looks for devices of pools.
pub(crate) fn find(search: &Search) -> Result<Found, ControlError> {
    let paths: Vec<PathBuf> = match search.paths.is_empty() {
        _ if search.cache_file.is_some() => {
            let file = search.cache_file.as_deref().unwrap_or_default();
            cache_file::places(Path::new(file))?
        }
        false => search.paths.iter().map(PathBuf::from).collect(),
        true => {
            let places = PLACES.iter().map(PathBuf::from);
            places.filter(|place| place.exists()).collect()
        }
    };
    let opener = OffsetOpener {
        system: SystemOpener::default(),
        offset: search.offset,
    };
    let found: Scan = scan(&paths, &opener);
    let unreadable = unreadable(search, &found.failures);
    let mut candidates = assemble(found);
    let destroyed = |candidate: &PoolCandidate| candidate.config.state == PoolState::Destroyed;
    candidates.retain(|candidate| destroyed(candidate) == search.destroyed);
    Ok(Found {
        candidates,
        unreadable,
    })
}

/// Failures that a person should know of: of places that were named, and for want of permission.
/// Drives without a medium and the like are passed over.
fn unreadable(search: &Search, failures: &[DeviceError]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut denied: Vec<String> = Vec::new();
    for failure in failures {
        let (path, reason) = match failure {
            DeviceError::Open { path, source } => (Some(path), source.kind()),
            _ => (None, ErrorKind::Other),
        };
        let is_named = path.is_none_or(|path| {
            let mut named = search.paths.iter();
            named.any(|named| Path::new(named) == path)
        });
        match is_named && !search.paths.is_empty() {
            true => lines.push(failure.to_string()),
            false if reason == ErrorKind::PermissionDenied => {
                denied.extend(path.map(|path| path.display().to_string()));
            }
            false => {}
        }
    }
    if !denied.is_empty() {
        let more = match denied.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        denied.truncate(NAMED_MAX);
        let named = denied.join(", ");
        lines.push(format!(
            "cannot be opened: permission denied: {named}{more}"
        ));
    }
    lines
}
