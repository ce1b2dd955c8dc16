//! A request of the kernel, understood and carried out.
//!
//! The kernel describes it in sectors of 512 bytes. Its data stays with the kernel: [`Transfer`]
//! fetches what is written and delivers what was read. Errors become errno values that the kernel
//! passes to the program; it knows ENOSPC, and turns most others into EIO.

use cenote_nbd::{BlockDevice, BlockError, Payload, ReadData, ZeroMode};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;

/// The kernel's unit.
pub(crate) const SECTOR: u64 = 512;

/// The driver's maximum, in bytes; our devices set less.
const DATA_BYTES_MAX: u64 = 32 << 20;

/// Operations and flags, as `linux/ublk_cmd.h` has them.
mod wire {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const DISCARD: u32 = 3;
    pub const WRITE_ZEROES: u32 = 5;
    pub const OPERATION_MASK: u32 = 0xff;
    pub const FUA: u32 = 1 << 13;
    pub const NO_UNMAP: u32 = 1 << 15;
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Flush,
    Trim,
    Zero { keeps_space: bool },
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub operation: Operation,
    /// In bytes; empty for a flush.
    pub range: Range<u64>,
    /// It is answered when what it did is durable.
    pub is_durable: bool,
}

/// Where the data of a request is.
pub(crate) trait Transfer {
    /// Fills the slices with what the kernel writes.
    fn fetch(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<()>;

    /// Gives the kernel what it reads.
    fn deliver(&self, slices: &[IoSlice<'_>]) -> io::Result<()>;
}

/// Memory that a worker uses again.
#[derive(Default)]
pub(crate) struct Memory {
    data: ReadData,
    payload: Payload,
}

impl Request {
    /// Understands the fields of the kernel's description.
    pub fn decode(flags: u32, start_sector: u64, sectors: u32) -> Result<Self, Errno> {
        let operation = match flags & wire::OPERATION_MASK {
            wire::READ => Operation::Read,
            wire::WRITE => Operation::Write,
            wire::FLUSH => Operation::Flush,
            wire::DISCARD => Operation::Trim,
            wire::WRITE_ZEROES => Operation::Zero {
                keeps_space: flags & wire::NO_UNMAP != 0,
            },
            _ => return Err(Errno::OPNOTSUPP),
        };
        let is_flush = operation == Operation::Flush;
        let (first, sectors) = match is_flush {
            // The kernel does not set them (Linux 6.12 has the sector -1 there).
            true => (0, 0),
            false => (start_sector, u64::from(sectors)),
        };
        let start = first.checked_mul(SECTOR).ok_or(Errno::INVAL)?;
        // 32 bits of sectors of 512 bytes fit.
        let end = start.checked_add(sectors * SECTOR).ok_or(Errno::INVAL)?;
        let has_data = matches!(operation, Operation::Read | Operation::Write);
        if (start == end && !is_flush) || (has_data && end - start > DATA_BYTES_MAX) {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            operation,
            range: start..end,
            is_durable: flags & wire::FUA != 0,
        })
    }

    /// Bytes that it reads or writes.
    pub fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Carries it out; returns when the kernel may be answered.
    pub fn perform(
        &self,
        device: &dyn BlockDevice,
        transfer: &dyn Transfer,
        memory: &mut Memory,
    ) -> Result<(), Errno> {
        // The device may have become smaller than the kernel believes.
        if self.range.end > device.size() && self.operation != Operation::Flush {
            return Err(Errno::IO);
        }
        let changes = !matches!(self.operation, Operation::Read | Operation::Flush);
        if changes && device.is_read_only() {
            return Err(Errno::ROFS);
        }
        match self.operation {
            Operation::Read => self.read(device, transfer, &mut memory.data),
            Operation::Write => {
                let written = self.write(device, transfer, &mut memory.payload);
                memory.payload.end();
                written
            }
            Operation::Flush => device.flush().map_err(|error| number(&error)),
            Operation::Trim => {
                let trimmed = device.trim(self.range.clone());
                trimmed.map_err(|error| number(&error))
            }
            Operation::Zero { keeps_space } => self.zero(device, keeps_space),
        }
    }

    fn read(
        &self,
        device: &dyn BlockDevice,
        transfer: &dyn Transfer,
        data: &mut ReadData,
    ) -> Result<(), Errno> {
        let length = usize::try_from(self.length()).map_err(|_| Errno::INVAL)?;
        data.begin(length);
        let read = device.read(self.range.start, length, data);
        read.map_err(|error| number(&error))?;
        if data.remaining() > 0 {
            return Err(Errno::IO);
        }
        let delivered = transfer.deliver(&data.slices());
        delivered.map_err(|error| moved(&error))
    }

    fn write(
        &self,
        device: &dyn BlockDevice,
        transfer: &dyn Transfer,
        payload: &mut Payload,
    ) -> Result<(), Errno> {
        let length = usize::try_from(self.length()).map_err(|_| Errno::INVAL)?;
        payload.begin(self.range.start, length, device.piece_size());
        let fetched = transfer.fetch(&mut payload.slices());
        fetched.map_err(|error| moved(&error))?;
        let start = self.range.start;
        let written = match payload.pieces().is_empty() {
            true => device.write(start, payload.bytes(), self.is_durable),
            false => device.write_pieces(start, payload.pieces(), self.is_durable),
        };
        written.map_err(|error| number(&error))
    }

    fn zero(&self, device: &dyn BlockDevice, keeps_space: bool) -> Result<(), Errno> {
        let mode = ZeroMode {
            keeps_space,
            is_fast: false,
        };
        let zeroed = device.zero(self.range.clone(), mode);
        let done = zeroed.and_then(|()| match self.is_durable {
            true => device.flush(),
            false => Ok(()),
        });
        done.map_err(|error| number(&error))
    }
}

/// The number of an error at copying data from or to the kernel.
fn moved(error: &io::Error) -> Errno {
    log::debug!("the data of a request could not be copied: {error}");
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The number of an error. NBD's numbers are those of Linux.
fn number(error: &BlockError) -> Errno {
    log::debug!("a request of the kernel failed: {error}");
    let number = i32::try_from(error.code.number()).unwrap_or(5);
    Errno::from_raw_os_error(number)
}

#[cfg(test)]
mod tests;
