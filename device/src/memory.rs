//! A device in memory, for tests and simulations.

use crate::nature::check_range;
use crate::{Device, DeviceError, DeviceKind, Nature};
use cenote_base::rt::{RwLock, ranks};
use std::path::{Path, PathBuf};

/// Bytes in memory that behave like a disk.
#[derive(Debug)]
pub struct MemoryDevice {
    path: PathBuf,
    size: u64,
    bytes: RwLock<Vec<u8>, ranks::MemoryDevice>,
}

impl MemoryDevice {
    /// A writable device called `name` with these contents.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            path: name.into(),
            size: bytes.len() as u64,
            bytes: RwLock::new(bytes),
        }
    }

    fn range(&self, offset: u64, length: usize) -> Result<std::ops::Range<usize>, DeviceError> {
        check_range(&self.path, self.size, offset, length as u64)?;
        let start = usize::try_from(offset).expect("below the length of a vector");
        Ok(start..start + length)
    }
}

impl Device for MemoryDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let range = self.range(offset, buffer.len())?;
        let bytes = self.bytes.read();
        buffer.copy_from_slice(&bytes[range]);
        Ok(())
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> Result<(), DeviceError> {
        let range = self.range(offset, new.len())?;
        let mut bytes = self.bytes.write();
        bytes[range].copy_from_slice(new);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        check_range(&self.path, self.size, offset, length)
    }

    fn nature(&self) -> Nature {
        Nature {
            kind: DeviceKind::Memory,
            logical_block_size: 1,
            rotational: Some(false),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn is_writable(&self) -> bool {
        true
    }
}
