//! Devices that have become larger: `zpool online`, and the property `autoexpand`.

use super::{By, note, of_sync, refused};
use crate::Engine;
use crate::events::Events;
use crate::registry::Imported;
use crate::vdev_properties::answers_to;
use crate::vdevs::{all_vdevs, vdev_tree};
use cenote_base::{Guid, VdevId};
use cenote_control::model::{ControlError, OnlineDevices, Response, Vdev, VdevState};
use cenote_dsl::Stored;
use cenote_pool::Actor;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

const AUTOEXPAND: &str = "autoexpand";
const ON: Stored = Stored::Number(1);
/// How often devices are asked for their size.
const PERIOD: Duration = Duration::from_secs(2);

/// Whether a pool's devices are watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: Mutex<WatchState>,
}

#[derive(Debug, Default)]
struct WatchState {
    is_wanted: bool,
    has_thread: bool,
}

impl Watch {
    /// Notes whether it is wanted; whether a thread is to be started for it.
    fn want(&self, is_wanted: bool) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_wanted = is_wanted;
        let starts = is_wanted && !state.has_thread;
        state.has_thread |= starts;
        starts
    }

    /// There is no thread after all.
    fn give_up(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = WatchState::default();
    }

    /// Whether the thread goes on.
    fn goes_on(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_thread = state.is_wanted;
        state.is_wanted
    }
}

/// Expands a pool's vdevs whenever their devices have grown.
fn watch(pool: &Weak<Imported>, events: &Events) {
    loop {
        {
            let Some(imported) = pool.upgrade() else {
                return;
            };
            if !imported.growth.goes_on() {
                return;
            }
            if let Err(error) = expand_all(&imported, events) {
                let name = imported.name();
                eprintln!("cenote: pool '{name}' does not expand any more: {error}");
                imported.growth.give_up();
                return;
            }
        }
        std::thread::sleep(PERIOD);
    }
}

fn expand_all(imported: &Arc<Imported>, events: &Events) -> Result<(), cenote_pool::SyncError> {
    if imported.pool.suspended().is_some() {
        return Ok(());
    }
    if imported.pool.expand(None, &Actor::default(), "")? {
        events.post("sysevent.fs.zfs.vdev_autoexpand", imported);
    }
    Ok(())
}

/// Whether `vdev` or something below it is `guid`.
fn contains(vdev: &Vdev, guid: u64) -> bool {
    vdev.guid == guid || vdev.children.iter().any(|child| contains(child, guid))
}

impl Engine {
    /// Watches a pool's devices, or not any more, as its property `autoexpand` says.
    pub(super) fn obey_autoexpand(&self, imported: &Arc<Imported>) {
        // A pool whose properties cannot be read stays as it is.
        let properties = imported.dsl().pool_properties().unwrap_or_default();
        let is_on = properties.get(AUTOEXPAND) == Some(&ON);
        if !imported.growth.want(is_on && imported.pool.is_writable()) {
            return;
        }
        let (pool, events) = (Arc::downgrade(imported), Arc::clone(&self.events));
        let thread = std::thread::Builder::new().name("vdev_autoexpand".to_owned());
        if let Err(error) = thread.spawn(move || watch(&pool, &events)) {
            let name = imported.name();
            eprintln!("cenote: the devices of pool '{name}' are not watched: {error}");
            imported.growth.give_up();
        }
    }

    /// Uses devices again, and with `expand` all that they have become. The answer tells in which
    /// state each is.
    pub(super) fn online(
        &self,
        online: &OnlineDevices,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let imported = self.registry.writable_pool(&online.pool)?;
        let (mut states, mut failures) = (Vec::new(), Vec::new());
        for device in &online.devices {
            match self.online_device(&imported, device, online.expand) {
                Ok(state) => states.push((device.clone(), state)),
                Err(error) => failures.push((device.clone(), error)),
            }
        }
        if failures.is_empty() {
            note(&imported, by);
        }
        Ok(Response::Online { states, failures })
    }

    fn online_device(
        &self,
        imported: &Arc<Imported>,
        device: &str,
        expand: bool,
    ) -> Result<VdevState, ControlError> {
        let tree = vdev_tree(&imported.pool);
        let found = all_vdevs(&tree)
            .into_iter()
            .find(|vdev| answers_to(vdev, device) && vdev.children.is_empty());
        let vdev = found.ok_or_else(|| ControlError::NoSuchDevice {
            device: device.to_owned(),
            pool: imported.name().to_owned(),
        })?;
        let guid = Guid(vdev.guid);
        if vdev.state == VdevState::Offline {
            return Err(refused(
                "it was taken offline, and what it missed since cannot be copied to it yet",
            ));
        }
        let pool = &imported.pool;
        let is_silent = || pool.vdevs().silent_leaves().contains(&guid);
        if is_silent() {
            let cleared = pool.clear(&[guid]);
            // What it says of other devices is not this command's affair.
            match cleared {
                Err(error) if is_silent() => return Err(refused(error)),
                _ if is_silent() => return Ok(VdevState::CantOpen),
                _ => {}
            }
        }
        let top = tree.root.children.iter().find(|top| contains(top, guid.0));
        if let Some(top) = top.filter(|_| expand) {
            let expanded = pool.expand(Some(&[VdevId(top.id)]), &Actor::default(), "");
            expanded.map_err(|error| of_sync(imported.name(), error))?;
        }
        self.events.post("sysevent.fs.zfs.vdev_online", imported);
        let tree = vdev_tree(pool);
        let now = all_vdevs(&tree)
            .into_iter()
            .find(|vdev| vdev.guid == guid.0);
        Ok(now.map_or(VdevState::CantOpen, |vdev| vdev.state))
    }
}
