//! Golden pools on real vdevs, and a walk over all their blocks that needs nothing above vdevs.

pub mod walk;

use cenote_base::{Guid, Txg};
use cenote_device::{Device, FaultyDevice, SystemOpener};
use cenote_ondisk::{NvList, NvValue, PoolConfig, Uberblock, VdevConfig, VdevKind};
use cenote_tests::golden::Golden;
use cenote_vdev::{OpenOptions, Scan, Shape, Vdevs, scan};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// A golden pool whose devices can be spoilt.
pub struct Pool {
    pub root: VdevConfig,
    pub uberblock: Uberblock,
    /// All devices, in order of their file names.
    pub devices: Vec<(Guid, Arc<FaultyDevice>)>,
}

/// The tree as the labels of the found devices tell it: gaps become holes.
fn root_config(found: &Scan) -> VdevConfig {
    let mut tops: BTreeMap<u64, (Txg, NvList)> = BTreeMap::new();
    let mut pool_guid = 0;
    for member in &found.members {
        let label = member
            .labels
            .newest_config()
            .expect("a golden device has labels");
        let config = label.config.as_ref().expect("newest_config decodes");
        let Some(tree) = label
            .list
            .as_ref()
            .and_then(|list| list.get_list("vdev_tree"))
        else {
            continue;
        };
        pool_guid = config.pool_guid.map_or(pool_guid, |guid| guid.0);
        let id = tree.get_u64("id").expect("a top-level vdev has an id");
        let newest = tops.entry(id).or_insert((label.txg(), tree.clone()));
        if label.txg() > newest.0 {
            *newest = (label.txg(), tree.clone());
        }
    }
    let last = *tops
        .keys()
        .next_back()
        .expect("at least one top-level vdev");
    let children = (0..=last).map(|id| match tops.remove(&id) {
        Some((_, tree)) => tree,
        None => {
            let mut hole = NvList::new();
            hole.set_str("type", "hole");
            hole.set_u64("id", id);
            hole.set_u64("guid", 0);
            hole
        }
    });
    let children = children.collect();
    let mut root = NvList::new();
    root.set_str("type", "root");
    root.set_u64("id", 0);
    root.set_u64("guid", pool_guid);
    root.set("children", NvValue::ListArray(children));
    VdevConfig::decode(&root).expect("labels of a golden pool make a tree")
}

/// The directory with the devices of the golden pool `kind`; `None`, with a notice, when it is
/// not here.
pub fn unpacked(kind: &str) -> Option<PathBuf> {
    let golden = Golden::find(kind).expect("a manifest")?;
    Some(golden.devices().expect("images unpack"))
}

impl Pool {
    /// The golden pool `kind`; `None`, with a printed notice, when it is not here.
    pub fn open(kind: &str) -> Option<Self> {
        let directory = unpacked(kind)?;
        let found = scan(&[directory], &SystemOpener::default());
        assert!(found.failures.is_empty(), "{kind}: {:?}", found.failures);
        let best = found
            .members
            .iter()
            .filter_map(|member| member.labels.best_uberblock(None))
            .max_by_key(|found| found.uberblock.rank())
            .expect("a golden pool has uberblocks");
        let uberblock = best.uberblock.clone();
        let root = root_config(&found);
        let devices = found.members.into_iter().filter_map(|member| {
            let guid = member.labels.newest_config()?.guid()?;
            let is_member = member
                .labels
                .newest_config()?
                .config
                .as_ref()
                .is_some_and(PoolConfig::is_pool_member);
            is_member.then(|| (guid, Arc::new(FaultyDevice::new(member.candidate.device))))
        });
        let devices = devices.collect();
        Some(Self {
            root,
            uberblock,
            devices,
        })
    }

    /// Makes the hole at position `id` a removed vdev.
    pub fn make_indirect(&mut self, id: usize, ashift: u32, asize: u64) {
        let vdev = &mut self.root.children[id];
        assert_eq!(vdev.kind, VdevKind::Hole);
        vdev.kind = VdevKind::Indirect;
        (vdev.ashift, vdev.asize) = (Some(ashift), asize);
    }

    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            reflow: self.uberblock.raidz_reflow(),
            ..OpenOptions::default()
        }
    }

    /// The vdevs over all devices but those in `missing`, by position.
    pub fn vdevs_without(&self, missing: &[usize]) -> Arc<Shape> {
        let devices = self.devices.iter().enumerate();
        let kept = devices.filter(|(position, _)| !missing.contains(position));
        let opened: HashMap<Guid, Arc<dyn Device>> = kept
            .map(|(_, (guid, device))| (*guid, Arc::clone(device) as Arc<dyn Device>))
            .collect();
        let vdevs = Vdevs::open(&self.root, &opened, &self.options());
        vdevs.expect("a golden tree opens").shape()
    }

    pub fn vdevs(&self) -> Arc<Shape> {
        self.vdevs_without(&[])
    }

    /// Turns everything on these devices but the labels into noise.
    pub fn spoil(&self, positions: &[usize]) {
        for position in positions {
            let device = &self.devices[*position].1;
            device.add_noise(0x8_0000..device.size() - 0x8_0000);
        }
    }

    pub fn heal(&self) {
        self.devices.iter().for_each(|(_, device)| device.heal());
    }
}
