//! Devices that come back: finding them, and deciding how much of their data is valid.
//!
//! A device is searched for at its last path, at its configured path, and next to these. It is used
//! if its newest state is one that the pool had ([`crate::import::lineage`]). If several devices
//! have the guid, the one with the newest state is used. The device counts as missing everything
//! written after that state, whatever its log says: it may be an older copy. A copy of a device in
//! use mixes several moments. Its four labels are at both ends of it, and the oldest one counts.

use crate::absence::clear::ClearError;
use crate::import::choose::Known;
use crate::import::label_tree::config_of;
use crate::import::lineage::{Moment, Parted, groups_of};
use crate::import::outsider::{Outsider, Why};
use crate::pool::{FoundDevice, Pool};
use cenote_base::{Guid, Txg};
use cenote_device::{Device, DeviceError};
use cenote_ondisk::VdevConfig;
use cenote_vdev::{DeviceLabels, TxgSet, scan};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device that came back.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The device, open for writing.
    pub device: Arc<dyn Device>,
    /// What it missed beside what its log says.
    pub(crate) missed: TxgSet,
}

/// What a search for devices came to.
#[derive(Debug, Default)]
pub struct LookedFor {
    /// Those that are there.
    pub devices: HashMap<Guid, Returned>,
    /// Devices that are there and are not used.
    pub outsiders: Vec<Outsider>,
}

/// Whether the opener knows a device by a URL.
fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.contains("://"))
}

/// The leaf and its top-level vdev.
fn place_of(root: &VdevConfig, guid: Guid) -> Option<(&VdevConfig, &VdevConfig)> {
    root.children.iter().find_map(|top| {
        let leaf = top.leaves().find(|leaf| leaf.guid == guid)?;
        Some((leaf, top))
    })
}

impl Pool {
    /// Opens for writing what is there of the devices of some leaves that are not open.
    ///
    /// # Errors
    /// If a device is there and cannot be opened.
    pub fn look_for(&self, mut leaves: Vec<Guid>) -> Result<LookedFor, ClearError> {
        let mut looked = LookedFor::default();
        let shape = self.vdevs();
        leaves.retain(|leaf| {
            !shape
                .faults_of(*leaf)
                .is_some_and(|faults| faults.is_gone())
        });
        if leaves.is_empty() {
            return Ok(looked);
        }
        let known = self.found_devices();
        let tree = self.vdev_tree();
        let configs = tree.leaves();
        let configs = configs.filter(|leaf| leaves.contains(&leaf.guid));
        let remembered = configs.filter_map(|leaf| leaf.path.clone());
        let remembered = remembered.filter(|path| path.is_absolute() || is_url(path));
        let places = leaves.iter().filter_map(|guid| known.get(guid));
        let places = places.map(|found| found.path.clone()).chain(remembered);
        let places: BTreeSet<PathBuf> = places.collect();
        self.find_again(&leaves, places.iter().cloned().collect(), &mut looked)?;
        leaves.retain(|guid| !looked.devices.contains_key(guid));
        if !leaves.is_empty() {
            // Disks that are plugged in again may have another name.
            let parents = places.iter().filter_map(|path| path.parent());
            let parents: BTreeSet<&Path> = parents.filter(|path| path.is_absolute()).collect();
            let beside = parents.into_iter().map(Path::to_owned).collect();
            self.find_again(&leaves, beside, &mut looked)?;
        }
        let found = looked.devices.iter().filter_map(|(guid, returned)| {
            let path = PathBuf::from(returned.device.description());
            let size = returned.device.size();
            let is_place = path.is_absolute() || is_url(&path);
            is_place.then(|| (*guid, FoundDevice::new(path, size)))
        });
        self.note_devices(found);
        self.note_outsiders(&looked.outsiders);
        Ok(looked)
    }

    /// Looks for leaves among these places, and opens for writing what is found.
    fn find_again(
        &self,
        leaves: &[Guid],
        places: Vec<PathBuf>,
        looked: &mut LookedFor,
    ) -> Result<(), ClearError> {
        let opener = &self.options().opener;
        let members = scan(&places, opener.as_ref()).members.into_iter();
        let own = members.filter(|member| {
            let config = config_of(member);
            let is_own = config.is_some_and(|config| config.pool_guid == Some(self.guid()));
            // What is in a partition is to be opened by the partition's own name.
            is_own && member.candidate.partition.is_none()
        });
        let own = own.filter_map(|member| Known::of(&Arc::new(member)));
        let mut own: Vec<Known> = own.filter(|known| leaves.contains(&known.leaf)).collect();
        own.sort_by_cached_key(|known| {
            let newest = known.groups.keys().next_back().copied();
            let last = self.last_common(known.leaf, &known.member.labels);
            let is_known = places.contains(&known.member.candidate.path);
            Reverse((last.ok(), newest, is_known))
        });
        for known in own {
            let path = known.member.candidate.path.clone();
            if looked
                .outsiders
                .iter()
                .any(|outsider| outsider.path == path)
            {
                continue;
            }
            let ours = self.syncer().and_then(|syncer| syncer.chronicle().moment());
            if let Some(other) = looked.devices.get(&known.leaf) {
                let than = PathBuf::from(other.device.description());
                let why = match groups_of(&DeviceLabels::read(other.device.as_ref())) {
                    theirs if theirs == known.groups => Why::Copy { of: than },
                    _ => Why::Older { than },
                };
                // It was found a second time, by the same name.
                if Path::new(&other.device.description()) != path {
                    looked.outsiders.push(known.outsider(why, ours));
                }
                continue;
            }
            if let Err(parted) = self.last_common(known.leaf, &known.member.labels) {
                looked.outsiders.push(known.outsider(parted.into(), ours));
                continue;
            }
            // From now on the device is locked against other writers.
            let device = match opener.open_writable(&path) {
                // What strayed is still open, and may have another name now.
                Err(DeviceError::InUse { .. }) if self.vdevs().has_strayed(known.leaf) => continue,
                opened => opened?,
            };
            match self.last_common(known.leaf, &DeviceLabels::read(device.as_ref())) {
                Ok(last) => {
                    let missed = self.missed_after(known.leaf, last);
                    let returned = Returned { device, missed };
                    looked.devices.insert(known.leaf, returned);
                }
                Err(parted) => looked.outsiders.push(known.outsider(parted.into(), ours)),
            }
        }
        Ok(())
    }

