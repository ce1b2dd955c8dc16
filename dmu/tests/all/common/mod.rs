//! A pool in memory for tests of writing: blocks are put one behind the other on one device, and
//! every block that is given up is crossed out, so that using it again shows.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod world;

#[allow(unused_imports, reason = "each test uses a part of it")]
pub use world::Random;

use cenote_base::{Guid, MemoryBudget, ObjsetId, RealEnv, Txg, VdevId};
use cenote_cache::{BlockCache, CacheLimits};
use cenote_codec::Endian;
use cenote_device::{Device, MemoryDevice};
use cenote_dmu::txg::ThrottleLimits;
use cenote_dmu::{
    BlockKind, BlockSink, CreateParams, ObjectSet, PolicySource, TxgGate, WritePolicy, WriteRequest,
};
use cenote_io::{
    Allocation, AllocationRequest, Allocator, IoError, NoSpace, ObjsetKeys, Pipeline,
    PipelineParts, Workers, Writer, WriterParts, checksum,
};
use cenote_ondisk::nvlist::{NvList, NvValue};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, ObjectType, VdevConfig};
use cenote_vdev::{OpenOptions, Vdevs};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;
/// Where the data of a vdev begins on its device.
const DATA: u64 = 4 * MIB;

#[derive(Debug, Default)]
struct Space {
    end: u64,
    /// Size by offset of the blocks in use.
    in_use: BTreeMap<u64, u64>,
    /// Given up in an earlier group: their space is used again.
    reusable: BTreeMap<u64, Vec<u64>>,
    /// Given up in this group.
    freed: Vec<(u64, u64)>,
    /// Blocks that were not written for the set.
    adopted: Vec<BlockPointer>,
}

/// How blocks get to the device.
#[derive(Clone, Debug)]
pub enum Way {
    /// As they are, put there by this module.
    Plain,
    /// Through the pipeline, compressed.
    Pipeline,
    /// Through the pipeline, encrypted.
    Encrypted(Arc<ObjsetKeys>),
}

/// A pool on a memory device.
#[derive(Debug)]
pub struct TestPool {
    pub cache: Arc<BlockCache>,
    writer: Writer,
    device: Arc<MemoryDevice>,
    space: Arc<Mutex<Space>>,
    way: Way,
    /// The pass to write in.
    pub pass: AtomicU32,
}

#[derive(Debug)]
struct Bump(Arc<Mutex<Space>>);

impl Allocator for Bump {
    fn allocate(&self, _: Txg, request: AllocationRequest) -> Result<Allocation, NoSpace> {
        let mut space = self.0.lock().expect("no panic");
        let size = request.size.next_multiple_of(512);
        let dvas: Vec<Dva> = (0..request.copies)
            .map(|_| Dva::new(VdevId(0), space.take(size), size))
            .collect();
        Ok(Allocation::new(&dvas))
    }

    fn undo(&self, _: Txg, allocation: &Allocation) {
        let mut space = self.0.lock().expect("no panic");
        for dva in allocation.dvas() {
            assert!(space.in_use.remove(&dva.offset()).is_some());
        }
    }
}

impl Space {
    fn take(&mut self, size: u64) -> u64 {
        let reused = self.reusable.get_mut(&size).and_then(Vec::pop);
        let offset = reused.unwrap_or(self.end);
        self.end = self.end.max(offset + size);
        assert!(self.in_use.insert(offset, size).is_none());
        offset
    }
}

impl TestPool {
    pub fn new(megabytes: u64) -> Arc<Self> {
        Self::with(megabytes, 32 * MIB, Way::Plain)
    }

