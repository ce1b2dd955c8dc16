//! The queue of destroyed datasets whose blocks are freed in the background.
//!
//! Source: format/3a 8. The pool directory's `bptree_obj`, type 0xC3. Bonus buffer (40 bytes):
//! `0 begin  8 end  16 bytes  24 compressed  32 uncompressed`; data: entries of 168 bytes at
//! index begin to end:
//!
//! ```text
//! 0 block pointer of the object set (128)   128 free what was born after this txg
//! 136 where to resume: object set, object, level (signed), block
//! ```

use crate::wire;
use crate::{BlockPointer, DecodeError};
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId, Txg};

/// Bytes of the bonus buffer.
pub const HEADER_SIZE: usize = 40;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 168;
/// The object set number that a resume bookmark of a destroyed dataset carries.
pub const OBJSET_DESTROYED: ObjsetId = ObjsetId(u64::MAX);

const STRUCTURE: &str = "block pointer tree queue";

/// The bonus buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BptreeHeader {
    /// Index of the first entry.
    pub begin: u64,
    /// Index after the last.
    pub end: u64,
    /// Bytes still to be freed.
    pub bytes: u64,
    /// After compression.
    pub compressed_bytes: u64,
    /// Before compression.
    pub uncompressed_bytes: u64,
}

impl BptreeHeader {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let header = Self {
            begin: word(0)?,
            end: word(8)?,
            bytes: word(16)?,
            compressed_bytes: word(24)?,
            uncompressed_bytes: word(32)?,
        };
        if header.begin > header.end {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "begin",
                value: header.begin,
            });
        }
        Ok(header)
    }

    /// The bonus buffer.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        wire::words_to_bytes(&[
            self.begin,
            self.end,
            self.bytes,
            self.compressed_bytes,
            self.uncompressed_bytes,
        ])
    }
}

/// A destroyed dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BptreeEntry {
    /// Its object set.
    pub block_pointer: BlockPointer,
    /// Only blocks born after this are its own.
    pub birth_txg: Txg,
    /// How far freeing has come; `None` if it has not begun.
    pub resume: Option<Bookmark>,
}

impl BptreeEntry {
    /// Decodes an entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bytes, offset, STRUCTURE);
        let block_pointer = BlockPointer::decode(bytes)?;
        let (birth_txg, level) = (Txg(word(128)?), word(152)? as i64);
        // Level -1 is the object set block itself and -2 a log block; no walk resumes there.
        let level = u8::try_from(level.max(0)).map_err(|_| DecodeError::BadValue {
            structure: STRUCTURE,
            field: "level",
            value: level as u64,
        })?;
        let resume = Bookmark {
            objset: ObjsetId(word(136)?),
            object: ObjectId(word(144)?),
            level: Level(level),
            block: BlockId(word(160)?),
        };
        Ok(Self {
            block_pointer,
            birth_txg,
            resume: Some(resume).filter(|resume| *resume != Bookmark::default()),
        })
    }

    /// The entry's bytes.
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let resume = self.resume.unwrap_or_default();
        let tail: [u8; 40] = wire::words_to_bytes(&[
            self.birth_txg.0,
            resume.objset.0,
            resume.object.0,
            u64::from(resume.level.0),
            resume.block.0,
        ]);
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..128].copy_from_slice(&self.block_pointer.encode());
        bytes[128..].copy_from_slice(&tail);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive() {
        let mut entry = BptreeEntry {
            block_pointer: BlockPointer {
                words: std::array::from_fn(|i| i as u64),
            },
            birth_txg: Txg(7),
            resume: None,
        };
        assert_eq!(BptreeEntry::decode(&entry.encode()), Ok(entry));
        entry.resume = Some(Bookmark::data(OBJSET_DESTROYED, ObjectId(8), BlockId(9)));
        assert_eq!(BptreeEntry::decode(&entry.encode()), Ok(entry));
        assert!(BptreeEntry::decode(&entry.encode()[..167]).is_err());
    }

    #[test]
    fn headers_survive_and_must_not_end_before_they_begin() {
        let mut header = BptreeHeader {
            begin: 1,
            end: 2,
            ..BptreeHeader::default()
        };
        assert_eq!(BptreeHeader::decode(&header.encode()), Ok(header));
        header.begin = 3;
        assert!(BptreeHeader::decode(&header.encode()).is_err());
    }
}
