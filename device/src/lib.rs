//! What a pool lies on: files, block devices, windows into them, and test doubles.
//!
//! The layers above see a [`Device`] as a flat range of bytes that can be read and written at
//! any offset and length; alignment, direct I/O and partial transfers end here. Where devices
//! come from is an [`Opener`]'s business, so that a simulated world can bring its own.
//!
//! Nothing here knows ZFS: [`search`] finds devices that *may* hold a pool (also in the
//! partitions of a disk image), and the caller says which ones it wants.

#![deny(unsafe_code)]

mod allocator;
mod block_buffer;
mod buffer;
mod error;
mod faulty;
mod file;
mod file_lock;
mod file_write;
mod fresh_pages;
mod huge_pages;
mod inherited;
mod kernel_use;
mod lead;
mod memory;
mod nature;
mod opener;
mod page_cache;
mod pages;
mod partition;
mod project;
mod purpose;
mod search;
mod signature;
mod window;

pub use allocator::return_large_buffers;
pub use block_buffer::BlockBuffer;
pub use buffer::{AlignedBuf, DIRECT_ALIGNMENT};
pub use error::DeviceError;
pub use faulty::FaultyDevice;
pub use file::{FileDevice, FileOptions};
pub use fresh_pages::are_late as fresh_pages_are_late;
pub use inherited::keep_inherited_from_children;
pub use kernel_use::{DevicePart, KernelUse, device_parts, kernel_use};
pub use lead::Lead;
pub use memory::MemoryDevice;
pub use nature::{Device, DeviceKind, Nature};
pub use opener::{Entry, EntryKind, Opener, SystemOpener};
pub use partition::{Partition, partitions};
pub use project::{Project, project, set_project};
pub use purpose::Purpose;
pub use search::{Candidate, DEVICE_SIZE_MIN, Fit, Search, search};
pub use signature::{Signature, SignatureKind, signatures, wipe_signatures};
pub use window::WindowDevice;
