//! Trees of disks in memory, and blocks to write to them.

use cenote_base::{Guid, Txg, VdevId};
use cenote_device::{BlockBuffer, Device, MemoryDevice};
use cenote_ondisk::{Dva, NvList, NvValue, VdevConfig};
use cenote_vdev::IoContext;
use cenote_vdev::{OpenOptions, Shape, VdevWrite, Vdevs};
use std::collections::HashMap;
use std::sync::Arc;

pub const MIB: u64 = 1 << 20;
pub const DEVICE: u64 = 80 * MIB;

pub type Devices = HashMap<Guid, Arc<dyn Device>>;

pub fn vdev(kind: &str, guid: u64, children: Vec<NvList>) -> NvList {
    let mut list = NvList::new();
    list.set_str("type", kind);
    list.set_u64("guid", guid);
    if !children.is_empty() {
        let numbered = (0..).zip(children).map(|(id, mut child): (u64, NvList)| {
            child.set_u64("id", id);
            child
        });
        list.set("children", NvValue::ListArray(numbered.collect()));
    }
    list
}

pub fn disks(guids: std::ops::Range<u64>) -> Vec<NvList> {
    guids.map(|guid| vdev("disk", guid, vec![])).collect()
}

/// A pool of one top-level vdev.
pub fn pool(mut top: NvList, ashift: u64, more: &[(&str, u64)]) -> VdevConfig {
    top.set_u64("ashift", ashift);
    for (name, value) in more {
        top.set_u64(name, *value);
    }
    let mut root = vdev("root", 1, vec![top]);
    root.set_u64("id", 0);
    VdevConfig::decode(&root).expect("a sound tree")
}

pub fn memory(guids: std::ops::Range<u64>, size: u64) -> Devices {
    guids
        .map(|guid| {
            let bytes = vec![0; size as usize];
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(&format!("d{guid}"), bytes));
            (Guid(guid), device)
        })
        .collect()
}

pub fn open_kept(config: &VdevConfig, devices: &Devices) -> Vdevs {
    Vdevs::open(config, devices, &OpenOptions::default()).expect("a sound tree")
}

pub fn open(config: &VdevConfig, devices: &Devices) -> Arc<Shape> {
    open_kept(config, devices).shape()
}

pub fn pattern(seed: usize, length: usize) -> Arc<BlockBuffer> {
    let byte = |i: usize| ((i * i + i / 7 + seed * 31) % 251) as u8 + 1;
    let bytes: Vec<u8> = (0..length).map(byte).collect();
    Arc::new(bytes.into())
}

/// Blocks of many sizes, one behind the other, written in `txg`.
pub fn blocks(vdevs: &Shape, txg: Txg, start: u64) -> Vec<VdevWrite> {
    let sizes = [
        512,
        1024,
        4096,
        4608,
        131_072,
        512,
        65_536,
        3 << 20,
        20_480,
        40_960,
    ];
    let mut offset = start;
    let mut writes = Vec::new();
    for (seed, size) in sizes.into_iter().cycle().take(30).enumerate() {
        let asize = vdevs.asize(VdevId(0), size, txg).expect("small");
        let data = pattern(seed, size as usize);
        let dva = Dva::new(VdevId(0), offset, asize);
        writes.push(VdevWrite::new(dva, data, txg));
        offset += asize;
    }
    writes
}

pub fn write_all(vdevs: &Shape, writes: &[VdevWrite]) {
    for result in vdevs.write(writes.to_vec()) {
        result.expect("enough leaves are there");
    }
    vdevs.flush().expect("memory flushes");
}

pub fn read_all(vdevs: &Shape, writes: &[VdevWrite], what: &str) {
    for write in writes {
        let is_right = |bytes: &[u8]| *bytes == write.data[..];
        let read = vdevs.read(
            write.dva,
            write.data.len(),
            write.txg,
            &is_right,
            &IoContext::USER,
        );
        assert!(read.is_ok(), "{what}: {}: {:?}", write.dva, read.err());
    }
}
