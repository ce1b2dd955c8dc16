//! The space of a pool that exists: metaslabs from their maps, changes since from the logs.

use super::{Metaslab, Space, TopSpace};
use crate::space::{self, Metaslabs};
use cenote_base::{ObjectId, Txg, VdevId};
use cenote_dmu::{DmuError, IoContext, ObjectSet};
use cenote_ondisk::space_map::{Action, LOG_SHIFT, SpaceMapHeader};
use cenote_ondisk::vdev_zap;
use cenote_ondisk::{DecodeError, VdevConfig, VdevKind};
use cenote_vdev::{Shape, Vdevs};
use std::collections::BTreeMap;
use std::sync::Arc;

const NO_MAP: DecodeError = DecodeError::Inconsistent {
    structure: "metaslab array",
    problem: "a metaslab that logs tell of has no space map",
};
const DAMAGED: DecodeError = DecodeError::Inconsistent {
    structure: "log of space maps",
    problem: "space is allocated or freed twice",
};

/// The space of the vdevs below `root`, as `mos` describes it.
///
/// # Errors
/// If maps or logs cannot be read or contradict each other.
pub(crate) fn load(
    mos: &Arc<ObjectSet>,
    vdevs: &Arc<Vdevs>,
    root: &VdevConfig,
) -> Result<Space, DmuError> {
    let checkpoint = space::checkpoint_bytes(mos, Some(root))?;
    let mut tops: Vec<Option<TopSpace>> = Vec::new();
    for config in &root.children {
        let id = config.id.unwrap_or_default();
        let mut top = load_top(mos, &vdevs.shape(), config)?;
        if let Some(top) = &mut top {
            top.checkpoint_bytes = checkpoint.get(&id).copied().unwrap_or(0);
        }
        tops.push(top);
    }
    for (txg, log) in space::logs(mos)? {
        apply_log(mos, &mut tops, txg, log)?;
    }
    // Allocations read the maps while a group is written.
    let mos = mos.for_io(&IoContext::SYNCING);
    Ok(Space::new(Arc::clone(vdevs), tops, Some(mos)))
}

fn load_top(
    mos: &Arc<ObjectSet>,
    vdevs: &Shape,
    config: &VdevConfig,
) -> Result<Option<TopSpace>, DmuError> {
    let id = config.id.unwrap_or_default();
    let Some(ashift) = config.ashift.filter(|_| config.kind.is_concrete()) else {
        return Ok(None);
    };
    if config.metaslab_shift == 0 {
        return Ok(None);
    }
    let found = match config.metaslab_array {
        Some(_) => space::metaslabs(mos, vdevs, config)?,
        None => None,
    };
    let metaslabs = match &found {
        Some(found) => load_metaslabs(mos, vdevs, found)?,
        None => {
            let count = config.asize >> config.metaslab_shift;
            let ranges = (0..count).filter_map(|index| vdevs.metaslab(id, index));
            let ranges = ranges.map(|(start, length)| start..start + length);
            ranges.map(|range| Metaslab::new(range, None)).collect()
        }
    };
    let class = vdevs.class(id).unwrap_or_default();
    let mut top = TopSpace::new(id, class, ashift, config.metaslab_shift, metaslabs);
    top.is_closed = config.non_allocating || config.removing;
    top.width = match config.kind {
        VdevKind::Raidz | VdevKind::Draid => config.children.len() as u64,
        _ => 1,
    };
    top.array = config.metaslab_array;
    top.top_zap = config.top_zap;
    if let Some(zap) = config.top_zap {
        top.unflushed = mos
            .zap(zap)?
            .lookup_u64(vdev_zap::top::UNFLUSHED_TXGS)?
            .map(ObjectId);
    }
    Ok(Some(top))
}

fn load_metaslabs(
    mos: &Arc<ObjectSet>,
    vdevs: &Shape,
    found: &Metaslabs,
) -> Result<Vec<Metaslab>, DmuError> {
    let mut metaslabs = Vec::with_capacity(found.maps.len());
    for (index, map) in found.maps.iter().enumerate() {
        let place = vdevs.metaslab(found.vdev, index as u64);
        let (start, length) = place.unwrap_or((found.starts[index], 1 << found.shift));
        let map = match map {
            Some(map) => {
                let object = mos.object(*map)?;
                let header = SpaceMapHeader::decode(&object.dnode().bonus);
                Some((*map, header.map_err(|source| object.malformed(source))?))
            }
            None => None,
        };
        let unflushed = found.unflushed.get(index).copied().unwrap_or(0);
        if unflushed != 0 && map.is_none() {
            // Its space would count as free but for what the logs say.
            return Err(mos.object(found.array)?.malformed(NO_MAP));
        }
        let mut metaslab = Metaslab::new(start..start + length, map);
        metaslab.unflushed_txg = Txg(unflushed);
        metaslabs.push(metaslab);
    }
    Ok(metaslabs)
}

/// Applies a log to the metaslabs whose maps do not have its changes (format/1d.4).
fn apply_log(
    mos: &Arc<ObjectSet>,
    tops: &mut [Option<TopSpace>],
    txg: Txg,
    log: ObjectId,
) -> Result<(), DmuError> {
    let object = mos.object(log)?;
    let mut is_damaged = false;
    space::for_each_entry(&object, 0, LOG_SHIFT, |entry| {
        let VdevId(vdev) = entry.vdev;
        let top = usize::try_from(vdev)
            .ok()
            .and_then(|vdev| tops.get_mut(vdev));
        let Some(Some(top)) = top else { return };
        let range = entry.offset..entry.offset.saturating_add(entry.length);
        let Ok(index) = top.index_of(&range) else {
            is_damaged = true;
            return;
        };
        let metaslab = &mut top.metaslabs[index];
        if txg < metaslab.unflushed_txg {
            return;
        }
        let applied = match entry.action {
            Action::Alloc => metaslab.delta.allocate(range),
            Action::Free => metaslab.delta.free(range),
        };
        is_damaged |= applied.is_err();
    })?;
    match is_damaged {
        true => Err(object.malformed(DAMAGED)),
        false => Ok(()),
    }
}

/// The logs of space maps that a pool has.
pub(crate) fn logs(mos: &Arc<ObjectSet>) -> Result<BTreeMap<Txg, ObjectId>, DmuError> {
    space::logs(mos)
}
