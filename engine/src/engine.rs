//! The engine: requests handed to whose they are.

use crate::alarms::desk::Alarms;
use crate::alarms::way::AlarmSetup;
use crate::changes::change as change_of;
use crate::clouds::act::act_on_stores;
use crate::clouds::table::Clouds;
use crate::command::{By, note};
use crate::context::Context;
use crate::daemon::settings::{settings_list, settings_set};
use crate::daemon::status::{About, daemon_status};
use crate::datasets::accounts::user_space;
use crate::datasets::list::dataset_list;
use crate::devices::agent::Agent;
use crate::devices::properties::vdev_get;
use crate::events::Events;
use crate::keys::load::{load_key, unload_if_root, unload_key};
use crate::memory::{AmpleMemory, Memory, MemoryGauge};
use crate::mounts::make::{mount, mount_all, mount_list};
use crate::mounts::mounter::Mounter;
use crate::mounts::table::Mounts;
use crate::mounts::unmount;
use crate::pools::candidates::import_search;
use crate::pools::changes::Changes;
use crate::pools::events::{clear, events};
use crate::pools::export::{export, shutdown};
use crate::pools::history::history;
use crate::pools::import::import;
use crate::pools::opened::pool_opened;
use crate::pools::properties::pool_list;
use crate::pools::status::pool_status;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use crate::scans::verify::verify;
use crate::snapshots::diff::diff;
use crate::snapshots::holds::holds;
use crate::snapshots::space::{reclaimed_by, snapshot_space};
use crate::streams::receive::receive;
use crate::streams::send::send;
use cenote_base::Env;
use cenote_control::model::{Change, ControlError, ExportHow, Request, Response};
use cenote_control::protocol::{Peer, Reply, Service};
use cenote_pool::{Patience, set_patience};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time between two looks at what happens to pools by itself.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

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
    /// Who is told when something is wrong.
    pub alarms: AlarmSetup,
    /// Where the daemon keeps what outlives it; not set, nothing does.
    pub state_directory: Option<PathBuf>,
}

/// The service over imported pools.
pub struct Engine {
    pub(crate) context: Context,
    mounts: Arc<Mounts>,
    about: About,
    changes: Changes,
    agent: Agent,
    alarms: Alarms,
    /// When pools were last looked at.
    looked: Mutex<Option<Duration>>,
}

impl Engine {
    /// An engine without pools, whose file systems `mounter` mounts.
    pub fn new(mounter: Box<dyn Mounter>, settings: EngineSettings, env: Arc<dyn Env>) -> Self {
        let gauge = settings.gauge.unwrap_or_else(|| Box::new(AmpleMemory));
        let started = env.monotonic();
        Self {
            context: Context {
                registry: Registry::default(),
                clouds: Arc::new(Clouds::new(settings.state_directory.as_deref())),
                events: Arc::new(Events::new(Arc::clone(&env))),
                memory: Memory::new(settings.memory, settings.memory_is_given, gauge, started),
                env,
            },
            mounts: Mounts::new(mounter),
            about: About {
                version: settings.version,
                auto: settings.auto,
                started,
            },
            changes: Changes::default(),
            agent: Agent::default(),
            alarms: Alarms::new(settings.alarms, settings.state_directory),
            looked: Mutex::default(),
        }
    }

    /// Unmounts, and with `unload_key` unloads the keys that this leaves unused.
    fn unmount(
        &self,
        target: &str,
        force: bool,
        unload_key: bool,
    ) -> Result<Response, ControlError> {
        let (registry, env) = (&self.context.registry, self.context.env.as_ref());
        let datasets = unmount::unmount(registry, &self.mounts, target, force)?;
        for dataset in datasets.iter().filter(|_| unload_key) {
            unload_if_root(registry, &self.mounts, env, dataset)?;
        }
        Ok(Response::Done)
    }

