//! Features that are counted by dataset (format/3a 1).
//!
//! A dataset that uses a feature has an extension field for it, and the pool counts such datasets.
//! A snapshot or clone uses the features of its origin, whether its blocks show it or not.

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::write::context::SyncContext;
use cenote_base::ObjectId;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::features;

impl SyncContext<'_> {
    /// Notes once that a dataset uses a feature.
    pub(crate) fn use_dataset_feature(&self, id: ObjectId, guid: &str) -> Result<(), DslError> {
        let zap = self.extend(id)?;
        if zap.lookup(guid.as_bytes())?.is_none() {
            self.set_extension(id, guid, 0)?;
            self.feature_changed(guid, 1)?;
        }
        Ok(())
    }

    /// Notes that a dataset does not use a feature any more.
    pub(crate) fn forget_dataset_feature(&self, id: ObjectId, guid: &str) -> Result<(), DslError> {
        let object = self.mos().object(id)?;
        let Some(zap) = Dsl::extension(&object)? else {
            return Ok(());
        };
        if zap.lookup(guid.as_bytes())?.is_some() {
            self.remove_entry(id, guid.as_bytes())?;
            self.feature_changed(guid, -1)?;
        }
        Ok(())
    }

    /// Notes by which snapshots a dataset is redacted; with `None` that nothing is left out of it.
    pub(crate) fn set_redaction(&self, id: ObjectId, by: Option<&[u64]>) -> Result<(), DslError> {
        let guid = features::REDACTED_DATASETS;
        let Some(by) = by else {
            return self.forget_dataset_feature(id, guid);
        };
        let zap = self.extend(id)?;
        if zap.lookup(guid.as_bytes())?.is_none() {
            self.feature_changed(guid, 1)?;
        }
        Ok(zap.update(self.tx, guid.as_bytes(), &ZapValue::from_u64s(by))?)
    }

    /// The features that a dataset uses, with what it says of them.
    fn dataset_features(&self, id: ObjectId) -> Result<Vec<(String, ZapValue)>, DslError> {
        let mut used = Vec::new();
        let object = self.mos().object(id)?;
        let Some(zap) = Dsl::extension(&object)? else {
            return Ok(used);
        };
        for entry in zap.entries() {
            let entry = entry?;
            let guid = entry.key.as_str().unwrap_or_default();
            if features::by_guid(guid).is_some_and(|feature| feature.per_dataset) {
                used.push((guid.to_owned(), entry.value));
            }
        }
        Ok(used)
    }

    /// Activates the features of another dataset in a new one.
    pub(crate) fn copy_dataset_features(
        &self,
        from: ObjectId,
        to: ObjectId,
    ) -> Result<(), DslError> {
        for (guid, value) in self.dataset_features(from)? {
            self.extend(to)?.update(self.tx, guid.as_bytes(), &value)?;
            self.feature_changed(&guid, 1)?;
        }
        Ok(())
    }

    /// Sets a dataset's features to exactly those of another.
    pub(crate) fn replace_dataset_features(
        &self,
        id: ObjectId,
        from: ObjectId,
    ) -> Result<(), DslError> {
        for (guid, _) in self.dataset_features(id)? {
            self.forget_dataset_feature(id, &guid)?;
        }
        self.copy_dataset_features(from, id)
    }

    /// Gives all features of a dataset back; what it says of them stays.
    pub(crate) fn forget_dataset_features(&self, id: ObjectId) -> Result<(), DslError> {
        for (guid, _) in self.dataset_features(id)? {
            self.feature_changed(&guid, -1)?;
        }
        Ok(())
    }
}
