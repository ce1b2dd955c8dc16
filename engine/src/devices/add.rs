//! Vdevs added to a pool.

use super::open::{Destination, open_devices};
use super::replication::mismatch_with;
use crate::clouds::rules::check_new;
use crate::clouds::status::check_others;
use crate::command::By;
use crate::context::Context;
use crate::errors::{of_create, of_dsl};
use crate::registry::imported::Imported;
use cenote_control::model::{AddedVdevs, ControlError, Response};
use cenote_dsl::Stored;
use cenote_pool::AddRequest;

/// log2 of the allocation units that vdevs can have.
const ASHIFTS: std::ops::RangeInclusive<u64> = 9..=16;

pub(crate) fn add_vdevs(
    context: &Context,
    new: &AddedVdevs,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.pool(&new.pool)?;
    if !imported.pool.is_writable() {
        let pool = new.pool.clone();
        return Err(ControlError::PoolReadOnly { pool });
    }
    let mut shift = default_ashift(&imported)?;
    for (name, value) in &new.properties {
        if name != "ashift" {
            return Err(ControlError::BadValue {
                name: name.clone(),
                reason: format!("property '{name}' is not a valid pool or vdev property"),
            });
        }
        shift = ashift(name, value)?;
    }
    let tree = imported.pool.vdev_tree();
    let tops = &tree.children;
    let mismatch = mismatch_with(tops, &new.vdevs);
    check_new(&new.vdevs, true)?;
    check_others(&context.clouds, &imported)?;
    let devices = open_devices(
        context,
        &new.vdevs,
        mismatch,
        (new.allowed, new.dry_run),
        Destination::Added(imported.name()),
    )?;
    if new.dry_run {
        return Ok(Response::Done);
    }
    let request = AddRequest {
        vdevs: devices.vdevs,
        spares: devices.spares,
        cache_devices: devices.caches,
        ashift: (shift > 0).then_some(shift),
        is_mixed: new.allowed.ashift_mismatch,
    };
    let added = imported.pool.add(&request, &by.actor, by.command);
    added.map_err(of_create)?;
    devices.held.keep();
    context.registry.note_in_cache_file(&imported);
    context
        .events
        .post("sysevent.fs.zfs.vdev_add", &imported.pool);
    Ok(Response::Done)
}

/// What the pool's property says of new vdevs; 0 to choose by the devices.
fn default_ashift(imported: &Imported) -> Result<u32, ControlError> {
    let properties = imported.dsl().pool_properties().map_err(of_dsl)?;
    Ok(match properties.get("ashift") {
        Some(Stored::Number(shift @ 9..=16)) => u32::try_from(*shift).unwrap_or(0),
        _ => 0,
    })
}

/// log2 of an allocation unit; 0 to choose by the devices.
pub(crate) fn ashift(name: &str, value: &str) -> Result<u32, ControlError> {
    let bad = |reason: String| ControlError::BadValue {
        name: name.to_owned(),
        reason,
    };
    let Ok(shift) = value.parse::<u64>() else {
        return Err(bad(format!("{name} must be a number.")));
    };
    match shift == 0 || ASHIFTS.contains(&shift) {
        true => Ok(u32::try_from(shift).unwrap_or(0)),
        false => Err(bad(format!(
            "property '{name}' number {shift} is invalid, \
                 only values between 9 and 16 are allowed."
        ))),
    }
}
