//! A part of a device as a device of its own: a partition of a disk image.

use crate::nature::{check_range, total_length};
use crate::{Device, DeviceError, Lead, Nature, Purpose};
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

/// The bytes `[start, start + length)` of another device.
#[derive(Debug)]
pub struct WindowDevice {
    inner: Arc<dyn Device>,
    start: u64,
    length: u64,
}

impl WindowDevice {
    /// A window of `length` bytes from byte `start` on, or to the end when `length` is `None`.
    pub fn new(
        inner: Arc<dyn Device>,
        start: u64,
        length: Option<u64>,
    ) -> Result<Self, DeviceError> {
        let length = length.unwrap_or_else(|| inner.size().saturating_sub(start));
        check_range(inner.path(), inner.size(), start, length)?;
        Ok(Self {
            inner,
            start,
            length,
        })
    }

    /// Byte of the other device where the window begins.
    pub fn start(&self) -> u64 {
        self.start
    }

    fn translate(&self, offset: u64, length: u64) -> Result<u64, DeviceError> {
        check_range(self.path(), self.length, offset, length)?;
        Ok(self.start + offset)
    }
}

impl Device for WindowDevice {
    fn size(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.inner
            .read_at(self.translate(offset, buffer.len() as u64)?, buffer)
    }

    fn read_vec(&self, offset: u64, length: usize) -> Result<Vec<u8>, DeviceError> {
        self.inner
            .read_vec(self.translate(offset, length as u64)?, length)
    }

    fn read_vectored(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let length = total_length(buffers);
        self.inner
            .read_vectored(self.translate(offset, length)?, buffers)
    }

    fn read_medium(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.inner
            .read_medium(self.translate(offset, buffer.len() as u64)?, buffer)
    }

    fn begin_verification(&self) {
        self.inner.begin_verification();
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner
            .write_at(self.translate(offset, bytes.len() as u64)?, bytes)
    }

    fn write_vectored(
        &self,
        offset: u64,
        buffers: &[IoSlice<'_>],
        purpose: Purpose,
    ) -> Result<(), DeviceError> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.inner
            .write_vectored(self.translate(offset, length)?, buffers, purpose)
    }

    fn complete_group(&self, txg: u64) {
        self.inner.complete_group(txg);
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.inner.discard(self.translate(offset, length)?, length)
    }

    fn can_discard(&self) -> bool {
        self.inner.can_discard()
    }

    fn nature(&self) -> Nature {
        self.inner.nature()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn lead(&self) -> Lead {
        self.inner.lead()
    }

    fn description(&self) -> String {
        let whole = self.inner.description();
        format!("{whole} from byte {:#x}", self.start)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn a_window_shifts_and_ends() {
        let whole = Arc::new(MemoryDevice::new("whole", (0..100).collect()));
        let window = WindowDevice::new(whole, 10, Some(20)).expect("within the device");
        assert_eq!(
            window.read_vec(18, 2).expect("the last two bytes"),
            [28, 29]
        );
        assert!(window.read_vec(19, 2).is_err(), "one byte past the window");
        window.write_at(0, &[7]).expect("memory is writable");
        assert_eq!(window.inner.read_vec(10, 1).expect("in range"), [7]);
    }

    #[test]
    fn a_window_past_the_end_is_refused() {
        let whole = Arc::new(MemoryDevice::new("whole", vec![0; 100]));
        assert!(WindowDevice::new(whole.clone(), 90, Some(11)).is_err());
        assert!(WindowDevice::new(whole.clone(), u64::MAX, Some(2)).is_err());
        let rest = WindowDevice::new(whole, 90, None).expect("to the end");
        assert_eq!(rest.size(), 10);
    }
}
