//! Fields of a record by their offset, in either byte order.
//!
//! Offsets are constants of the modules beside this one, and a record always has its full size:
//! reading a field cannot fail.

use super::header::RECORD_SIZE;

/// The byte order of a stream's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// As x86 and most ARM hosts send.
    #[default]
    Little,
    /// As SPARC and s390x send.
    Big,
}

/// A record to read fields from.
pub(super) struct Fields<'a> {
    bytes: &'a [u8; RECORD_SIZE],
    order: ByteOrder,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8; RECORD_SIZE], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    pub(super) fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let slice = &self.bytes[at..at + N];
        slice.try_into().expect("the slice has N bytes")
    }

    pub(super) fn u8(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        match self.order {
            ByteOrder::Little => u32::from_le_bytes(self.bytes(at)),
            ByteOrder::Big => u32::from_be_bytes(self.bytes(at)),
        }
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        match self.order {
            ByteOrder::Little => u64::from_le_bytes(self.bytes(at)),
            ByteOrder::Big => u64::from_be_bytes(self.bytes(at)),
        }
    }

    pub(super) fn u64s<const N: usize>(&self, at: usize) -> [u64; N] {
        std::array::from_fn(|index| self.u64(at + 8 * index))
    }
}

/// A record of zeros to put fields into.
pub(super) struct FieldsMut<'a> {
    bytes: &'a mut [u8; RECORD_SIZE],
    order: ByteOrder,
}

impl<'a> FieldsMut<'a> {
    pub(super) fn new(bytes: &'a mut [u8; RECORD_SIZE], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    pub(super) fn bytes(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn u8(&mut self, at: usize, value: u8) {
        self.bytes[at] = value;
    }

    pub(super) fn u32(&mut self, at: usize, value: u32) {
        match self.order {
            ByteOrder::Little => self.bytes(at, &value.to_le_bytes()),
            ByteOrder::Big => self.bytes(at, &value.to_be_bytes()),
        }
    }

    pub(super) fn u64(&mut self, at: usize, value: u64) {
        match self.order {
            ByteOrder::Little => self.bytes(at, &value.to_le_bytes()),
            ByteOrder::Big => self.bytes(at, &value.to_be_bytes()),
        }
    }

    pub(super) fn u64s(&mut self, at: usize, values: &[u64]) {
        for (index, value) in values.iter().enumerate() {
            self.u64(at + 8 * index, *value);
        }
    }
}
