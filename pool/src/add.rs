//! Adding top-level vdevs to a pool that is in use.
//!
//! The new vdevs become part of the tree in the midst of a group, so that the group may already
//! write to them. The labels of all devices change with it, and until the uberblock is written
//! the old ones are in force, which know nothing of the new devices: so an addition is there as
//! a whole or not at all.

use crate::create::{
    CreateError, NewVdev, VdevZaps, devices_by_guid, distributed_spares, new_space, top,
};
use crate::mos::packed_list;
use crate::pool::Pool;
use crate::sync::{Actor, Syncer, store_packed};
use cenote_base::{Guid, VdevId};
use cenote_device::Device;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, directory_keys as keys};
use cenote_ondisk::config_encode::Place;
use cenote_ondisk::{NvList, NvValue, VdevConfig};
use cenote_vdev::{AllocationClass, OpenOptions, format_labels};
use std::collections::HashMap;
use std::sync::Arc;

/// Adds vdevs whose devices have blank labels.
struct AddVdevs {
    syncer: Arc<Syncer>,
    tops: Vec<(VdevConfig, AllocationClass)>,
    devices: HashMap<Guid, Arc<dyn Device>>,
    spares: Vec<VdevConfig>,
}

impl SyncTask for AddVdevs {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let zaps = VdevZaps::open(context)?;
        let mut config = self.syncer.config();
        let Some(mut root) = config.config.vdev_tree.clone() else {
            return Ok(());
        };
        for (top, class) in &mut self.tops {
            top.create_txg = context.txg();
            zaps.top(top, *class)?;
            root.children.push(top.clone());
        }
        let options = OpenOptions::default();
        let changed = self.syncer.vdevs.change(&root, &self.devices, &options);
        changed.map_err(|error| DslError::Format {
            reason: error.to_string(),
        })?;
        for (top, class) in &self.tops {
            let id = top.id.unwrap_or_default();
            self.syncer.vdevs.set_class(id, *class);
            let mut space = new_space(&self.syncer.vdevs, top, *class);
            space.top_zap = top.top_zap;
            self.syncer.space.add_top(space);
        }
        let vdevs = &self.syncer.vdevs;
        let ratio = |id: u64| Some((id, vdevs.deflate_ratio(VdevId(id))?));
        let ratios = (0..root.children.len() as u64).filter_map(ratio);
        self.syncer.dsl.set_deflate_ratios(ratios.collect());
        config.config.vdev_children = Some(root.children.len() as u64);
        config.config.vdev_tree = Some(root);
        config.touch();
        drop(config);
        add_spares(context, &self.spares)
    }
}

/// Appends to the list of spares.
fn add_spares(context: &SyncContext<'_>, spares: &[VdevConfig]) -> Result<(), DslError> {
    if spares.is_empty() {
        return Ok(());
    }
    let found = context.dsl.object_directory().object(keys::SPARES)?;
    let mut lists: Vec<NvList> = Vec::new();
    if let Some(object) = found {
        let list = packed_list(context.mos(), object)?;
        lists.extend_from_slice(list.get_list_array(keys::SPARES).unwrap_or_default());
    }
    lists.extend(spares.iter().map(|spare| spare.encode(Place::Mos)));
    let mut list = NvList::new();
    list.set(keys::SPARES, NvValue::ListArray(lists));
    let object = store_packed(context, found, &list)?;
    context.set_directory_number(keys::SPARES, object.0)
}

impl Pool {
    /// Adds top-level vdevs. The contents of their devices are lost.
    ///
    /// # Errors
    /// If the layout is impossible, a device cannot be written, or the pool takes no changes.
    pub fn add(
        &self,
        new: &[NewVdev],
        ashift: Option<u32>,
        actor: &Actor,
        command: &str,
    ) -> Result<(), CreateError> {
        let syncer = Arc::clone(self.writer()?);
        let first = {
            let config = syncer.config();
            let tree = config.config.vdev_tree.as_ref();
            tree.map_or(0, |tree| tree.children.len() as u64)
        };
        let env = self.env().as_ref();
        let txg = syncer.gate.open_txg();
        let mut tops = Vec::new();
        for (index, vdev) in new.iter().enumerate() {
            let id = VdevId(first + index as u64);
            tops.push(top(vdev, id, ashift, env, txg)?);
        }
        let devices = devices_by_guid(&tops, new);
        for (_, device) in &devices {
            format_labels(device.as_ref(), None)?;
        }
        let mut spares = Vec::new();
        for top in &tops {
            spares.extend(distributed_spares(top, env, txg)?);
        }
        let classes = new.iter().map(|vdev| vdev.class);
        let task = AddVdevs {
            syncer: Arc::clone(&syncer),
            tops: tops.into_iter().zip(classes).collect(),
            devices: devices.into_iter().collect(),
            spares,
        };
        self.run_command(task, actor, command)?;
        self.renew_config();
        Ok(())
    }
}
