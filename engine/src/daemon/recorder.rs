//! The record of what this daemon has, kept up to date on disk.
//!
//! `cenote_control::record` says what it is for. Pools and mounts are recorded before the request
//! that changes them is answered. Pools are synced, to survive a crash of the machine. Mounts are
//! only written, to survive the daemon, without waiting for the disk (140 KB for 1,000 mounts).
//! With more than [`DIRECT_MAX`] mounts, the record first notes that mounts changed, and lists them
//! within a second. A resume in between mounts those in the record and those that properties
//! request. Mounts that umount(8) ended are noticed within a second, too.
//!
//! A daemon that ends in order writes down what it has before it takes the first mount away, and
//! nothing more until it has ended or stays: if it is killed half way, all comes back.
//!
//! If the record cannot be written, it is written beside the socket, and the daemon reports that.
//! If even that fails, the note beside the socket is removed. A socket without daemon, note and
//! record means: a daemon died, and its pools and mounts are unknown.
//!
//! `expected` says which pools should be here.
//!
//! *Invariant: no pool waits for the record's disk.* What is written now and then is written by a
//! job of its own, as that disk may be slow or ill itself.

use super::expected::{Expected, failed, meant};
use crate::context::Context;
use crate::mounts::table::Mounts;
use crate::registry::cache_file::forget_cached;
use crate::registry::cache_places::CacheFiles;
use crate::registry::imported::Imported;
use cenote_base::Env;
use cenote_base::rt::job::{Control, Job, Next};
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_cloud::is_url;
use cenote_control::model::{ControlError, ImportOptions, ImportPick, MissingPool, Rewind};
use cenote_control::protocol::{DisksAtEnd, note_path};
use cenote_control::record::{
    self, DaemonRecord, FailedImport, Loss, RecordedExport, RecordedMount, RecordedPool,
    RecordedSite, TOUCH_PERIOD, are_same_but_for_mounts, beside_socket,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the record is, and whose it is.
#[derive(Clone, Debug)]
pub struct RecordPlace {
    /// The file.
    pub file: PathBuf,
    /// The socket that the daemon listens on.
    pub socket: PathBuf,
    /// What the daemon before had, if that died.
    pub lost: Option<Loss>,
    /// Pools that it released when it was stopped, since the machine started.
    pub stopped: Vec<RecordedPool>,
    /// Which imports failed.
    pub failed: Vec<FailedImport>,
}

/// Keeps the record.
pub(crate) struct Recorder(Option<Arc<Kept>>);

struct Kept {
    file: PathBuf,
    /// Where it goes while that cannot be written.
    beside: PathBuf,
    note: PathBuf,
    state: Mutex<State, ranks::DaemonRecord>,
    job: Job,
}

/// How long mounts that a daemon had when it died stay in the record of the next one, although they
/// are not there yet: they are being made again, which is not to be forgotten if that dies too.
const RESUME_TIME: Duration = Duration::from_secs(60);

/// Mounts that are written down at once: a record of 600 KB.
const DIRECT_MAX: usize = 4096;

/// Mounts that are being made again for a pool.
struct Awaited {
    guid: u64,
    mounts: Vec<RecordedMount>,
    exports: Vec<RecordedExport>,
    sites: Vec<RecordedSite>,
    until: Duration,
}

struct State {
    record: DaemonRecord,
    awaited: Vec<Awaited>,
    /// Whether that is written down.
    is_stored: bool,
    /// Whether more than mounts changed since it was written so that it outlives the machine.
    needs_disk: bool,
    /// Whether mounts are written down that would not outlive the machine.
    is_ahead: bool,
    /// The daemon is ending: the record keeps the pools that it releases now.
    is_frozen: bool,
    expected: Expected,
    touched: Duration,
    /// Why it is not where it should be.
    failure: Option<String>,
    /// The text of the note beside the socket while the note is removed.
    note: Option<Vec<u8>>,
    /// The number of mount changes in the record, and whether it notes that there are newer ones.
    changes: u64,
    mounts_changed: bool,
}

impl Recorder {
    /// A recorder that takes up what the daemon before has left, if that died.
    pub fn new(place: Option<RecordPlace>, files: &CacheFiles, env: &dyn Env) -> Self {
        let kept = place.map(|place| {
            let mut record =
                DaemonRecord::of_this_process(&place.socket, env.wall_clock().as_secs());
            record.lost = place.lost;
            record.short_lives = record.lost.as_ref().map_or(0, |lost| lost.short_lives);
            (record.stopped, record.failed) = (place.stopped, place.failed);
            let mut expected = Expected::default();
            expected.read(files, env.monotonic());
            Arc::new(Kept {
                state: Mutex::new(State {
                    // Only what was lost is in it yet, and that is on disk.
                    is_stored: record.is_empty(),
                    needs_disk: true,
                    is_ahead: false,
                    is_frozen: false,
                    expected,
                    record,
                    awaited: Vec::new(),
                    touched: env.monotonic(),
                    failure: None,
                    note: None,
                    changes: 0,
                    mounts_changed: false,
                }),
                file: place.file,
                beside: beside_socket(&place.socket),
                note: note_path(&place.socket),
                job: Job::new(),
            })
        });
        Self(kept)
    }

    /// The pools of the previous daemon that have not been imported since.
    pub fn lost(&self) -> Option<Loss> {
        self.0.as_ref()?.lock().record.lost.clone()
    }

    /// The guids of the pools that were this machine's when the daemon started.
    pub fn pools_before(&self) -> Vec<u64> {
        let Some(kept) = &self.0 else {
            return Vec::new();
        };
        let state = kept.lock();
        let lost = state.record.lost.iter().flat_map(|lost| &lost.pools);
        let mut guids: Vec<u64> = lost
            .chain(&state.record.stopped)
            .map(|pool| pool.guid)
            .collect();
        guids.extend(state.expected.guids());
        guids
    }

    /// Why what this daemon has is not written down where it should be.
    pub fn failure(&self) -> Option<String> {
        self.0.as_ref()?.lock().failure.clone()
    }

    /// Forgets that.
    pub fn forget(&self) {
        if let Some(kept) = &self.0 {
            let mut state = kept.lock();
            state.record.lost = None;
            state.changed();
            kept.store(&mut state);
        }
    }

    /// Forgets that these pools should be imported.
    ///
    /// # Errors
    /// One of them is not missing, or the cache file cannot be written.
    pub fn forget_pools(&self, context: &Context, names: &[String]) -> Result<(), ControlError> {
        let files = &context.registry.cache_files;
        let missing = self.absent(context);
        let mut guids = Vec::new();
        for name in names {
            let mut found = missing.iter();
            let found = found.find(|pool| pool.name == *name || pool.guid.to_string() == *name);
            let pool = name.clone();
            guids.push(found.ok_or(ControlError::NoSuchPool { pool })?.guid);
        }
        if let Some(file) = &files.default {
            forget_cached(file, Path::new(&files.owner), &guids)?;
            files.wrote();
        }
        if let Some(kept) = &self.0 {
            let mut state = kept.lock();
            state.expected.read(files, context.env.monotonic());
            state.drop_pools(|guid| guids.contains(&guid));
            state.changed();
            kept.store(&mut state);
        }
        Ok(())
    }

    /// The pools that should be imported, and are not.
    pub fn missing(&self, context: &Context) -> Vec<MissingPool> {
        let Some(kept) = &self.0 else {
            return Vec::new();
        };
        let is_imported = |guid| context.registry.has_guid(guid);
        let state = kept.lock();
        state.expected.missing(&state.record, is_imported)
    }

    /// The same with those that are away on purpose.
    fn absent(&self, context: &Context) -> Vec<MissingPool> {
        let Some(kept) = &self.0 else {
            return Vec::new();
        };
        let is_imported = |guid| context.registry.has_guid(guid);
        let state = kept.lock();
        let mut record = state.record.clone();
        record.stopped.clear();
        state.expected.missing(&record, is_imported)
    }

    /// The missing pools that were not reported yet.
    pub fn untold(&self, context: &Context) -> Vec<MissingPool> {
        let Some(kept) = &self.0 else {
            return Vec::new();
        };
        let missing = self.missing(context);
        kept.lock().expected.untold(missing)
    }

    /// Writes down why a pool that should be imported is not.
    pub fn note_failure(&self, context: &Context, pick: &ImportPick, error: &ControlError) {
        let missing = self.absent(context);
        let (Some(kept), Some(pool)) = (&self.0, meant(pick, &missing)) else {
            return;
        };
        let failure = failed(pool, error, context.env.wall_clock().as_secs());
        let (name, reason) = (&pool.name, &failure.reason);
        log::error!("pool '{name}' should be imported, and is not: {reason}");
        let mut state = kept.lock();
        state.record.failed.retain(|other| other.guid != pool.guid);
        state.record.failed.push(failure);
        state.changed();
        kept.store(&mut state);
    }

    /// Records the present pools and mounts, if they changed. Called before the request that
    /// changed them is answered.
    pub fn note_pools(&self, context: &Context, mounts: &Mounts) {
        let Some(kept) = &self.0 else {
            return;
        };
        let now = context.env.monotonic();
        let mut state = kept.lock();
        if state
            .expected
            .is_outdated(&context.registry.cache_files, now)
        {
            state.expected.read(&context.registry.cache_files, now);
        }
        if state.is_frozen {
            return;
        }
        match mounts.total() > DIRECT_MAX {
            true => state.look_at_pools(context, mounts),
            false => state.look_at_all(context, mounts),
        }
        kept.store(&mut state);
    }

    /// The same with all mounts, and that the daemon lives; by a job.
    pub fn look(&self, context: &Context, mounts: &Mounts) {
        let Some(kept) = &self.0 else {
            return;
        };
        // Another thread is writing; the job runs again later.
        let Some(mut state) = kept.state.try_lock() else {
            return;
        };
        if state.is_frozen {
            return;
        }
        state.look_at_all(context, mounts);
        let now = context.env.monotonic();
        let is_due = now.saturating_sub(state.touched) >= TOUCH_PERIOD;
        if state.is_stored && !state.is_ahead && !is_due {
            return;
        }
        state.touched = now;
        state.needs_disk |= state.is_ahead;
        state.is_stored &= !state.is_ahead;
        drop(state);
        let (own, registry) = (Arc::clone(kept), Arc::clone(&context.registry));
        let work = move |_: &Control| {
            let mut state = own.lock();
            state.expected.read(&registry.cache_files, now);
            // A removed record is written again; an error then shows the reason.
            let is_there = state.record.is_empty() || record::touch(&own.file).is_ok();
            if !is_there {
                state.changed();
            }
            own.store(&mut state);
            Next::Done
        };
        if let Err(error) = kept.job.start("record", work) {
            log::warn!("the record of imported pools is not written: {error}");
        }
    }

    /// The daemon is about to let everything go: writes down what it has while it has it.
    pub fn begin_end(&self, context: &Context, mounts: &Mounts) {
        if let Some(kept) = &self.0 {
            let mut state = kept.lock();
            if state.is_frozen {
                return;
            }
            state.look_at_all(context, mounts);
            kept.store(&mut state);
            state.is_frozen = true;
        }
    }

    /// It stays after all.
    pub fn stay(&self, context: &Context, mounts: &Mounts) {
        if let Some(kept) = &self.0 {
            kept.lock().is_frozen = false;
            self.note_pools(context, mounts);
        }
    }

    /// It has let everything go. For a restart all of the record stays, for the next daemon. After
    /// a signal mounts come back with their pools, and after `cenote daemon stop` pools only.
    pub fn finish(&self, disks: DisksAtEnd) {
        if let Some(kept) = &self.0 {
            let mut state = kept.lock();
            if state.record.is_restart {
                return;
            }
            state.record.is_restart = disks == DisksAtEnd::Stay;
            if disks != DisksAtEnd::Stay {
                let mut pools = std::mem::take(&mut state.record.pools);
                pools.retain(|pool| pool.lasting);
                for pool in pools.iter_mut().filter(|_| disks == DisksAtEnd::Go) {
                    pool.mounts.clear();
                    pool.exports.clear();
                    pool.sites.clear();
                }
                state.record.stopped.extend(pools);
            }
            state.changed();
            kept.store(&mut state);
        }
    }
}

impl State {
    /// More than mounts changed.
    fn changed(&mut self) {
        self.is_stored = false;
        self.needs_disk = true;
    }

    /// Looks at pools and all mounts.
    fn look_at_all(&mut self, context: &Context, mounts: &Mounts) {
        (self.changes, self.mounts_changed) = (mounts.changes(), false);
        let pools = context.registry.all();
        let pools: Vec<RecordedPool> = pools
            .iter()
            .map(|imported| recorded(imported, context, mounts.recorded(imported.name())))
            .collect();
        self.take_up_now(pools, context.env.as_ref());
    }

    /// Looks at pools, and whether mounts changed.
    fn look_at_pools(&mut self, context: &Context, mounts: &Mounts) {
        let pools = context.registry.all();
        self.mounts_changed |= self.changes != mounts.changes();
        // Keep the recorded mounts if there are any: the job updates them.
        let before = &self.record.pools;
        let mounts = |name: &str| -> Vec<RecordedMount> {
            let known = before.iter().find(|pool| pool.name == name);
            let known = known.filter(|pool| !pool.mounts.is_empty());
            known.map_or_else(|| mounts.recorded(name), |pool| pool.mounts.clone())
        };
        let pools: Vec<RecordedPool> = pools
            .iter()
            .map(|imported| recorded(imported, context, mounts(imported.name())))
            .collect();
        self.take_up_now(pools, context.env.as_ref());
    }

    fn take_up_now(&mut self, pools: Vec<RecordedPool>, env: &dyn Env) {
        self.take_up(pools, env.wall_clock().as_secs(), env.monotonic());
    }

    /// What is written down of pools that are missing, of those for which `is_meant` holds.
    fn drop_pools(&mut self, is_meant: impl Fn(u64) -> bool) {
        self.record.stopped.retain(|pool| !is_meant(pool.guid));
        self.record.failed.retain(|failed| !is_meant(failed.guid));
        if let Some(lost) = &mut self.record.lost {
            lost.pools.retain(|pool| !is_meant(pool.guid));
        }
        if self.record.lost.as_ref().is_some_and(Loss::is_empty) {
            self.record.lost = None;
        }
    }

    fn take_up(&mut self, mut pools: Vec<RecordedPool>, seen: u64, now: Duration) {
        self.record.seen = seen;
        self.strike_off(&pools, now);
        for awaited in &mut self.awaited {
            let pool = pools.iter_mut().find(|pool| pool.guid == awaited.guid);
            let Some(pool) = pool else {
                continue;
            };
            // A mount that came back and was unmounted later is not awaited any more.
            let is_back = |mount: &RecordedMount| {
                let mut mounts = pool.mounts.iter();
                mounts.any(|there| there.place == mount.place)
            };
            awaited.mounts.retain(|mount| !is_back(mount));
            awaited.sites.retain(|site| !pool.sites.contains(site));
            awaited
                .exports
                .retain(|export| !pool.exports.contains(export));
            pool.mounts.extend(awaited.mounts.iter().cloned());
            pool.sites.extend(awaited.sites.iter().cloned());
            pool.exports.extend(awaited.exports.iter().cloned());
        }
        for pool in &mut pools {
            pool.mounts_changed = self.mounts_changed;
        }
        let is_same = pools == self.record.pools;
        self.needs_disk |= !are_same_but_for_mounts(&pools, &self.record.pools);
        self.is_stored &= is_same;
        self.record.pools = pools;
    }

    /// What was lost and is imported is lost no more; its mounts follow.
    fn strike_off(&mut self, pools: &[RecordedPool], now: Duration) {
        let is_imported = |guid: u64| pools.iter().any(|pool| pool.guid == guid);
        self.awaited
            .retain(|awaited| is_imported(awaited.guid) && now < awaited.until);
        let failed = &mut self.record.failed;
        let failures = failed.len();
        failed.retain(|failed| !is_imported(failed.guid));
        let has_fewer = failures != failed.len();
        let (mut found, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.record.stopped)
            .into_iter()
            .partition(|stopped| is_imported(stopped.guid));
        self.record.stopped = left;
        let mut is_same_boot = true;
        if let Some(lost) = &mut self.record.lost {
            let (back, left): (Vec<_>, Vec<_>) = std::mem::take(&mut lost.pools)
                .into_iter()
                .partition(|lost| is_imported(lost.guid));
            lost.pools = left;
            is_same_boot = back.is_empty() || lost.boot == self.record.boot;
            found.extend(back);
        }
        if has_fewer || !found.is_empty() {
            self.changed();
        }
        // After a reboot the mounts are those that properties request.
        if is_same_boot {
            let until = now.saturating_add(RESUME_TIME);
            self.awaited.extend(found.into_iter().map(|pool| Awaited {
                guid: pool.guid,
                mounts: pool.mounts,
                exports: pool.exports,
                sites: pool.sites,
                until,
            }));
        }
        if self.record.lost.as_ref().is_some_and(Loss::is_empty) {
            self.record.lost = None;
        }
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Brings the record to the disk, if it is not there.
    fn store(&self, state: &mut State) {
        if state.is_stored {
            return;
        }
        state.record.revision += 1;
        let is_quick = !state.needs_disk && state.failure.is_none() && !state.record.is_empty();
        if is_quick && state.record.store_recent(&self.file).is_ok() {
            (state.is_stored, state.is_ahead) = (true, true);
            return;
        }
        let stored = match state.record.is_empty() {
            true => record::remove(&self.file),
            false => state.record.store(&self.file),
        };
        state.is_stored = stored.is_ok();
        match stored {
            Ok(()) => {
                (state.needs_disk, state.is_ahead) = (false, false);
                self.recovered(state);
            }
            Err(error) => self.failed(state, &error),
        }
    }

    /// The record is where it should be.
    fn recovered(&self, state: &mut State) {
        if let Err(error) = record::remove(&self.beside) {
            // It would be taken for the newer one.
            log::warn!("{}: cannot be removed: {error}", self.beside.display());
            let _ = state.record.store(&self.beside);
        }
        self.put_note_back(state);
        if state.failure.take().is_some() {
            log::info!(
                "{}: the record of imported pools is written again",
                self.file.display()
            );
        }
    }

    /// The record goes beside the socket.
    fn failed(&self, state: &mut State, error: &std::io::Error) {
        let beside = state.record.store(&self.beside);
        let file = self.file.display();
        let mut failure = format!("{file}: {error}");
        match &beside {
            Ok(()) => {
                self.put_note_back(state);
                let beside = self.beside.display();
                failure.push_str(&format!("; until then it is in {beside}"));
            }
            Err(error) => {
                if state.note.is_none() {
                    state.note = std::fs::read(&self.note).ok();
                }
                // Also where it could not be read: without it nothing counts as known.
                let _ = std::fs::remove_file(&self.note);
                failure.push_str(&format!("; {}: {error}", self.beside.display()));
            }
        }
        if state.failure.as_ref() != Some(&failure) {
            log::warn!("the record of imported pools cannot be written: {failure}");
            state.failure = Some(failure);
        }
    }

    fn put_note_back(&self, state: &mut State) {
        if let Some(note) = state.note.take()
            && let Err(error) = std::fs::write(&self.note, &note)
        {
            log::warn!("{}: cannot be written: {error}", self.note.display());
            state.note = Some(note);
        }
    }
}

fn recorded(imported: &Imported, context: &Context, mounts: Vec<RecordedMount>) -> RecordedPool {
    let pool = &imported.pool;
    let tree = pool.vdev_tree();
    let leaves = tree.leaves();
    let devices =
        leaves.filter_map(|leaf| Some(leaf.path.as_ref()?.to_string_lossy().into_owned()));
    let devices = devices
        .filter(|path| path.starts_with('/') || is_url(Path::new(path)))
        .collect();
    let published = context.publisher.recorded(imported);
    RecordedPool {
        name: imported.name().to_owned(),
        guid: pool.guid().0,
        devices,
        offset: imported.offset,
        options: options_of(imported),
        lasting: imported.is_lasting(&context.registry.cache_files),
        mounts,
        mounts_changed: false,
        exports: published.exports,
        sites: published.sites,
    }
}

/// How to import a pool so that it is as it is.
fn options_of(imported: &Imported) -> ImportOptions {
    let pool = &imported.pool;
    let (options, readonly) = (pool.options(), !pool.is_writable());
    let is_temporary = imported.altroot.is_some() || options.temporary_name;
    // With an alternate root, a pool is in no cache file unless an option names one.
    let default = (is_temporary && imported.pool.is_writable()).then(String::new);
    let cache_file = imported.cache_file().or(default);
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
        // In a writable pool the checkpoint is gone: the rewind was permanent.
        checkpoint_rewind: options.rewind_to_checkpoint && readonly,
        // What was given up at the import is gone. A log device that is away now may hold what
        // was promised since.
        missing_log: options.missing_logs && readonly,
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

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::MountOptions;

    fn kept(directory: &Path) -> (Kept, PathBuf) {
        let socket = directory.join("socket");
        let kept = Kept {
            file: directory.join("state/r.json"),
            beside: beside_socket(&socket),
            note: note_path(&socket),
            job: Job::new(),
            state: Mutex::new(State {
                record: DaemonRecord::of_this_process(&socket, 0),
                awaited: Vec::new(),
                is_stored: false,
                needs_disk: true,
                is_ahead: false,
                is_frozen: false,
                expected: Expected::default(),
                touched: Duration::ZERO,
                failure: None,
                note: None,
                changes: 0,
                mounts_changed: false,
            }),
        };
        (kept, socket)
    }

    /// A daemon whose state directory could not be written said so once in its log; after a
    /// `kill -9` it had never been.
    #[test]
    fn a_record_that_cannot_be_written_goes_beside_the_socket_and_is_missed_aloud() {
        let directory = tempfile::tempdir().expect("a directory");
        let (kept, socket) = kept(directory.path());
        std::fs::write(&kept.note, "places").expect("written");
        let store = || {
            let mut state = kept.lock();
            state.record.pools = vec![pool(&["/a"])];
            state.changed();
            kept.store(&mut state);
            state.failure.clone()
        };
        let find = || DaemonRecord::find(Some(&kept.file), &socket, None);
        // Also for root nothing can be made below a file.
        let state = directory.path().join("state");
        std::fs::write(&state, "").expect("written");
        let failure = store().expect("a reason");
        assert!(failure.contains("r.json"), "{failure}");
        assert!(failure.contains("socket.record"), "{failure}");
        assert_eq!(find().expect("read").expect("there").pools.len(), 1);
        // Nor is there room beside the socket.
        std::fs::remove_file(&kept.beside).expect("removed");
        std::fs::create_dir(&kept.beside).expect("in the way");
        std::fs::write(kept.beside.join("file"), "").expect("written");
        store().expect("a reason");
        assert!(!kept.note.exists(), "nothing is known any more");
        std::fs::remove_dir_all(&kept.beside).expect("removed");
        std::fs::remove_file(&state).expect("removed");
        assert_eq!(store(), None);
        assert!(kept.note.exists() && kept.file.exists() && !kept.beside.exists());
    }

    fn pool(mounts: &[&str]) -> RecordedPool {
        let mount = |place: &&str| RecordedMount {
            dataset: format!("tank{place}"),
            place: (*place).to_owned(),
            own_place: true,
            options: MountOptions::default(),
        };
        RecordedPool {
            name: "tank".to_owned(),
            guid: 7,
            devices: Vec::new(),
            offset: 0,
            options: ImportOptions::default(),
            lasting: true,
            mounts: mounts.iter().map(mount).collect(),
            mounts_changed: false,
            exports: Vec::new(),
            sites: Vec::new(),
        }
    }

    /// A daemon that was killed while what one before it had was being mounted again left a record
    /// without mounts: the next resume said "0 file systems mounted", and the dead ones stayed.
    #[test]
    fn mounts_that_are_being_made_again_are_not_forgotten() {
        let mut before = DaemonRecord::of_this_process(Path::new("/s"), 0);
        before.pools = vec![pool(&["/a", "/b"])];
        let mut record = DaemonRecord::of_this_process(Path::new("/s"), 0);
        record.lost = before.into_loss();
        let mut state = State {
            record,
            awaited: Vec::new(),
            is_stored: true,
            needs_disk: false,
            is_ahead: false,
            is_frozen: false,
            expected: Expected::default(),
            touched: Duration::ZERO,
            failure: None,
            note: None,
            changes: 0,
            mounts_changed: false,
        };
        let start = Duration::from_secs(1000);
        state.take_up(vec![pool(&[])], 1, start);
        assert_eq!(state.record.pools, [pool(&["/a", "/b"])]);
        assert!(state.record.lost.is_none() && !state.is_stored);
        state.take_up(vec![pool(&["/a"])], 2, start + Duration::from_secs(1));
        assert_eq!(state.record.pools, [pool(&["/a", "/b"])]);
        // A mount that is unmounted afterwards does not come back.
        state.take_up(vec![pool(&["/a"])], 3, start + RESUME_TIME);
        assert_eq!(state.record.pools, [pool(&["/a"])]);
    }
}
