//! The daemon's engine: pools served over the socket, file systems mounted through FUSE.

use std::path::Path;
use std::sync::Arc;

use cenote_base::RealEnv;
use cenote_control::protocol::Service;
use cenote_control::service::{Engine, EngineSettings, MemoryLimits};

use super::mounter::FuseMounter;

/// Memory for caches and buffers when nothing tells how much there is.
const MEMORY_FALLBACK: u64 = 256 << 20;
/// With less than this for caches and buffers a single block of 16 MiB might not fit.
const MEMORY_MIN: u64 = 64 << 20;

/// What the daemon serves; `memory` bytes are for caches and buffers.
pub fn service(memory: Option<u64>, auto: bool) -> Arc<dyn Service> {
    match cenote_fuse::clear_stale_mounts(Path::new("/")) {
        Ok(cleared) => {
            for (place, error) in cleared.failed {
                eprintln!("cenote: a dead mount stays at {}: {error}", place.display());
            }
        }
        Err(error) => eprintln!("cenote: dead mounts were not looked for: {error}"),
    }
    let limits = MemoryLimits::of_total(memory.unwrap_or_else(default_memory));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let settings = EngineSettings {
        version,
        auto,
        limits,
    };
    Arc::new(Engine::new(
        Box::new(FuseMounter),
        settings,
        Arc::new(RealEnv::new()),
    ))
}

/// A quarter of the machine's or the control group's memory, so that even with two pools at
/// least half is left to others.
fn default_memory() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))?;
            let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
            kilobytes.checked_mul(1024)
        });
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    let least = machine.into_iter().chain(group).min();
    least.map_or(MEMORY_FALLBACK, |total| (total / 4).max(MEMORY_MIN))
}
