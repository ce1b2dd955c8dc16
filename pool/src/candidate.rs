//! Putting pools together from the labels of the devices found.
//!
//! Every label holds its pool's name and guid and the tree below its own top-level vdev. Labels
//! may be old: for each top-level vdev the newest wins, and pool-wide values come from the newest
//! of all (format/1 1.5). What no label tells of is *missing*. The tree made here only serves to
//! read the pool's own, trusted configuration.

use cenote_base::{Guid, Txg, VdevId};
use cenote_device::Device;
use cenote_dsl::DatasetName;
use cenote_ondisk::nvlist::{NvList, NvValue};
use cenote_ondisk::pool_config::{PoolConfig, PoolState};
use cenote_ondisk::uberblock::Uberblock;
use cenote_ondisk::vdev_config::{VDEVS_MAX, VdevConfig, VdevKind};
use cenote_vdev::{Label, Member, Scan};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// A pool as its devices' labels describe it.
#[derive(Debug)]
pub struct PoolCandidate {
    /// The pool's guid.
    pub guid: Guid,
    /// What the pool is called.
    name: String,
    /// The newest label's configuration.
    pub config: PoolConfig,
    /// The root vdev as far as labels tell.
    pub tree: VdevConfig,
    /// The devices that say they belong to the pool.
    pub members: Vec<Arc<Member>>,
    /// Devices that say they are spares or cache devices, of this pool or others.
    pub auxiliary: Vec<Arc<Member>>,
}

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

fn config_of(member: &Member) -> Option<&PoolConfig> {
    speaking_label(member)?.config.as_ref()
}

/// Groups devices into pools, in the order in which the pools were found.
pub fn assemble(scan: Scan) -> Vec<PoolCandidate> {
    let mut order = Vec::new();
    let mut groups: HashMap<Guid, Vec<Arc<Member>>> = HashMap::new();
    let mut auxiliary = Vec::new();
    for member in scan.members.into_iter().map(Arc::new) {
        let Some(config) = config_of(&member) else {
            continue;
        };
        match (config.state, config.pool_guid) {
            (PoolState::Spare | PoolState::CacheDevice, _) => auxiliary.push(member),
            (_, Some(guid)) => {
                let group = groups.entry(guid).or_default();
                if group.is_empty() {
                    order.push(guid);
                }
                group.push(member);
            }
            (_, None) => {}
        }
    }
    let make = |guid| {
        let members = groups
            .remove(&guid)
            .expect("each guid in the order has a group");
        PoolCandidate::new(guid, members, auxiliary.clone())
    };
    order.into_iter().filter_map(make).collect()
}

impl PoolCandidate {
    fn new(guid: Guid, members: Vec<Arc<Member>>, auxiliary: Vec<Arc<Member>>) -> Option<Self> {
        let txg = |config: &PoolConfig| config.txg.unwrap_or(Txg(0));
        let configs = members.iter().filter_map(|member| config_of(member));
        let config = configs.max_by_key(|config| txg(config))?.clone();
        let tree = assemble_tree(guid, &config, &members)?;
        Some(Self {
            guid,
            name: usable_name(&config, guid),
            config,
            tree,
            members,
            auxiliary,
        })
    }

    /// The pool's name as its label has it, or `pool-GUID` if no pool can have that name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The open device of each vdev found, by the vdev's guid.
    ///
    /// A device found by two names counts once.
    pub fn devices(&self) -> HashMap<Guid, Arc<dyn Device>> {
        let mut devices: HashMap<Guid, Arc<dyn Device>> = HashMap::new();
        for member in self.members.iter().chain(&self.auxiliary) {
            if let Some(guid) = config_of(member).and_then(|config| config.guid) {
                devices
                    .entry(guid)
                    .or_insert_with(|| Arc::clone(&member.candidate.device));
            }
        }
        devices
    }

    /// Where each vdev was found, by the vdev's guid.
    pub fn paths(&self) -> HashMap<Guid, PathBuf> {
        let mut paths = HashMap::new();
        for member in self.members.iter().chain(&self.auxiliary) {
            if let Some(guid) = config_of(member).and_then(|config| config.guid) {
                paths
                    .entry(guid)
                    .or_insert_with(|| member.candidate.path.clone());
            }
        }
        paths
    }

    /// All uberblocks of all devices, best first, each txg and timestamp once.
    pub fn uberblocks(&self) -> Vec<Uberblock> {
        let found = self
            .members
            .iter()
            .flat_map(|member| &member.labels.uberblocks);
        let mut uberblocks: Vec<Uberblock> = found.map(|found| found.uberblock.clone()).collect();
        uberblocks.retain(|uberblock| uberblock.txg.0 != 0);
        uberblocks.sort_by_key(|uberblock| std::cmp::Reverse(uberblock.rank()));
        uberblocks.dedup_by_key(|uberblock| uberblock.rank());
        uberblocks
    }
}

/// The name in `config`, or one made of the guid.
///
/// A damaged name is no reason to give up on a pool, but no user should have to type it, and no
/// terminal to print it.
fn usable_name(config: &PoolConfig, guid: Guid) -> String {
    let is_usable = |name: &&str| {
        let parsed = DatasetName::parse(name);
        parsed.is_ok_and(|name| name.pool() == name.as_str())
    };
    match config.name.as_deref().filter(is_usable) {
        Some(name) => name.to_owned(),
        None => format!("pool-{}", guid.0),
    }
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
fn assemble_tree(guid: Guid, newest: &PoolConfig, members: &[Arc<Member>]) -> Option<VdevConfig> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the zoo: a pool whose configuration had a NUL in its name was imported under it.
    #[test]
    fn names_that_no_pool_can_have_are_replaced() {
        let name = |text: &str| {
            let mut list = NvList::new();
            list.set_u64("state", 0);
            list.set("name", NvValue::String(text.as_bytes().to_vec()));
            let config = PoolConfig::decode(&list).expect("nothing else is needed");
            usable_name(&config, Guid(7))
        };
        assert_eq!(name("tank 2:a"), "tank 2:a");
        for bad in ["", "gold\0", "\u{1b}[2J", "a/b", "a@b", &"x".repeat(300)] {
            assert_eq!(name(bad), "pool-7", "{bad:?}");
        }
    }
}
