//! Adding top-level vdevs to a pool that is in use.
//!
//! The new vdevs are added to the tree within a group, so that the group may already write to them.
//! The labels of all devices change with it. Until the uberblock is written the old ones are valid,
//! without the new devices: so an addition is complete or did not happen. New vdevs get numbers
//! after all others. The holes of removed logs stay, as in OpenZFS.

use crate::create::{
    CreateError, NewLeaf, NewVdev, VdevShape, VdevZaps, add_auxiliary, auxiliary, devices_by_guid,
    distributed_spare_path, distributed_spares, found, new_space, top,
};
use crate::pool::Pool;
use crate::sync::{Actor, Syncer};
use cenote_base::{Guid, VdevId};
use cenote_device::Device;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, directory_keys as keys};
use cenote_ondisk::features;
use cenote_ondisk::features::by_guid;
use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_vdev::{AllocationClass, format_labels};
use std::collections::HashMap;
use std::sync::Arc;

/// Adds vdevs whose devices have blank labels.
struct AddVdevs {
    syncer: Arc<Syncer>,
    tops: Vec<(VdevConfig, AllocationClass)>,
    devices: HashMap<Guid, Arc<dyn Device>>,
    spares: Vec<VdevConfig>,
    cache_devices: Vec<VdevConfig>,
}

impl SyncTask for AddVdevs {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let zaps = VdevZaps::open(context)?;
        let root = self.syncer.config().config.vdev_tree.clone();
        let Some(mut root) = root else {
            return Ok(());
        };
        for (top, class) in &mut self.tops {
            place(top, &mut self.spares, &root);
            top.create_txg = context.txg();
            zaps.top(top, *class)?;
            root.children.push(top.clone());
        }
        let changed = self.syncer.vdevs.change(&root, &self.devices);
        changed.map_err(|error| DslError::Format {
            reason: error.to_string(),
        })?;
        let vdevs = self.syncer.vdevs.shape();
        for (top, class) in &self.tops {
            let id = top.id.unwrap_or_default();
            vdevs.set_class(id, *class);
            let mut space = new_space(&vdevs, top, *class);
            space.top_zap = top.top_zap;
            self.syncer.space.add_top(space);
        }
        let ratio = |id: u64| Some((id, vdevs.deflate_ratio(VdevId(id))?));
        let ratios = (0..root.children.len() as u64).filter_map(ratio);
        self.syncer.dsl.set_deflate_ratios(ratios.collect());
        let mut config = self.syncer.config();
        config.config.vdev_children = Some(root.children.len() as u64);
        config.config.vdev_tree = Some(root);
        config.touch();
        drop(config);
        add_auxiliary(context, keys::SPARES, &self.spares)?;
        add_auxiliary(context, keys::CACHE_DEVICES, &self.cache_devices)
    }
}

/// Gives a new top-level vdev its id below `root`, and its distributed spares their names.
fn place(top: &mut VdevConfig, spares: &mut [VdevConfig], root: &VdevConfig) {
    let id = VdevId(root.children.len() as u64);
    top.id = Some(id);
    for spare in spares {
        if let Some((guid, index)) = spare.distributed_spare
            && guid == top.guid
        {
            spare.path = Some(distributed_spare_path(top.parity, id, index));
        }
    }
}

/// What is to be added to a pool.
#[derive(Clone, Debug, Default)]
pub struct AddRequest {
    /// Top-level vdevs.
    pub vdevs: Vec<NewVdev>,
    /// Hot spares.
    pub spares: Vec<NewLeaf>,
    /// Cache devices.
    pub cache_devices: Vec<NewLeaf>,
    /// log2 of the allocation unit; `None` to choose by the devices.
    pub ashift: Option<u32>,
    /// Whether a pool whose data vdevs all have the same allocation unit may get others.
    pub is_mixed: bool,
}

