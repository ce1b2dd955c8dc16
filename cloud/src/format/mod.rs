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

pub use bytes::{Decoder, Encoder};
pub use envelope::{ENVELOPE, Envelope, Kind, open, seal};
pub use extents::{Extent, Target};

use std::fmt;

/// The unit of addresses on the device and in data objects, in bytes.
pub const SECTOR: u64 = 512;

/// Bytes of the largest device: 2^63, so that no sum of two addresses overflows.
pub const DEVICE_SIZE_MAX: u64 = 1 << 63;

/// An object that cannot be what its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// It ends too early.
    #[error("is cut short")]
    Truncated,
    /// It begins with something else.
    #[error("is no {0:?}")]
    Magic(Kind),
    /// It is of a version that is not known here.
    #[error("has version {0}, which this program does not know")]
    Version(u32),
    /// It is encrypted or compressed in a way that is not known here.
    #[error("is encoded in a way that this program does not know")]
    Unsupported,
    /// Its bytes have changed.
    #[error("fails its checksum")]
    Checksum,
    /// It does not decompress.
    #[error("does not decompress to what it promises")]
    Compression,
    /// It is of another device.
    #[error("belongs to another device")]
    Uuid,
    /// It is another one of its kind.
    #[error("is number {found}, where {wanted} was looked for")]
    Number {
        /// The number that belongs to the name.
        wanted: u64,
        /// The number in the object.
        found: u64,
    },
    /// A part of it makes no sense.
    #[error("has an impossible {0}")]
    Invalid(&'static str),
}

/// A BLAKE3 digest.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The first eight bytes, for where an accident must be noticed and no more.
    pub fn short(&self) -> u64 {
        let (first, _) = self.0.split_first_chunk::<8>().expect("32 bytes have 8");
        u64::from_le_bytes(*first)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.short())
    }
}

/// The identity of a device, random at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Who writes, random at each opening for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterId(pub u64);

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The place of a commit in the chain, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitNumber(pub u64);

impl CommitNumber {
    /// The one after this.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for CommitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A data object, numbered through all writers of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectNumber(pub u64);

/// Bytes that are kept apart, because they are read apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What leads to contents: small, and wanted together.
    Metadata,
    /// Contents of files.
    Contents,
}

impl Class {
    fn to_byte(self) -> u8 {
        match self {
            Self::Metadata => 1,
            Self::Contents => 2,
        }
    }

    fn from_byte(byte: u8) -> Result<Option<Self>, FormatError> {
        match byte {
            0 => Ok(None),
            1 => Ok(Some(Self::Metadata)),
            2 => Ok(Some(Self::Contents)),
            _ => Err(FormatError::Unsupported),
        }
    }
}
