//! The imported pools.

use cenote_control::model::{ControlError, IntentLogReport};
use cenote_dsl::{Dataset, DatasetName, DatasetType, Dsl, NameKind};
use cenote_intent_log::IntentLog;
use cenote_pool::Pool;
use cenote_posix::{FileSystem, ReplayOptions, ReplayReport, Timestamp};
use cenote_volume::{Volume, VolumeReplay};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::changes::{OpenHeads, Watch};
use super::damage::DamageLog;
use super::datasets::walk_heads;
use super::errors::{of_dsl, of_files};

/// One imported pool and how it was asked for.
#[derive(Debug)]
pub(super) struct Imported {
    pub pool: Arc<Pool>,
    /// Mount points are put below this directory.
    pub altroot: Option<PathBuf>,
    /// Options of all mounts of this import.
    pub mount_options: Vec<String>,
    /// The cache file named at import.
    cache_file: Mutex<Option<String>>,
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
    /// Whether its devices are watched: `autoexpand`.
    pub growth: Watch,
    intent_logs: OnceLock<Vec<IntentLogReport>>,
    /// How the replay of each dataset's log went when it was opened last.
    replays: Mutex<BTreeMap<String, Replayed>>,
    /// Held while a log is replayed for good.
    replaying: Mutex<()>,
}

/// What a replay did: records applied, and where and why it stopped early.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed {
    applied: u64,
    stopped: Option<String>,
}

impl From<ReplayReport> for Replayed {
    fn from(report: ReplayReport) -> Self {
        let stopped = report.stopped;
        Self {
            applied: report.applied,
            stopped: stopped.map(|(record, error)| format!("record {record}: {error}")),
        }
    }
}

impl From<VolumeReplay> for Replayed {
    fn from(report: VolumeReplay) -> Self {
        let stopped = report.stopped;
        Self {
            applied: report.applied,
            stopped: stopped.map(|(record, error)| format!("record {record}: {error}")),
        }
    }
}

impl Imported {
    pub fn new(pool: Pool, altroot: Option<PathBuf>, load_guid: u64) -> Self {
        Self {
            since: pool.env().monotonic(),
            pool: Arc::new(pool),
            altroot,
            mount_options: Vec::new(),
            cache_file: Mutex::default(),
            offset: 0,
            load_guid,
            damage: Arc::default(),
            heads: OpenHeads::default(),
            panics: AtomicBool::new(false),
            growth: Watch::default(),
            intent_logs: OnceLock::new(),
            replays: Mutex::default(),
            replaying: Mutex::default(),
        }
    }

    /// The property `cachefile`; `None` if nobody set it.
    pub fn cache_file(&self) -> Option<String> {
        let file = self.cache_file.lock();
        file.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_cache_file(&self, file: Option<String>) {
        let mut own = self
            .cache_file
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *own = file;
    }

    pub fn name(&self) -> &str {
        self.pool.name()
    }

    pub fn dsl(&self) -> &Arc<Dsl> {
        self.pool.dsl()
    }

    /// Whether intent logs are replayed in memory.
    pub fn replays(&self) -> bool {
        self.pool.options().replay_in_memory
    }

    /// The files of a dataset, after its log's replay if that was asked for.
    pub fn files(&self, dataset: &Dataset) -> Result<Arc<FileSystem>, ControlError> {
        self.replay(dataset)?;
        if self.can_change(dataset) {
            return self.heads.open(self, dataset);
        }
        let set = dataset.object_set().map_err(of_dsl)?;
        let name = dataset.name().as_str();
        let files = if self.replays() && !dataset.is_snapshot() {
            let uberblock = self.pool.uberblock();
            let seconds = i64::try_from(uberblock.timestamp).unwrap_or(0);
            let options = ReplayOptions {
                last_synced: uberblock.txg,
                synced_at: Timestamp::from_stored((seconds, 0)),
            };
            FileSystem::open_replayed(set, options).map(|(files, report)| {
                self.note_replay(name, report.into());
                files
            })
        } else {
            FileSystem::open(set)
        };
        let files = files.map_err(|error| of_files(name, &error))?;
        Ok(Arc::new(files))
    }

    /// Held by whoever replays a log for good.
    pub(super) fn replaying(&self) -> MutexGuard<'_, ()> {
        self.replaying
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers how the replay of a dataset's log went.
    pub(super) fn note_replay(&self, dataset: &str, replayed: Replayed) {
        self.replay_results().insert(dataset.to_owned(), replayed);
    }

    fn replay_results(&self) -> MutexGuard<'_, BTreeMap<String, Replayed>> {
        self.replays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a crash left in the datasets' intent logs, which are looked at once, and how the
    /// replays went so far. Logs that were replayed for good are told of only if that stopped.
    pub fn intent_logs(&self) -> Vec<IntentLogReport> {
        let found = self.intent_logs.get_or_init(|| {
            let mut reports = Vec::new();
            walk_heads(self.dsl(), |head| reports.extend(self.intent_log(head)));
            reports
        });
        let results = self.replay_results();
        let with_result = found.iter().map(|report| {
            let mut report = report.clone();
            if let Some(result) = results.get(&report.dataset) {
                report.applied = Some(result.applied);
                report.stopped = result.stopped.clone();
            }
            report
        });
        let is_told = |report: &IntentLogReport| {
            !self.pool.is_writable() || report.stopped.is_some() || self.still_waits(report)
        };
        with_result.filter(is_told).collect()
    }

    /// Whether the log is still there.
    fn still_waits(&self, report: &IntentLogReport) -> bool {
        let name = DatasetName::parse(&report.dataset).ok();
        let dataset = name.and_then(|name| self.dsl().dataset(&name).ok());
        report.applied.is_none()
            && dataset.is_some_and(|dataset| self.intent_log(&dataset).is_some())
    }

    /// The logs of which the replay stops early; those of datasets that nobody opened yet are
    /// replayed to find out. Datasets without their keys are left out.
    pub fn logs_cut_short(&self) -> Vec<IntentLogReport> {
        if self.pool.is_writable() {
            let mut logs = self.intent_logs();
            logs.retain(|log| log.stopped.is_some());
            return logs;
        }
        if !self.replays() {
            return Vec::new();
        }
        for report in self.intent_logs() {
            let name = DatasetName::parse(&report.dataset);
            let unknown = name.ok().filter(|_| report.applied.is_none());
            let dataset = unknown.and_then(|name| self.dsl().dataset(&name).ok());
            // An unreadable log is reported as such already, and again when it is mounted.
            dataset.and_then(|dataset| match dataset.dataset_type().ok()? {
                DatasetType::Filesystem => self.files(&dataset).ok().map(|_| ()),
                DatasetType::Volume => self.replay_volume(&dataset),
            });
        }
        let mut logs = self.intent_logs();
        logs.retain(|log| log.stopped.is_some() || log.broken.is_some());
        logs
    }

    /// Replays a volume's log to learn how far that goes: commands that read volumes do the same.
    fn replay_volume(&self, dataset: &Dataset) -> Option<()> {
        let set = dataset.object_set().ok()?;
        let (_, report) = Volume::open_replayed(set, self.pool.txg()).ok()?;
        self.note_replay(dataset.name().as_str(), report.into());
        Some(())
    }

    pub(super) fn intent_log(&self, head: &Dataset) -> Option<IntentLogReport> {
        let set = head.object_set().ok()?;
        let log = IntentLog::open(&set).ok()??;
        let mut report = IntentLogReport {
            dataset: head.name().as_str().to_owned(),
            records: 0,
            blocks: 0,
            bytes: 0,
            replayed: self.replays(),
            applied: None,
            stopped: None,
            broken: None,
        };
        match log.summary(self.pool.txg()) {
            Ok(summary) if summary.replayable == 0 => return None,
            Ok(summary) => {
                report.records = summary.replayable;
                report.blocks = summary.blocks;
                report.bytes = summary.bytes;
            }
            Err(error) => report.broken = Some(error.to_string()),
        }
        Some(report)
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
}

/// The pools by name.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pools: RwLock<BTreeMap<String, Arc<Imported>>>,
}

impl Registry {
    /// All pools in order of name.
    pub fn all(&self) -> Vec<Arc<Imported>> {
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        pools.values().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        pools.is_empty()
    }

