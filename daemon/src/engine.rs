//! The daemon's engine: pools served over the socket, file systems mounted through FUSE.

use std::path::PathBuf;
use std::sync::Arc;

use cenote_alarms::AlarmSetup;
use cenote_base::metrics::Registry;
use cenote_base::{RealEnv, settings};
use cenote_control::model::NbdListen;
use cenote_control::protocol::Service;
use cenote_engine::{Engine, EngineSettings, MEMORY_MIN, RecordPlace};
use cenote_serve::{Dashboard, DiskSetup, Serve, ServeSettings, UblkDisks};

use super::gauge::{SystemMemory, memory_total};
use super::mounter::FuseMounter;
use cenote_connect::death::Before;
use cenote_connect::places::{Places, state_directory_of_process};

/// The assumed memory of the machine if it cannot be determined.
const MEMORY_FALLBACK: u64 = 1 << 30;

/// The configuration of a daemon.
pub struct Wanted {
    /// Bytes for caches and buffers of all pools.
    pub memory: Option<u64>,
    /// Exit after the last pool is exported.
    pub auto: bool,
    /// Where to send alarms.
    pub alarms: AlarmSetup,
    /// Whether users with read-only access see the locations of keys.
    pub shows_keys: bool,
    /// The addresses of its own server of volumes.
    pub own_server: NbdListen,
    /// Its socket.
    pub socket: PathBuf,
    /// Its file paths.
    pub places: Places,
    /// What its predecessor left.
    pub before: Before,
    /// The dashboard.
    pub dashboard: Arc<dyn Dashboard>,
    /// The measurements of parts outside the engine.
    pub measured: Arc<Registry>,
}

/// The daemon's service.
///
/// Dead mounts stay until something is mounted in their place: while they return errors, no program
/// writes into the directories below them.
pub fn service(wanted: Wanted) -> Arc<dyn Service> {
    let Wanted { memory, auto, .. } = wanted;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    settings::set_memory_bytes(memory.or_else(memory_total).unwrap_or(MEMORY_FALLBACK));
    for setting in settings::list() {
        if let Some(taken) = settings::taken(setting.name) {
            log::warn!(
                "{}={} is more than the memory allows: {taken} bytes are used",
                setting.name,
                setting.value
            );
        }
    }
    let published = ServeSettings {
        own_server: wanted.own_server,
        disks: DiskSetup::of_machine(Arc::new(UblkDisks::default())),
        dashboard: Some(wanted.dashboard),
    };
    let own_disks = published.disks.own_disks();
    let own = Arc::clone(&own_disks);
    let settings = EngineSettings {
        version,
        auto,
        memory: Some(memory.unwrap_or_else(default_memory)),
        memory_is_given: memory.is_some(),
        gauge: Some(Box::new(SystemMemory::new())),
        alarms: wanted.alarms,
        state_directory: state_directory_of_process(),
        record: wanted.places.record.map(|file| RecordPlace {
            file,
            socket: wanted.socket,
            lost: wanted.before.lost,
            stopped: wanted.before.stopped,
            failed: wanted.before.failed,
        }),
        cache_file: wanted.places.cache_file,
        shows_keys: wanted.shows_keys,
        publish: Some(Box::new(move |registry| {
            Arc::new(Serve::new(registry, published, &own))
        })),
        own_disks,
        measured: wanted.measured,
    };
    Arc::new(Engine::new(
        Box::new(FuseMounter::guarded()),
        settings,
        Arc::new(RealEnv::new()),
    ))
}

/// Three eighths of the memory. The program itself and its heap need more, but at least half
/// remains for others.
fn default_memory() -> u64 {
    let total = memory_total().unwrap_or(MEMORY_FALLBACK);
    (total / 8 * 3).max(MEMORY_MIN)
}
