//! Workers between a disk in memory and a kernel that is played here.

use super::*;
use cenote_nbd::{BlockError, Extent, MemoryDisk, ReadData, ZeroMode};
use std::ops::Range;
use std::sync::{Condvar as StdCondvar, Mutex as StdMutex};
use std::time::Instant;

/// The memory of requests, by tag; each call moves a part only.
struct Pages(StdMutex<Vec<Vec<u8>>>);

impl Pages {
    fn new(tags: usize) -> Arc<Self> {
        Arc::new(Self(StdMutex::new(vec![vec![0; 512 << 10]; tags])))
    }

    fn set(&self, tag: u16, bytes: &[u8]) {
        let mut pages = self.0.lock().expect("no panic before");
        pages[usize::from(tag)][..bytes.len()].copy_from_slice(bytes);
    }

    fn get(&self, tag: u16, length: usize) -> Vec<u8> {
        self.0.lock().expect("no panic before")[usize::from(tag)][..length].to_vec()
    }
}

impl Window for Pages {
    fn fetch(&self, tag: u16, at: u64, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let pages = self.0.lock().expect("no panic before");
        let at = usize::try_from(at).expect("it is little");
        let slice = slices.first_mut().expect("there is something to do");
        let length = slice.len().min(5000);
        slice[..length].copy_from_slice(&pages[usize::from(tag)][at..at + length]);
        Ok(length)
    }

    fn deliver(&self, tag: u16, at: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut pages = self.0.lock().expect("no panic before");
        let at = usize::try_from(at).expect("it is little");
        let slice = slices.first().expect("there is something to do");
        let length = slice.len().min(7000);
        pages[usize::from(tag)][at..at + length].copy_from_slice(&slice[..length]);
        Ok(length)
    }
}

/// A disk whose writes wait until the test lets them, and whose trims panic.
struct Gated {
    disk: MemoryDisk,
    is_open: StdMutex<bool>,
    opened: StdCondvar,
}

impl Gated {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            disk: MemoryDisk::new(1 << 20),
            is_open: StdMutex::new(false),
            opened: StdCondvar::new(),
        })
    }

    fn open(&self) {
        *self.is_open.lock().expect("no panic before") = true;
        self.opened.notify_all();
    }
}

impl BlockDevice for Gated {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read(&self, at: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        self.disk.read(at, length, data)
    }
    fn write(&self, at: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        let mut is_open = self.is_open.lock().expect("no panic before");
        while !*is_open {
            is_open = self.opened.wait(is_open).expect("no panic before");
        }
        drop(is_open);
        self.disk.write(at, bytes, is_durable)
    }
    fn flush(&self) -> Result<(), BlockError> {
        self.disk.flush()
    }
    fn trim(&self, _: Range<u64>) -> Result<(), BlockError> {
        panic!("a device that is broken")
    }
    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        self.disk.zero(range, mode)
    }
    fn extents(&self, _: &str, _: Range<u64>, _: usize) -> Result<Vec<Extent>, BlockError> {
        Ok(Vec::new())
    }
}

fn answers(workers: &Workers, count: usize) -> Vec<Answer> {
    let end = Instant::now() + Duration::from_secs(20);
    let mut answers = Vec::new();
    while answers.len() < count {
        assert!(Instant::now() < end, "only {answers:?} came");
        workers.take_answers(&mut answers);
        std::thread::sleep(Duration::from_millis(1));
    }
    answers.sort_unstable();
    answers
}

fn request(operation: u32, start: u64, sectors: u32) -> Request {
    Request::decode(operation, start, sectors).expect("it makes sense")
}

#[test]
fn data_goes_through_in_parts() {
    let pages = Pages::new(2);
    let workers = Workers::new(Arc::new(MemoryDisk::new(1 << 20)), 4, pages.clone());
    let workers = workers.expect("there is an event");
    let bytes: Vec<u8> = (0..100 << 10).map(|at: u32| (at / 7) as u8).collect();
    pages.set(0, &bytes);
    workers.submit(0, request(1, 3, 200));
    assert_eq!(answers(&workers, 1), [(0, 100 << 10)]);
    workers.submit(1, request(0, 3, 200));
    assert_eq!(answers(&workers, 1), [(1, 100 << 10)]);
    assert!(pages.get(1, 100 << 10) == bytes);
    let counters = workers.counters();
    assert_eq!(counters.requests, 2);
    assert_eq!(counters.read_bytes, 100 << 10);
    assert_eq!(counters.written_bytes, 100 << 10);
    workers.end();
}

#[test]
fn requests_that_hang_hold_up_no_other() {
    let (disk, pages) = (Gated::new(), Pages::new(8));
    let workers = Workers::new(disk.clone(), 8, pages).expect("there is an event");
    for tag in 0..7 {
        workers.submit(tag, request(1, u64::from(tag) * 8, 8));
    }
    workers.submit(7, request(0, 0, 8));
    assert_eq!(answers(&workers, 1), [(7, 4096)]);
    // What was given up does not reach the kernel any more.
    workers.close_window();
    disk.open();
    let late = answers(&workers, 7);
    assert_eq!(late[0], (0, 4096), "the write was on its way already");
    workers.submit(7, request(0, 0, 8));
    let refused = -Errno::NODEV.raw_os_error();
    assert_eq!(answers(&workers, 1), [(7, refused)]);
    workers.end();
}

#[test]
fn a_device_that_panics_is_an_error() {
    let workers = Workers::new(Gated::new(), 2, Pages::new(2)).expect("there is an event");
    workers.submit(1, request(3, 0, 8));
    assert_eq!(answers(&workers, 1), [(1, -Errno::IO.raw_os_error())]);
    workers.submit(1, request(0, 0, 8));
    assert_eq!(answers(&workers, 1), [(1, 4096)]);
    workers.end();
}
