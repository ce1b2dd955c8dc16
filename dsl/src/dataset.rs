//! Datasets: heads and snapshots, and what their object sets are.

use crate::directory::Directory;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::name::{DatasetName, NameKind, is_hidden_component};
use crate::once::get_or_try;
use crate::property::stored::StoredProperties;
use crate::property::table::Kinds;
use cenote_base::{ObjectId, ObjsetId, Txg};
use cenote_dmu::{IoContext, Object, ObjectSet, Zap};
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_CASE_INSENSITIVE, fields};
use cenote_ondisk::master_node::MASTER_NODE;
use cenote_ondisk::objset::ObjsetKind;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Snapshots on one chain that are followed: more than any pool has, so that a chain that bites
/// its own tail ends.
pub(crate) const CHAIN_LENGTH_MAX: usize = 1 << 20;

/// It has about 20 entries.
const MASTER_NODE_ENTRIES_MAX: usize = 1000;

/// What a dataset is a dataset of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetType {
    /// A file system.
    Filesystem,
    /// A volume.
    Volume,
}

impl DatasetType {
    /// The kind in the table of properties.
    pub(crate) fn kinds(self) -> Kinds {
        match self {
            Self::Filesystem => Kinds::FILESYSTEM,
            Self::Volume => Kinds::VOLUME,
        }
    }
}

/// A snapshot's name and object, as the snapshot map has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The name behind the `@`.
    pub name: Vec<u8>,
    /// The snapshot.
    pub object: ObjectId,
    /// Its transaction group, which is the order in which snapshots were made.
    pub creation_txg: Txg,
}

/// An open dataset: a head or a snapshot.
#[derive(Debug)]
pub struct Dataset {
    directory: Arc<Directory>,
    object: Object,
    name: DatasetName,
    phys: DslDataset,
    extension: Option<Zap>,
    properties: OnceLock<StoredProperties>,
    dataset_type: OnceLock<DatasetType>,
    master_node: OnceLock<BTreeMap<String, u64>>,
}

impl Dataset {
    /// The same dataset, read for something else: with it whatever is opened by it.
    #[must_use]
    pub fn for_io(&self, io: &IoContext) -> Self {
        Self {
            directory: self.directory.for_io(io),
            object: self.object.for_io(io),
            name: self.name.clone(),
            phys: self.phys.clone(),
            extension: self.extension.as_ref().map(|zap| zap.for_io(io)),
            properties: self.properties.clone(),
            dataset_type: self.dataset_type.clone(),
            master_node: self.master_node.clone(),
        }
    }

    /// Opens the dataset `id` in `directory`, which is found under `name`.
    pub(crate) fn open(
        directory: &Arc<Directory>,
        id: ObjectId,
        name: DatasetName,
    ) -> Result<Self, DslError> {
        let (object, phys) = directory.dsl().read_dataset(id)?;
        if phys.directory != directory.id() {
            return Err(DslError::structure(
                id,
                "it says that it is in another directory",
            ));
        }
        if phys.is_snapshot() != (name.kind() == NameKind::Snapshot) {
            let problem = "heads and snapshots are mixed up";
            return Err(DslError::structure(id, problem));
        }
        let extension = Dsl::extension(&object)?;
        Ok(Self {
            directory: Arc::clone(directory),
            object,
            name,
            phys,
            extension,
            properties: OnceLock::new(),
            dataset_type: OnceLock::new(),
            master_node: OnceLock::new(),
        })
    }

    /// The layer it belongs to.
    pub fn dsl(&self) -> &Arc<Dsl> {
        self.directory.dsl()
    }

    /// Its directory.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Its object number.
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// The number of its object set.
    pub fn objset_id(&self) -> ObjsetId {
        ObjsetId(self.id().0)
    }

    /// Its object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Its full name.
    pub fn name(&self) -> &DatasetName {
        &self.name
    }

    /// The stored fields.
    pub fn phys(&self) -> &DslDataset {
        &self.phys
    }

