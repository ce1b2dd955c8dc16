//! OBJECT_RANGE: how the dnodes of the next objects are protected, in raw streams.
//!
//! Source: format/4 2.
//!
//! ```text
//! 8 first object   16 slots (always 32)   24 guid of the snapshot
//! 32 salt (8 bytes)   40 IV (12)   52 MAC (16)   68 flags
//! ```

use super::byte_order::{Fields, FieldsMut};
use super::write::Crypt;
use cenote_base::{Guid, ObjectId};

/// A block of dnodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectRange {
    /// The first object; a multiple of 32.
    pub first: ObjectId,
    /// Slots in the block.
    pub slots: u64,
    /// The snapshot.
    pub to_guid: Guid,
    /// Salt, IV and MAC of the block.
    pub crypt: Crypt,
    /// [`super::record_flags`].
    pub flags: u8,
}

impl ObjectRange {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            first: ObjectId(fields.u64(8)),
            slots: fields.u64(16),
            to_guid: Guid(fields.u64(24)),
            crypt: Crypt::decode(fields, 32),
            flags: fields.u8(68),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64(8, self.first.0);
        fields.u64(16, self.slots);
        fields.u64(24, self.to_guid.0);
        self.crypt.encode(fields, 32);
        fields.u8(68, self.flags);
    }
}
