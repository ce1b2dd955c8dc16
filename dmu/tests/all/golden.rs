//! The object layer on a pool that OpenZFS made: fast ways agree with slow ones.
//!
//! Each property is checked on every object of the meta object set, so that micro and fat ZAPs,
//! holes, objects of one block and of many all occur.

use cenote_base::{BlockId, Guid, MemoryBudget, ObjectId, ObjsetId, Txg};
use cenote_cache::{BlockCache, CacheLimits};
use cenote_device::{Opener, SystemOpener};
use cenote_dmu::traverse::{Event, Ordered, Root, Since, Walk};
use cenote_dmu::{Object, ObjectSet};
use cenote_io::{Pipeline, PipelineParts, Workers};
use cenote_ondisk::nvlist::{NvList, NvValue};
use cenote_ondisk::object_type::ByteswapClass;
use cenote_ondisk::{ObjectType, VdevConfig};
use cenote_tests::golden::Golden;
use cenote_vdev::{DeviceLabels, OpenOptions, Vdevs};
use std::collections::HashMap;
use std::sync::Arc;

/// The meta object set of a pool on one device.
fn meta_object_set(kind: &str) -> Option<Arc<ObjectSet>> {
    let golden = Golden::find(kind).expect("golden pools are readable")?;
    let path = golden.devices().expect("images unpack").join("v0.img");
    let device = SystemOpener::default()
        .open(&path)
        .expect("the image opens");
    let labels = DeviceLabels::read(&*device);
    let config = labels
        .newest_config()
        .and_then(|label| label.config.clone());
    let top = config
        .expect("a valid label")
        .vdev_tree
        .expect("a vdev tree");
    let root = labels
        .best_uberblock(None)
        .expect("an uberblock")
        .uberblock
        .root;
    let mut list = NvList::new();
    list.set("type", NvValue::String(b"root".to_vec()));
    list.set_u64("id", 0);
    list.set_u64("guid", 1);
    let mut tree = VdevConfig::decode(&list).expect("a root vdev");
    let devices = HashMap::from([(top.guid, device)]);
    assert_ne!(top.guid, Guid(0));
    tree.children.push(top);
    let vdevs = Vdevs::open(&tree, &devices, &OpenOptions::default()).expect("the vdev opens");
    let pipeline = Pipeline::new(PipelineParts {
        vdevs: Arc::new(vdevs),
        memory: MemoryBudget::new(64 << 20),
        salt: None,
    });
    let (workers, limits) = (Arc::new(Workers::new(2)), CacheLimits::of_total(16 << 20));
    let cache = Arc::new(BlockCache::new(Arc::new(pipeline), workers, limits));
    Some(ObjectSet::open(cache, ObjsetId::MOS, root, None).expect("the MOS opens"))
}

fn objects(set: &Arc<ObjectSet>) -> Vec<Object> {
    let ids: Vec<ObjectId> = set
        .objects(ObjectId(1))
        .map(|found| found.expect("a good pool").0)
        .collect();
    assert!(
        ids.len() > 30,
        "a pool has at least its directories and tables"
    );
    assert!(
        ids.windows(2).all(|pair| pair[0] < pair[1]),
        "in order, each once"
    );
    ids.into_iter()
        .map(|id| set.object(id).expect("it was listed"))
        .collect()
}

fn is_zap(object: &Object) -> bool {
    let kind = object.dnode().object_type;
    kind != ObjectType::NONE
        && kind.byteswap_class() == Some(ByteswapClass::Zap)
        && object.block(BlockId(0)).expect("readable").is_some()
}

