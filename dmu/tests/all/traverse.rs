//! Both walks over object sets that were changed at random: what they meet is what is in use, in
//! the order that they promise, from any place on, and past any damage.

use crate::common::world::World;
use crate::common::{TestPool, Way, gate, sync};
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId, Txg};
use cenote_codec::cipher::{HmacKey, MasterKey, Suite};
use cenote_dmu::traverse::{
    Cached, Damage, DamageKind, DiskOrder, Event, Limits, Order, Ordered, Part, Pause, Reader,
    Root, Since, Start, Visit, Visitor, Walk,
};
use cenote_dmu::{
    Block, BlockCache, BlockSink, CacheLimits, DmuError, NewObject, ObjectSet, TxCost, WritePolicy,
    WriteRequest,
};
use cenote_io::ObjsetKeys;
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A set with files of all shapes, and the txgs of its changes.
fn made(seed: u64, groups: usize, way: Way) -> (Arc<TestPool>, BlockPointer) {
    println!("seed {seed}");
    let (pool, gate) = (TestPool::with(192, 32 << 20, way), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let mut world = World::new(seed);
    let mut root = BlockPointer::HOLE;
    for _ in 0..groups {
        for _ in 0..60 {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            world.step(&set, &tx);
        }
        root = sync(&pool, &gate, &set);
    }
    (pool, root)
}

/// The set, opened again with nothing cached.
fn reopened(pool: &TestPool, root: BlockPointer) -> Arc<ObjectSet> {
    pool.reopen(root, ObjsetId(7))
}

/// An empty cache.
fn cold(pool: &TestPool) -> Arc<BlockCache> {
    let (pipeline, workers) = (pool.cache.pipeline(), pool.cache.workers());
    let limits = CacheLimits::of_total(32 << 20);
    Arc::new(BlockCache::new(
        Arc::clone(pipeline),
        Arc::clone(workers),
        limits,
    ))
}

fn root_at(pointer: BlockPointer) -> Root {
    Root {
        objset: ObjsetId(7),
        start: Start::Objset(pointer),
        since: Since::EVER,
        keys: None,
    }
}

fn walk_of(set: &Arc<ObjectSet>, since: Since, walk: Walk) -> Ordered {
    Ordered::new(Arc::clone(set.cache()), Root::of_set(set, since), walk)
}

/// The blocks of a walk that meets no damage.
fn blocks(walk: Ordered) -> Vec<Visit> {
    let block = |event| match event {
        Event::Block(visit) => Some(visit),
        Event::Damage(damage) => panic!("{damage:?}"),
        _ => None,
    };
    walk.filter_map(block).collect()
}

fn places(visits: &[Visit]) -> Vec<(bool, Bookmark)> {
    let place = |visit: &Visit| (visit.part == Part::Objset, visit.bookmark);
    visits.iter().map(place).collect()
}

fn addresses<'a>(visits: impl IntoIterator<Item = &'a Visit>) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for dva in visits.into_iter().flat_map(|visit| visit.pointer.dvas()) {
        assert!(found.insert(dva.offset(), dva.asize()).is_none(), "twice");
    }
    found
}

#[test]
fn both_orders_meet_what_is_in_use() {
    for (seed, way) in [(1, Way::Plain), (2, Way::Plain), (3, Way::Pipeline)] {
        let (pool, root) = made(seed, 8, way);
        let set = reopened(&pool, root);
        let pre = blocks(walk_of(&set, Since::EVER, Walk::default()));
        let order = Order::Post;
        let post = blocks(walk_of(
            &set,
            Since::EVER,
            Walk {
                order,
                ..Walk::default()
            },
        ));
        assert_eq!(addresses(&pre), pool.in_use());
        assert_eq!(addresses(&post), pool.in_use());
        assert!(pre.len() > 100 && pre.len() == post.len());
        assert_eq!(pre[0], post[post.len() - 1], "the root");
    }
}

