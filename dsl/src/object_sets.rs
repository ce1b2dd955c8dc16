//! The object sets of datasets, opened to be read.

use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::property::Property;
use cenote_base::{ObjectId, ObjsetId};
use cenote_dmu::{CacheScope, Caching, DirectIo, ObjectSet};
use cenote_ondisk::dsl_dataset::fields;
use std::sync::Arc;

/// Whether a property says how blocks are cached.
pub(crate) fn is_of_caching(property: &str) -> bool {
    [Property::PrimaryCache, Property::Prefetch, Property::Direct]
        .iter()
        .any(|of_caching| of_caching.info().name == property)
}

impl Dataset {
    /// Whether it may be a partly received raw stream, whose MACs are valid only at its end.
    ///
    /// An incomplete dataset that cannot be resumed counts as one, too: it can only be destroyed.
    fn may_lack_macs(&self) -> Result<bool, DslError> {
        if !self.is_inconsistent() {
            return Ok(false);
        }
        let has = |field| Ok::<_, DslError>(self.extension_value(field)?.is_some());
        Ok(has(fields::RESUME_RAW)? || !has(fields::RESUME_TO_GUID)?)
    }

    /// How the dataset's blocks are cached, by its properties.
    pub(crate) fn caching(&self) -> Result<Caching, DslError> {
        let scope = |property| self.stored_number(property).map(CacheScope::from_number);
        Ok(Caching {
            primary: scope(Property::PrimaryCache)?,
            prefetch: scope(Property::Prefetch)?,
            direct: DirectIo::from_number(self.stored_number(Property::Direct)?),
        })
    }
}

impl Dsl {
    /// The object set of a dataset, with its keys if it has some and they are loaded; without them
    /// if it was received raw in part, since its MACs are those of the whole.
    pub(crate) fn objset_of(&self, dataset: &Dataset) -> Result<Arc<ObjectSet>, DslError> {
        if let Some(head) = self.open_head(dataset.id()) {
            return Ok(head.set().for_io(self.io()));
        }
        let root = dataset.phys().block_pointer;
        let keys = match dataset.may_lack_macs()? {
            true => None,
            false => self.objset_keys(dataset.directory())?,
        };
        if let Some(set) = self.objsets.get(dataset.id())
            && set.root() == root
            && set.keys().map(Arc::as_ptr) == keys.as_ref().map(Arc::as_ptr)
        {
            return Ok(set.for_io(self.io()));
        }
        let cache = Arc::clone(self.mos().cache());
        let set = ObjectSet::open(cache, dataset.objset_id(), root, keys)?;
        set.set_caching(dataset.caching()?);
        self.objsets.put(dataset.id(), &set);
        Ok(set)
    }

    /// Drops what is kept in memory of a dataset that was destroyed, or of the one before a new one
    /// with the same number.
    pub(crate) fn forget_dataset(&self, id: ObjectId) {
        self.objsets.forget(id);
        self.mos().cache().forget_dataset(ObjsetId(id.0));
    }

    /// Applies the current caching properties to the object sets that are open for reading.
    pub(crate) fn refresh_caching(self: &Arc<Self>) {
        for (id, set) in self.objsets.all() {
            match self.dataset_of(id).and_then(|dataset| dataset.caching()) {
                Ok(caching) => set.set_caching(caching),
                // It was destroyed meanwhile, or the next open reports what is wrong.
                Err(_) => self.objsets.forget(id),
            }
        }
    }
}
