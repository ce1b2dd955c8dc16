//! A device of the kernel, from its start to its end.

use crate::{Counters, DeviceOptions, LeftDevice, UblkError, check};
use cenote_nbd::BlockDevice;
use std::path::PathBuf;
use std::sync::Arc;

/// A device of the kernel that this process serves.
///
/// If it is dropped without [`Self::stop`], the kernel keeps the device as if the process had
/// died: its requests wait, and [`Self::recover`] takes it over.
#[derive(Debug)]
pub struct KernelDevice {
    number: u32,
}

impl KernelDevice {
    /// Makes `/dev/ublkbN` and serves it; returns when it can be opened.
    ///
    /// # Errors
    /// See [`check`]; the driver refuses.
    pub fn start(
        _device: Arc<dyn BlockDevice>,
        _options: &DeviceOptions,
    ) -> Result<Self, UblkError> {
        check()?;
        Err(UblkError::NoDriver)
    }

    /// Takes over the device that an earlier process left when it died. Requests that were under
    /// way are issued again.
    ///
    /// # Errors
    /// It was not left; the driver refuses.
    pub fn recover(_device: Arc<dyn BlockDevice>, _left: &LeftDevice) -> Result<Self, UblkError> {
        check()?;
        Err(UblkError::NoDriver)
    }

    /// The number N in `/dev/ublkbN`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The device's node, for example `/dev/ublkb3`.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    /// What the device did since this process serves it.
    pub fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Whether somebody holds it open: it is mounted, another device is on it, or a program
    /// uses it.
    pub fn is_open(&self) -> bool {
        false
    }

    /// Tells the kernel the new size in bytes.
    ///
    /// # Errors
    /// Kernels before 6.16 cannot; the message says what to do instead.
    pub fn resize(&self, _size: u64) -> Result<(), UblkError> {
        Err(UblkError::CannotResize {
            number: self.number,
        })
    }

    /// Ends the device: requests under way are answered, and it goes.
    ///
    /// With `force` it goes although somebody holds it open, and requests that do not end soon
    /// fail; a write among them may still take effect.
    ///
    /// # Errors
    /// It is in use, unless `force`; the driver refuses.
    pub fn stop(&self, _force: bool) -> Result<(), UblkError> {
        Err(UblkError::Stopped {
            number: self.number,
        })
    }
}

/// Devices that processes of this program left when they died.
///
/// # Errors
/// See [`check`]; what is kept about devices cannot be read.
pub fn left_devices() -> Result<Vec<LeftDevice>, UblkError> {
    check()?;
    Ok(Vec::new())
}

/// Removes a device that a dead process left; requests that wait fail.
///
/// # Errors
/// It was not left; the driver refuses.
pub fn remove_left(left: &LeftDevice) -> Result<(), UblkError> {
    check()?;
    let why = "it does not exist".to_owned();
    Err(UblkError::NotLeft {
        number: left.number,
        why,
    })
}