/// Parents before children and neighbours in order, or the other way round for parents.
#[test]
fn the_orders_are_those_of_bookmarks() {
    let (pool, root) = made(4, 8, Way::Plain);
    let set = reopened(&pool, root);
    for order in [Order::Pre, Order::Post] {
        let mut last: BTreeMap<(ObjectId, Level), BlockId> = BTreeMap::new();
        let mut objects: BTreeSet<ObjectId> = BTreeSet::new();
        let mut told = BTreeSet::new();
        for event in walk_of(
            &set,
            Since::EVER,
            Walk {
                order,
                ..Walk::default()
            },
        ) {
            match event {
                Event::Object(object, dnode) => {
                    assert!(objects.last().is_none_or(|last| *last < object));
                    objects.insert(object);
                    let read = set.dnode(object).expect("readable");
                    assert!(object.0 == 0 || read.is_some_and(|read| read == *dnode));
                }
                Event::Block(visit) if visit.part != Part::Objset => {
                    let Bookmark {
                        object,
                        level,
                        block,
                        ..
                    } = visit.bookmark;
                    let before = last.insert((object, level), block);
                    assert!(before.is_none_or(|before| before < block));
                    assert!(object.0 == 0 || objects.last() == Some(&object));
                    let parent = Level(level.0 + 1);
                    let above = (object, parent, block.0 >> visit.fanout_shift);
                    let is_told = told.contains(&above);
                    let has_parent = visit.part == Part::Tree
                        && set
                            .object(object)
                            .is_ok_and(|o| o.dnode().levels > parent.0);
                    assert!(!has_parent || is_told == (order == Order::Pre), "{visit:?}");
                    told.insert((object, level, block.0));
                }
                _ => {}
            }
        }
        let ids = set
            .objects(ObjectId(1))
            .map(|found| found.expect("readable").0);
        assert!(ids.eq(objects.into_iter().filter(|id| id.0 != 0)));
    }
}

#[test]
fn a_walk_goes_on_from_any_place() {
    let (pool, root) = made(5, 4, Way::Plain);
    let set = reopened(&pool, root);
    for order in [Order::Pre, Order::Post] {
        let whole = blocks(walk_of(
            &set,
            Since::EVER,
            Walk {
                order,
                ..Walk::default()
            },
        ));
        for (index, visit) in whole.iter().enumerate() {
            if visit.part == Part::Objset {
                continue;
            }
            let resume = Some(visit.bookmark);
            let walk = Walk {
                order,
                resume,
                ..Walk::default()
            };
            let rest = blocks(walk_of(&set, Since::EVER, walk));
            assert_eq!(
                places(&rest),
                places(&whole[index..]),
                "{order:?} {resume:?}"
            );
        }
        // A place between blocks: those behind it.
        let middle = &whole[whole.len() / 2].bookmark;
        let place = Bookmark::data(middle.objset, ObjectId(middle.object.0 + 1), BlockId(0));
        let (resume, from) = (Some(place), place.object);
        let rest = blocks(walk_of(
            &set,
            Since::EVER,
            Walk {
                order,
                resume,
                ..Walk::default()
            },
        ));
        let objects = |visits: &[Visit]| {
            let later = visits
                .iter()
                .filter(|visit| visit.bookmark.object >= from)
                .cloned();
            places(&later.collect::<Vec<_>>())
        };
        assert_eq!(objects(&rest), objects(&whole));
        assert!(
            rest.iter()
                .all(|visit| { visit.bookmark.object.0 == 0 || visit.bookmark.object >= from })
        );
    }
}

/// What a walk in post-order has left behind may be gone.
#[test]
fn what_lies_before_the_place_is_not_read() {
    let (pool, root) = made(6, 4, Way::Plain);
    let order = Order::Post;
    let set = reopened(&pool, root);
    let whole = blocks(walk_of(
        &set,
        Since::EVER,
        Walk {
            order,
            ..Walk::default()
        },
    ));
    for index in (0..whole.len() - 1).step_by(whole.len() / 12) {
        let (done, left) = whole.split_at(index);
        let harmed: Vec<_> = done
            .iter()
            .map(|visit| visit.pointer.dva(0).offset())
            .map(|offset| (offset, pool.harm(offset)))
            .collect();
        let resume = Some(left[0].bookmark);
        let set = reopened(&pool, root);
        let rest = blocks(walk_of(
            &set,
            Since::EVER,
            Walk {
                order,
                resume,
                ..Walk::default()
            },
        ));
        assert_eq!(places(&rest), places(left));
        assert_eq!(set.cache().pipeline().counters().unreadable.get(), 0);
        for (offset, sector) in harmed {
            pool.mend(offset, &sector);
        }
    }
}

