//! The daemon's engine: pools served over the socket, file systems mounted through FUSE.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cenote_base::{RealEnv, settings};
use cenote_control::protocol::Service;
use cenote_engine::{AlarmSetup, Engine, EngineSettings, MEMORY_MIN};

use super::gauge::{SystemMemory, memory_total};
use super::mounter::FuseMounter;

/// Memory taken for granted when nothing tells how much there is.
const MEMORY_FALLBACK: u64 = 1 << 30;

/// What the daemon serves; `memory` bytes are for caches and buffers of all
/// pools.
pub fn service(memory: Option<u64>, auto: bool, alarms: AlarmSetup) -> Arc<dyn Service> {
    match cenote_fuse::clear_stale_mounts(Path::new("/")) {
        Ok(cleared) => {
            for (place, error) in cleared.failed {
                eprintln!("cenote: a dead mount stays at {}: {error}", place.display());
            }
        }
        Err(error) => eprintln!("cenote: dead mounts were not looked for: {error}"),
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    settings::set_memory_bytes(memory.or_else(memory_total).unwrap_or(MEMORY_FALLBACK));
    for setting in settings::list() {
        if let Some(taken) = settings::taken(setting.name) {
            eprintln!(
                "cenote: {}={} is more than the memory allows: {taken} bytes are used",
                setting.name, setting.value
            );
        }
    }
    let settings = EngineSettings {
        version,
        auto,
        memory: Some(memory.unwrap_or_else(default_memory)),
        memory_is_given: memory.is_some(),
        gauge: Some(Box::new(SystemMemory::new())),
        alarms,
        state_directory: state_directory_of_process(),
    };
    Arc::new(Engine::new(
        Box::new(FuseMounter),
        settings,
        Arc::new(RealEnv::new()),
    ))
}

/// As [`state_directory`], by this process's environment.
pub fn state_directory_of_process() -> Option<PathBuf> {
    state_directory(&|name| std::env::var_os(name).map(PathBuf::from))
}

/// Where the history of errors is kept, and what devices in stores have on this side:
/// `$CENOTE_STATE`, which may be empty for nowhere, else the user's place or that of root.
fn state_directory(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let given = match (variable("CENOTE_STATE"), variable("XDG_STATE_HOME")) {
        (Some(given), _) => given,
        (None, Some(home)) => home.join("cenote"),
        (None, None) if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib/cenote"),
        (None, None) => variable("HOME")?.join(".local/state/cenote"),
    };
    given.is_absolute().then_some(given)
}

/// Three eighths of what there is: with what the program itself and its heap take, at least half
/// is left to others.
fn default_memory() -> u64 {
    let total = memory_total().unwrap_or(MEMORY_FALLBACK);
    (total / 8 * 3).max(MEMORY_MIN)
}
