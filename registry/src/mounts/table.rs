//! What is mounted where.
//!
//! The table has the mounts in the order in which they were made: parents come before children,
//! and unmounting goes the other way. What was unmounted here and lives on in another mount
//! namespace is remembered, too: its files are in use until it ends.

use super::mounter::{MountFigures, Mounted, Mounter};
use crate::imported::Imported;
use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use cenote_control::model::{ControlError, MountEntry, MountOptions};
use cenote_control::record::RecordedMount;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A mount that was made.
pub struct Entry {
    /// The pool's name.
    pub pool: String,
    /// The name of the head or snapshot.
    pub dataset: String,
    /// It is where the properties say, and not at a place that a command named.
    pub own_place: bool,
    /// Its directory derives from the dataset's name, so a rename moves it.
    pub is_derived: bool,
    /// The options of its mount, or of the last remount.
    pub options: MountOptions,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Properties that its options overrule, and what they are then.
    pub temporary: Vec<(&'static str, bool)>,
    /// The mount itself.
    pub mounted: Arc<dyn Mounted>,
}

/// A mount to be changed in its place.
pub(crate) struct Place {
    pub dataset: String,
    pub own_place: bool,
    pub options: MountOptions,
    pub mounted: Arc<dyn Mounted>,
}

/// The mounts in the order in which they were made.
pub struct Mounts {
    itself: Weak<Self>,
    entries: Mutex<Vec<Entry>, ranks::Mounts>,
    /// Those that only other mount namespaces have.
    elsewhere: Mutex<Vec<Entry>, ranks::MountsElsewhere>,
    /// How often mounts came, went or changed.
    changes: AtomicU64,
    being_made: Mutex<BeingMade, ranks::MountTurns>,
    turn_ended: Condvar,
    /// Makes mounts.
    pub mounter: Box<dyn Mounter>,
}

/// What is being mounted, and what must not be.
#[derive(Default)]
struct BeingMade {
    /// Datasets that are being mounted, with the import of their pool.
    turns: BTreeMap<String, u64>,
    /// The imports of pools that are being exported or destroyed.
    leaving: Vec<u64>,
}

impl BeingMade {
    /// Refuses mounts of a pool that leaves or has left.
    fn check(&self, imported: &Imported) -> Result<(), ControlError> {
        let pool = imported.name().to_owned();
        match self.leaving.contains(&imported.load_guid) {
            true => Err(ControlError::PoolBusy { pool }),
            false if imported.has_left.load(Ordering::Acquire) => {
                Err(ControlError::NoSuchPool { pool })
            }
            false => Ok(()),
        }
    }
}

/// The right to mount a dataset; other threads wait until this is dropped.
pub(crate) struct MountTurn<'a> {
    mounts: &'a Mounts,
    imported: &'a Imported,
    dataset: String,
}

impl Drop for MountTurn<'_> {
    fn drop(&mut self) {
        self.mounts.being_made.lock().turns.remove(&self.dataset);
        self.mounts.turn_ended.notify_all();
    }
}

impl MountTurn<'_> {
    /// Adds the mount that was made to the table.
    ///
    /// # Errors
    /// The pool leaves or has left. The mount is ended then.
    pub fn add(&self, entry: Entry) -> Result<(), ControlError> {
        let being_made = self.mounts.being_made.lock();
        if let Err(error) = being_made.check(self.imported) {
            drop(being_made);
            let place = entry.mounted.mount_point();
            log::warn!("{}: {error}: unmounted again", place.display());
            // Whether or not that fails: the mount must not outlive its pool anywhere.
            let _ = entry.mounted.unmount(true);
            if entry.mounted.is_there() && !entry.mounted.end() {
                log::error!("{}: the mount cannot be ended", place.display());
            }
            return Err(error);
        }
        // Under the lock, so that a thread that is about to unmount the pool sees it.
        self.mounts.lock().push(entry);
        self.mounts.changed();
        Ok(())
    }
}

