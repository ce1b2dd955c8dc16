//! Which values of properties may act on this machine.
//!
//! Some values are not about a dataset but about the machine that has its pool: `cenote:nbd=on`
//! serves a volume, writable, on the daemon's port; `failmode=panic` ends the daemon. Such values
//! can also come with a pool from elsewhere or a stream, without a decision of this machine's
//! administrator. So a value acts only if its approval is on record (`cenote_control::approvals`):
//! for this value of this property of this dataset of this pool, by guids. Setting a value through
//! the daemon approves it ([`Approvals::said`]), and so does `cenote approve`. Without approval **a
//! value counts as if it were not there**: the one that the dataset would inherit is in force. So
//! volumes inherit approved values, even if they are received later, and a value that serves less
//! (`off`, `none`) needs no approval.
//!
//! The record is this machine's. A pool that is exported and imported again keeps its approvals;
//! values that another machine set meanwhile wait for approval. Pools from before there was a
//! record keep working: the values in force at their first import are recorded as approved.
//!
//! *Invariant: no approval comes from a pool, a stream, or a record that cannot be read.* If the
//! record cannot be written, new approvals are kept until the daemon ends, and this is logged.
//!
//! Deliberately absent: properties that act as OpenZFS lets them act (`mountpoint`, `canmount`,
//! `setuid`, …), for which an import has `-N`, `-R` and `-o`, and a receive `-u`, `-x` and `-o`.

use super::imported::Imported;
use super::waiting::Found;
use crate::errors::of_dsl;
use crate::values::{DISK, SERVED, UPSTREAM};
use cenote_base::Guid;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::approvals::{ApprovalRecord, ApprovedValue, VALUES_MAX, lock};
use cenote_control::model::ControlError;
use cenote_dsl::property::table::{Format, Property};
use cenote_dsl::property::words::word;
use cenote_dsl::write::Setting;
use cenote_dsl::{Dataset, DatasetName, Directory, Dsl, DslError, Stored};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The property that says whether a volume has a device.
pub const VOLUME_MODE: &str = "volmode";
/// Its value for a volume without a device.
pub const HIDDEN: &str = "none";
/// The property that says whether a volume's snapshots have devices.
pub const SNAPSHOTS: &str = "snapdev";
/// Its value for snapshots with devices.
pub const VISIBLE: &str = "visible";

/// What a pool does if its devices fail. It belongs to the pool, and counts as a property of its
/// root dataset.
pub const FAIL_MODE: &str = "failmode";
/// The daemon ends.
pub(crate) const PANIC: &str = "panic";
const PANIC_NUMBER: Stored = Stored::Number(2);

/// The properties of datasets that need a yes.
pub const ACTING: [&str; 5] = [SERVED, DISK, UPSTREAM, SNAPSHOTS, VOLUME_MODE];

/// Whether this machine does more with this value than without it.
fn acts(property: &str, value: &str) -> bool {
    match property {
        SERVED | DISK => value == "on",
        SNAPSHOTS => value == VISIBLE,
        VOLUME_MODE => value != HIDDEN,
        FAIL_MODE => value == PANIC,
        _ => !value.is_empty(),
    }
}

/// A value in words.
fn words(property: &str, stored: &Stored) -> String {
    let format = Property::by_name(property).map(|property| property.info().format);
    match (stored, format) {
        (Stored::Text(text), _) => text.clone(),
        (Stored::Number(number), Some(Format::Index(table))) => {
            word(table, *number).map_or_else(|| number.to_string(), str::to_owned)
        }
        (Stored::Number(number), _) => number.to_string(),
    }
}

/// What settings say that needs a yes; `None` for values that are removed.
pub fn said(settings: &[Setting]) -> Vec<(String, Option<String>)> {
    let meant = settings.iter();
    let meant = meant.filter(|setting| ACTING.contains(&setting.name.as_str()));
    let said = meant.map(|setting| {
        let value = setting.value.as_ref();
        let value = value.map(|stored| words(&setting.name, stored));
        (setting.name.clone(), value)
    });
    said.collect()
}

