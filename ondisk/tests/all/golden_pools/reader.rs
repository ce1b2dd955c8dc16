//! Reads blocks, objects and ZAPs of a golden pool whose vdevs are single disks or mirrors.

use cenote_base::{BlockId, Level, ObjectId};
use cenote_codec::Compression;
use cenote_codec::compress::decompress;
use cenote_ondisk::label::{self, CONFIG_OFFSET, CONFIG_SIZE, UberblockRing};
use cenote_ondisk::zap::{self, Entry, FatHeader, Form, Leaf, MicroZap};
use cenote_ondisk::{
    BlockPointer, CompressionKind, Dnode, NvList, Objset, PoolConfig, Uberblock, byteswap,
};
use cenote_tests::golden::Golden;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A device's size and contents.
pub struct Device {
    pub file: File,
    pub size: u64,
}

impl Device {
    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, offset)
            .expect("the image is that long");
        bytes
    }

    /// The configuration in one of the labels.
    pub fn config(&self, label: usize) -> NvList {
        let offset = label::label_offset(self.size, label).expect("room for labels");
        let piece = self.read(offset + CONFIG_OFFSET, CONFIG_SIZE as usize);
        label::decode_config(&piece).expect("a valid configuration")
    }

    /// The best uberblock of a label's ring; slots are judged by their magic only.
    pub fn uberblock(&self, label: usize, ring: UberblockRing) -> Uberblock {
        let start = label::label_offset(self.size, label).expect("room for labels");
        (0..ring.slots())
            .filter_map(|slot| {
                let offset = start + label::UBERBLOCK_RING_OFFSET + ring.slot_offset(slot);
                Uberblock::decode(&self.read(offset, ring.slot_size() as usize)).ok()
            })
            .max_by_key(Uberblock::rank)
            .expect("an uberblock")
    }
}

/// The devices of a golden pool in the order of the manifest; `None` when it is not here.
pub fn devices(kind: &str) -> Option<(Golden, Vec<Device>)> {
    let golden = Golden::find(kind).expect("a readable manifest")?;
    let directory = golden.devices().expect("unpacking works");
    let devices = golden.device_names().into_iter().map(|name| {
        let file = File::open(directory.join(name)).expect("unpacked");
        let size = file.metadata().expect("a file").len();
        Device { file, size }
    });
    let devices = devices.collect();
    Some((golden, devices))
}

/// An open pool.
pub struct Pool {
    pub golden: Golden,
    pub uberblock: Uberblock,
    /// One device of each top-level vdev that has devices.
    vdevs: BTreeMap<u64, Device>,
}

impl Pool {
    /// Opens a golden pool; `None` when it is not here.
    pub fn open(kind: &str) -> Option<Self> {
        let (golden, devices) = devices(kind)?;
        let mut vdevs = BTreeMap::new();
        let mut best: Option<Uberblock> = None;
        for device in devices {
            let config = PoolConfig::decode(&device.config(0)).expect("valid");
            let Some(tree) = config.vdev_tree.filter(|_| config.txg.is_some()) else {
                continue;
            };
            let ring = UberblockRing::new(tree.ashift.expect("top-level vdevs have one"));
            let uberblock = device.uberblock(0, ring);
            if best
                .as_ref()
                .is_none_or(|best| best.rank() < uberblock.rank())
            {
                best = Some(uberblock);
            }
            vdevs.insert(tree.id.expect("top-level vdevs have one").0, device);
        }
        Some(Self {
            golden,
            uberblock: best.expect("an uberblock"),
            vdevs,
        })
    }

    /// The contents of a block, decompressed and little-endian. A hole gives zeros.
    pub fn read(&self, pointer: &BlockPointer) -> Vec<u8> {
        pointer.check().expect("a valid block pointer");
        let size = pointer.logical_size() as usize;
        let stored = if pointer.is_hole() {
            return vec![0; size];
        } else if let Some(payload) = pointer.embedded_payload() {
            payload
        } else {
            self.read_stored(pointer)
        };
        let mut block = expand(pointer, &stored, size);
        if !pointer.is_little_endian() {
            byteswap::swap_block(&mut block, pointer.level(), pointer.object_type())
                .expect("a valid block");
        }
        block
    }

    /// The bytes of a block's first copy on a device that is there.
    pub fn read_stored(&self, pointer: &BlockPointer) -> Vec<u8> {
        assert!(!pointer.is_gang(), "this reader has no gang blocks");
        let (device, dva) = pointer
            .dvas()
            .find_map(|dva| self.vdevs.get(&dva.vdev().0).map(|device| (device, dva)))
            .expect("a copy on a device that is there");
        let offset = label::DATA_OFFSET + dva.offset();
        device.read(offset, pointer.physical_size() as usize)
    }

    /// An object set.
    pub fn objset(&self, pointer: &BlockPointer) -> ObjectSet<'_> {
        let objset = Objset::decode(&self.read(pointer)).expect("a valid object set");
        ObjectSet { pool: self, objset }
    }

    /// The meta object set.
    pub fn mos(&self) -> ObjectSet<'_> {
        self.objset(&self.uberblock.root)
    }
}

fn expand(pointer: &BlockPointer, stored: &[u8], size: usize) -> Vec<u8> {
    let kind = match pointer.compression().expect("checked") {
        CompressionKind::Lz4 => Compression::Lz4,
        CompressionKind::Lzjb => Compression::Lzjb,
        CompressionKind::Zle => Compression::Zle,
        CompressionKind::Zstd => Compression::Zstd,
        CompressionKind::Gzip(level) => Compression::Gzip(level),
        _ => return stored.to_vec(),
    };
    let mut block = vec![0; size];
    decompress(kind, stored, &mut block).expect("a valid stream");
    block
}

