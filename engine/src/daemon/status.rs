//! What the daemon says of itself.

use crate::context::Context;
use crate::daemon::recorder::Recorder;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use cenote_control::model::{DaemonStatus, PoolActivity};
use std::sync::Arc;
use std::time::Duration;

/// What does not change while it runs.
pub(crate) struct About {
    /// The program's version.
    pub version: String,
    /// Whether it leaves after its last pool is exported.
    pub auto: bool,
    /// When it started.
    pub started: Duration,
}

/// Its state now.
pub(crate) fn daemon_status(
    context: &Context,
    mounts: &Mounts,
    about: &About,
    recorder: &Recorder,
) -> DaemonStatus {
    let pools = context.registry.all();
    let activity = |imported: &Arc<Imported>| PoolActivity {
        name: imported.name().to_owned(),
        health: imported.health(),
        mounts: mounts.count(imported.name()),
    };
    DaemonStatus {
        version: about.version.clone(),
        pid: std::process::id(),
        auto: about.auto,
        uptime: context
            .env
            .monotonic()
            .saturating_sub(about.started)
            .as_secs(),
        pools: pools.iter().map(activity).collect(),
        memory_limit: context.memory.limit(),
        memory_used: context.memory.used(&pools),
        record_failure: recorder.failure(),
        cache_failures: context.registry.cache_files.failures(),
        missing: recorder.missing(context),
    }
}
