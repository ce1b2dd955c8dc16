//! Properties that are computed: sizes, counts, names, states (format/3a 5, "Reported values").

use super::table::{Format, Property, UNLIMITED};
use super::{PropertySource, PropertyValue, words};
use crate::bookmarks::Bookmark;
use crate::crypto_key::CryptoKey;
use crate::dataset::{CHAIN_LENGTH_MAX, Dataset, DatasetType};
use crate::deadlist::{Deadlist, SpaceTriple};
use crate::dedup::ratio;
use crate::error::DslError;
use crate::keys::KeyStatus;
use crate::resume_token::receive_resume_token;
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::bookmark_phys::{BookmarkSpace, FLAG_HAS_FREED_BEFORE_NEXT};
use cenote_ondisk::dsl_dataset::fields as dataset_fields;
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_DEFER_DESTROY};
use cenote_ondisk::dsl_dir::fields as directory_fields;
use cenote_ondisk::master_node;
use cenote_ondisk::volume_objects::{VOLUME_DATA, VOLUME_PROPERTIES, VOLUME_SIZE};

type Computed = Option<(PropertyValue, PropertySource)>;

fn read_only(value: impl Into<PropertyValue>) -> Result<Computed, DslError> {
    Ok(Some((value.into(), PropertySource::None)))
}

fn with_source(value: PropertyValue, source: PropertySource) -> Result<Computed, DslError> {
    Ok(Some((value, source)))
}

/// The value and source of a computed property; `None` for one that is set and looked up.
pub(super) fn compute(dataset: &Dataset, property: Property) -> Result<Computed, DslError> {
    match property {
        Property::Name => read_only(dataset.name()),
        Property::Type => read_only(type_word(dataset)?),
        Property::Origin => read_only(origin(dataset)?),
        Property::Clones => read_only(clones(dataset)?.map(|names| names.join(","))),
        Property::CloneCount => read_only(dataset.phys().children.saturating_sub(1)),
        Property::PreviousSnapshot => read_only(previous_snapshot(dataset)?),
        Property::ReceiveResumeToken => read_only(receive_resume_token(dataset)?),
        Property::RedactSnaps => read_only(dataset.redaction_snapshots()?.map(|g| joined(&g))),
        Property::Version
        | Property::Utf8Only
        | Property::Normalization
        | Property::CaseSensitivity
        | Property::DefaultUserQuota
        | Property::DefaultGroupQuota
        | Property::DefaultProjectQuota
        | Property::DefaultUserObjQuota
        | Property::DefaultGroupObjQuota
        | Property::DefaultProjectObjQuota => master_node(dataset, property),
        Property::VolumeSize | Property::VolumeBlockSize => volume(dataset, property),
        Property::Encryption
        | Property::KeyFormat
        | Property::Pbkdf2Iters
        | Property::Pbkdf2Salt
        | Property::EncryptionRoot
        | Property::KeyStatus
        | Property::KeyGuid => encryption(dataset, property),
        Property::FilesystemCount => count(dataset, directory_fields::FILESYSTEM_COUNT),
        Property::SnapshotCount => count(dataset, directory_fields::SNAPSHOT_COUNT),
        Property::Mounted => read_only(PropertyValue::None),
        Property::RemapTxg => read_only(PropertyValue::None),
        _ => match number(dataset, property)? {
            Some(value) => read_only(value),
            None => Ok(None),
        },
    }
}

