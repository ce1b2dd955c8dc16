//! Object sets that are changed at random, beside a model of plain maps.
//!
//! After each sync the set is read back from its root alone and compared, and all that its
//! blocks say about each other is checked: fills, births, space used, nothing leaked, nothing
//! given up that is still in use.

use crate::common::world::World;
use crate::common::{TestPool, Way, gate, sync};
use cenote_base::{BlockId, Level, ObjectId, ObjsetId, Txg};
use cenote_codec::cipher::{HmacKey, MasterKey, Suite};
use cenote_dmu::{Object, TxCost};
use cenote_io::ObjsetKeys;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::objset::ObjsetKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a tree is made of, as its pointers tell.
struct Audit<'a> {
    blocks: BTreeMap<u64, u64>,
    txg: Txg,
    object: &'a Object,
}

impl Audit<'_> {
    /// Checks all below `pointer`; returns its fill.
    fn visit(&mut self, pointer: &BlockPointer, level: u8, block: u64, space: &mut u64) -> u64 {
        if pointer.is_hole() {
            assert_eq!(pointer.fill(), 0);
            return 0;
        }
        assert!(pointer.logical_birth() <= self.txg && pointer.level() == Level(level));
        for dva in pointer.dvas() {
            let before = self.blocks.insert(dva.offset(), dva.asize());
            assert!(before.is_none(), "referred to twice");
            *space += dva.asize();
        }
        if level == 0 {
            if self.object.id() == ObjectId(0) {
                return pointer.fill();
            }
            assert_eq!(pointer.fill(), 1);
            return 1;
        }
        let fanout = self.object.dnode().indirect_fanout_shift();
        let mut fill = 0;
        let mut all_holes = true;
        for index in 0..1_u64 << fanout {
            let child = (block << fanout) + index;
            let found = self
                .object
                .block_pointer(level - 1, BlockId(child))
                .expect("good");
            assert!(
                found.logical_birth() <= pointer.logical_birth(),
                "a child is younger"
            );
            all_holes &= found.is_hole();
            fill += self.visit(&found, level - 1, child, space);
        }
        assert!(!all_holes, "an indirect block of nothing but holes");
        assert_eq!(fill, pointer.fill(), "level {level} block {block}");
        fill
    }

    fn object(&mut self) -> u64 {
        let dnode = self.object.dnode().clone();
        let (mut space, mut fill) = (0, 0);
        for (block, pointer) in (0..).zip(&dnode.block_pointers) {
            fill += self.visit(pointer, dnode.levels - 1, block, &mut space);
        }
        if let Some(spill) = dnode.spill.filter(|spill| !spill.is_hole()) {
            for dva in spill.dvas() {
                assert!(self.blocks.insert(dva.offset(), dva.asize()).is_none());
                space += dva.asize();
            }
        }
        assert_eq!(dnode.used_bytes(), space, "object {}", self.object.id());
        fill
    }
}

/// Checks what the blocks of a set on disk say about each other, and that they are all there is.
fn audit(pool: &TestPool, root: BlockPointer, txg: Txg) {
    let set = pool.reopen(root, ObjsetId(7));
    let of_root = root.dvas().map(|dva| (dva.offset(), dva.asize()));
    let mut blocks: BTreeMap<u64, u64> = of_root.collect();
    let mut objects = vec![set.meta_object()];
    let mut count = 0;
    for found in set.objects(ObjectId(0)) {
        let (id, _) = found.expect("the dnodes are good");
        objects.push(set.object(id).expect("it is there"));
        count += 1;
    }
    assert_eq!(
        root.fill(),
        count,
        "the root's fill is the number of objects"
    );
    for object in &objects {
        let mut audit = Audit {
            blocks,
            txg,
            object,
        };
        let fill = audit.object();
        assert!(object.id() != ObjectId(0) || fill == count);
        blocks = audit.blocks;
    }
    assert_eq!(
        blocks,
        pool.in_use(),
        "blocks referred to and blocks in use"
    );
}

fn run(seed: u64, groups: u64, steps: u64, way: Way) {
    println!("seed {seed}");
    let (pool, gate) = (TestPool::with(192, 32 << 20, way), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let mut world = World::new(seed);
    for _ in 0..groups {
        for _ in 0..steps {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            world.step(&set, &tx);
        }
        if world.random.below(3) == 0 {
            world.compare(&set);
        }
        let root = sync(&pool, &gate, &set);
        assert_eq!(gate.dirty_bytes(), 0, "all is clean");
        audit(&pool, root, gate.synced_txg());
        world.compare(&pool.reopen(root, ObjsetId(7)));
        if world.random.below(3) == 0 {
            world.compare(&set);
        }
    }
}

#[test]
fn random_changes_are_what_the_model_says() {
    for seed in 1..=6 {
        run(seed, 25, 40, Way::Plain);
    }
}

#[test]
fn compressed_and_embedded_blocks_are_accounted_alike() {
    for seed in 11..=13 {
        run(seed, 15, 40, Way::Pipeline);
    }
}

#[test]
fn encrypted_sets_are_written_as_they_are_read() {
    for (seed, suite) in [(21, Suite::Aes256Gcm), (22, Suite::Aes128Ccm)] {
        let (master, hmac) = (MasterKey::new(suite, [7; 32]), HmacKey::new([9; 64]));
        let keys = Arc::new(ObjsetKeys::new(master, hmac));
        run(seed, 12, 40, Way::Encrypted(keys));
    }
}

/// The meta object set is written again and again in one group, in its own place if it fits.
#[test]
fn passes_of_one_group_leave_nothing_behind() {
    let pool = TestPool::with(64, 32 << 20, Way::Pipeline);
    let set = pool.create_meta();
    let mut world = World::new(31);
    for txg in (4..24).map(Txg) {
        let mut root = BlockPointer::HOLE;
        for pass in 1..5 {
            pool.pass.store(pass, std::sync::atomic::Ordering::Relaxed);
            let tx = cenote_dmu::Transaction::syncing(txg);
            for _ in 0..20 {
                world.step(&set, &tx);
            }
            drop(tx);
            assert!(set.is_dirty_in(txg));
            root = set.sync(txg, &*pool, &*pool).expect("the sync works");
            world.compare(&set);
        }
        assert!(!set.is_dirty_in(txg));
        pool.end_txg();
        audit(&pool, root, txg);
        world.compare(&pool.reopen(root, ObjsetId(7)));
    }
}

#[test]
fn changes_go_on_while_a_group_is_synced() {
    let (pool, gate) = (TestPool::new(64), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 0);
    let mut world = World::new(99);
    for _ in 0..20 {
        for _ in 0..20 {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            world.step(&set, &tx);
        }
        // The group is frozen, and the next one changes the same objects before it is synced.
        let quiesced = gate.quiesce().expect("not suspended");
        let frozen = world.model.clone();
        for _ in 0..20 {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            world.step(&set, &tx);
        }
        let root = set
            .sync(quiesced.txg, &*pool, &*pool)
            .expect("the sync works");
        pool.end_txg();
        gate.synced(quiesced.txg);
        world.compare(&set);
        audit(&pool, root, quiesced.txg);
        let newest = std::mem::replace(&mut world.model, frozen);
        world.compare(&pool.reopen(root, ObjsetId(7)));
        world.model = newest;
        sync(&pool, &gate, &set);
    }
}
