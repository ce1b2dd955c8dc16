//! Writing configurations: the way back of [`crate::pool_config`] and [`crate::vdev_config`].
//!
//! Keys stand in the order in which OpenZFS writes them, and those without a meaning for a vdev
//! are left out as it does (format/1a 2), so that what was decoded encodes to the same bytes.
//! Labels and the MOS differ in a few keys; which of the two is meant is said by [`Place`].

use crate::pool_config::{LOGS_HAVE_GROUPS, PREVIOUS, RESTED_LOGS};
use crate::vdev_config::{LeafState, VdevConfig};
use crate::{NvList, NvValue, PoolConfig, VdevKind};
use cenote_base::{Guid, ObjectId};
use std::os::unix::ffi::OsStrExt;

/// Where a configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A device's label: without the objects of the vdevs' ZAPs.
    Label,
    /// The MOS's `config` object: with everything.
    Mos,
}

fn set_flag(list: &mut NvList, key: &str, value: bool) {
    if value {
        list.set_u64(key, 1);
    }
}

fn set_object(list: &mut NvList, key: &str, object: Option<ObjectId>) {
    if let Some(object) = object {
        list.set_u64(key, object.0);
    }
}

fn set_text(list: &mut NvList, key: &str, text: Option<&String>) {
    if let Some(text) = text {
        list.set_str(key, text);
    }
}

impl VdevConfig {
    /// The list of this vdev and of everything below it.
    ///
    /// The tree must be one that [`Self::decode`] accepts: it bounds the depth.
    pub fn encode(&self, place: Place) -> NvList {
        // A vdev with the lists of its children that are done.
        struct Frame<'a> {
            vdev: &'a VdevConfig,
            done: Vec<NvList>,
        }
        let open = |vdev| Frame {
            vdev,
            done: Vec::new(),
        };
        let mut frames = vec![open(self)];
        loop {
            let frame = frames.last().expect("the root frame returns");
            if let Some(child) = frame.vdev.children.get(frame.done.len()) {
                frames.push(open(child));
                continue;
            }
            let top = frames.len() == 1 + usize::from(self.kind == VdevKind::Root);
            let frame = frames.pop().expect("last found it");
            let mut list = frame.vdev.encode_own(place, top);
            if !frame.done.is_empty() {
                list.set("children", NvValue::ListArray(frame.done));
            }
            frame.vdev.encode_late(&mut list, place);
            match frames.last_mut() {
                Some(parent) => parent.done.push(list),
                None => return list,
            }
        }
    }

    /// What stands before the children.
    fn encode_own(&self, place: Place, is_top: bool) -> NvList {
        let mut list = NvList::new();
        list.set_str("type", self.kind.name());
        if let Some(id) = self.id {
            list.set_u64("id", id.0);
        }
        list.set_u64("guid", self.guid.0);
        if let Some(path) = &self.path {
            list.set_str("path", path.as_os_str().as_bytes());
        }
        set_text(&mut list, "devid", self.devid.as_ref());
        set_text(&mut list, "phys_path", self.physical_path.as_ref());
        self.encode_geometry(&mut list);
        if let Some(whole) = self.whole_disk {
            list.set_u64("whole_disk", u64::from(whole));
        }
        set_flag(&mut list, "not_present", self.state.not_present);
        set_flag(&mut list, "is_spare", self.is_spare);
        if is_top && self.kind != VdevKind::Root {
            self.encode_top(&mut list);
        }
        set_object(&mut list, "DTL", self.dtl);
        set_object(
            &mut list,
            "com.delphix:indirect_object",
            self.indirect_object,
        );
        set_object(
            &mut list,
            "com.delphix:indirect_births",
            self.indirect_births,
        );
        if let Some(previous) = self.previous_indirect {
            list.set_u64("com.delphix:prev_indirect_vdev", previous.0);
        }
        if self.kind != VdevKind::Hole {
            list.set_u64("create_txg", self.create_txg.0);
        }
        if place == Place::Mos {
            set_object(&mut list, "com.delphix:vdev_zap_leaf", self.leaf_zap);
            set_object(&mut list, "com.delphix:vdev_zap_top", self.top_zap);
            set_object(&mut list, "com.klarasystems:vdev_zap_root", self.root_zap);
        }
        list
    }

    fn encode_geometry(&self, list: &mut NvList) {
        if let Some((top, spare)) = self.distributed_spare {
            list.set_u64("top_guid", top.0);
            list.set_u64("spareid", spare);
        }
        if matches!(self.kind, VdevKind::Raidz | VdevKind::Draid) {
            list.set_u64("nparity", self.parity);
        }
        if self.raidz_expanding {
            list.set("raidz_expanding", NvValue::Boolean);
        }
        if !self.raidz_expand_txgs.is_empty() {
            let txgs = self.raidz_expand_txgs.iter().map(|txg| txg.0).collect();
            list.set("raidz_expand_txgs", NvValue::Uint64Array(txgs));
        }
        if let Some(draid) = &self.draid {
            list.set_u64("draid_ndata", draid.data);
            list.set_u64("draid_nspares", draid.spares);
            list.set_u64("draid_ngroups", draid.groups);
        }
    }

    /// What only top-level vdevs have.
    fn encode_top(&self, list: &mut NvList) {
        list.set_u64("metaslab_array", self.metaslab_array.map_or(0, |id| id.0));
        list.set_u64("metaslab_shift", u64::from(self.metaslab_shift));
        list.set_u64("ashift", self.ashift.map_or(0, u64::from));
        list.set_u64("asize", self.asize);
        list.set_u64("is_log", u64::from(self.is_log));
        set_flag(list, "non_allocating", self.non_allocating);
        set_flag(list, "removing", self.removing);
        set_flag(list, "is_hole", self.kind == VdevKind::Hole);
    }

    /// What stands after the children, and the keys of lists of spares and cache devices.
    fn encode_late(&self, list: &mut NvList, place: Place) {
        if let (Some(ashift), None) = (self.ashift, self.id) {
            list.set_u64("ashift", u64::from(ashift));
        }
        if let Some(txg) = self.resilver_txg {
            list.set_u64("resilver_txg", txg.0);
        }
        if let Some(txg) = self.rebuild_txg {
            list.set_u64("rebuild_txg", txg.0);
        }
        self.state.encode_into(list, place);
        if let Some(Guid(guid)) = self.original_guid {
            list.set_u64("orig_guid", guid);
        }
    }
}

