//! ZAPs that are changed, compared with maps.
//!
//! Nothing is synced here: what matters are the blocks as they would be written.

use cenote_base::{BlockId, Guid, MemoryBudget, ObjectId, ObjsetId, Txg};
use cenote_device::{Device, MemoryDevice};
use cenote_dmu::zap::normalize::{FLAG_TOUPPER, normalize};
use cenote_dmu::zap::{KeyRef, NewZap, ZapKey, ZapValue};
use cenote_dmu::{
    BlockCache, CacheLimits, CreateParams, DmuError, NewObject, ObjectSet, Transaction, Zap,
};
use cenote_io::{Pipeline, PipelineParts, Workers};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::zap::fat_header::FatHeader;
use cenote_ondisk::zap::fat_header::{FLAG_HASH64, FLAG_PRE_HASHED_KEY, FLAG_UINT64_KEY};
use cenote_ondisk::zap::{Form, Leaf, form};
use cenote_ondisk::{NvList, NvValue, ObjectType, VdevConfig};
use cenote_vdev::{OpenOptions, Vdevs};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// A cache above a device on which nothing is read or written.
fn cache() -> Arc<BlockCache> {
    let mut disk = NvList::new();
    disk.set_str("type", "disk");
    disk.set_u64("id", 0);
    disk.set_u64("guid", 2);
    disk.set_u64("ashift", 9);
    disk.set_u64("asize", 8 << 20);
    let mut root = NvList::new();
    root.set_str("type", "root");
    root.set_u64("id", 0);
    root.set_u64("guid", 1);
    root.set("children", NvValue::ListArray(vec![disk]));
    let tree = VdevConfig::decode(&root).expect("a sound tree");
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("d", vec![0; 16 << 20]));
    let devices = HashMap::from([(Guid(2), device)]);
    let vdevs = Vdevs::open(&tree, &devices, &OpenOptions::default()).expect("opens");
    let pipeline = Pipeline::new(PipelineParts {
        vdevs: Arc::new(vdevs),
        memory: MemoryBudget::new(64 << 20),
        salt: None,
    });
    let (workers, limits) = (Arc::new(Workers::new(1)), CacheLimits::of_total(16 << 20));
    Arc::new(BlockCache::new(Arc::new(pipeline), workers, limits))
}

fn set() -> Arc<ObjectSet> {
    let params = CreateParams { flags: 0 };
    ObjectSet::create(cache(), ObjsetId(7), ObjsetKind::Meta, None, None, params)
}

fn new_zap(set: &Arc<ObjectSet>, tx: &Transaction, new: NewZap) -> Zap {
    let object = set
        .allocate(tx, NewObject::new(ObjectType::MASTER_NODE, 512))
        .expect("allocates");
    Zap::initialize(&object, tx, new).expect("initializes")
}

/// A small generator; the seed is in the test.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        let step = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = step.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Compares the ZAP with the model in every way there is, and checks what a fat one's header and
/// leaves say about themselves.
fn check(set: &Arc<ObjectSet>, id: ObjectId, model: &BTreeMap<ZapKey, ZapValue>) {
    let zap = set.zap(id).expect("opens");
    assert_eq!(zap.count(), model.len() as u64);
    let mut seen = BTreeMap::new();
    for entry in zap.entries() {
        let entry = entry.expect("valid");
        assert!(seen.insert(entry.key, entry.value).is_none(), "twice");
    }
    assert_eq!(&seen, model);
    for (key, value) in model {
        let found = match key {
            ZapKey::Name(name) => zap.lookup(name),
            ZapKey::Words(words) => zap.lookup_words(words),
        };
        assert_eq!(found.expect("valid").as_ref(), Some(value));
    }
    check_structure(set, id);
}

