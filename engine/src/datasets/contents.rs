//! Properties that no table of properties holds but the contents of a dataset: quotas of users,
//! groups and projects, and the size of a volume (format/3b 10, format/3c 5).

use super::accounts::owner_id;
use crate::command::{By, run};
use crate::errors::{of_dsl, of_files, of_sync, of_volume};
use crate::registry::imported::Imported;
use crate::values::{bad_setting, setting};
use cenote_base::parse_size;
use cenote_control::model::properties::ACCOUNTING;
use cenote_control::model::{ControlError, Pair};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{SetProperties, Setting};
use cenote_dsl::{Dataset, DatasetType, Property, PropertyValue, Stored};
use cenote_ondisk::features;
use cenote_posix::{AccountKind, FileSystem, PosixError, VERSION_QUOTAS};
use std::sync::Arc;

/// Metadata blocks of a volume have at most this many bytes, and this many pointers
/// (format/2b 3).
const INDIRECT_BYTES: u64 = 128 << 10;
const INDIRECT_POINTERS: u64 = 1024;
/// Blocks above the data that even the smallest volume is given.
const LEVELS: u64 = 7;
/// Copies of a block.
const COPIES_MAX: u64 = 3;

/// A property of the contents, and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContentSetting {
    /// A limit of an id, in bytes or objects; 0 for no limit.
    Quota {
        name: String,
        kind: AccountKind,
        /// `None`: all ids without a limit of their own.
        id: Option<u64>,
        limit: u64,
        of_objects: bool,
    },
    /// Bytes of a volume.
    VolumeSize(u64),
    /// The version of a file system.
    Version(u64),
}

fn bad(name: &str, reason: String) -> ControlError {
    ControlError::BadValue {
        name: name.to_owned(),
        reason,
    }
}

fn limit_of(name: &str, text: &str) -> Result<u64, ControlError> {
    match text {
        "none" => Ok(0),
        text => parse_size(text).map_err(|error| bad_setting(name, &error.into())),
    }
}

/// Parses a property of the contents; `None` if it is another kind of property.
pub(crate) fn content_setting(pair: &Pair) -> Result<Option<ContentSetting>, ControlError> {
    let (name, text) = pair;
    if name == "volsize" {
        let size = parse_size(text).map_err(|error| bad_setting(name, &error.into()))?;
        return match size {
            0 => Err(bad(name, "'volsize' cannot be zero".to_owned())),
            size => Ok(Some(ContentSetting::VolumeSize(size))),
        };
    }
    if name == "version" {
        let purpose = Purpose {
            kinds: Kinds::FILESYSTEM,
            at_creation: false,
        };
        return Ok(match setting(pair, purpose)?.value {
            Some(Stored::Number(version)) => Some(ContentSetting::Version(version)),
            _ => None,
        });
    }
    let default = name.strip_prefix("default");
    let is_quota = name.ends_with("quota") && default.is_some();
    let is_account = ACCOUNTING.iter().any(|prefix| name.starts_with(prefix));
    let (what, who) = match (name.split_once('@'), default) {
        (Some((what, who)), _) if is_account => (what, Some(who)),
        (None, Some(what)) if is_quota => (what, None),
        _ => return Ok(None),
    };
    if !what.ends_with("quota") {
        return Err(bad(name, format!("'{name}' is readonly")));
    }
    let kind = match what {
        what if what.starts_with("user") => AccountKind::User,
        what if what.starts_with("group") => AccountKind::Group,
        _ => AccountKind::Project,
    };
    let id = match who.map(|who| (who, owner_id(kind, who))) {
        None => None,
        Some((_, Some(id))) => Some(id),
        Some((_, None)) => {
            let reason = format!("'{name}' has an invalid user/group name");
            return Err(bad(name, reason));
        }
    };
    if kind == AccountKind::Project && id == Some(0) {
        return Err(bad(name, "invalid project '0'".to_owned()));
    }
    Ok(Some(ContentSetting::Quota {
        name: name.clone(),
        kind,
        id,
        limit: limit_of(name, text)?,
        of_objects: what.contains("obj"),
    }))
}

/// Takes the properties of the contents out of a command's.
pub(crate) fn split(pairs: &[Pair]) -> Result<(Vec<Pair>, Vec<ContentSetting>), ControlError> {
    let (mut others, mut contents) = (Vec::new(), Vec::new());
    for pair in pairs {
        match content_setting(pair)? {
            Some(setting) => contents.push(setting),
            None => others.push(pair.clone()),
        }
    }
    Ok((others, contents))
}

/// Takes quotas of users, groups and projects out of a command's properties.
pub(crate) fn split_quotas(
    pairs: &[Pair],
) -> Result<(Vec<Pair>, Vec<ContentSetting>), ControlError> {
    let (mut others, mut quotas) = (Vec::new(), Vec::new());
    for pair in pairs {
        match content_setting(pair)? {
            Some(quota @ ContentSetting::Quota { .. }) => quotas.push(quota),
            _ => others.push(pair.clone()),
        }
    }
    Ok((others, quotas))
}