#[test]
fn old_blocks_are_left_out_with_all_below() {
    let (pool, root) = made(7, 8, Way::Plain);
    let set = reopened(&pool, root);
    let whole = blocks(walk_of(&set, Since::EVER, Walk::default()));
    for txg in 4..12 {
        let since = Since::accounting(Txg(txg));
        let young = whole.iter().filter(|visit| since.is_before(&visit.pointer));
        let young: Vec<Visit> = young.cloned().collect();
        let found = blocks(walk_of(&set, since, Walk::default()));
        assert_eq!(places(&found), places(&young));
        assert!(young.len() < whole.len() || txg == 4);
    }
}

/// Holes and blocks together are all of a tree, and free slots and objects all of a set.
#[test]
fn nothing_is_left_out_with_holes_and_free_slots() {
    let (pool, root) = made(8, 8, Way::Plain);
    let set = reopened(&pool, root);
    let mut reached: BTreeMap<ObjectId, u64> = BTreeMap::new();
    let mut slots = BTreeMap::new();
    let mut block_of_dnodes = 0;
    let walk = Walk {
        holes: true,
        free_slots: true,
        ..Walk::default()
    };
    let mut events = walk_of(&set, Since::EVER, walk);
    while let Some(event) = events.next() {
        match event {
            Event::Object(object, dnode) => {
                if object.0 != 0 {
                    slots.insert(object, dnode.slots() as u64);
                }
            }
            Event::FreeSlots { first, count } => {
                slots.insert(first, count);
            }
            Event::Block(visit) | Event::Hole(visit) if visit.part == Part::Tree => {
                block_of_dnodes += u64::from(visit.is_dnodes() && !visit.is_absent());
                if visit.bookmark.level.0 > 0 && !visit.is_absent() {
                    continue;
                }
                let (first, last) = visit.span();
                let next = reached.entry(visit.bookmark.object).or_default();
                assert_eq!(*next, first, "{visit:?}");
                *next = last.saturating_add(1);
                if !visit.is_absent() && !visit.is_dnodes() {
                    let contents = events.read(&visit).expect("readable");
                    assert_eq!(contents.len() as u64, visit.data_size);
                }
            }
            Event::Block(_) => {}
            Event::Hole(_) => panic!("no spill block is a hole"),
            Event::Damage(damage) => panic!("{damage:?}"),
        }
    }
    for (object, reached) in reached {
        let dnode = set.dnode(object).expect("readable");
        assert!(dnode.is_none_or(|dnode| dnode.block_id_max.0 < reached));
    }
    let (mut expected, total) = (0, slots.values().sum::<u64>());
    for (first, count) in slots {
        assert!(first.0 >= expected);
        expected = first.0 + count;
    }
    // Slot 0 is of no object, and reported as free.
    assert_eq!(total, block_of_dnodes * 32);
}

#[test]
fn a_range_of_an_object_and_what_is_skipped() {
    let (pool, root) = made(9, 8, Way::Plain);
    let set = reopened(&pool, root);
    let found = set
        .objects(ObjectId(1))
        .map(|found| found.expect("readable"));
    let (id, dnode) = found
        .max_by_key(|(_, dnode)| dnode.levels)
        .expect("there are some");
    assert!(dnode.levels > 2);
    let object = set.object(id).expect("it exists");
    let cache = || Arc::clone(set.cache());
    let whole = blocks(Ordered::new(
        cache(),
        Root::of_object(&object, Since::EVER),
        Walk::default(),
    ));
    let data: Vec<u64> = whole.iter().map(|visit| visit.span().0).collect();
    for (first, last) in [(0, 0), (3, 40), (data[data.len() / 2], u64::MAX)] {
        let walk = Walk::default().over(BlockId(first), BlockId(last));
        let found = blocks(Ordered::new(
            cache(),
            Root::of_object(&object, Since::EVER),
            walk,
        ));
        let wanted = whole.iter().filter(|visit| {
            let (from, to) = visit.span();
            from <= last && to >= first
        });
        assert_eq!(places(&found), places(&wanted.cloned().collect::<Vec<_>>()));
    }
    let walk = Walk {
        lowest: Level(1),
        ..Walk::default()
    };
    let high = blocks(Ordered::new(
        cache(),
        Root::of_object(&object, Since::EVER),
        walk,
    ));
    let wanted = whole.iter().filter(|visit| visit.is_indirect()).cloned();
    assert_eq!(places(&high), places(&wanted.collect::<Vec<_>>()));
    // Nothing below the first block, and of one object nothing at all.
    let mut walk = walk_of(&set, Since::EVER, Walk::default());
    while let Some(event) = walk.next() {
        match event {
            Event::Object(object, _) if object == id => walk.pass_over(),
            Event::Block(visit) => assert_ne!(visit.bookmark.object, id),
            _ => {}
        }
    }
    let mut walk = walk_of(&set, Since::EVER, Walk::default());
    assert!(matches!(walk.next(), Some(Event::Block(_))));
    walk.pass_over();
    assert!(walk.next().is_none());
}

