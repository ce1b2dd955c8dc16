//! Blocks written while the expansion of a raidz vdev is halfway: they must be readable before it
//! continues, and after it has passed them as the expanding software does.

use cenote_base::{Guid, Txg, VdevId};
use cenote_device::{BlockBuffer, Device, MemoryDevice};
use cenote_ondisk::uberblock::{RaidzReflow, ReflowScratch};
use cenote_ondisk::{Dva, NvList, NvValue, VdevConfig};
use cenote_vdev::IoContext;
use cenote_vdev::{OpenOptions, Shape, VdevError, VdevWrite, Vdevs};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Where a device's allocatable space begins.
const DATA: u64 = 4 * MIB;
const SECTOR: u64 = 512;
/// Sectors up to which the expansion came, not at the border of any row.
const REFLOWED: u64 = 40_003;
const FIRST_GUID: u64 = 10;
const TXG: Txg = Txg(9);

type Devices = HashMap<Guid, Arc<dyn Device>>;

/// A raidz vdev of `children` disks, the last of which is being added.
fn expanding(children: u64, parity: u64) -> (VdevConfig, Devices) {
    let disk = |id: u64| {
        let mut list = NvList::new();
        list.set_str("type", "disk");
        list.set_u64("guid", FIRST_GUID + id);
        list.set_u64("id", id);
        list
    };
    let mut raidz = NvList::new();
    raidz.set_str("type", "raidz");
    for (name, value) in [
        ("guid", 2),
        ("id", 0),
        ("ashift", 9),
        ("nparity", parity),
        ("asize", (children - 1) * 16 * MIB),
    ] {
        raidz.set_u64(name, value);
    }
    raidz.set("raidz_expanding", NvValue::Boolean);
    raidz.set(
        "children",
        NvValue::ListArray((0..children).map(disk).collect()),
    );
    let mut root = NvList::new();
    root.set_str("type", "root");
    root.set_u64("guid", 1);
    root.set_u64("id", 0);
    root.set("children", NvValue::ListArray(vec![raidz]));
    let devices = (0..children).map(|id| {
        let bytes = vec![0; (DATA + 17 * MIB) as usize];
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(&format!("d{id}"), bytes));
        (Guid(FIRST_GUID + id), device)
    });
    (
        VdevConfig::decode(&root).expect("a sound tree"),
        devices.collect(),
    )
}

fn open_kept(
    config: &VdevConfig,
    devices: &Devices,
    reflowed: u64,
    scratch: ReflowScratch,
) -> Vdevs {
    let reflow = Some(RaidzReflow {
        offset: reflowed * SECTOR,
        scratch,
    });
    let options = OpenOptions {
        reflow,
        ..OpenOptions::default()
    };
    Vdevs::open(config, devices, &options).expect("a sound tree")
}

fn open(
    config: &VdevConfig,
    devices: &Devices,
    reflowed: u64,
    scratch: ReflowScratch,
) -> Arc<Shape> {
    open_kept(config, devices, reflowed, scratch).shape()
}

/// Blocks of several sizes, close behind each other, around the offset.
fn blocks(vdevs: &Shape) -> Vec<VdevWrite> {
    let mut at = (REFLOWED - 120) * SECTOR;
    let mut writes = Vec::new();
    for sectors in (1..9).chain([20, 61, 40]).chain(1..30) {
        let size = sectors * SECTOR;
        let asize = vdevs.asize(VdevId(0), size, TXG).expect("small");
        let bytes: Vec<u8> = (0..size).map(|i| (i * i / 7 + at / SECTOR) as u8).collect();
        let dva = Dva::new(VdevId(0), at, asize);
        let data = Arc::new(BlockBuffer::from(bytes));
        writes.push(VdevWrite::new(dva, data, TXG));
        at += asize;
    }
    assert!(at > (REFLOWED + 120) * SECTOR, "some lie behind the offset");
    writes
}

/// Moves sectors from where `children - 1` disks had them to where `children` have them.
fn reflow(devices: &Devices, children: u64, sectors: Range<u64>) {
    let place = |b: u64, width: u64| {
        let device = &devices[&Guid(FIRST_GUID + b % width)];
        (device, DATA + b / width * SECTOR)
    };
    let mut bytes = vec![0; SECTOR as usize];
    for b in sectors {
        let (from, at) = place(b, children - 1);
        from.read_at(at, &mut bytes).expect("in range");
        let (to, at) = place(b, children);
        to.write_at(at, &bytes).expect("in range");
    }
}

fn check(vdevs: &Shape, writes: &[VdevWrite], when: &str) {
    for write in writes {
        let is_right = |bytes: &[u8]| *bytes == write.data[..];
        let read = vdevs.read(
            write.dva,
            write.data.len(),
            TXG,
            &is_right,
            &IoContext::USER,
        );
        assert!(read.is_ok(), "{when}: {}: {:?}", write.dva, read.err());
    }
}

#[test]
fn an_expansion_goes_on_over_what_was_written_meanwhile() {
    for parity in 1..=3 {
        let children = parity + 3;
        let (config, devices) = expanding(children, parity);
        let halfway = open(&config, &devices, REFLOWED, ReflowScratch::None);
        let writes = blocks(&halfway);
        for result in halfway.write(writes.clone()) {
            result.expect("all leaves are there");
        }
        check(&halfway, &writes, "halfway");
        let mut before = REFLOWED;
        // In steps, one of which ends within a row again.
        for reflowed in [REFLOWED + 1, REFLOWED + 61, REFLOWED + 5000] {
            reflow(&devices, children, before..reflowed);
            before = reflowed;
        }
        let vdevs = open(&config, &devices, before, ReflowScratch::None);
        check(&vdevs, &writes, "later");
        for missing in 0..children {
            let mut fewer = devices.clone();
            fewer.remove(&Guid(FIRST_GUID + missing));
            let vdevs = open(&config, &fewer, before, ReflowScratch::None);
            check(&vdevs, &writes, &format!("without {missing}"));
        }
    }
}

/// A change of the pool elsewhere, such as an addition, does not forget how far the expansion came.
#[test]
fn the_offset_outlives_a_change_of_the_tree() {
    let (config, devices) = expanding(5, 2);
    let kept = open_kept(&config, &devices, REFLOWED, ReflowScratch::None);
    let writes = blocks(&kept.shape());
    for result in kept.shape().write(writes.clone()) {
        result.expect("all leaves are there");
    }
    let changed = kept.change(&config, &Devices::new());
    changed.expect("a sound tree");
    check(&kept.shape(), &writes, "after a change");
}

#[test]
fn nothing_is_written_while_the_boot_region_holds_the_first_step() {
    let (config, devices) = expanding(5, 2);
    let vdevs = open(&config, &devices, 0, ReflowScratch::Valid);
    let writes = blocks(&vdevs);
    for result in vdevs.write(writes) {
        assert!(
            matches!(result, Err(VdevError::NotWritable { .. })),
            "{result:?}"
        );
    }
}
