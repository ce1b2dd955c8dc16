//! Vdevs that no golden pool has, written here by the geometry and read back by the vdevs:
//! replacements, stale devices, distributed spares, split blocks, a reflow in its scratch area.

use cenote_base::{Guid, Txg, VdevId};
use cenote_codec::parity;
use cenote_device::{Device, FileDevice, FileOptions, MemoryDevice};
use cenote_ondisk::uberblock::{RaidzReflow, ReflowScratch};
use cenote_ondisk::{Dva, NvList, NvValue, VdevConfig};
use cenote_vdev::IoContext;
use cenote_vdev::geometry::{Map, draid::Draid, raidz::Raidz, raidz::Reflow};
use cenote_vdev::{
    BatchRead, CopyHealth, IndirectEntry, OpenOptions, Shape, VdevError, VdevState, Vdevs,
};
use std::collections::HashMap;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const DATA: u64 = 4 * MIB;
const BOOT: u64 = MIB / 2;

type Devices = HashMap<Guid, Arc<dyn Device>>;

fn vdev(kind: &str, guid: u64, children: Vec<NvList>) -> NvList {
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

fn disk(guid: u64) -> NvList {
    vdev("disk", guid, vec![])
}

fn top(mut list: NvList, ashift: u64, asize: u64) -> NvList {
    list.set_u64("ashift", ashift);
    list.set_u64("asize", asize);
    list
}

fn root(tops: Vec<NvList>) -> VdevConfig {
    let mut list = vdev("root", 1, tops);
    list.set_u64("id", 0);
    VdevConfig::decode(&list).expect("a sound tree")
}

/// Memory devices with these guids, each with 8 MiB of data.
fn disks(guids: std::ops::Range<u64>) -> Devices {
    guids
        .map(|guid| {
            let bytes = vec![0; (DATA + 8 * MIB + MIB / 2) as usize];
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(&format!("d{guid}"), bytes));
            (Guid(guid), device)
        })
        .collect()
}

fn put(devices: &Devices, guid: u64, offset: u64, bytes: &[u8]) {
    devices[&Guid(guid)]
        .write_at(offset, bytes)
        .expect("writable");
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| ((i * i + i / 7) % 251) as u8 + 1)
        .collect()
}

/// Writes a block by its map; child `i` is the device with guid `first + i`.
fn write_map(devices: &Devices, first: u64, map: &Map, block: &[u8]) {
    for row in &map.rows {
        let data: Vec<&[u8]> = row.columns[map.parity..]
            .iter()
            .map(|column| match column.length {
                0 => &[],
                _ => &block[column.block_range()],
            })
            .collect();
        let height = row.columns[0].length as usize;
        let mut computed = vec![vec![0; height]; map.parity];
        let mut outputs: Vec<&mut [u8]> = computed.iter_mut().map(Vec::as_mut_slice).collect();
        parity::generate(&mut outputs, &data);
        let all = computed.iter().map(Vec::as_slice).chain(data);
        for (column, bytes) in row.columns.iter().zip(all) {
            let start = if column.in_scratch { BOOT } else { DATA };
            if !bytes.is_empty() {
                put(
                    devices,
                    first + column.child as u64,
                    start + column.offset,
                    bytes,
                );
            }
        }
    }
}

fn open(config: &VdevConfig, devices: &Devices) -> Arc<Shape> {
    let vdevs = Vdevs::open(config, devices, &OpenOptions::default());
    vdevs.expect("a sound tree").shape()
}

fn errors_of(vdevs: &Shape, guid: u64) -> u64 {
    let mut stack = vec![vdevs.status()];
    while let Some(status) = stack.pop() {
        if status.guid == Guid(guid) {
            return status.figures.checksum_errors;
        }
        stack.extend(status.children);
    }
    panic!("no vdev {guid}");
}

fn raidz1(children: Vec<NvList>, asize: u64) -> VdevConfig {
    let mut raidz = top(vdev("raidz", 2, children), 9, asize);
    raidz.set_u64("nparity", 1);
    root(vec![raidz])
}