/// What cannot be read is reported with its place; a walk that begins there meets the rest when it
/// is well again.
#[test]
fn damage_is_told_of_and_passed() {
    let (pool, root) = made(10, 5, Way::Plain);
    let set = reopened(&pool, root);
    let order = Order::Post;
    let whole = blocks(walk_of(
        &set,
        Since::EVER,
        Walk {
            order,
            ..Walk::default()
        },
    ));
    let leading = whole.iter().filter(|visit| visit.leads_on());
    let mut below_all = 0;
    for bad in leading.step_by(3) {
        let offset = bad.pointer.dva(0).offset();
        let sector = pool.harm(offset);
        let walk = Walk {
            order,
            ..Walk::default()
        };
        let (mut met, mut damages) = (Vec::new(), Vec::new());
        let mut before = 0;
        for event in Ordered::new(cold(&pool), root_at(root), walk) {
            match event {
                Event::Block(visit) => met.push(visit),
                Event::Damage(damage) => {
                    before = met.len();
                    damages.push(damage);
                }
                _ => {}
            }
        }
        pool.mend(offset, &sector);
        let [damage]: [Box<Damage>; 1] = damages.try_into().expect("one");
        assert_eq!((damage.kind, &damage.visit), (DamageKind::Unreadable, bad));
        assert!(damage.error.is_damage());
        assert_eq!(&met[before], bad, "the damaged block itself is reported");
        below_all += whole.len() - met.len();
        let resume = damage.resume;
        let rest = blocks(walk_of(
            &set,
            Since::EVER,
            Walk {
                order,
                resume,
                ..Walk::default()
            },
        ));
        assert_eq!(before + rest.len(), whole.len(), "{resume:?} of {bad:?}");
    }
    assert!(below_all > 20);
}

/// Stores a block of pointers as one of a file with 32 of them in an indirect block.
fn stored(pool: &TestPool, level: u8, pointers: &[BlockPointer]) -> BlockPointer {
    let mut data: Vec<u8> = pointers.iter().flat_map(BlockPointer::encode).collect();
    data.resize(4096, 0);
    let request = WriteRequest {
        data: Arc::new(data.into()),
        bookmark: Bookmark::default(),
        object_type: ObjectType::PLAIN_FILE,
        level: Level(level),
        fill: 1,
        policy: WritePolicy::default(),
        keys: None,
        previous: None,
        form: None,
    };
    let written = pool.write(Txg(9), vec![request]).pop().expect("an answer");
    written.expect("it is written")
}

