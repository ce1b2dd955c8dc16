//! Setting and inheriting properties (format/3a 11, format/3c 3).
//!
//! A value is stored as it is, and dependent data outside the table of properties changes with it:
//! quotas and reservations are in the directory, too, and reservations are accounted.

use super::blocks::accounting::{Part, SpaceChange, signed};
use super::context::{SyncContext, SyncTask};
use super::policy::HeadPolicy;
use crate::dataset::Dataset;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::object_sets::is_of_caching;
use crate::property::stored::Stored;
use crate::property::table::Property;
use cenote_base::ObjectId;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::{ObjectType, features};

/// The number that means no limit on counts.
const NO_LIMIT: u64 = u64::MAX;
const INHERIT: &str = "$inherit";
pub(super) const RECEIVED: &str = "$recvd";
const NEWER_INDEX: &str = "$iuv";
const HAS_RECEIVED: &str = "$hasrecvd";

/// A property and the value that it gets, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The property's full name.
    pub name: String,
    /// The value; `None` takes the dataset's own value away.
    pub value: Option<Stored>,
}

/// Sets or inherits properties of one dataset.
#[derive(Debug)]
pub struct SetProperties {
    /// The dataset.
    pub name: DatasetName,
    /// The new values.
    pub settings: Vec<Setting>,
}

impl SyncTask for SetProperties {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let dataset = context.dsl.dataset(&self.name)?;
        // A table that cannot be read cannot be changed, which is to be found out here.
        dataset.directory().properties()?;
        for setting in &self.settings {
            context.check_setting(&dataset, setting)?;
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let dataset = context.dsl.dataset(&self.name)?;
        if dataset.is_snapshot() {
            context.apply_snapshot_settings(&dataset, &self.settings)?;
        } else {
            let directory = dataset.directory().id();
            for setting in &self.settings {
                context.account_setting(&dataset, setting)?;
            }
            context.apply_settings(directory, &self.settings)?;
            context.dsl.refresh_policies()?;
        }
        // What snapshots inherit is not looked up each time that they are read.
        let mut names = self.settings.iter().map(|setting| setting.name.as_str());
        if names.any(is_of_caching) {
            context.dsl.refresh_caching();
        }
        Ok(())
    }
}

/// Takes a dataset's own value of a property away, so that the one that came with a stream is in
/// effect; without such a one this is what inheriting is.
#[derive(Debug)]
pub struct RevertProperty {
    /// The dataset.
    pub name: DatasetName,
    /// The property's full name.
    pub property: String,
}

impl RevertProperty {
    /// What will be in effect.
    fn received(&self, dataset: &Dataset) -> Result<Setting, DslError> {
        let own = match dataset.is_snapshot() {
            true => dataset.own_properties()?,
            false => dataset.directory().properties()?,
        };
        Ok(Setting {
            name: self.property.clone(),
            value: own.received(&self.property).cloned(),
        })
    }

    fn take_away(&self, context: &SyncContext<'_>, table: ObjectId) -> Result<(), DslError> {
        for suffix in ["", NEWER_INDEX, INHERIT] {
            context.remove_entry(table, format!("{}{suffix}", self.property).as_bytes())?;
        }
        Ok(())
    }
}

impl SyncTask for RevertProperty {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let dataset = context.dsl.dataset(&self.name)?;
        let setting = self.received(&dataset)?;
        context.check_setting(&dataset, &setting)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let dataset = context.dsl.dataset(&self.name)?;
        if dataset.is_snapshot() {
            return match dataset.phys().properties {
                Some(table) => {
                    self.take_away(context, table)?;
                    context.drop_empty_table(&dataset, table)
                }
                None => Ok(()),
            };
        }
        let directory = dataset.directory().id();
        context.account_setting(&dataset, &self.received(&dataset)?)?;
        self.take_away(context, context.directory(directory)?.properties)?;
        if is_of_caching(&self.property) {
            context.dsl.refresh_caching();
        }
        context.dsl.refresh_policies()
    }
}

