//! Send streams: a snapshot, or the way from one to another, as a sequence of records.
//!
//! Source: format/4. A record is a header of [`RECORD_SIZE`] bytes and, by its kind, a payload;
//! there is no other framing:
//!
//! ```text
//!   0 kind (u32)   4 bytes of payload (u32, in BEGIN alone; zero in all other kinds)
//!   8 the kind's own fields, in a file each: begin, object, object_range, write,
//!     write_embedded, write_by_reference, spill, range (FREE, FREEOBJECTS, REDACT), end
//! 280 running checksum of everything since BEGIN (4 u64); in BEGIN the end of its name
//! ```
//!
//! Numbers are in the sender's byte order, which BEGIN's magic number identifies ([`ByteOrder`]);
//! arrays of bytes are not swapped, and neither are payloads. The fields of a record determine the
//! length of its payload: [`Record::payload_length`] computes it. It rejects a length beyond the
//! format's limit, so that a caller does not allocate for it.
//!
//! A *package* holds the streams of several snapshots: BEGIN with the list of what comes
//! ([`package`]), END, then whole streams, then END with nothing in it.
//!
//! Compression and checksum functions are kept as raw numbers: most are only displayed.

mod begin;
mod byte_order;
mod crypt_keydata;
mod end;
mod features;
mod header;
mod object;
mod object_range;
pub mod package;
mod payload;
mod range;
mod resume_token;
mod spill;
mod write;
mod write_by_reference;
mod write_embedded;

pub use begin::{Begin, HeaderKind, MAGIC, PAYLOAD_MAX as BEGIN_PAYLOAD_MAX, TO_NAME_SIZE, flags};
pub use byte_order::ByteOrder;
pub use crypt_keydata::{CryptKeydata, MetaDnode};
pub use end::End;
pub use features::{Feature, StreamFeatures};
pub use header::{CHECKSUM_OFFSET, Checksum, RECORD_SIZE, kind, kind_name};
pub use object::{Object, RawGeometry};
pub use object_range::ObjectRange;
pub use payload::BeginPayload;
pub use range::{Free, FreeObjects, Redact};
pub use resume_token::ResumeToken;
pub use spill::Spill;
pub use write::{BlockKey, Crypt, Write};
pub use write_by_reference::WriteByReference;
pub use write_embedded::WriteEmbedded;

use crate::DecodeError;
use byte_order::{Fields, FieldsMut};
use cenote_base::BLOCK_SIZE_MAX;
pub(crate) use header::bad;

/// A length that means: to the end of the object.
pub const TO_THE_END: u64 = u64::MAX;

/// Bits of the `flags` of records that have one.
pub mod record_flags {
    /// The stored checksum is strong enough for dedup.
    pub const DEDUP_CAPABLE: u8 = 1;
    /// The raw block is in the other byte order than the stream.
    pub const RAW_BYTESWAP: u8 = 2;
    /// OBJECT: the object has a spill block. Valid with [`super::flags::SPILL_BLOCKS`].
    pub const OBJECT_SPILL: u8 = 4;
    /// SPILL: unchanged, and sent for old receivers only.
    pub const SPILL_UNMODIFIED: u8 = 4;
}

/// A record, without its checksum and payload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what its type says")]
pub enum Record {
    Begin(Box<Begin>),
    Object(Object),
    FreeObjects(FreeObjects),
    Write(Write),
    Free(Free),
    End(End),
    WriteByReference(WriteByReference),
    Spill(Spill),
    WriteEmbedded(WriteEmbedded),
    ObjectRange(ObjectRange),
    Redact(Redact),
}

