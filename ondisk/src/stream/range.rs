//! FREE, FREEOBJECTS and REDACT: what is not there.
//!
//! Source: format/4 2.
//!
//! ```text
//! FREE, REDACT   8 object         16 offset   24 length   32 guid of the snapshot
//! FREEOBJECTS    8 first object   16 objects  24 guid of the snapshot
//! ```
//!
//! A length of [`super::TO_THE_END`] reaches to the object's end. REDACT is a FREE of what the
//! sender did have.

use super::byte_order::{Fields, FieldsMut};
use cenote_base::{Guid, ObjectId};

/// A part of an object that is a hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// The object.
    pub object: ObjectId,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The snapshot.
    pub to_guid: Guid,
}

/// A part of an object that was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redact {
    /// The object.
    pub object: ObjectId,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The snapshot.
    pub to_guid: Guid,
}

/// Numbers of objects that are not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeObjects {
    /// The first.
    pub first: ObjectId,
    /// How many.
    pub count: u64,
    /// The snapshot.
    pub to_guid: Guid,
}

impl Free {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            object: ObjectId(fields.u64(8)),
            offset: fields.u64(16),
            length: fields.u64(24),
            to_guid: Guid(fields.u64(32)),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        let words = [self.object.0, self.offset, self.length, self.to_guid.0];
        fields.u64s(8, &words);
    }
}

impl Redact {
    pub(super) fn decode(fields: &Fields) -> Self {
        let Free {
            object,
            offset,
            length,
            to_guid,
        } = Free::decode(fields);
        Self {
            object,
            offset,
            length,
            to_guid,
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        let words = [self.object.0, self.offset, self.length, self.to_guid.0];
        fields.u64s(8, &words);
    }
}

impl FreeObjects {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            first: ObjectId(fields.u64(8)),
            count: fields.u64(16),
            to_guid: Guid(fields.u64(24)),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64s(8, &[self.first.0, self.count, self.to_guid.0]);
    }
}
