//! Random changes to an object set and the model that they are compared with.

use cenote_base::{BlockId, ObjectId};
use cenote_dmu::{BlockBuffer, NewObject, Object, ObjectSet, Transaction};
use cenote_ondisk::ObjectType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pseudo-random numbers from a seed that a failing test prints.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// An object as it should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelObject {
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

/// An object set's model, and what changes both.
pub struct World {
    pub random: Random,
    pub model: BTreeMap<ObjectId, ModelObject>,
    /// The type of objects and that of their bonus buffers.
    pub types: (ObjectType, ObjectType),
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            model: BTreeMap::new(),
            types: (ObjectType::PLAIN_FILE, ObjectType::SYSTEM_ATTRIBUTES),
        }
    }

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

    fn allocate(&mut self, set: &Arc<ObjectSet>, tx: &Transaction) {
        let block_size = [512, 1024, 4096, 1536][self.random.below(4) as usize];
        let slots = [1, 1, 1, 2, 3][self.random.below(5) as usize];
        let bonus = vec![self.random.next() as u8; self.random.below(150) as usize];
        let mut new = NewObject::new(self.types.0, block_size);
        new.indirect_shift = 12;
        new.slots = slots;
        if !bonus.is_empty() {
            new = new.with_bonus(self.types.1, bonus.clone());
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

    fn write(&mut self, object: &Object, tx: &Transaction) {
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
        match self.random.below(2) {
            0 => object.write(tx, offset, &data).expect("it is written"),
            _ => self.write_buffers(object, tx, offset, &data),
        }
        let model = self.model.get_mut(&object.id()).expect("in the model");
        model.write(offset, &data);
    }

    /// In pieces, which are blocks' size more often than not, with bytes behind the end.
    fn write_buffers(&mut self, object: &Object, tx: &Transaction, offset: u64, data: &[u8]) {
        let block_size = self.model[&object.id()].block_size;
        let size = match self.random.below(4) {
            0 => 1 + self.random.below(2 * block_size),
            _ => block_size,
        };
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(size as usize), 0xdd);
        let pieces = padded.chunks(size as usize);
        let mut buffers: Vec<_> = pieces.map(BlockBuffer::copy_of).collect();
        let written = object.write_buffers(tx, offset, &mut buffers, data.len());
        written.expect("it is written");
        let is_block = size == block_size && offset.is_multiple_of(block_size);
        let whole = data.len() / size as usize;
        if is_block {
            assert!(buffers[..whole].iter().all(|buffer| buffer.is_empty()));
        }
    }

    fn free(&mut self, object: &Object, tx: &Transaction) {
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

    fn change_attributes(&mut self, object: &Object, tx: &Transaction) {
        let model = self.model.get_mut(&object.id()).expect("in the model");
        match self.random.below(4) {
            0 if !model.bonus.is_empty() => {
                let bonus = vec![self.random.next() as u8; model.bonus.len()];
                object
                    .set_bonus(tx, self.types.1, bonus.clone())
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

    /// Changes or compares something.
    pub fn step(&mut self, set: &Arc<ObjectSet>, tx: &Transaction) {
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

    /// Compares all objects.
    pub fn compare(&self, set: &Arc<ObjectSet>) {
        let listed: Vec<ObjectId> = set
            .objects(ObjectId(0))
            .map(|found| found.expect("the dnodes are good").0)
            .collect();
        let expected: Vec<ObjectId> = self.model.keys().copied().collect();
        assert_eq!(listed, expected);
        // Many at once, in another order and with numbers that are free: before they are opened
        // one by one, after which all are in the table.
        let last = expected.last().map_or(0, |id| id.0);
        let asked: Vec<_> = (1..last + 40).rev().map(ObjectId).collect();
        for (id, dnode) in asked.iter().zip(set.dnodes_at(&asked)) {
            let bonus = dnode.ok().map(|dnode| dnode.bonus);
            assert_eq!(
                bonus,
                self.model.get(id).map(|model| model.bonus.clone()),
                "{id}"
            );
        }
        for id in expected {
            self.compare_object(&set.object(id).expect("it is there"));
        }
    }
}