impl LeafState {
    fn encode_into(&self, list: &mut NvList, place: Place) {
        set_flag(list, "offline", self.offline);
        set_flag(list, "faulted", self.faulted);
        set_flag(list, "degraded", self.degraded);
        set_flag(list, "removed", self.removed);
        set_flag(list, "unspare", self.unspare);
        set_text(list, "aux_state", self.aux_state.as_ref());
        if self.resilver_deferred && place == Place::Mos {
            list.set("com.datto:resilver_defer", NvValue::Boolean);
        }
    }
}

impl PoolConfig {
    /// The list for a label, which has [`Self::top_guid`] and [`Self::guid`], or for the MOS.
    pub fn encode(&self, place: Place) -> NvList {
        let mut list = NvList::new();
        list.set_u64("version", self.version);
        set_text(&mut list, "name", self.name.as_ref());
        list.set_u64("state", self.state.number());
        if let Some(txg) = self.txg {
            list.set_u64("txg", txg.0);
        }
        if let Some(guid) = self.pool_guid {
            list.set_u64("pool_guid", guid.0);
            list.set_u64("errata", self.errata);
        }
        set_text(&mut list, "comment", self.comment.as_ref());
        set_text(&mut list, "compatibility", self.compatibility.as_ref());
        if self.hostid != 0 {
            list.set_u64("hostid", self.hostid);
        }
        set_text(&mut list, "hostname", self.hostname.as_ref());
        if place == Place::Label {
            for (key, guid) in [("top_guid", self.top_guid), ("guid", self.guid)] {
                if let Some(guid) = guid {
                    list.set_u64(key, guid.0);
                }
            }
            set_flag(&mut list, "is_spare", self.is_spare);
            set_flag(&mut list, "is_log", self.is_log);
        }
        if let Some(children) = self.vdev_children {
            list.set_u64("vdev_children", children);
        }
        if !self.holes.is_empty() {
            let holes = self.holes.iter().map(|id| id.0).collect();
            list.set("hole_array", NvValue::Uint64Array(holes));
        }
        if let Some(guid) = self.split_guid {
            list.set_u64("split_guid", guid.0);
        }
        if !self.split_leaves.is_empty() && place == Place::Mos {
            let leaves = self.split_leaves.iter().map(|leaf| leaf.0).collect();
            let mut split = NvList::new();
            split.set("guid_list", NvValue::Uint64Array(leaves));
            list.set("splitcfg", NvValue::List(split));
        }
        if self.has_per_vdev_zaps && place == Place::Mos {
            list.set("com.delphix:has_per_vdev_zaps", NvValue::Boolean);
        }
        if let Some(tree) = &self.vdev_tree {
            list.set("vdev_tree", NvValue::List(tree.encode(place)));
        }
        if let Some(features) = &self.features_for_read {
            let mut read = NvList::new();
            for feature in features {
                read.set(feature, NvValue::Boolean);
            }
            list.set("features_for_read", NvValue::List(read));
        }
        if let Some(txg) = self.create_txg {
            list.set_u64("create_txg", txg.0);
        }
        if place == Place::Label {
            self.encode_own(&mut list);
        }
        list
    }

