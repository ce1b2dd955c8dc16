//! The engine: the state of a daemon, and what it does without a request. `dispatch` carries out
//! requests.

use crate::alarms::desk::Alarms;
use crate::changes::change as change_of;
use crate::clouds::own_disks::OwnDisks;
use crate::clouds::table::Clouds;
use crate::command::{By, note};
use crate::context::Context;
use crate::daemon::recorder::{RecordPlace, Recorder};
use crate::daemon::status::About;
use crate::daemon::veil::{WithoutKeys, veiled};
use crate::datasets::approve::may_change_acting_values;
use crate::devices::agent::Agent;
use crate::events::Events;
use crate::keys::load::unload_if_root;
use crate::mounts::follow::mount_these;
use crate::mounts::mounter::Mounter;
use crate::mounts::table::Mounts;
use crate::mounts::unmount;
use crate::pools::changes::Changes;
use crate::pools::export::{export, shutdown};
use crate::publishing::{Changed, NoPublisher, Publish};
use crate::registry::approvals::Approvals;
use crate::registry::arriving::Arriving;
use crate::registry::cache_places::CacheFiles;
use crate::registry::imported::Imported;
use crate::registry::judge::Judge;
use crate::registry::memory::{AmpleMemory, Memory, MemoryGauge};
use crate::registry::rights::Rights;
use crate::registry::table::Registry;
use cenote_alarms::{AlarmSetup, daemon_died, pool_missing, record_unwritable};
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{Env, metrics};
use cenote_control::model::{Access, Change, ControlError, ExportHow, Request, Response};
use cenote_control::protocol::{Ending, Peer, Reply, Service};
use cenote_drills::{Injections, Passage};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two looks at what happens to pools by itself.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Settings of an engine.
#[derive(Default)]
pub struct EngineSettings {
    /// The program's version.
    pub version: String,
    /// Whether the daemon ends after the export of its last pool.
    pub auto: bool,
    /// Bytes for caches and buffers of all pools together; the default is 256 MiB.
    pub memory: Option<u64>,
    /// Whether `zfs_arc_max` may not exceed that.
    pub memory_is_given: bool,
    /// Reports when the system's memory runs short. Without it, memory is never short.
    pub gauge: Option<Box<dyn MemoryGauge>>,
    /// How alarms are sent, and when.
    pub alarms: AlarmSetup,
    /// The directory for state that outlives the daemon. Without it, no state does.
    pub state_directory: Option<PathBuf>,
    /// The record of what the daemon has imported, in case it dies, if there is one.
    pub record: Option<RecordPlace>,
    /// The default cache file, if there is one: for pools whose property `cachefile` is not set.
    pub cache_file: Option<PathBuf>,
    /// Whether clients of the read-only socket see where keys are.
    pub shows_keys: bool,
    /// Makes the publisher of volumes and file systems. Without it, nothing is published.
    pub publish: Option<Publish>,
    /// Disks of this machine that are volumes of a daemon. No pool is imported from them.
    pub own_disks: Arc<OwnDisks>,
    /// Figures of other parts of the daemon, which are shown with the engine's.
    pub measured: Arc<metrics::Registry>,
}

/// The user of requests on the read-only socket: the Unix user `nobody`.
const NOBODY: u32 = 65_534;

/// The service over imported pools.
pub struct Engine {
    pub(crate) context: Context,
    pub(crate) mounts: Arc<Mounts>,
    pub(crate) about: About,
    changes: Changes,
    agent: Agent,
    pub(crate) alarms: Alarms,
    pub(crate) recorder: Recorder,
    /// Whether an alarm was sent because the record cannot be written.
    record_alarm: AtomicBool,
    shows_keys: bool,
    /// When pools were last checked.
    looked: Mutex<Option<Duration>, ranks::PoolChecks>,
}

impl Engine {
    /// An engine without pools, whose file systems `mounter` mounts.
    pub fn new(mounter: Box<dyn Mounter>, settings: EngineSettings, env: Arc<dyn Env>) -> Self {
        let gauge = settings.gauge.unwrap_or_else(|| Box::new(AmpleMemory));
        let started = env.monotonic();
        let socket = settings.record.as_ref().map(|place| place.socket.clone());
        let owner = socket.unwrap_or_default().to_string_lossy().into_owned();
        let cache_files = CacheFiles::new(settings.cache_file, owner);
        let recorder = Recorder::new(settings.record, &cache_files, env.as_ref());
        let directory = settings.state_directory.as_deref();
        let approvals = Approvals::new(directory, || recorder.pools_before());
        let alarms = Alarms::new(settings.alarms, settings.state_directory.clone());
        if let Some(lost) = recorder.lost().filter(|lost| !lost.is_restart) {
            alarms.tell(daemon_died(&lost, env.as_ref()));
        }
        let clouds = Clouds::new(settings.state_directory.as_deref(), settings.own_disks);
        let registry = Arc::new(Registry::new(cache_files, approvals));
        let publisher = match settings.publish {
            Some(publish) => publish(&registry),
            None => Arc::new(NoPublisher),
        };
        Self {
            context: Context {
                registry,
                clouds: Arc::new(clouds),
                events: Arc::new(Events::new(Arc::clone(&env))),
                memory: Memory::new(settings.memory, settings.memory_is_given, gauge, started),
                publisher,
                measured: settings.measured,
                arriving: Arriving::default(),
                injections: Injections::default(),
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
            alarms,
            recorder,
            record_alarm: AtomicBool::new(false),
            shows_keys: settings.shows_keys,
            looked: Mutex::default(),
        }
    }

    /// The pools that are imported.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.context.registry
    }

