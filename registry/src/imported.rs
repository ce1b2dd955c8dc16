//! One imported pool, and the daemon's state for it.

use super::damage::DamageLog;
use super::heads::OpenHeads;
use super::open_trees::{InUse, OpenTrees, TreesHeld};
use super::replays::Replays;
use super::sent::SentSnapshots;
use super::served::{DisksHeld, Served};
use super::waiting::Waiting;
use cenote_base::ObjectId;
use cenote_base::rt::{Job, Mutex, ranks};
use cenote_control::model::{ControlError, HttpRefusal, PoolHealth, PoolRow};
use cenote_dsl::{Dataset, DatasetName, Dsl};
use cenote_pool::Pool;
use cenote_vdev::VdevState;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One imported pool and the options of its import.
#[derive(Debug)]
pub struct Imported {
    /// The pool.
    pub pool: Arc<Pool>,
    /// Mount points are put below this directory.
    pub altroot: Option<PathBuf>,
    /// Options of all mounts of this import.
    pub mount_options: Vec<String>,
    /// The cache file named at import.
    cache_file: Mutex<Option<String>, ranks::CacheFileName>,
    /// The cache file of pools that name none.
    pub default_cache_file: Option<PathBuf>,
    /// Where in each device the pool's begins, in bytes.
    pub offset: u64,
    /// When it was imported, by the pool's clock.
    pub since: Duration,
    /// Names this import.
    pub load_guid: u64,
    /// Damage met since the import.
    pub damage: Arc<DamageLog>,
    /// Heads that are open for writing.
    pub heads: OpenHeads,
    /// Whether the daemon ends when devices are lost: `failmode=panic`.
    pub panics: AtomicBool,
    /// The end of what devices missed when a resilver was begun for just that: what it could not
    /// bring, another one cannot.
    pub resilver_tried: AtomicU64,
    /// Whether its devices are watched: `autoexpand`.
    pub growth: Job,
    /// The intent logs that the import found, and the results of their replays.
    pub(crate) replays: Replays,
    /// Snapshots that must stay while they are sent.
    pub sent: SentSnapshots,
    /// Clients that have volumes open.
    pub served: Served,
    /// Values that wait for the administrator's approval.
    pub waiting: Waiting,
    /// Trees that sites have open.
    pub trees: OpenTrees,
    /// What early releases left in encrypted datasets, once it was looked for: keys of the version
    /// 0, snapshots without a number for their set of IVs.
    pub encryption_errata: OnceLock<(bool, bool)>,
    /// Held while the pool is exported, which may take as long as an upload.
    pub leaving: Mutex<(), ranks::Leaving>,
    /// The registry does not have it any more.
    pub(crate) has_left: AtomicBool,
}

impl Imported {
    /// A pool that was just imported, with the number of its import.
    pub fn new(pool: Pool, altroot: Option<PathBuf>, load_guid: u64) -> Self {
        Self {
            since: pool.env().monotonic(),
            damage: DamageLog::of(&pool),
            pool: Arc::new(pool),
            resilver_tried: AtomicU64::new(0),
            altroot,
            mount_options: Vec::new(),
            cache_file: Mutex::default(),
            default_cache_file: None,
            offset: 0,
            load_guid,
            heads: OpenHeads::default(),
            panics: AtomicBool::new(false),
            growth: Job::new(),
            replays: Replays::default(),
            sent: SentSnapshots::default(),
            served: Served::default(),
            waiting: Waiting::default(),
            trees: OpenTrees::default(),
            encryption_errata: OnceLock::new(),
            leaving: Mutex::default(),
            has_left: AtomicBool::new(false),
        }
    }

    /// The property `cachefile`; `None` if it is not set.
    pub fn cache_file(&self) -> Option<String> {
        let file = self.cache_file.lock();
        file.clone()
    }

    /// Names the cache file, without writing any.
    pub fn set_cache_file(&self, file: Option<String>) {
        let mut own = self.cache_file.lock();
        *own = file;
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.pool.name()
    }

    /// Its datasets.
    pub fn dsl(&self) -> &Arc<Dsl> {
        self.pool.dsl()
    }

    /// Whether intent logs are replayed in memory.
    pub fn replays_in_memory(&self) -> bool {
        self.pool.options().replay_in_memory
    }