/// The feature that a quota needs, if it needs one.
pub(crate) fn feature_of_quota(setting: &ContentSetting) -> Option<&'static str> {
    match setting {
        ContentSetting::Quota {
            kind: AccountKind::Project,
            ..
        } => Some(features::PROJECT_QUOTA),
        ContentSetting::Quota {
            of_objects: true, ..
        } => Some(features::USEROBJ_ACCOUNTING),
        _ => None,
    }
}

/// Refuses a quota where a feature or the version is too old for it.
pub(crate) fn quota_too_new(setting: &ContentSetting) -> ControlError {
    let name = match setting {
        ContentSetting::Quota { name, .. } => name,
        ContentSetting::VolumeSize(_) | ContentSetting::Version(_) => "version",
    };
    let reason = "pool and or dataset must be upgraded to set this property or value";
    bad(name, reason.to_owned())
}

/// Bytes that a volume can come to take with all its metadata: what is reserved for it
/// (format/3c 3).
pub(crate) fn volume_reservation(
    imported: &Imported,
    size: u64,
    block_size: u64,
    copies: u64,
) -> u64 {
    let pool = &imported.pool;
    let mut blocks = size / block_size.max(1);
    // The vdev on which such a block takes most decides.
    let block = pool.space().into_keys().filter_map(|vdev| {
        let asize = pool.vdevs().asize(vdev, block_size, pool.txg())?;
        let ratio = pool.vdevs().deflate_ratio(vdev)?;
        Some((asize >> 9).saturating_mul(ratio))
    });
    let block = block.max().unwrap_or(block_size).max(block_size);
    let data = blocks.saturating_mul(block).saturating_mul(copies);
    let mut indirect = LEVELS;
    while blocks > 1 {
        blocks = blocks.div_ceil(INDIRECT_POINTERS);
        indirect += blocks;
    }
    let indirect = indirect.saturating_mul((copies + 1).min(COPIES_MAX));
    data.saturating_add(indirect.saturating_mul(INDIRECT_BYTES))
}

/// The value of a numeric property; 0 if it has none.
fn number(dataset: &Dataset, property: Property) -> Result<u64, ControlError> {
    let found = dataset.property(property).map_err(of_dsl)?;
    Ok(match found.map(|found| found.value) {
        Some(PropertyValue::Number(number)) => number,
        _ => 0,
    })
}

/// The reservation that `refreservation=auto` stands for, of a clone of a snapshot.
pub(crate) fn reservation_of_clone(
    imported: &Imported,
    snapshot: &Dataset,
) -> Result<u64, ControlError> {
    let head = imported.dsl().dataset(&snapshot.name().dataset());
    let size = number(snapshot, Property::VolumeSize)?;
    automatic_reservation(imported, &head.map_err(of_dsl)?, Some(size))
}

/// The reservation that `refreservation=auto` stands for.
pub(crate) fn automatic_reservation(
    imported: &Imported,
    dataset: &Dataset,
    size: Option<u64>,
) -> Result<u64, ControlError> {
    if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Volume {
        let reason = "'refreservation=auto' only allowed on volumes".to_owned();
        return Err(bad("refreservation", reason));
    }
    let size = match size {
        Some(size) => size,
        None => number(dataset, Property::VolumeSize)?,
    };
    let block_size = number(dataset, Property::VolumeBlockSize)?;
    let copies = dataset.stored_number(Property::Copies).map_err(of_dsl)?;
    Ok(volume_reservation(imported, size, block_size, copies))
}

/// Changes properties of a dataset's contents.
pub(crate) fn set_contents(
    imported: &Arc<Imported>,
    dataset: &Dataset,
    settings: &[ContentSetting],
    by: &By<'_>,
) -> Result<(), ControlError> {
    for setting in settings {
        match setting {
            ContentSetting::VolumeSize(size) => resize(imported, dataset, *size, by)?,
            ContentSetting::Version(version) => upgrade(imported, dataset, *version)?,
            quota => set_quota(imported, dataset, quota)?,
        }
    }
    Ok(())
}

fn set_quota(
    imported: &Arc<Imported>,
    dataset: &Dataset,
    setting: &ContentSetting,
) -> Result<(), ControlError> {
    let ContentSetting::Quota {
        name,
        kind,
        id,
        limit,
        of_objects,
    } = setting
    else {
        return Ok(());
    };
    require_file_system(dataset, name)?;
    let feature = feature_of_quota(setting);
    let lacks_feature = feature.is_some_and(|guid| imported.dsl().features().get(guid).is_none());
    if lacks_feature || number(dataset, Property::Version)? < VERSION_QUOTAS {
        return Err(quota_too_new(setting));
    }
    change_files(imported, dataset, |files| match id {
        Some(id) => files.set_quota(*kind, *id, *limit, *of_objects),
        None => files.set_default_quota(*kind, *limit, *of_objects),
    })
}