    pub fn with(megabytes: u64, cache_bytes: u64, way: Way) -> Arc<Self> {
        let size = usize::try_from(DATA + megabytes * MIB + MIB).expect("small");
        let device = Arc::new(MemoryDevice::new("memory", vec![0; size]));
        let mut leaf = NvList::new();
        leaf.set_str("type", "disk");
        for (name, value) in [
            ("guid", 2),
            ("id", 0),
            ("ashift", 9),
            ("asize", megabytes * MIB),
        ] {
            leaf.set_u64(name, value);
        }
        let mut root = NvList::new();
        root.set_str("type", "root");
        root.set_u64("guid", 1);
        root.set_u64("id", 0);
        root.set("children", NvValue::ListArray(vec![leaf]));
        let config = VdevConfig::decode(&root).expect("a sound tree");
        let devices: HashMap<Guid, Arc<dyn Device>> =
            HashMap::from([(Guid(2), Arc::clone(&device) as Arc<dyn Device>)]);
        let vdevs = Vdevs::open(&config, &devices, &OpenOptions::default()).expect("it opens");
        let pipeline = Pipeline::new(PipelineParts {
            vdevs: Arc::new(vdevs),
            memory: MemoryBudget::new(64 * MIB),
            salt: None,
        });
        let (workers, limits) = (
            Arc::new(Workers::new(2)),
            CacheLimits::of_total(cache_bytes),
        );
        let cache = Arc::new(BlockCache::new(Arc::new(pipeline), workers, limits));
        let space = Arc::default();
        let writer = Writer::new(WriterParts {
            pipeline: Arc::clone(cache.pipeline()),
            env: Arc::new(RealEnv::new()),
            allocator: Arc::new(Bump(Arc::clone(&space))),
            dedup: None,
            repairs: None,
        });
        let pass = AtomicU32::new(1);
        Arc::new(Self {
            cache,
            writer,
            device,
            space,
            way,
            pass,
        })
    }

    /// Forgets what is cached, so that everything is read from the device.
    pub fn reopen(&self, root: BlockPointer, id: ObjsetId) -> Arc<ObjectSet> {
        let (pipeline, workers) = (self.cache.pipeline(), self.cache.workers());
        let limits = CacheLimits::of_total(8 * MIB);
        let cache = BlockCache::new(Arc::clone(pipeline), Arc::clone(workers), limits);
        ObjectSet::open(Arc::new(cache), id, root, self.keys()).expect("the set opens")
    }

    fn keys(&self) -> Option<Arc<ObjsetKeys>> {
        match &self.way {
            Way::Encrypted(keys) => Some(Arc::clone(keys)),
            _ => None,
        }
    }

    pub fn create(&self, gate: &Arc<TxgGate>, kind: ObjsetKind, flags: u64) -> Arc<ObjectSet> {
        let params = CreateParams { flags };
        let (cache, gate) = (Arc::clone(&self.cache), Some(Arc::clone(gate)));
        ObjectSet::create(cache, ObjsetId(7), kind, self.keys(), gate, params)
    }

    /// The meta object set, which is changed by the syncing thread alone.
    pub fn create_meta(&self) -> Arc<ObjectSet> {
        let (cache, kind) = (Arc::clone(&self.cache), ObjsetKind::Meta);
        ObjectSet::create(
            cache,
            ObjsetId(7),
            kind,
            None,
            None,
            CreateParams { flags: 0 },
        )
    }

    /// Ends a group: what it gave up is destroyed and may be used again.
    pub fn end_txg(&self) {
        let mut space = self.space.lock().expect("no panic");
        for (offset, size) in std::mem::take(&mut space.freed) {
            let junk = vec![0xDD; usize::try_from(size).expect("small")];
            self.device
                .write_at(DATA + offset, &junk)
                .expect("writable");
            space.reusable.entry(size).or_default().push(offset);
        }
    }

    /// The clones that were reported.
    pub fn adopted(&self) -> Vec<BlockPointer> {
        self.space.lock().expect("no panic").adopted.clone()
    }

    /// The blocks in use: size by offset.
    pub fn in_use(&self) -> BTreeMap<u64, u64> {
        self.space.lock().expect("no panic").in_use.clone()
    }

    /// Crosses out a block that is in use; returns what its first sector was.
    pub fn harm(&self, offset: u64) -> [u8; 512] {
        let mut sector = [0; 512];
        self.device
            .read_at(DATA + offset, &mut sector)
            .expect("readable");
        self.mend(offset, &[0xDD; 512]);
        sector
    }

