//! The devices in stores that imported pools have.

use super::table::{Clouds, is_in_store};
use crate::registry::imported::Imported;
use cenote_cloud::CloudDevice;
use cenote_control::model::{ControlError, StoreRefusal, StoreStatus};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Damaged objects that are named.
const DAMAGED_MAX: usize = 20;

/// The devices in stores that a pool has open for writing, by their places.
pub(crate) fn devices_of(clouds: &Clouds, imported: &Imported) -> Vec<(String, Arc<CloudDevice>)> {
    let tree = imported.pool.vdev_tree();
    let leaves = tree.leaves();
    let paths: BTreeSet<PathBuf> = leaves.filter_map(|leaf| leaf.path.clone()).collect();
    let places = paths
        .into_iter()
        .filter(|path| is_in_store(&path.to_string_lossy()));
    let found = places.filter_map(|path| {
        let device = clouds.device(&path)?;
        Some((path.to_string_lossy().into_owned(), device))
    });
    found.collect()
}

/// Refuses to give a pool more devices while one in a store has flushes done before the store has
/// them.
pub(crate) fn check_others(clouds: &Clouds, imported: &Imported) -> Result<(), ControlError> {
    for (place, device) in devices_of(clouds, imported) {
        if !device.status().is_writethrough {
            return Err(StoreRefusal::OpenWriteback { place }.into());
        }
    }
    Ok(())
}

/// How the devices in stores are that a pool has open for writing.
pub(crate) fn stores_of(clouds: &Clouds, imported: &Imported) -> Vec<StoreStatus> {
    let devices = devices_of(clouds, imported).into_iter();
    devices
        .map(|(place, device)| status(place, &device))
        .collect()
}

/// How a device in a store is.
pub(crate) fn status(place: String, device: &CloudDevice) -> StoreStatus {
    let status = device.status();
    let seconds = |time: Duration| time.as_secs();
    let damaged = status.damaged.into_iter().take(DAMAGED_MAX);
    let damaged = damaged.map(|object| (object.key, object.what));
    StoreStatus {
        place,
        uuid: status.uuid.to_string(),
        size: status.size,
        commit: status.commit.0,
        host: status.host,
        written: status.written,
        released: status.is_released,
        read_only: status.is_read_only,
        writethrough: status.is_writethrough,
        pending_bytes: status.pending_bytes,
        pending_seconds: status.pending_age.map(seconds),
        log_used: status.log.map(|(used, _)| used),
        log_size: status.log.map(|(_, size)| size),
        unreachable_seconds: status.unreachable_for.map(seconds),
        awaited: status
            .awaited
            .map(|(object, waited)| (object.key, seconds(waited), object.error)),
        last_error: status.store.last_error,
        damaged: damaged.collect(),
        damaged_count: status.damaged_count,
        put_again: status.loss.as_ref().map_or(0, |loss| loss.put_again),
        lost: status.loss.map(|loss| loss.what),
        failure: status.failure,
        log_aside: device.log_aside().map(|log| log.name.clone()),
        log_aside_bytes: device.log_aside().map_or(0, |log| log.bytes),
    }
}
