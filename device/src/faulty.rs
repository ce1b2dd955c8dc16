//! A device that misbehaves on request, for tests.

use crate::nature::check_range;
use crate::{Device, DeviceError, Lead, Nature, Purpose};
use cenote_base::rt::{RwLock, ranks};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Default)]
struct Faults {
    missing: bool,
    truncated_to: Option<u64>,
    noise: Vec<Range<u64>>,
    errors: Vec<Range<u64>>,
    write_errors: Vec<Range<u64>>,
    failing_writes: bool,
    writes_left: Option<u64>,
    lead: Option<Lead>,
}

/// Wraps a device and spoils it: gone, cut short, noisy or failing in ranges, taking no writes.
///
/// Noise is a function of the byte's offset alone, so reading twice gives the same wrong bytes,
/// as a real silent corruption does. The wrapped device is never changed.
#[derive(Debug)]
pub struct FaultyDevice {
    inner: Arc<dyn Device>,
    faults: RwLock<Faults, ranks::DeviceFaults>,
}

impl FaultyDevice {
    /// A wrapper with no faults yet.
    pub fn new(inner: Arc<dyn Device>) -> Self {
        Self {
            inner,
            faults: RwLock::default(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.write());
    }

    /// From now on every read fails, or none does.
    pub fn set_missing(&self, missing: bool) {
        self.change(|faults| faults.missing = missing);
    }

    /// From now on its name leads there.
    pub fn set_lead(&self, lead: Lead) {
        self.change(|faults| faults.lead = Some(lead));
    }

    /// From now on the device ends at byte `size`.
    pub fn truncate(&self, size: u64) {
        self.change(|faults| faults.truncated_to = Some(size));
    }

    /// From now on these bytes read as noise.
    pub fn add_noise(&self, range: Range<u64>) {
        self.change(|faults| faults.noise.push(range));
    }

    /// From now on reads that touch these bytes fail.
    pub fn add_errors(&self, range: Range<u64>) {
        self.change(|faults| faults.errors.push(range));
    }

    /// From now on every write and flush fails, or none does.
    pub fn fail_writes(&self, fail: bool) {
        self.change(|faults| faults.failing_writes = fail);
    }

    /// From now on writes that touch these bytes fail.
    pub fn fail_writes_to(&self, range: Range<u64>) {
        self.change(|faults| faults.write_errors.push(range));
    }

    /// From now on the device takes so many writes, and is missing after that.
    pub fn vanish_after(&self, writes: u64) {
        self.change(|faults| faults.writes_left = Some(writes));
    }

    /// Counts a write down that is about to be made.
    fn count_write(&self) {
        self.change(|faults| match &mut faults.writes_left {
            Some(0) => faults.missing = true,
            Some(left) => *left -= 1,
            None => {}
        });
    }

    /// Whether a write of these bytes goes through; of none, whether the device takes any.
    fn check_writes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let faults = self.faults.read();
        let end = offset.saturating_add(length);
        let touches = |range: &Range<u64>| range.start < end && offset < range.end;
        let is_failing = faults.failing_writes || faults.write_errors.iter().any(touches);
        if !is_failing && !faults.missing {
            return Ok(());
        }
        Err(DeviceError::Write {
            path: self.path().into(),
            offset,
            length,
            source: io::ErrorKind::Other.into(),
        })
    }

    /// From now on all is well again.
    pub fn heal(&self) {
        self.change(|faults| *faults = Faults::default());
    }

    fn failure(&self, offset: u64, length: u64, kind: io::ErrorKind) -> DeviceError {
        DeviceError::Read {
            path: self.path().into(),
            offset,
            length,
            source: kind.into(),
        }
    }
}

impl FaultyDevice {
    /// Reads by `read`, and lets the faults have their way.
    fn read_by(
        &self,
        offset: u64,
        buffer: &mut [u8],
        read: impl FnOnce(&dyn Device, &mut [u8]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let length = buffer.len() as u64;
        check_range(self.path(), self.size(), offset, length)?;
        let faults = self.faults.read();
        if faults.missing {
            return Err(self.failure(offset, length, io::ErrorKind::NotConnected));
        }
        let end = offset + length;
        let touches = |range: &Range<u64>| range.start < end && offset < range.end;
        if faults.errors.iter().any(touches) {
            return Err(self.failure(offset, length, io::ErrorKind::Other));
        }
        read(self.inner.as_ref(), buffer)?;
        for range in faults.noise.iter().filter(|range| touches(range)) {
            for position in range.start.max(offset)..range.end.min(end) {
                buffer[(position - offset) as usize] = noise_byte(position);
            }
        }
        Ok(())
    }
}

/// A byte that depends on its offset only and looks random.
fn noise_byte(offset: u64) -> u8 {
    let mut word = offset.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word >> 56) as u8
}

impl Device for FaultyDevice {
    fn size(&self) -> u64 {
        let faults = self.faults.read();
        let size = self.inner.size();
        faults.truncated_to.map_or(size, |limit| limit.min(size))
    }

