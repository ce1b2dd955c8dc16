//! A pool opened for one command, without a daemon.

use super::datasets::DatasetWalk;
use super::diagnosis;
use super::failure::{Failure, complain};
use super::keys::Keys;
use super::opener::opener;
use super::options::PoolOptions;
use super::output::Output;
use super::place::Place;
use super::spec::Spec;
use cenote_base::{Env, RealEnv, Txg};
use cenote_cloud::location::is_location;
use cenote_control::model::OpenedPool;
use cenote_dmu::ObjectSet;
use cenote_dsl::{Dataset, DatasetName, DatasetType, DslError};
use cenote_ondisk::pool_config::PoolState;
use cenote_pool::{ImportOptions, Pool, PoolCandidate};
use cenote_posix::write::WriteSettings;
use cenote_posix::{FileSystem, PosixError, ReplayOptions, SymlinkPolicy, Timestamp, Znode};
use cenote_vdev::{Scan, scan};
use cenote_volume::Volume;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where to search without `-d` and `CENOTE_DEVICES`.
const PLACES: [&str; 3] = ["/dev/disk/by-id", "/dev", "."];

/// An open pool and how to open its datasets.
#[derive(Debug)]
pub struct Session {
    pool: Arc<Pool>,
    keys: Keys,
    /// Whether files are shown as after the intent log's replay.
    replay: bool,
}

/// A file system that a command reads.
#[derive(Debug)]
pub struct OpenFileSystem {
    /// The files.
    pub files: Arc<FileSystem>,
    /// The dataset.
    pub dataset: Dataset,
    /// Its full name, with the pool's name even if a guid was given.
    pub name: String,
}

/// The places to search for devices, and whether the user named them.
pub fn places(options: &PoolOptions) -> (Vec<PathBuf>, bool) {
    if !options.devices.is_empty() {
        return (options.devices.clone(), true);
    }
    if let Some(list) = std::env::var_os("CENOTE_DEVICES").filter(|list| !list.is_empty()) {
        return (cenote_base::listed(&list), true);
    }
    let exists = |place: &PathBuf| place.exists();
    let places = PLACES.iter().map(PathBuf::from).filter(exists).collect();
    (places, false)
}

/// Searches for devices of pools.
pub fn find_devices(options: &PoolOptions) -> (Scan, Vec<PathBuf>) {
    let (places, _) = places(options);
    let found = scan(&places, opener(options.offset).as_ref());
    (found, places)
}

/// The candidate that `pool` names, by name or guid.
pub fn pick(
    candidates: Vec<PoolCandidate>,
    pool: &str,
) -> Result<Option<PoolCandidate>, (Vec<PoolCandidate>, usize)> {
    let guid = pool.parse::<u64>().ok();
    let is_named = |candidate: &PoolCandidate| {
        candidate.name() == pool || guid.is_some_and(|guid| candidate.guid.0 == guid)
    };
    let matching = candidates.iter().filter(|c| is_named(c)).count();
    let is_live = |candidate: &PoolCandidate| candidate.config.state != PoolState::Destroyed;
    let live = candidates
        .iter()
        .filter(|c| is_named(c) && is_live(c))
        .count();
    match (matching, live) {
        (0, _) => Err((candidates, 0)),
        (1, _) => Ok(candidates.into_iter().find(is_named)),
        // If a destroyed pool has the same name, prefer the live one.
        (_, 1) => Ok(candidates.into_iter().find(|c| is_named(c) && is_live(c))),
        _ => Err((candidates, matching)),
    }
}