/// The value that a directory has of its own.
fn own_value(directory: &Directory, property: &str) -> Result<Option<String>, DslError> {
    let mut own = directory.properties()?.in_effect();
    let found = own.find(|(name, _)| *name == property);
    Ok(found.map(|(_, stored)| words(property, stored)))
}

/// Whether a pool wants that the daemon ends without its devices.
fn says_panic(dsl: &Dsl) -> bool {
    // Without its properties, what the pool does by default is the safest.
    let properties = dsl.pool_properties().unwrap_or_default();
    properties.get(FAIL_MODE) == Some(&PANIC_NUMBER)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// By pool and dataset: properties and their values.
    values: BTreeMap<(u64, u64), BTreeMap<String, String>>,
    pools_before: BTreeSet<u64>,
}

impl From<ApprovalRecord> for Known {
    fn from(record: ApprovalRecord) -> Self {
        let mut known = Self {
            pools_before: record.pools_before.into_iter().collect(),
            ..Self::default()
        };
        for one in record.values {
            let of_dataset = known.values.entry((one.pool, one.dataset)).or_default();
            of_dataset.insert(one.property, one.value);
        }
        known
    }
}

impl Known {
    fn record(&self) -> ApprovalRecord {
        let all = self.values.iter().flat_map(|(&(pool, dataset), values)| {
            values.iter().map(move |(property, value)| ApprovedValue {
                pool,
                dataset,
                property: property.clone(),
                value: value.clone(),
            })
        });
        ApprovalRecord {
            values: all.collect(),
            pools_before: self.pools_before.iter().copied().collect(),
        }
    }

    /// Has only the newest value of a property; those that do not act need no yes.
    fn set(&mut self, key: (u64, u64), property: &str, value: Option<&str>) {
        let count: usize = self.values.values().map(BTreeMap::len).sum();
        let of_dataset = self.values.entry(key).or_default();
        of_dataset.remove(property);
        match value.filter(|value| acts(property, value)) {
            Some(value) if count < VALUES_MAX => {
                of_dataset.insert(property.to_owned(), value.to_owned());
            }
            Some(_) => log::warn!("{VALUES_MAX} values are approved, and no more can be"),
            None => {}
        }
        if of_dataset.is_empty() {
            self.values.remove(&key);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    known: Known,
    /// Whether the file lacks something of that.
    is_ahead: bool,
    /// Which file was read or written last.
    seen: Option<(u64, i64, i64)>,
}

/// The values that may act.
#[derive(Debug, Default)]
pub struct Approvals {
    /// The file of the record. Without it, the approvals are in memory only.
    file: Option<PathBuf>,
    state: Mutex<State, ranks::Approvals>,
}

/// The approvals for one pool.
#[derive(Clone, Copy)]
pub struct ApprovedIn<'a> {
    approvals: &'a Approvals,
    pool: Guid,
}

/// Identifies the current version of a file.
fn look(file: &Path) -> Option<(u64, i64, i64)> {
    let metadata = file.metadata().ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
}

impl Approvals {
    /// Loads earlier approvals from the record in `directory`. If there is no record yet, `before`
    /// gives the pools that this machine already had.
    pub fn new(directory: Option<&Path>, before: impl FnOnce() -> Vec<u64>) -> Self {
        let Some(directory) = directory else {
            return Self::default();
        };
        let file = directory.join("approvals.json");
        // Another daemon may start, too. Where it cannot be locked it cannot be written.
        let _held = lock(&file);
        let mut state = State::default();
        match ApprovalRecord::load(&file) {
            Ok(Some(record)) => {
                state.known = record.into();
                state.seen = look(&file);
            }
            Ok(None) => {
                state.known.pools_before = before().into_iter().collect();
                write(&file, &mut state);
                if state.is_ahead {
                    // The record was not written: the next daemon would count newer pools among
                    // these.
                    state.known.pools_before.clear();
                }
            }
            Err(error) => {
                let file_name = file.display();
                log::error!(
                    "{file_name}: {error}; earlier approvals do not count; set the values again, \
                     or run 'cenote approve'"
                );
                if error.kind() != ErrorKind::InvalidData {
                    return Self::default();
                }
                write(&file, &mut state);
            }
        }
        Self {
            file: Some(file),
            state: Mutex::new(state),
        }
    }