#[test]
fn a_stale_mirror_child_is_asked_last_and_not_blamed() {
    let config = root(vec![top(
        vdev("mirror", 2, vec![disk(10), disk(11)]),
        9,
        8 * MIB,
    )]);
    let devices = disks(10..12);
    let block = pattern(4096);
    put(&devices, 10, DATA, &pattern(100));
    put(&devices, 11, DATA, &block);
    let vdevs = open(&config, &devices);
    vdevs.set_dtl(Guid(10), &[Txg(50)..Txg(60)]);
    let dva = Dva::new(VdevId(0), 0, 4096);
    let accept = |bytes: &[u8]| bytes == block;
    assert!(
        vdevs
            .read(dva, 4096, Txg(55), &accept, &IoContext::USER)
            .is_ok()
    );
    assert_eq!(errors_of(&vdevs, 10), 0, "it was not even asked");
    let report = vdevs
        .check_copies(dva, 4096, Txg(55), &accept, &IoContext::USER)
        .expect("a sound address");
    let health: Vec<_> = report
        .verdicts
        .iter()
        .map(|verdict| verdict.health)
        .collect();
    assert_eq!(health, [CopyHealth::Stale, CopyHealth::Good]);
    // Outside the missed txgs the same bytes are an error; offset 0 prefers the first child.
    assert!(
        vdevs
            .read(dva, 4096, Txg(60), &accept, &IoContext::USER)
            .is_ok()
    );
    assert_eq!(errors_of(&vdevs, 10), 1);
    assert_eq!(errors_of(&vdevs, 11), 0);
    let dtl_only = |bytes: &[u8]| bytes[..100] == pattern(100)[..] && bytes[100..] == [0; 3996];
    assert!(
        vdevs
            .read(dva, 4096, Txg(55), &dtl_only, &IoContext::USER)
            .is_ok(),
        "the last resort"
    );
}

/// Where an intent log ends there may be anything, and a power cut leaves its last blocks on some
/// devices only. A mirror whose sides were each charged with errors after a cut looked faulty.
#[test]
fn a_log_block_that_a_cut_left_on_one_side_blames_nobody() {
    let mirror = || vdev("mirror", 2, vec![disk(10), disk(11)]);
    let config = root(vec![top(mirror(), 9, 8 * MIB)]);
    let devices = disks(10..12);
    let block = pattern(4096);
    put(&devices, 11, DATA + 8192, &block);
    let vdevs = open(&config, &devices);
    let at = |offset| Dva::new(VdevId(0), offset, 4096);
    let accept = |bytes: &[u8]| bytes == block;
    let read = |offset, is_known| {
        vdevs.read_log_block(
            at(offset),
            4096,
            Txg(5),
            &accept,
            is_known,
            &IoContext::USER,
        )
    };
    let all = |vdevs: &Shape| [1, 2, 10, 11].map(|guid| errors_of(vdevs, guid));
    let before = all(&vdevs);
    let nothing = read(0, false);
    assert!(matches!(nothing, Err(VdevError::Damaged { .. })));
    for is_known in [false, true] {
        // Often enough that each side is asked first.
        for _ in 0..8 {
            let second = read(8192, is_known).expect("the second child has it");
            assert_eq!(second.bytes, block);
        }
    }
    assert_eq!(all(&vdevs), before);
    assert!(read(0, true).is_err());
    assert_eq!(errors_of(&vdevs, 11), 1, "a block that was there is lost");
}

