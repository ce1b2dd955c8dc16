//! What a pool keeps of a top-level vdev's space, freed when the vdev leaves.
//!
//! A log vdev leaves with all its space: no block pointer leads to it any more. Then its space
//! maps, the objects that list them, and the vdev's own ZAP describe nothing, and are freed in the
//! group that takes the vdev out of the tree (format/1f 9).

use crate::create::VdevZaps;
use crate::rebuild::leave as leave_rebuild;
use crate::space::space_objects;
use crate::sync::free_map;
use cenote_base::ObjectId;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_ondisk::{VdevConfig, vdev_zap};

/// The objects of a top-level vdev's space.
pub(crate) struct SpaceTables {
    /// The space map of each metaslab; `None` where nothing was ever allocated.
    pub maps: Vec<Option<ObjectId>>,
    /// Lists the space maps.
    pub array: Option<ObjectId>,
    /// Since which txg each metaslab's changes are only in the logs.
    pub unflushed: Option<ObjectId>,
    /// The vdev's ZAP.
    pub top_zap: Option<ObjectId>,
}

impl SpaceTables {
    /// Those of a vdev that the configuration on disk describes.
    pub fn read(context: &SyncContext<'_>, top: &VdevConfig) -> Result<Self, DslError> {
        let objects = space_objects(context.mos(), top)?;
        Ok(Self {
            array: objects.as_ref().map(|objects| objects.array),
            unflushed: objects.as_ref().and_then(|objects| objects.unflushed),
            maps: objects.map_or_else(Vec::new, |objects| objects.maps),
            top_zap: top.top_zap,
        })
    }

    /// Frees them, and what is known of a rebuild below the vdev.
    pub fn free(&self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for map in self.maps.iter().flatten() {
            free_map(context, *map)?;
        }
        for object in [self.array, self.unflushed].into_iter().flatten() {
            context.mos().free(context.tx, object)?;
        }
        let Some(zap) = self.top_zap else {
            return Ok(());
        };
        leave_rebuild(context, zap)?;
        let table = context.mos().zap(zap)?;
        if let Some(map) = table.lookup_u64(vdev_zap::top::CHECKPOINT_SPACE_MAP)? {
            free_map(context, ObjectId(map))?;
        }
        VdevZaps::open(context)?.remove(zap)
    }
}