    /// Whether it is a snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.phys.is_snapshot()
    }

    /// Whether its contents are incomplete: being received, or half destroyed.
    pub fn is_inconsistent(&self) -> bool {
        self.phys.is_inconsistent()
    }

    /// Whether parts were left out when it was received.
    pub fn is_redacted(&self) -> Result<bool, DslError> {
        Ok(self.redaction_snapshots()?.is_some())
    }

    /// The guids of the snapshots by which it was redacted.
    pub fn redaction_snapshots(&self) -> Result<Option<Vec<u64>>, DslError> {
        let value = self.extension_value(fields::REDACTED)?;
        Ok(value.and_then(|value| value.as_u64s()))
    }

    /// The extension fields, if there are any.
    pub fn extension(&self) -> Option<&Zap> {
        self.extension.as_ref()
    }

    /// An extension field.
    pub(crate) fn extension_value(
        &self,
        key: &str,
    ) -> Result<Option<cenote_dmu::zap::ZapValue>, DslError> {
        match &self.extension {
            Some(zap) => Ok(zap.lookup(key.as_bytes())?),
            None => Ok(None),
        }
    }

    /// An extension field that is one number.
    pub fn extension_number(&self, key: &str) -> Result<Option<u64>, DslError> {
        Ok(self.extension_value(key)?.and_then(|value| value.as_u64()))
    }

    /// What is set on the snapshot itself; heads have their properties in the directory.
    pub fn own_properties(&self) -> Result<&StoredProperties, DslError> {
        get_or_try(&self.properties, || match self.phys.properties {
            None => Ok(StoredProperties::default()),
            Some(zap) => StoredProperties::load(&self.dsl().mos().zap(zap)?),
        })
    }

    /// The object set, through the cache of open ones; with keys, if they are needed and loaded.
    pub fn object_set(&self) -> Result<Arc<ObjectSet>, DslError> {
        self.dsl().objset_of(self)
    }

    /// What it is, by its object set.
    pub fn dataset_type(&self) -> Result<DatasetType, DslError> {
        let kind = get_or_try(&self.dataset_type, || {
            Ok::<_, DslError>(match self.object_set()?.header().kind {
                ObjsetKind::Volume => DatasetType::Volume,
                _ => DatasetType::Filesystem,
            })
        })?;
        Ok(*kind)
    }

    /// The numbers in a file system's master node, by name; none where there is no master node
    /// yet, because the receive has just begun.
    pub(crate) fn master_node(&self) -> Result<&BTreeMap<String, u64>, DslError> {
        get_or_try(&self.master_node, || {
            let set = self.object_set()?;
            let mut numbers = BTreeMap::new();
            if set.dnode(MASTER_NODE)?.is_none() {
                return Ok(numbers);
            }
            for entry in set
                .zap(MASTER_NODE)?
                .entries()
                .take(MASTER_NODE_ENTRIES_MAX)
            {
                let entry = entry?;
                if let (Some(name), Some(number)) = (entry.key.as_str(), entry.value.as_u64()) {
                    numbers.insert(name.to_owned(), number);
                }
            }
            Ok(numbers)
        })
    }

    /// The snapshots in the order in which they were made, hidden ones included.
    pub fn snapshots(&self) -> Result<Vec<SnapshotEntry>, DslError> {
        match self.phys.snapshot_names {
            Some(names) => self.dsl().of_one_moment(|| self.snapshots_in(names)),
            None => Ok(Vec::new()),
        }
    }

    fn snapshots_in(&self, names: ObjectId) -> Result<Vec<SnapshotEntry>, DslError> {
        let zap = self.dsl().mos().zap(names)?;
        let mut snapshots = Vec::new();
        for entry in zap.entries() {
            let entry = entry?;
            let (Some(name), Some(object)) = (entry.key.as_name(), entry.value.as_u64()) else {
                return Err(DslError::structure(
                    zap.object().id(),
                    "an entry is no snapshot",
                ));
            };
            let object = ObjectId(object);
            let (_, phys) = self.dsl().read_dataset(object)?;
            snapshots.push(SnapshotEntry {
                name: name.to_vec(),
                object,
                creation_txg: phys.creation_txg,
            });
        }
        snapshots.sort_by(|a, b| (a.creation_txg, &a.name).cmp(&(b.creation_txg, &b.name)));
        Ok(snapshots)
    }

    /// The snapshots that lists show.
    pub fn listed_snapshots(&self) -> Result<Vec<SnapshotEntry>, DslError> {
        let mut snapshots = self.snapshots()?;
        snapshots.retain(|snapshot| !is_hidden_component(&snapshot.name));
        Ok(snapshots)
    }

    /// Opens a snapshot that [`Self::snapshots`] named.
    pub fn open_snapshot(&self, entry: &SnapshotEntry) -> Result<Dataset, DslError> {
        self.snapshot_at(&entry.name, entry.object)
    }

    fn snapshot_at(&self, component: &[u8], object: ObjectId) -> Result<Dataset, DslError> {
        let named = self.directory.name().snapshot(component);
        let name = named.map_err(|source| DslError::BadName {
            text: format!("{}@{}", self.name, String::from_utf8_lossy(component)),
            source,
        })?;
        Dataset::open(&self.directory, object, name)
    }

    /// Opens the snapshot with this name; case counts unless the file system ignores it.
    pub fn snapshot(&self, name: &[u8]) -> Result<Option<Dataset>, DslError> {
        match self.phys.snapshot_names {
            Some(names) => self.dsl().unless_changing(|| self.snapshot_in(names, name)),
            None => Ok(None),
        }
    }

    fn snapshot_in(&self, names: ObjectId, name: &[u8]) -> Result<Option<Dataset>, DslError> {
        let zap = self.dsl().mos().zap(names)?;
        let found = match self.phys.flags & FLAG_CASE_INSENSITIVE != 0 {
            true => zap.lookup_normalized(name)?,
            false => zap.lookup(name)?.map(|value| (name.to_vec(), value)),
        };
        let Some((spelled, value)) = found else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(object) => self.snapshot_at(&spelled, ObjectId(object)).map(Some),
            None => Err(DslError::structure(
                zap.object().id(),
                "an entry is no snapshot",
            )),
        }
    }

    /// The snapshot before this dataset, in this directory or the one it was cloned from.
    ///
    /// `None` for the first one of a dataset that is no clone.
    pub fn previous(&self) -> Option<ObjectId> {
        let previous = self.phys.previous_snapshot;
        previous.filter(|previous| Some(*previous) != self.dsl().origin_snapshot())
    }

    /// Whether `base` is on the chain of snapshots that leads to this dataset, over clones, too.
    pub fn grew_out_of(&self, base: &Self) -> Result<bool, DslError> {
        let mut at = self.phys.previous_snapshot;
        for _ in 0..CHAIN_LENGTH_MAX {
            let Some(previous) = at else {
                return Ok(false);
            };
            if previous == base.id() {
                return Ok(true);
            }
            let previous = self.dsl().dataset_of(previous)?;
            if previous.phys().creation_txg < base.phys().creation_txg {
                return Ok(false);
            }
            at = previous.phys().previous_snapshot;
        }
        Ok(false)
    }
}

