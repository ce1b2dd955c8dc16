//! A pool in memory for tests of writing: blocks are put one behind the other on one device, and
//! every block that is given up is crossed out, so that using it again shows.

use cenote_base::{Guid, MemoryBudget, ObjsetId, Txg, VdevId};
use cenote_cache::{BlockCache, CacheLimits};
use cenote_codec::Endian;
use cenote_device::{Device, MemoryDevice};
use cenote_dmu::txg::ThrottleLimits;
use cenote_dmu::{
    BlockKind, BlockSink, CreateParams, ObjectSet, PolicySource, TxgGate, WritePolicy, WriteRequest,
};
use cenote_io::{IoError, Pipeline, Workers, checksum};
use cenote_ondisk::nvlist::{NvList, NvValue};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, VdevConfig};
use cenote_vdev::{OpenOptions, Vdevs};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;
/// Where the data of a vdev begins on its device.
const DATA: u64 = 4 * MIB;

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

#[derive(Debug, Default)]
struct Space {
    end: u64,
    /// Size by offset of the blocks in use.
    in_use: BTreeMap<u64, u64>,
    /// Given up in an earlier group: their space is used again.
    reusable: BTreeMap<u64, Vec<u64>>,
    /// Given up in this group.
    freed: Vec<(u64, u64)>,
}

/// A pool on a memory device, without compression.
#[derive(Debug)]
pub struct TestPool {
    pub cache: Arc<BlockCache>,
    device: Arc<MemoryDevice>,
    space: Mutex<Space>,
}

impl TestPool {
    pub fn new(megabytes: u64) -> Arc<Self> {
        Self::with_cache(megabytes, 32 * MIB)
    }

    pub fn with_cache(megabytes: u64, cache_bytes: u64) -> Arc<Self> {
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
        let pipeline = Pipeline::new(Arc::new(vdevs), MemoryBudget::new(64 * MIB));
        let (workers, limits) = (
            Arc::new(Workers::new(2)),
            CacheLimits::of_total(cache_bytes),
        );
        let cache = Arc::new(BlockCache::new(Arc::new(pipeline), workers, limits));
        let space = Mutex::default();
        Arc::new(Self {
            cache,
            device,
            space,
        })
    }

    /// Forgets what is cached, so that everything is read from the device.
    pub fn reopen(&self, root: BlockPointer, id: ObjsetId) -> Arc<ObjectSet> {
        let (pipeline, workers) = (self.cache.pipeline(), self.cache.workers());
        let limits = CacheLimits::of_total(8 * MIB);
        let cache = BlockCache::new(Arc::clone(pipeline), Arc::clone(workers), limits);
        ObjectSet::open(Arc::new(cache), id, root, None).expect("the set opens")
    }

    pub fn create(&self, gate: &Arc<TxgGate>, kind: ObjsetKind, flags: u64) -> Arc<ObjectSet> {
        let params = CreateParams { flags };
        let (cache, gate) = (Arc::clone(&self.cache), Some(Arc::clone(gate)));
        ObjectSet::create(cache, ObjsetId(7), kind, None, gate, params)
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

    /// The blocks in use: size by offset.
    pub fn in_use(&self) -> BTreeMap<u64, u64> {
        self.space.lock().expect("no panic").in_use.clone()
    }

    fn write_one(&self, txg: Txg, request: &WriteRequest) -> BlockPointer {
        if request.data.iter().all(|byte| *byte == 0) {
            return BlockPointer::HOLE;
        }
        let size = request.data.len() as u64;
        let offset = {
            let mut space = self.space.lock().expect("no panic");
            let reused = space.reusable.get_mut(&size).and_then(Vec::pop);
            let offset = reused.unwrap_or(space.end);
            space.end = space.end.max(offset + size);
            assert!(space.in_use.insert(offset, size).is_none());
            offset
        };
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
        let write = |request| Ok(self.write_one(txg, request));
        requests.iter().map(write).collect()
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
    fn policy(&self, _block: &BlockKind) -> WritePolicy {
        WritePolicy::default()
    }
}

/// A gate whose first open group is 4.
pub fn gate() -> Arc<TxgGate> {
    TxgGate::new(Txg(3), ThrottleLimits::of_memory(8 << 30))
}

/// Syncs the open group of `set` and returns the new root.
pub fn sync(pool: &Arc<TestPool>, gate: &Arc<TxgGate>, set: &Arc<ObjectSet>) -> BlockPointer {
    let quiesced = gate.quiesce();
    assert!(quiesced.dirty_sets.len() <= 1);
    let root = set
        .sync(quiesced.txg, &**pool, &**pool)
        .expect("the sync works");
    pool.end_txg();
    gate.synced(quiesced.txg);
    root
}
