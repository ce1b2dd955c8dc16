//! The daemon's engine: requests answered over the pools that are imported.
//!
//! [`Engine`] joins the layers below (pools, datasets, files) to the protocol's vocabulary. It
//! keeps a registry of pools, a table of mounts and a short memory of events; everything else is
//! read from the pools at each request. How a mount is made is behind [`Mounter`].
//!
//! Requests run side by side. What they read of a pool are handles of a moment; what they change
//! goes through the pool's syncing thread, one change after the other.

#![forbid(unsafe_code)]

mod accounts;
mod cache_file;
mod candidates;
mod changes;
mod compatibility;
mod damage;
mod dataset_properties;
mod datasets;
#[cfg(test)]
mod encryption_tests;
mod errors;
mod events;
mod fragmentation;
mod history;
mod import;
#[cfg(test)]
mod import_tests;
mod memory;
mod mount_options;
mod mounter;
mod mounts;
mod opened;
mod places;
mod pool_properties;
mod refusal;
mod registry;
mod replays;
mod secrets;
mod settings;
#[cfg(test)]
mod share_tests;
mod status;
#[cfg(test)]
mod tests;
mod vdev_properties;
mod vdevs;
mod verify;

pub use compatibility::{Compatibility, CompatibilityError, compatibility};
pub use damage::DamageLog;
pub use memory::{AmpleMemory, MEMORY_MIN, MemoryGauge};
pub use mounter::{MountJob, MountSwitches, Mounted, Mounter, NoMounter};
pub use settings::settings_list;

use cenote_base::Env;
use cenote_control::model::{ControlError, DaemonStatus, PoolActivity, Request, Response};
use cenote_control::protocol::{Peer, Reply, Service};
use cenote_pool::{Patience, set_patience};
use events::Events;
use memory::Memory;
use mounts::Mounts;
use registry::{Imported, Registry};
use std::sync::Arc;
use std::time::Duration;

/// What the daemon says about itself and allows pools.
#[derive(Default)]
pub struct EngineSettings {
    /// The program's version.
    pub version: String,
    /// Whether it leaves after its last pool is exported.
    pub auto: bool,
    /// Bytes for caches and buffers of all pools together; not set, 256 MiB.
    pub memory: Option<u64>,
    /// Whether `zfs_arc_max` may not exceed that.
    pub memory_is_given: bool,
    /// Tells when the system's memory runs short; not set, it never does.
    pub gauge: Option<Box<dyn MemoryGauge>>,
}

/// The service over imported pools.
pub struct Engine {
    registry: Registry,
    mounts: Mounts,
    mounter: Box<dyn Mounter>,
    events: Arc<Events>,
    memory: Memory,
    version: String,
    auto: bool,
    env: Arc<dyn Env>,
    started: Duration,
}

impl Engine {
    /// An engine without pools, whose file systems `mounter` mounts.
    pub fn new(mounter: Box<dyn Mounter>, settings: EngineSettings, env: Arc<dyn Env>) -> Self {
        let gauge = settings.gauge.unwrap_or_else(|| Box::new(AmpleMemory));
        Self {
            registry: Registry::default(),
            mounts: Mounts::default(),
            mounter,
            events: Arc::new(Events::new(Arc::clone(&env))),
            memory: Memory::new(
                settings.memory,
                settings.memory_is_given,
                gauge,
                env.monotonic(),
            ),
            version: settings.version,
            auto: settings.auto,
            started: env.monotonic(),
            env,
        }
    }

    /// The named pools, or all; and those that are not here.
    fn pools_named(&self, names: &[String]) -> (Vec<Arc<Imported>>, Vec<(String, ControlError)>) {
        if names.is_empty() {
            return (self.registry.all(), Vec::new());
        }
        let mut found = Vec::new();
        let mut failures = Vec::new();
        for name in names {
            match self.registry.pool(name) {
                Ok(imported) => found.push(imported),
                Err(error) => failures.push((name.clone(), error)),
            }
        }
        (found, failures)
    }

