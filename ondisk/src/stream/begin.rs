//! BEGIN: what a stream is.
//!
//! Source: format/4 2 and 3.
//!
//! ```text
//!  4 bytes of payload (u32)      8 magic number
//! 16 version: bits 0-1 header kind, 2-57 features
//! 24 creation time (seconds)    32 object set type (u32)   36 flags (u32)
//! 40 guid of the snapshot       48 guid of its source, 0 if the stream is full
//! 56 name of the snapshot, NUL-terminated (256 bytes)
//! ```
//!
//! The payload is a packed list: of a package, what is in it; of a stream, what some features
//! need. Before 2.4 lists were not padded to a multiple of 8.

use super::byte_order::{Fields, FieldsMut};
use super::header::{RECORD_SIZE, STRUCTURE, bad, kind};
use super::{ByteOrder, StreamFeatures};
use crate::{DecodeError, NvList};
use cenote_base::Guid;

/// The magic number in the stream's byte order.
pub const MAGIC: u64 = 0x2_F5BA_CBAC;
/// Bytes of the name with its NUL.
pub const TO_NAME_SIZE: usize = 256;
/// The longest payload: what OpenZFS lets a package's list have (format/4 5).
pub const PAYLOAD_MAX: u32 = 64 << 20;

const TO_NAME_OFFSET: usize = 56;
const _: () = assert!(TO_NAME_OFFSET + TO_NAME_SIZE == RECORD_SIZE);

/// Bits of `flags`.
pub mod flags {
    /// The source is a snapshot of another dataset.
    pub const CLONE: u32 = 1;
    /// The dataset ignores case.
    pub const CASE_INSENSITIVE: u32 = 2;
    /// Everything that is not in the stream is freed by it: a full one can become a clone.
    pub const FREE_RECORDS: u32 = 4;
    /// The spill flags of OBJECT and SPILL mean something.
    pub const SPILL_BLOCKS: u32 = 8;
}

/// What follows a BEGIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// The records of one snapshot.
    Substream,
    /// A package of streams.
    Package,
}

/// What a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Bytes of the payload.
    pub payload_length: u32,
    /// What follows.
    pub header_kind: HeaderKind,
    /// What a receiver must understand.
    pub features: StreamFeatures,
    /// Seconds since 1970 at which the snapshot was made; 0 in packages.
    pub creation_time: u64,
    /// 2 for a file system, 3 for a volume, 0 in packages.
    pub objset_type: u32,
    /// [`flags`].
    pub flags: u32,
    /// The snapshot.
    pub to_guid: Guid,
    /// The snapshot that the stream builds upon; 0 if it is full.
    pub from_guid: Guid,
    /// `dataset@snapshot`, without the NUL.
    pub to_name: Vec<u8>,
}

impl Begin {
    /// The byte order of a stream that begins with `bytes`, which only BEGIN can tell.
    ///
    /// # Errors
    /// If the magic number is there in neither order.
    pub fn byte_order(bytes: &[u8; RECORD_SIZE]) -> Result<ByteOrder, DecodeError> {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let fields = Fields::new(bytes, order);
            if fields.u32(0) == kind::BEGIN && fields.u64(8) == MAGIC {
                return Ok(order);
            }
        }
        Err(DecodeError::BadMagic {
            structure: STRUCTURE,
            found: Fields::new(bytes, ByteOrder::Little).u64(8),
            expected: MAGIC,
        })
    }

    pub(super) fn decode(fields: &Fields) -> Result<Self, DecodeError> {
        if fields.u64(8) != MAGIC {
            return Err(DecodeError::BadMagic {
                structure: STRUCTURE,
                found: fields.u64(8),
                expected: MAGIC,
            });
        }
        let version = fields.u64(16);
        let mut to_name = fields.bytes::<TO_NAME_SIZE>(TO_NAME_OFFSET).to_vec();
        match to_name.iter().position(|byte| *byte == 0) {
            Some(length) => to_name.truncate(length),
            None => return bad("length of the name", TO_NAME_SIZE as u64),
        }
        Ok(Self {
            payload_length: fields.u32(4),
            header_kind: match crate::wire::bits(version, 0, 2) {
                1 => HeaderKind::Substream,
                2 => HeaderKind::Package,
                kind => return bad("header kind", kind),
            },
            features: StreamFeatures(crate::wire::bits(version, 2, 56)),
            creation_time: fields.u64(24),
            objset_type: fields.u32(32),
            flags: fields.u32(36),
            to_guid: Guid(fields.u64(40)),
            from_guid: Guid(fields.u64(48)),
            to_name,
        })
    }

    pub(super) fn encode(&self, fields: &mut FieldsMut) {
        assert!(self.to_name.len() < TO_NAME_SIZE, "names are that short");
        let kind = match self.header_kind {
            HeaderKind::Substream => 1,
            HeaderKind::Package => 2,
        };
        fields.u32(4, self.payload_length);
        fields.u64(8, MAGIC);
        fields.u64(16, kind | self.features.0 << 2);
        fields.u64(24, self.creation_time);
        fields.u32(32, self.objset_type);
        fields.u32(36, self.flags);
        fields.u64(40, self.to_guid.0);
        fields.u64(48, self.from_guid.0);
        fields.bytes(TO_NAME_OFFSET, &self.to_name);
    }

    pub(super) fn checked_payload_length(&self) -> Result<usize, DecodeError> {
        let length = self.payload_length;
        if length > PAYLOAD_MAX || !length.is_multiple_of(4) {
            return bad("payload length", u64::from(length));
        }
        Ok(length as usize)
    }

    /// The list in `payload`; an empty one if there is no payload.
    ///
    /// # Errors
    /// If it is no list.
    pub fn list(payload: &[u8]) -> Result<NvList, DecodeError> {
        if payload.is_empty() {
            return Ok(NvList::new());
        }
        NvList::decode_up_to(payload, PAYLOAD_MAX as usize)
    }
}