    /// What only labels of this software have; OpenZFS passes over it.
    fn encode_own(&self, list: &mut NvList) {
        if let Some(previous) = self.previous {
            list.set(PREVIOUS, NvValue::Uint64Array(previous.words()));
        }
        if self.logs_have_groups {
            list.set(LOGS_HAVE_GROUPS, NvValue::Boolean);
        }
        if !self.rested_logs.is_empty() {
            let pairs = self.rested_logs.iter();
            let words = pairs.flat_map(|(guid, txg)| [guid.0, txg.0]).collect();
            list.set(RESTED_LOGS, NvValue::Uint64Array(words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_config::Previous;
    use cenote_base::{Txg, VdevId};

    #[test]
    fn trees_come_back() {
        let mut leaf = NvList::new();
        leaf.set_str("type", "disk");
        leaf.set_u64("id", 0);
        leaf.set_u64("guid", 7);
        leaf.set_str("path", "/dev/sda1");
        leaf.set_u64("whole_disk", 1);
        leaf.set_u64("create_txg", 4);
        let mut mirror = VdevConfig::decode(&leaf).expect("valid");
        let mut child = mirror.clone();
        child.state.faulted = true;
        child.leaf_zap = Some(ObjectId(99));
        child.dtl = Some(ObjectId(5));
        mirror.kind = VdevKind::Mirror;
        (mirror.path, mirror.whole_disk) = (None, None);
        (mirror.guid, mirror.asize, mirror.ashift) = (Guid(8), 1 << 30, Some(12));
        mirror.children = vec![child];
        let mut root = mirror.clone();
        root.kind = VdevKind::Root;
        (root.asize, root.ashift) = (0, None);
        root.children = vec![mirror];
        let list = root.encode(Place::Mos);
        assert_eq!(VdevConfig::decode(&list), Ok(root.clone()));
        let list = root.encode(Place::Label);
        let label = VdevConfig::decode(&list).expect("valid");
        assert_eq!(label.children[0].children[0].leaf_zap, None);
    }

    #[test]
    fn holes_have_all_the_words() {
        let mut list = NvList::new();
        list.set_str("type", "hole");
        list.set_u64("id", 1);
        list.set_u64("guid", 0);
        let hole = VdevConfig::decode(&list).expect("valid");
        let list = hole.encode(Place::Mos);
        assert_eq!(list.get_u64("is_hole"), Some(1));
        assert_eq!(list.get_u64("asize"), Some(0));
        let config = PoolConfig {
            holes: vec![VdevId(1)],
            txg: Some(Txg(3)),
            previous: Some(Previous {
                txg: Txg(2),
                seconds: 9,
                root: [1, 2, 3, 4],
            }),
            logs_have_groups: true,
            rested_logs: vec![(Guid(8), Txg(2)), (Guid(9), Txg(1))],
            vdev_tree: Some(hole),
            ..empty()
        };
        let list = config.encode(Place::Label);
        assert_eq!(PoolConfig::decode(&list), Ok(config));
    }

    fn empty() -> PoolConfig {
        let mut list = NvList::new();
        list.set_u64("state", 0);
        PoolConfig::decode(&list).expect("valid")
    }
}
