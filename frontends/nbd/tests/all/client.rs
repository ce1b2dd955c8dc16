//! Our client with our server: what it promises when servers end, hang, and lose what they had.

use crate::common::{Site, wait_until};
use cenote_device::Device;
use cenote_nbd::{
    BlockDevice, BlockError, Extent, Limits, MemoryDisk, ReadData, TlsPolicy, ZeroMode,
};
use cenote_nbd_client::NbdDevice;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn open(site: &Site, options: &str) -> NbdDevice {
    let url = site.url("disk", options);
    NbdDevice::open(Path::new(&url), true).expect("a connection")
}

/// A disk with a cache that a crash empties.
struct Volatile {
    cached: Mutex<Vec<u8>>,
    stable: Mutex<Vec<u8>>,
}

impl Volatile {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            cached: Mutex::new(vec![0; size]),
            stable: Mutex::new(vec![0; size]),
        })
    }

    fn crash(&self) {
        let stable = self.stable.lock().expect("no panic").clone();
        *self.cached.lock().expect("no panic") = stable;
    }
}

impl BlockDevice for Volatile {
    fn size(&self) -> u64 {
        self.cached.lock().expect("no panic").len() as u64
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        let cached = self.cached.lock().expect("no panic");
        data.push_filled(length, |buffer| {
            buffer.copy_from_slice(&cached[offset as usize..][..length]);
            Ok(())
        })
    }

