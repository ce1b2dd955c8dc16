//! The record of what this daemon has, kept up to date on disk.
//!
//! `cenote_control::record` says what it is for. Pools are written down before the request that
//! imports or exports them is answered; mounts within a second, since there may be thousands of
//! them in a row, and those that their properties ask for come back with the import.
//!
//! *Invariant: no pool waits for the record's disk.* What is written now and then is written by a
//! thread of its own, as that disk may be slow or ill itself.

use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use cenote_base::Env;
use cenote_cloud::location::is_location;
use cenote_control::model::{ImportOptions, Rewind};
use cenote_control::record::{self, DaemonRecord, Loss, RecordedMount, RecordedPool, TOUCH_PERIOD};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where the record is, and whose it is.
#[derive(Clone, Debug)]
pub struct RecordPlace {
    /// The file.
    pub file: PathBuf,
    /// The socket that the daemon listens on.
    pub socket: PathBuf,
}

/// Keeps the record.
pub(crate) struct Recorder(Option<Arc<Kept>>);

struct Kept {
    file: PathBuf,
    state: Mutex<State>,
}

struct State {
    record: DaemonRecord,
    /// Whether that is on disk.
    is_stored: bool,
    touched: Duration,
    has_failed: bool,
}

impl Recorder {
    /// A recorder that takes up what the daemon before has left, if that died.
    pub fn new(place: Option<RecordPlace>, env: &dyn Env) -> Self {
        let kept = place.map(|place| {
            let mut record =
                DaemonRecord::of_this_process(&place.socket, env.wall_clock().as_secs());
            record.lost = found(&place.file);
            Arc::new(Kept {
                state: Mutex::new(State {
                    // Only what was lost is in it yet, and that is on disk.
                    is_stored: record.lost.is_none(),
                    record,
                    touched: env.monotonic(),
                    has_failed: false,
                }),
                file: place.file,
            })
        });
        Self(kept)
    }

    /// What the daemon before had and nobody has imported since.
    pub fn lost(&self) -> Option<Loss> {
        self.0.as_ref()?.lock().record.lost.clone()
    }

    /// Forgets that.
    pub fn forget(&self) {
        if let Some(kept) = &self.0 {
            let mut state = kept.lock();
            state.record.lost = None;
            state.is_stored = false;
            kept.store(&mut state);
        }
    }

    /// Writes down which pools there are, if that changed. Before the answer to whoever changed it.
    pub fn note_pools(&self, registry: &Registry, env: &dyn Env) {
        let Some(kept) = &self.0 else {
            return;
        };
        let mut state = kept.lock();
        // As before: they are looked at now and then.
        let before = std::mem::take(&mut state.record.pools);
        let mounts = |name: &str| -> Vec<RecordedMount> {
            let mut known = before.iter();
            let known = known.find(|pool| pool.name == name);
            known.map(|pool| pool.mounts.clone()).unwrap_or_default()
        };
        let pools = registry.all();
        let pools: Vec<RecordedPool> = pools
            .iter()
            .map(|imported| recorded(imported, registry, mounts(imported.name())))
            .collect();
        state.is_stored &= pools == before;
        state.take_up(pools, env);
        kept.store(&mut state);
    }

    /// The same with the mounts, and that the daemon lives; by another thread.
    pub fn look(&self, registry: &Registry, mounts: &Mounts, env: &dyn Env) {
        let Some(kept) = &self.0 else {
            return;
        };
        // Somebody writes: there will be another look.
        let Ok(mut state) = kept.state.try_lock() else {
            return;
        };
        let pools = registry.all();
        let pools: Vec<RecordedPool> = pools
            .iter()
            .map(|imported| recorded(imported, registry, mounts.recorded(imported.name())))
            .collect();
        state.is_stored &= pools == state.record.pools;
        state.take_up(pools, env);
        let now = env.monotonic();
        let is_time = now.saturating_sub(state.touched) >= TOUCH_PERIOD;
        let is_due = is_time && !state.record.is_empty();
        if state.is_stored && !is_due {
            return;
        }
        state.touched = now;
        drop(state);
        let kept = Arc::clone(kept);
        let thread = std::thread::Builder::new().name("record".to_owned());
        let spawned = thread.spawn(move || {
            let mut state = kept.lock();
            match state.is_stored {
                true => {
                    // A record that somebody took away is written anew.
                    state.is_stored = record::touch(&kept.file).is_ok();
                    kept.store(&mut state);
                }
                false => kept.store(&mut state),
            }
        });
        if let Err(error) = spawned {
            log::warn!("the record of imported pools is not written: {error}");
        }
    }

