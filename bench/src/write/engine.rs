//! The write pipeline on files, with an allocator that only goes forward.

use super::report::{Figures, Report};
use super::{Options, machine, rivals};
use anyhow::{Context, Result, bail, ensure};
use cenote_base::{
    BlockId, Bookmark, Guid, Level, MemoryBudget, ObjectId, ObjsetId, RealEnv, Txg, VdevId,
};
use cenote_device::{BlockBuffer, Device, Opener, SystemOpener};
use cenote_io::{
    Allocation, AllocationRequest, Allocator, NoSpace, Pipeline, PipelineParts, WritePolicy,
    WriteRequest, Writer, WriterParts,
};
use cenote_ondisk::{CompressionKind, Dva, NvList, NvValue, ObjectType, VdevConfig};
use cenote_vdev::{OpenOptions, Vdevs};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const MIB: usize = 1 << 20;
const RECORD: usize = 128 << 10;
/// Contents handed over in one call, as the syncing of an object set does.
const CALL_RECORDS: usize = 1024;

/// The pool's only top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One file.
    Single,
    /// Six files with double parity.
    Raidz2,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Single, Self::Raidz2];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Raidz2 => "raidz2:6",
        }
    }

    fn devices(self) -> u64 {
        match self {
            Self::Single => 1,
            Self::Raidz2 => 6,
        }
    }
}

#[derive(Debug)]
struct Forward {
    vdevs: Arc<Vdevs>,
    next: Mutex<u64>,
}

impl Allocator for Forward {
    fn allocate(&self, txg: Txg, request: AllocationRequest) -> Result<Allocation, NoSpace> {
        let asize = self.vdevs.shape().asize(VdevId(0), request.size, txg);
        let asize = asize.ok_or(NoSpace::Full)?;
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let dva = Dva::new(VdevId(0), *next, asize);
        *next += asize;
        Ok(Allocation::new(&[dva]))
    }

    fn undo(&self, _: Txg, _: &Allocation) {}
}

fn list(kind: &str, guid: u64, id: u64) -> NvList {
    let mut list = NvList::new();
    list.set_str("type", kind);
    list.set_u64("guid", guid);
    list.set_u64("id", id);
    list
}

fn open(options: &Options, layout: Layout) -> Result<Arc<Vdevs>> {
    let mut devices: HashMap<Guid, Arc<dyn Device>> = HashMap::new();
    let mut disks = Vec::new();
    // A third more than the data for parity, and something for labels.
    let each = options.mebibytes * 2 / layout.devices() as usize + 64;
    for id in 0..layout.devices() {
        let path = options.directory.join(format!("{}-{id}", layout.name()));
        machine::fill(&path, each)?;
        let device = SystemOpener::default().open_writable(&path)?;
        devices.insert(Guid(10 + id), device);
        disks.push(list("file", 10 + id, id));
    }
    let mut top = match layout {
        Layout::Single => disks.remove(0),
        Layout::Raidz2 => {
            let mut raidz = list("raidz", 2, 0);
            raidz.set_u64("nparity", 2);
            raidz.set("children", NvValue::ListArray(disks));
            raidz
        }
    };
    top.set_u64("ashift", 12);
    let mut root = list("root", 1, 0);
    root.set("children", NvValue::ListArray(vec![top]));
    let config = VdevConfig::decode(&root)?;
    let vdevs = Vdevs::open(&config, &devices, &OpenOptions::default())?;
    Ok(Arc::new(vdevs))
}

pub(super) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// The records to write, repeated if there are fewer than are wanted.
fn records(options: &Options, compression: &str) -> Result<Vec<Arc<BlockBuffer>>> {
    let bytes = match compression.starts_with("noise") {
        true => noise(32 * MIB),
        false => rivals::data(options)?,
    };
    ensure!(bytes.len() >= RECORD, "too little data");
    let records = bytes.chunks_exact(RECORD);
    Ok(records
        .map(|record| Arc::new(BlockBuffer::copy_of(record)))
        .collect())
}

fn policy(compression: &str) -> Result<WritePolicy> {
    let name = compression.trim_start_matches("noise-");
    let (compression, zstd_level) = match name {
        "off" => (CompressionKind::Off, 0),
        "lz4" => (CompressionKind::Lz4, 0),
        _ => {
            let level = name.strip_prefix("zstd-");
            let level = level.with_context(|| format!("no compression '{name}'"))?;
            (CompressionKind::Zstd, level.parse()?)
        }
    };
    Ok(WritePolicy {
        compression,
        zstd_level,
        ..WritePolicy::default()
    })
}

/// Writes the data once and says what that took.
fn measure(options: &Options, layout: Layout, compression: &str) -> Result<Figures> {
    let vdevs = open(options, layout)?;
    let pipeline = Pipeline::new(PipelineParts {
        vdevs: Arc::clone(&vdevs),
        memory: MemoryBudget::new(1 << 30),
        salt: None,
    });
    let next = Mutex::new(0);
    let pipeline = Arc::new(pipeline);
    let writer = Writer::new(WriterParts {
        pipeline: Arc::clone(&pipeline),
        env: Arc::new(RealEnv::new()),
        allocator: Arc::new(Forward {
            vdevs: Arc::clone(&vdevs),
            next,
        }),
        dedup: None,
        repairs: None,
    });
    let (records, policy) = (records(options, compression)?, policy(compression)?);
    let count = options.mebibytes * MIB / RECORD;
    let (began, cpu) = (Instant::now(), machine::cpu_seconds());
    for call in (0..count).step_by(CALL_RECORDS) {
        let request = |index: usize| WriteRequest {
            data: Arc::clone(&records[index % records.len()]),
            bookmark: Bookmark::data(ObjsetId(54), ObjectId(2), BlockId(index as u64)),
            object_type: ObjectType::PLAIN_FILE,
            level: Level(0),
            fill: 1,
            policy,
            keys: None,
            previous: None,
            form: None,
        };
        let requests = (call..count.min(call + CALL_RECORDS)).map(request);
        for result in writer.write(Txg(10), 1, requests.collect()) {
            if let Err(error) = result {
                bail!("{error}");
            }
        }
    }
    vdevs.shape().flush()?;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), machine::cpu_seconds() - cpu);
    let bytes = (count * RECORD) as f64;
    Ok(Figures {
        rate: bytes / 1e6 / wall,
        cpu: Some(cpu / bytes * (1 << 30) as f64),
        cpu_all: None,
        stored: Some(pipeline.counters().bytes_written.get() as f64 / bytes),
    })
}

/// Writes through the pipeline alone, in every layout.
pub fn run(options: &Options) -> Result<Report> {
    let mut report = Report::default();
    let ceiling = machine::direct_write_rate(&options.directory.join("ceiling"), 512)?;
    let disk = Figures {
        rate: ceiling,
        ..Figures::default()
    };
    report.add("", "disk, O_DIRECT", disk);
    for layout in Layout::ALL {
        for compression in ["off", "lz4", "zstd-3", "noise-off", "noise-zstd-3"] {
            let figures = measure(options, layout, compression)?;
            let case = format!("{} {compression}", layout.name());
            report.add(&case, "pipeline", figures);
        }
    }
    Ok(report)
}
