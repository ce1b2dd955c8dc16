//! What is mounted where, and the rules by which datasets are mounted.
//!
//! A file system is mounted at its mountpoint property unless `canmount` or the property say
//! otherwise; any dataset or snapshot can be mounted anywhere by name. Parents come before
//! children, and unmounting goes the other way.

use cenote_base::ObjectId;
use cenote_control::model::{ControlError, MountEntry, MountOptions, Response};
use cenote_dsl::{Dataset, DatasetName, DatasetType, KeyStatus, Property, PropertyValue};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Engine;
use super::datasets::walk_heads;
use super::errors::{of_dsl, parse_name};
use super::mount_options::{check_options, switches, temporary};
use super::mounter::{MountJob, Mounted};
use super::places::{
    check_within, has_place_of, is_derived, own_mount_point, prepare, remove_places,
};
use super::registry::Imported;

/// Mounts at one time.
const MOUNTS_MAX: usize = 65_536;
/// The option that changes a mount instead of making one.
const REMOUNT: &str = "remount";

struct Entry {
    pool: String,
    dataset: String,
    own_place: bool,
    /// Its directory follows from the dataset's name: nobody chose it, so it goes with the name.
    is_derived: bool,
    /// What it was mounted with, or mounted anew with since.
    options: MountOptions,
    read_only: bool,
    /// Properties that its options overrule, and what they are then.
    temporary: Vec<(&'static str, bool)>,
    mounted: Arc<dyn Mounted>,
}

/// A mount to be changed in its place.
struct Place {
    dataset: String,
    own_place: bool,
    options: MountOptions,
    mounted: Arc<dyn Mounted>,
}

/// The mounts in the order in which they were made.
#[derive(Default)]
pub(super) struct Mounts {
    entries: Mutex<Vec<Entry>>,
}

impl Mounts {
    /// The entries that are still there: somebody may have unmounted from outside.
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn names_below(&self, dataset: &str) -> Vec<String> {
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

    fn is_at_own_place(&self, dataset: &str) -> bool {
        self.is_mounted(|entry| entry.own_place && entry.dataset == dataset)
    }

    fn is_at(&self, dataset: &str, place: &Path) -> bool {
        self.is_mounted(|entry| entry.dataset == dataset && entry.mounted.mount_point() == place)
    }

    /// Whether a mount for which `wanted` holds is in the tree.
    fn is_mounted(&self, wanted: impl Fn(&Entry) -> bool) -> bool {
        let found = self.newest_first(wanted);
        // Looking at the tree may take time, which the list is not held for.
        found.iter().any(|(_, mounted)| mounted.is_in_tree())
    }

    /// How many mounts a pool has.
    pub fn count(&self, pool: &str) -> u64 {
        self.lock()
            .iter()
            .filter(|entry| entry.pool == pool)
            .count() as u64
    }

    fn list(&self) -> Vec<MountEntry> {
        let entries = self.lock();
        let each = entries.iter().map(|entry| MountEntry {
            dataset: entry.dataset.clone(),
            mountpoint: entry.mounted.mount_point().to_string_lossy().into_owned(),
            own_place: entry.own_place,
        });
        each.collect()
    }

    fn add(&self, entry: Entry) {
        self.lock().push(entry);
    }

    /// Mounts for which `wanted` holds, the newest first.
    fn newest_first(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<(String, Arc<dyn Mounted>)> {
        let entries = self.lock();
        let found = entries.iter().rev().filter(|entry| wanted(entry));
        found
            .map(|entry| (entry.dataset.clone(), Arc::clone(&entry.mounted)))
            .collect()
    }

    /// The mounts at a place, and those of what lies below a dataset that is at its own; the newest
    /// first.
    fn at_and_below(&self, places: &[&Path]) -> Vec<(String, Arc<dyn Mounted>)> {
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
    fn places_below(&self, dataset: &str) -> Vec<Place> {
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
    pub(super) fn rename(&self, from: &str, to: &str) {
        for entry in self.lock().iter_mut() {
            let rest = entry.dataset.strip_prefix(from).unwrap_or("none of these");
            if rest.is_empty() || rest.starts_with(['/', '@']) {
                entry.dataset = format!("{to}{rest}");
            }
        }
    }

    fn update(&self, mounted: &Arc<dyn Mounted>, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.lock();
        let mut found = entries.iter_mut();
        if let Some(entry) = found.find(|entry| Arc::ptr_eq(&entry.mounted, mounted)) {
            change(entry);
        }
    }

    /// Forgets a mount, so that its files are closed.
    fn forget(&self, mounted: &Arc<dyn Mounted>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| !Arc::ptr_eq(&entry.mounted, mounted));
    }
}

/// Failures by name, and how many succeeded.
pub(super) type Outcomes = (Vec<(String, ControlError)>, u64);

impl Engine {
    pub(super) fn mount_list(&self) -> Response {
        Response::Mounts {
            mounts: self.mounts.list(),
        }
    }

    pub(super) fn mount(
        &self,
        dataset: &str,
        at: Option<&str>,
        options: &MountOptions,
    ) -> Result<Response, ControlError> {
        let (imported, found) = self.registry.dataset(&parse_name(dataset)?)?;
        if options.options.iter().any(|word| word == REMOUNT) {
            return self.mount_anew(&imported, dataset, at, options);
        }
        let place = match at {
            Some(at) => Some(PathBuf::from(at)),
            None if found.is_snapshot() => {
                return Err(ControlError::WrongKind {
                    dataset: dataset.to_owned(),
                });
            }
            None => None,
        };
        self.mount_dataset(&imported, found, place, options)?;
        Ok(Response::Done)
    }

    /// Changes what a mount allows to what `options` say, in its place (`mount -o remount`).
    fn mount_anew(
        &self,
        imported: &Arc<Imported>,
        dataset: &str,
        at: Option<&str>,
        options: &MountOptions,
    ) -> Result<Response, ControlError> {
        let mut places = self.mounts.places_below(dataset).into_iter();
        let found = places.find(|place| {
            let is_there = match at {
                Some(at) => place.mounted.mount_point() == Path::new(at),
                None => place.own_place,
            };
            place.dataset == dataset && is_there
        });
        let mut place = found.ok_or_else(|| ControlError::NotMounted {
            target: at.unwrap_or(dataset).to_owned(),
        })?;
        place.options = options.clone();
        place.options.options.retain(|word| word != REMOUNT);
        check_options(&place.options.options)?;
        match self.change_in_place(imported, place)? {
            true => Ok(Response::Done),
            false => Err(ControlError::MountFailed {
                dataset: dataset.to_owned(),
                reason: "this takes unmounting it and mounting it with the other options"
                    .to_owned(),
            }),
        }
    }

    pub(super) fn mount_all(
        &self,
        below: Option<&str>,
        options: &MountOptions,
    ) -> Result<Response, ControlError> {
        let mut failures = Vec::new();
        let mut done = 0;
        let mut add = |outcomes: Outcomes| {
            failures.extend(outcomes.0);
            done += outcomes.1;
        };
        match below {
            Some(below) => {
                let name = parse_name(below)?;
                let (imported, _) = self.registry.dataset(&name)?;
                add(self.mount_below(&imported, Some(&name), options));
            }
            None => {
                for imported in self.registry.all() {
                    add(self.mount_below(&imported, None, options));
                }
            }
        }
        Ok(Response::Failures { failures, done })
    }

    /// Mounts what is to be mounted by itself, parents first.
    pub(super) fn mount_below(
        &self,
        imported: &Arc<Imported>,
        below: Option<&DatasetName>,
        options: &MountOptions,
    ) -> Outcomes {
        let wanted = |head: &Dataset| self.mounts_by_itself(head);
        self.mount_wanted(imported, below, options, &wanted)
    }

    fn mount_wanted(
        &self,
        imported: &Arc<Imported>,
        below: Option<&DatasetName>,
        options: &MountOptions,
        wanted: &dyn Fn(&Dataset) -> bool,
    ) -> Outcomes {
        let within = |name: &DatasetName| {
            below.is_none_or(|below| {
                let rest = name.as_str().strip_prefix(below.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let mut names = Vec::new();
        walk_heads(imported.dsl(), |head| {
            if within(head.name()) && wanted(head) {
                names.push(head.name().clone());
            }
        });
        let mut failures = Vec::new();
        let mut done = 0;
        for name in names {
            let mounted = imported
                .dsl()
                .dataset(&name)
                .map_err(of_dsl)
                .and_then(|head| self.mount_dataset(imported, head, None, options));
            match mounted {
                Ok(()) => done += 1,
                Err(error) => failures.push((name.as_str().to_owned(), error)),
            }
        }
        (failures, done)
    }

    /// Whether `zfs mount -a` takes the dataset: others are passed over silently.
    fn mounts_by_itself(&self, head: &Dataset) -> bool {
        text_of(head, Property::CanMount).as_deref() == Some("on") && self.has_place(head)
    }

    /// Whether it is a file system that can be mounted at its own place and is not.
    fn has_place(&self, head: &Dataset) -> bool {
        let locked = head.dsl().key_status(head.directory());
        let place = text_of(head, Property::MountPoint);
        head.dataset_type()
            .is_ok_and(|kind| kind == DatasetType::Filesystem)
            && place.is_some_and(|place| place.starts_with('/'))
            && !head.is_inconsistent()
            && !head.is_redacted().unwrap_or(false)
            && !locked.is_ok_and(|status| status == KeyStatus::Unavailable)
            && !self.mounts.is_at_own_place(head.name().as_str())
    }

    fn mount_dataset(
        &self,
        imported: &Arc<Imported>,
        dataset: Dataset,
        at: Option<PathBuf>,
        options: &MountOptions,
    ) -> Result<(), ControlError> {
        let name = dataset.name().as_str().to_owned();
        if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Filesystem {
            return Err(ControlError::WrongKind { dataset: name });
        }
        if self.mounts.list().len() >= MOUNTS_MAX {
            return Err(ControlError::TooManyClients);
        }
        check_options(&options.options)?;
        let own_place = at.is_none();
        if own_place && self.mounts.is_at_own_place(&name) {
            return Err(ControlError::AlreadyMounted { dataset: name });
        }
        check_contents(&dataset, options)?;
        let place = match at {
            Some(place) => place,
            None => own_mount_point(imported, &dataset)?,
        };
        let overlay =
            options.overlay || text_of(&dataset, Property::Overlay).as_deref() == Some("on");
        if let (true, Some(root)) = (own_place, &imported.altroot) {
            check_within(root, &place)?;
        }
        prepare(&place, own_place, overlay)?;
        if self.mounts.is_at(&name, &place) {
            return Err(ControlError::AlreadyMounted { dataset: name });
        }
        let is_derived = own_place && is_derived(&dataset)?;
        let files = imported.files(&dataset)?;
        let mut switches = switches(imported, &dataset, options);
        switches.read_only |= !files.is_writable();
        let read_only = switches.read_only;
        if !read_only {
            imported.drain(&dataset, &files)?;
        }
        let job = MountJob {
            pool: Arc::clone(&imported.pool),
            files,
            mount_point: place,
            switches,
            record_size: dataset
                .stored_number(Property::RecordSize)
                .map_err(of_dsl)?,
            available: available(&dataset)?,
            damage: Arc::clone(&imported.damage),
            dataset,
        };
        let mounted = Arc::from(self.mounter.mount(job)?);
        self.mounts.add(Entry {
            pool: imported.name().to_owned(),
            dataset: name,
            own_place,
            is_derived,
            options: options.clone(),
            read_only,
            temporary: temporary(imported, options),
            mounted,
        });
        Ok(())
    }

    /// Changes what the mounts of a dataset, and of all below it, allow to what the properties say
    /// now; options that were given for one at its own place are forgotten, as by OpenZFS.
    ///
    /// Returns whether all could be changed where they are.
    pub(super) fn refresh_mounts(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
    ) -> Result<bool, ControlError> {
        let mut is_done = true;
        for mut place in self.mounts.places_below(name.as_str()) {
            if place.own_place {
                place.options = MountOptions::default();
            }
            is_done &= self.change_in_place(imported, place)?;
        }
        Ok(is_done)
    }

    /// Changes what a mount allows. `false` if that is not possible while it is mounted.
    fn change_in_place(
        &self,
        imported: &Arc<Imported>,
        place: Place,
    ) -> Result<bool, ControlError> {
        let dataset = imported
            .dsl()
            .dataset(&parse_name(&place.dataset)?)
            .map_err(of_dsl)?;
        let mut allowed = switches(imported, &dataset, &place.options);
        allowed.read_only |= !imported.can_change(&dataset);
        if !allowed.read_only {
            let files = imported.files(&dataset)?;
            imported.drain(&dataset, &files)?;
        }
        if !place.mounted.change(&allowed)? {
            return Ok(false);
        }
        let temporary = temporary(imported, &place.options);
        self.mounts.update(&place.mounted, |entry| {
            entry.read_only = allowed.read_only;
            entry.temporary = temporary;
            entry.options = place.options;
        });
        Ok(true)
    }

    pub(super) fn unmount(
        &self,
        target: &str,
        force: bool,
        unload_key: bool,
    ) -> Result<Response, ControlError> {
        let found = if target.starts_with('/') {
            let path = Path::new(target);
            let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            self.mounts.at_and_below(&[path, &real])
        } else {
            let name = parse_name(target)?;
            self.registry.dataset(&name)?;
            let below = format!("{target}/");
            let own = self.mounts.newest_first(|entry| entry.dataset == target);
            if own.is_empty() {
                own
            } else {
                self.mounts.newest_first(|entry| {
                    entry.dataset == target || entry.dataset.starts_with(&below)
                })
            }
        };
        if found.is_empty() {
            return Err(ControlError::NotMounted {
                target: target.to_owned(),
            });
        }
        let mut datasets = Vec::new();
        for (dataset, mounted) in found {
            if let Err(error) = self.unmount_one(mounted, force) {
                self.mount_these(&datasets);
                return Err(error);
            }
            datasets.push(dataset);
        }
        self.settle_unmounted(&datasets, force)?;
        if unload_key {
            for dataset in &datasets {
                self.unload_key_of(dataset)?;
            }
        }
        Ok(Response::Done)
    }

    /// Waits until what was written through mounts that are gone is on disk. `force` does not
    /// insist on that, where a pool is suspended.
    fn settle_unmounted(&self, datasets: &[String], force: bool) -> Result<(), ControlError> {
        let mut pools: Vec<(Arc<Imported>, Vec<ObjectId>)> = Vec::new();
        for dataset in datasets {
            let (imported, found) = self.registry.dataset(&parse_name(dataset)?)?;
            let is_of = |(pool, _): &&mut (Arc<Imported>, _)| Arc::ptr_eq(pool, &imported);
            match pools.iter_mut().find(is_of) {
                Some((_, heads)) => heads.push(found.id()),
                None => pools.push((imported, vec![found.id()])),
            }
        }
        for (imported, heads) in pools {
            match imported.close_unmounted(&heads) {
                Err(ControlError::Suspended { .. }) if force => {}
                closed => closed?,
            }
        }
        Ok(())
    }

    /// Unmounts and lets go of the mount, so that its files and keys are closed.
    fn unmount_one(&self, mounted: Arc<dyn Mounted>, force: bool) -> Result<(), ControlError> {
        mounted.unmount(force)?;
        self.mounts.forget(&mounted);
        Ok(())
    }

    /// Unloads the key of a dataset if it is an encryption root whose key is loaded.
    fn unload_key_of(&self, dataset: &str) -> Result<(), ControlError> {
        let name = parse_name(dataset)?;
        let (_, found) = self.registry.dataset(&name)?;
        let dsl = found.dsl();
        let root = dsl.encryption_root(found.directory()).map_err(of_dsl)?;
        let is_root = root.is_some_and(|root| root.id() == found.directory().id());
        if is_root && dsl.keys().is_loaded(found.directory().id()) {
            self.unload_key(dataset)?;
        }
        Ok(())
    }

    fn is_legacy(&self, dataset: &str) -> bool {
        let found = parse_name(dataset).and_then(|name| self.registry.dataset(&name));
        found.is_ok_and(|(_, found)| {
            text_of(&found, Property::MountPoint).as_deref() == Some("legacy")
        })
    }

    pub(super) fn unmount_all(
        &self,
        force: bool,
        unload_keys: bool,
    ) -> Result<Response, ControlError> {
        let mut failures = Vec::new();
        let mut done = 0;
        let mut unmounted = Vec::new();
        let mut mounts = self
            .mounts
            .newest_first(|entry| !entry.dataset.contains('@'));
        // umount(8) is for those, as mount(8) was. The list of mounts is not held while the pool is
        // asked, which may have to wait.
        mounts.retain(|(dataset, _)| !self.is_legacy(dataset));
        for (dataset, mounted) in mounts {
            match self.unmount_one(mounted, force) {
                Ok(()) => {
                    done += 1;
                    unmounted.push(dataset);
                }
                Err(error) => failures.push((dataset, error)),
            }
        }
        if let Err(error) = self.settle_unmounted(&unmounted, force) {
            let pool = unmounted.first().cloned().unwrap_or_default();
            failures.push((pool, error));
        }
        for dataset in unmounted.into_iter().filter(|_| unload_keys) {
            if let Err(error) = self.unload_key_of(&dataset) {
                failures.push((dataset, error));
            }
        }
        Ok(Response::Failures { failures, done })
    }

    /// Unmounts a dataset wherever it is mounted.
    pub(super) fn unmount_dataset(&self, dataset: &str, force: bool) -> Result<(), ControlError> {
        for (_, mounted) in self.mounts.newest_first(|entry| entry.dataset == dataset) {
            self.unmount_one(mounted, force)?;
        }
        Ok(())
    }

    /// Unmounts these datasets from their own places, or none; those are below `name`.
    pub(super) fn unmount_for_change(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
        (datasets, force): (&[String], bool),
    ) -> Result<(), ControlError> {
        let wanted = |entry: &Entry| entry.own_place && datasets.contains(&entry.dataset);
        for (_, mounted) in self.mounts.newest_first(wanted) {
            if let Err(error) = self.unmount_one(mounted, force) {
                // The first error is the one to tell.
                let _ = self.mount_back(imported, name, datasets, false);
                return Err(error);
            }
        }
        Ok(())
    }

    /// What is mounted of a dataset and all below it where that follows from its mountpoint.
    pub(super) fn mounted_by_place_of(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
    ) -> Result<Vec<String>, ControlError> {
        let mut names = self.mounted_below(name);
        let mut failure = None;
        names.retain(|below| {
            let head = parse_name(below)
                .and_then(|below| Ok(imported.dsl().dataset(&below).map_err(of_dsl)?));
            match head.and_then(|head| has_place_of(&head, name)) {
                Ok(follows) => follows,
                Err(error) => {
                    failure.get_or_insert(error);
                    false
                }
            }
        });
        failure.map_or(Ok(names), Err)
    }

    /// The datasets from one downwards that are mounted at their own places.
    pub(super) fn mounted_below(&self, name: &DatasetName) -> Vec<String> {
        self.mounts.names_below(name.as_str())
    }

    /// Unmounts what is mounted of a dataset and all below it, and mounts it again.
    pub(super) fn remount_below(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
    ) -> Result<(), ControlError> {
        let before = self.mounted_below(name);
        self.unmount_for_change(imported, name, (&before, false))?;
        self.mount_back(imported, name, &before, false)
    }

    /// Mounts datasets at their own places again, as far as that can be.
    fn mount_these(&self, datasets: &[String]) {
        for dataset in datasets.iter().rev() {
            let found = parse_name(dataset).and_then(|name| {
                let (imported, _) = self.registry.dataset(&name)?;
                self.mount_back(&imported, &name, std::slice::from_ref(dataset), false)
            });
            // The error that stopped the unmounting is the one to tell.
            drop(found);
        }
    }

    /// Mounts what was mounted `before` of a dataset and all below it, as far as it still is to be
    /// mounted, and with `others` whatever has its place from the dataset.
    pub(super) fn mount_back(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
        before: &[String],
        others: bool,
    ) -> Result<(), ControlError> {
        if before.is_empty() && !others {
            return Ok(());
        }
        let wanted = |head: &Dataset| {
            let was_mounted = before.iter().any(|name| name == head.name().as_str());
            let is_noauto = text_of(head, Property::CanMount).as_deref() == Some("noauto");
            let is_other = || others && has_place_of(head, name).unwrap_or(false);
            (was_mounted || is_other()) && self.mounts_by_itself(head)
                || was_mounted && is_noauto && self.has_place(head)
        };
        let options = MountOptions::default();
        let (failures, _) = self.mount_wanted(imported, Some(name), &options, &wanted);
        match failures.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Unmounts everything of a pool, or says what is busy.
    pub(super) fn unmount_pool(
        &self,
        imported: &Imported,
        force: bool,
    ) -> Result<(), ControlError> {
        let pool = imported.name().to_owned();
        let places = self.mounts.derived_places(&pool);
        for (_, mounted) in self.mounts.newest_first(|entry| entry.pool == pool) {
            self.unmount_one(mounted, force)?;
        }
        remove_places(&places);
        Ok(())
    }
}

pub(super) fn text_of(dataset: &Dataset, property: Property) -> Option<String> {
    match dataset.property(property).ok()??.value {
        PropertyValue::Text(text) => Some(text),
        _ => None,
    }
}

/// Refuses what cannot be read, or should not be taken for complete.
fn check_contents(dataset: &Dataset, options: &MountOptions) -> Result<(), ControlError> {
    let name = dataset.name().as_str().to_owned();
    if dataset
        .dsl()
        .key_status(dataset.directory())
        .map_err(of_dsl)?
        == KeyStatus::Unavailable
    {
        return Err(ControlError::KeyNotLoaded { dataset: name });
    }
    if dataset.is_inconsistent() && !options.force {
        return Err(ControlError::PartlyReceived { dataset: name });
    }
    if dataset.is_redacted().map_err(of_dsl)? && !options.force {
        return Err(ControlError::Redacted { dataset: name });
    }
    Ok(())
}

fn available(dataset: &Dataset) -> Result<u64, ControlError> {
    match dataset.is_snapshot() {
        true => Ok(0),
        false => Ok(dataset.available().map_err(of_dsl)?),
    }
}