    /// The pool with this name.
    pub fn pool(&self, name: &str) -> Result<Arc<Imported>, ControlError> {
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        let found = pools.get(name).cloned();
        found.ok_or_else(|| ControlError::NoSuchPool {
            pool: name.to_owned(),
        })
    }

    /// The pool with this name, refused when it is only read or takes no changes now.
    pub fn writable_pool(&self, name: &str) -> Result<Arc<Imported>, ControlError> {
        let found = self.pool(name)?;
        let pool = name.to_owned();
        match found.pool.is_writable() {
            true if found.pool.suspended().is_some() => Err(ControlError::Suspended { pool }),
            true => Ok(found),
            false => Err(ControlError::PoolReadOnly { pool }),
        }
    }

    /// The pool with this name or guid.
    pub fn pool_or_guid(&self, pool: &str) -> Result<Arc<Imported>, ControlError> {
        let guid = pool.parse::<u64>().ok();
        let has_guid = |imported: &Arc<Imported>| Some(imported.pool.guid().0) == guid;
        let by_guid = || self.all().into_iter().find(has_guid);
        self.pool(pool).or_else(|error| by_guid().ok_or(error))
    }

    /// Whether a pool with this guid is imported.
    pub fn has_guid(&self, guid: u64) -> bool {
        self.all().iter().any(|pool| pool.pool.guid().0 == guid)
    }

    /// Takes a pool in; refused when its name is taken.
    pub fn insert(&self, imported: Imported) -> Result<Arc<Imported>, ControlError> {
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        let name = imported.name().to_owned();
        if pools.contains_key(&name) {
            return Err(ControlError::PoolNameTaken { pool: name });
        }
        let imported = Arc::new(imported);
        pools.insert(name, Arc::clone(&imported));
        Ok(imported)
    }

    pub fn remove(&self, name: &str) {
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        pools.remove(name);
    }

    /// The pool that a dataset's name begins with; a name whose pool is not here is that of no
    /// dataset.
    pub fn pool_of(&self, name: &DatasetName) -> Result<Arc<Imported>, ControlError> {
        self.pool(name.pool()).map_err(|_| match name.kind() {
            NameKind::Bookmark => ControlError::NoSuchBookmark {
                bookmark: name.as_str().to_owned(),
            },
            _ => ControlError::NoSuchDataset {
                dataset: name.as_str().to_owned(),
            },
        })
    }

    /// The dataset or snapshot with this name.
    pub fn dataset(&self, name: &DatasetName) -> Result<(Arc<Imported>, Dataset), ControlError> {
        let imported = self.pool_of(name)?;
        let dataset = imported.dsl().dataset(name).map_err(of_dsl)?;
        Ok((imported, dataset))
    }
}