#[test]
fn zaps_find_what_they_list_and_go_on_from_anywhere() {
    let Some(set) = meta_object_set("names-folding") else {
        return;
    };
    let mut zaps = 0;
    for object in objects(&set).into_iter().filter(is_zap) {
        let zap = set.zap(object.id()).expect("a ZAP");
        let entries: Vec<_> = zap
            .entries()
            .map(|entry| entry.expect("readable"))
            .collect();
        assert_eq!(entries.len() as u64, zap.count(), "object {}", object.id());
        for (index, entry) in entries.iter().enumerate() {
            let found = match (entry.key.as_name(), entry.key.as_words()) {
                (Some(name), _) => zap.lookup(name),
                (None, words) => zap.lookup_words(words.expect("a name or words")),
            };
            assert_eq!(found.expect("readable").as_ref(), Some(&entry.value));
            let rest = zap
                .entries_from(entry.cursor)
                .map(|entry| entry.expect("readable"));
            assert!(
                rest.eq(entries[index + 1..].iter().cloned()),
                "object {}",
                object.id()
            );
        }
        assert_eq!(zap.lookup(b"no such name").expect("readable"), None);
        zaps += 1;
    }
    assert!(zaps > 10);
}

#[test]
fn holes_and_data_are_found_as_block_by_block() {
    let Some(set) = meta_object_set("quotas") else {
        return;
    };
    for object in objects(&set).into_iter().chain([set.meta_object()]) {
        let last = object.dnode().block_id_max.0;
        if last > 4096 {
            continue;
        }
        let is_data = |id: u64| object.block(BlockId(id)).expect("readable").is_some();
        let data: Vec<bool> = (0..=last).map(is_data).collect();
        for from in 0..=last {
            let next = (from..=last).find(|id| data[*id as usize]).map(BlockId);
            assert_eq!(
                object.next_data_block(BlockId(from)).expect("readable"),
                next
            );
            let hole = (from..=last)
                .find(|id| !data[*id as usize])
                .unwrap_or(last + 1);
            assert_eq!(
                object.next_hole_block(BlockId(from)).expect("readable"),
                BlockId(hole)
            );
        }
    }
}

#[test]
fn ranges_are_the_blocks_they_cover() {
    let Some(set) = meta_object_set("quotas") else {
        return;
    };
    for object in objects(&set) {
        let size = object.dnode().data_block_size;
        let blocks = object.dnode().block_id_max.0.min(40) + 1;
        let mut whole = Vec::new();
        for id in 0..blocks {
            match object.block(BlockId(id)).expect("readable") {
                Some(block) => whole.extend_from_slice(&block),
                None => whole.resize(whole.len() + usize::try_from(size).expect("small"), 0),
            }
        }
        // Odd places and lengths, across block ends and beyond the object's.
        for (offset, length) in [(0, whole.len()), (1, 700), (size - 1, 2), (size / 2, 5000)] {
            let mut read = vec![0xEE; length];
            object.read(offset, &mut read).expect("readable");
            let expected = (offset..).map(|at| whole.get(at as usize).copied().unwrap_or(0));
            let known = whole.len().saturating_sub(offset as usize).min(length);
            assert!(read[..known].iter().copied().eq(expected.take(known)));
        }
    }
}

#[test]
fn pointers_since_a_txg_are_those_born_later() {
    let Some(set) = meta_object_set("quotas") else {
        return;
    };
    let meta = set.meta_object();
    let all = |since: Txg| {
        let mut births = Vec::new();
        let root = Root::of_object(&meta, Since::accounting(since));
        let mut walk = Ordered::new(Arc::clone(set.cache()), root, Walk::default());
        while let Some(event) = walk.next() {
            match event {
                Event::Block(visit) => births.push(visit.pointer.accounting_birth()),
                Event::Object(object, _) if object.0 != 0 => walk.pass_over(),
                Event::Damage(damage) => panic!("{damage:?}"),
                _ => {}
            }
        }
        births
    };
    let mut births = all(Txg(0));
    births.sort_unstable();
    let middle = births[births.len() / 2];
    let later = all(middle);
    assert_eq!(
        later.len(),
        births.iter().filter(|birth| **birth > middle).count()
    );
    assert!(later.len() < births.len(), "something is older");
}
