//! Devices that have grown on their own: the property `autoexpand`.

use crate::events::Events;
use crate::registry::imported::Imported;
use cenote_base::rt::job::{Control, Next};
use cenote_dsl::Stored;
use cenote_pool::{Actor, SyncError};
use std::sync::{Arc, Weak};
use std::time::Duration;

const AUTOEXPAND: &str = "autoexpand";
const ON: Stored = Stored::Number(1);
/// How often the size of devices is checked.
const PERIOD: Duration = Duration::from_secs(2);

/// Expands a pool's vdevs if their devices have grown.
fn look(pool: &Weak<Imported>, events: &Events) -> Next {
    let Some(imported) = pool.upgrade() else {
        return Next::Done;
    };
    match expand_all(&imported, events) {
        Ok(()) => Next::After(PERIOD),
        // Continue when the pool resumes.
        Err(_) if imported.pool.suspended().is_some() => Next::After(PERIOD),
        Err(error) => {
            let name = imported.name();
            log::warn!("pool '{name}' does not expand any more: {error}");
            Next::Done
        }
    }
}

fn expand_all(imported: &Arc<Imported>, events: &Events) -> Result<(), SyncError> {
    if imported.pool.suspended().is_some() {
        return Ok(());
    }
    if imported.pool.expand(None, &Actor::default(), "")? {
        events.post("sysevent.fs.zfs.vdev_autoexpand", &imported.pool);
    }
    Ok(())
}

/// Watches a pool's devices, or not any more, as its property `autoexpand` says.
pub(crate) fn obey_autoexpand(events: &Arc<Events>, imported: &Arc<Imported>) {
    // A pool whose properties cannot be read stays as it is.
    let properties = imported.dsl().pool_properties().unwrap_or_default();
    let is_on = properties.get(AUTOEXPAND) == Some(&ON);
    if !is_on || !imported.pool.is_writable() {
        imported.growth.cancel();
        return;
    }
    let (pool, events) = (Arc::downgrade(imported), Arc::clone(events));
    let work = move |_: &Control| look(&pool, &events);
    if let Err(error) = imported.growth.start("vdev_autoexpand", work) {
        let name = imported.name();
        log::warn!("the devices of pool '{name}' are not watched: {error}");
    }
}
