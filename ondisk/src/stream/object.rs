//! OBJECT: an object is there, and has this dnode.
//!
//! Source: format/4 2.
//!
//! ```text
//!  8 object          16 type (u32)   20 bonus type (u32)   24 block size (u32)
//! 28 bonus length (u32)   32 checksum   33 compression   34 slots, 0 for 1   35 flags
//! 36 raw bonus length (u32)   40 guid of the snapshot
//! 48 indirect shift  49 levels  50 block pointers  56 highest block id: in raw streams
//! ```
//!
//! The payload is the bonus buffer, padded to a multiple of 8. In raw streams it is the whole
//! bonus area, encrypted, whatever part of it is in use.

use super::byte_order::{Fields, FieldsMut};
use cenote_base::{Guid, ObjectId};

/// The longest bonus area: of the largest dnode with one block pointer (16 KiB - 64 - 128).
pub(super) const BONUS_MAX: u64 = 32 * 512 - 192;

/// An object's dnode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The object.
    pub object: ObjectId,
    /// The number of its type.
    pub object_type: u32,
    /// The number of its bonus buffer's type.
    pub bonus_type: u32,
    /// Bytes of a data block.
    pub block_size: u32,
    /// Used bytes of the bonus buffer.
    pub bonus_length: u32,
    /// Checksum function number of the dnode, 0 to inherit.
    pub checksum: u8,
    /// Compression function number of the dnode, 0 to inherit.
    pub compression: u8,
    /// 512-byte slots; 0 means 1.
    pub slots: u8,
    /// [`super::record_flags`].
    pub flags: u8,
    /// Bytes of the whole bonus area in raw streams, 0 in others.
    pub raw_bonus_length: u32,
    /// The snapshot.
    pub to_guid: Guid,
    /// Raw streams only; zeros in others.
    pub raw: RawGeometry,
}

/// What a raw stream tells of a dnode's block tree, so that MACs over it stay right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGeometry {
    /// log2 of the bytes of an indirect block.
    pub indirect_shift: u8,
    /// Levels of the block tree.
    pub levels: u8,
    /// Block pointers in the dnode.
    pub block_pointers: u8,
    /// The highest block ever written.
    pub block_id_max: u64,
}

impl Object {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            object: ObjectId(fields.u64(8)),
            object_type: fields.u32(16),
            bonus_type: fields.u32(20),
            block_size: fields.u32(24),
            bonus_length: fields.u32(28),
            checksum: fields.u8(32),
            compression: fields.u8(33),
            slots: fields.u8(34),
            flags: fields.u8(35),
            raw_bonus_length: fields.u32(36),
            to_guid: Guid(fields.u64(40)),
            raw: RawGeometry {
                indirect_shift: fields.u8(48),
                levels: fields.u8(49),
                block_pointers: fields.u8(50),
                block_id_max: fields.u64(56),
            },
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64(8, self.object.0);
        fields.u32(16, self.object_type);
        fields.u32(20, self.bonus_type);
        fields.u32(24, self.block_size);
        fields.u32(28, self.bonus_length);
        fields.u8(32, self.checksum);
        fields.u8(33, self.compression);
        fields.u8(34, self.slots);
        fields.u8(35, self.flags);
        fields.u32(36, self.raw_bonus_length);
        fields.u64(40, self.to_guid.0);
        fields.u8(48, self.raw.indirect_shift);
        fields.u8(49, self.raw.levels);
        fields.u8(50, self.raw.block_pointers);
        fields.u64(56, self.raw.block_id_max);
    }

    /// Bytes of the payload, unchecked; saturates.
    pub(super) fn payload_length(&self) -> u32 {
        match self.raw_bonus_length {
            0 => self
                .bonus_length
                .checked_next_multiple_of(8)
                .unwrap_or(u32::MAX),
            length => length,
        }
    }

    /// The 512-byte slots that the dnode takes.
    pub fn slot_count(&self) -> u64 {
        u64::from(self.slots.max(1))
    }
}
