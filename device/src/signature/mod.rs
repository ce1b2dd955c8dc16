//! What other software keeps on a device: file systems, swap, volumes of LVM, MD and LUKS,
//! partition tables.
//!
//! A device that is about to become part of a pool loses its contents, so whoever names the wrong
//! one has to be stopped. Software marks what it owns by a *signature*: a few bytes at a place
//! that the format fixes. The places and bytes are public facts of the formats; they are those
//! that `blkid(8)` and `wipefs(8)` of util-linux go by, and so are the names here. Most signatures
//! are in one table (`table`). Two bytes alone are no proof, nor is one place enough for software
//! that writes at the end of a device: these are in `checked`.
//!
//! Labels of ZFS are no signature here: the layers above read them.
//!
//! Once a device is taken, its signatures are wiped. What is left of them would have udev,
//! `blkid`, or the next administrator believe that the device is still what it was. Only what
//! identifies the old contents is overwritten, as `wipefs` does it. Second copies that programs
//! look for only on request (superblocks of ext4 in later groups, the mirrors of btrfs) stay: no
//! scan of devices finds them.
//!
//! **What is not here**: the parts of a partition table, see [`partitions`](crate::partitions);
//! formats whose only mark is a checksum (the RAID of some mainboards).

mod checked;
mod table;
#[cfg(test)]
mod tests;

use crate::{Device, DeviceError};

/// Bytes from the start of a device that are read at once: all signatures but a few are there.
const HEAD_BYTES: u64 = 512 << 10;
/// Bytes at the end that are read at once.
const TAIL_BYTES: u64 = 128 << 10;
/// Wiping one signature can lay bare another; more than this is no device but a riddle.
const WIPES_MAX: usize = 8;

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
    places: Vec<Place>,
}

/// Bytes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    at: u64,
    length: usize,
}

impl Signature {
    fn contents(name: &'static str, at: u64, length: usize) -> Self {
        Self {
            name,
            kind: SignatureKind::Contents,
            places: vec![Place { at, length }],
        }
    }

    fn table(name: &'static str, at: u64, length: usize) -> Self {
        Self {
            kind: SignatureKind::PartitionTable,
            ..Self::contents(name, at, length)
        }
    }
}

/// A device whose beginning and end were read.
struct Probe<'a> {
    device: &'a dyn Device,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl<'a> Probe<'a> {
    fn new(device: &'a dyn Device) -> Result<Self, DeviceError> {
        let size = device.size();
        let length = |bytes: u64| usize::try_from(bytes.min(size)).expect("half a mebibyte");
        let head = device.read_vec(0, length(HEAD_BYTES))?;
        let tail = length(TAIL_BYTES);
        let tail = device.read_vec(size - tail as u64, tail)?;
        Ok(Self { device, head, tail })
    }

    fn size(&self) -> u64 {
        self.device.size()
    }

    /// Reads what is at an offset; whether the device reaches that far.
    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<bool, DeviceError> {
        let (size, length) = (self.size(), bytes.len() as u64);
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
    fn bytes<const N: usize>(&self, at: u64) -> Result<[u8; N], DeviceError> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    fn has(&self, at: u64, magic: &[u8]) -> Result<bool, DeviceError> {
        let mut bytes = [0; table::MAGIC_MAX];
        let bytes = &mut bytes[..magic.len()];
        Ok(self.read(at, bytes)? && bytes == magic)
    }

    fn le16(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u16::from_le_bytes(self.bytes(at)?).into())
    }

    fn be16(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u16::from_be_bytes(self.bytes(at)?).into())
    }

    fn le32(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u32::from_le_bytes(self.bytes(at)?).into())
    }

    fn be32(&self, at: u64) -> Result<u64, DeviceError> {
        Ok(u32::from_be_bytes(self.bytes(at)?).into())
    }
}

/// The signatures of other software on a device, each name once.
///
/// # Errors
/// If the device cannot be read.
pub fn signatures(device: &dyn Device) -> Result<Vec<Signature>, DeviceError> {
    let probe = Probe::new(device)?;
    let mut found: Vec<Signature> = Vec::new();
    let mut add = |signature: Signature| {
        let known = found.iter_mut().find(|known| known.name == signature.name);
        match known {
            Some(known) => known.places.extend(signature.places),
            None => found.push(signature),
        }
    };
    table::find(&probe)?.into_iter().for_each(&mut add);
    checked::find(&probe)?.into_iter().for_each(&mut add);
    checked::settle(&mut found);
    Ok(found)
}

/// Takes the signatures of other software off a device.
///
/// # Errors
/// If the device cannot be read or written.
pub fn wipe_signatures(device: &dyn Device) -> Result<(), DeviceError> {
    for _ in 0..WIPES_MAX {
        let found = signatures(device)?;
        if found.is_empty() {
            return Ok(());
        }
        for place in found.into_iter().flat_map(|signature| signature.places) {
            device.write_at(place.at, &vec![0; place.length])?;
        }
        device.flush()?;
    }
    Ok(())
}