fn check_structure(set: &Arc<ObjectSet>, id: ObjectId) {
    let object = set.object(id).expect("exists");
    let first = object.block(BlockId(0)).expect("valid").expect("there");
    if form(&first).expect("valid") == Form::Micro {
        return;
    }
    let header = FatHeader::decode(&first).expect("valid");
    let (mut leaves, mut entries) = (HashSet::new(), 0);
    for index in 0..header.pointers() {
        let place = header.pointer_place(index);
        let table = object.block(place.block).expect("valid").expect("there");
        let leaf_id = header.pointer(&table, place).expect("valid");
        let block = object.block(leaf_id).expect("valid").expect("there");
        let leaf = Leaf::decode(&block, header.has_word_keys()).expect("valid");
        assert!(header.leaf_belongs(index, leaf.prefix, leaf.prefix_length));
        if leaves.insert(leaf_id) {
            entries += leaf.entry_count as u64;
            assert_eq!(leaf.sorted().expect("valid").len(), leaf.entry_count);
        }
    }
    assert_eq!(leaves.len() as u64, header.leaves);
    assert_eq!(entries, header.entries);
    assert_eq!(header.next_table_block, None);
}

fn random_value(random: &mut Random) -> ZapValue {
    match random.next(4) {
        0 => ZapValue::from_bytes(&vec![random.next(256) as u8; random.next(300) as usize]),
        1 => ZapValue::from_u64s(&vec![random.next(1000); random.next(9) as usize]),
        _ => ZapValue::from_u64(random.next(1 << 30)),
    }
}

/// Random changes in several groups; `key` draws a key.
fn churn(seed: u64, new: NewZap, steps: u64, key: impl Fn(&mut Random) -> ZapKey, mixed: bool) {
    eprintln!("seed {seed}");
    let mut random = Random(seed);
    let set = set();
    let mut tx = Transaction::syncing(Txg(5));
    let zap = new_zap(&set, &tx, new);
    let id = zap.object().id();
    let mut model = BTreeMap::new();
    for step in 0..steps {
        if step == steps / 2 {
            // Later changes continue in the next group, over the frozen blocks of this one.
            check(&set, id, &model);
            tx = Transaction::syncing(Txg(6));
        }
        let key = key(&mut random);
        let value = match mixed {
            true => random_value(&mut random),
            false => ZapValue::from_u64(random.next(u64::MAX >> 34)),
        };
        match random.next(5) {
            0 => {
                let removed = zap.remove(&tx, &key).expect("valid");
                assert_eq!(removed, model.remove(&key).is_some());
            }
            1 => {
                zap.update(&tx, &key, &value).expect("valid");
                model.insert(key, value);
            }
            _ => match zap.insert(&tx, &key, &value) {
                Ok(()) => assert_eq!(model.insert(key, value), None),
                Err(DmuError::EntryExists { .. }) => assert!(model.contains_key(&key)),
                Err(error) => panic!("{error}"),
            },
        }
    }
    check(&set, id, &model);
    let keys: Vec<ZapKey> = model.keys().cloned().collect();
    for key in keys {
        assert!(zap.remove(&tx, &key).expect("valid"));
    }
    check(&set, id, &BTreeMap::new());
}

fn short_name(random: &mut Random, range: u64) -> ZapKey {
    ZapKey::Name(format!("file-{}", random.next(range)).into_bytes())
}

#[test]
fn a_small_zap_stays_micro_and_agrees_with_a_map() {
    churn(
        1,
        NewZap::default(),
        3000,
        |random| short_name(random, 300),
        false,
    );
}

#[test]
fn a_zap_that_outgrows_one_block_becomes_fat() {
    churn(
        2,
        NewZap::default(),
        12_000,
        |random| short_name(random, 9000),
        false,
    );
}

#[test]
fn any_value_and_long_names() {
    let long = |random: &mut Random| {
        let length = 1 + random.next(200) as usize;
        ZapKey::Name(format!("{:0>length$}", random.next(2000)).into_bytes())
    };
    churn(3, NewZap::default(), 8000, long, true);
}

