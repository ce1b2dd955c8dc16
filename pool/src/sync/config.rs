//! The pool's configuration: the copy in the meta object set, and the labels (format/1a).

use super::error::SyncError;
use cenote_base::{Guid, ObjectId, Txg, VdevId};
use cenote_dmu::NewObject;
use cenote_dsl::write::SyncContext;
use cenote_dsl::{Dsl, DslError};
use cenote_ondisk::config_encode::Place;
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::pool_config::{PoolConfig, Previous};
use cenote_ondisk::{NvList, ObjectType, VdevConfig, VdevKind, features};
use std::collections::BTreeMap;

/// Packed lists take whole blocks of this size.
const PACKED_BLOCK: u64 = 16 << 10;

/// The configuration and which copies of it are out of date.
#[derive(Debug)]
pub(crate) struct LiveConfig {
    pub config: PoolConfig,
    pub is_mos_stale: bool,
    pub are_labels_stale: bool,
    /// Leaves that are offline or faulted only until the next import: this is not stored on disk.
    pub temporary: Vec<Guid>,
    /// Cache devices that are offline only until the next import.
    pub resting_caches: Vec<Guid>,
    /// Log devices that were given up, each with the last group before that.
    rested_logs: BTreeMap<Guid, Txg>,
}

impl LiveConfig {
    /// The configuration as it is on disk.
    pub fn new(config: PoolConfig) -> Self {
        Self {
            config,
            is_mos_stale: false,
            are_labels_stale: false,
            temporary: Vec::new(),
            resting_caches: Vec::new(),
            rested_logs: BTreeMap::new(),
        }
    }

    /// The configuration as it is to be on disk.
    fn stored(&self) -> PoolConfig {
        let mut config = self.config.clone();
        let mut stack: Vec<&mut VdevConfig> = config.vdev_tree.iter_mut().collect();
        while let Some(vdev) = stack.pop() {
            if self.temporary.contains(&vdev.guid) {
                (vdev.state.offline, vdev.state.faulted) = (false, false);
                vdev.state.aux_state = None;
            }
            stack.extend(vdev.children.iter_mut());
        }
        config
    }

    /// Notes which log devices got the uberblock after that of group `last`, and which are given
    /// up. Returns whether the labels have to name one more before others get that uberblock: from
    /// then on what is on the device looks like an older copy.
    pub fn note_logs(&mut self, (written, resting): (Vec<Guid>, Vec<Guid>), last: Txg) -> bool {
        for leaf in written {
            self.are_labels_stale |= self.rested_logs.remove(&leaf).is_some();
        }
        let before = self.rested_logs.len();
        for leaf in resting {
            self.rested_logs.entry(leaf).or_insert(last);
        }
        self.rested_logs.len() > before
    }

    /// Notes a change: both copies are to be written.
    pub fn touch(&mut self) {
        self.is_mos_stale = true;
        self.are_labels_stale = true;
    }

    /// The top-level vdev with this id.
    pub fn top_mut(&mut self, vdev: VdevId) -> Option<&mut VdevConfig> {
        let tree = self.config.vdev_tree.as_mut()?;
        tree.children.iter_mut().find(|top| top.id == Some(vdev))
    }

    /// The leaf with this guid.
    pub fn leaf_mut(&mut self, guid: Guid) -> Option<&mut VdevConfig> {
        self.vdev_mut(guid).filter(|vdev| vdev.children.is_empty())
    }

    /// The table of a leaf. A task must ask in its own group: the leaf may have left the pool since
    /// the task was made, and the table's number may be another object's.
    pub fn leaf_zap(&mut self, leaf: Guid) -> Option<ObjectId> {
        self.leaf_mut(leaf)?.leaf_zap
    }

    /// The table of a top-level vdev; as of [`Self::leaf_zap`], a task must ask in its own group.
    pub fn top_zap(&self, top: Guid) -> Option<ObjectId> {
        let mut tops = self.config.vdev_tree.iter().flat_map(|tree| &tree.children);
        tops.find(|vdev| vdev.guid == top)?.top_zap
    }

    /// The vdev with this guid.
    pub fn vdev_mut(&mut self, guid: Guid) -> Option<&mut VdevConfig> {
        let mut stack: Vec<&mut VdevConfig> = self.config.vdev_tree.iter_mut().collect();
        while let Some(vdev) = stack.pop() {
            if vdev.guid == guid {
                return Some(vdev);
            }
            stack.extend(vdev.children.iter_mut());
        }
        None
    }

