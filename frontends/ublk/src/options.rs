//! What a device is to be, what it did, and what is left of one.

/// Requests that the kernel has under way at most, unless the caller says otherwise.
///
/// Each may have a thread and a buffer of 512 KiB here, so they bound the memory: 32 MiB.
pub const QUEUE_DEPTH_DEFAULT: u16 = 64;

/// What a device of the kernel is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// What it is of, for example the volume's name. It is kept with the device, so that a later
    /// process recognises it.
    pub name: String,
    /// The kernel refuses writes.
    pub is_read_only: bool,
    /// Requests under way at most, from 1 to 1024.
    pub queue_depth: u16,
}

impl DeviceOptions {
    /// A device of this name that can be written.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_read_only: false,
            queue_depth: QUEUE_DEPTH_DEFAULT,
        }
    }
}

/// What a device did since this process serves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests of all kinds that were answered.
    pub requests: u64,
    /// Bytes that the kernel read.
    pub read_bytes: u64,
    /// Bytes that the kernel wrote.
    pub written_bytes: u64,
}

/// A device whose process died. Its requests wait until it is recovered or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftDevice {
    /// The number N in `/dev/ublkbN`.
    pub number: u32,
    /// [`DeviceOptions::name`] as the dead process gave it.
    pub name: String,
    /// Whether the kernel refuses writes.
    pub is_read_only: bool,
    /// What the kernel keeps with the device, so that it is not taken for another one.
    #[cfg(feature = "ublk")]
    pub(crate) token: u64,
}
