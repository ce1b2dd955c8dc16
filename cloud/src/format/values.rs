//! What the objects are made of: digests, identities, numbers, and why bytes are refused.

use std::fmt;

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

/// Identifies a writer; random at each opening for writing.
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
    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::Metadata => 1,
            Self::Contents => 2,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Result<Option<Self>, FormatError> {
        match byte {
            0 => Ok(None),
            1 => Ok(Some(Self::Metadata)),
            2 => Ok(Some(Self::Contents)),
            _ => Err(FormatError::Unsupported),
        }
    }
}

/// Which kind of object, or part of one, an envelope begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The identity of the device.
    Device,
    /// A commit.
    Commit,
    /// Bulk bytes; the body is the table of what they are.
    Data,
    /// A checkpoint of the map.
    Checkpoint,
    /// A page of the map.
    Page,
    /// The name of the newest checkpoint.
    Current,
}

impl Kind {
    pub(super) fn magic(self) -> [u8; 8] {
        *match self {
            Self::Device => b"cenoteDV",
            Self::Commit => b"cenoteCM",
            Self::Data => b"cenoteDA",
            Self::Checkpoint => b"cenoteCP",
            Self::Page => b"cenotePG",
            Self::Current => b"cenoteCU",
        }
    }

    /// Bytes that a body may have once it is decompressed.
    ///
    /// A page holds at most 4096 extents of at most 31 bytes; a checkpoint of a map of 4 TB in
    /// extents of 16 KiB has a directory of 1 MB and a tail of an eighth of the map at most.
    pub(super) fn plain_max(self) -> u64 {
        match self {
            Self::Device | Self::Current => 4096,
            Self::Page => 256 << 10,
            Self::Commit | Self::Data => 64 << 20,
            Self::Checkpoint => 1 << 30,
        }
    }
}