/// Numbers and states from the stored structures; `None` for other properties.
fn number(dataset: &Dataset, property: Property) -> Result<Option<PropertyValue>, DslError> {
    let directory = dataset.directory();
    let (phys, space) = (dataset.phys(), directory.phys());
    let breakdown = directory.breakdown();
    Ok(Some(match property {
        Property::Creation => phys.creation_time.into(),
        Property::CreateTxg => phys.creation_txg.0.into(),
        Property::Guid => phys.guid.0.into(),
        Property::ObjsetId => dataset.id().0.into(),
        Property::Unique => phys.unique_bytes.into(),
        Property::Inconsistent => u64::from(phys.is_inconsistent()).into(),
        Property::Referenced => phys.referenced_bytes.into(),
        Property::LogicalReferenced => phys.uncompressed_bytes.into(),
        Property::Used if dataset.is_snapshot() => phys.unique_bytes.into(),
        Property::Used => space.used_bytes.into(),
        Property::LogicalUsed => space.uncompressed_bytes.into(),
        Property::Available => dataset.available()?.into(),
        Property::UsedBySnapshots => breakdown.map(|part| part.snapshots).into(),
        Property::UsedByDataset => breakdown.map(|part| part.head).into(),
        Property::UsedByChildren => breakdown
            .map(|part| part.children.saturating_add(part.child_reservations))
            .into(),
        Property::UsedByRefReservation => breakdown.map(|part| part.refreservation).into(),
        Property::CompressRatio if !dataset.is_snapshot() => {
            ratio(space.uncompressed_bytes, space.compressed_bytes).into()
        }
        Property::CompressRatio | Property::RefCompressRatio => {
            ratio(phys.uncompressed_bytes, phys.compressed_bytes).into()
        }
        Property::Written => dataset.written()?.into(),
        Property::UserRefs => dataset.hold_count()?.into(),
        Property::DeferDestroy => {
            let flag = phys.flags & FLAG_DEFER_DESTROY;
            PropertyValue::index(words::BOOLEAN, u64::from(flag != 0))
        }
        Property::SnapshotsChanged => directory.snapshots_changed()?.map(|(s, _)| s).into(),
        Property::SnapshotsChangedNsecs => directory
            .snapshots_changed()?
            .map(|(s, n)| s.saturating_mul(1_000_000_000).saturating_add(n))
            .into(),
        Property::IvsetGuid => dataset.extension_number(dataset_fields::IVSET_GUID)?.into(),
        Property::Redacted => u64::from(dataset.is_redacted()?).into(),
        Property::UserAccounting => (dataset.object_set()?.header().flags & 1).into(),
        _ => return Ok(None),
    }))
}

fn type_word(dataset: &Dataset) -> Result<&'static str, DslError> {
    Ok(match (dataset.is_snapshot(), dataset.dataset_type()?) {
        (true, _) => "snapshot",
        (false, DatasetType::Filesystem) => "filesystem",
        (false, DatasetType::Volume) => "volume",
    })
}

fn origin(dataset: &Dataset) -> Result<PropertyValue, DslError> {
    let Some(origin) = dataset.directory().origin() else {
        return Ok(PropertyValue::None);
    };
    let origin = dataset.dsl().dataset_of(origin)?;
    Ok(origin.name().into())
}

fn previous_snapshot(dataset: &Dataset) -> Result<PropertyValue, DslError> {
    let Some(previous) = dataset.previous() else {
        return Ok(PropertyValue::None);
    };
    let previous = dataset.dsl().dataset_of(previous)?;
    Ok(previous.name().into())
}

/// The names of the clones of a snapshot in order; none where it has none.
fn clones(dataset: &Dataset) -> Result<Option<Vec<String>>, DslError> {
    let mut names = Vec::new();
    for object in dataset.next_clones()? {
        let (_, clone) = dataset.dsl().read_dataset(object)?;
        let directory = dataset.dsl().directory_of(clone.directory)?;
        if !directory.name().is_hidden() {
            names.push(directory.name().as_str().to_owned());
        }
    }
    names.sort();
    Ok(Some(names).filter(|names| !names.is_empty()))
}

pub(crate) fn joined(guids: &[u64]) -> String {
    let texts: Vec<_> = guids.iter().map(u64::to_string).collect();
    texts.join(",")
}

fn count(dataset: &Dataset, field: &str) -> Result<Computed, DslError> {
    match dataset.directory().extension_number(field)? {
        Some(count) => with_source(count.into(), PropertySource::Local),
        None => with_source(UNLIMITED.into(), PropertySource::Default),
    }
}

