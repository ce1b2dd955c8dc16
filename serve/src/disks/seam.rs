//! The interface to the code that makes disks in this machine's kernel.

use cenote_engine::{OwnDisks, ServedVolume};
use cenote_ublk::Counters;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Why the kernel has no disk, or keeps one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KernelFault {
    /// It has no driver, or we may not use it: why, and what helps.
    #[error("{0}")]
    Unavailable(String),
    /// The disk is open.
    #[error("it is open")]
    Open,
    /// The operation failed: why.
    #[error("{0}")]
    Failed(String),
}

/// A disk whose process died, or left it to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftDisk {
    /// The kernel's number: 3 of `/dev/ublkb3`.
    pub number: u32,
    /// What it was made with.
    pub label: String,
}

/// A disk of the kernel.
pub trait KernelDisk: Send + Sync {
    /// Its number: 3 of `/dev/ublkb3`.
    fn number(&self) -> u32;

    /// Whether it is open: mounted, part of another device, or open in a program.
    fn is_open(&self) -> bool;

    /// Counters of its requests.
    fn counters(&self) -> Counters;

    /// Gives it another size.
    ///
    /// # Errors
    /// The kernel cannot; it keeps the old size.
    fn resize(&self, size: u64) -> Result<(), KernelFault>;

    /// Ends it, and closes its volume.
    ///
    /// # Errors
    /// [`KernelFault::Open`] if it is open, unless `force` is set. It stays as it was.
    fn stop(&self, force: bool) -> Result<(), KernelFault>;

    /// Closes its volume after all writes are on disk. The kernel's disk stays, and requests to it
    /// wait until another process takes it over.
    ///
    /// # Errors
    /// Writes cannot be stored. The disk is left anyway.
    fn leave(&self) -> Result<(), KernelFault>;
}

/// Makes disks of the kernel.
pub trait KernelDisks: Send + Sync {
    /// Whether there can be disks.
    ///
    /// # Errors
    /// [`KernelFault::Unavailable`].
    fn check(&self) -> Result<(), KernelFault>;

    /// Makes a disk of a volume; it can be opened when this returns.
    ///
    /// # Errors
    /// The kernel's reason.
    fn start(&self, volume: ServedVolume, label: &str) -> Result<Arc<dyn KernelDisk>, KernelFault>;

    /// The disks that processes left. None if the kernel has no driver.
    ///
    /// # Errors
    /// They cannot be listed.
    fn left(&self) -> Result<Vec<LeftDisk>, KernelFault>;

    /// Takes over a disk that a process left.
    ///
    /// # Errors
    /// The kernel's reason; it stays as it was.
    fn recover(
        &self,
        volume: ServedVolume,
        left: &LeftDisk,
    ) -> Result<Arc<dyn KernelDisk>, KernelFault>;

    /// Removes a disk that a process left; its waiting requests fail.
    ///
    /// # Errors
    /// [`KernelFault::Open`] if it is open, unless `force` is set; or the kernel's reason.
    fn remove(&self, left: &LeftDisk, force: bool) -> Result<(), KernelFault>;
}

/// Settings for disks of this machine.
pub struct DiskSetup {
    /// Makes disks.
    pub kernel: Arc<dyn KernelDisks>,
    /// The directory of devices, in which `zvol` has the links.
    pub devices: PathBuf,
    /// The directory in which the kernel describes devices, `/sys`.
    pub system: PathBuf,
}

impl DiskSetup {
    /// The disks that are volumes of this daemon (none yet), and those that processes left.
    pub fn own_disks(&self) -> Arc<OwnDisks> {
        let kernel = self.kernel.clone();
        let left = move || {
            let left = kernel.left().unwrap_or_default().into_iter();
            left.map(|left| left.number).collect()
        };
        Arc::new(OwnDisks::new(&self.system, Arc::new(left)))
    }
}

impl DiskSetup {
    /// The settings with this machine's `/dev` and `/sys`.
    pub fn of_machine(kernel: Arc<dyn KernelDisks>) -> Self {
        Self {
            kernel,
            devices: PathBuf::from("/dev"),
            system: PathBuf::from("/sys"),
        }
    }
}