    fn size_now(&self) -> u64 {
        let faults = self.faults.read();
        let size = self.inner.size_now();
        faults.truncated_to.map_or(size, |limit| limit.min(size))
    }

    fn grow(&self) {
        self.inner.grow();
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.read_by(offset, buffer, |inner, buffer| {
            inner.read_at(offset, buffer)
        })
    }

    fn read_medium(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.read_by(offset, buffer, |inner, buffer| {
            inner.read_medium(offset, buffer)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.count_write();
        self.check_writes(offset, bytes.len() as u64)?;
        self.inner.write_at(offset, bytes)
    }

    fn write_vectored(
        &self,
        mut offset: u64,
        buffers: &[IoSlice<'_>],
        purpose: Purpose,
    ) -> Result<(), DeviceError> {
        for buffer in buffers {
            let length = buffer.len() as u64;
            self.count_write();
            self.check_writes(offset, length)?;
            self.inner
                .write_vectored(offset, std::slice::from_ref(buffer), purpose)?;
            offset = offset.saturating_add(length);
        }
        Ok(())
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        self.inner.prefetch(ranges);
    }

    fn prefetch_medium(&self, ranges: &[Range<u64>]) {
        self.inner.prefetch_medium(ranges);
    }

    fn begin_verification(&self) {
        self.inner.begin_verification();
    }

    fn complete_group(&self, txg: u64) {
        self.inner.complete_group(txg);
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.check_writes(0, 0)?;
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, length)
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
        let faults = self.faults.read();
        faults.lead.unwrap_or_else(|| self.inner.lead())
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, WindowDevice};
    use std::sync::Mutex;

    /// A device that keeps metadata apart, and a record of groups.
    #[derive(Debug)]
    struct Sorting {
        memory: MemoryDevice,
        purposes: Mutex<Vec<Purpose>>,
        groups: Mutex<Vec<u64>>,
    }

    impl Device for Sorting {
        fn size(&self) -> u64 {
            self.memory.size()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
            self.memory.read_at(offset, buffer)
        }

        fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
            self.write_vectored(offset, &[IoSlice::new(bytes)], Purpose::Unknown)
        }

        fn write_vectored(
            &self,
            offset: u64,
            buffers: &[IoSlice<'_>],
            purpose: Purpose,
        ) -> Result<(), DeviceError> {
            self.purposes.lock().expect("no panic").push(purpose);
            self.memory.write_vectored(offset, buffers, purpose)
        }

        fn complete_group(&self, txg: u64) {
            self.groups.lock().expect("no panic").push(txg);
        }

        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }

        fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
            Ok(())
        }

        fn nature(&self) -> Nature {
            self.memory.nature()
        }

        fn path(&self) -> &Path {
            self.memory.path()
        }

        fn is_writable(&self) -> bool {
            true
        }
    }

    /// The purpose was the thread's, so that no device had to pass it on. As an argument it would
    /// end at each device that others are wrapped in, if that forgot it.
    #[test]
    fn what_bytes_are_reaches_the_innermost_device() {
        let inner = Arc::new(Sorting {
            memory: MemoryDevice::new("m", vec![0; 64]),
            purposes: Mutex::default(),
            groups: Mutex::default(),
        });
        let faulty = FaultyDevice::new(Arc::clone(&inner) as Arc<dyn Device>);
        let outer = WindowDevice::new(Arc::new(faulty), 16, Some(32)).expect("it fits");
        let slices = [IoSlice::new(&[1; 8]), IoSlice::new(&[2; 8])];
        let written = outer.write_vectored(8, &slices, Purpose::Metadata);
        written.expect("in range");
        outer.complete_group(7);
        assert_eq!(
            *inner.purposes.lock().expect("no panic"),
            [Purpose::Metadata; 2]
        );
        assert_eq!(*inner.groups.lock().expect("no panic"), [7]);
        assert_eq!(
            inner.memory.read_vec(24, 16).expect("in range")[8..],
            [2; 8]
        );
    }

    #[test]
    fn faults_come_and_go() {
        let device = FaultyDevice::new(Arc::new(MemoryDevice::new("m", vec![1; 64])));
        device.add_noise(8..16);
        device.add_errors(32..33);
        let noisy = device.read_vec(0, 32).expect("noise is no error");
        assert_eq!(noisy[..8], [1; 8]);
        assert_ne!(noisy[8..16], [1; 8]);
        assert_eq!(noisy[16..], [1; 16]);
        assert!(device.read_vec(31, 2).is_err());
        assert!(device.read_vec(33, 31).is_ok());
        device.truncate(40);
        assert_eq!(device.size(), 40);
        assert!(device.read_vec(39, 2).is_err());
        device.heal();
        assert_eq!(device.read_vec(0, 64).expect("healed"), [1; 64]);
        device.set_missing(true);
        assert!(device.read_vec(0, 1).is_err());
    }
}
