//! A volume opened for a client.
//!
//! A head is opened like for a mount: for writing, and once for all its users. A snapshot, and any
//! volume in a read-only pool, is opened for reading. A snapshot cannot be destroyed while it is
//! open. When the last user leaves, the head is closed, with all writes on disk.

use super::imported::Imported;
use super::sent::Pins;
use super::served::User;
use crate::errors::{of_dsl, of_sync, of_volume};
use cenote_base::{Guid, ObjectId};
use cenote_control::model::{ControlError, NbdRefusal};
use cenote_dataset::SyncPolicy;
use cenote_dmu::IoContext;
use cenote_dsl::{Dataset, DatasetType, KeyStatus};
use cenote_volume::{Changed, Volume, VolumeError};
use std::ops::Range;
use std::sync::Arc;

/// The most older snapshots since which a client can list changes.
const SNAPSHOTS_MAX: usize = 1024;

/// How a volume is opened.
pub struct Opening {
    /// Whether writes are refused.
    pub is_read_only: bool,
    /// Whether it is served because of the property.
    pub is_by_property: bool,
    /// The client or disk that opens it.
    pub user: User,
}

/// A volume that a client has open, or a disk of this machine.
pub struct ServedVolume {
    imported: Arc<Imported>,
    id: ObjectId,
    name: String,
    is_read_only: bool,
    /// Set until this is dropped.
    volume: Option<Arc<Volume>>,
    /// Its number among the clients.
    number: u64,
    /// Keeps a snapshot from being destroyed.
    _pins: Pins,
}

/// Refuses a dataset that is not a volume, has no key loaded, or was only partly received.
pub fn check_volume(dataset: &Dataset) -> Result<(), ControlError> {
    let name = || dataset.name().as_str().to_owned();
    let status = dataset.dsl().key_status(dataset.directory());
    if status.map_err(of_dsl)? == KeyStatus::Unavailable {
        return Err(ControlError::KeyNotLoaded { dataset: name() });
    }
    if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Volume {
        return Err(NbdRefusal::NotVolume { dataset: name() }.into());
    }
    match dataset.is_inconsistent() {
        true => Err(ControlError::PartlyReceived { dataset: name() }),
        false => Ok(()),
    }
}

/// Opens the volume in a dataset for reading.
fn open_to_read(imported: &Imported, dataset: &Dataset) -> Result<Volume, ControlError> {
    let set = dataset.object_set().map_err(of_dsl)?;
    let set = set.for_io(&IoContext::USER);
    if !imported.replays_in_memory() || dataset.is_snapshot() {
        return Volume::open(set).map_err(of_volume);
    }
    let (last_synced, env) = (imported.pool.uberblock().txg, imported.pool.env());
    let (volume, report) =
        Volume::open_replayed(set, last_synced, Arc::clone(env)).map_err(of_volume)?;
    imported
        .replays
        .note(dataset.name().as_str(), report.into());
    Ok(volume)
}

impl ServedVolume {
    /// Opens a volume, or a snapshot of one.
    pub fn open(
        imported: &Arc<Imported>,
        dataset: &Dataset,
        opening: Opening,
    ) -> Result<Self, ControlError> {
        check_volume(dataset)?;
        let id = dataset.id();
        let mut pins = imported.sent.pins();
        if dataset.is_snapshot() {
            pins.add(id);
            // It may have been destroyed before it was pinned.
            imported.dsl().dataset_of(id).map_err(of_dsl)?;
        }
        let volume = match imported.can_change(dataset) {
            true => imported.open_volume(dataset)?,
            false => Arc::new(open_to_read(imported, dataset)?),
        };
        let added = imported
            .served
            .add(id, opening.is_by_property, opening.user);
        let Some(number) = added else {
            // It is being changed.
            drop(volume);
            imported.close_unmounted(&[id])?;
            let dataset = dataset.name().to_string();
            return Err(ControlError::DatasetBusy { dataset });
        };
        Ok(Self {
            imported: Arc::clone(imported),
            id,
            name: dataset.name().as_str().to_owned(),
            is_read_only: opening.is_read_only || !volume.is_writable(),
            volume: Some(volume),
            number,
            _pins: pins,
        })
    }