/// A file in which one indirect block is all 32 of another, and that 32 times of the next: a walk
/// that believed it would meet a billion blocks. Others are on the wrong level, or embedded.
#[test]
fn trees_made_by_an_enemy_end() {
    let (pool, gate) = (TestPool::new(16), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    let new = NewObject {
        indirect_shift: 12,
        ..NewObject::new(ObjectType::PLAIN_FILE, 4096)
    };
    let file = set.allocate(&tx, new).expect("room");
    file.write(&tx, 0, &[1; 4096]).expect("written");
    let id = file.id();
    drop(tx);
    let root = sync(&pool, &gate, &set);
    let set = reopened(&pool, root);
    let mut dnode = set.dnode(id).expect("readable").expect("it exists");
    let mut top = dnode.block_pointers[0];
    for level in 1..6 {
        let mut embedded = top;
        embedded.words[6] |= 1 << 39;
        let below = dnode.block_pointers[0];
        let entries = match level {
            3 => [vec![top; 29], vec![below, embedded]].concat(),
            _ => vec![top; 32],
        };
        top = stored(&pool, level, &entries);
    }
    (dnode.levels, dnode.block_pointers) = (6, vec![top]);
    let root = Root {
        start: Start::Dnode(id, Arc::new(dnode)),
        ..root_at(root)
    };
    for order in [Order::Pre, Order::Post] {
        let walk = Walk {
            order,
            ..Walk::default()
        };
        let (mut met, mut refused) = (0, 0);
        for event in Ordered::new(cold(&pool), root.clone(), walk) {
            match event {
                Event::Block(_) => met += 1,
                Event::Damage(damage) => {
                    assert_eq!(damage.kind, DamageKind::Refused);
                    refused += 1;
                }
                _ => {}
            }
        }
        // Five indirect blocks, and 32 times the one of data.
        assert_eq!((met, refused), (5 + 32, 31 + 31 + (28 + 2) + 31));
    }
    let mut seen = collected(&pool);
    let workers = Arc::clone(pool.cache.workers());
    let mut walk = DiskOrder::new(vec![root], workers, Limits::default());
    assert_eq!(walk.run(&mut seen), Pause::Finished);
    assert_eq!(
        (seen.met.len(), seen.damaged.len()),
        (5 + 32, 31 + 31 + 30 + 31)
    );
}

/// Collects what it meets, and stops on request.
#[derive(Default)]
struct Collected {
    cache: Option<Arc<BlockCache>>,
    met: Vec<Visit>,
    damaged: Vec<(Visit, DmuError)>,
    steps_left: Option<u64>,
    wants_data: Option<bool>,
}

impl Visitor for Collected {
    type Reader = Cached;

    fn reader(&self) -> Cached {
        Cached(Arc::clone(self.cache.as_ref().expect("it is set")))
    }

    fn wants(&mut self, visit: &Visit) -> bool {
        visit.leads_on() || self.wants_data != Some(false)
    }

    fn admit(&mut self, _: &Visit) -> bool {
        true
    }

    fn found(&mut self, visit: &Visit, found: <Cached as Reader>::Found) -> Option<Block> {
        self.met.push(visit.clone());
        match found {
            Ok(contents) => contents,
            Err(error) => {
                self.damaged(visit, error);
                None
            }
        }
    }

    fn damaged(&mut self, visit: &Visit, error: DmuError) {
        self.damaged.push((visit.clone(), error));
    }

    fn goes_on(&mut self, _: Option<usize>) -> bool {
        let left = self.steps_left.map(|left| left.checked_sub(1));
        self.steps_left = left.flatten();
        left != Some(None)
    }

    fn progressed(&mut self, _: Option<usize>) {}
}

fn collected(pool: &TestPool) -> Collected {
    let cache = Some(cold(pool));
    Collected {
        cache,
        ..Collected::default()
    }
}

fn sorted(visits: &[Visit]) -> Vec<(bool, Bookmark)> {
    let mut places = places(visits);
    places.sort_unstable();
    places
}

#[test]
fn the_order_of_addresses_meets_the_same() {
    let (pool, root) = made(12, 8, Way::Plain);
    let set = reopened(&pool, root);
    let workers = Arc::clone(pool.cache.workers());
    for txg in [0, 6, 9] {
        let since = Since::accounting(Txg(txg));
        let whole = blocks(walk_of(&set, since, Walk::default()));
        let roots = vec![Root::of_set(&set, since)];
        let mut visitor = collected(&pool);
        let mut walk = DiskOrder::new(roots.clone(), Arc::clone(&workers), Limits::default());
        assert_eq!(walk.run(&mut visitor), Pause::Finished);
        assert!(visitor.damaged.is_empty() && walk.resume_point().is_none());
        assert_eq!(sorted(&visitor.met), sorted(&whole));
        // Stopped after each step and stored, with small lists.
        let limits = Limits {
            batch: 3,
            leaves: 40,
            group_bytes: 4096,
            groups: 2,
        };
        let mut visitor = collected(&pool);
        let mut walk = DiskOrder::new(roots.clone(), Arc::clone(&workers), limits);
        loop {
            visitor.steps_left = Some(1);
            if walk.run(&mut visitor) == Pause::Finished {
                break;
            }
            let again = |visits: &[Visit]| {
                let decoded = visits.iter().map(|visit| {
                    let mut bytes = Vec::new();
                    visit.encode(&mut bytes);
                    Visit::decode(&bytes, 1).expect("it was encoded")
                });
                decoded.collect::<Vec<_>>()
            };
            let (begun, stack, leaves) = walk.pending();
            let (begun, stack, leaves) = (begun, again(stack), again(leaves));
            walk = DiskOrder::new(roots.clone(), Arc::clone(&workers), limits);
            walk.restore(begun, stack, leaves);
        }
        assert_eq!(sorted(&visitor.met), sorted(&whole));
    }
}

/// A walk that knows nothing but a bookmark of the one before meets what that did not.
#[test]
fn the_order_of_addresses_goes_on_at_a_bookmark() {
    let (pool, root) = made(13, 8, Way::Plain);
    let set = reopened(&pool, root);
    let whole = sorted(&blocks(walk_of(&set, Since::EVER, Walk::default())));
    let workers = Arc::clone(pool.cache.workers());
    let limits = Limits {
        batch: 4,
        leaves: 20,
        ..Limits::default()
    };
    let new = || {
        DiskOrder::new(
            vec![Root::of_set(&set, Since::EVER)],
            Arc::clone(&workers),
            limits,
        )
    };
    let (mut met, mut told, mut rounds) = (BTreeSet::new(), 0, 0);
    let mut place = new().resume_point();
    while let Some(resume) = place {
        let mut walk = new();
        walk.resume_at(resume);
        let mut visitor = collected(&pool);
        // More than from a place to the first blocks behind it.
        visitor.steps_left = Some(20);
        let pause = walk.run(&mut visitor);
        walk.drain(&mut visitor);
        assert!(visitor.damaged.is_empty());
        told += visitor.met.len();
        met.extend(places(&visitor.met));
        rounds += 1;
        assert!(rounds < 1000, "it gets nowhere");
        place = walk.resume_point();
        assert!(place.is_none() || pause == Pause::Stopped);
    }
    assert!(rounds > 3);
    assert_eq!(met.into_iter().collect::<Vec<_>>(), whole);
    assert!(
        told < 3 * whole.len(),
        "{told} of {} in {rounds} rounds",
        whole.len()
    );
}

#[test]
fn data_that_is_not_wanted_is_not_read() {
    let (pool, root) = made(14, 5, Way::Plain);
    let set = reopened(&pool, root);
    let whole = blocks(walk_of(&set, Since::EVER, Walk::default()));
    let mut visitor = collected(&pool);
    visitor.wants_data = Some(false);
    let workers = Arc::clone(pool.cache.workers());
    let mut walk = DiskOrder::new(vec![root_at(root)], workers, Limits::default());
    assert_eq!(walk.run(&mut visitor), Pause::Finished);
    let leading = whole.iter().filter(|visit| visit.leads_on()).cloned();
    assert_eq!(sorted(&visitor.met), sorted(&leading.collect::<Vec<_>>()));
}

/// Without keys everything is met, and nothing but contents is out of reach.
#[test]
fn encrypted_sets_are_walked_without_keys() {
    let (master, hmac) = (
        MasterKey::new(Suite::Aes256Gcm, [7; 32]),
        HmacKey::new([9; 64]),
    );
    let keys = Arc::new(ObjsetKeys::new(master, hmac));
    let (pool, root) = made(15, 5, Way::Encrypted(keys));
    let set = reopened(&pool, root);
    let whole = blocks(walk_of(&set, Since::EVER, Walk::default()));
    let mut walk = Ordered::new(cold(&pool), root_at(root), Walk::default());
    let (mut met, mut locked) = (Vec::new(), 0);
    while let Some(event) = walk.next() {
        match event {
            Event::Block(visit) => {
                let is_locked = walk
                    .read(&visit)
                    .is_err_and(|error| error.is_key_not_loaded());
                locked += usize::from(is_locked);
                met.push(visit);
            }
            Event::Damage(damage) => panic!("{damage:?}"),
            _ => {}
        }
    }
    assert_eq!(places(&met), places(&whole));
    let data = whole.iter().filter(|visit| !visit.leads_on()).count();
    assert!(locked > 0 && locked <= data);
    assert!(data - locked < 20, "but for embedded ones");
}
