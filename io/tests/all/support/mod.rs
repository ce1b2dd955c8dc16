//! A pool of memory devices with an allocator that only goes forward.

use cenote_base::{
    BlockId, Bookmark, Guid, MemoryBudget, ObjectId, ObjsetId, RealEnv, Txg, VdevId,
};
use cenote_device::{Device, MemoryDevice};
use cenote_io::{
    Allocation, AllocationRequest, Allocator, DedupTable, NoSpace, Pipeline, PipelineParts,
    RepairSpace, Writer, WriterParts,
};
use cenote_ondisk::{Dva, NvList, NvValue, VdevConfig};
use cenote_vdev::{OpenOptions, Vdevs};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

/// What the only top-level vdev is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Disk,
    Mirror,
    Raidz1,
    Raidz2,
    Raidz3,
    Expanded,
    Draid,
}

impl Layout {
    pub const ALL: [Self; 7] = [
        Self::Disk,
        Self::Mirror,
        Self::Raidz1,
        Self::Raidz2,
        Self::Raidz3,
        Self::Expanded,
        Self::Draid,
    ];

    /// Type, devices, ashift, parity.
    fn shape(self) -> (&'static str, u64, u64, u64) {
        match self {
            Self::Disk => ("mirror", 1, 9, 0),
            Self::Mirror => ("mirror", 3, 12, 0),
            Self::Raidz1 => ("raidz", 4, 9, 1),
            Self::Raidz2 => ("raidz", 6, 12, 2),
            Self::Raidz3 => ("raidz", 7, 9, 3),
            Self::Expanded => ("raidz", 5, 9, 1),
            Self::Draid => ("draid", 8, 12, 2),
        }
    }
}

fn list(kind: &str, guid: u64) -> NvList {
    let mut list = NvList::new();
    list.set_str("type", kind);
    list.set_u64("guid", guid);
    list.set_u64("id", 0);
    list
}

fn config(layout: Layout) -> VdevConfig {
    let (kind, devices, ashift, parity) = layout.shape();
    let disks = (0..devices).map(|id| {
        let mut disk = list("disk", 10 + id);
        disk.set_u64("id", id);
        disk
    });
    let mut top = list(kind, 2);
    top.set("children", NvValue::ListArray(disks.collect()));
    top.set_u64("ashift", ashift);
    if parity > 0 {
        top.set_u64("nparity", parity);
    }
    match layout {
        // Wide since before the tests' txg: blocks are as wide as the vdev.
        Layout::Expanded => top.set("raidz_expand_txgs", NvValue::Uint64Array(vec![10])),
        Layout::Draid => {
            top.set_u64("draid_ndata", 3);
            top.set_u64("draid_nspares", 1);
            top.set_u64("draid_ngroups", 7);
        }
        _ => {}
    }
    let mut root = list("root", 1);
    root.set("children", NvValue::ListArray(vec![top]));
    VdevConfig::decode(&root).expect("a sound tree")
}

/// Space from the start of the vdev on, never given twice.
#[derive(Debug)]
pub struct Space {
    vdevs: Arc<Vdevs>,
    next: Mutex<u64>,
    taken: AtomicU64,
    piece_max: AtomicU64,
}

impl Space {
    /// Bytes given out and not given back.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// From now on no more than so many stored bytes are to be had in one piece.
    pub fn limit_pieces(&self, bytes: u64) {
        self.piece_max.store(bytes, Ordering::Relaxed);
    }
}

impl Allocator for Space {
    fn allocate(&self, txg: Txg, request: AllocationRequest) -> Result<Allocation, NoSpace> {
        let size = request.size;
        match self.piece_max.load(Ordering::Relaxed) {
            0 => return Err(NoSpace::Full),
            max if size > max => return Err(NoSpace::Contiguous { size }),
            _ => {}
        }
        let asize = self
            .vdevs
            .shape()
            .asize(VdevId(0), size, txg)
            .expect("a block's size");
        let mut next = self.next.lock().expect("no thread panicked");
        let mut dvas = Vec::new();
        for _ in 0..request.copies {
            dvas.push(Dva::new(VdevId(0), *next, asize));
            *next += asize;
            self.taken.fetch_add(asize, Ordering::Relaxed);
        }
        Ok(Allocation::new(&dvas))
    }

