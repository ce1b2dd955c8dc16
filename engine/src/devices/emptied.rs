//! Replaces a device with itself, after it lost its content while its pool had it open.
//!
//! A device that a pool has open cannot be used for anything else, even without valid labels: they
//! may be damaged. But if all labels are gone, it has no data of the pool any more, and a request
//! to replace it with itself confirms that. So the pool faults and closes it, and finds a blank
//! device in its place.

use crate::clouds::opener::outside_stores;
use crate::context::Context;
use crate::errors::unchanged;
use crate::registry::imported::Imported;
use cenote_base::Guid;
use cenote_control::model::ControlError;
use cenote_device::Opener;
use cenote_pool::{Actor, Offline};
use cenote_vdev::DeviceLabels;
use std::path::Path;

/// Makes the pool close a device in use that has lost its labels, if it is the one at `place`.
///
/// # Errors
/// If the pool needs what the device still has.
pub(super) fn let_go(
    context: &Context,
    imported: &Imported,
    device: Guid,
    (own, place): (Option<&str>, &str),
    actor: &Actor,
) -> Result<(), ControlError> {
    let is_itself = own == Some(place);
    if !is_itself || !imported.pool.vdevs().is_open(device) {
        return Ok(());
    }
    // If it cannot be read, it may not be empty; the next open reports the error.
    let Ok(opened) = outside_stores(&context.clouds).open(Path::new(place)) else {
        return Ok(());
    };
    if DeviceLabels::read(opened.as_ref())
        .newest_config()
        .is_some()
    {
        return Ok(());
    }
    let how = Offline {
        is_temporary: true,
        is_fault: true,
    };
    let done = imported.pool.offline(device, how, (actor, ""));
    done.map_err(unchanged)
}
