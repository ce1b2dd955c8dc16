//! Object sets that are changed at random, beside a model of plain maps.
//!
//! After each sync the set is read back from its root alone and compared, and all that its
//! blocks say about each other is checked: fills, births, space used, nothing leaked, nothing
//! given up that is still in use.

mod common;

use cenote_base::{BlockId, Level, ObjectId, ObjsetId, Txg};
use cenote_codec::cipher::{HmacKey, MasterKey, Suite};
use cenote_dmu::{NewObject, Object, ObjectSet, TxCost};
use cenote_io::ObjsetKeys;
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{BlockPointer, ObjectType};
use common::{Random, TestPool, Way, gate, sync};
use std::collections::BTreeMap;
use std::sync::Arc;

const TYPE: ObjectType = ObjectType::PLAIN_FILE;

#[derive(Clone, Debug, Default, PartialEq)]
struct ModelObject {
    block_size: u64,
    /// Contents by block, all zeros left out.
    blocks: BTreeMap<u64, Vec<u8>>,
    bonus: Vec<u8>,
    spill: Option<Vec<u8>>,
    slots: usize,
    /// The highest block that was ever written, by the rules of `dn_maxblkid`.
    last: u64,
}

impl ModelObject {
    fn write(&mut self, offset: u64, data: &[u8]) {
        for (at, byte) in (offset..).zip(data) {
            let (block, index) = (at / self.block_size, (at % self.block_size) as usize);
            let empty = || vec![0; self.block_size as usize];
            self.blocks.entry(block).or_insert_with(empty)[index] = *byte;
            self.last = self.last.max(block);
        }
    }

    fn free(&mut self, offset: u64, length: u64) {
        let object_end = (self.last + 1) * self.block_size;
        let to_end = offset.saturating_add(length) >= object_end;
        let end = offset.saturating_add(length).min(object_end);
        if offset >= end {
            return;
        }
        for (block, contents) in &mut self.blocks {
            for (index, byte) in contents.iter_mut().enumerate() {
                let at = block * self.block_size + index as u64;
                if (offset..end).contains(&at) {
                    *byte = 0;
                }
            }
        }
        if to_end {
            let first = offset.div_ceil(self.block_size);
            self.last = self.last.min(first.saturating_sub(1));
        }
    }

    fn bytes(&self, block: u64) -> Vec<u8> {
        let empty = || vec![0; self.block_size as usize];
        self.blocks.get(&block).cloned().unwrap_or_else(empty)
    }
}

struct World {
    random: Random,
    model: BTreeMap<ObjectId, ModelObject>,
}

impl World {
    fn some_object(&mut self) -> Option<ObjectId> {
        let count = self.model.len() as u64;
        let index = self.random.below(count.max(1)) as usize;
        self.model.keys().nth(index).copied()
    }

    /// An offset that is near the start, in the middle or far out.
    fn offset(&mut self, block_size: u64) -> u64 {
        let range = match self.random.below(8) {
            0..=3 => 4,
            4 | 5 => 60,
            6 => 3000,
            _ => 1 << 30,
        };
        self.random.below(range * block_size)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let byte = self.random.next() as u8;
        match self.random.below(8) {
            0 => vec![0; length],
            _ => (0..length)
                .map(|i| byte.wrapping_add((i / 3) as u8) | 1)
                .collect(),
        }
    }

    fn allocate(&mut self, set: &Arc<ObjectSet>, tx: &cenote_dmu::Transaction) {
        let block_size = [512, 1024, 4096, 1536][self.random.below(4) as usize];
        let slots = [1, 1, 1, 2, 3][self.random.below(5) as usize];
        let bonus = vec![self.random.next() as u8; self.random.below(150) as usize];
        let mut new = NewObject::new(TYPE, block_size);
        new.indirect_shift = 12;
        new.slots = slots;
        if !bonus.is_empty() {
            new = new.with_bonus(ObjectType(44), bonus.clone());
        }
        let object = set.allocate(tx, new).expect("there are numbers");
        let model = ModelObject {
            block_size,
            bonus,
            slots,
            ..ModelObject::default()
        };
        let before = self.model.insert(object.id(), model);
        assert!(before.is_none(), "object {} was in use", object.id());
    }

    fn write(&mut self, object: &Object, tx: &cenote_dmu::Transaction) {
        let block_size = self.model[&object.id()].block_size;
        let is_single = !block_size.is_power_of_two();
        let offset = match is_single {
            true => self.random.below(block_size),
            false => self.offset(block_size),
        };
        let mut length = 1 + self.random.below(5 * block_size);
        let mut offset = offset;
        if is_single {
            length = length.min(block_size - offset);
        } else if self.random.below(2) == 0 {
            (offset, length) = (offset / block_size * block_size, block_size);
        }
        let data = self.bytes(length as usize);
        object.write(tx, offset, &data).expect("it is written");
        let model = self.model.get_mut(&object.id()).expect("in the model");
        model.write(offset, &data);
    }