impl Record {
    /// Decodes a header whose numbers are in `order`, and its checksum: zero in BEGIN, which has
    /// none, and zero too where a sender left it out (format/4 1.1).
    ///
    /// # Errors
    /// If the kind is unknown, or BEGIN's magic number or header kind wrong. Fields that only a
    /// receiver can judge are taken as they are.
    pub fn decode(
        bytes: &[u8; RECORD_SIZE],
        order: ByteOrder,
    ) -> Result<(Self, Checksum), DecodeError> {
        let fields = Fields::new(bytes, order);
        let record = match fields.u32(0) {
            kind::BEGIN => {
                let begin = Begin::decode(&fields)?;
                return Ok((Self::Begin(Box::new(begin)), [0; 4]));
            }
            kind::OBJECT => Self::Object(Object::decode(&fields)),
            kind::FREE_OBJECTS => Self::FreeObjects(FreeObjects::decode(&fields)),
            kind::WRITE => Self::Write(Write::decode(&fields)),
            kind::FREE => Self::Free(Free::decode(&fields)),
            kind::END => Self::End(End::decode(&fields)),
            kind::WRITE_BY_REFERENCE => Self::WriteByReference(WriteByReference::decode(&fields)),
            kind::SPILL => Self::Spill(Spill::decode(&fields)),
            kind::WRITE_EMBEDDED => Self::WriteEmbedded(WriteEmbedded::decode(&fields)),
            kind::OBJECT_RANGE => Self::ObjectRange(ObjectRange::decode(&fields)),
            kind::REDACT => Self::Redact(Redact::decode(&fields)),
            number => return bad("kind", u64::from(number)),
        };
        Ok((record, fields.u64s(CHECKSUM_OFFSET)))
    }

    /// The header, with zeros for the checksum.
    pub fn encode(&self, order: ByteOrder) -> [u8; RECORD_SIZE] {
        let mut bytes = [0; RECORD_SIZE];
        let mut fields = FieldsMut::new(&mut bytes, order);
        fields.u32(0, self.kind());
        match self {
            Self::Begin(begin) => begin.encode(&mut fields),
            Self::Object(object) => object.encode(&mut fields),
            Self::FreeObjects(range) => range.encode(&mut fields),
            Self::Write(write) => write.encode(&mut fields),
            Self::Free(range) => range.encode(&mut fields),
            Self::End(end) => end.encode(&mut fields),
            Self::WriteByReference(write) => write.encode(&mut fields),
            Self::Spill(spill) => spill.encode(&mut fields),
            Self::WriteEmbedded(write) => write.encode(&mut fields),
            Self::ObjectRange(range) => range.encode(&mut fields),
            Self::Redact(range) => range.encode(&mut fields),
        }
        bytes
    }

    /// The number of the kind of a header, whatever it is.
    pub fn kind_of(bytes: &[u8; RECORD_SIZE], order: ByteOrder) -> u32 {
        Fields::new(bytes, order).u32(0)
    }

    /// The number of the kind.
    pub fn kind(&self) -> u32 {
        match self {
            Self::Begin(_) => kind::BEGIN,
            Self::Object(_) => kind::OBJECT,
            Self::FreeObjects(_) => kind::FREE_OBJECTS,
            Self::Write(_) => kind::WRITE,
            Self::Free(_) => kind::FREE,
            Self::End(_) => kind::END,
            Self::WriteByReference(_) => kind::WRITE_BY_REFERENCE,
            Self::Spill(_) => kind::SPILL,
            Self::WriteEmbedded(_) => kind::WRITE_EMBEDDED,
            Self::ObjectRange(_) => kind::OBJECT_RANGE,
            Self::Redact(_) => kind::REDACT,
        }
    }

    /// Bytes of payload behind the header.
    ///
    /// # Errors
    /// If the fields ask for more than the format allows, or for a length that is no multiple of 8
    /// (of 4 in BEGIN), over which no checksum runs.
    pub fn payload_length(&self) -> Result<usize, DecodeError> {
        let length = match self {
            Self::Begin(begin) => return begin.checked_payload_length(),
            Self::Object(object) => u64::from(object.payload_length()),
            Self::Write(write) => write.payload_length(),
            Self::Spill(spill) => spill.payload_length(),
            Self::WriteEmbedded(write) => u64::from(write.payload_length()),
            _ => 0,
        };
        let max = match self {
            Self::Object(_) => object::BONUS_MAX,
            Self::WriteEmbedded(_) => crate::block_pointer::EMBEDDED_PAYLOAD_MAX as u64,
            _ => BLOCK_SIZE_MAX,
        };
        if length > max || !length.is_multiple_of(8) {
            return bad("payload length", length);
        }
        Ok(usize::try_from(length).expect("at most 16 MiB"))
    }
}

#[cfg(test)]
mod tests;
