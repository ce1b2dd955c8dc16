//! What labels say: of the device that they are on, and together of a pool's vdevs.

use cenote_base::{Guid, Txg, VdevId};
use cenote_ondisk::nvlist::{NvList, NvValue};
use cenote_ondisk::pool_config::PoolConfig;
use cenote_ondisk::vdev_config::{VDEVS_MAX, VdevConfig, VdevKind};
use cenote_vdev::{Label, Member};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The label that speaks for a device: the newest valid one, or the newest that can be read.
pub(crate) fn speaking_label(member: &Member) -> Option<&Label> {
    let readable = || {
        member
            .labels
            .labels
            .iter()
            .filter(|label| label.config.is_some())
    };
    let newest = |valid: bool| {
        readable()
            .filter(|label| label.is_valid() || !valid)
            .max_by_key(|label| label.txg())
    };
    newest(true).or_else(|| newest(false))
}

pub(crate) fn config_of(member: &Member) -> Option<&PoolConfig> {
    speaking_label(member)?.config.as_ref()
}

/// The newest of the configurations that the devices have.
pub(crate) fn newest_config(members: &[Arc<Member>]) -> Option<&PoolConfig> {
    let configs = members.iter().filter_map(|member| config_of(member));
    configs.max_by_key(|config| config.txg.unwrap_or_default())
}

/// A vdev without anything but its kind and place.
fn placeholder(kind: &VdevKind, id: u64, guid: Guid) -> Option<VdevConfig> {
    let mut list = NvList::new();
    list.set("type", NvValue::String(kind.name().as_bytes().to_vec()));
    list.set_u64("id", id);
    list.set_u64("guid", guid.0);
    VdevConfig::decode(&list).ok()
}

/// The root vdev with a child for every top-level position, known or not.
pub(crate) fn assemble_tree(
    guid: Guid,
    newest: &PoolConfig,
    members: &[Arc<Member>],
) -> Option<VdevConfig> {
    let mut tops: BTreeMap<u64, (Txg, &VdevConfig)> = BTreeMap::new();
    for config in members.iter().filter_map(|member| config_of(member)) {
        let Some(top) = &config.vdev_tree else {
            continue;
        };
        let txg = config.txg.unwrap_or(Txg(0));
        let id = top.id.unwrap_or(VdevId(0)).0;
        let entry = tops.entry(id).or_insert((txg, top));
        if txg > entry.0 {
            *entry = (txg, top);
        }
    }
    let known = tops.keys().next_back().map_or(0, |id| id.saturating_add(1));
    let count = newest.vdev_children.unwrap_or(known).max(known);
    if count > VDEVS_MAX as u64 {
        return None;
    }
    let mut root = placeholder(&VdevKind::Root, 0, guid)?;
    for id in 0..count {
        let child = match tops.get(&id) {
            Some((_, top)) => (*top).clone(),
            None if newest.holes.contains(&VdevId(id)) => {
                placeholder(&VdevKind::Hole, id, Guid(0))?
            }
            None => placeholder(&VdevKind::Missing, id, Guid(0))?,
        };
        root.children.push(child);
    }
    Some(root)
}

/// Whether enough leaves are there below `top` to read all of it.
pub(crate) fn is_readable(top: &VdevConfig, is_there: impl Fn(Guid) -> bool) -> bool {
    match top.kind {
        VdevKind::Hole | VdevKind::Indirect => return true,
        VdevKind::Missing => return false,
        _ => {}
    }
    // Bottom up over the tree, children before parents, without recursion.
    let order: Vec<&VdevConfig> = top.walk().collect();
    let mut readable: HashMap<*const VdevConfig, bool> = HashMap::new();
    for vdev in order.iter().rev() {
        let lost = vdev
            .children
            .iter()
            .filter(|c| !readable[&std::ptr::from_ref(*c)])
            .count();
        let good = match vdev.kind {
            _ if vdev.children.is_empty() => {
                is_there(vdev.guid) || vdev.kind == VdevKind::DistributedSpare
            }
            VdevKind::Raidz | VdevKind::Draid => lost as u64 <= vdev.parity,
            _ => lost < vdev.children.len(),
        };
        readable.insert(std::ptr::from_ref(*vdev), good);
    }
    readable[&std::ptr::from_ref(top)]
}