/// Refuses a property of files for volumes, and for snapshots, which cannot change.
fn require_file_system(dataset: &Dataset, name: &str) -> Result<(), ControlError> {
    if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Filesystem {
        let reason = format!("'{name}' does not apply to datasets of this type");
        return Err(bad(name, reason));
    }
    if dataset.is_snapshot() {
        let reason = "this property can not be modified for snapshots".to_owned();
        return Err(bad(name, reason));
    }
    Ok(())
}

/// Raises the version of a file system.
fn upgrade(imported: &Arc<Imported>, dataset: &Dataset, version: u64) -> Result<(), ControlError> {
    const NAME: &str = "version";
    require_file_system(dataset, NAME)?;
    let now = number(dataset, Property::Version)?;
    if version < now {
        let reason = format!("Can not downgrade; already at version {now}");
        return Err(bad(NAME, reason));
    }
    if version == now {
        return Ok(());
    }
    change_files(imported, dataset, |files| files.upgrade(version))
}

/// Changes a file system, mounted or not, and waits until that is on disk.
fn change_files(
    imported: &Arc<Imported>,
    dataset: &Dataset,
    change: impl FnOnce(&FileSystem) -> Result<(), PosixError>,
) -> Result<(), ControlError> {
    let files = imported.open_head(dataset)?;
    let done = change(&files);
    drop(files);
    let done = done.map_err(|error| of_files(dataset.name().as_str(), &error));
    let synced = done.and_then(|()| {
        let synced = imported.pool.sync();
        synced.map_err(|error| of_sync(imported.name(), error))
    });
    let closed = imported.close_unmounted(&[dataset.id()]);
    synced?;
    closed
}

/// Changes a volume's size; data behind a smaller one is lost.
fn resize(
    imported: &Arc<Imported>,
    dataset: &Dataset,
    size: u64,
    by: &By<'_>,
) -> Result<(), ControlError> {
    if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Volume || dataset.is_snapshot() {
        let reason = "'volsize' does not apply to datasets of this type".to_owned();
        return Err(bad("volsize", reason));
    }
    let block_size = number(dataset, Property::VolumeBlockSize)?.max(1);
    if !size.is_multiple_of(block_size) {
        let unit = match block_size % 1024 {
            0 => format!("{}K", block_size / 1024),
            _ => format!("{block_size}B"),
        };
        let reason = format!("'volsize' must be a multiple of volume block size ({unit})");
        return Err(bad("volsize", reason));
    }
    let before = number(dataset, Property::VolumeSize)?;
    let reserved = dataset
        .stored_number(Property::RefReservation)
        .map_err(of_dsl)?;
    // A reservation for all of the old size becomes one for all of the new.
    let is_full = reserved != 0
        && (reserved == automatic_reservation(imported, dataset, Some(before))?
            || reserved == before);
    let reservation = match is_full {
        true => Some(automatic_reservation(imported, dataset, Some(size))?),
        false => None,
    };
    let reserve = || match reservation {
        None => Ok(()),
        Some(bytes) => {
            let task = SetProperties {
                name: dataset.name().clone(),
                settings: vec![Setting {
                    name: "refreservation".to_owned(),
                    value: Some(Stored::Number(bytes)),
                }],
            };
            run(imported, task, &by.unnoted()).map(drop)
        }
    };
    if size > before {
        reserve()?;
    }
    write_size(imported, dataset, size)?;
    match size < before {
        true => reserve(),
        false => Ok(()),
    }
}

/// Changes the size of a volume, in use or not; it is on disk afterwards.
fn write_size(imported: &Arc<Imported>, dataset: &Dataset, size: u64) -> Result<(), ControlError> {
    let volume = imported.open_volume(dataset)?;
    let resized = volume.resize(size).map_err(of_volume);
    drop(volume);
    let closed = imported.close_unmounted(&[dataset.id()]);
    resized.and(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Option<ContentSetting>, ControlError> {
        content_setting(&(name.to_owned(), value.to_owned()))
    }

    #[test]
    fn quotas_name_who_they_are_of() {
        let quota = |name: &str, kind, id, limit, of_objects| {
            Ok(Some(ContentSetting::Quota {
                name: name.to_owned(),
                kind,
                id,
                limit,
                of_objects,
            }))
        };
        let name = "userquota@1000";
        assert_eq!(
            read(name, "1M"),
            quota(name, AccountKind::User, Some(1000), 1 << 20, false)
        );
        let name = "groupobjquota@root";
        assert_eq!(
            read(name, "7"),
            quota(name, AccountKind::Group, Some(0), 7, true)
        );
        let name = "defaultprojectquota";
        assert_eq!(
            read(name, "none"),
            quota(name, AccountKind::Project, None, 0, false)
        );
        assert_eq!(read("quota", "1G"), Ok(None));
        for wrong in ["userused@1", "userquota@no.such.user", "projectquota@0"] {
            assert!(read(wrong, "1").is_err(), "{wrong}");
        }
        assert!(read("userquota@1", "many").is_err());
        assert!(read("volsize", "0").is_err());
    }
}