    /// Those of a pool.
    pub fn of_pool(&self, imported: &Imported) -> ApprovedIn<'_> {
        ApprovedIn {
            approvals: self,
            pool: imported.pool.guid(),
        }
    }

    /// Takes up what another daemon wrote.
    pub fn reload(&self) {
        let Some(file) = &self.file else {
            return;
        };
        let mut state = self.state.lock();
        read_newer(file, &mut state);
    }

    fn update(&self, change: impl FnOnce(&mut Known)) {
        let mut state = self.state.lock();
        let Some(file) = &self.file else {
            change(&mut state.known);
            return;
        };
        let held = lock(file);
        if held.is_ok() {
            read_newer(file, &mut state);
        }
        let before = state.known.clone();
        change(&mut state.known);
        if state.known == before && !state.is_ahead {
            return;
        }
        match held {
            Ok(_held) => write(file, &mut state),
            Err(error) => {
                state.is_ahead = true;
                log::warn!("{}: it cannot be written: {error}", file.display());
            }
        }
    }

    /// Carries out a change by which a user of this machine sets or removes (`None`) values of a
    /// dataset, and notes these values.
    ///
    /// # Errors
    /// Those of the change. Nothing is noted then.
    pub fn saying<T>(
        &self,
        (imported, name): (&Imported, &DatasetName),
        said: &[(String, Option<String>)],
        change: impl FnOnce() -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let _storing = (!said.is_empty()).then(|| imported.waiting.begin());
        let changed = change()?;
        self.said(imported, name, said);
        Ok(changed)
    }

    /// Notes the values that a user of this machine set or removed (`None`) on a dataset.
    pub fn said(&self, imported: &Imported, name: &DatasetName, said: &[(String, Option<String>)]) {
        if said.is_empty() {
            return;
        }
        let dataset = match imported.dsl().dataset(name) {
            Ok(dataset) => dataset,
            Err(error) => {
                log::warn!("{name}: what was set waits for 'cenote approve': {error}");
                return;
            }
        };
        let key = (imported.pool.guid().0, dataset.phys().guid.0);
        self.update(|known| {
            for (property, value) in said {
                known.set(key, property, value.as_deref());
            }
        });
    }

    /// The same of a property of a pool.
    pub fn said_of_pool(&self, imported: &Imported, property: &str, value: Option<&Stored>) {
        if property != FAIL_MODE {
            return;
        }
        match imported.dsl().root() {
            Ok(root) => {
                let value = value.filter(|value| **value == PANIC_NUMBER);
                let said = [(property.to_owned(), value.map(|_| PANIC.to_owned()))];
                self.said(imported, root.name(), &said);
            }
            Err(error) => log::warn!("{}: {property}: {error}", imported.name()),
        }
    }

    /// Says yes to what datasets have.
    pub fn approve(&self, imported: &Imported, values: &[(Guid, Found)]) {
        if values.is_empty() {
            return;
        }
        self.update(|known| {
            for (dataset, found) in values {
                let key = (imported.pool.guid().0, dataset.0);
                known.set(key, found.property, Some(&found.value));
            }
        });
    }

    /// A pool is another one now, or another one has the same datasets.
    pub fn extend_to(&self, from: Guid, to: Guid) {
        self.update(|known| {
            let values = known.values.iter();
            let of_pool = values.filter(|((pool, _), _)| *pool == from.0);
            let copies = of_pool.map(|((_, dataset), values)| ((to.0, *dataset), values.clone()));
            let copies: Vec<_> = copies.collect();
            known.values.extend(copies);
        });
    }

    /// Forgets a dataset that is destroyed.
    pub fn forget(&self, pool: Guid, dataset: Guid) {
        let key = (pool.0, dataset.0);
        // Most datasets have nothing to forget, and no file is written for them.
        if self.state.lock().known.values.contains_key(&key) {
            self.update(|known| drop(known.values.remove(&key)));
        }
    }

    /// Forgets a pool that is destroyed.
    pub fn forget_pool(&self, pool: Guid) {
        let is_of_pool = |(of, _): &(u64, u64)| *of == pool.0;
        if self.state.lock().known.values.keys().any(is_of_pool) {
            self.update(|known| known.values.retain(|key, _| !is_of_pool(key)));
        }
    }

