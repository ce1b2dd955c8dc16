//! WRITE: a block of an object's data.
//!
//! Source: format/4 2.
//!
//! ```text
//!  8 object   16 type (u32)   24 offset   32 logical size   40 guid of the snapshot
//! 48 checksum   49 flags   50 compression, 0 if the payload is not compressed
//! 56 the block's key: checksum (4 u64), properties
//! 96 compressed size   104 salt (8 bytes)   112 IV (12)   124 MAC (16)
//! ```
//!
//! The payload is the block: compressed if the stream is, encrypted if it is raw. The key tells
//! what the block pointer had; receivers ignore it.

use super::byte_order::{Fields, FieldsMut};
use cenote_base::{Guid, ObjectId};

/// How a block of a raw stream is protected; zeros in other streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in format/2d")]
pub struct Crypt {
    pub salt: [u8; 8],
    pub iv: [u8; 12],
    pub mac: [u8; 16],
}

impl Crypt {
    pub(super) fn decode(fields: &Fields, at: usize) -> Self {
        Self {
            salt: fields.bytes(at),
            iv: fields.bytes(at + 8),
            mac: fields.bytes(at + 20),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut, at: usize) {
        fields.bytes(at, &self.salt);
        fields.bytes(at + 8, &self.iv);
        fields.bytes(at + 20, &self.mac);
    }
}

/// What the sender's dedup table would know a block by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockKey {
    /// The block pointer's checksum.
    pub checksum: [u64; 4],
    /// Sectors of the logical size less 1 (bits 0-15), of the physical one (16-31), compression
    /// (32-38), encrypted (39).
    pub properties: u64,
}

impl BlockKey {
    pub(super) fn decode(fields: &Fields, at: usize) -> Self {
        Self {
            checksum: fields.u64s(at),
            properties: fields.u64(at + 32),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut, at: usize) {
        fields.u64s(at, &self.checksum);
        fields.u64(at + 32, self.properties);
    }
}

/// A block of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The object.
    pub object: ObjectId,
    /// The number of the object's type.
    pub object_type: u32,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes of the block when decompressed.
    pub logical_size: u64,
    /// The snapshot.
    pub to_guid: Guid,
    /// The block pointer's checksum function number; 2 (off) if it had none to tell.
    pub checksum: u8,
    /// [`super::record_flags`].
    pub flags: u8,
    /// Compression function number; 0 if the payload is the logical block.
    pub compression: u8,
    /// What the block pointer had.
    pub key: BlockKey,
    /// Bytes of the payload, if `compression` is not 0.
    pub compressed_size: u64,
    /// Raw streams only.
    pub crypt: Crypt,
}

impl Write {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            object: ObjectId(fields.u64(8)),
            object_type: fields.u32(16),
            offset: fields.u64(24),
            logical_size: fields.u64(32),
            to_guid: Guid(fields.u64(40)),
            checksum: fields.u8(48),
            flags: fields.u8(49),
            compression: fields.u8(50),
            key: BlockKey::decode(fields, 56),
            compressed_size: fields.u64(96),
            crypt: Crypt::decode(fields, 104),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64(8, self.object.0);
        fields.u32(16, self.object_type);
        fields.u64(24, self.offset);
        fields.u64(32, self.logical_size);
        fields.u64(40, self.to_guid.0);
        fields.u8(48, self.checksum);
        fields.u8(49, self.flags);
        fields.u8(50, self.compression);
        self.key.encode(fields, 56);
        fields.u64(96, self.compressed_size);
        self.crypt.encode(fields, 104);
    }

    /// Bytes of the payload, as the fields claim: [`super::Record::payload_length`] bounds it.
    pub fn payload_length(&self) -> u64 {
        match self.compression {
            0 => self.logical_size,
            _ => self.compressed_size,
        }
    }
}