/// The value of a setting that is a number; what is taken away becomes `default`.
fn number_of(setting: &Setting, default: u64) -> u64 {
    match setting.value {
        Some(Stored::Number(number)) => number,
        _ => default,
    }
}

impl Dataset {
    /// Refuses a `refquota` that contents of `referenced` bytes exceed, or what is reserved; 0 is
    /// none.
    pub(crate) fn check_new_refquota(&self, limit: u64, referenced: u64) -> Result<(), DslError> {
        let reserved = self.stored_number(Property::RefReservation)?;
        let least = referenced.max(reserved);
        match limit != 0 && limit < least {
            true => Err(DslError::NoRoom {
                name: self.name().clone(),
                property: Property::RefQuota.info().name.to_owned(),
                available: least,
            }),
            false => Ok(()),
        }
    }
}

/// The feature that blocks need which are written by a setting (format/3a 1).
pub fn feature_needed(setting: &Setting) -> Option<&'static str> {
    const OLD_RECORD_SIZE_MAX: u64 = 128 << 10;
    const DEDUP_VERIFY: u64 = 0x100;
    let Some(Stored::Number(value)) = setting.value else {
        return None;
    };
    let of_checksum = |number: u64| match number {
        11 => Some(features::SHA512),
        12 => Some(features::SKEIN),
        13 => Some(features::EDONR),
        14 => Some(features::BLAKE3),
        _ => None,
    };
    match setting.name.as_str() {
        "compression" if value == 15 => Some(features::LZ4_COMPRESS),
        "compression" if value & 0x7f == 16 => Some(features::ZSTD_COMPRESS),
        "recordsize" if value > OLD_RECORD_SIZE_MAX => Some(features::LARGE_BLOCKS),
        "dnodesize" if value != 0 => Some(features::LARGE_DNODE),
        "filesystem_limit" | "snapshot_limit" if value != NO_LIMIT => {
            Some(features::FILESYSTEM_LIMITS)
        }
        "longname" if value != 0 => Some(features::LONGNAME),
        "checksum" => of_checksum(value),
        "dedup" => of_checksum(value & !DEDUP_VERIFY),
        _ => None,
    }
}

/// The feature that a dataset uses from the moment that a value is set, whatever is written.
///
/// Software that does not know the feature does not know the value either, so it must not import
/// the pool. Features of sizes count once there is a block, dnode or name of that size
/// (zpool-features(7)).
fn feature_of_value(setting: &Setting) -> Option<&'static str> {
    let names_function = matches!(setting.name.as_str(), "compression" | "checksum" | "dedup");
    let guid = feature_needed(setting).filter(|_| names_function)?;
    features::by_guid(guid)?.per_dataset.then_some(guid)
}