    /// Writes the first sector of a block.
    pub fn mend(&self, offset: u64, sector: &[u8; 512]) {
        self.device
            .write_at(DATA + offset, sector)
            .expect("writable");
    }

    fn write_one(&self, txg: Txg, request: &WriteRequest) -> BlockPointer {
        if request.data.iter().all(|byte| *byte == 0) {
            return BlockPointer::HOLE;
        }
        let size = request.data.len() as u64;
        let offset = self.space.lock().expect("no panic").take(size);
        self.device
            .write_at(DATA + offset, &request.data)
            .expect("the device is large enough");
        let kind = ChecksumKind::Fletcher4;
        let sum = checksum::compute(kind, &request.data, Endian::Little, None);
        let sum = sum.expect("no salt needed").expect("a checksum");
        let mut pointer = BlockPointer::HOLE;
        let dva = Dva::new(VdevId(0), offset, size);
        (pointer.words[0], pointer.words[1]) = (dva.word0, dva.word1);
        let sectors = size / 512 - 1;
        pointer.words[6] = 1 << 63
            | u64::from(request.level.0) << 56
            | u64::from(request.object_type.0) << 48
            | 7 << 40
            | u64::from(CompressionKind::Off.number()) << 32
            | sectors << 16
            | sectors;
        pointer.words[10] = txg.0;
        pointer.words[11] = request.fill;
        pointer.words[12..].copy_from_slice(&sum);
        pointer
    }
}

impl BlockSink for TestPool {
    fn write(&self, txg: Txg, requests: Vec<WriteRequest>) -> Vec<Result<BlockPointer, IoError>> {
        if let Way::Plain = self.way {
            let write = |request| Ok(self.write_one(txg, request));
            return requests.iter().map(write).collect();
        }
        let pass = self.pass.load(Ordering::Relaxed);
        self.writer.write(txg, pass, requests)
    }

    fn adopt(&self, _txg: Txg, pointer: &BlockPointer) {
        self.space.lock().expect("no panic").adopted.push(*pointer);
    }

    fn free(&self, _txg: Txg, pointer: &BlockPointer) {
        let mut space = self.space.lock().expect("no panic");
        for dva in pointer.dvas() {
            let freed = space.in_use.remove(&dva.offset());
            assert_eq!(freed, Some(dva.asize()), "{pointer} is given up once");
            space.freed.push((dva.offset(), dva.asize()));
        }
    }
}

impl PolicySource for TestPool {
    fn policy(&self, block: &BlockKind) -> WritePolicy {
        let is_encrypted = matches!(self.way, Way::Encrypted(_));
        let is_bare = block.level.0 == 0
            && matches!(block.object_type, ObjectType::DNODE | ObjectType::OBJSET);
        let compression = match is_encrypted && is_bare {
            true => CompressionKind::Off,
            false => CompressionKind::Lz4,
        };
        WritePolicy {
            compression,
            encrypt: is_encrypted,
            embed: !is_encrypted,
            ..WritePolicy::default()
        }
    }
}

/// A gate whose first open group is 4.
pub fn gate() -> Arc<TxgGate> {
    gate_with(ThrottleLimits::of_memory(8 << 30))
}

/// The same with these limits.
pub fn gate_with(limits: ThrottleLimits) -> Arc<TxgGate> {
    TxgGate::new(Txg(3), limits, Arc::new(RealEnv::new()))
}

/// Syncs the open group of `set` and returns the new root.
pub fn sync(pool: &Arc<TestPool>, gate: &Arc<TxgGate>, set: &Arc<ObjectSet>) -> BlockPointer {
    let quiesced = gate.quiesce().expect("not suspended");
    assert!(quiesced.dirty_sets.len() <= 1);
    let root = set
        .sync(quiesced.txg, &**pool, &**pool)
        .expect("the sync works");
    // As a commit does before it flushes: what is given up next may be on its way still.
    pool.cache.pipeline().settle().expect("all is on disk");
    pool.end_txg();
    gate.synced(quiesced.txg);
    root
}
