//! The bytes of a write that is not in the store yet: in memory, in the log, or in both.

use crate::format::Hash;
use cenote_base::rt::{Mutex, ranks};
use cenote_device::{Device, DeviceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A part of the log's ring.
#[derive(Clone, Debug)]
pub(super) struct RingPlace {
    pub(super) ring: Ring,
    pub(super) position: u64,
}

/// The bytes of a device behind its headers, as a ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) device: Arc<dyn Device>,
    /// Where it begins on the device.
    pub(super) base: u64,
    /// Its length in bytes.
    pub(super) capacity: u64,
}

impl Ring {
    /// The parts of the device, at most two, that `length` bytes at `position` are.
    fn parts(&self, position: u64, length: usize) -> [(u64, usize); 2] {
        let start = position % self.capacity;
        let first = usize::try_from(self.capacity - start).map_or(length, |most| most.min(length));
        [(self.base + start, first), (self.base, length - first)]
    }

    pub(super) fn write(&self, position: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let [(start, first), (again, _)] = self.parts(position, bytes.len());
        let (head, rest) = bytes.split_at(first);
        self.device.write_at(start, head)?;
        match rest.is_empty() {
            true => Ok(()),
            false => self.device.write_at(again, rest),
        }
    }

    pub(super) fn read(&self, position: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let [(start, first), (again, _)] = self.parts(position, buffer.len());
        let (head, rest) = buffer.split_at_mut(first);
        self.device.read_at(start, head)?;
        match rest.is_empty() {
            true => Ok(()),
            false => self.device.read_at(again, rest),
        }
    }
}

/// Bytes of payloads that are in memory.
pub type MemoryUse = Arc<AtomicU64>;

/// Why a payload cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The log cannot be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The log gave something else than what was written to it.
    #[error("the log's bytes at {0:#x} have changed")]
    Changed(u64),
}

/// The bytes of a write.
#[derive(Debug)]
pub struct Payload {
    length: usize,
    digest: Hash,
    place: Option<RingPlace>,
    memory: MemoryUse,
    bytes: Mutex<Option<Arc<Vec<u8>>>, ranks::CloudPayload>,
}

impl Payload {
    pub(super) fn new(
        length: usize,
        digest: Hash,
        place: Option<RingPlace>,
        bytes: Option<Vec<u8>>,
        memory: &MemoryUse,
    ) -> Self {
        assert!(place.is_some() || bytes.is_some(), "they are somewhere");
        if let Some(bytes) = &bytes {
            memory.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Self {
            length,
            digest,
            place,
            memory: Arc::clone(memory),
            bytes: Mutex::new(bytes.map(Arc::new)),
        }
    }

    /// The bytes of a write without a log.
    pub fn in_memory(bytes: Vec<u8>, memory: &MemoryUse) -> Self {
        let digest = Hash::default();
        Self::new(bytes.len(), digest, None, Some(bytes), memory)
    }

    /// How many there are.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Forgets the copy in memory if the log has one.
    pub fn drop_copy(&self) {
        if self.place.is_some() {
            self.take();
        }
    }

    fn take(&self) {
        let mut bytes = self.bytes.lock();
        if let Some(bytes) = bytes.take() {
            self.memory.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    fn copy(&self) -> Option<Arc<Vec<u8>>> {
        let bytes = self.bytes.lock();
        bytes.clone()
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// The log cannot be read. What comes from there is not checked.
    pub fn read(&self, offset: usize, buffer: &mut [u8]) -> Result<(), PayloadError> {
        if let Some(bytes) = self.copy() {
            buffer.copy_from_slice(&bytes[offset..offset + buffer.len()]);
            return Ok(());
        }
        let place = self.place.as_ref().expect("it is in the log, then");
        place.ring.read(place.position + offset as u64, buffer)?;
        Ok(())
    }

    /// The same from the log, and checked; from memory where there is no log.
    ///
    /// # Errors
    /// As [`Self::all`].
    pub fn read_logged(&self, offset: usize, buffer: &mut [u8]) -> Result<(), PayloadError> {
        if self.place.is_none() {
            return self.read(offset, buffer);
        }
        let bytes = self.logged()?;
        buffer.copy_from_slice(&bytes[offset..offset + buffer.len()]);
        Ok(())
    }

    /// All bytes as the log has them, checked.
    fn logged(&self) -> Result<Vec<u8>, PayloadError> {
        let place = self.place.as_ref().expect("it is in the log");
        let mut bytes = vec![0; self.length];
        place.ring.read(place.position, &mut bytes)?;
        match Hash::of(&bytes) == self.digest {
            true => Ok(bytes),
            false => Err(PayloadError::Changed(place.position)),
        }
    }

    /// All bytes, checked.
    ///
    /// # Errors
    /// The log cannot be read, or has other bytes than those that were written.
    pub fn all(&self) -> Result<Arc<Vec<u8>>, PayloadError> {
        if let Some(bytes) = self.copy() {
            return Ok(bytes);
        }
        self.logged().map(Arc::new)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.take();
    }
}
