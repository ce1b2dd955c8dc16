//! The objects of a device in a store: bytes in, values or a [`FormatError`] out.
//!
//! ```text
//! PREFIX/device                the identity                        [`device`]
//! PREFIX/commit/N              what the N-th commit changed        [`commit`]
//! PREFIX/data/WRITER-K         bulk bytes                          [`data`]
//! PREFIX/map/N/root            the map as of commit N, or what has changed in it [`checkpoint`]
//! PREFIX/map/N/pages-I         pages of the map that are new in it [`page`]
//! PREFIX/current               the number of the newest checkpoint [`current`]
//! ```
//!
//! All but `current` are written once and never changed, and no name is used again: a copy of any
//! part of any of them is right for ever. Commits form a chain, each naming the hash of the one
//! before. A checkpoint saves reading the chain from its beginning, and is nothing that could not
//! be made again from it, as long as all of it is there.
//!
//! **Invariant**: any bytes may be given to any decoder; none panics, recurses or allocates by what
//! the bytes claim.

mod bytes;
pub mod checkpoint;
pub mod commit;
pub mod current;
pub mod data;
pub mod device;
mod envelope;
mod extents;
pub mod key;
pub mod page;
mod values;

pub use bytes::{Decoder, Encoder};
pub use envelope::{ENVELOPE, Envelope, open, seal};
pub use extents::{Extent, Target};
pub use values::{Class, CommitNumber, FormatError, Hash, Kind, ObjectNumber, Uuid, WriterId};

/// The unit of addresses on the device and in data objects, in bytes.
pub const SECTOR: u64 = 512;

/// Bytes of the largest device: 2^63, so that no sum of two addresses overflows.
pub const DEVICE_SIZE_MAX: u64 = 1 << 63;
