//! The options of an import.

use cenote_base::{Guid, MemoryBudget, Txg};
use cenote_device::{Opener, SystemOpener};
use cenote_dmu::txg::ThrottleLimits;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_ondisk::PoolConfig;
use std::path::PathBuf;
use std::sync::Arc;

/// How far back an import may go to find a txg that can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rewind {
    /// Only the newest txg.
    #[default]
    Never,
    /// The two before it, whose freed blocks cannot have been reused yet (`-F`).
    Recent,
    /// Any txg of which an uberblock is left (`-FX`).
    Extreme,
}

/// Memory for blocks under way, which several pools may share.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// For blocks being read and decoded.
    pub reads: Arc<MemoryBudget>,
    /// For what a verification reads beside that.
    pub scans: Arc<MemoryBudget>,
}

impl Buffers {
    /// `bytes` for reads, and half as much again for verifications.
    pub fn new(bytes: u64) -> Self {
        Self {
            reads: MemoryBudget::new(bytes),
            scans: MemoryBudget::new(bytes / 2),
        }
    }
}

/// What makes another pool of the one that is imported.
pub trait Becoming: std::fmt::Debug + Send + Sync {
    /// The guid of the pool that it was.
    fn origin(&self) -> Guid;

    /// Makes the configuration that of the new pool.
    ///
    /// # Errors
    /// Why that cannot be.
    fn change(&self, config: &mut PoolConfig) -> Result<(), String>;

    /// What the first group of the new pool changes.
    ///
    /// # Errors
    /// If metadata cannot be read.
    fn in_first_group(&self, context: &SyncContext<'_>) -> Result<(), DslError>;
}

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Import although another system may have the pool (`-f`).
    pub force: bool,
    /// Import for reading only: then a pool that may be active elsewhere is not refused.
    pub read_only: bool,
    /// With `read_only`: refuse what an import for writing would refuse, to find out whether that
    /// would work (`-n`).
    pub dry_run: bool,
    /// How far back to go.
    pub rewind: Rewind,
    /// The newest txg to look at (`-T`).
    pub txg: Option<Txg>,
    /// Do without missing log devices (`-m`).
    pub missing_logs: bool,
    /// Open the pool as of its checkpoint.
    pub rewind_to_checkpoint: bool,
    /// The name to import the pool under, if not its own.
    pub new_name: Option<String>,
    /// `new_name` is for this import only: on its devices the pool keeps its own (`-t`).
    pub temporary_name: bool,
    /// The directory below which all mount points are put.
    pub altroot: Option<PathBuf>,
    /// Show files as they are after the intent log's replay.
    pub replay_in_memory: bool,
    /// Resume the running scan, and start a resilver if a device missed something.
    pub scans: bool,
    /// This system's hostid, to compare with the label's.
    pub hostid: u64,
    /// Limit for cached blocks in bytes, at first.
    pub cache_bytes: u64,
    /// Memory for blocks under way.
    pub buffers: Buffers,
    /// Opens the devices of a pool that is to be written to, which were found by reading.
    pub opener: Arc<dyn Opener>,
    /// This system's name, which the labels of a pool that is written to get.
    pub hostname: String,
    /// How much may be dirty in a pool that is written to, if not what the settings say.
    pub throttle: Option<ThrottleLimits>,
    /// The pool becomes another one.
    pub becomes: Option<Arc<dyn Becoming>>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            force: false,
            read_only: true,
            dry_run: false,
            rewind: Rewind::Never,
            txg: None,
            missing_logs: false,
            rewind_to_checkpoint: false,
            new_name: None,
            temporary_name: false,
            altroot: None,
            replay_in_memory: false,
            scans: true,
            hostid: 0,
            cache_bytes: 64 << 20,
            buffers: Buffers::new(128 << 20),
            opener: Arc::new(SystemOpener::default()),
            hostname: String::new(),
            throttle: None,
            becomes: None,
        }
    }
}