    fn undo(&self, _txg: Txg, allocation: &Allocation) {
        let bytes = allocation.dvas().iter().map(|dva| dva.asize()).sum();
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

pub struct Pool {
    layout: Layout,
    devices: HashMap<Guid, Arc<dyn Device>>,
    pub vdevs: Arc<Vdevs>,
    pub space: Arc<Space>,
    pub pipeline: Arc<Pipeline>,
    pub writer: Writer,
}

impl Pool {
    pub fn new(layout: Layout) -> Self {
        let size = if layout == Layout::Draid { 400 } else { 200 } * MIB;
        let (_, count, ..) = layout.shape();
        let devices: HashMap<Guid, Arc<dyn Device>> = (10..10 + count)
            .map(|guid| {
                let memory = MemoryDevice::new(&format!("d{guid}"), vec![0; size as usize]);
                (Guid(guid), Arc::new(memory) as Arc<dyn Device>)
            })
            .collect();
        let options = OpenOptions::default();
        let vdevs = Vdevs::open(&config(layout), &devices, &options).expect("a sound tree");
        let vdevs = Arc::new(vdevs);
        let space = Arc::new(Space {
            vdevs: Arc::clone(&vdevs),
            next: Mutex::new(0),
            taken: AtomicU64::new(0),
            piece_max: AtomicU64::new(u64::MAX),
        });
        let pipeline = pipeline(&vdevs);
        let writer = Writer::new(WriterParts {
            pipeline: Arc::clone(&pipeline),
            env: Arc::new(RealEnv::new()),
            allocator: Arc::clone(&space) as Arc<dyn Allocator>,
            dedup: None,
            repairs: None,
        });
        Self {
            layout,
            devices,
            vdevs,
            space,
            pipeline,
            writer,
        }
    }

    /// The same pool with tables of deduplicated blocks.
    pub fn with_dedup(mut self, table: Arc<dyn DedupTable>) -> Self {
        self.writer = Writer::new(WriterParts {
            pipeline: Arc::clone(&self.pipeline),
            env: Arc::new(RealEnv::new()),
            allocator: Arc::clone(&self.space) as Arc<dyn Allocator>,
            dedup: Some(table),
            repairs: None,
        });
        self
    }

    /// The same pool, in which what reads find wrong is written again.
    pub fn with_repairs(mut self, space: Arc<dyn RepairSpace>) -> Self {
        self.writer = Writer::new(WriterParts {
            pipeline: Arc::clone(&self.pipeline),
            env: Arc::new(RealEnv::new()),
            allocator: Arc::clone(&self.space) as Arc<dyn Allocator>,
            dedup: None,
            repairs: Some(space),
        });
        self
    }

    /// Sets of devices that may be lost: none, and as many as there is redundancy.
    pub fn survivable(&self) -> &'static [&'static [u64]] {
        match self.layout {
            Layout::Disk => &[&[]],
            Layout::Mirror => &[&[], &[10, 11]],
            Layout::Raidz1 | Layout::Expanded => &[&[], &[10], &[12]],
            Layout::Raidz2 | Layout::Draid => &[&[], &[10, 11], &[12, 15]],
            Layout::Raidz3 => &[&[], &[10, 11, 12], &[11, 13, 15]],
        }
    }

    /// A device by its guid.
    pub fn device(&self, guid: u64) -> &dyn Device {
        self.devices[&Guid(guid)].as_ref()
    }

    /// The pool opened again for reading, without some devices.
    pub fn reopen(&self, lost: &[u64]) -> Arc<Pipeline> {
        let mut devices = self.devices.clone();
        devices.retain(|guid, _| !lost.contains(&guid.0));
        let options = OpenOptions::default();
        let vdevs = Vdevs::open(&config(self.layout), &devices, &options);
        pipeline(&Arc::new(vdevs.expect("a sound tree")))
    }
}

fn pipeline(vdevs: &Arc<Vdevs>) -> Arc<Pipeline> {
    let pipeline = Pipeline::new(PipelineParts {
        vdevs: Arc::clone(vdevs),
        memory: MemoryBudget::new(1 << 30),
        salt: Some([5; 32]),
    });
    Arc::new(pipeline)
}

pub fn bookmark(block: u64) -> Bookmark {
    Bookmark::data(ObjsetId(54), ObjectId(8), BlockId(block))
}

/// Bytes that no function compresses.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ length as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Bytes that every function compresses to about half.
pub fn text(length: usize) -> Vec<u8> {
    let mut bytes = noise(length);
    for chunk in bytes.chunks_mut(64) {
        let half = chunk.len() / 2;
        chunk[half..].fill(0);
    }
    bytes
}
