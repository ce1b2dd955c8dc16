//! WRITE_EMBEDDED: a block so small that its pointer held it.
//!
//! Source: format/4 2.
//!
//! ```text
//!  8 object   16 offset   24 length of the block   32 guid of the snapshot
//! 40 compression   41 embedded type (0: data)   48 logical size (u32)   52 physical size (u32)
//! ```
//!
//! The payload is the pointer's, padded with zeros to a multiple of 8.

use super::byte_order::{Fields, FieldsMut};
use cenote_base::{Guid, ObjectId};

/// A block from within its pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteEmbedded {
    /// The object.
    pub object: ObjectId,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes of the object's blocks.
    pub length: u64,
    /// The snapshot.
    pub to_guid: Guid,
    /// Compression function number.
    pub compression: u8,
    /// What the pointer's payload is: 0 for data.
    pub embedded_type: u8,
    /// Bytes when decompressed.
    pub logical_size: u32,
    /// Bytes of the pointer's payload.
    pub physical_size: u32,
}

impl WriteEmbedded {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            object: ObjectId(fields.u64(8)),
            offset: fields.u64(16),
            length: fields.u64(24),
            to_guid: Guid(fields.u64(32)),
            compression: fields.u8(40),
            embedded_type: fields.u8(41),
            logical_size: fields.u32(48),
            physical_size: fields.u32(52),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64(8, self.object.0);
        fields.u64(16, self.offset);
        fields.u64(24, self.length);
        fields.u64(32, self.to_guid.0);
        fields.u8(40, self.compression);
        fields.u8(41, self.embedded_type);
        fields.u32(48, self.logical_size);
        fields.u32(52, self.physical_size);
    }

    /// Bytes of the payload, unchecked; saturates.
    pub(super) fn payload_length(&self) -> u32 {
        self.physical_size
            .checked_next_multiple_of(8)
            .unwrap_or(u32::MAX)
    }
}
