//! Requests on a disk in memory, with the kernel's side played here.

use super::*;
use cenote_nbd::protocol::ErrorCode;
use cenote_nbd::{Extent, MemoryDisk};
use std::cell::RefCell;

/// The memory of the kernel's request.
struct Pages(RefCell<Vec<u8>>);

impl Transfer for Pages {
    fn fetch(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let bytes = self.0.borrow();
        let mut at = 0;
        for slice in slices {
            let length = slice.len();
            slice.copy_from_slice(&bytes[at..at + length]);
            at += length;
        }
        assert_eq!(at, bytes.len());
        Ok(())
    }

    fn deliver(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let mut bytes = self.0.borrow_mut();
        bytes.clear();
        slices
            .iter()
            .for_each(|slice| bytes.extend_from_slice(slice));
        Ok(())
    }
}

/// What a device was asked, and the error that it answers with.
#[derive(Default)]
struct Told {
    calls: RefCell<Vec<String>>,
    error: Option<ErrorCode>,
    piece: Option<usize>,
}

/// Tests are one thread.
struct Telling(Told);

// A lock makes it `Sync`; the calls come from one thread.
struct Shared(std::sync::Mutex<Telling>);

impl Shared {
    fn new(error: Option<ErrorCode>, piece: Option<usize>) -> Self {
        let calls = RefCell::default();
        Self(std::sync::Mutex::new(Telling(Told {
            calls,
            error,
            piece,
        })))
    }

    fn note(&self, call: String) -> Result<(), BlockError> {
        let told = self.0.lock().expect("no panic before");
        told.0.calls.borrow_mut().push(call);
        match told.0.error {
            Some(code) => Err(BlockError::new(code, "as the test wants it")),
            None => Ok(()),
        }
    }

    fn calls(&self) -> Vec<String> {
        self.0.lock().expect("no panic before").0.calls.take()
    }
}

impl BlockDevice for Shared {
    fn size(&self) -> u64 {
        1 << 20
    }

    fn piece_size(&self) -> Option<usize> {
        self.0.lock().expect("no panic before").0.piece
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        data.push_zeros(length / 2);
        self.note(format!("read {offset} {length}"))
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        self.note(format!("write {offset} {} {is_durable}", bytes.len()))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.note("flush".to_owned())
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.note(format!("trim {range:?}"))
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        self.note(format!("zero {range:?} {}", mode.keeps_space))
    }

    fn extents(&self, _: &str, _: Range<u64>, _: usize) -> Result<Vec<Extent>, BlockError> {
        Ok(Vec::new())
    }
}

fn perform(device: &dyn BlockDevice, flags: u32, start: u64, bytes: &Pages) -> Result<(), Errno> {
    let sectors = u32::try_from(bytes.0.borrow().len() as u64 / SECTOR).expect("little");
    let request = Request::decode(flags, start, sectors)?;
    request.perform(device, bytes, &mut Memory::default())
}

fn pages(length: usize, byte: u8) -> Pages {
    Pages(RefCell::new(vec![byte; length]))
}

#[test]
fn what_is_written_is_read() {
    let disk = MemoryDisk::new(1 << 20);
    let wide = pages(300 << 10, 7);
    perform(&disk, wire::WRITE, 8, &wide).expect("it is written");
    let read = pages(304 << 10, 0);
    perform(&disk, wire::READ, 4, &read).expect("it is read");
    let expected = [vec![0; 2048], vec![7; 300 << 10], vec![0; 2048]].concat();
    assert!(*read.0.borrow() == expected);
    perform(&disk, wire::DISCARD, 8, &pages(4096, 0)).expect("it is trimmed");
    perform(&disk, wire::WRITE_ZEROES, 16, &pages(4096, 0)).expect("it is zeroed");
    let read = pages(12 << 10, 9);
    perform(&disk, wire::READ, 8, &read).expect("it is read");
    assert_eq!(read.0.borrow()[4096..8192], [0; 4096]);
    assert_eq!(read.0.borrow()[8192..], [7; 4096]);
}

#[test]
fn flags_keep_their_promises() {
    let device = Shared::new(None, None);
    let some = pages(4096, 1);
    perform(&device, wire::WRITE, 0, &some).expect("it is written");
    perform(&device, wire::WRITE | wire::FUA, 1, &some).expect("it is written");
    perform(&device, wire::FLUSH, 0, &pages(0, 0)).expect("it is flushed");
    perform(&device, wire::DISCARD, 2, &some).expect("it is trimmed");
    perform(&device, wire::WRITE_ZEROES | wire::FUA, 0, &some).expect("it is zeroed");
    perform(&device, wire::WRITE_ZEROES | wire::NO_UNMAP, 0, &some).expect("it is zeroed");
    let expected = [
        "write 0 4096 false",
        "write 512 4096 true",
        "flush",
        "trim 1024..5120",
        "zero 0..4096 false",
        "flush",
        "zero 0..4096 true",
    ];
    assert_eq!(device.calls(), expected);
}

#[test]
fn long_writes_come_in_pieces() {
    let device = Shared::new(None, Some(16 << 10));
    perform(&device, wire::WRITE, 1, &pages(64 << 10, 1)).expect("it is written");
    let calls = device.calls();
    assert_eq!(calls[0], format!("write 512 {} false", (16 << 10) - 512));
    assert_eq!(calls.len(), 5);
}

#[test]
fn errors_have_their_numbers() {
    let cases = [
        (ErrorCode::NoSpace, Errno::NOSPC),
        (ErrorCode::Io, Errno::IO),
        (ErrorCode::NotPermitted, Errno::PERM),
        (ErrorCode::NotSupported, Errno::OPNOTSUPP),
    ];
    for (code, expected) in cases {
        let device = Shared::new(Some(code), None);
        let told = perform(&device, wire::WRITE, 0, &pages(512, 1));
        assert_eq!(told, Err(expected));
    }
    let disk = MemoryDisk::new(1 << 20).read_only();
    let told = perform(&disk, wire::WRITE, 0, &pages(512, 1));
    assert_eq!(told, Err(Errno::ROFS));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let disk = MemoryDisk::new(1 << 20);
    let beyond = perform(&disk, wire::READ, 2047, &pages(1024, 0));
    assert_eq!(beyond, Err(Errno::IO));
    let refused = |flags, start, sectors| Request::decode(flags, start, sectors).err();
    assert_eq!(refused(wire::READ, u64::MAX, 1), Some(Errno::INVAL));
    assert_eq!(refused(wire::READ, u64::MAX / 512, 1), Some(Errno::INVAL));
    assert_eq!(refused(wire::READ, 0, 0), Some(Errno::INVAL));
    assert_eq!(refused(wire::WRITE, 0, u32::MAX), Some(Errno::INVAL));
    assert_eq!(refused(wire::DISCARD, 0, u32::MAX), None);
    assert_eq!(refused(4, 0, 1), Some(Errno::OPNOTSUPP));
    assert_eq!(refused(18, 0, 1), Some(Errno::OPNOTSUPP));
    // Where a flush begins has no meaning, and the kernel sets it to anything.
    assert!(Request::decode(wire::FLUSH, u64::MAX, 0).is_ok());
    // A read that returns less than requested must not expose old memory.
    let short = perform(&Shared::new(None, None), wire::READ, 0, &pages(512, 3));
    assert_eq!(short, Err(Errno::IO));
}