    /// Whether a pool is one of those from before there was a record.
    fn is_before(&self, pool: Guid) -> bool {
        self.state.lock().known.pools_before.contains(&pool.0)
    }

    /// The same; from now on it is not.
    pub fn take_before(&self, pool: Guid) -> bool {
        let is_before = self.is_before(pool);
        if is_before {
            self.update(|known| {
                known.pools_before.remove(&pool.0);
            });
        }
        is_before
    }
}

fn read_newer(file: &Path, state: &mut State) {
    let now = look(file);
    if state.is_ahead || now == state.seen {
        return;
    }
    match ApprovalRecord::load(file) {
        Ok(record) => {
            state.known = record.unwrap_or_default().into();
            state.seen = now;
        }
        Err(error) => log::warn!("{}: {error}", file.display()),
    }
}

fn write(file: &Path, state: &mut State) {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let made = std::fs::create_dir_all(directory);
    let written = made.and_then(|()| state.known.record().store(file));
    state.is_ahead = written.is_err();
    match written {
        Ok(()) => state.seen = look(file),
        Err(error) => log::warn!(
            "{}: it cannot be written, and what is approved counts until the daemon ends: {error}",
            file.display()
        ),
    }
}

impl ApprovedIn<'_> {
    fn is_approved(
        self,
        directory: &Arc<Directory>,
        property: &str,
        value: &str,
    ) -> Result<bool, DslError> {
        let Some(head) = directory.head()? else {
            return Ok(false);
        };
        let key = (self.pool.0, head.phys().guid.0);
        let state = self.approvals.state.lock();
        let known = state.known.values.get(&key);
        let approved = known.and_then(|values| values.get(property));
        Ok(approved.is_some_and(|approved| approved == value))
    }

    fn value_at(
        self,
        directory: Option<&Arc<Directory>>,
        property: &str,
    ) -> Result<Option<String>, DslError> {
        let mut next = directory;
        while let Some(directory) = next {
            if let Some(value) = own_value(directory, property)?
                && (!acts(property, &value) || self.is_approved(directory, property, &value)?)
            {
                return Ok(Some(value));
            }
            next = directory.parent();
        }
        Ok(None)
    }

    /// The value of a property as this machine obeys it; `None` if it is not set.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn value(self, dataset: &Dataset, property: &str) -> Result<Option<String>, DslError> {
        self.value_at(Some(dataset.directory()), property)
    }

    /// Whether the daemon ends when the pool loses its devices.
    pub fn may_panic(self, dsl: &Arc<Dsl>) -> bool {
        let approved = || self.is_approved(&dsl.root()?, FAIL_MODE, PANIC);
        says_panic(dsl) && (self.approvals.is_before(self.pool) || approved().unwrap_or(false))
    }

    /// The unapproved local values of a head; without those that act without approval.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn unapproved(self, head: &Dataset) -> Result<Vec<Found>, ControlError> {
        let directory = head.directory();
        let mut found = Vec::new();
        for property in ACTING {
            let Some(value) = own_value(directory, property).map_err(of_dsl)? else {
                continue;
            };
            let is_approved = || self.is_approved(directory, property, &value);
            if !acts(property, &value) || is_approved().map_err(of_dsl)? {
                continue;
            }
            let inherited = self.value_at(directory.parent(), property);
            let inherited = inherited.map_err(of_dsl)?;
            let changes = match property {
                VOLUME_MODE => inherited.as_deref() == Some(HIDDEN),
                _ => inherited.as_ref() != Some(&value),
            };
            if changes {
                found.push(Found {
                    dataset: head.id(),
                    property,
                    value,
                });
            }
        }
        let is_root = directory.parent().is_none();
        let is_approved = || self.is_approved(directory, FAIL_MODE, PANIC);
        if is_root && says_panic(head.dsl()) && !is_approved().map_err(of_dsl)? {
            found.push(Found {
                dataset: head.id(),
                property: FAIL_MODE,
                value: PANIC.to_owned(),
            });
        }
        Ok(found)
    }
}
