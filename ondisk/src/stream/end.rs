//! END: nothing follows, and all before it was right.
//!
//! Source: format/4 1.1 and 2.
//!
//! ```text
//! 8 the running checksum before this record (4 u64)   40 guid of the snapshot
//! ```
//!
//! The last END of a package is all zeros behind its kind, and the one after a package's header
//! has no guid and no checksum at its end.

use super::Checksum;
use super::byte_order::{Fields, FieldsMut};
use cenote_base::Guid;

/// The end of a stream, of a package's header, or of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The running checksum after the previous record's payload.
    pub checksum: Checksum,
    /// The snapshot.
    pub to_guid: Guid,
}

impl End {
    pub(super) fn decode(fields: &Fields) -> Self {
        Self {
            checksum: fields.u64s(8),
            to_guid: Guid(fields.u64(40)),
        }
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        fields.u64s(8, &self.checksum);
        fields.u64(40, self.to_guid.0);
    }
}