/// The allocation unit of all vdevs of a pool that hold data, as log2, if they share one.
fn ashift_of_all(root: &VdevConfig) -> Option<u32> {
    let holds_data = |top: &&VdevConfig| {
        let is_gone = matches!(
            top.kind,
            VdevKind::Indirect | VdevKind::Hole | VdevKind::Missing
        );
        !top.is_log && !is_gone
    };
    let mut shifts = root
        .children
        .iter()
        .filter(holds_data)
        .filter_map(|top| top.ashift);
    let first = shifts.next()?;
    shifts.all(|shift| shift == first).then_some(first)
}

/// The features that vdevs need, which the pool must have.
fn features_needed(request: &AddRequest) -> Vec<&'static str> {
    let mut needed = Vec::new();
    for vdev in &request.vdevs {
        if matches!(
            vdev.class,
            AllocationClass::Special | AllocationClass::Dedup
        ) {
            needed.push(features::ALLOCATION_CLASSES);
        }
        if matches!(vdev.shape, VdevShape::Draid { .. }) {
            needed.push(features::DRAID);
        }
    }
    needed
}

impl Pool {
    /// Adds vdevs. The contents of their devices are lost.
    ///
    /// # Errors
    /// If the layout is impossible, a device cannot be written, or the pool takes no changes.
    pub fn add(
        &self,
        request: &AddRequest,
        actor: &Actor,
        command: &str,
    ) -> Result<(), CreateError> {
        let syncer = Arc::clone(self.writer()?);
        for guid in features_needed(request) {
            if syncer.dsl.features().get(guid).is_none() {
                let feature = by_guid(guid).map_or(guid, |feature| feature.name);
                let feature = feature.to_owned();
                return Err(DslError::FeatureDisabled { feature }.into());
            }
        }
        let env = self.env().as_ref();
        let txg = syncer.gate.open_txg();
        let mut tops = Vec::new();
        for vdev in &request.vdevs {
            // Which place is free is known when it is put there.
            tops.push(top(vdev, VdevId(0), request.ashift, env, txg)?);
        }
        let shift = ashift_of_all(&self.vdev_tree()).filter(|_| !request.is_mixed);
        // Logs are written and freed whole, and can be removed whatever their unit is.
        let mut data = tops.iter().filter(|top| !top.is_log);
        if shift.is_some() && data.any(|top| top.ashift != shift) {
            return Err(CreateError::AshiftMismatch);
        }
        let devices = devices_by_guid(&tops, &request.vdevs);
        for (_, device) in &devices {
            format_labels(device.as_ref(), None)?;
        }
        let version = self.dsl().version();
        let listed = self.dsl().auxiliary_vdevs(keys::SPARES)?;
        let mut listed: Vec<Guid> = listed.iter().map(|spare| spare.guid).collect();
        let mut auxiliaries = |new: &[NewLeaf], state| {
            let new = new.iter();
            let configs = new.map(|new| auxiliary(new, (state, version), env, &mut listed));
            configs.collect::<Result<Vec<_>, _>>()
        };
        let mut spares = auxiliaries(&request.spares, PoolState::Spare)?;
        let cache_devices = auxiliaries(&request.cache_devices, PoolState::CacheDevice)?;
        let leaves = request.vdevs.iter().flat_map(|vdev| &vdev.leaves);
        let mut known = found(tops.iter().flat_map(VdevConfig::leaves), leaves);
        known.extend(found(&spares, &request.spares));
        known.extend(found(&cache_devices, &request.cache_devices));
        for top in &tops {
            spares.extend(distributed_spares(top, env, txg)?);
        }
        let classes = request.vdevs.iter().map(|vdev| vdev.class);
        let task = AddVdevs {
            syncer: Arc::clone(&syncer),
            tops: tops.into_iter().zip(classes).collect(),
            devices: devices.into_iter().collect(),
            spares,
            cache_devices,
        };
        self.run_command(task, actor, command)?;
        self.renew_config();
        self.note_devices(known);
        Ok(())
    }
}
