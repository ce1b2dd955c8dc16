//! Putting pools together from the labels of the devices found.
//!
//! Every label has its pool's name and guid, and the tree below its own top-level vdev. Labels may
//! be old: for each top-level vdev the newest is used, and pool-wide values come from the newest of
//! all (format/1 1.5). Vdevs that are in no label are *missing*. The tree made here only serves to
//! read the pool's own, trusted configuration. If devices do not belong together, [`choose`]
//! decides before which of them are used.

use crate::import::choose::{Known, choose};
use crate::import::label_tree::{assemble_tree, config_of, newest_config};
use crate::import::lineage::Moment;
use crate::import::outsider::{Outsider, Why};
use cenote_base::{Guid, Txg};
use cenote_device::Device;
use cenote_dsl::DatasetName;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::pool_config::{PoolConfig, PoolState};
use cenote_ondisk::uberblock::Uberblock;
use cenote_ondisk::vdev_config::VdevConfig;
use cenote_vdev::{DeviceLabels, Member, Scan};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A pool as its devices' labels describe it.
#[derive(Clone, Debug)]
pub struct PoolCandidate {
    /// The pool's guid.
    pub guid: Guid,
    /// What the pool is called.
    name: String,
    /// The newest label's configuration.
    pub config: PoolConfig,
    /// The root vdev as far as labels describe it.
    pub tree: VdevConfig,
    /// The devices that are opened as the pool: one for each guid, and all of one past.
    pub members: Vec<Arc<Member>>,
    /// The devices that say they belong to the pool as well, and are not opened.
    pub outsiders: Vec<Outsider>,
    /// These devices.
    rest: Vec<Arc<Member>>,
    /// Devices that say they are spares or cache devices, of this pool or others.
    pub auxiliary: Vec<Arc<Member>>,
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
        let all = members.clone();
        let (members, outsiders) = choose(guid, members);
        let rest = all.into_iter();
        let rest = rest.filter(|one| !members.iter().any(|other| Arc::ptr_eq(one, other)));
        let rest = rest.collect();
        let config = newest_config(&members)?.clone();
        let tree = assemble_tree(guid, &config, &members)?;
        Some(Self {
            guid,
            name: usable_name(&config, guid),
            config,
            tree,
            members,
            outsiders,
            rest,
            auxiliary,
        })
    }

    /// The devices that seem not to have the pool's past, by what labels say.
    pub(crate) fn parted(&self) -> Vec<Arc<Member>> {
        let is_parted = |member: &Arc<Member>| {
            let mut own = self.outsiders.iter();
            own.any(|outsider| outsider.is_of(member) && !outsider.is_copy())
        };
        self.rest
            .iter()
            .filter(|one| is_parted(one))
            .cloned()
            .collect()
    }

    /// The same with devices that turned out to be the pool's.
    pub(crate) fn with(&self, back: &[Known]) -> Option<Self> {
        let is_back =
            |member: &Arc<Member>| back.iter().any(|one| Arc::ptr_eq(&one.member, member));
        let mut next = self.clone();
        next.members
            .extend(back.iter().map(|one| Arc::clone(&one.member)));
        next.rest.retain(|member| !is_back(member));
        let taken = |outsider: &Outsider| back.iter().any(|one| outsider.is_of(&one.member));
        next.outsiders.retain(|outsider| !taken(outsider));
        next.config = newest_config(&next.members)?.clone();
        next.tree = assemble_tree(self.guid, &next.config, &next.members)?;
        Some(next)
    }

    /// The same with these devices and no others.
    pub(crate) fn only(&self, these: &[Known]) -> Self {
        let mut next = self.clone();
        next.members = these.iter().map(|one| Arc::clone(&one.member)).collect();
        next.auxiliary.clear();
        next
    }

    /// The other devices, to be opened if the newest state is unreadable for lack of data that no
    /// device with that state ever got. `None` if one of those should have all: then it is damage,
    /// and only the administrator may give up the newest state.
    pub(crate) fn next_best(&self, lost: Option<Txg>) -> Option<Self> {
        let known: Vec<Known> = self.members.iter().filter_map(Known::of).collect();
        let newest = known.iter().filter_map(|one| one.groups.iter().next_back());
        let (txg, state) = newest.max_by_key(|(txg, _)| **txg)?;
        let (newest, older): (Vec<_>, Vec<_>) = known
            .iter()
            .partition(|one| one.groups.get(txg) == Some(state));
        let rest: Vec<Known> = self.rest.iter().filter_map(Known::of).collect();
        if !newest
            .iter()
            .all(|one| one.may_lack(older.iter().copied(), lost))
        {
            return None;
        }
        // A copy of a device is never used in its place: it may be a backup.
        let is_copy = |one: &Known| newest.iter().any(|other| other.leaf == one.leaf);
        let left = older
            .iter()
            .copied()
            .chain(rest.iter().filter(|one| !is_copy(one)));
        let left = left.map(|one| Arc::clone(&one.member)).collect();
        let mut next = Self::new(self.guid, left, self.auxiliary.clone())?;
        let ours = next.members.iter().filter_map(Known::of);
        let ours = ours.filter_map(|one| Moment::last_of(&one.groups));
        let ours = ours.max_by_key(|moment| moment.txg);
        let outsiders = newest.iter().map(|one| one.outsider(Why::Incomplete, ours));
        next.outsiders.extend(outsiders);
        let copies = self.outsiders.iter().filter(|outsider| {
            let mut rest = rest.iter().filter(|one| is_copy(one));
            rest.any(|one| outsider.is_of(&one.member))
        });
        next.outsiders.extend(copies.cloned());
        Some(next)
    }

    /// The same without some of its devices, which turned out not to go with the others.
    pub(crate) fn without(&self, parted: &[Outsider]) -> Option<Self> {
        let is_out = |member: &Member| {
            let leaf = config_of(member).and_then(|config| config.guid);
            parted.iter().any(|outsider| Some(outsider.leaf) == leaf)
        };
        let mut members = self.members.clone();
        members.retain(|member| !is_out(member));
        let config = newest_config(&members)?.clone();
        let tree = assemble_tree(self.guid, &config, &members)?;
        let mut outsiders = self.outsiders.clone();
        outsiders.extend(parted.iter().cloned());
        Some(Self {
            guid: self.guid,
            name: self.name.clone(),
            config,
            tree,
            members,
            outsiders,
            rest: self.rest.clone(),
            auxiliary: self.auxiliary.clone(),
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

    /// Whether the labels on the device of that vdev still say what the search found there.
    /// Heartbeats, which repeat the last uberblock, are no change.
    pub(crate) fn is_as_found(&self, guid: Guid, device: &dyn Device) -> bool {
        let of_vdev = |labels: &DeviceLabels| {
            let config = labels.newest_config().and_then(|label| label.guid());
            config == Some(guid)
        };
        let mut members = self.members.iter().map(|member| &member.labels);
        let Some(found) = members.find(|labels| of_vdev(labels)) else {
            // No label names it: it was found by what else it says.
            return true;
        };
        let now = DeviceLabels::read(device).by_owner();
        let now = now.iter().find(|labels| of_vdev(labels));
        now.is_some_and(|now| newest(now) == newest(found))
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

/// The newest state that labels name: group, root of the meta object set, and configuration.
fn newest(labels: &DeviceLabels) -> (Option<(Txg, &BlockPointer)>, Option<Txg>) {
    let best = labels.best_uberblock(None).map(|found| &found.uberblock);
    let state = best.map(|uberblock| (uberblock.txg, &uberblock.root));
    (state, labels.newest_config().map(|label| label.txg()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_ondisk::nvlist::{NvList, NvValue};

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