    /// The daemon ends in order, without pools.
    pub fn finish(&self) {
        if let Some(kept) = &self.0 {
            let mut state = kept.lock();
            state.record.pools = Vec::new();
            state.is_stored = false;
            kept.store(&mut state);
        }
    }
}

impl State {
    fn take_up(&mut self, pools: Vec<RecordedPool>, env: &dyn Env) {
        self.record.seen = env.wall_clock().as_secs();
        let Some(lost) = &mut self.record.lost else {
            self.record.pools = pools;
            return;
        };
        let before = lost.pools.len();
        lost.pools
            .retain(|lost| pools.iter().all(|pool| pool.guid != lost.guid));
        self.is_stored &= lost.pools.len() == before;
        if lost.pools.is_empty() {
            self.record.lost = None;
        }
        self.record.pools = pools;
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the record to the disk, if it is not there.
    fn store(&self, state: &mut State) {
        if state.is_stored {
            return;
        }
        let stored = match state.record.is_empty() {
            true => record::remove(&self.file),
            false => state.record.store(&self.file),
        };
        state.is_stored = stored.is_ok();
        match stored {
            Ok(()) => state.has_failed = false,
            Err(error) if !state.has_failed => {
                state.has_failed = true;
                log::warn!(
                    "{}: the record of imported pools is not written, so nobody will know what \
                     this daemon had if it dies: {error}",
                    self.file.display()
                );
            }
            Err(_) => {}
        }
    }
}

/// What the record of the daemon before says that it had when it died.
fn found(file: &Path) -> Option<Loss> {
    match DaemonRecord::load(file, None) {
        Ok(Some(record)) => record.into_loss(),
        Ok(None) => None,
        Err(error) => {
            log::error!(
                "{}: whether a daemon died with pools imported is not known: {error}",
                file.display()
            );
            None
        }
    }
}

fn recorded(imported: &Imported, registry: &Registry, mounts: Vec<RecordedMount>) -> RecordedPool {
    let pool = &imported.pool;
    let leaves = pool.vdev_tree().leaves();
    let devices =
        leaves.filter_map(|leaf| Some(leaf.path.as_ref()?.to_string_lossy().into_owned()));
    let devices = devices
        .filter(|path| path.starts_with('/') || is_location(Path::new(path)))
        .collect();
    RecordedPool {
        name: imported.name().to_owned(),
        guid: pool.guid().0,
        devices,
        offset: imported.offset,
        options: options_of(imported),
        lasting: imported.is_lasting(&registry.cache_files),
        mounts,
    }
}

/// How to import a pool so that it is as it is.
fn options_of(imported: &Imported) -> ImportOptions {
    let pool = &imported.pool;
    let (options, readonly) = (pool.options(), !pool.is_writable());
    let cache_file = imported.cache_file();
    ImportOptions {
        // Another name is on the devices already, unless it is only for this import.
        new_name: options
            .new_name
            .clone()
            .filter(|_| options.temporary_name || readonly),
        temporary_name: options.temporary_name,
        readonly,
        altroot: imported
            .altroot
            .as_ref()
            .map(|root| root.to_string_lossy().into_owned()),
        rewind: match options.txg.filter(|_| readonly) {
            Some(txg) => Rewind::Txg(txg.0),
            None => Rewind::Never,
        },
        // Of a pool that is written to it is gone: the rewind was for good.
        checkpoint_rewind: options.rewind_to_checkpoint && readonly,
        missing_log: options.missing_logs,
        no_mount: true,
        replay_in_memory: options.replay_in_memory,
        mount_options: imported.mount_options.clone(),
        properties: cache_file
            .map(|file| ("cachefile".to_owned(), file))
            .into_iter()
            .collect(),
        ..ImportOptions::default()
    }
}