impl Session {
    /// Finds and opens `pool`.
    ///
    /// Without `-d` a pool that the daemon has imported is read as the daemon reads it: from the
    /// same devices, at the same state, with the keys that are loaded there.
    pub fn open(options: &PoolOptions, pool: &str) -> Result<Self, Failure> {
        let mut options = options.clone();
        let opened = match places(&options).1 {
            true => None,
            false => cenote_connect::opened(pool).map_err(|error| Failure::NoPool {
                pool: pool.to_owned(),
                diagnosis: format!(
                    ": {error}. It may be imported; to read it without the daemon, name its \
                     devices with -d"
                ),
            })?,
        };
        let mut wanted = pool.to_owned();
        if let Some(opened) = &opened {
            options.follow(opened);
            wanted = opened.guid.to_string();
        }
        let options = &options;
        let (found, places) = find_devices(options);
        let failures = diagnosis::failures(&found);
        let candidates = cenote_pool::assemble(found);
        let candidate = match pick(candidates, &wanted) {
            Ok(Some(candidate)) => candidate,
            Ok(None) => return Err(diagnosis::no_pool(pool, &places, &[], &failures)),
            Err((others, 0)) => return Err(diagnosis::no_pool(pool, &places, &others, &failures)),
            Err((others, _)) => return Err(diagnosis::ambiguous(pool, &others)),
        };
        let env: Arc<dyn Env> = Arc::new(RealEnv::new());
        let import_options = ImportOptions {
            opener: opener(options.offset),
            ..options.import_options()
        };
        let pool = cenote_pool::import(&candidate, &import_options, env);
        let pool = pool.map_err(|source| Failure::Import {
            pool: candidate.name().to_owned(),
            diagnosis: diagnosis::import(&candidate, &source, &failures),
            source: Box::new(source),
        })?;
        for table in pool.unread() {
            eprintln!("cenote: warning: {}: {table}", pool.name());
        }
        if let Some(older) = opened
            .as_ref()
            .and_then(|opened| older_in_store(&pool, opened))
        {
            eprintln!("cenote: warning: {older}");
        }
        let keys = Keys::new(options.keys.clone());
        for key in opened.iter().flat_map(|opened| &opened.keys) {
            keys.load(pool.dsl(), key)?;
        }
        Ok(Self {
            pool: Arc::new(pool),
            keys,
            replay: options.replays(),
        })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The full name of a dataset given with the pool's name or guid.
    fn full_name(&self, given: &str) -> Result<DatasetName, Failure> {
        let end = given.find(['/', '@', '#']).unwrap_or(given.len());
        let name = format!("{}{}", self.pool.name(), &given[end..]);
        DatasetName::parse(&name).map_err(|source| Failure::Dataset {
            dataset: given.to_owned(),
            source: Box::new(DslError::BadName { text: name, source }),
        })
    }

    /// Opens a dataset or snapshot, and loads its key if one was given.
    pub fn dataset(&self, given: &str) -> Result<Dataset, Failure> {
        let name = self.full_name(given)?;
        let failed = |source| Failure::Dataset {
            dataset: name.as_str().to_owned(),
            source: Box::new(source),
        };
        let dataset = self.pool.dsl().dataset(&name).map_err(failed)?;
        self.keys.unlock(&dataset)?;
        Ok(dataset)
    }

    /// The dataset's objects.
    pub fn object_set(&self, dataset: &Dataset) -> Result<Arc<ObjectSet>, Failure> {
        dataset.object_set().map_err(|source| Failure::Dataset {
            dataset: dataset.name().as_str().to_owned(),
            source: Box::new(source),
        })
    }

    /// What the dataset holds.
    pub fn dataset_type(&self, dataset: &Dataset) -> Result<DatasetType, Failure> {
        dataset.dataset_type().map_err(|source| Failure::Dataset {
            dataset: dataset.name().as_str().to_owned(),
            source: Box::new(source),
        })
    }

    /// Opens the file system of `spec`.
    pub fn file_system(&self, spec: &Spec) -> Result<OpenFileSystem, Failure> {
        self.file_system_of(self.dataset(&spec.dataset)?)
    }

    /// Opens the file system in `dataset`.
    pub fn file_system_of(&self, dataset: Dataset) -> Result<OpenFileSystem, Failure> {
        let name = dataset.name().as_str().to_owned();
        if self.dataset_type(&dataset)? == DatasetType::Volume {
            return Err(Failure::WrongKind {
                dataset: name,
                found: "volume",
                hint: "read it with 'cenote dump' or 'cenote manifest'",
            });
        }
        self.keys.require(&dataset)?;
        let set = self.object_set(&dataset)?;
        let opened = match self.replay && !dataset.is_snapshot() {
            true => self.replayed(&name, set),
            false => FileSystem::open(set),
        };
        let files = opened.map_err(|source| Failure::Path {
            place: Box::new(Place::new(&name, "")),
            source: Box::new(source),
        })?;
        Ok(OpenFileSystem {
            files: Arc::new(files),
            dataset,
            name,
        })
    }

    fn replayed(&self, name: &str, set: Arc<ObjectSet>) -> Result<FileSystem, PosixError> {
        let seconds = i64::try_from(self.pool.uberblock().timestamp).unwrap_or(i64::MAX);
        let options = ReplayOptions {
            last_synced: self.pool.txg(),
            synced_at: Timestamp {
                seconds,
                nanoseconds: 0,
            },
            settings: WriteSettings::default(),
            env: Arc::clone(self.pool.env()),
        };
        let (files, report) = FileSystem::open_replayed(set, &options)?;
        if let Some((record, error)) = report.stopped {
            complain(&stopped(name, record, &error));
        }
        Ok(files)
    }

    /// Opens the volume in `dataset`.
    pub fn volume_of(&self, dataset: &Dataset) -> Result<Volume, Failure> {
        let name = dataset.name().as_str().to_owned();
        if self.dataset_type(dataset)? != DatasetType::Volume {
            return Err(Failure::WrongKind {
                dataset: name,
                found: "file system",
                hint: "read it with 'cenote cp', 'cenote cat' or 'cenote manifest'",
            });
        }
        self.keys.require(dataset)?;
        let set = self.object_set(dataset)?;
        let opened = match self.replay && !dataset.is_snapshot() {
            true => {
                let env = Arc::clone(self.pool.env());
                Volume::open_replayed(set, self.pool.txg(), env).map(|(volume, report)| {
                    if let Some((record, error)) = report.stopped {
                        complain(&stopped(&name, record, &error));
                    }
                    volume
                })
            }
            false => Volume::open(set),
        };
        opened.map_err(|source| Failure::Volume {
            dataset: name,
            source: Box::new(source),
        })
    }

    /// Loads all given keys, without asking for others.
    pub fn unlock_all(&self) -> Result<(), Failure> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let walk = DatasetWalk::new(self.pool.dsl())?;
        for dataset in walk {
            let unlocked = dataset.and_then(|dataset| self.keys.unlock_given(&dataset));
            match unlocked {
                // The commands that read the dataset report the damage.
                Err(failure) if failure.is_damage() => failure.report(),
                unlocked => unlocked?,
            }
        }
        Ok(())
    }

