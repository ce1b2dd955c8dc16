//! In the place of devices in a program without the feature: the same names, and refusals.

use crate::{Counters, DeviceOptions, LeftDevice, UblkError};
use cenote_nbd::BlockDevice;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

/// A device of the kernel; this program cannot have any.
#[derive(Debug)]
pub struct KernelDevice(Infallible);

impl KernelDevice {
    /// Refuses.
    ///
    /// # Errors
    /// Always: the program was built without the feature.
    pub fn start(_: Arc<dyn BlockDevice>, _: &DeviceOptions) -> Result<Self, UblkError> {
        Err(UblkError::NotBuilt)
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always: the program was built without the feature.
    pub fn recover(_: Arc<dyn BlockDevice>, _: &LeftDevice) -> Result<Self, UblkError> {
        Err(UblkError::NotBuilt)
    }

    /// There is no device to ask.
    pub fn number(&self) -> u32 {
        match self.0 {}
    }

    /// There is no device to ask.
    pub fn path(&self) -> PathBuf {
        match self.0 {}
    }

    /// There is no device to ask.
    pub fn counters(&self) -> Counters {
        match self.0 {}
    }

    /// There is no device to ask.
    pub fn is_open(&self) -> bool {
        match self.0 {}
    }

    /// There is no device to resize.
    ///
    /// # Errors
    /// Never: it cannot be called.
    pub fn resize(&self, _size: u64) -> Result<(), UblkError> {
        match self.0 {}
    }

    /// There is no device to stop.
    ///
    /// # Errors
    /// Never: it cannot be called.
    pub fn stop(&self, _force: bool) -> Result<(), UblkError> {
        match self.0 {}
    }
}

/// Refuses.
///
/// # Errors
/// Always: the program was built without the feature.
pub fn left_devices() -> Result<Vec<LeftDevice>, UblkError> {
    Err(UblkError::NotBuilt)
}

/// Refuses.
///
/// # Errors
/// Always: the program was built without the feature.
pub fn remove_left(_: &LeftDevice) -> Result<(), UblkError> {
    Err(UblkError::NotBuilt)
}
