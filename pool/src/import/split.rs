//! What makes a pool of the sides that were split off another one.
//!
//! The sides hold the state of the pool that they belonged to. They are imported in that state,
//! with another configuration instead of the one they hold: a name, a guid, and a tree in which
//! each side is in the place of its mirror. The first group writes it, with labels that name the
//! original pool, and drops the data that only the others had.

use crate::create::remove_auxiliary;
use crate::devices::{SpaceTables, forget, logs_of, without_other_sides};
use crate::import::options::Becoming;
use crate::mos::{directory_object, packed_list};
use crate::sync::{Actor, log_event};
use cenote_base::Guid;
use cenote_dsl::write::SyncContext;
use cenote_dsl::{DslError, directory_keys};
use cenote_ondisk::PoolConfig;
use cenote_ondisk::object_directory::keys;

/// The pool that one side of each mirror becomes.
#[derive(Clone, Debug)]
pub(crate) struct SplitInto {
    /// Its guid.
    pub guid: Guid,
    /// The guid of the pool that is split.
    pub origin: Guid,
    /// The name of that.
    pub origin_name: String,
    /// The sides.
    pub sides: Vec<Guid>,
    /// The user and system of both pools.
    pub actor: Actor,
}

impl Becoming for SplitInto {
    fn origin(&self) -> Guid {
        self.origin
    }

    fn change(&self, config: &mut PoolConfig) -> Result<(), String> {
        let tree = config.vdev_tree.as_ref().ok_or("there is no tree")?;
        let tree = without_other_sides(tree, &self.sides);
        let mut tree = tree.map_err(|error| error.to_string())?;
        tree.guid = self.guid;
        config.vdev_tree = Some(tree);
        config.pool_guid = Some(self.guid);
        config.split_leaves.clear();
        Ok(())
    }

    fn in_first_group(&self, context: &SyncContext<'_>) -> Result<(), DslError> {
        // What the object holds until this group is written is the configuration before.
        if let Some(object) = directory_object(context.mos(), keys::CONFIG)? {
            let list = packed_list(context.mos(), object)?;
            let before = PoolConfig::decode(&list).map_err(|error| DslError::Format {
                reason: error.to_string(),
            })?;
            let logs = before.vdev_tree.iter().flat_map(logs_of);
            for log in logs {
                SpaceTables::read(context, log)?.free(context)?;
            }
            let leaves = before.vdev_tree.iter().flat_map(|tree| tree.leaves());
            for other in leaves.filter(|leaf| !self.sides.contains(&leaf.guid)) {
                forget(context, other)?;
            }
        }
        for key in [directory_keys::SPARES, directory_keys::CACHE_DEVICES] {
            for auxiliary in context.dsl.auxiliary_vdevs(key)? {
                remove_auxiliary(context, key, auxiliary.guid)?;
            }
        }
        let detail = format!("from pool {}", self.origin_name);
        log_event(context, &self.actor, "split", &detail)
    }
}