impl SyncContext<'_> {
    /// Refuses values whose blocks the pool's features do not allow.
    pub(crate) fn check_feature(&self, setting: &Setting) -> Result<(), DslError> {
        match feature_needed(setting) {
            Some(guid) if self.dsl.features().get(guid).is_none() => {
                let feature = features::by_guid(guid).map_or(guid, |feature| feature.name);
                let feature = feature.to_owned();
                Err(DslError::FeatureDisabled { feature })
            }
            _ => Ok(()),
        }
    }

    /// Refuses limits that contradict each other or what is used (format/3c 3).
    pub(super) fn check_setting(
        &self,
        dataset: &Dataset,
        setting: &Setting,
    ) -> Result<(), DslError> {
        self.check_feature(setting)?;
        let directory = dataset.directory().phys();
        let value = number_of(setting, 0);
        let too_large = |available| {
            Err(DslError::NoRoom {
                name: dataset.name().clone(),
                property: setting.name.clone(),
                available,
            })
        };
        match setting.name.as_str() {
            "quota" if value != 0 => match directory.used_bytes.max(directory.reservation) {
                least if value < least => too_large(least),
                _ => Ok(()),
            },
            "refquota" => dataset.check_new_refquota(value, dataset.phys().referenced_bytes),
            "reservation" => {
                let before = directory.used_bytes.max(directory.reservation);
                let growth = directory.used_bytes.max(value).saturating_sub(before);
                let room = match dataset.directory().parent() {
                    Some(parent) => parent.available()?,
                    None => dataset.directory().available()?,
                };
                let quota_allows = directory.quota == 0 || value <= directory.quota;
                match growth > room || !quota_allows {
                    true => too_large(room),
                    false => Ok(()),
                }
            }
            "refreservation" => {
                let unique = dataset.phys().unique_bytes;
                let before = unique.max(dataset.stored_number(Property::RefReservation)?);
                let growth = unique.max(value).saturating_sub(before);
                let room = dataset.directory().available()?;
                let quota = dataset.stored_number(Property::RefQuota)?;
                match growth > room || (quota != 0 && value > quota) {
                    true => too_large(room),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Refuses settings of the root dataset of a new pool, which has `room` bytes.
    ///
    /// # Errors
    /// If a feature that they need is not there, or more is reserved than there is.
    pub fn check_root_settings(
        &self,
        name: &DatasetName,
        settings: &[Setting],
        room: u64,
    ) -> Result<(), DslError> {
        for setting in settings {
            self.check_feature(setting)?;
            let is_reservation = matches!(setting.name.as_str(), "reservation" | "refreservation");
            if is_reservation && number_of(setting, 0) > room {
                return Err(DslError::NoRoom {
                    name: name.clone(),
                    property: setting.name.clone(),
                    available: room,
                });
            }
        }
        Ok(())
    }

    /// Changes what stands outside of the table of properties.
    ///
    /// # Errors
    /// If what is to be changed cannot be read.
    pub fn account_setting(&self, dataset: &Dataset, setting: &Setting) -> Result<(), DslError> {
        let id = dataset.directory().id();
        let value = number_of(setting, 0);
        if let Some(guid) = feature_of_value(setting) {
            self.use_dataset_feature(dataset.id(), guid)?;
        }
        match setting.name.as_str() {
            "quota" => self.change_directory(id, |phys| phys.quota = value),
            "reservation" => self.change_reservation(id, value),
            "filesystem_limit" | "snapshot_limit" if number_of(setting, NO_LIMIT) != NO_LIMIT => {
                self.activate_limits(dataset.directory())
            }
            "refreservation" => {
                let unique = dataset.phys().unique_bytes;
                let old = dataset.stored_number(Property::RefReservation)?;
                let change =
                    signed(value.saturating_sub(unique)) - signed(old.saturating_sub(unique));
                self.use_space(id, Part::Refreservation, SpaceChange::of_used(change))
            }
            _ => Ok(()),
        }
    }

    /// Reserves `bytes` for a directory and all below it.
    pub(crate) fn change_reservation(&self, id: ObjectId, bytes: u64) -> Result<(), DslError> {
        let mut phys = self.directory(id)?;
        let before = signed(phys.used_bytes.max(phys.reservation));
        let after = signed(phys.used_bytes.max(bytes));
        phys.reservation = bytes;
        let parent = phys.parent;
        self.store_directory(id, &phys)?;
        match parent {
            Some(parent) => {
                let change = SpaceChange::of_used(after - before);
                self.use_space(parent, Part::ChildReservations, change)
            }
            None => Ok(()),
        }
    }

    /// Stores values in a directory's table of properties.
    pub fn apply_settings(
        &self,
        directory: ObjectId,
        settings: &[Setting],
    ) -> Result<(), DslError> {
        let table = self.directory(directory)?.properties;
        for setting in settings {
            self.store_setting(table, setting)?;
        }
        Ok(())
    }

    /// Stores values on a snapshot; its table comes and goes with them.
    pub(super) fn apply_snapshot_settings(
        &self,
        snapshot: &Dataset,
        settings: &[Setting],
    ) -> Result<(), DslError> {
        let table = self.snapshot_table(snapshot)?;
        for setting in settings {
            self.store_setting(table, setting)?;
        }
        self.drop_empty_table(snapshot, table)
    }

    /// Stores what came with a stream on a snapshot that is new.
    pub(super) fn receive_snapshot_settings(
        &self,
        snapshot: &Dataset,
        settings: &[Setting],
    ) -> Result<(), DslError> {
        if settings.is_empty() {
            return Ok(());
        }
        let table = self.snapshot_table(snapshot)?;
        self.set_number(table, HAS_RECEIVED.as_bytes(), 0)?;
        self.put_received(table, settings)
    }

    fn snapshot_table(&self, snapshot: &Dataset) -> Result<ObjectId, DslError> {
        if let Some(table) = snapshot.phys().properties {
            return Ok(table);
        }
        let table = self.create_table(ObjectType::DSL_PROPS)?;
        self.change_dataset(snapshot.id(), |phys| phys.properties = Some(table))?;
        Ok(table)
    }

    fn drop_empty_table(&self, snapshot: &Dataset, table: ObjectId) -> Result<(), DslError> {
        if self.mos().zap(table)?.count() == 0 {
            self.destroy_object(table)?;
            self.change_dataset(snapshot.id(), |phys| phys.properties = None)?;
        }
        Ok(())
    }

    fn store_setting(&self, table: ObjectId, setting: &Setting) -> Result<(), DslError> {
        let key = |suffix: &str| format!("{}{suffix}", setting.name).into_bytes();
        let Some(value) = &setting.value else {
            self.remove_entry(table, &key(""))?;
            self.remove_entry(table, &key(NEWER_INDEX))?;
            let zap = self.mos().zap(table)?;
            let has_received = zap.lookup(HAS_RECEIVED.as_bytes())?.is_some();
            if has_received && zap.lookup(&key(RECEIVED))?.is_some() {
                self.set_number(table, &key(INHERIT), 0)?;
            }
            return Ok(());
        };
        self.remove_entry(table, &key(INHERIT))?;
        match newer_index(&setting.name, value) {
            Some(index) => {
                // Old releases do not know this value; they read the default.
                self.set_number(table, &key(NEWER_INDEX), index)?;
                self.set_number(table, &key(""), 0)
            }
            None => {
                self.remove_entry(table, &key(NEWER_INDEX))?;
                let zap = self.mos().zap(table)?;
                Ok(zap.update(self.tx, &key(""), &stored_value(value))?)
            }
        }
    }
}

/// An index that releases before it do not know (format/3a 11).
fn newer_index(name: &str, value: &Stored) -> Option<u64> {
    match (name, value) {
        ("redundant_metadata", Stored::Number(index @ 2..)) => Some(*index),
        ("snapdir", Stored::Number(index @ 2..)) => Some(*index),
        _ => None,
    }
}

pub(super) fn stored_value(value: &Stored) -> ZapValue {
    match value {
        Stored::Number(number) => ZapValue::from_u64(*number),
        Stored::Text(text) => ZapValue::from_text(text),
    }
}

impl crate::dsl::Dsl {
    /// Recomputes the policies of all open heads after a property changed.
    pub(crate) fn refresh_policies(self: &std::sync::Arc<Self>) -> Result<(), DslError> {
        for head in self.open_heads() {
            let dataset = self.dataset_of(head.id())?;
            let policy = HeadPolicy::of(&dataset)?;
            let limits = (policy.refquota, policy.refreservation);
            self.rooms().stage_limits(head.id(), limits);
            head.set_policy(policy);
            head.set().set_caching(dataset.caching()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that the pool's features do not allow once suspended the pool in its sync.
    #[test]
    fn values_name_the_feature_that_their_blocks_need() {
        let needed = |name: &str, number| {
            feature_needed(&Setting {
                name: name.to_owned(),
                value: Some(Stored::Number(number)),
            })
        };
        let zstd_19 = 16 | 19 << 7;
        let zstd = Some("org.freebsd:zstd_compress");
        assert_eq!(needed("compression", zstd_19), zstd);
        assert_eq!(needed("compression", 1), None);
        let large = Some("org.open-zfs:large_blocks");
        assert_eq!(needed("recordsize", 256 << 10), large);
        assert_eq!(needed("recordsize", 128 << 10), None);
        let edonr = Some("org.illumos:edonr");
        assert_eq!(needed("dedup", 13 | 0x100), edonr);
        assert_eq!(needed("quota", 14), None);
    }
}