/// Properties of a file system as such.
fn master_node(dataset: &Dataset, property: Property) -> Result<Computed, DslError> {
    let info = property.info();
    let key = match property {
        Property::Version => master_node::keys::VERSION,
        _ => info.name,
    };
    if dataset.is_inconsistent() {
        return read_only(PropertyValue::None);
    }
    let numbers = dataset.master_node()?;
    if numbers.is_empty() {
        return read_only(PropertyValue::None);
    }
    let stored = numbers.get(key).copied();
    let is_quota = matches!(info.default, super::table::Unset::None);
    let value = match (stored, info.format) {
        (Some(number), Format::Index(table)) => PropertyValue::index(table, number),
        (Some(number), _) => PropertyValue::Number(number),
        (None, _) if is_quota => PropertyValue::None,
        (None, _) => PropertyValue::default_of(property),
    };
    read_only(value)
}

fn volume(dataset: &Dataset, property: Property) -> Result<Computed, DslError> {
    let set = dataset.object_set()?;
    if property == Property::VolumeSize {
        let size = set.zap(VOLUME_PROPERTIES)?.lookup_u64(VOLUME_SIZE)?;
        return with_source(size.into(), PropertySource::Local);
    }
    let size = set.object(VOLUME_DATA)?.dnode().data_block_size;
    at_creation(property, size)
}

/// A value fixed at creation: of source `default` if it is the default, else of none.
fn at_creation(property: Property, number: u64) -> Result<Computed, DslError> {
    let value = match property.info().format {
        Format::Index(table) => PropertyValue::index(table, number),
        _ => PropertyValue::Number(number),
    };
    let source = match value == PropertyValue::default_of(property) {
        true => PropertySource::Default,
        false => PropertySource::None,
    };
    with_source(value, source)
}

fn encryption(dataset: &Dataset, property: Property) -> Result<Computed, DslError> {
    let Some(key) = dataset.directory().crypto_key()? else {
        return Ok(match property {
            Property::EncryptionRoot | Property::KeyStatus | Property::KeyGuid => {
                Some((PropertyValue::None, PropertySource::None))
            }
            _ => Some((PropertyValue::default_of(property), PropertySource::Default)),
        });
    };
    key_property(dataset, property, key)
}

fn key_property(
    dataset: &Dataset,
    property: Property,
    key: &CryptoKey,
) -> Result<Computed, DslError> {
    let dsl = dataset.dsl();
    match property {
        Property::Encryption => at_creation(property, key.stored.suite.number()),
        Property::KeyFormat => read_only(key.stored.key_format.name()),
        Property::Pbkdf2Iters => at_creation(property, key.stored.pbkdf2_iterations),
        Property::Pbkdf2Salt => at_creation(property, key.stored.pbkdf2_salt),
        Property::KeyGuid => read_only(key.stored.guid.0),
        Property::KeyStatus => {
            let status = match dsl.key_status(dataset.directory())? {
                KeyStatus::None => 0,
                KeyStatus::Unavailable => 1,
                KeyStatus::Available => 2,
            };
            read_only(PropertyValue::index(words::KEY_STATUS, status))
        }
        _ => {
            let root = dsl.encryption_root(dataset.directory())?;
            read_only(root.map(|root| root.name().as_str().to_owned()))
        }
    }
}

impl Dataset {
    /// The first datasets of the clones of a snapshot, by object.
    pub fn next_clones(&self) -> Result<Vec<ObjectId>, DslError> {
        let Some(object) = self.phys().next_clones else {
            return Ok(Vec::new());
        };
        let zap = self.dsl().mos().zap(object)?;
        let mut clones = Vec::new();
        for entry in zap.entries() {
            clones.extend(entry?.value.as_u64().map(ObjectId));
        }
        Ok(clones)
    }

    /// Bytes written since the previous snapshot.
    pub fn written(&self) -> Result<u64, DslError> {
        let phys = self.phys();
        let before = match phys.previous_snapshot {
            Some(previous) => self.dsl().read_dataset(previous)?.1.referenced_bytes,
            None => 0,
        };
        let freed = Deadlist::totals_of(self.dsl(), phys.deadlist)?.used;
        Ok(phys
            .referenced_bytes
            .saturating_add(freed)
            .saturating_sub(before))
    }

