//! What a resume token says: where a receive was interrupted.
//!
//! Source: format/4 6. The token's text is this list, packed, deflated and in hexadecimal digits;
//! making and reading the text takes compression, and lies further up.
//!
//! ```text
//! fromguid   u64, of increments only     toguid   u64     toname   string
//! object, offset, bytes   u64: the last record applied, and how much of the stream was consumed
//! largeblockok, embedok, compressok, rawok   flags: what the stream's sender was allowed
//! redact_snaps, book_redact_snaps   u64s
//! ```

use super::begin::Begin;
use super::features::Feature;
use crate::{DecodeError, NvList, NvValue};
use cenote_base::{Guid, ObjectId};

const STRUCTURE: &str = "resume token";

/// Where a receive was interrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeToken {
    /// The stream's source; 0, or absent, if it is full.
    pub from_guid: Option<Guid>,
    /// The object to resume with.
    pub object: ObjectId,
    /// The offset in it to resume at, in bytes.
    pub offset: u64,
    /// Bytes of the stream that were received.
    pub bytes: u64,
    /// The snapshot.
    pub to_guid: Guid,
    /// The sender's name of it.
    pub to_name: Vec<u8>,
    /// Blocks may be larger than 128 KiB.
    pub large_blocks: bool,
    /// There may be WRITE_EMBEDDED.
    pub embedded: bool,
    /// Blocks may be compressed.
    pub compressed: bool,
    /// The stream is raw.
    pub raw: bool,
    /// The snapshots that the stream is redacted to.
    pub redact_snapshots: Option<Vec<u64>>,
    /// Those of the bookmark that it starts from.
    pub bookmark_redact_snapshots: Option<Vec<u64>>,
}

impl ResumeToken {
    /// What `BEGIN` says of the stream, at object 0, without what it is redacted to.
    pub fn of_begin(begin: &Begin) -> Self {
        let has = |feature| begin.features.has(feature);
        Self {
            from_guid: Some(begin.from_guid).filter(|guid| guid.0 != 0),
            to_guid: begin.to_guid,
            to_name: begin.to_name.clone(),
            large_blocks: has(Feature::LargeBlocks),
            embedded: has(Feature::EmbedData),
            compressed: has(Feature::Compressed),
            raw: has(Feature::Raw),
            ..Self::default()
        }
    }

    /// Takes the token's list apart.
    ///
    /// # Errors
    /// If one of the entries is missing that all tokens have.
    pub fn from_list(list: &NvList) -> Result<Self, DecodeError> {
        let number = |key| list.require_u64(STRUCTURE, key);
        let guids = |key| list.get_u64_array(key).map(<[u64]>::to_vec);
        let name = list.get_bytes("toname").ok_or(DecodeError::Missing {
            structure: STRUCTURE,
            key: "toname",
        })?;
        Ok(Self {
            from_guid: list.get_u64("fromguid").map(Guid),
            object: ObjectId(number("object")?),
            offset: number("offset")?,
            bytes: number("bytes")?,
            to_guid: Guid(number("toguid")?),
            to_name: name.to_vec(),
            large_blocks: list.get_bool("largeblockok"),
            embedded: list.get_bool("embedok"),
            compressed: list.get_bool("compressok"),
            raw: list.get_bool("rawok"),
            redact_snapshots: guids("redact_snaps"),
            bookmark_redact_snapshots: guids("book_redact_snaps"),
        })
    }

    /// The list, in the order that OpenZFS writes.
    pub fn to_list(&self) -> NvList {
        let mut list = NvList::new();
        if let Some(guid) = self.from_guid {
            list.set_u64("fromguid", guid.0);
        }
        list.set_u64("object", self.object.0);
        list.set_u64("offset", self.offset);
        list.set_u64("bytes", self.bytes);
        list.set_u64("toguid", self.to_guid.0);
        list.set_str("toname", &self.to_name);
        let flags = [
            ("largeblockok", self.large_blocks),
            ("embedok", self.embedded),
            ("compressok", self.compressed),
            ("rawok", self.raw),
        ];
        for (name, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            list.set(name, NvValue::Boolean);
        }
        let redactions = [
            ("redact_snaps", &self.redact_snapshots),
            ("book_redact_snaps", &self.bookmark_redact_snapshots),
        ];
        for (name, guids) in redactions {
            if let Some(guids) = guids {
                list.set(name, NvValue::Uint64Array(guids.clone()));
            }
        }
        list
    }
}