#[test]
fn a_disk_being_replaced_in_raidz_gives_either_copy() {
    let replacing = vdev("replacing", 5, vec![disk(20), disk(21)]);
    let config = raidz1(vec![replacing, disk(22), disk(23)], 24 * MIB);
    let geometry = Raidz::new(3, 1, 9, vec![], None).expect("sane");
    let block = pattern(8192);
    let map = geometry.map(512, 8192, Txg(9));
    let devices = disks(20..24);
    // The new disk has everything, the old one nothing: children are 21, 22, 23.
    write_map(&devices, 21, &map, &block);
    let dva = Dva::new(VdevId(0), 512, geometry.asize(8192, Txg(9)));
    let accept = |bytes: &[u8]| bytes == block;
    let vdevs = open(&config, &devices);
    assert!(
        vdevs
            .read(dva, 8192, Txg(9), &accept, &IoContext::USER)
            .is_ok(),
        "by parity"
    );
    assert_eq!(errors_of(&vdevs, 20), 1);
    // Without disk 22 there is no parity left, so the other copy must serve.
    let mut fewer = devices.clone();
    fewer.remove(&Guid(22));
    let vdevs = open(&config, &fewer);
    assert_eq!(vdevs.state().0, VdevState::Degraded);
    let read = vdevs.read(dva, 8192, Txg(9), &accept, &IoContext::USER);
    assert!(read.is_ok(), "{:?}", read.err());
    // A missing old disk is no loss at all, and leaves the fast path open.
    let mut fewer = devices.clone();
    fewer.remove(&Guid(20));
    let vdevs = open(&config, &fewer);
    let size = 8192;
    let batch = vdevs.read_batch(
        &[BatchRead {
            dva,
            size,
            birth: Txg(9),
        }],
        &IoContext::USER,
    );
    assert_eq!(batch, [Some(block.clone().into())]);
}

#[test]
fn an_offline_child_serves_when_nobody_else_can() {
    let mut offline = disk(11);
    offline.set_u64("offline", 1);
    let config = root(vec![top(
        vdev("mirror", 2, vec![disk(10), offline]),
        9,
        8 * MIB,
    )]);
    let devices = disks(10..12);
    let block = pattern(512);
    put(&devices, 11, DATA + 1024, &block);
    // A pool that is written to closes it.
    assert!(!open(&config, &devices).is_open(Guid(11)));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let whole = devices[&Guid(11)].read_vec(0, devices[&Guid(11)].size() as usize);
    std::fs::write(file.path(), whole.expect("in range")).expect("writable");
    let device = FileDevice::open(file.path(), FileOptions::default()).expect("a file");
    let mut devices = devices;
    devices.insert(Guid(11), Arc::new(device));
    let vdevs = open(&config, &devices);
    let status = vdevs.status();
    let names: Vec<_> = status.children[0]
        .children
        .iter()
        .map(|child| child.state.name(child.aux))
        .collect();
    assert_eq!(
        (status.state, names),
        (VdevState::Degraded, vec!["ONLINE", "OFFLINE"])
    );
    let dva = Dva::new(VdevId(0), 1024, 512);
    assert!(
        vdevs
            .read(dva, 512, Txg(4), &|bytes| bytes == block, &IoContext::USER)
            .is_ok()
    );
    let never = vdevs.read(dva, 512, Txg(4), &|_| false, &IoContext::USER);
    assert!(matches!(never, Err(VdevError::Damaged { .. })), "{never:?}");
}

#[test]
fn a_reflow_that_stopped_in_its_scratch_area_is_readable() {
    let children = (30..34).map(disk).collect();
    let mut raidz = top(vdev("raidz", 2, children), 12, 3 * 8 * MIB);
    raidz.set_u64("nparity", 1);
    raidz.set("raidz_expanding", NvValue::Boolean);
    let config = root(vec![raidz]);
    let reflow = Reflow {
        offset: 0,
        use_scratch: true,
    };
    let geometry = Raidz::new(4, 1, 12, vec![], Some(reflow)).expect("sane");
    let devices = disks(30..34);
    let block = pattern(40_960);
    // The first step covers 4 * 3.5 MiB; the second block lies beyond it.
    let offsets = [12 * 4096, 15 * MIB];
    for offset in offsets {
        let map = geometry.map(offset, 40_960, Txg(9));
        let in_scratch = map.data_columns().all(|column| column.in_scratch);
        assert_eq!(in_scratch, offset < 14 * MIB);
        write_map(&devices, 30, &map, &block);
    }
    let options = OpenOptions {
        reflow: Some(RaidzReflow {
            offset: 0,
            scratch: ReflowScratch::Valid,
        }),
        ..OpenOptions::default()
    };
    for missing in 30..35 {
        let mut fewer = devices.clone();
        fewer.remove(&Guid(missing));
        let vdevs = Vdevs::open(&config, &fewer, &options)
            .expect("a sound tree")
            .shape();
        for offset in offsets {
            let dva = Dva::new(VdevId(0), offset, geometry.asize(40_960, Txg(9)));
            let read = vdevs.read(
                dva,
                40_960,
                Txg(9),
                &|bytes| bytes == block,
                &IoContext::USER,
            );
            assert!(read.is_ok(), "without {missing}: {:?}", read.err());
        }
    }
}