    /// Unmounts, and with `unload_key` unloads the keys of encryption roots. If a key cannot be
    /// unloaded, all stays mounted.
    pub(crate) fn unmount(
        &self,
        target: &str,
        force: bool,
        unload_key: bool,
    ) -> Result<Response, ControlError> {
        let (registry, env) = (&self.context.registry, self.context.env.as_ref());
        let unmounted = unmount::unmount(registry, &self.mounts, target, (force, unload_key))?;
        let mut keys = unmounted.iter().filter(|_| unload_key);
        let unloaded =
            keys.try_for_each(|dataset| unload_if_root(registry, &self.mounts, env, dataset));
        if let Err(error) = unloaded {
            mount_these(registry, &self.mounts, &unmounted);
            return Err(error);
        }
        Ok(Response::Done)
    }

    /// The same for all file systems.
    pub(crate) fn unmount_all(&self, force: bool, unload_keys: bool) -> Response {
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
    /// Carries out a request that is no change, and notes its command where it succeeded.
    pub(crate) fn noted(
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
        let response = self.carry_out(request, peer, reply)?;
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
    pub(crate) fn export(
        &self,
        pool: &str,
        how: ExportHow,
        who: (Option<&By<'_>>, Option<&mut dyn Reply>),
    ) -> Result<Response, ControlError> {
        // The export drops the error counters of the devices, so note recent errors first.
        self.look_at_pools(&self.context.registry.all());
        let (env, injections) = (self.context.env.as_ref(), &self.context.injections);
        let _held_up = injections.hold_up(env, pool, Passage::Export);
        export(&self.context, &self.mounts, pool, how, who)
    }

    /// Notes what changed in these pools without a request, and sends alarms.
    pub(crate) fn look_at_pools(&self, pools: &[Arc<Imported>]) {
        let (events, env) = (&self.context.events, self.context.env.as_ref());
        self.changes.look(events, pools);
        self.alarms.look(events, env, pools);
    }

    /// Notes the state of pools that were just imported or created, so that later changes are
    /// noticed.
    pub(crate) fn look_at_new(
        &self,
        outcome: Result<Response, ControlError>,
    ) -> Result<Response, ControlError> {
        if outcome.is_ok() {
            self.look_at_pools(&self.context.registry.all());
        }
        outcome
    }

    pub(crate) fn change(&self, change: Change, by: &By<'_>) -> Result<Response, ControlError> {
        let is_new = matches!(change, Change::CreatePool(_));
        if matches!(change, Change::ClearErrors { .. }) {
            // Note what the error counters say before they are cleared.
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
    fn handle(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let is_change = request.access() == Access::Change;
        let may_change_values = may_change_acting_values(&request);
        let outcome = self.carry_out(request, peer, reply);
        if may_change_values {
            self.context.follow_approvals();
            self.context.publisher.follow(Changed::Values);
        } else if is_change {
            self.context.publisher.follow(Changed::Datasets);
        }
        if is_change {
            // Before the answer: a client that learns of an import can rely on the record.
            self.recorder.note_pools(&self.context, &self.mounts);
        }
        outcome
    }

    fn look(&self, request: Request, reply: &mut dyn Reply) -> Result<Response, ControlError> {
        let request = veiled(request)?;
        let peer = Peer {
            uid: NOBODY,
            gid: NOBODY,
            pid: 0,
        };
        match self.shows_keys {
            true => self.carry_out(request, peer, reply),
            false => self.carry_out(request, peer, &mut WithoutKeys(reply)),
        }
    }

    fn delegated(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        // Users that may do everything use the other socket.
        let rights = Rights::of(peer).ok_or(ControlError::PermissionDenied)?;
        let judge = Judge {
            registry: &self.context.registry,
            mounts: &self.mounts,
            rights: &rights,
        };
        let request = judge.judged(request)?;
        self.handle(request, peer, reply)
    }

    fn idle(&self) -> bool {
        self.context.registry.is_empty() && !self.context.injections.waits_for_import()
    }

    fn tick(&self) {
        let (pools, now) = (self.context.registry.all(), self.context.env.monotonic());
        self.context.memory.look(&pools, now);
        let mut looked = self.looked.lock();
        if looked.is_some_and(|looked| now.saturating_sub(looked) < LOOK_PERIOD) {
            return;
        }
        *looked = Some(now);
        self.look_at_pools(&pools);
        self.agent.look(&self.context.events, now, &pools);
        let env = self.context.env.as_ref();
        self.context.publisher.look();
        self.recorder.look(&self.context, &self.mounts);
        let failure = self.recorder.failure();
        let was_told = self.record_alarm.swap(failure.is_some(), Ordering::AcqRel);
        if let Some(failure) = failure.filter(|_| !was_told) {
            self.alarms.tell(record_unwritable(&failure, env));
        }
        for missing in self.recorder.untold(&self.context) {
            self.alarms.tell(pool_missing(&missing, env));
        }
    }

    fn shutdown(&self, ending: Ending) -> Result<(), ControlError> {
        // Send alarms for recent events, too. Afterwards there are no pools left to check.
        self.look_at_pools(&self.context.registry.all());
        self.recorder.begin_end(&self.context, &self.mounts);
        let outcome = shutdown(&self.context, &self.mounts, ending);
        if ending.force || outcome.is_ok() {
            self.context.publisher.end();
            self.recorder.finish(ending.disks);
            self.alarms.finish();
            return outcome;
        }
        self.recorder.stay(&self.context, &self.mounts);
        self.context.publisher.follow(Changed::Datasets);
        outcome
    }
}