    /// A random number; 0 when the system has none to give.
    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.env.fill_random(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => 0,
        }
    }

    fn daemon_status(&self) -> Response {
        let pools = self.registry.all();
        let activity = |imported: &Arc<Imported>| PoolActivity {
            name: imported.name().to_owned(),
            health: pool_properties::health(imported),
            mounts: self.mounts.count(imported.name()),
        };
        let status = DaemonStatus {
            version: self.version.clone(),
            pid: std::process::id(),
            auto: self.auto,
            uptime: self.env.monotonic().saturating_sub(self.started).as_secs(),
            pools: pools.iter().map(activity).collect(),
            memory_limit: self.memory.limit(),
            memory_used: self.memory.used(&pools),
        };
        Response::Status { status }
    }
}

impl Engine {
    /// Requests about what the daemon itself does: mounts, events, its own state.
    fn handle_own(
        &self,
        request: Request,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        match request {
            Request::Mount {
                dataset,
                at,
                options,
            } => self.mount(&dataset, at.as_deref(), &options),
            Request::MountAll { below, options } => self.mount_all(below.as_deref(), &options),
            Request::Unmount {
                target,
                force,
                unload_key,
            } => self.unmount(&target, force, unload_key),
            Request::UnmountAll { force, unload_keys } => self.unmount_all(force, unload_keys),
            Request::MountList => Ok(self.mount_list()),
            Request::Events { pool, follow } => self.events(pool.as_deref(), follow, reply),
            Request::EventsClear => Ok(self.events_clear()),
            Request::SettingsList { names } => self.settings_list(&names),
            Request::SettingsSet { values } => self.settings_set(&values),
            Request::DaemonStatus => Ok(self.daemon_status()),
            Request::DaemonStop { force } => {
                self.shutdown(force)?;
                Ok(Response::Done)
            }
            other => Err(ControlError::Unsupported {
                what: format!("{other:?}"),
            }),
        }
    }
}

impl Service for Engine {
    fn handle(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        // Who asks about a pool whose devices are gone is not to wait for them.
        set_patience(Patience::Never);
        match request {
            Request::ImportSearch { search } => self.import_search(&search),
            Request::Import {
                search,
                pick,
                options,
            } => self.import(&search, &pick, &options),
            Request::Export { pool, force } => self.export(&pool, force, None),
            Request::PoolList {
                pools,
                properties,
                vdevs,
            } => self.pool_list(&pools, &properties, vdevs),
            Request::VdevGet {
                pool,
                vdevs,
                properties,
            } => self.vdev_get(&pool, &vdevs, &properties),
            Request::PoolOpened { pool } => self.pool_opened(&pool),
            Request::PoolStatus {
                pools,
                errors,
                dedup,
            } => self.pool_status(&pools, errors, dedup),
            Request::History { pool } => self.history(&pool, reply),
            Request::DatasetList {
                roots,
                depth,
                kinds,
                properties,
            } => self.dataset_list(&roots, depth, kinds, properties, reply),
            Request::LoadKey {
                dataset,
                key,
                dry_run,
            } => self.load_key(&dataset, &key, dry_run),
            Request::UnloadKey { dataset } => self.unload_key(&dataset),
            Request::UserSpace { dataset, kind } => self.user_space(&dataset, kind, reply),
            Request::Holds {
                snapshot,
                recursive,
            } => self.holds(&snapshot, recursive),
            Request::Diff { from, to } => self.diff(&from, to.as_deref(), reply),
            Request::Verify { pool, options } => self.verify(&pool, &options, reply),
            Request::Change { change, command } => self.change(change, &command, peer),
            Request::Noted { asked, command } => self.noted(*asked, &command, peer, reply),
            other => self.handle_own(other, reply),
        }
    }

    fn idle(&self) -> bool {
        self.registry.is_empty()
    }

    fn tick(&self) {
        self.memory.look(&self.registry.all(), self.env.monotonic());
    }

    fn shutdown(&self, force: bool) -> Result<(), ControlError> {
        let mut failure = None;
        for imported in self.registry.all() {
            if imported.pool.is_waiting() {
                if !force {
                    let pool = imported.name().to_owned();
                    return Err(ControlError::Suspended { pool });
                }
                imported.pool.give_up();
            }
            match self.unmount_pool(&imported, force) {
                Ok(()) => self.registry.remove(imported.name()),
                Err(error) if force => {
                    // Leaving anyway: what cannot be unmounted is left to the system.
                    failure = Some(error);
                    self.registry.remove(imported.name());
                }
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