    /// Whether a device with these labels can be used again as a leaf, with what is on it.
    ///
    /// A pool that takes no changes cannot judge that, so it keeps the device.
    pub fn can_return(&self, leaf: Guid, labels: &DeviceLabels) -> bool {
        self.syncer().is_none() || self.last_common(leaf, labels).is_ok()
    }

    /// The last group of the pool that is on a device with these labels.
    fn last_common(&self, guid: Guid, labels: &DeviceLabels) -> Result<Txg, Parted> {
        let tree = self.vdev_tree();
        let (Some(syncer), Some((leaf, top))) = (self.syncer(), place_of(&tree, guid)) else {
            return Err(Parted::Unknown);
        };
        let missed = TxgSet::from_ranges(self.vdevs().dtl(guid));
        let joined = leaf.resilver_txg.or(leaf.rebuild_txg);
        let chronicle = syncer.chronicle();
        let theirs = chronicle.without_begun(groups_of(labels));
        let last = chronicle.last_common(&theirs, (guid, top.guid), &missed, joined)?;
        // Of a copy that was made while the device was in use the oldest sign counts.
        let last = last.min(labels.whole_until(last));
        // What only this device can have is lost if it is a copy from before.
        let is_alone = top.guid == guid;
        let is_behind = last < chronicle.last_taken(guid) && !top.is_log;
        match is_alone && is_behind {
            true => Err(Parted::Unknown),
            false => Ok(last),
        }
    }

    /// Checks devices that were given up but are still open, before they are used again: the file
    /// may have been overwritten with an older copy meanwhile. Records what they missed by that.
    /// Returns the devices that cannot be used.
    pub(super) fn judge_given_up(&self, is_meant: impl Fn(&Guid) -> bool) -> Vec<Outsider> {
        let mut outsiders = Vec::new();
        let shape = self.vdevs();
        let given_up = shape.given_up().into_iter();
        for (leaf, labels) in given_up.filter(|(leaf, _)| is_meant(leaf)) {
            let ours = self.syncer().and_then(|syncer| syncer.chronicle().moment());
            let config = labels
                .newest_config()
                .and_then(|label| label.config.as_ref());
            let is_own = config.is_some_and(|config| {
                config.guid == Some(leaf) && config.pool_guid == Some(self.guid())
            });
            let groups = groups_of(&labels);
            let judged = match is_own {
                true => self.last_left(leaf, &labels),
                false => Err(Parted::Unknown),
            };
            match judged {
                Ok(last) => shape.add_missed(leaf, &self.missed_after(leaf, last)),
                Err(parted) => outsiders.push(Outsider {
                    path: PathBuf::from(self.name_of(leaf)),
                    leaf,
                    why: parted.into(),
                    theirs: Moment::last_of(&groups),
                    host: config.and_then(|config| config.hostname.clone()),
                    ours,
                }),
            }
        }
        outsiders
    }

    /// The last group of the pool on a device that is open. It may have taken all blocks of a group
    /// and failed at its uberblock.
    fn last_left(&self, leaf: Guid, labels: &DeviceLabels) -> Result<Txg, Parted> {
        let until = labels.whole_until(Txg(u64::MAX));
        let taken = self
            .syncer()
            .map(|syncer| syncer.chronicle().last_taken(leaf));
        self.last_common(leaf, labels)
            .or_else(|parted| match parted {
                Parted::Unknown if taken == Some(until) => Ok(until),
                parted => Err(parted),
            })
    }

    /// What a leaf missed beside what its log says, by the labels of its device. A device that has
    /// something of another pool on it missed everything.
    pub(crate) fn missed_by(&self, leaf: Guid, labels: &DeviceLabels) -> TxgSet {
        let last = self.last_common(leaf, labels);
        self.missed_after(leaf, last.unwrap_or_default())
    }

    /// What a leaf missed of the groups after `last`.
    fn missed_after(&self, guid: Guid, last: Txg) -> TxgSet {
        let alone = place_of(&self.vdev_tree(), guid).is_none_or(|(_, top)| top.guid == guid);
        let newest = self.synced_txg();
        match alone || newest <= last {
            true => TxgSet::default(),
            false => TxgSet::from_ranges([Txg(last.0 + 1)..Txg(newest.0 + 1)]),
        }
    }
}
