//! Labels of golden devices, whole and damaged, and pools inside disk images.

use super::support::{Pool, unpacked};
use cenote_base::Txg;
use cenote_codec::checksum::sha256;
use cenote_device::{Device, FaultyDevice, MemoryDevice, SystemOpener, WindowDevice};
use cenote_ondisk::embedded_checksum;
use cenote_ondisk::{BlockPointer, Uberblock};
use cenote_vdev::{DeviceLabels, LabelHealth, scan};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const LABEL: u64 = 256 << 10;

fn health(labels: &DeviceLabels) -> Vec<&'static str> {
    let words = labels.labels.iter().map(|label| match label.health {
        LabelHealth::Valid => "valid",
        LabelHealth::BadChecksum => "checksum",
        LabelHealth::Garbage => "garbage",
        LabelHealth::Blank => "blank",
        LabelHealth::Unreadable(_) => "unreadable",
        LabelHealth::Absent => "absent",
        LabelHealth::Foreign => "foreign",
        LabelHealth::BadContents(_) => "contents",
    });
    words.collect()
}

#[test]
fn damage_is_named_and_survived() {
    let Some(pool) = Pool::open("mirror2") else {
        return;
    };
    let device = &pool.devices[0].1;
    let whole = DeviceLabels::read(device.as_ref());
    assert_eq!(health(&whole), ["valid"; 4]);
    let best = whole
        .best_uberblock(None)
        .expect("uberblocks")
        .uberblock
        .clone();
    assert_eq!(best.rank(), pool.uberblock.rank());
    let older = whole.best_uberblock(Some(Txg(best.txg.0 - 1)));
    assert!(older.is_some_and(|found| found.uberblock.txg < best.txg));

    // Label 0: an error in the configuration; label 1: noise in its zeros; label 2: gone.
    let end = device.size() / LABEL * LABEL;
    device.add_errors(0x5000..0x5001);
    device.add_noise(LABEL + 0x1_0000..LABEL + 0x1_0001);
    device.add_noise(end - 2 * LABEL..end - LABEL);
    let damaged = DeviceLabels::read(device.as_ref());
    assert_eq!(
        health(&damaged),
        ["unreadable", "checksum", "garbage", "valid"]
    );
    let found = damaged.best_uberblock(None).expect("three rings are whole");
    assert_eq!((found.label, found.uberblock.rank()), (0, best.rank()));
    assert_eq!(
        damaged.config_for(best.txg).map(|label| label.index),
        Some(3)
    );

    // No configuration left: the slots' size is found by trying.
    device.add_noise(0..0x2_0000);
    device.add_noise(LABEL..LABEL + 0x2_0000);
    device.add_noise(end - LABEL..end);
    let headless = DeviceLabels::read(device.as_ref());
    assert!(headless.newest_config().is_none());
    let found = headless.best_uberblock(None).expect("two rings are whole");
    assert_eq!(found.uberblock, best);
    assert!(headless.is_member());

    device.heal();
    device.truncate(70 << 20);
    let cut = DeviceLabels::read(device.as_ref());
    assert_eq!(&health(&cut)[..2], ["valid"; 2], "the head is still there");
    assert!(!cut.labels[2].is_valid() && !cut.labels[3].is_valid());
    pool.heal();
}

#[test]
fn a_blank_device_is_no_member() {
    let blank = MemoryDevice::new("blank", vec![0; 2 << 20]);
    let labels = DeviceLabels::read(&blank);
    assert_eq!(health(&labels), ["blank"; 4]);
    assert!(!labels.is_member());
    let tiny = MemoryDevice::new("tiny", vec![0; 1000]);
    assert_eq!(health(&DeviceLabels::read(&tiny)), ["absent"; 4]);
}

/// Writes a sealed uberblock slot of 1 KiB at `at`, in the given byte order.
fn put_uberblock(device: &MemoryDevice, at: u64, txg: u64, big_endian: bool) {
    let uberblock = Uberblock {
        little_endian: true,
        version: 28,
        txg: Txg(txg),
        guid_sum: 7,
        timestamp: 1000,
        root: BlockPointer::HOLE,
        software_version: 28,
        multihost: None,
        checkpoint_txg: Txg(0),
        raidz_reflow_word: 0,
    };
    let mut slot = vec![0; 1024];
    slot[..216].copy_from_slice(&uberblock.encode());
    embedded_checksum::prepare(&mut slot, 984, embedded_checksum::label_verifier(at));
    let swap = |bytes: &mut [u8]| bytes.chunks_exact_mut(8).for_each(<[u8]>::reverse);
    if big_endian {
        swap(&mut slot);
    }
    let checksum = sha256(&slot);
    embedded_checksum::seal(&mut slot, 984, checksum);
    if big_endian {
        swap(&mut slot[992..]);
    }
    device.write_at(at, &slot).expect("memory is writable");
}

#[test]
fn both_byte_orders_and_wrong_places() {
    let device = MemoryDevice::new("m", vec![0; 2 << 20]);
    put_uberblock(&device, 0x2_0000, 5, false);
    put_uberblock(&device, LABEL + 0x2_0400, 6, true);
    // Sealed for another place: a stale copy of a device with other borders.
    put_uberblock(&device, 0x2_0800, 9, false);
    let stray = device.read_vec(0x2_0800, 1024).expect("in range");
    device.write_at(0x2_0800, &[0; 1024]).expect("writable");
    device.write_at(0x2_0c00, &stray).expect("writable");
    let labels = DeviceLabels::read(&device);
    let found: Vec<_> = labels
        .uberblocks
        .iter()
        .map(|found| {
            (
                found.label,
                found.slot,
                found.uberblock.txg.0,
                found.uberblock.little_endian,
            )
        })
        .collect();
    assert_eq!(found, [(1, 1, 6, false), (0, 0, 5, true)]);
}

#[test]
fn a_pool_in_a_partition_of_an_image_is_found() {
    let Some(directory) = unpacked("mirror2") else {
        return;
    };
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("disk.img");
    let pool = std::fs::read(directory.join("v0.img")).expect("readable");
    let disk = File::create_new(&path).expect("a new file");
    let start = 2048 * 512;
    // The partition ends where the disk ends: the disk's last label is the partition's too.
    disk.set_len(start + pool.len() as u64).expect("sparse");
    for (index, piece) in pool.chunks(1 << 20).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            disk.write_all_at(piece, start + ((index as u64) << 20))
                .expect("writable");
        }
    }
    let mut entry = [0; 66];
    entry[4] = 0xbf;
    entry[8..12].copy_from_slice(&2048u32.to_le_bytes());
    entry[12..16].copy_from_slice(&(pool.len() as u32 / 512).to_le_bytes());
    entry[64..].copy_from_slice(&[0x55, 0xaa]);
    disk.write_all_at(&entry, 446).expect("writable");

    let found = scan(&[path], &SystemOpener::default());
    assert_eq!(found.members.len(), 1, "the partition, not the disk");
    let member = &found.members[0];
    let partition = member.candidate.partition.expect("a partition");
    assert_eq!((partition.number, partition.start), (1, start));
    assert_eq!(health(&member.labels), ["valid"; 4]);
}

#[test]
fn a_window_sees_the_same_labels() {
    let Some(pool) = Pool::open("mirror2") else {
        return;
    };
    let device = Arc::clone(&pool.devices[1].1) as Arc<FaultyDevice>;
    let window = WindowDevice::new(device, 0, None).expect("the whole device");
    assert_eq!(health(&DeviceLabels::read(&window)), ["valid"; 4]);
}
