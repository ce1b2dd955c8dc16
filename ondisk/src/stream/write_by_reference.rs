//! WRITE_BYREF: a block that the stream had before, in deduplicated streams of old senders.
//!
//! Source: format/4 2.
//!
//! ```text
//!  8 object   16 offset   24 length   32 guid of the snapshot
//! 40 guid of the snapshot with the block   48 object there   56 offset there
//! 64 checksum   65 flags   72 the block's key: checksum (4 u64), properties
//! ```

use super::byte_order::{Fields, FieldsMut};
use super::write::BlockKey;
use cenote_base::{Guid, ObjectId};

/// A block with the contents of one that was sent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteByReference {
    /// The object.
    pub object: ObjectId,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes of the block.
    pub length: u64,
    /// The snapshot.
    pub to_guid: Guid,
    /// The snapshot of the block referred to.
    pub reference_guid: Guid,
    /// Its object.
    pub reference_object: ObjectId,
    /// Its offset in bytes.
    pub reference_offset: u64,
    /// The block pointer's checksum function number.
    pub checksum: u8,
    /// [`super::record_flags`].
    pub flags: u8,
    /// What the block pointer had.
    pub key: BlockKey,
}

impl WriteByReference {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            object: ObjectId(fields.u64(8)),
            offset: fields.u64(16),
            length: fields.u64(24),
            to_guid: Guid(fields.u64(32)),
            reference_guid: Guid(fields.u64(40)),
            reference_object: ObjectId(fields.u64(48)),
            reference_offset: fields.u64(56),
            checksum: fields.u8(64),
            flags: fields.u8(65),
            key: BlockKey::decode(fields, 72),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64(8, self.object.0);
        fields.u64(16, self.offset);
        fields.u64(24, self.length);
        fields.u64(32, self.to_guid.0);
        fields.u64(40, self.reference_guid.0);
        fields.u64(48, self.reference_object.0);
        fields.u64(56, self.reference_offset);
        fields.u8(64, self.checksum);
        fields.u8(65, self.flags);
        self.key.encode(fields, 72);
    }
}
