//! From the devices of a new pool, or of new vdevs, to their configuration.

use super::{CreateError, NewLeaf, NewVdev, VdevShape};
use crate::pool::FoundDevice;
use cenote_base::{Env, Guid, Txg, VdevId};
use cenote_device::{Device, DeviceKind};
use cenote_ondisk::vdev_config::{DraidConfig, LeafState};
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_vdev::AllocationClass;
use cenote_vdev::create::{
    NewLayout, draid_groups, leaf_asize, metaslab_shift, natural_ashift, top_asize,
};
use std::path::PathBuf;
use std::sync::Arc;

/// A random number that is not 0.
pub(crate) fn random_guid(env: &dyn Env) -> Result<Guid, CreateError> {
    let mut bytes = [0; 8];
    loop {
        env.fill_random(&mut bytes)
            .map_err(CreateError::Randomness)?;
        match u64::from_le_bytes(bytes) {
            0 => {}
            guid => return Ok(Guid(guid)),
        }
    }
}

/// A vdev of `kind` with nothing said about it.
pub(crate) fn blank(kind: VdevKind, guid: Guid, txg: Txg) -> VdevConfig {
    VdevConfig {
        kind,
        id: None,
        guid,
        path: None,
        devid: None,
        physical_path: None,
        whole_disk: None,
        parity: 0,
        draid: None,
        raidz_expanding: false,
        raidz_expand_txgs: Vec::new(),
        ashift: None,
        asize: 0,
        metaslab_array: None,
        metaslab_shift: 0,
        is_log: false,
        is_spare: false,
        non_allocating: false,
        removing: false,
        indirect_object: None,
        indirect_births: None,
        previous_indirect: None,
        dtl: None,
        create_txg: txg,
        resilver_txg: None,
        rebuild_txg: None,
        state: LeafState::default(),
        leaf_zap: None,
        top_zap: None,
        root_zap: None,
        distributed_spare: None,
        original_guid: None,
        children: Vec::new(),
    }
}

/// The configuration of a device.
pub(crate) fn leaf(leaf: &NewLeaf, env: &dyn Env, txg: Txg) -> Result<VdevConfig, CreateError> {
    let is_file = leaf.device.nature().kind != DeviceKind::Block;
    let kind = if is_file {
        VdevKind::File
    } else {
        VdevKind::Disk
    };
    let mut config = blank(kind, random_guid(env)?, txg);
    config.path = Some(leaf.path.clone());
    config.whole_disk = (!is_file).then_some(leaf.whole_disk);
    Ok(config)
}

/// The configuration of a top-level vdev with position `id`.
pub(crate) fn top(
    new: &NewVdev,
    id: VdevId,
    ashift: Option<u32>,
    env: &dyn Env,
    txg: Txg,
) -> Result<VdevConfig, CreateError> {
    let devices: Vec<&dyn Device> = new.leaves.iter().map(|l| l.device.as_ref()).collect();
    let count = devices.len();
    let mut smallest = u64::MAX;
    for leaf in &new.leaves {
        let asize = leaf_asize(leaf.device.size());
        let path = leaf.path.clone();
        smallest = smallest.min(asize.ok_or(CreateError::TooSmall { path })?);
    }
    let ashift = ashift.unwrap_or_else(|| natural_ashift(devices.iter().copied()));
    let (layout, kind, parity, draid) = shape(new, count)?;
    let no_layout = CreateError::NoLayout { children: count };
    let asize = top_asize(layout, smallest, ashift).ok_or(no_layout)?;
    let mut children = Vec::with_capacity(count);
    for (index, new) in new.leaves.iter().enumerate() {
        let mut child = leaf(new, env, txg)?;
        child.id = Some(VdevId(index as u64));
        children.push(child);
    }
    let mut config = match kind {
        Some(kind) => {
            let mut config = blank(kind, random_guid(env)?, txg);
            config.children = children;
            config
        }
        None => children
            .pop()
            .ok_or(CreateError::NoLayout { children: 0 })?,
    };
    config.id = Some(id);
    config.parity = parity;
    config.draid = draid;
    config.ashift = Some(ashift);
    config.asize = asize;
    config.metaslab_shift = metaslab_shift(asize);
    config.is_log = new.class == AllocationClass::Log;
    Ok(config)
}

/// How the children lie in a vdev; `None` as its kind if the only child is the vdev.
type Shape = (NewLayout, Option<VdevKind>, u64, Option<DraidConfig>);

fn shape(new: &NewVdev, children: usize) -> Result<Shape, CreateError> {
    let no_layout = || CreateError::NoLayout { children };
    Ok(match new.shape {
        VdevShape::Single if children == 1 => (NewLayout::Mirror, None, 0, None),
        VdevShape::Mirror if children >= 2 => (NewLayout::Mirror, Some(VdevKind::Mirror), 0, None),
        VdevShape::Raidz { parity } if children as u64 > parity => {
            let layout = NewLayout::Raidz { children, parity };
            (layout, Some(VdevKind::Raidz), parity, None)
        }
        VdevShape::Draid {
            parity,
            data,
            spares,
        } => {
            let groups = draid_groups(children, parity, data, spares).ok_or_else(no_layout)?;
            let layout = NewLayout::Draid {
                children,
                parity,
                data,
                spares,
            };
            let draid = DraidConfig {
                data,
                spares,
                groups,
                failure_domain_children: None,
            };
            (layout, Some(VdevKind::Draid), parity, Some(draid))
        }
        _ => return Err(no_layout()),
    })
}

/// The name of a distributed spare of the draid vdev `id`.
pub(crate) fn distributed_spare_path(parity: u64, id: VdevId, index: u64) -> PathBuf {
    format!("draid{parity}-{id}-{index}").into()
}

/// The distributed spares of a draid vdev, as they are in the list of spares.
pub(crate) fn distributed_spares(
    top: &VdevConfig,
    env: &dyn Env,
    txg: Txg,
) -> Result<Vec<VdevConfig>, CreateError> {
    let spares = top.draid.map_or(0, |draid| draid.spares);
    let id = top.id.unwrap_or_default();
    let spare = |index: u64| {
        let mut config = blank(VdevKind::DistributedSpare, random_guid(env)?, txg);
        config.path = Some(distributed_spare_path(top.parity, id, index));
        config.distributed_spare = Some((top.guid, index));
        config.whole_disk = Some(true);
        config.is_spare = true;
        config.ashift = top.ashift;
        Ok(config)
    };
    (0..spares).map(spare).collect()
}

/// The devices of all leaves, by the guids that their vdevs got.
pub(crate) fn devices_by_guid(
    tops: &[VdevConfig],
    new: &[NewVdev],
) -> Vec<(Guid, Arc<dyn Device>)> {
    let pairs = tops.iter().zip(new).flat_map(|(top, new)| {
        let guids = top.leaves().map(|leaf| leaf.guid);
        let devices = new.leaves.iter().map(|leaf| Arc::clone(&leaf.device));
        guids.zip(devices).collect::<Vec<_>>()
    });
    pairs.collect()
}

/// What to remember of new devices, by the guids that their vdevs got.
pub(crate) fn found<'a>(
    configs: impl IntoIterator<Item = &'a VdevConfig>,
    new: impl IntoIterator<Item = &'a NewLeaf>,
) -> Vec<(Guid, FoundDevice)> {
    let pairs = configs.into_iter().zip(new);
    let found = pairs.map(|(config, new)| {
        let (path, size) = (new.path.clone(), new.device.size());
        (config.guid, FoundDevice::new(path, size))
    });
    found.collect()
}