    /// Refuses what would destroy a snapshot that is being sent, that is open as a volume, or that
    /// clients of a site read. Until the answer is dropped no site opens one, and none becomes a
    /// disk.
    pub fn free_snapshots(
        &self,
        names: &[DatasetName],
    ) -> Result<(DisksHeld<'_>, TreesHeld<'_>), ControlError> {
        let disks = self.free_where(false, |name| names.contains(name))?;
        let mut ids = Vec::new();
        for name in names {
            let Ok(snapshot) = self.dsl().dataset(name) else {
                // The destroy itself reports the error.
                continue;
            };
            if self.sent.is_sent(snapshot.id()) {
                return Err(ControlError::DatasetBusy {
                    dataset: name.as_str().to_owned(),
                });
            }
            ids.push(snapshot.id());
        }
        let trees = self.hold_trees(false, |id| ids.contains(&id))?;
        Ok((disks, trees))
    }

    /// Until the answer is dropped no site opens a tree, and nothing becomes a disk.
    ///
    /// # Errors
    /// None is known: nothing is closed.
    pub fn hold_new_users(&self) -> Result<(DisksHeld<'_>, TreesHeld<'_>), ControlError> {
        Ok((self.served.hold(), self.hold_trees(false, |_| false)?))
    }

    /// Whether a dataset is sent, open on a site, or open as a volume.
    pub fn has_users(&self, id: ObjectId) -> bool {
        self.sent.is_sent(id)
            || self.trees.is_open(id)
            || self.served.disks().iter().any(|(of, _)| *of == id)
            || self.served.datasets().iter().any(|(of, _)| *of == id)
    }

    /// Takes the trees of datasets away from sites, until the answer is dropped.
    ///
    /// # Errors
    /// [`HttpRefusal::InUse`] if clients read their files; not with `force`, which ends that.
    pub fn hold_trees(
        &self,
        force: bool,
        is_meant: impl Fn(ObjectId) -> bool,
    ) -> Result<TreesHeld<'_>, ControlError> {
        let held = self.trees.hold(force, is_meant);
        held.map_err(|busy: InUse| {
            HttpRefusal::InUse {
                // It may have been renamed since.
                dataset: self.name_now(busy.dataset).unwrap_or(busy.name),
                count: busy.count,
            }
            .into()
        })
    }

    /// The head or snapshot of this name that clients still read although no site shows it.
    pub fn retired_tree(&self, name: &str) -> Option<ObjectId> {
        let mut retired = self.trees.retired().into_iter();
        retired.find(|id| self.name_now(*id).as_deref() == Some(name))
    }

    fn name_now(&self, id: ObjectId) -> Option<String> {
        let dataset = self.dsl().dataset_of(id).ok()?;
        Some(dataset.name().as_str().to_owned())
    }

    /// Where a mount point lies with the alternative root before it.
    pub fn place(&self, mount_point: &str) -> PathBuf {
        match &self.altroot {
            Some(root) => {
                let below = mount_point.trim_start_matches('/');
                if below.is_empty() {
                    root.clone()
                } else {
                    root.join(below)
                }
            }
            None => Path::new(mount_point).to_owned(),
        }
    }

    /// Whether a dataset's files can be changed, if its mount and its properties allow that.
    pub fn can_change(&self, dataset: &Dataset) -> bool {
        self.pool.is_writable() && !dataset.is_snapshot()
    }

    /// A pool's health, as `zpool list` words it.
    pub fn health(&self) -> PoolHealth {
        if self.pool.suspended().is_some() {
            return PoolHealth::Suspended;
        }
        match self.pool.vdevs().state().0 {
            VdevState::Healthy => PoolHealth::Online,
            VdevState::Degraded => PoolHealth::Degraded,
            VdevState::Faulted => PoolHealth::Faulted,
            VdevState::CannotOpen => PoolHealth::Unavail,
            VdevState::Offline => PoolHealth::Offline,
            VdevState::Removed => PoolHealth::Removed,
        }
    }

    /// The pool without properties and vdevs.
    pub fn row(&self) -> PoolRow {
        let pool = &self.pool;
        PoolRow {
            name: pool.name().to_owned(),
            guid: pool.guid().0,
            txg: pool.txg().0,
            version: pool.uberblock().version,
            health: self.health(),
            properties: Vec::new(),
            vdevs: None,
        }
    }
}