    fn free(&mut self, object: &Object, tx: &cenote_dmu::Transaction) {
        let block_size = self.model[&object.id()].block_size;
        let offset = match self.random.below(4) {
            0 => 0,
            _ => self.offset(block_size),
        };
        let length = match self.random.below(4) {
            0 => u64::MAX,
            1 => self.random.below(100_000 * block_size),
            _ => self.random.below(20 * block_size),
        };
        object.free_range(tx, offset, length).expect("it is freed");
        let model = self.model.get_mut(&object.id()).expect("in the model");
        model.free(offset, length);
    }

    fn change_attributes(&mut self, object: &Object, tx: &cenote_dmu::Transaction) {
        let model = self.model.get_mut(&object.id()).expect("in the model");
        match self.random.below(4) {
            0 if !model.bonus.is_empty() => {
                let bonus = vec![self.random.next() as u8; model.bonus.len()];
                object
                    .set_bonus(tx, ObjectType(44), bonus.clone())
                    .expect("same size");
                model.bonus = bonus;
            }
            1 => {
                let bytes = vec![7; 512 * (1 + self.random.below(5) as usize)];
                let pointers = object.dnode().block_pointers.len();
                let room = object.dnode().slots() * 512 - 64 - 128 * pointers;
                if room >= model.bonus.len() + 128 {
                    object.set_spill(tx, Some(bytes.clone())).expect("it fits");
                    model.spill = Some(bytes);
                }
            }
            2 => {
                object.set_spill(tx, None).expect("it goes");
                model.spill = None;
            }
            _ if model.last == 0 => {
                let size = [512, 1536, 2048, 4096, 8192][self.random.below(5) as usize];
                object.set_block_size(tx, size).expect("only one block");
                model.block_size = size;
                if let Some(contents) = model.blocks.get_mut(&0) {
                    contents.resize(size as usize, 0);
                }
                model.blocks.retain(|block, _| *block == 0);
            }
            _ => {}
        }
    }

    fn step(&mut self, set: &Arc<ObjectSet>, tx: &cenote_dmu::Transaction) {
        let kind = self.random.below(20);
        if kind < 2 {
            return self.allocate(set, tx);
        }
        let Some(id) = self.some_object() else {
            return self.allocate(set, tx);
        };
        let object = set.object(id).expect("the model has it");
        match kind {
            2 if self.model.len() > 5 => {
                set.free(tx, id).expect("it is freed");
                self.model.remove(&id);
                assert!(set.object(id).is_err());
            }
            3..=6 => self.free(&object, tx),
            7 | 8 => self.change_attributes(&object, tx),
            9 | 10 => self.compare_object(&object),
            _ => self.write(&object, tx),
        }
    }

    fn compare_object(&self, object: &Object) {
        let model = &self.model[&object.id()];
        let dnode = object.dnode();
        assert_eq!(
            dnode.data_block_size,
            model.block_size,
            "object {}",
            object.id()
        );
        assert_eq!(dnode.bonus, model.bonus);
        assert_eq!(dnode.slots(), model.slots);
        assert_eq!(
            dnode.block_id_max,
            BlockId(model.last),
            "object {}",
            object.id()
        );
        let spill = object
            .spill()
            .expect("it is read")
            .map(|spill| spill.to_vec());
        assert_eq!(spill, model.spill);
        // What the object says it has, and what the model has.
        let mut found = Vec::new();
        let mut at = BlockId(0);
        while let Some(block) = object.next_data_block(at).expect("the tree is good") {
            assert!(block >= at);
            found.push(block.0);
            at = BlockId(block.0 + 1);
            let hole = object.next_hole_block(block).expect("the tree is good");
            assert!(hole > block, "{block} has data");
        }
        for (block, contents) in &model.blocks {
            let is_data = contents.iter().any(|byte| *byte != 0);
            assert!(
                !is_data || found.contains(block),
                "block {block} of {}",
                object.id()
            );
        }
        for block in found {
            let contents = object.block(BlockId(block)).expect("it is read");
            let contents = contents.map_or_else(Vec::new, |block| block.to_vec());
            assert!(
                contents == model.bytes(block),
                "block {block} of object {}",
                object.id()
            );
        }
        let length = 40 * model.block_size;
        let mut buffer = vec![1; length as usize];
        object.read(0, &mut buffer).expect("it is read");
        for (block, piece) in (0..).zip(buffer.chunks(model.block_size as usize)) {
            assert!(
                piece == model.bytes(block),
                "block {block} of object {}",
                object.id()
            );
        }
    }

    fn compare(&self, set: &Arc<ObjectSet>) {
        let listed: Vec<ObjectId> = set
            .objects(ObjectId(0))
            .map(|found| found.expect("the dnodes are good").0)
            .collect();
        let expected: Vec<ObjectId> = self.model.keys().copied().collect();
        assert_eq!(listed, expected);
        for id in expected {
            self.compare_object(&set.object(id).expect("it is there"));
        }
    }
}

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
    let mut world = World {
        random: Random::new(seed),
        model: BTreeMap::new(),
    };
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
    let mut world = World {
        random: Random::new(31),
        model: BTreeMap::new(),
    };
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
    let mut world = World {
        random: Random::new(99),
        model: BTreeMap::new(),
    };
    for _ in 0..20 {
        for _ in 0..20 {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            world.step(&set, &tx);
        }
        // The group is frozen, and the next one changes the same objects before it is synced.
        let quiesced = gate.quiesce();
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
