//! What a signature is, and the bytes of a device in which signatures are looked for.
//!
//! Nearly all are in the first or last few KiB, so these are read at once; bytes elsewhere are read
//! on request.

use crate::{Device, DeviceError};

/// Bytes from the start of a device that are read at once: all signatures but a few are there.
const HEAD_BYTES: u64 = 512 << 10;
/// Bytes at the end that are read at once.
const TAIL_BYTES: u64 = 128 << 10;
/// The longest magic.
pub(super) const MAGIC_MAX: usize = 32;

/// What kind of thing a signature is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// A file system, or a volume for one: swap, LVM, MD, LUKS.
    Contents,
    /// A table of partitions.
    PartitionTable,
}

/// A mark of other software on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it is of, in the words of `blkid(8)`: `ext4`, `LVM2_member`, `gpt`.
    pub name: &'static str,
    /// What kind of thing that is.
    pub kind: SignatureKind,
    /// The bytes that make it one.
    pub(super) places: Vec<Place>,
}

/// Bytes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub at: u64,
    pub length: usize,
}

impl Signature {
    pub(super) fn contents(name: &'static str, at: u64, length: usize) -> Self {
        Self {
            name,
            kind: SignatureKind::Contents,
            places: vec![Place { at, length }],
        }
    }

    pub(super) fn table(name: &'static str, at: u64, length: usize) -> Self {
        Self {
            kind: SignatureKind::PartitionTable,
            ..Self::contents(name, at, length)
        }
    }
}

/// A device whose beginning and end were read.
pub(super) struct Probe<'a> {
    device: &'a dyn Device,
    /// As it was then: a device may grow meanwhile.
    size: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl<'a> Probe<'a> {
    pub fn new(device: &'a dyn Device) -> Result<Self, DeviceError> {
        let size = device.size();
        let length = |bytes: u64| usize::try_from(bytes.min(size)).expect("half a mebibyte");
        let head = device.read_vec(0, length(HEAD_BYTES))?;
        let tail = length(TAIL_BYTES);
        let tail = device.read_vec(size - tail as u64, tail)?;
        Ok(Self {
            device,
            size,
            head,
            tail,
        })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads what is at an offset; whether the device reaches that far.
    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<bool, DeviceError> {
        let (size, length) = (self.size, bytes.len() as u64);
        let Some(end) = at.checked_add(length).filter(|end| *end <= size) else {
            return Ok(false);
        };
        let tail_start = size - self.tail.len() as u64;
        let (known, start) = match () {
            () if end <= self.head.len() as u64 => (&self.head, at),
            () if at >= tail_start => (&self.tail, at - tail_start),
            () => {
                self.device.read_at(at, bytes)?;
                return Ok(true);
            }
        };
        let start = usize::try_from(start).expect("within what was read");
        bytes.copy_from_slice(&known[start..start + bytes.len()]);
        Ok(true)
    }

    /// The `N` bytes at an offset; zeros where the device does not reach.
    pub fn bytes<const N: usize>(&self, at: u64) -> Result<[u8; N], DeviceError> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    pub fn has(&self, at: u64, magic: &[u8]) -> Result<bool, DeviceError> {
        let mut bytes = [0; MAGIC_MAX];
        let bytes = &mut bytes[..magic.len()];
        Ok(self.read(at, bytes)? && bytes == magic)
    }

    pub fn le16(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u16::from_le_bytes(self.bytes(at)?).into())
    }

    pub fn be16(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u16::from_be_bytes(self.bytes(at)?).into())
    }

    pub fn le32(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u32::from_le_bytes(self.bytes(at)?).into())
    }

    pub fn be32(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u32::from_be_bytes(self.bytes(at)?).into())
    }
}
