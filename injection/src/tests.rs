//! Faults on devices in memory.

use super::*;
use cenote_base::rt::{self, World};
use cenote_base::{BlockId, Bookmark, Env, Level, ObjectId, ObjsetId, RealEnv};
use cenote_device::{Device, MemoryDevice};
use cenote_ondisk::ObjectType;
use cenote_ondisk::label::{DATA_OFFSET, UBERBLOCK_RING_OFFSET};
use std::time::Duration;

const SIZE: usize = 5 << 20;

fn device() -> MemoryDevice {
    MemoryDevice::new("m", vec![7; SIZE])
}

fn fault(error: LeafError, work: Option<Work>) -> LeafFault {
    LeafFault {
        error,
        work,
        chance: Chance::ALWAYS,
        label: None,
    }
}

fn read(faults: &LeafFaults, device: &dyn Device, offset: u64) -> Option<u8> {
    let read = |device: &dyn Device| device.read_vec(offset, 512);
    let bytes = faults.with(device, &RealEnv, read).ok()?;
    Some(bytes[0])
}

#[test]
fn an_error_hits_the_requests_it_is_for_and_spares_labels_and_probes() {
    let (device, faults) = (device(), LeafFaults::default());
    assert!(faults.is_empty());
    faults.add(1, fault(LeafError::Io, None));
    assert_eq!(read(&faults, &device, DATA_OFFSET), None);
    let labels = [0, 100 << 10, SIZE as u64 - 1024];
    assert!(
        labels
            .iter()
            .all(|at| read(&faults, &device, *at) == Some(7))
    );
    let probe = Drilled::new(&device, &faults, &RealEnv).probing();
    assert!(probe.read_vec(0, 512).is_ok());
    let flush = |device: &dyn Device| device.flush();
    assert!(faults.with(&device, &RealEnv, flush).is_err());
    faults.remove(1);
    assert!(faults.is_empty());
    assert_eq!(read(&faults, &device, DATA_OFFSET), Some(7));

    faults.add(2, fault(LeafError::Io, Some(Work::Write)));
    assert_eq!(read(&faults, &device, DATA_OFFSET), Some(7));
    let write = |device: &dyn Device| device.write_at(DATA_OFFSET, &[9; 512]);
    assert!(faults.with(&device, &RealEnv, write).is_err());
    // As in OpenZFS the request itself is carried out.
    assert_eq!(read(&faults, &device, DATA_OFFSET), Some(9));
}

#[test]
fn a_device_that_is_gone_does_not_answer_probes_either() {
    let (device, faults) = (device(), LeafFaults::default());
    faults.add(1, fault(LeafError::NoDevice, Some(Work::Read)));
    assert!(faults.is_gone());
    let probe = Drilled::new(&device, &faults, &RealEnv).probing();
    assert!(probe.read_vec(0, 512).is_err());
    faults.remove(1);
    faults.add(2, fault(LeafError::Io, Some(Work::Probe)));
    assert!(!faults.is_gone());
    assert!(probe.read_vec(0, 512).is_err());
    assert_eq!(read(&faults, &device, DATA_OFFSET), Some(7));
}

#[test]
fn a_fault_of_labels_hits_that_part_of_all_four() {
    let (device, faults) = (device(), LeafFaults::default());
    let label = Some(LabelPart::Uberblocks);
    let fault = fault(LeafError::Io, Some(Work::Read));
    faults.add(1, LeafFault { label, ..fault });
    let second = 256 << 10;
    let last = SIZE as u64 - second;
    for label in [0, second, last - second, last] {
        assert_eq!(read(&faults, &device, label), Some(7));
        let uberblocks = label + UBERBLOCK_RING_OFFSET;
        assert_eq!(read(&faults, &device, uberblocks), None);
    }
    assert_eq!(read(&faults, &device, DATA_OFFSET), Some(7));
}