#[test]
fn keys_of_numbers() {
    for (seed, flags) in [(4, FLAG_UINT64_KEY), (5, FLAG_UINT64_KEY | FLAG_HASH64)] {
        let new = NewZap {
            flags,
            block_shift: 12,
            ..NewZap::default()
        };
        let words = |random: &mut Random| {
            let count = 1 + random.next(4) as usize;
            ZapKey::Words((0..count).map(|_| random.next(2000)).collect())
        };
        churn(seed, new, 8000, words, true);
    }
}

#[test]
fn hashes_that_collide() {
    // The first word is the hash: eight values of it for all keys.
    let new = NewZap {
        flags: FLAG_UINT64_KEY | FLAG_HASH64 | FLAG_PRE_HASHED_KEY,
        block_shift: 15,
        ..NewZap::default()
    };
    let words = |random: &mut Random| ZapKey::Words(vec![random.next(8) << 61, random.next(100)]);
    churn(6, new, 5000, words, false);
}

#[test]
fn keys_of_one_hash_that_fill_a_leaf_are_refused() {
    let new = NewZap {
        flags: FLAG_UINT64_KEY | FLAG_PRE_HASHED_KEY,
        block_shift: 9,
        ..NewZap::default()
    };
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, new);
    let mut model = BTreeMap::new();
    let error = loop {
        let key = ZapKey::Words(vec![1 << 63, model.len() as u64]);
        let value = ZapValue::from_u64(1);
        if let Err(error) = zap.insert(&tx, &key, &value) {
            break error;
        }
        model.insert(key, value);
        assert!(model.len() < 100);
    };
    assert!(matches!(error, DmuError::ZapFull { .. }), "{error}");
}

/// A micro ZAP took as many names of one hash as it has room for. None could be added then, of any
/// hash: the fat ZAP that it should become cannot hold them.
#[test]
fn names_of_one_hash_leave_a_small_zap_able_to_grow() {
    let new = NewZap {
        normflags: FLAG_TOUPPER,
        ..NewZap::default()
    };
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, new);
    let value = ZapValue::from_u64(1);
    // All spellings of one word: bit by bit a capital or a small letter.
    let spelling = |number: u32| -> Vec<u8> {
        let letter = |bit: u8| match number >> bit & 1 {
            0 => b'a' + bit,
            _ => b'A' + bit,
        };
        (0..12).map(letter).collect()
    };
    let mut count = 0_u32;
    let error = loop {
        let key = ZapKey::Name(spelling(count));
        if let Err(error) = zap.insert(&tx, &key, &value) {
            break error;
        }
        count += 1;
        assert!(count < 1000, "more than a leaf holds");
    };
    assert!(matches!(error, DmuError::ZapFull { .. }), "{error}");
    for number in 0..3000 {
        let key = ZapKey::Name(format!("other {number}").into_bytes());
        zap.insert(&tx, &key, &value).expect("another hash");
    }
    let now = set.zap(zap.object().id()).expect("opens");
    for number in 0..count {
        let name = spelling(number);
        assert!(now.lookup(&name).expect("reads").is_some(), "{name:?}");
    }
}

#[test]
fn names_that_are_folded_keep_their_spelling() {
    let new = NewZap {
        normflags: FLAG_TOUPPER,
        ..NewZap::default()
    };
    let mixed_case = |random: &mut Random| {
        let number = random.next(4000);
        let name = format!("Name {number}");
        ZapKey::Name(match random.next(2) {
            0 => name.into_bytes(),
            _ => name.to_lowercase().into_bytes(),
        })
    };
    churn(7, new, 9000, mixed_case, false);
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, new);
    for i in 0..3000 {
        zap.insert_u64(&tx, &format!("Straße {i}"), i).expect("new");
    }
    for i in [0, 1, 1500, 2999] {
        let found = zap.lookup_normalized(format!("sTRAße {i}").as_bytes());
        let (spelling, value) = found.expect("valid").expect("found");
        assert_eq!(spelling, format!("Straße {i}").as_bytes());
        assert_eq!(value.as_u64(), Some(i));
        assert_eq!(
            normalize(&spelling, FLAG_TOUPPER),
            format!("STRAßE {i}").as_bytes()
        );
    }
}

