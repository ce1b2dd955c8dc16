//! A device as a leaf with faults sees it.

use crate::block::{BlockDrill, BlockError};
use crate::leaf::{Asked, LeafError, LeafFaults, Work};
use cenote_base::Env;
use cenote_device::{Device, DeviceError, Lead, Nature, Purpose};
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::time::Duration;

/// A delayed request looks this often whether its delay is still on.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A device, for one request of a leaf.
#[derive(Debug)]
pub struct Drilled<'a> {
    device: &'a dyn Device,
    faults: &'a LeafFaults,
    env: &'a dyn Env,
    block: Option<BlockDrill>,
    is_probe: bool,
}

impl<'a> Drilled<'a> {
    /// The device with the faults of its leaf.
    pub fn new(device: &'a dyn Device, faults: &'a LeafFaults, env: &'a dyn Env) -> Self {
        Self {
            device,
            faults,
            env,
            block: None,
            is_probe: false,
        }
    }

    /// The same, with the faults of the block that is read.
    #[must_use]
    pub fn for_block(self, block: Option<BlockDrill>) -> Self {
        Self { block, ..self }
    }

    /// The same, for a request that asks whether the device is there.
    #[must_use]
    pub fn probing(self) -> Self {
        let is_probe = true;
        Self { is_probe, ..self }
    }

    fn effect_on(&self, asked: &Asked) -> Option<LeafError> {
        let drill = self.block.filter(|_| asked.work == Work::Read);
        match drill.filter(|drill| drill.chance.hits(self.env)) {
            Some(drill) => Some(match drill.error {
                BlockError::Io => LeafError::Io,
                _ => LeafError::Corrupt,
            }),
            None => self.faults.effect_on(asked, self.env),
        }
    }

    /// Waits until a delayed request may end.
    fn wait(&self, (delay, end): (u64, Duration)) {
        loop {
            let left = end.saturating_sub(self.env.monotonic());
            if left.is_zero() || !self.faults.is_delayed_by(delay) {
                return;
            }
            self.env.sleep(left.min(LOOK_INTERVAL));
        }
    }

    /// Carries a request out, with what goes wrong. Returns whether a bit must be wrong.
    fn carry_out(
        &self,
        work: Work,
        (offset, length): (u64, u64),
        act: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<bool, DeviceError> {
        let asked = Asked {
            work: if self.is_probe { Work::Probe } else { work },
            offset,
            length,
            size: self.device.size(),
        };
        let lane = self.faults.take_lane(asked.work, self.env.monotonic());
        let effect = self.effect_on(&asked);
        let done = match effect {
            Some(LeafError::Noop) => Ok(()),
            _ => act(),
        };
        if let Some(lane) = lane {
            self.wait(lane);
        }
        done?;
        match effect {
            None | Some(LeafError::Noop) => Ok(false),
            Some(LeafError::Corrupt) => Ok(true),
            Some(error) => Err(self.failure(work, (offset, length), source_of(error))),
        }
    }

    fn failure(&self, work: Work, (offset, length): (u64, u64), source: io::Error) -> DeviceError {
        let path = self.path().to_owned();
        match work {
            Work::Read | Work::Probe => DeviceError::Read {
                path,
                offset,
                length,
                source,
            },
            Work::Write => DeviceError::Write {
                path,
                offset,
                length,
                source,
            },
            Work::Free => DeviceError::Discard {
                path,
                offset,
                length,
                source,
            },
            Work::Flush => DeviceError::Flush { path, source },
        }
    }

    fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let range = (offset, buffer.len() as u64);
        if self.carry_out(Work::Read, range, || read(buffer))? {
            self.spoil(buffer);
        }
        Ok(())
    }

    /// Turns over one bit.
    fn spoil(&self, buffer: &mut [u8]) {
        let mut bytes = [0; 8];
        // Without randomness it is the first one.
        let _ = self.env.fill_random(&mut bytes);
        let bits = buffer.len() as u64 * 8;
        if let Some(bit) = u64::from_le_bytes(bytes).checked_rem(bits) {
            buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

impl LeafFaults {
    /// Carries something out on the device with its faults.
    pub fn with<T>(
        &self,
        device: &dyn Device,
        env: &dyn Env,
        act: impl FnOnce(&dyn Device) -> T,
    ) -> T {
        match self.is_empty() {
            true => act(device),
            false => act(&Drilled::new(device, self, env)),
        }
    }
}

/// What the system would say.
fn source_of(error: LeafError) -> io::Error {
    /// Linux's numbers of these errors, as OpenZFS has them.
    const EIO: i32 = 5;
    const ENXIO: i32 = 6;
    const ECHILD: i32 = 10;
    const EACCES: i32 = 13;
    const EINVAL: i32 = 22;
    io::Error::from_raw_os_error(match error {
        LeafError::Checksum => return io::ErrorKind::InvalidData.into(),
        LeafError::NoDevice => ENXIO,
        LeafError::Missed => ECHILD,
        LeafError::Decrypt => EACCES,
        LeafError::Decompress => EINVAL,
        LeafError::Io | LeafError::Corrupt | LeafError::Noop => EIO,
    })
}

impl Device for Drilled<'_> {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.read(offset, buffer, |buffer| self.device.read_at(offset, buffer))
    }

    fn read_vectored(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let read = || self.device.read_vectored(offset, buffers);
        let is_spoiled = self.carry_out(Work::Read, (offset, length), read)?;
        if let Some(buffer) = buffers.first_mut().filter(|_| is_spoiled) {
            self.spoil(buffer);
        }
        Ok(())
    }

    fn read_medium(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.read(offset, buffer, |buffer| {
            self.device.read_medium(offset, buffer)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let range = (offset, bytes.len() as u64);
        let write = || self.device.write_at(offset, bytes);
        self.carry_out(Work::Write, range, write).map(drop)
    }

    fn write_vectored(
        &self,
        offset: u64,
        buffers: &[IoSlice<'_>],
        purpose: Purpose,
    ) -> Result<(), DeviceError> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let write = || self.device.write_vectored(offset, buffers, purpose);
        self.carry_out(Work::Write, (offset, length), write)
            .map(drop)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let flush = || self.device.flush();
        self.carry_out(Work::Flush, (0, 0), flush).map(drop)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let discard = || self.device.discard(offset, length);
        self.carry_out(Work::Free, (offset, length), discard)
            .map(drop)
    }

    fn nature(&self) -> Nature {
        self.device.nature()
    }

    fn path(&self) -> &Path {
        self.device.path()
    }

    fn lead(&self) -> Lead {
        self.device.lead()
    }

    fn is_writable(&self) -> bool {
        self.device.is_writable()
    }
}