#[test]
fn one_bit_is_wrong_and_what_is_dropped_is_not_written() {
    let (device, faults) = (device(), LeafFaults::default());
    faults.add(1, fault(LeafError::Corrupt, Some(Work::Read)));
    let spoiled = |device: &dyn Device| device.read_vec(DATA_OFFSET, 512);
    let bytes = faults.with(&device, &RealEnv, spoiled).expect("no error");
    let wrong: u32 = bytes.iter().map(|byte| (byte ^ 7).count_ones()).sum();
    assert_eq!(wrong, 1);
    faults.remove(1);
    faults.add(2, fault(LeafError::Noop, Some(Work::Write)));
    let write = |device: &dyn Device| device.write_at(DATA_OFFSET, &[9; 512]);
    assert!(faults.with(&device, &RealEnv, write).is_ok());
    assert_eq!(read(&faults, &device, DATA_OFFSET), Some(7));
}

#[test]
fn a_share_of_the_requests_is_hit() {
    let (device, faults) = (device(), LeafFaults::default());
    let half = LeafFault {
        chance: Chance::per_million(500_000),
        ..fault(LeafError::Io, None)
    };
    faults.add(1, half);
    let hits = (0..200).filter(|_| read(&faults, &device, DATA_OFFSET).is_none());
    let hits = hits.count();
    // The chance that a fair coin leaves this range is below one in a million million.
    assert!((50..150).contains(&hits), "{hits} of 200");
    assert!(!Chance::per_million(0).hits(&RealEnv));
}

/// Requests share lanes, and lanes of several delays add up.
#[test]
fn lanes_carry_out_one_request_at_a_time() {
    World::simulated(1).run(|| {
        let (device, faults) = (device(), LeafFaults::default());
        let ms = Duration::from_millis;
        let delay = |latency, lanes| Delay {
            latency: ms(latency),
            lanes,
            work: None,
        };
        faults.add_delay(1, delay(10, 1));
        faults.add_delay(2, delay(25, 2));
        let now = RealEnv.monotonic();
        let ends = (0..5).filter_map(|_| faults.take_lane(Work::Read, now));
        let ends: Vec<_> = ends.map(|(id, end)| (id, end - now)).collect();
        assert_eq!(
            ends,
            [
                (1, ms(10)),
                (1, ms(20)),
                (2, ms(25)),
                (2, ms(25)),
                (1, ms(30))
            ]
        );
        assert_eq!(faults.take_lane(Work::Flush, now), None);
        assert_eq!(read(&faults, &device, 0), Some(7));
        assert!(rt::uptime() - now >= ms(40), "the labels are slow, too");
    });
}

#[test]
fn blocks_fail_by_place_kind_and_copy() {
    let faults = BlockFaults::default();
    let place = |block| Bookmark::data(ObjsetId(54), ObjectId(2), BlockId(block));
    let kind = ObjectType(19);
    faults.add(
        3,
        BlockFault {
            error: BlockError::Io,
            chance: Chance::ALWAYS,
            objset: ObjsetId(54),
            object: Some(ObjectId(2)),
            kind: None,
            level: Level(0),
            blocks: 4..=5,
            copies: 0b10,
        },
    );
    assert!(faults.concerns(place(4), kind));
    assert!(!faults.concerns(place(6), kind));
    assert_eq!(faults.of_copy(place(4), kind, 0), None);
    assert!(faults.of_copy(place(4), kind, 1).is_some());
    assert_eq!(faults.of_contents(place(4), kind, &RealEnv), None);
    let level = Level(1);
    assert!(!faults.concerns(Bookmark { level, ..place(4) }, kind));
    faults.add(
        4,
        BlockFault {
            error: BlockError::Decompress,
            chance: Chance::ALWAYS,
            objset: ObjsetId(0),
            object: None,
            kind: Some(kind),
            level: Level(0),
            blocks: 0..=u64::MAX,
            copies: 0,
        },
    );
    let mos = |object| Bookmark::data(ObjsetId(0), ObjectId(object), BlockId(9));
    let contents = |kind| faults.of_contents(mos(77), kind, &RealEnv);
    assert_eq!(contents(kind), Some(BlockError::Decompress));
    assert_eq!(contents(ObjectType(20)), None);
    assert_eq!(faults.of_copy(mos(77), kind, 0), None);
    faults.remove(3);
    faults.remove(4);
    assert!(faults.is_empty());
}