    /// The volume.
    ///
    /// # Panics
    /// Never: it is there until this is dropped.
    pub fn volume(&self) -> &Volume {
        self.volume.as_deref().expect("it is there until the end")
    }

    /// The dataset's name when it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether what was flushed outlives a crash of the daemon: not with `sync=disabled`.
    pub fn flushes_last(&self) -> bool {
        let dataset = self.volume().dataset();
        dataset.map_or(true, |dataset| {
            dataset.sync_policy() != SyncPolicy::Disabled
        })
    }

    /// Returns once everything written before is on disk, whatever `sync` says.
    ///
    /// # Errors
    /// It cannot be stored.
    pub fn sync(&self) -> Result<(), ControlError> {
        let synced = self.imported.pool.sync();
        synced.map_err(|error| of_sync(self.imported.name(), error))
    }

    /// Adds the damage that a read or write found to the pool's error log.
    pub fn report(&self, error: &VolumeError) {
        self.imported.damage.report_volume(error);
    }

    fn dataset(&self) -> Result<Dataset, ControlError> {
        self.imported.dsl().dataset_of(self.id).map_err(of_dsl)
    }

    /// Calls `each` with the older snapshots, newest first, until it returns true. Each comes with
    /// a name: the part after the `@`, or the full name for a snapshot of this clone's origin.
    fn older(&self, mut each: impl FnMut(&str, &Dataset) -> bool) -> Result<(), ControlError> {
        let own = self.dataset()?;
        let mut previous = own.previous();
        for _ in 0..SNAPSHOTS_MAX {
            let Some(id) = previous else {
                break;
            };
            let snapshot = self.imported.dsl().dataset_of(id).map_err(of_dsl)?;
            let full = snapshot.name().as_str();
            let is_own = snapshot.name().dataset() == own.name().dataset();
            let short = full.split_once('@').map(|(_, short)| short);
            if each(short.filter(|_| is_own).unwrap_or(full), &snapshot) {
                break;
            }
            previous = snapshot.previous();
        }
        Ok(())
    }

    /// The snapshots that [`Self::changed_since`] takes, the newest first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn snapshots(&self) -> Result<Vec<String>, ControlError> {
        let mut names = Vec::new();
        self.older(|name, _| {
            names.push(name.to_owned());
            false
        })?;
        Ok(names)
    }

    /// The guid of one of [`Self::snapshots`], if it is there.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn guid_of(&self, snapshot: &str) -> Result<Option<Guid>, ControlError> {
        let mut found = None;
        self.older(|name, older| {
            found = (name == snapshot).then(|| older.phys().guid);
            found.is_some()
        })?;
        Ok(found)
    }

    /// Which parts of a range may have changed since an older snapshot, known by its name and guid;
    /// see [`Volume::changed_since`].
    ///
    /// # Errors
    /// If there is no such snapshot, or it cannot be read.
    pub fn changed_since(
        &self,
        (snapshot, guid): (&str, Guid),
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Changed>, ControlError> {
        let mut found = None;
        self.older(|name, older| {
            let is_it = name == snapshot && older.phys().guid == guid;
            if is_it {
                found = Some(older.id());
            }
            is_it
        })?;
        let missing = || ControlError::NoSuchDataset {
            dataset: snapshot.to_owned(),
        };
        let base = found.ok_or_else(missing)?;
        let mut pins = self.imported.sent.pins();
        pins.add(base);
        let base = self.imported.dsl().dataset_of(base).map_err(of_dsl)?;
        let since = base.phys().creation_txg;
        let base = open_to_read(&self.imported, &base)?;
        let changed = self.volume().changed_since((&base, since), range, most);
        changed
            .inspect_err(|error| self.report(error))
            .map_err(of_volume)
    }
}

impl Drop for ServedVolume {
    fn drop(&mut self) {
        self.imported.served.leave(self.number);
        let volume = self.volume.take();
        let is_writable = volume.is_some_and(|volume| volume.is_writable());
        if is_writable && let Err(error) = self.imported.close_unmounted(&[self.id]) {
            let name = &self.name;
            log::warn!("{name}: what a client wrote and did not flush may be lost: {error}");
        }
        self.imported.served.remove(self.number);
    }
}
