//! Changing the pool's metadata: ZAPs, extension fields, feature counts.

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::features::FeatureTable;
use crate::object_directory::{OBJECT_DIRECTORY, keys};
use crate::write::context::SyncContext;
use cenote_base::ObjectId;
use cenote_dmu::zap::NewZap;
use cenote_dmu::zap::ZapValue;
use cenote_dmu::{NewObject, Object, Zap};
use cenote_ondisk::dsl_dir::fields;
use cenote_ondisk::{ObjectType, features};

/// Of ZAPs whose names are found regardless of case.
const NORMALIZE_UPPER: u64 = 2;

/// The key of an object in tables keyed by number (format/3a 1).
pub(crate) fn number_key(number: u64) -> Vec<u8> {
    format!("{number:x}").into_bytes()
}

impl SyncContext<'_> {
    /// Makes an empty table.
    pub fn create_table(&self, object_type: ObjectType) -> Result<ObjectId, DslError> {
        match object_type == ObjectType::DSL_DATASET_SNAP_MAP {
            true => self.create_name_table(object_type),
            false => self.create_table_of(object_type, NewZap::default()),
        }
    }

    /// Makes an empty table of names that may be looked for regardless of case.
    pub(crate) fn create_name_table(&self, object_type: ObjectType) -> Result<ObjectId, DslError> {
        let new = NewZap {
            normflags: NORMALIZE_UPPER,
            ..NewZap::default()
        };
        self.create_table_of(object_type, new)
    }

    fn create_table_of(&self, object_type: ObjectType, new: NewZap) -> Result<ObjectId, DslError> {
        let object = self
            .mos()
            .allocate(self.tx, NewObject::new(object_type, 512))?;
        Zap::initialize(&object, self.tx, new)?;
        Ok(object.id())
    }

    /// Sets a number in a table.
    pub(crate) fn set_number(
        &self,
        table: ObjectId,
        key: &[u8],
        value: u64,
    ) -> Result<(), DslError> {
        let zap = self.mos().zap(table)?;
        Ok(zap.update(self.tx, key, &ZapValue::from_u64(value))?)
    }

    /// Removes an entry of a table; it need not be there.
    pub(crate) fn remove_entry(&self, table: ObjectId, key: &[u8]) -> Result<(), DslError> {
        let zap = self.mos().zap(table)?;
        if zap.lookup(key)?.is_some() {
            zap.remove(self.tx, key)?;
        }
        Ok(())
    }

    /// Frees a table or other object.
    pub(crate) fn destroy_object(&self, object: ObjectId) -> Result<(), DslError> {
        Ok(self.mos().free(self.tx, object)?)
    }

    /// Sets a number in the object directory.
    pub fn set_directory_number(&self, key: &str, value: u64) -> Result<(), DslError> {
        self.set_number(OBJECT_DIRECTORY, key.as_bytes(), value)
    }

    /// Removes an entry of the object directory.
    pub fn remove_directory_entry(&self, key: &str) -> Result<(), DslError> {
        self.remove_entry(OBJECT_DIRECTORY, key.as_bytes())
    }

    /// Makes an object whose contents are its bonus buffer.
    pub(crate) fn create_bonus_object(
        &self,
        object_type: ObjectType,
        bonus: Vec<u8>,
    ) -> Result<ObjectId, DslError> {
        let new = NewObject::new(object_type, 512).with_bonus(object_type, bonus);
        Ok(self.mos().allocate(self.tx, new)?.id())
    }

    /// The extension fields of a directory or dataset, which are made if there are none.
    pub(crate) fn extend(&self, id: ObjectId) -> Result<Zap, DslError> {
        let object = self.mos().object(id)?;
        if let Some(zap) = Dsl::extension(&object)? {
            return Ok(zap);
        }
        object.set_type(self.tx, ObjectType::ZAP_METADATA)?;
        let zap = Zap::initialize(&object, self.tx, NewZap::default())?;
        self.feature_changed(features::EXTENSIBLE_DATASET, 1)?;
        Ok(zap)
    }

    /// Sets an extension field that is one number.
    pub(crate) fn set_extension(
        &self,
        id: ObjectId,
        key: &str,
        value: u64,
    ) -> Result<(), DslError> {
        let zap = self.extend(id)?;
        Ok(zap.update(self.tx, key.as_bytes(), &ZapValue::from_u64(value))?)
    }

    /// Notes when a directory's list of snapshots changed, where the pool keeps that.
    pub(crate) fn note_snapshots_changed(&self, directory: ObjectId) -> Result<(), DslError> {
        if self
            .dsl
            .features()
            .get(features::EXTENSIBLE_DATASET)
            .is_none()
        {
            return Ok(());
        }
        let now = self.pool.env().wall_clock();
        let value = ZapValue::from_u64s(&[now.as_secs(), u64::from(now.subsec_nanos())]);
        let key = fields::SNAPSHOTS_CHANGED.as_bytes();
        Ok(self.extend(directory)?.update(self.tx, key, &value)?)
    }

    /// Frees a directory or dataset object, with its extension.
    pub(crate) fn destroy_extensible(&self, id: ObjectId) -> Result<(), DslError> {
        if is_extended(&self.mos().object(id)?) {
            self.feature_changed(features::EXTENSIBLE_DATASET, -1)?;
        }
        self.destroy_object(id)
    }

    /// Adds to a feature's count of uses; returns the new count.
    ///
    /// # Errors
    /// If the feature is not enabled, or its count would become negative.
    pub fn feature_changed(&self, guid: &str, change: i64) -> Result<u64, DslError> {
        let feature = self.dsl.features().get(guid).cloned();
        let feature = feature.ok_or_else(|| DslError::FeatureDisabled {
            feature: features::by_guid(guid)
                .map_or(guid, |feature| feature.name)
                .to_owned(),
        })?;
        let key = match feature.table {
            FeatureTable::ForRead => keys::FEATURES_FOR_READ,
            FeatureTable::ForWrite => keys::FEATURES_FOR_WRITE,
        };
        let table = self.dsl.object_directory().object(key)?;
        let table = table.ok_or(DslError::MissingEntry { key })?;
        let count = feature.count.checked_add_signed(change);
        let problem = "a feature is used less often than not at all";
        let count = count.ok_or(DslError::structure(table, problem))?;
        self.set_number(table, guid.as_bytes(), count)?;
        self.dsl.set_feature_count(guid, count);
        Ok(count)
    }
}

/// Whether an object has been extended by a ZAP.
pub(crate) fn is_extended(object: &Object) -> bool {
    object.dnode().object_type == ObjectType::ZAP_METADATA
}