    /// The same for all file systems.
    fn unmount_all(&self, force: bool, unload_keys: bool) -> Response {
        let (registry, env) = (&self.context.registry, self.context.env.as_ref());
        let gone = unmount::unmount_all(registry, &self.mounts, force);
        let (mut failures, done) = (gone.failures, gone.datasets.len() as u64);
        for dataset in gone.datasets.into_iter().filter(|_| unload_keys) {
            if let Err(error) = unload_if_root(registry, &self.mounts, env, &dataset) {
                failures.push((dataset, error));
            }
        }
        Response::Failures { failures, done }
    }
}

impl Engine {
    /// Requests about what the daemon itself does: mounts, events, its own state.
    fn handle_own(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let (context, mounts) = (&self.context, &self.mounts);
        let registry = &context.registry;
        match request {
            Request::Mount {
                dataset,
                at,
                options,
            } => {
                let at = (at.as_deref(), peer.pid);
                mount(registry, mounts, &dataset, at, &options)
            }
            Request::MountAll { below, options } => {
                mount_all(registry, mounts, below.as_deref(), &options)
            }
            Request::Unmount {
                target,
                force,
                unload_key,
            } => self.unmount(&target, force, unload_key),
            Request::UnmountAll { force, unload_keys } => Ok(self.unmount_all(force, unload_keys)),
            Request::MountList => Ok(mount_list(mounts)),
            Request::Events { pool, follow } => events(context, pool.as_deref(), follow, reply),
            Request::Alarms { act } => self.alarms.act(act, context.env.as_ref()),
            Request::ErrorHistory { pool } => {
                let imported = registry.pool(&pool)?;
                Ok(self.alarms.history(&imported))
            }
            Request::EventsClear => Ok(clear(context)),
            Request::SettingsList { names } => {
                let settings = settings_list(&names)?;
                Ok(Response::Settings { settings })
            }
            Request::SettingsSet { values } => settings_set(context, &values),
            Request::Stores { pool, act } => act_on_stores(context, &pool, act, reply),
            Request::DaemonStatus => Ok(Response::Status {
                status: daemon_status(context, mounts, &self.about),
            }),
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

impl Engine {
    /// Carries out a request that is no change, and notes its command where it succeeded.
    fn noted(
        &self,
        request: Request,
        command: &str,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let by = By::new(peer, command);
        let pool_of = |dataset: &str| dataset.split('/').next().unwrap_or(dataset).to_owned();
        let pool = match &request {
            // Afterwards there is no history to write to.
            Request::Export { pool, how } => {
                return self.export(pool, *how, (Some(&by), Some(reply)));
            }
            Request::LoadKey {
                dataset,
                dry_run: false,
                ..
            }
            | Request::UnloadKey { dataset } => Some(pool_of(dataset)),
            Request::Noted { .. } => {
                let what = "a note about a note".to_owned();
                return Err(ControlError::Unsupported { what });
            }
            _ => None,
        };
        let response = self.handle(request, peer, reply)?;
        let imported = match &response {
            Response::Imported { pools, .. } => pools.as_slice(),
            _ => &[],
        };
        for name in imported.iter().chain(&pool) {
            if let Ok(imported) = self.context.registry.pool(name) {
                note(&imported, &by);
            }
        }
        Ok(response)
    }
}

impl Engine {
    /// Requests about snapshots that change nothing.
    fn handle_snapshots(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let registry = &self.context.registry;
        match request {
            Request::Holds {
                snapshot,
                recursive,
            } => holds(registry, &snapshot, recursive),
            Request::SnapshotSpace { dataset, recursive } => {
                snapshot_space(registry, &dataset, recursive, reply)
            }
            Request::ReclaimedBy { snapshots } => reclaimed_by(registry, &snapshots, reply),
            Request::Diff { from, to } => diff(registry, &from, to.as_deref(), reply),
            other => self.handle_own(other, peer, reply),
        }
    }
}

impl Engine {
    fn export(
        &self,
        pool: &str,
        how: ExportHow,
        who: (Option<&By<'_>>, Option<&mut dyn Reply>),
    ) -> Result<Response, ControlError> {
        // The counters of its devices go with it: what went wrong just now is written down before.
        self.look_at_pools(&self.context.registry.all());
        export(&self.context, &self.mounts, pool, how, who)
    }

    /// Notes what changed of itself in these pools, and tells what is an alarm.
    fn look_at_pools(&self, pools: &[Arc<Imported>]) {
        let (events, env) = (&self.context.events, self.context.env.as_ref());
        self.changes.look(events, pools);
        self.alarms.look(events, env, pools);
    }

    /// Looks at pools that have just come, so that what changes from now on is seen.
    fn look_at_new(
        &self,
        outcome: Result<Response, ControlError>,
    ) -> Result<Response, ControlError> {
        if outcome.is_ok() {
            self.look_at_pools(&self.context.registry.all());
        }
        outcome
    }

    fn change(&self, change: Change, by: &By<'_>) -> Result<Response, ControlError> {
        let is_new = matches!(change, Change::CreatePool(_));
        if matches!(change, Change::ClearErrors { .. }) {
            // Before the counters begin anew, what they say is written down.
            self.look_at_pools(&self.context.registry.all());
        }
        let outcome = change_of(&self.context, &self.mounts, change, by);
        match is_new {
            true => self.look_at_new(outcome),
            false => outcome,
        }
    }
}

impl Service for Engine {
    // tidy: allow(long-function, one arm for each request, so that none is forgotten)
    fn handle(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        // Who asks about a pool whose devices are gone is not to wait for them.
        set_patience(Patience::Never);
        let (context, mounts) = (&self.context, &self.mounts);
        let registry = &context.registry;
        match request {
            Request::ImportSearch { search } => import_search(context, &search),
            Request::Import {
                search,
                pick,
                options,
            } => self.look_at_new(import(context, mounts, &search, &pick, &options)),
            Request::Export { pool, how } => self.export(&pool, how, (None, Some(reply))),
            Request::PoolList {
                pools,
                properties,
                vdevs,
            } => pool_list(registry, &pools, &properties, vdevs),
            Request::VdevGet {
                pool,
                vdevs,
                properties,
            } => vdev_get(registry, &pool, &vdevs, &properties),
            Request::PoolOpened { pool } => pool_opened(registry, &pool),
            Request::PoolStatus {
                pools,
                errors,
                dedup,
            } => pool_status(context, mounts, &pools, errors, dedup),
            Request::History { pool } => history(registry, &pool, reply),
            Request::DatasetList {
                roots,
                depth,
                kinds,
                properties,
            } => dataset_list(context, mounts, &roots, depth, kinds, properties, reply),
            Request::LoadKey {
                dataset,
                key,
                dry_run,
            } => load_key(registry, &dataset, &key, dry_run),
            Request::UnloadKey { dataset } => {
                unload_key(registry, mounts, context.env.as_ref(), &dataset)
            }
            Request::UserSpace { dataset, kind } => user_space(registry, &dataset, kind, reply),
            Request::Verify { pool, options } => verify(registry, &pool, &options, reply),
            Request::Change { change, command } => self.change(change, &By::new(peer, &command)),
            Request::Receive {
                receive: asked,
                command,
            } => receive(context, mounts, &asked, &By::new(peer, &command), reply),
            Request::Send { send: asked } => send(registry, &asked, reply),
            Request::Noted { asked, command } => self.noted(*asked, &command, peer, reply),
            other => self.handle_snapshots(other, peer, reply),
        }
    }

    fn idle(&self) -> bool {
        self.context.registry.is_empty()
    }

    fn tick(&self) {
        set_patience(Patience::Never);
        let (pools, now) = (self.context.registry.all(), self.context.env.monotonic());
        self.context.memory.look(&pools, now);
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|looked| now.saturating_sub(looked) < LOOK_PERIOD) {
            return;
        }
        *looked = Some(now);
        self.look_at_pools(&pools);
        self.agent.look(&self.context.events, now, &pools);
    }

    fn shutdown(&self, force: bool) -> Result<(), ControlError> {
        // What happened just now is told, too; afterwards there are no pools to say more.
        set_patience(Patience::Never);
        self.look_at_pools(&self.context.registry.all());
        set_patience(Patience::Usual);
        let outcome = shutdown(&self.context, &self.mounts, force);
        if force || outcome.is_ok() {
            self.alarms.finish();
        }
        outcome
    }
}