impl Directory {
    /// The head dataset; `None` for directories that only account space, such as `$MOS`.
    pub fn head(self: &Arc<Self>) -> Result<Option<Dataset>, DslError> {
        let Some(head) = self.phys().head_dataset else {
            return Ok(None);
        };
        Dataset::open(self, head, self.name().clone()).map(Some)
    }
}

/// Whether a dataset was not read in the middle of being made: it has a number before it has
/// contents.
fn is_whole(read: &Result<Dataset, DslError>) -> bool {
    let dataset = read.as_ref();
    dataset.is_ok_and(|dataset| !dataset.phys().block_pointer.is_hole())
}

impl Dsl {
    /// Opens a dataset or snapshot by name.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`] if there is none, also for bookmarks.
    pub fn dataset(self: &Arc<Self>, name: &DatasetName) -> Result<Dataset, DslError> {
        self.changes.read_again(|| self.dataset_now(name), is_whole)
    }

    fn dataset_now(self: &Arc<Self>, name: &DatasetName) -> Result<Dataset, DslError> {
        let missing = || DslError::NoSuchDataset { name: name.clone() };
        let directory = self.directory(name)?.ok_or_else(missing)?;
        let head = directory.head()?.ok_or_else(missing)?;
        match (name.kind(), name.after_delimiter()) {
            (NameKind::Head, _) => Ok(head),
            (NameKind::Snapshot, Some(snapshot)) => {
                head.snapshot(snapshot.as_bytes())?.ok_or_else(missing)
            }
            _ => Err(missing()),
        }
    }

    /// Opens a dataset or snapshot by its object number.
    pub fn dataset_of(self: &Arc<Self>, id: ObjectId) -> Result<Dataset, DslError> {
        self.changes
            .read_again(|| self.dataset_of_now(id), is_whole)
    }

    fn dataset_of_now(self: &Arc<Self>, id: ObjectId) -> Result<Dataset, DslError> {
        let (_, phys) = self.read_dataset(id)?;
        let directory = self.directory_of(phys.directory)?;
        let not_there = || DslError::NotADataset { object: id };
        let head = directory.head()?.ok_or_else(not_there)?;
        if !phys.is_snapshot() {
            return if head.id() == id {
                Ok(head)
            } else {
                Err(not_there())
            };
        }
        let zap = self
            .mos()
            .zap(head.phys.snapshot_names.ok_or_else(not_there)?)?;
        for entry in zap.entries() {
            let entry = entry?;
            if entry.value.as_u64() == Some(id.0) {
                let name = entry.key.as_name().unwrap_or_default();
                return head.snapshot_at(name, id);
            }
        }
        Err(not_there())
    }
}
