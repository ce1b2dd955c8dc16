//! Which devices may stand beside one in a store.
//!
//! With a local log a flush is done before the store has it. If that log is lost, the device goes
//! back to an older state, alone. A pool of several devices would then be of two ages, so there
//! flushes have to wait for the store: `cache=writethrough`.

use super::table::{is_in_store, parse};
use cenote_cloud::WriteMode;
use cenote_control::model::{ControlError, NewVdev, NewVdevRole, StoreRefusal};
use cenote_ondisk::{VdevConfig, VdevKind};

/// Whether a pool has devices beside one in a store, so that flushes have to wait for the store.
pub(crate) fn wants_writethrough(tree: &VdevConfig) -> bool {
    let is_device = |leaf: &&VdevConfig| leaf.kind.is_device() || leaf.kind == VdevKind::Missing;
    tree.leaves().filter(is_device).count() > 1
}

fn unreachable(reason: String) -> StoreRefusal {
    StoreRefusal::Unreachable { reason }
}

/// Refuses an import that was asked to have writeback where it cannot be.
pub(crate) fn check_names(names: &[String], tree: &VdevConfig) -> Result<(), ControlError> {
    if !wants_writethrough(tree) {
        return Ok(());
    }
    for name in names.iter().filter(|name| is_in_store(name)) {
        let location = parse(name).map_err(unreachable)?;
        if location.mode == Some(WriteMode::Writeback) {
            let place = name.clone();
            return Err(StoreRefusal::NoWriteback { place }.into());
        }
    }
    Ok(())
}

/// Refuses new vdevs that may not have devices in object stores. `has_others` says whether the pool
/// has devices already.
pub(crate) fn check_new(new: &[NewVdev], has_others: bool) -> Result<(), ControlError> {
    let is_data = |vdev: &&NewVdev| !matches!(vdev.role, NewVdevRole::Spare | NewVdevRole::Cache);
    let in_stores = |vdev: &NewVdev| vdev.devices.iter().any(|device| is_in_store(device));
    if let Some(vdev) = new.iter().find(|vdev| !is_data(vdev) && in_stores(vdev)) {
        let place = vdev.devices.first().cloned().unwrap_or_default();
        return Err(StoreRefusal::NotAuxiliary { place }.into());
    }
    let devices = || new.iter().filter(is_data).flat_map(|vdev| &vdev.devices);
    let is_single = !has_others && devices().count() < 2;
    for device in devices().filter(|device| is_in_store(device)) {
        let location = parse(device).map_err(unreachable)?;
        if !is_single && location.mode != Some(WriteMode::Writethrough) {
            let place = device.clone();
            return Err(StoreRefusal::NeedsWritethrough { place }.into());
        }
    }
    Ok(())
}
