//! The parameters of a device for the kernel: sizes and features.

use crate::request::SECTOR;
use crate::{DeviceOptions, UblkError};
use cenote_nbd::BlockDevice;
use libublk::sys;

/// Data of one request at most: longer ones save little more, and each worker may need as much.
pub(crate) const REQUEST_BYTES_MAX: u32 = 512 << 10;

/// Bytes that one discard, or one request for zeros, covers at most. It is a single request here,
/// and other requests for the same range wait for it.
const DISCARD_BYTES_MAX: u64 = 1 << 30;

/// The largest block size that is reported to the kernel: many programs do not expect more than a
/// page.
const BLOCK_SIZE_MAX: u32 = 4096;

/// The most requests under way that can be configured.
const QUEUE_DEPTH_MAX: u16 = 1024;

/// Refuses options that no device can have.
pub(crate) fn check_options(
    device: &dyn BlockDevice,
    options: &DeviceOptions,
) -> Result<(), UblkError> {
    if !(1..=QUEUE_DEPTH_MAX).contains(&options.queue_depth) {
        return Err(UblkError::Invalid(format!(
            "the queue depth must be from 1 to {QUEUE_DEPTH_MAX}, and is {}",
            options.queue_depth
        )));
    }
    let name = &options.name;
    if name.is_empty() || name.len() > 1024 || name.contains(char::is_control) {
        return Err(UblkError::Invalid(
            "a device needs a name of at most 1024 bytes without control characters".to_owned(),
        ));
    }
    let sizes = device.block_sizes();
    if sizes.minimum > BLOCK_SIZE_MAX {
        return Err(UblkError::Invalid(format!(
            "'{name}' has blocks of {} bytes; the kernel takes {BLOCK_SIZE_MAX} at most",
            sizes.minimum
        )));
    }
    if device.size() < u64::from(logical_size(device)) {
        return Err(UblkError::Invalid(format!(
            "'{name}' has {} bytes, which is less than a block",
            device.size()
        )));
    }
    Ok(())
}

/// The smallest block that the kernel reads or writes.
fn logical_size(device: &dyn BlockDevice) -> u32 {
    device.block_sizes().minimum.clamp(512, BLOCK_SIZE_MAX)
}

/// The size that is reported to the kernel: whole blocks.
pub(crate) fn kernel_size(device: &dyn BlockDevice, size: u64) -> u64 {
    size - size % u64::from(logical_size(device))
}

/// The parameters for the kernel.
pub(crate) fn of(device: &dyn BlockDevice, is_read_only: bool) -> sys::ublk_params {
    let sizes = device.block_sizes();
    let logical = logical_size(device);
    let preferred = sizes.preferred.max(logical);
    let physical = preferred.min(BLOCK_SIZE_MAX);
    let mut attributes = sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA;
    if is_read_only || device.is_read_only() {
        attributes |= sys::UBLK_ATTR_READ_ONLY;
    }
    if device.is_rotational() {
        attributes |= sys::UBLK_ATTR_ROTATIONAL;
    }
    let basic = sys::ublk_param_basic {
        attrs: attributes,
        logical_bs_shift: shift(logical),
        physical_bs_shift: shift(physical),
        io_opt_shift: shift(preferred),
        io_min_shift: shift(physical),
        max_sectors: REQUEST_BYTES_MAX / SECTOR as u32,
        dev_sectors: kernel_size(device, device.size()) / SECTOR,
        ..Default::default()
    };
    let mut types = sys::UBLK_PARAM_TYPE_BASIC;
    let mut discard = sys::ublk_param_discard::default();
    if device.can_trim() {
        types |= sys::UBLK_PARAM_TYPE_DISCARD;
        let sectors = u32::try_from(DISCARD_BYTES_MAX / SECTOR).expect("it is 2^21");
        discard = sys::ublk_param_discard {
            discard_alignment: 0,
            discard_granularity: preferred,
            max_discard_sectors: sectors,
            max_write_zeroes_sectors: sectors,
            max_discard_segments: 1,
            reserved0: 0,
        };
    }
    sys::ublk_params {
        types,
        basic,
        discard,
        ..Default::default()
    }
}

/// The exponent of the largest power of two that is not larger.
fn shift(size: u32) -> u8 {
    u8::try_from(size.ilog2()).expect("at most 31")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_nbd::{BlockError, BlockSizes, Extent, MemoryDisk, ReadData, ZeroMode};
    use std::ops::Range;

    /// A disk with other block sizes.
    struct Sized(MemoryDisk, BlockSizes);

    impl BlockDevice for Sized {
        fn size(&self) -> u64 {
            self.0.size()
        }
        fn block_sizes(&self) -> BlockSizes {
            self.1
        }
        fn read(&self, at: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
            self.0.read(at, length, data)
        }
        fn write(&self, at: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
            self.0.write(at, bytes, is_durable)
        }
        fn flush(&self) -> Result<(), BlockError> {
            self.0.flush()
        }
        fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
            self.0.trim(range)
        }
        fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
            self.0.zero(range, mode)
        }
        fn extents(
            &self,
            context: &str,
            range: Range<u64>,
            most: usize,
        ) -> Result<Vec<Extent>, BlockError> {
            self.0.extents(context, range, most)
        }
    }

    fn disk(size: u64, minimum: u32, preferred: u32) -> Sized {
        let sizes = BlockSizes {
            minimum,
            preferred,
            ..BlockSizes::default()
        };
        Sized(MemoryDisk::new(size), sizes)
    }

    #[test]
    fn a_volume_is_described() {
        let told = of(&disk((1 << 30) + 700, 1, 16 << 10), false);
        assert_eq!(told.basic.logical_bs_shift, 9);
        assert_eq!(told.basic.physical_bs_shift, 12);
        assert_eq!(told.basic.io_opt_shift, 14);
        assert_eq!(told.basic.dev_sectors, (1 << 21) + 1);
        assert_eq!(told.basic.max_sectors, 1024);
        assert_eq!(told.discard.discard_granularity, 16 << 10);
        let cache = sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA;
        assert_eq!(told.basic.attrs, cache);
        let told = of(&disk(1 << 30, 1, 512), true);
        assert_eq!(told.basic.physical_bs_shift, 9);
        assert_eq!(told.basic.attrs, cache | sys::UBLK_ATTR_READ_ONLY);
        let told = of(&disk((1 << 30) + 512, 4096, 4096), false);
        assert_eq!(told.basic.logical_bs_shift, 12);
        assert_eq!(told.basic.dev_sectors, 1 << 21);
    }

    #[test]
    fn options_have_limits() {
        let plain = disk(1 << 20, 1, 4096);
        let mut options = DeviceOptions::new("tank/volume");
        assert!(check_options(&plain, &options).is_ok());
        options.queue_depth = 0;
        assert!(check_options(&plain, &options).is_err());
        options.queue_depth = 1025;
        assert!(check_options(&plain, &options).is_err());
        let options = DeviceOptions::new("tank/vol\nume");
        assert!(check_options(&plain, &options).is_err());
        let options = DeviceOptions::new("tank/volume");
        assert!(check_options(&disk(1 << 20, 8192, 8192), &options).is_err());
        assert!(check_options(&disk(511, 1, 4096), &options).is_err());
    }
}
