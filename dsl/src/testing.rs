//! Opens golden pools for tests, as simply as an intact pool allows.
//!
//! The tree of vdevs is put together from the labels, so pools with removed vdevs do not open
//! here, and nothing is checked that an import checks.

use crate::{Dsl, PoolFacts, SpaceFacts};
use cenote_base::{Guid, MemoryBudget, ObjsetId, VdevId};
use cenote_cache::{BlockCache, CacheLimits};
use cenote_device::{Device, Opener, SystemOpener};
use cenote_dmu::ObjectSet;
use cenote_io::{Pipeline, PipelineParts, Workers};
use cenote_ondisk::{PoolConfig, Uberblock, VdevConfig, VdevKind};
use cenote_tests::golden::Golden;
use cenote_vdev::{DeviceLabels, OpenOptions, Shape, Vdevs};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The kinds that open here.
pub fn kinds() -> Vec<String> {
    let mut kinds = cenote_tests::golden::kinds();
    kinds.retain(|kind| kind != "device-removal");
    kinds
}

struct Found {
    devices: HashMap<Guid, Arc<dyn Device>>,
    tops: BTreeMap<u64, VdevConfig>,
    config: Option<PoolConfig>,
    uberblock: Option<Uberblock>,
}

fn find(golden: &Golden) -> Found {
    let directory = golden.devices().expect("images unpack");
    let mut found = Found {
        devices: HashMap::new(),
        tops: BTreeMap::new(),
        config: None,
        uberblock: None,
    };
    for name in golden.device_names() {
        let opener = SystemOpener::default();
        let device = opener.open(&directory.join(name)).expect("image opens");
        let labels = DeviceLabels::read(&*device);
        let Some(label) = labels.newest_config() else {
            continue;
        };
        let Some(config) = label.config.clone().filter(PoolConfig::is_pool_member) else {
            continue;
        };
        if let Some(best) = labels.best_uberblock(None) {
            let best = &best.uberblock;
            if found
                .uberblock
                .as_ref()
                .is_none_or(|old| old.rank() < best.rank())
            {
                found.uberblock = Some(best.clone());
            }
        }
        let tree = config
            .vdev_tree
            .clone()
            .expect("a member's label has a tree");
        found
            .devices
            .insert(config.guid.expect("has a guid"), device);
        found
            .tops
            .insert(tree.id.expect("a top-level vdev has an id").0, tree);
        found.config = Some(config);
    }
    found
}

fn space(root: &VdevConfig, vdevs: &Shape) -> SpaceFacts {
    let mut facts = SpaceFacts::default();
    for top in root.children.iter().filter(|top| !top.is_log) {
        let id = top.id.expect("tops have ids");
        let metaslabs = top.asize.checked_shr(top.metaslab_shift).unwrap_or(0);
        let bytes = (0..metaslabs).filter_map(|index| vdevs.metaslab(id, index));
        let bytes: u64 = bytes.map(|(_, length)| length).sum();
        facts.normal += bytes / 512 * vdevs.deflate_ratio(id).expect("a concrete vdev");
    }
    facts
}

/// Opens the golden pool of this kind; `None` with a notice when it is not here.
pub fn open(kind: &str) -> Option<(Arc<Dsl>, Golden)> {
    let golden = Golden::find(kind).expect("the manifest is readable")?;
    let found = find(&golden);
    let config = found.config.expect("a device of the pool");
    let uberblock = found.uberblock.expect("an uberblock");
    let mut root = found.tops.values().next().expect("a vdev").clone();
    root.kind = VdevKind::Root;
    root.children = found.tops.into_values().collect();
    root.asize = 0;
    assert!(
        root.children
            .iter()
            .zip(0..)
            .all(|(top, id)| top.id == Some(VdevId(id)))
    );
    let reflow = uberblock.raidz_reflow();
    let problems = HashMap::new();
    let options = OpenOptions {
        reflow,
        problems,
        ..OpenOptions::default()
    };
    let vdevs = Vdevs::open(&root, &found.devices, &options).expect("the tree opens");
    let vdevs = Arc::new(vdevs);
    let facts = PoolFacts {
        name: config.name.expect("a pool has a name"),
        version: uberblock.version,
        space: space(&root, &vdevs.shape()),
        deflate_ratios: (0..root.children.len() as u64)
            .filter_map(|id| Some((id, vdevs.shape().deflate_ratio(VdevId(id))?)))
            .collect(),
    };
    let pipeline = Arc::new(Pipeline::new(PipelineParts {
        vdevs: vdevs,
        memory: MemoryBudget::new(1 << 30),
        salt: None,
    }));
    let workers = Arc::new(Workers::new(2));
    let limits = CacheLimits::of_total(64 << 20);
    let cache = Arc::new(BlockCache::new(pipeline, workers, limits));
    let mos = ObjectSet::open(cache, ObjsetId::MOS, uberblock.root, None).expect("the MOS opens");
    let dsl = Dsl::open(mos, facts).expect("the datasets open");
    let salt = dsl.object_directory().checksum_salt().expect("readable");
    if let Some(salt) = salt {
        dsl.mos().cache().pipeline().learn_salt(salt);
    }
    Some((dsl, golden))
}
