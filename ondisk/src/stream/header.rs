//! What all kinds of records share: their size, their numbers and names, and their checksum.

use crate::DecodeError;

/// Bytes of a record's header.
pub const RECORD_SIZE: usize = 312;

/// Where the running checksum stands in it, except in BEGIN.
pub const CHECKSUM_OFFSET: usize = 280;

/// The running checksum: fletcher4 over 32-bit words (format/4 1.1).
pub type Checksum = [u64; 4];

pub(crate) const STRUCTURE: &str = "stream record";

/// The numbers of the kinds.
pub mod kind {
    #![expect(missing_docs, reason = "named as the kinds")]
    pub const BEGIN: u32 = 0;
    pub const OBJECT: u32 = 1;
    pub const FREE_OBJECTS: u32 = 2;
    pub const WRITE: u32 = 3;
    pub const FREE: u32 = 4;
    pub const END: u32 = 5;
    pub const WRITE_BY_REFERENCE: u32 = 6;
    pub const SPILL: u32 = 7;
    pub const WRITE_EMBEDDED: u32 = 8;
    pub const OBJECT_RANGE: u32 = 9;
    pub const REDACT: u32 = 10;
    /// How many kinds there are.
    pub const COUNT: usize = 11;
}

/// The name of a kind, as senders' documentation has it.
pub fn kind_name(number: u32) -> &'static str {
    match number {
        kind::BEGIN => "BEGIN",
        kind::OBJECT => "OBJECT",
        kind::FREE_OBJECTS => "FREEOBJECTS",
        kind::WRITE => "WRITE",
        kind::FREE => "FREE",
        kind::END => "END",
        kind::WRITE_BY_REFERENCE => "WRITE_BYREF",
        kind::SPILL => "SPILL",
        kind::WRITE_EMBEDDED => "WRITE_EMBEDDED",
        kind::OBJECT_RANGE => "OBJECT_RANGE",
        kind::REDACT => "REDACT",
        _ => "unknown",
    }
}

pub(crate) fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}
