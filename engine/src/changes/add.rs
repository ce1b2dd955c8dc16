//! Vdevs added to a pool.

use super::By;
use super::pool_settings::ashift;
use super::pools::of_create;
use super::replication::mismatch_with;
use crate::Engine;
use crate::errors::of_dsl;
use crate::registry::Imported;
use cenote_control::model::{AddedVdevs, ControlError, Response};
use cenote_dsl::Stored;
use cenote_pool::AddRequest;

impl Engine {
    pub(super) fn add_vdevs(
        &self,
        new: &AddedVdevs,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let imported = self.registry.pool(&new.pool)?;
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
        let tops = &imported.pool.vdev_tree().children;
        let mismatch = mismatch_with(tops, &new.vdevs);
        let devices = self.open_devices(&new.vdevs, mismatch, new.force)?;
        if new.dry_run {
            return Ok(Response::Done);
        }
        let request = AddRequest {
            vdevs: devices.vdevs,
            spares: devices.spares,
            cache_devices: devices.caches,
            ashift: (shift > 0).then_some(shift),
        };
        let added = imported.pool.add(&request, &by.actor, by.command);
        added.map_err(of_create)?;
        self.note_in_cache_file(&imported);
        self.events.post("sysevent.fs.zfs.vdev_add", &imported);
        Ok(Response::Done)
    }
}

/// What the pool's property says of new vdevs; 0 to choose by the devices.
fn default_ashift(imported: &Imported) -> Result<u32, ControlError> {
    let properties = imported.dsl().pool_properties().map_err(of_dsl)?;
    Ok(match properties.get("ashift") {
        Some(Stored::Number(shift @ 9..=16)) => u32::try_from(*shift).unwrap_or(0),
        _ => 0,
    })
}
