//! SPILL: an object's spill block.
//!
//! Source: format/4 2.
//!
//! ```text
//!  8 object   16 length   24 guid of the snapshot   32 flags   33 compression
//! 40 compressed size, 0 if the payload is the logical block
//! 48 salt (8 bytes)   56 IV (12)   68 MAC (16)   84 type (u32)
//! ```
//!
//! The payload is the block, as stored in raw streams.

use super::byte_order::{Fields, FieldsMut};
use super::write::Crypt;
use cenote_base::{Guid, ObjectId};

/// A spill block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spill {
    /// The object.
    pub object: ObjectId,
    /// Bytes of the block when decompressed.
    pub length: u64,
    /// The snapshot.
    pub to_guid: Guid,
    /// [`super::record_flags`].
    pub flags: u8,
    /// Compression function number of the payload.
    pub compression: u8,
    /// Bytes of the payload, unless 0.
    pub compressed_size: u64,
    /// Raw streams only.
    pub crypt: Crypt,
    /// The number of the block's type.
    pub object_type: u32,
}

impl Spill {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            object: ObjectId(fields.u64(8)),
            length: fields.u64(16),
            to_guid: Guid(fields.u64(24)),
            flags: fields.u8(32),
            compression: fields.u8(33),
            compressed_size: fields.u64(40),
            crypt: Crypt::decode(fields, 48),
            object_type: fields.u32(84),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64(8, self.object.0);
        fields.u64(16, self.length);
        fields.u64(24, self.to_guid.0);
        fields.u8(32, self.flags);
        fields.u8(33, self.compression);
        fields.u64(40, self.compressed_size);
        self.crypt.encode(fields, 48);
        fields.u32(84, self.object_type);
    }

    /// Bytes of the payload, as the fields claim: [`super::Record::payload_length`] bounds it.
    pub fn payload_length(&self) -> u64 {
        match self.compressed_size {
            0 => self.length,
            size => size,
        }
    }
}