    fn write(&self, offset: u64, bytes: &[u8], _is_durable: bool) -> Result<(), BlockError> {
        let mut cached = self.cached.lock().expect("no panic");
        cached[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockError> {
        let cached = self.cached.lock().expect("no panic");
        self.stable
            .lock()
            .expect("no panic")
            .copy_from_slice(&cached);
        Ok(())
    }

    fn trim(&self, _range: Range<u64>) -> Result<(), BlockError> {
        Ok(())
    }

    fn zero(&self, range: Range<u64>, _mode: ZeroMode) -> Result<(), BlockError> {
        let zeros = vec![0; (range.end - range.start) as usize];
        self.write(range.start, &zeros, false)
    }

    fn extents(&self, _: &str, range: Range<u64>, _: usize) -> Result<Vec<Extent>, BlockError> {
        let length = range.end - range.start;
        Ok(vec![Extent { length, flags: 0 }])
    }
}

#[test]
fn it_is_a_device() {
    let (site, _) = Site::with_disk(8 << 20);
    let device = open(&site, "");
    assert_eq!(device.size(), 8 << 20);
    assert!(device.is_writable() && device.can_discard());
    let bytes: Vec<u8> = (0..5 << 20).map(|n| (n / 1000) as u8).collect();
    device.write_at(4097, &bytes).expect("written");
    assert!(device.read_vec(4097, bytes.len()).expect("read") == bytes);
    device.discard(0, 1 << 20).expect("discarded");
    device.flush().expect("flushed");
    assert!(device.read_vec((8 << 20) - 1, 2).is_err());
    assert!(device.write_at(u64::MAX, &[1]).is_err());
    wait_until("all connections are used", || site.connected() == 4);
    drop(device);
    wait_until("the client is gone", || site.connected() == 0);
    let url = site.url("nothing", "");
    let error = NbdDevice::open(Path::new(&url), true).expect_err("no such export");
    assert!(error.to_string().contains("'nothing'"), "{error}");
}

/// The server answered writes, and lost them: nothing of that is visible behind a flush.
#[test]
fn what_a_server_forgets_is_sent_again() {
    let mut site = Site::new();
    let disk = Volatile::new(4 << 20);
    site.shelf.put("disk", Arc::clone(&disk) as _);
    let device = open(&site, "");
    device.write_at(0, &[1; 8192]).expect("written");
    device.flush().expect("flushed");
    device.write_at(0, &[2; 4096]).expect("written");
    device.write_at(1 << 20, &[3; 4096]).expect("written");
    device.write_at(2048, &[4; 4096]).expect("written");
    site.stop();
    disk.crash();
    assert_eq!(disk.cached.lock().expect("no panic")[0], 1, "forgotten");
    site.start();
    device.flush().expect("flushed");
    let stable = disk.stable.lock().expect("no panic");
    assert!(stable[..2048].iter().all(|byte| *byte == 2));
    assert!(stable[2048..6144].iter().all(|byte| *byte == 4));
    assert!(stable[6144..8192].iter().all(|byte| *byte == 1));
    assert_eq!(stable[1 << 20], 3);
}

#[test]
fn crashes_under_load_lose_nothing_that_was_flushed() {
    const REGION: usize = 64 << 10;
    let mut site = Site::new();
    let disk = Volatile::new(8 * REGION);
    site.shelf.put("disk", Arc::clone(&disk) as _);
    let device = open(&site, "&connections=3");
    let is_over = AtomicBool::new(false);
    // The last round that each writer has flushed.
    let flushed: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (writer, flushed) in flushed.iter().enumerate() {
            let (device, is_over) = (&device, &is_over);
            scope.spawn(move || {
                let start = (writer * REGION) as u64;
                for round in 1_u64.. {
                    for slot in 0..8 {
                        let bytes = round.to_be_bytes().repeat(512);
                        let at = start + slot * 8192;
                        device.write_at(at, &bytes).expect("written in time");
                    }
                    device.flush().expect("flushed in time");
                    flushed.store(round, Ordering::SeqCst);
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        for _ in 0..4 {
            let before: u64 = flushed.iter().map(|n| n.load(Ordering::SeqCst)).sum();
            wait_until("there is progress", || {
                flushed
                    .iter()
                    .map(|n| n.load(Ordering::SeqCst))
                    .sum::<u64>()
                    > before + 20
            });
            site.stop();
            disk.crash();
            let rounds: Vec<u64> = flushed.iter().map(|n| n.load(Ordering::SeqCst)).collect();
            let stable = disk.stable.lock().expect("no panic").clone();
            for (writer, round) in rounds.iter().enumerate() {
                for slot in 0..8 {
                    let at = writer * REGION + slot * 8192;
                    let found = u64::from_be_bytes(stable[at..at + 8].try_into().expect("as long"));
                    assert!(found >= *round, "writer {writer}: {found} < {round}");
                }
            }
            site.start();
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_request_fails_when_its_time_is_over() {
    let (mut site, _) = Site::with_disk(1 << 20);
    let device = open(&site, "&timeout=1");
    device.write_at(0, &[1; 4096]).expect("written");
    site.stop();
    let begin = Instant::now();
    let error = device.read_vec(0, 4096).expect_err("there is no server");
    assert!(
        error.to_string().contains("no connection for 1 s"),
        "{error}"
    );
    assert!(begin.elapsed() >= Duration::from_millis(900));
    site.start();
    wait_until("it is connected again", || device.read_vec(0, 1).is_ok());
    assert_eq!(device.read_vec(0, 1).expect("read"), [1]);
}

/// A disk whose reads wait as long as a test wants.
struct Hanging(MemoryDisk, Arc<AtomicBool>);

impl BlockDevice for Hanging {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        while self.1.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.read(offset, length, data)
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        self.0.write(offset, bytes, is_durable)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.0.flush()
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.0.trim(range)
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        self.0.zero(range, mode)
    }

    fn extents(&self, c: &str, range: Range<u64>, most: usize) -> Result<Vec<Extent>, BlockError> {
        self.0.extents(c, range, most)
    }
}

#[test]
fn a_server_that_hangs_is_an_error_and_no_hang() {
    let site = Site::new();
    let hangs = Arc::new(AtomicBool::new(true));
    let disk = Hanging(MemoryDisk::new(1 << 20), Arc::clone(&hangs));
    site.shelf.put("disk", Arc::new(disk));
    let device = open(&site, "&timeout=1");
    let error = device.read_vec(0, 4096).expect_err("it hangs");
    assert!(error.to_string().contains("no answer"), "{error}");
    // Other requests are served in the meantime, as long as there are threads.
    device.write_at(0, &[5; 4096]).expect("written");
    device.flush().expect("flushed");
    hangs.store(false, Ordering::SeqCst);
    wait_until("it answers", || device.read_vec(0, 1).is_ok());
    assert_eq!(device.read_vec(0, 1).expect("read"), [5]);
}

#[test]
fn an_export_that_grew_is_seen_and_one_that_shrank_is_not_used() {
    let (mut site, disk) = Site::with_disk(1 << 20);
    let device = open(&site, "&timeout=2");
    disk.resize(2 << 20);
    assert_eq!(device.size(), 1 << 20);
    assert_eq!(device.size_now(), 2 << 20);
    device.grow();
    device.write_at((2 << 20) - 4, &[1; 4]).expect("written");
    site.stop();
    disk.resize(4096);
    site.start();
    wait_until("the reason is known", || {
        let error = device.read_vec(0, 1).expect_err("not the same export");
        error.to_string().contains("has changed")
    });
}

/// A server was started again with another file. The protocol says its name and size, and both
/// were right; what was not flushed was sent to it.
#[test]
fn a_server_that_comes_back_with_another_disk_is_not_written_to() {
    let (mut site, first) = Site::with_disk(1 << 20);
    let device = open(&site, "&timeout=1");
    device.write_at(0, &[1; 4096]).expect("written");
    device.flush().expect("flushed");
    device.write_at(8192, &[2; 4096]).expect("written");
    site.stop();
    let second = Arc::new(MemoryDisk::new(1 << 20));
    site.shelf.put("disk", Arc::clone(&second) as _);
    site.start();
    wait_until("the reason is known", || {
        let error = device.read_vec(0, 1).expect_err("not the same disk");
        error.to_string().contains("another disk")
    });
    assert!(!device.is_in_use(), "another process may use it");
    site.stop();
    site.shelf.put("disk", first as _);
    site.start();
    wait_until("it is the disk again", || device.flush().is_ok());
    assert_eq!(device.read_vec(8192, 1).expect("read"), [2]);
    drop(device);
    site.shelf.put("disk", second as _);
    let device = open(&site, "");
    let found = device.read_vec(0, 1 << 20).expect("read");
    assert!(found.iter().all(|byte| *byte == 0));
}

/// A pool has hundreds of requests: each of them waited for a server that was known to be gone.
#[test]
fn requests_do_not_wait_for_a_server_that_is_long_gone() {
    let (mut site, _) = Site::with_disk(1 << 20);
    let device = open(&site, "&timeout=2");
    site.stop();
    device.read_vec(0, 1).expect_err("there is no server");
    let begun = Instant::now();
    for _ in 0..5 {
        device.read_vec(0, 1).expect_err("there is no server");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "not two seconds each"
    );
    site.start();
    wait_until("it is there again", || device.read_vec(0, 1).is_ok());
}

/// Sixteen requests at once meet in the server, whatever the number of connections is.
#[test]
fn requests_are_carried_out_at_once() {
    for options in ["&connections=1", "&connections=4"] {
        let limits = Limits::default();
        let site = Site::with(limits, TlsPolicy::Off);
        let hangs = Arc::new(AtomicBool::new(true));
        let disk = Hanging(MemoryDisk::new(1 << 20), Arc::clone(&hangs));
        site.shelf.put("disk", Arc::new(disk));
        let device = open(&site, options);
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| device.read_vec(0, 4096).expect("read"));
            }
            // A write is answered while twelve reads hang.
            device.write_at(0, &[5; 4096]).expect("written");
            hangs.store(false, Ordering::SeqCst);
        });
    }
}

/// A server of its own, which is killed when this is dropped.
struct Process(std::process::Child);

impl Process {
    fn start(socket: &Path, file: &Path) -> Self {
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_cenote-nbd-serve"))
            .args([socket, file])
            .stdout(std::process::Stdio::null())
            .spawn();
        Self(child.expect("the program"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

#[test]
fn a_server_that_is_killed_comes_back_where_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let (socket, file) = (directory.path().join("s"), directory.path().join("f"));
    let image = std::fs::File::create(&file).expect("a file");
    image.set_len(16 << 20).expect("sparse");
    let mut process = Some(Process::start(&socket, &file));
    let url = format!("nbd+unix:///?socket={}", socket.display());
    let mut device = None;
    wait_until("the server listens", || {
        device = NbdDevice::open(Path::new(&url), true).ok();
        device.is_some()
    });
    let device = device.expect("it was opened");
    let (written, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let (device, written, is_over) = (&device, &written, &is_over);
            scope.spawn(move || {
                for round in 0..u64::MAX {
                    let at = (writer << 22) + (round % 64) * (64 << 10);
                    let bytes = (at + round).to_be_bytes().repeat(4096);
                    device.write_at(at, &bytes).expect("written in time");
                    let read = device.read_vec(at, bytes.len()).expect("read in time");
                    assert!(read == bytes, "writer {writer}, round {round}");
                    written.fetch_add(1, Ordering::SeqCst);
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        for _ in 0..3 {
            let before = written.load(Ordering::SeqCst);
            wait_until("there is progress", || {
                written.load(Ordering::SeqCst) > before + 50
            });
            drop(process.take());
            process = Some(Process::start(&socket, &file));
        }
        is_over.store(true, Ordering::SeqCst);
    });
    device.flush().expect("flushed");
    drop(process);
}