    /// Bytes written since `snapshot`, an older one of the same chain (`written@SNAP`).
    ///
    /// `None` if the snapshot is not on the chain, or in pools before version 26, whose
    /// deadlists cannot be divided, unless it is the previous one.
    pub fn written_since(&self, snapshot: &Dataset) -> Result<Option<u64>, DslError> {
        let space = self.space_written_since(snapshot)?;
        Ok(space.map(|space| space.used))
    }

    /// The same with its sizes before and after compression.
    ///
    /// # Errors
    /// If a snapshot or its deadlist cannot be read.
    pub fn space_written_since(&self, snapshot: &Dataset) -> Result<Option<SpaceTriple>, DslError> {
        let dsl = self.dsl();
        let (old_id, old) = (snapshot.id(), snapshot.phys());
        let mut freed = SpaceTriple::default();
        let mut at = self.phys().clone();
        for _ in 0..CHAIN_LENGTH_MAX {
            if at.previous_snapshot == Some(old_id) {
                freed = freed.plus(Deadlist::totals_of(dsl, at.deadlist)?);
                let now = referenced(self.phys()).plus(freed);
                return Ok(Some(now.minus(referenced(old))));
            }
            let Some(previous) = at.previous_snapshot else {
                return Ok(None);
            };
            if at.previous_snapshot_txg <= old.creation_txg {
                return Ok(None);
            }
            let deadlist = Deadlist::open(dsl, at.deadlist)?;
            let Some(space) = deadlist.space_range(Txg(0), old.creation_txg) else {
                return Ok(None);
            };
            freed = freed.plus(space);
            at = dsl.read_dataset(previous)?.1;
        }
        Err(DslError::structure(
            self.id(),
            "its chain of snapshots does not end",
        ))
    }

    /// Bytes written since the snapshot of a bookmark (`written#BOOK`).
    ///
    /// `None` if the bookmark does not know its snapshot's size, or is of another chain.
    pub fn written_since_bookmark(&self, bookmark: &Bookmark) -> Result<Option<u64>, DslError> {
        let space = self.space_written_since_bookmark(bookmark)?;
        Ok(space.map(|space| space.used))
    }

    /// The same with its sizes before and after compression.
    ///
    /// # Errors
    /// If a snapshot or its deadlist cannot be read.
    pub fn space_written_since_bookmark(
        &self,
        bookmark: &Bookmark,
    ) -> Result<Option<SpaceTriple>, DslError> {
        let (dsl, then) = (self.dsl(), &bookmark.phys);
        let own_chain = bookmark.name.dataset_text() == self.name().dataset_text();
        let known = then.flags & FLAG_HAS_FREED_BEFORE_NEXT != 0;
        let too_young = self.is_snapshot() && then.creation_txg > self.phys().creation_txg;
        if !known || !own_chain || too_young {
            return Ok(None);
        }
        let mut freed = marked(then.freed_before_next);
        let mut at = self.phys().clone();
        for _ in 0..CHAIN_LENGTH_MAX {
            let Some(previous) = at.previous_snapshot else {
                break;
            };
            if at.previous_snapshot_txg <= then.creation_txg {
                break;
            }
            let deadlist = Deadlist::open(dsl, at.deadlist)?;
            let Some(space) = deadlist.space_range(Txg(0), then.creation_txg) else {
                return Ok(None);
            };
            freed = freed.plus(space);
            at = dsl.read_dataset(previous)?.1;
        }
        let now = referenced(self.phys()).plus(freed);
        Ok(Some(now.minus(marked(then.space))))
    }
}

/// What a dataset refers to.
fn referenced(phys: &DslDataset) -> SpaceTriple {
    SpaceTriple {
        used: phys.referenced_bytes,
        compressed: phys.compressed_bytes,
        uncompressed: phys.uncompressed_bytes,
    }
}

fn marked(space: BookmarkSpace) -> SpaceTriple {
    SpaceTriple {
        used: space.referenced,
        compressed: space.compressed,
        uncompressed: space.uncompressed,
    }
}