/// draid1 of 5 disks, 2 data columns, 1 spare, on sparse files.
fn draid_devices(directory: &std::path::Path, guids: std::ops::Range<u64>) -> Devices {
    guids
        .map(|guid| {
            let path = directory.join(guid.to_string());
            let file = std::fs::File::create_new(&path).expect("a new file");
            file.set_len(300 * MIB).expect("sparse");
            let options = FileOptions {
                writable: true,
                direct: false,
            };
            let device = FileDevice::open(&path, options).expect("a file");
            (Guid(guid), Arc::new(device) as Arc<dyn Device>)
        })
        .collect()
}

fn draid_config(children: Vec<NvList>, geometry: &Draid) -> VdevConfig {
    let asize = geometry.vdev_asize(295 * MIB);
    let mut draid = top(vdev("draid", 2, children), 12, asize);
    draid.set_u64("nparity", 1);
    draid.set_u64("draid_ndata", 2);
    draid.set_u64("draid_nspares", 1);
    draid.set_u64("draid_ngroups", 4);
    root(vec![draid])
}

#[test]
fn a_distributed_spare_stands_in_and_blocks_cross_groups() {
    let directory = tempfile::tempdir().expect("a directory");
    let devices = draid_devices(directory.path(), 40..45);
    let geometry = Draid::new(5, 1, 2, 1, 4, 12).expect("4 groups of 3 fill 3 rows of 4 disks");
    let block = pattern(200 << 10);
    let size = block.len();
    let group = 3 * 16 * MIB;
    let offsets = [0, group - 4 * geometry.stripe_bytes(), 9 * group];
    for offset in offsets {
        let map = geometry.map(offset, size as u64);
        write_map(&devices, 40, &map, &block);
        // What the disk 42 has, the spare space on the others has too.
        for column in map.rows.iter().flat_map(|row| &row.columns) {
            if column.child == 2 && column.length > 0 {
                let (disk, _) = geometry.spare_disk(0, column.offset).expect("spare 0");
                let length = column.length as usize;
                let bytes = devices[&Guid(42)].read_vec(DATA + column.offset, length);
                put(
                    &devices,
                    40 + disk as u64,
                    DATA + column.offset,
                    &bytes.expect("in range"),
                );
            }
        }
    }
    let mut spare = vdev("dspare", 50, vec![]);
    spare.set_u64("top_guid", 2);
    spare.set_u64("spareid", 0);
    let spared = vdev("spare", 51, vec![disk(42), spare]);
    let config = draid_config(
        vec![disk(40), disk(41), spared, disk(43), disk(44)],
        &geometry,
    );
    let mut fewer = devices.clone();
    fewer.remove(&Guid(42));
    let vdevs = open(&config, &fewer);
    assert_eq!(vdevs.state().0, VdevState::Degraded);
    let reads: Vec<_> = offsets
        .iter()
        .map(|offset| BatchRead {
            dva: Dva::new(VdevId(0), *offset, geometry.asize(size as u64)),
            size,
            birth: Txg(9),
        })
        .collect();
    // Nothing is missing for the fast path: the spare has it all.
    for read in vdevs.read_batch(&reads, &IoContext::USER) {
        assert_eq!(read.as_deref(), Some(block.as_slice()));
    }
    // One disk more may go.
    fewer.remove(&Guid(44));
    let vdevs = open(&config, &fewer);
    for read in reads {
        let result = vdevs.read(
            read.dva,
            size,
            Txg(9),
            &|bytes| bytes == block,
            &IoContext::USER,
        );
        assert!(result.is_ok(), "{:?}", result.err());
    }
}

