//! A device that lost its content while its pool has it open, and is to be replaced with itself.
//!
//! What a pool has open nobody else may take, whatever its labels say: they may be damaged. One
//! whose labels are all gone has nothing of the pool any more, and who says that it is to replace
//! itself knows. So the pool lets it go as a faulted one, and finds a blank device in its place.

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

/// Has the pool let a device go that is in use without labels, if it is the one at `place`.
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
    // What cannot be read is not known to be empty; why, who opens it next says.
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