/// Until this is dropped, nothing of a pool is mounted.
pub struct KeptUnmounted<'a> {
    mounts: &'a Mounts,
    import: u64,
}

impl Drop for KeptUnmounted<'_> {
    fn drop(&mut self) {
        let leaving = &mut self.mounts.being_made.lock().leaving;
        let own = leaving.iter().position(|import| *import == self.import);
        leaving.swap_remove(own.expect("it was added"));
    }
}

/// How long an unmounting of a pool waits for mounts that are being made. Later ones are ended
/// when they are there.
const TURN_WAIT: Duration = Duration::from_secs(1);

impl Mounts {
    /// No mounts, of those that `mounter` will make.
    pub fn new(mounter: Box<dyn Mounter>) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            entries: Mutex::default(),
            elsewhere: Mutex::default(),
            changes: AtomicU64::new(0),
            being_made: Mutex::default(),
            turn_ended: Condvar::new(),
            mounter,
        })
    }

    /// Waits until no other thread mounts the dataset: only one may be between checking whether it
    /// is mounted and the entry in the table.
    ///
    /// # Errors
    /// The pool leaves or has left.
    pub(crate) fn turn<'a>(
        &'a self,
        imported: &'a Imported,
        dataset: &str,
    ) -> Result<MountTurn<'a>, ControlError> {
        let is_taken = |made: &mut BeingMade| made.turns.contains_key(dataset);
        let being_made = self.being_made.lock();
        let mut being_made = self.turn_ended.wait_while(being_made, is_taken);
        being_made.check(imported)?;
        let import = imported.load_guid;
        being_made.turns.insert(dataset.to_owned(), import);
        drop(being_made);
        Ok(MountTurn {
            mounts: self,
            imported,
            dataset: dataset.to_owned(),
        })
    }

    /// Refuses to mount anything of a pool from now on, and waits a little for mounts that are
    /// being made.
    ///
    /// So a caller that then unmounts what is in the table has unmounted all of the pool: a mount
    /// that is late is not added ([`MountTurn::add`]).
    pub(crate) fn keep_unmounted(&self, imported: &Imported) -> KeptUnmounted<'_> {
        let import = imported.load_guid;
        let mut being_made = self.being_made.lock();
        being_made.leaving.push(import);
        let is_mounting = |made: &mut BeingMade| made.turns.values().any(|of| *of == import);
        let turns = &self.turn_ended;
        drop(turns.wait_timeout_while(being_made, TURN_WAIT, is_mounting));
        KeptUnmounted {
            mounts: self,
            import,
        }
    }

    /// The table, for those that outlive the request which made them.
    pub fn itself(&self) -> Weak<Self> {
        Weak::clone(&self.itself)
    }

    /// The entries that are still mounted: some may have been unmounted from outside.
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.mounted.is_there());
        entries
    }

    /// Where a dataset is mounted, at its own place if it is there.
    pub fn place_of(&self, dataset: &str) -> Option<PathBuf> {
        let entries = self.lock();
        let mut found = entries.iter().filter(|entry| entry.dataset == dataset);
        let own = found.clone().find(|entry| entry.own_place);
        let entry = own.or_else(|| found.next())?;
        Some(entry.mounted.mount_point().to_owned())
    }

    /// Whether a dataset is mounted so that nothing can be changed; `None` if it is not mounted.
    pub fn is_read_only(&self, dataset: &str) -> Option<bool> {
        let entries = self.lock();
        let mounts = entries.iter().filter(|entry| entry.dataset == dataset);
        mounts
            .map(|entry| entry.read_only)
            .reduce(|any, one| any || one)
    }

    /// What the options of a dataset's mount say of a property, if they do.
    pub fn temporary(&self, dataset: &str, property: &str) -> Option<bool> {
        let entries = self.lock();
        let mut found = entries.iter().filter(|entry| entry.dataset == dataset);
        found.find_map(|entry| {
            let mut given = entry.temporary.iter();
            given.find(|(name, _)| *name == property).map(|(_, on)| *on)
        })
    }

    /// Whether a dataset, or one below it, is mounted anywhere.
    pub fn is_used(&self, dataset: &str) -> bool {
        let within = |name: &str| {
            let rest = name.strip_prefix(dataset);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
        };
        self.lock().iter().any(|entry| within(&entry.dataset))
    }

    /// The datasets from one downwards that are mounted at their own place.
    pub fn names_below(&self, dataset: &str) -> Vec<String> {
        let below = format!("{dataset}/");
        let entries = self.lock();
        let names = entries.iter().filter(|entry| entry.own_place);
        let names = names.map(|entry| entry.dataset.clone());
        names
            .filter(|name| name == dataset || name.starts_with(&below))
            .collect()
    }

    /// The directories of a dataset and all below it, or of a whole pool, that follow from names;
    /// those made last come first.
    pub fn derived_places(&self, dataset: &str) -> Vec<PathBuf> {
        let below = format!("{dataset}/");
        let found = self.newest_first(|entry| {
            entry.is_derived && (entry.dataset == dataset || entry.dataset.starts_with(&below))
        });
        let places = found
            .iter()
            .map(|(_, mounted)| mounted.mount_point().to_owned());
        places.collect()
    }

    /// Whether a dataset is mounted at its own place.
    pub fn is_at_own_place(&self, dataset: &str) -> bool {
        self.is_mounted(|entry| entry.own_place && entry.dataset == dataset)
    }

    /// Whether a dataset is mounted at a place.
    pub fn is_at(&self, dataset: &str, place: &Path) -> bool {
        self.is_mounted(|entry| entry.dataset == dataset && entry.mounted.mount_point() == place)
    }

    /// Whether a mount for which `wanted` holds is in the tree.
    fn is_mounted(&self, wanted: impl Fn(&Entry) -> bool) -> bool {
        let found = self.newest_first(wanted);
        // Looking at the tree may take time, which the list is not held for.
        found.iter().any(|(_, mounted)| mounted.is_in_tree())
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.lock().len()
    }

    /// How many mounts a pool has.
    pub fn count(&self, pool: &str) -> u64 {
        self.lock()
            .iter()
            .filter(|entry| entry.pool == pool)
            .count() as u64
    }

    /// What each mount did: its pool, its dataset and its figures.
    pub fn figures(&self) -> Vec<(String, String, MountFigures)> {
        let of = |entry: &Entry| {
            let figures = entry.mounted.figures();
            (entry.pool.clone(), entry.dataset.clone(), figures)
        };
        self.lock().iter().map(of).collect()
    }

    /// All mounts.
    pub fn list(&self) -> Vec<MountEntry> {
        let entries = self.lock();
        let each = entries.iter().map(|entry| MountEntry {
            dataset: entry.dataset.clone(),
            mountpoint: entry.mounted.mount_point().to_string_lossy().into_owned(),
            own_place: entry.own_place,
        });
        each.collect()
    }

    /// All mounts of a pool, for the record.
    pub fn recorded(&self, pool: &str) -> Vec<RecordedMount> {
        let entries = self.lock();
        let own = entries.iter().filter(|entry| entry.pool == pool);
        let each = own.map(|entry| RecordedMount {
            dataset: entry.dataset.clone(),
            place: entry.mounted.mount_point().to_string_lossy().into_owned(),
            own_place: entry.own_place,
            options: entry.options.clone(),
        });
        each.collect()
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often mounts came, went or changed so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Mounts for which `wanted` holds, the newest first.
    pub fn newest_first(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<(String, Arc<dyn Mounted>)> {
        let entries = self.lock();
        let found = entries.iter().rev().filter(|entry| wanted(entry));
        found
            .map(|entry| (entry.dataset.clone(), Arc::clone(&entry.mounted)))
            .collect()
    }

    /// The mounts at a place, and those of what lies below a dataset that is at its own; the newest
    /// first.
    pub fn at_and_below(&self, places: &[&Path]) -> Vec<(String, Arc<dyn Mounted>)> {
        let is_there = |entry: &Entry| places.contains(&entry.mounted.mount_point());
        let own: Vec<String> = {
            let entries = self.lock();
            let own = entries
                .iter()
                .filter(|entry| entry.own_place && is_there(entry));
            own.map(|entry| format!("{}/", entry.dataset)).collect()
        };
        self.newest_first(|entry| {
            let is_below = || own.iter().any(|name| entry.dataset.starts_with(name));
            is_there(entry) || entry.own_place && is_below()
        })
    }

    /// The mounts of a dataset's head and of all below it.
    pub(crate) fn places_below(&self, dataset: &str) -> Vec<Place> {
        let below = format!("{dataset}/");
        let entries = self.lock();
        let found = entries
            .iter()
            .filter(|entry| entry.dataset == dataset || entry.dataset.starts_with(&below))
            .filter(|entry| !entry.dataset.contains('@'));
        let places = found.map(|entry| Place {
            dataset: entry.dataset.clone(),
            own_place: entry.own_place,
            options: entry.options.clone(),
            mounted: Arc::clone(&entry.mounted),
        });
        places.collect()
    }

    /// A dataset has a new name, and so has all below it.
    pub fn rename(&self, from: &str, to: &str) {
        let mut elsewhere = self.lock_elsewhere();
        for entry in self.lock().iter_mut().chain(elsewhere.iter_mut()) {
            let rest = entry.dataset.strip_prefix(from).unwrap_or("none of these");
            if rest.is_empty() || rest.starts_with(['/', '@']) {
                entry.dataset = format!("{to}{rest}");
            }
        }
        self.changed();
    }

    /// Makes all mounts of a pool close snapshots that were destroyed or renamed.
    pub fn forget_snapshots(&self, pool: &str) {
        for (_, mounted) in self.newest_first(|entry| entry.pool == pool) {
            mounted.forget_snapshots();
        }
    }

    /// Changes the entry of a mount.
    pub(crate) fn update(&self, mounted: &Arc<dyn Mounted>, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.lock();
        let mut found = entries.iter_mut();
        if let Some(entry) = found.find(|entry| Arc::ptr_eq(&entry.mounted, mounted)) {
            change(entry);
            self.changed();
        }
    }

    fn lock_elsewhere(&self) -> MutexGuard<'_, Vec<Entry>> {
        let mut elsewhere = self.elsewhere.lock();
        elsewhere.retain(|entry| entry.mounted.is_there());
        elsewhere
    }

    /// Mounts for which `wanted` holds and that only other mount namespaces have.
    pub(crate) fn elsewhere(
        &self,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Vec<(String, Arc<dyn Mounted>)> {
        let elsewhere = self.lock_elsewhere();
        let found = elsewhere.iter().filter(|entry| wanted(entry));
        found
            .map(|entry| (entry.dataset.clone(), Arc::clone(&entry.mounted)))
            .collect()
    }

    /// Removes mounts that have ended in all namespaces, so that their files are closed.
    pub fn forget_ended(&self) {
        drop(self.lock_elsewhere());
    }

    /// Forgets a mount, so that its files are closed, unless it lives on elsewhere.
    fn forget(&self, mounted: &Arc<dyn Mounted>) {
        let mut entries = self.entries.lock();
        let mut gone = entries.iter();
        let gone = gone.position(|entry| Arc::ptr_eq(&entry.mounted, mounted));
        let gone = gone.map(|index| entries.remove(index));
        drop(entries);
        self.changed();
        self.lock_elsewhere().extend(gone);
        // Only what lives on stays: a mount that is kept has its files and keys open.
        self.forget_ended();
    }

    /// Unmounts and drops the mount, so that its files and keys are closed.
    pub fn unmount_one(&self, mounted: Arc<dyn Mounted>, force: bool) -> Result<(), ControlError> {
        mounted.unmount(force)?;
        self.forget(&mounted);
        Ok(())
    }
}