#[test]
fn a_split_block_is_put_together_from_the_right_copies() {
    let mirror = |guid, a, b| top(vdev("mirror", guid, vec![disk(a), disk(b)]), 9, 8 * MIB);
    let gone = |guid| top(vdev("indirect", guid, vec![]), 9, 8 * MIB);
    let config = root(vec![mirror(2, 60, 61), gone(3), mirror(4, 62, 63), gone(5)]);
    let devices = disks(60..64);
    let vdevs = open(&config, &devices);
    let entry = |source, vdev, offset, length| IndirectEntry {
        source,
        target: Dva::new(VdevId(vdev), offset, length),
        copied_in: Txg(8),
    };
    // Vdev 3 went to 1 and 0, then vdev 1 went to 2 and 0.
    let older = vec![entry(0, 1, 4096, 4096), entry(4096, 0, 0, 4096)];
    vdevs
        .set_indirect_mapping(VdevId(3), older)
        .expect("in order");
    let newer = vec![entry(4096, 2, 0, 2048), entry(6144, 0, 65_536, 2048)];
    vdevs
        .set_indirect_mapping(VdevId(1), newer)
        .expect("in order");
    let block = pattern(8192);
    for (guids, offset, range) in [
        ([62, 63], 0, 0..2048),
        ([60, 61], 65_536, 2048..4096),
        ([60, 61], 0, 4096..8192),
    ] {
        for guid in guids {
            put(&devices, guid, DATA + offset, &block[range.clone()]);
        }
    }
    let dva = Dva::new(VdevId(3), 0, 8192);
    let accept = |bytes: &[u8]| bytes == block;
    let io = &IoContext::USER;
    assert!(vdevs.read(dva, 8192, Txg(4), &accept, io).is_ok());
    assert!(
        vdevs
            .check_copies(dva, 8192, Txg(4), &accept, io)
            .is_ok_and(|r| r.is_perfect())
    );
    // One copy of each piece goes bad, on different sides.
    put(&devices, 62, DATA + 100, b"bad");
    put(&devices, 61, DATA + 65_536, b"bad");
    put(&devices, 60, DATA + 4000, b"bad");
    assert!(vdevs.read(dva, 8192, Txg(4), &accept, io).is_ok());
    assert_eq!(errors_of(&vdevs, 62), 1);
    assert_eq!(errors_of(&vdevs, 63), 0);
    let report = vdevs
        .check_copies(dva, 8192, Txg(4), &accept, io)
        .expect("a sound address");
    let wrong = report
        .verdicts
        .iter()
        .filter(|v| v.health == CopyHealth::Wrong);
    assert_eq!(wrong.count(), 3);
    put(&devices, 63, DATA, b"bad");
    let lost = vdevs.read(dva, 8192, Txg(4), &accept, io);
    assert!(matches!(lost, Err(VdevError::Damaged { .. })), "{lost:?}");
    let beyond = vdevs.read(Dva::new(VdevId(3), 8192, 512), 512, Txg(4), &accept, io);
    assert!(
        matches!(beyond, Err(VdevError::Unmapped { .. })),
        "{beyond:?}"
    );
}

