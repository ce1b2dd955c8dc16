//! Pools that take no changes, as their devices are gone or damaged: what `failmode` says, and
//! `zpool clear`.

use crate::command::{By, note};
use crate::context::Context;
use crate::devices::tree::{all_vdevs, answers_to, vdev_tree};
use crate::errors::{outsider, unchanged};
use crate::registry::approvals::FAIL_MODE;
use crate::registry::imported::Imported;
use cenote_base::Guid;
use cenote_control::model::{ControlError, DeviceRefusal, Response, Vdev, VdevState};
use cenote_dsl::Stored;
use cenote_pool::{Actor, FailMode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CONTINUE: Stored = Stored::Number(1);

/// Adds a vdev and everything below it.
fn add_all_below(vdev: &Vdev, guids: &mut Vec<Guid>) {
    guids.push(Guid(vdev.guid));
    for child in &vdev.children {
        add_all_below(child, guids);
    }
}

/// Has a pool wait for its devices, or not, as its property `failmode` says.
///
/// That the daemon ends, with all that other pools serve, needs a yes from this machine.
pub(crate) fn obey_fail_mode(context: &Context, imported: &Arc<Imported>) {
    // Without its properties, what the pool does by default is the safest.
    let properties = imported.dsl().pool_properties().unwrap_or_default();
    let stored = properties.get(FAIL_MODE);
    let approved = context.registry.approvals.of_pool(imported);
    let panics = approved.may_panic(imported.dsl());
    imported.panics.store(panics, Ordering::Relaxed);
    let events = Arc::clone(&context.events);
    let pool = Arc::downgrade(imported);
    imported.pool.on_suspension(move |cause| {
        let Some(imported) = pool.upgrade() else {
            return;
        };
        let name = imported.name();
        log::error!("pool '{name}' is suspended: {cause}");
        if imported.panics.load(Ordering::Relaxed) {
            log::error!("the daemon ends, as failmode=panic of '{name}' demands");
            log::logger().flush();
            std::process::abort();
        }
        events.post("ereport.fs.zfs.io_failure", &imported.pool);
    });
    imported.pool.set_fail_mode(match stored {
        Some(value) if *value == CONTINUE => FailMode::Continue,
        _ => FailMode::Wait,
    });
}

/// Has devices that count as faulted, or were not there, used again.
fn use_again(imported: &Imported, meant: &[Guid]) -> Result<(), ControlError> {
    let tree = vdev_tree(&imported.pool);
    let shape = imported.pool.vdevs();
    let lost = all_vdevs(&tree).into_iter().filter(|vdev| {
        let lost = [VdevState::CantOpen, VdevState::Faulted, VdevState::Removed];
        let is_lost = lost.contains(&vdev.state);
        let is_meant = meant.is_empty() || meant.contains(&Guid(vdev.guid));
        vdev.kind.is_leaf() && is_lost && !shape.is_open(Guid(vdev.guid)) && is_meant
    });
    let lost = lost.map(|vdev| Guid(vdev.guid)).collect();
    // Devices that are still missing are skipped; the others are used again anyway.
    let looked = imported.pool.look_for(lost).unwrap_or_default();
    let by = (&Actor::default(), "");
    let cleared = imported.pool.clear_faults(meant, looked.devices, by);
    cleared.map_err(unchanged)?;
    let mut outsiders = looked.outsiders.iter();
    match outsiders.find(|outsider| !outsider.is_copy()) {
        Some(found) => Err(outsider(found)),
        None => Ok(()),
    }
}

pub(crate) fn clear_errors(
    context: &Context,
    pool: &str,
    device: Option<&str>,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.pool(pool)?;
    if !imported.pool.is_writable() {
        let pool = pool.to_owned();
        return Err(ControlError::PoolReadOnly { pool });
    }
    let tree = vdev_tree(&imported.pool);
    let mut meant = Vec::new();
    if let Some(name) = device {
        let vdevs = all_vdevs(&tree);
        let found = vdevs.into_iter().find(|vdev| answers_to(vdev, name));
        let vdev = found.ok_or(DeviceRefusal::NotInPool)?;
        add_all_below(vdev, &mut meant);
    }
    imported.pool.clear(&meant).map_err(unchanged)?;
    if imported.pool.suspended().is_none() {
        use_again(&imported, &meant)?;
    }
    note(&imported, by);
    context
        .events
        .post("sysevent.fs.zfs.vdev_clear", &imported.pool);
    Ok(Response::Done)
}