    /// Loads the key of `dataset`, if it is encrypted and the key was given.
    pub fn unlock(&self, dataset: &Dataset) -> Result<(), Failure> {
        self.keys.unlock(dataset)
    }
}

/// A message if the daemon has written more to a pool than its stores have yet.
fn older_in_store(pool: &Pool, opened: &OpenedPool) -> Option<String> {
    let is_in_store = |device: &String| is_location(Path::new(device));
    let follows = pool.options().txg == Some(Txg(opened.txg));
    let is_older = follows && pool.txg().0 < opened.txg;
    (is_older && opened.devices.iter().any(is_in_store)).then(|| {
        format!(
            "{name}: the store has the pool as of transaction group {}, the daemon as of {}: this \
             command reads the store; 'cenote cloud sync {name}' uploads the rest",
            pool.txg(),
            opened.txg,
            name = opened.name
        )
    })
}

/// A message about a replay that did not reach the end of the log.
fn stopped(dataset: &str, record: u64, error: &dyn std::fmt::Display) -> String {
    format!("{dataset}: the intent log was replayed up to record {record} only: {error}")
}

impl Session {
    /// Returns `session` if it is of `pool`, or opens a new one in its place.
    ///
    /// Commands take several places, mostly in one pool.
    pub fn reuse<'s>(
        session: &'s mut Option<Self>,
        options: &PoolOptions,
        pool: &str,
    ) -> Result<&'s Self, Failure> {
        let fits = |open: &Self| open.pool.name() == pool || pool.parse() == Ok(open.pool.guid().0);
        match session.as_ref().is_some_and(fits) {
            true => Ok(session.as_ref().expect("it fits")),
            false => {
                // Free the memory of the old one first.
                *session = None;
                Ok(session.insert(Self::open(options, pool)?))
            }
        }
    }
}

/// Runs `work` for each place. Reports failures and continues with the next place.
///
/// `state` is the state of `work`, including its `output`.
pub fn each_place<T>(
    options: &PoolOptions,
    places: &[Spec],
    state: &mut T,
    output: fn(&mut T) -> &mut Output,
    work: impl Fn(&mut T, &Session, &Spec) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut session = None;
    for place in places {
        let session = Session::reuse(&mut session, options, place.pool())?;
        let ended = work(state, session, place);
        output(state).survive(ended)?;
    }
    output(state).flush()
}

impl OpenFileSystem {
    /// The file at `path`.
    pub fn resolve(&self, path: &[u8], policy: SymlinkPolicy) -> Result<Arc<Znode>, Failure> {
        let found = self.files.resolve(path, policy);
        found.map_err(|source| self.failure(path, source))
    }

    /// An error about a path.
    pub fn failure(&self, path: &[u8], source: PosixError) -> Failure {
        Failure::Path {
            place: Box::new(Place::new(&self.name, path)),
            source: Box::new(source),
        }
    }

    /// `+` for a file whose access control list has more than its mode, otherwise nothing.
    pub fn acl_mark(&self, znode: &Znode) -> &'static str {
        let names = self.files.xattr_names(znode).unwrap_or_default();
        let is_acl = |name: &Vec<u8>| {
            name == cenote_posix::POSIX_ACL_ACCESS || name == cenote_posix::POSIX_ACL_DEFAULT
        };
        if names.iter().any(is_acl) { "+" } else { "" }
    }
}