/// An object set of a pool.
pub struct ObjectSet<'a> {
    pub pool: &'a Pool,
    pub objset: Objset,
}

impl ObjectSet<'_> {
    /// A data block of an object.
    pub fn block(&self, dnode: &Dnode, block: u64) -> Vec<u8> {
        let hole = || vec![0; dnode.data_block_size as usize];
        let mut level = dnode.levels - 1;
        let Some(index) = dnode.top_index(level, BlockId(block >> shift(dnode, level))) else {
            return hole();
        };
        let mut pointer = dnode.block_pointers[index];
        while level > 0 {
            if pointer.is_hole() {
                return hole();
            }
            assert_eq!(pointer.level(), Level(level));
            let indirect = self.pool.read(&pointer);
            level -= 1;
            let mask = (1 << dnode.indirect_fanout_shift()) - 1;
            let index = (block >> shift(dnode, level)) & mask;
            let start = index as usize * 128;
            pointer = BlockPointer::decode(&indirect[start..]).expect("a whole block");
        }
        if pointer.is_hole() {
            return hole();
        }
        self.pool.read(&pointer)
    }

    /// All data of an object, up to `length` bytes.
    pub fn data(&self, dnode: &Dnode, length: u64) -> Vec<u8> {
        let blocks = length.div_ceil(dnode.data_block_size);
        let mut data: Vec<u8> = (0..blocks)
            .flat_map(|block| self.block(dnode, block))
            .collect();
        data.truncate(length as usize);
        data
    }

    /// Every allocated dnode.
    pub fn dnodes(&self) -> Vec<(ObjectId, Dnode)> {
        let meta = &self.objset.meta_dnode;
        let per_block = meta.data_block_size / 512;
        let mut dnodes = Vec::new();
        for block_id in 0..=meta.block_id_max.0 {
            let block = self.block(meta, block_id);
            let mut slot = 0;
            while slot < per_block {
                let decoded = Dnode::decode(&block[slot as usize * 512..]).expect("a valid dnode");
                let object = ObjectId(block_id * per_block + slot);
                slot += decoded.as_ref().map_or(1, |dnode| dnode.slots() as u64);
                dnodes.extend(decoded.map(|dnode| (object, dnode)));
            }
        }
        dnodes
    }

    /// One dnode.
    pub fn dnode(&self, object: ObjectId) -> Dnode {
        let meta = &self.objset.meta_dnode;
        let per_block = meta.data_block_size / 512;
        let block = self.block(meta, object.0 / per_block);
        let start = (object.0 % per_block) as usize * 512;
        Dnode::decode(&block[start..])
            .expect("a valid dnode")
            .expect("an allocated object")
    }

    /// The entries of a ZAP in the order of iteration. Each is also looked up.
    pub fn zap(&self, dnode: &Dnode) -> Vec<Entry> {
        let block0 = self.block(dnode, 0);
        match zap::form(&block0).expect("a ZAP") {
            Form::Micro => {
                let zap = MicroZap::decode(&block0).expect("valid");
                let entries = zap.sorted(|name| zap.hash(name));
                for entry in &entries {
                    let name = entry.key.as_name().expect("a name");
                    assert_eq!(zap.lookup(name), entry.value.as_u64());
                }
                entries
            }
            Form::Fat => self.fat_zap(dnode, &block0),
        }
    }

    fn fat_zap(&self, dnode: &Dnode, block0: &[u8]) -> Vec<Entry> {
        let header = FatHeader::decode(block0).expect("valid");
        let mut entries = Vec::new();
        let mut leaves = 0;
        let mut next = Some(0);
        while let Some(index) = next {
            let place = header.pointer_place(index);
            let table = self.block(dnode, place.block.0);
            let leaf_block = header.pointer(&table, place).expect("valid").0;
            let block = self.block(dnode, leaf_block);
            let leaf = Leaf::decode(&block, header.has_word_keys()).expect("valid");
            assert!(header.leaf_belongs(index, leaf.prefix, leaf.prefix_length));
            let sorted = leaf.sorted().expect("valid");
            assert_eq!(sorted.len(), leaf.entry_count);
            for entry in sorted {
                let entry = entry.to_entry().expect("valid");
                check_hash(&header, &entry);
                assert!(leaf.covers(entry.hash));
                let found = leaf.lookup(entry.hash, &entry.key).expect("valid");
                let found = found.expect("it is there").to_entry();
                assert_eq!(found.as_ref(), Ok(&entry));
                entries.push(entry);
            }
            leaves += 1;
            next = header.next_leaf_index(index, leaf.prefix_length);
        }
        assert_eq!(
            (leaves, entries.len() as u64),
            (header.leaves, header.entries)
        );
        assert!(entries.is_sorted_by_key(|entry| (entry.hash, entry.cd)));
        entries
    }

    /// A ZAP by object number, as a map from names.
    pub fn names(&self, object: ObjectId) -> BTreeMap<String, Entry> {
        let entries = self.zap(&self.dnode(object)).into_iter();
        let named = entries.map(|entry| (entry.key.as_str().expect("text").to_owned(), entry));
        named.collect()
    }
}

fn check_hash(header: &FatHeader, entry: &Entry) {
    let hash = match (&entry.key, header.normflags) {
        (zap::Key::Words(words), _) => header.hash_words(words),
        (zap::Key::Name(name), 0) => header.hash_name(name),
        (zap::Key::Name(_), _) => return,
    };
    assert_eq!(hash, entry.hash, "{:?}", entry.key);
}

fn shift(dnode: &Dnode, level: u8) -> u32 {
    dnode.indirect_fanout_shift() * u32::from(level)
}