#[test]
fn counters_vanish_at_zero() {
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, NewZap::default());
    assert_eq!(zap.increment(&tx, "a", 5).expect("valid"), 5);
    assert_eq!(zap.increment(&tx, "a", -2).expect("valid"), 3);
    // A counter that was too low before.
    assert_eq!(zap.increment(&tx, "a", -4).expect("valid"), u64::MAX);
    assert_eq!(zap.increment(&tx, "a", 4).expect("valid"), 3);
    assert_eq!(zap.lookup_u64("a").expect("valid"), Some(3));
    assert_eq!(zap.increment(&tx, "a", -3).expect("valid"), 0);
    assert_eq!(zap.lookup_u64("a").expect("valid"), None);
    assert_eq!(set.zap(zap.object().id()).expect("opens").count(), 0);
}

#[test]
fn what_no_zap_can_hold_is_refused() {
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, NewZap::default());
    let one = ZapValue::from_u64(1);
    for key in ["", "a\0b", &"x".repeat(1024)] {
        assert!(zap.insert(&tx, key, &one).is_err(), "{key:?}");
    }
    let huge = ZapValue::from_bytes(&[0; 8193]);
    assert!(zap.insert(&tx, "huge", &huge).is_err());
    assert!(zap.insert(&tx, KeyRef::Words(&[1]), &one).is_err());
    check(&set, zap.object().id(), &BTreeMap::new());
}

#[test]
fn listing_goes_on_while_entries_come() {
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, NewZap::default());
    for i in 0..4000 {
        zap.insert_u64(&tx, &format!("old {i}"), i).expect("new");
    }
    let (mut seen, mut cursor) = (HashSet::new(), 0);
    let mut added = 0;
    loop {
        let Some(entry) = set
            .zap(zap.object().id())
            .expect("opens")
            .entries_from(cursor)
            .next()
        else {
            break;
        };
        let entry = entry.expect("valid");
        cursor = entry.cursor;
        assert!(seen.insert(entry.key), "each once");
        if seen.len() % 4 == 0 {
            zap.insert_u64(&tx, &format!("new {added}"), 1)
                .expect("new");
            added += 1;
        }
    }
    let old = seen
        .iter()
        .filter(|key| key.as_str().is_some_and(|name| name.starts_with("old")));
    assert_eq!(old.count(), 4000);
}

#[test]
fn readers_beside_a_writer_find_everything() {
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, NewZap::default());
    for i in 0..3000 {
        zap.insert_u64(&tx, &format!("old {i}"), i).expect("new");
    }
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for i in (0..3000).cycle().take(30_000) {
                let found = zap.lookup_u64(&format!("old {i}")).expect("valid");
                assert_eq!(found, Some(i));
            }
        });
        for i in 0..30_000 {
            zap.insert_u64(&tx, &format!("new {i}"), i).expect("new");
        }
        reader.join().expect("no panic");
    });
}

/// The cost of an insertion must not grow with the table.
#[test]
fn a_million_entries() {
    let (set, tx) = (set(), Transaction::syncing(Txg(5)));
    let zap = new_zap(&set, &tx, NewZap::default());
    let insert = |range: std::ops::Range<u64>| {
        let start = Instant::now();
        for i in range {
            zap.insert_u64(&tx, &format!("file {i:08}"), i)
                .expect("new");
        }
        start.elapsed()
    };
    let early = insert(0..100_000);
    let later = insert(100_000..900_000);
    let late = insert(900_000..1_000_000);
    eprintln!(
        "per 100 000: early {early:?}, later {:?}, late {late:?}",
        later / 8
    );
    assert_eq!(
        set.zap(zap.object().id()).expect("opens").count(),
        1_000_000
    );
    for i in (0..1_000_000).step_by(997) {
        let found = zap.lookup_u64(&format!("file {i:08}")).expect("valid");
        assert_eq!(found, Some(i));
    }
    assert!(late < early * 20, "{early:?} {late:?}");
}