#[test]
fn mappings_in_a_circle_end_with_an_error() {
    let gone = |guid| top(vdev("indirect", guid, vec![]), 9, 8 * MIB);
    let vdevs = open(&root(vec![gone(2), gone(3)]), &Devices::new());
    let to = |vdev| IndirectEntry {
        source: 0,
        target: Dva::new(VdevId(vdev), 0, 4096),
        copied_in: Txg(8),
    };
    vdevs
        .set_indirect_mapping(VdevId(0), vec![to(1)])
        .expect("in order");
    vdevs
        .set_indirect_mapping(VdevId(1), vec![to(0)])
        .expect("in order");
    let read = vdevs.read(
        Dva::new(VdevId(0), 0, 512),
        512,
        Txg(4),
        &|_| true,
        &IoContext::USER,
    );
    assert!(
        matches!(read, Err(VdevError::MappingLoop { .. })),
        "{read:?}"
    );
    assert!(
        vdevs.set_indirect_mapping(VdevId(2), vec![]).is_err(),
        "no such vdev"
    );
}

#[test]
fn absurd_addresses_are_refused_by_name() {
    let mut hole = vdev("hole", 0, vec![]);
    hole.set_u64("is_hole", 1);
    let raidz = top(vdev("raidz", 2, (10..13).map(disk).collect()), 12, 24 * MIB);
    let config = root(vec![raidz, hole, vdev("missing", 7, vec![])]);
    let vdevs = open(&config, &disks(10..13));
    let read = |vdev, offset, size| {
        let dva = Dva::new(VdevId(vdev), offset, 4096);
        vdevs.read(dva, size, Txg(4), &|_| true, &IoContext::USER)
    };
    assert!(read(0, 0, 4096).is_ok());
    assert!(matches!(read(3, 0, 512), Err(VdevError::NoSuchVdev { .. })));
    assert!(matches!(
        read(0xff_ffff, 0, 512),
        Err(VdevError::NoSuchVdev { .. })
    ));
    assert!(matches!(read(1, 0, 512), Err(VdevError::NoSpace { .. })));
    assert!(matches!(read(2, 0, 512), Err(VdevError::NoSpace { .. })));
    assert!(matches!(read(0, 0, 0), Err(VdevError::BadSize { .. })));
    assert!(matches!(
        read(0, 0, (16 << 20) + 1),
        Err(VdevError::BadSize { .. })
    ));
    assert!(matches!(
        read(0, 512, 512),
        Err(VdevError::Misaligned { .. })
    ));
    assert!(matches!(
        read(0, 24 * MIB - 4096, 4096),
        Err(VdevError::OutOfRange { .. })
    ));
    let far = Dva {
        word0: 8,
        word1: u64::MAX >> 1,
    };
    let far = vdevs.read(far, 512, Txg(4), &|_| true, &IoContext::USER);
    assert!(matches!(far, Err(VdevError::OutOfRange { .. })), "{far:?}");
    let batch = [(3, 0), (1, 0), (0, 24 * MIB)].map(|(vdev, offset)| BatchRead {
        dva: Dva::new(VdevId(vdev), offset, 512),
        size: 512,
        birth: Txg(4),
    });
    assert_eq!(
        vdevs.read_batch(&batch, &IoContext::USER),
        [None, None, None]
    );
}

#[test]
fn trees_that_make_no_sense_are_refused() {
    let refused = |top| Vdevs::open(&root(vec![top]), &Devices::new(), &OpenOptions::default());
    let unknown = refused(vdev("anyraid", 5, vec![]));
    assert!(matches!(unknown, Err(VdevError::UnknownKind { .. })));
    let nested = refused(vdev("mirror", 5, vec![disk(6), vdev("hole", 7, vec![])]));
    assert!(matches!(nested, Err(VdevError::BadConfig { .. })));
    let huge = refused(top(disk(5), 9, u64::MAX));
    assert!(matches!(huge, Err(VdevError::BadConfig { .. })));
    let no_ashift = refused(vdev("raidz", 5, (6..9).map(disk).collect()));
    assert!(matches!(no_ashift, Err(VdevError::BadConfig { .. })));
    let mut list = disk(5);
    list.set_u64("id", 0);
    let leaf = VdevConfig::decode(&list).expect("decodes");
    let no_root = Vdevs::open(&leaf, &Devices::new(), &OpenOptions::default());
    assert!(matches!(no_root, Err(VdevError::NoRoot { .. })));
}