    /// Brings the list of features that must be known to read the metadata up to date.
    pub fn update_features(&mut self, dsl: &Dsl) {
        if self.config.features_for_read.is_none() {
            return;
        }
        let is_needed = |guid: &str| {
            let feature = features::by_guid(guid);
            dsl.features().is_active(guid) && feature.is_some_and(|f| f.needed_for_mos)
        };
        let all = dsl.features();
        let active = all.iter().map(|(guid, _)| guid.to_owned());
        let active: Vec<String> = active.filter(|guid| is_needed(guid)).collect();
        let mut old = self.config.features_for_read.clone().unwrap_or_default();
        old.sort();
        if old != active {
            self.config.features_for_read = Some(active);
            self.touch();
        }
    }

    /// What the copy in the meta object set is to be from `txg` on, if it is out of date.
    pub fn take_stale(&mut self, txg: Txg) -> Option<NvList> {
        if !std::mem::take(&mut self.is_mos_stale) {
            return None;
        }
        self.config.txg = Some(txg);
        Some(self.stored().encode(Place::Mos))
    }

    /// The labels of all leaves, with `txg`; `previous` is the state that the pool has until then.
    pub fn labels(&self, txg: Txg, previous: Previous) -> Vec<(Guid, NvList)> {
        let config = self.stored();
        let tops = config.vdev_tree.iter().flat_map(|tree| &tree.children);
        let tops = tops.filter(|top| top.kind.is_concrete());
        let mut labels = Vec::new();
        for top in tops {
            let leaves = top.leaves().filter(|leaf| leaf.is_leaf_device());
            labels.extend(leaves.map(|leaf| (leaf.guid, self.label(top, leaf, (txg, previous)))));
        }
        labels
    }

    fn label(
        &self,
        top: &VdevConfig,
        leaf: &VdevConfig,
        (txg, previous): (Txg, Previous),
    ) -> NvList {
        let tops = self.config.vdev_tree.iter().flat_map(|tree| &tree.children);
        let holes = tops.filter(|top| top.kind == VdevKind::Hole);
        let config = PoolConfig {
            txg: Some(txg),
            previous: Some(previous),
            logs_have_groups: true,
            rested_logs: self
                .rested_logs
                .iter()
                .map(|(leaf, txg)| (*leaf, *txg))
                .collect(),
            top_guid: Some(top.guid),
            guid: Some(leaf.guid),
            is_spare: leaf.is_spare,
            is_log: top.is_log,
            holes: holes.filter_map(|hole| hole.id).collect(),
            vdev_tree: Some(top.clone()),
            ..self.config.clone()
        };
        config.encode(Place::Label)
    }
}

/// Writes the copy in the meta object set.
pub(super) fn store(context: &SyncContext<'_>, list: &NvList) -> Result<(), SyncError> {
    let object = context.dsl.object_directory().object(keys::CONFIG)?;
    let object = store_packed(context, object, list)?;
    context.set_directory_number(keys::CONFIG, object.0)?;
    Ok(())
}

/// Stores a packed list in an object, which is made if there is none.
pub(crate) fn store_packed(
    context: &SyncContext<'_>,
    object: Option<ObjectId>,
    list: &NvList,
) -> Result<ObjectId, DslError> {
    let mut bytes = list.encode_xdr();
    let length = bytes.len() as u64;
    let padded = length.next_multiple_of(PACKED_BLOCK);
    bytes.resize(usize::try_from(padded).expect("lists are below 16 MiB"), 0);
    let bonus = length.to_le_bytes().to_vec();
    let object = match object {
        Some(object) => {
            let object = context.mos().object(object)?;
            object.set_bonus(context.tx, ObjectType::PACKED_NVLIST_SIZE, bonus)?;
            object
        }
        None => {
            let new = NewObject::new(ObjectType::PACKED_NVLIST, PACKED_BLOCK)
                .with_bonus(ObjectType::PACKED_NVLIST_SIZE, bonus);
            context.mos().allocate(context.tx, new)?
        }
    };
    object.write(context.tx, 0, &bytes)?;
    if object.dnode().block_id_max.0.saturating_mul(PACKED_BLOCK) >= padded {
        object.free_range(context.tx, padded, u64::MAX)?;
    }
    Ok(object.id())
}
