//! Filters around a device: changes kept apart, and requests counted.

use crate::common::Site;
use cenote_device::Device;
use cenote_nbd::{BlockDevice, FileDisk, Filtered, MemoryDisk, Overlay, Statistics, ZeroMode};
use cenote_nbd_client::NbdDevice;
use cenote_tests::random::Random;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Not a multiple of the overlay's blocks.
const SIZE: usize = (1 << 20) + 5000;

fn connect(site: &Site, name: &str) -> NbdDevice {
    let url = site.url(name, "");
    NbdDevice::open(Path::new(&url), true).expect("a connection")
}

/// Opens a file of changes. A child that another test is starting has the file open for a moment
/// after we have closed it, and with it the lock.
fn beside(inner: Arc<dyn BlockDevice>, above: &Path) -> std::io::Result<Overlay> {
    let begun = Instant::now();
    loop {
        match Overlay::open(Arc::clone(&inner), above) {
            Err(error)
                if error.kind() == ErrorKind::ResourceBusy
                    && begun.elapsed() < Duration::from_secs(10) =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// Random writes through the overlay are read as they are in a model, in every mixture of blocks,
/// and also when the file is used again; the device below never changes.
#[test]
fn changes_are_kept_beside_the_device() {
    let site = Site::new();
    let directory = tempfile::tempdir().expect("a directory");
    let (below, above) = (
        directory.path().join("below"),
        directory.path().join("above"),
    );
    let mut random = Random::new(7);
    let mut model = vec![0; SIZE];
    random.fill(&mut model[100_000..700_000]);
    let original = model.clone();
    std::fs::write(&below, &original).expect("an image");
    let open = |round: u64| {
        let inner = FileDisk::open(&below, true).expect("the image");
        let overlay = beside(Arc::new(inner), &above).expect("the file beside");
        site.shelf.put(&format!("round {round}"), Arc::new(overlay));
        connect(&site, &format!("round%20{round}"))
    };
    for round in 0..3 {
        let device = open(round);
        assert!(
            device.read_vec(0, SIZE).expect("read") == model,
            "round {round}"
        );
        for _ in 0..40 {
            let length = 1 + random.below(100_000) as usize;
            let offset = random.below((SIZE - length) as u64) as usize;
            let mut bytes = vec![0; length];
            match random.below(3) {
                0 => {}
                _ => random.fill(&mut bytes),
            }
            device.write_at(offset as u64, &bytes).expect("written");
            model[offset..offset + length].copy_from_slice(&bytes);
        }
        device.flush().expect("flushed");
        assert!(device.read_vec(0, SIZE).expect("read") == model);
        drop(device);
        site.shelf.remove(&format!("round {round}"));
        while site.connected() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(std::fs::read(&below).expect("the image") == original);
    let other = beside(Arc::new(MemoryDisk::new(4096)), &above);
    let error = other.err().expect("another device").to_string();
    assert!(error.contains("4096 bytes"), "{error}");
}

/// Changes were taken for those of any device of the same size: what was read was half of one disk
/// and half of another.
#[test]
fn changes_of_another_device_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let above = directory.path().join("above");
    let disk = |byte: u8| {
        let disk = Arc::new(MemoryDisk::new(4 << 20));
        disk.write(0, &[byte; 4096], false).expect("written");
        disk
    };
    let (own, other) = (disk(1), disk(2));
    let overlay = beside(Arc::clone(&own) as _, &above).expect("a new file");
    overlay.write(1 << 20, &[3; 512], true).expect("written");
    drop(overlay);
    let refused = |disk: &Arc<MemoryDisk>| {
        let opened = beside(Arc::clone(disk) as _, &above);
        let error = opened.err().expect("it is refused").to_string();
        assert!(error.contains("no changes of this device"), "{error}");
    };
    refused(&other);
    let overlay = beside(Arc::clone(&own) as _, &above).expect("its own");
    assert!(!overlay.is_read_only());
    assert!(overlay.read_only().is_read_only());
    // It was written to beside its changes.
    own.write((4 << 20) - 512, &[4; 512], false)
        .expect("written");
    refused(&own);
}

#[test]
fn zeros_and_trims_of_parts_leave_their_neighbours() {
    let inner = Arc::new(MemoryDisk::new(1 << 20));
    inner.write(0, &[7; 1 << 20], false).expect("written");
    let overlay = Arc::new(Overlay::temporary(Arc::clone(&inner) as _).expect("a file"));
    let site = Site::new();
    site.shelf.put("disk", Arc::clone(&overlay) as _);
    let device = connect(&site, "disk");
    let mode = ZeroMode::default();
    overlay.zero(100..(128 << 10) + 1, mode).expect("zeros");
    overlay
        .trim((512 << 10) + 1..(704 << 10) - 1)
        .expect("trimmed");
    let read = device.read_vec(0, 1 << 20).expect("read");
    let is = |range: std::ops::Range<usize>, byte: u8| read[range].iter().all(|b| *b == byte);
    assert!(is(0..100, 7) && is(100..(128 << 10) + 1, 0));
    assert!(
        is((128 << 10) + 1..576 << 10, 7),
        "a part of a block is not trimmed"
    );
    assert!(is(576 << 10..640 << 10, 0) && is(640 << 10..1 << 20, 7));
}

/// Two writers of parts of one block that is still below: neither loses what the other wrote.
#[test]
fn writers_of_one_block_meet() {
    let inner = Arc::new(MemoryDisk::new(4 << 20));
    inner.write(0, &[7; 4 << 20], false).expect("written");
    let overlay = Overlay::temporary(inner).expect("a file");
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let overlay = &overlay;
            scope.spawn(move || {
                for block in 0..64 {
                    let at = block * (64 << 10) + writer * 1000;
                    overlay
                        .write(at, &[writer as u8; 1000], false)
                        .expect("written");
                }
            });
        }
    });
    let site = Site::new();
    site.shelf.put("disk", Arc::new(overlay));
    let read = connect(&site, "disk").read_vec(0, 4 << 20).expect("read");
    for block in read.chunks(64 << 10) {
        let parts = block.chunks(1000).zip([0, 1, 2, 3, 7, 7]);
        for (part, byte) in parts {
            assert!(part.iter().all(|b| *b == byte), "{byte} became {}", part[0]);
        }
    }
}

#[test]
fn requests_are_counted_as_clients_make_them() {
    let site = Site::new();
    let statistics = Arc::new(Statistics::default());
    let disk = Filtered::new(Arc::new(MemoryDisk::new(1 << 20)), Arc::clone(&statistics));
    site.shelf.put("disk", Arc::new(disk));
    let device = connect(&site, "disk");
    device.write_at(8192, &[1; 4096]).expect("written");
    device.flush().expect("flushed");
    device.read_vec(8192, 4096).expect("read");
    let report = statistics.report();
    for line in [
        "read: 1 request, 4 KiB",
        "write: 1 request, 4 KiB",
        "flush: 1 request,",
    ] {
        assert!(report.contains(line), "{report}");
    }
}
