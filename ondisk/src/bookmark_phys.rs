//! Bookmarks: what remains of a snapshot to send increments from.
//!
//! Source: format/3a 9. A value of the ZAP that the head's `com.delphix:bookmarks` names: an
//! array of 3 (first version) or 12 64-bit integers:
//!
//! ```text
//! 0 guid  1 creation txg  2 creation time  3 redaction list  4 flags
//! 5-7 referenced, compressed, uncompressed bytes of the snapshot
//! 8-10 the same, of what was freed before the next snapshot   11 IV set guid
//! ```

use crate::DecodeError;
use cenote_base::{Guid, ObjectId, Txg};

/// The byte counts are kept.
pub const FLAG_HAS_FREED_BEFORE_NEXT: u64 = 1;
/// The snapshot still exists.
pub const FLAG_SNAPSHOT_EXISTS: u64 = 2;

/// Integers of the first version.
pub const WORDS_V1: usize = 3;
/// Integers of the second version.
pub const WORDS_V2: usize = 12;

const STRUCTURE: &str = "bookmark";

/// Referenced, compressed and uncompressed bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BookmarkSpace {
    /// Bytes used.
    pub referenced: u64,
    /// After compression.
    pub compressed: u64,
    /// Before compression.
    pub uncompressed: u64,
}

/// A bookmark of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BookmarkPhys {
    /// The snapshot's guid.
    pub guid: Guid,
    /// The snapshot's creation txg.
    pub creation_txg: Txg,
    /// The snapshot's creation time, in seconds UTC.
    pub creation_time: u64,
    /// The redaction list's object.
    pub redaction_list: Option<ObjectId>,
    /// `FLAG_*`.
    pub flags: u64,
    /// The snapshot's space, if [`FLAG_HAS_FREED_BEFORE_NEXT`].
    pub space: BookmarkSpace,
    /// What was freed before the next snapshot, if [`FLAG_HAS_FREED_BEFORE_NEXT`].
    pub freed_before_next: BookmarkSpace,
    /// Of encrypted datasets: the snapshot's IV set.
    pub ivset_guid: Option<Guid>,
}

impl BookmarkPhys {
    /// From the integers of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self, DecodeError> {
        if words.len() < WORDS_V1 {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "number of integers",
                value: words.len() as u64,
            });
        }
        let word = |index| words.get(index).copied().unwrap_or(0);
        let space = |index| BookmarkSpace {
            referenced: word(index),
            compressed: word(index + 1),
            uncompressed: word(index + 2),
        };
        Ok(Self {
            guid: Guid(word(0)),
            creation_txg: Txg(word(1)),
            creation_time: word(2),
            redaction_list: Some(ObjectId(word(3))).filter(|object| object.0 != 0),
            flags: word(4),
            space: space(5),
            freed_before_next: space(8),
            ivset_guid: Some(Guid(word(11))).filter(|guid| guid.0 != 0),
        })
    }

    /// The integers of the ZAP value: 3 if they say it all and 12 are not asked for, else 12.
    pub fn to_words(&self, version2: bool) -> Vec<u64> {
        let mut words = vec![self.guid.0, self.creation_txg.0, self.creation_time];
        if version2 {
            words.extend([
                self.redaction_list.map_or(0, ObjectId::get),
                self.flags,
                self.space.referenced,
                self.space.compressed,
                self.space.uncompressed,
                self.freed_before_next.referenced,
                self.freed_before_next.compressed,
                self.freed_before_next.uncompressed,
                self.ivset_guid.map_or(0, Guid::get),
            ]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions() {
        let words: Vec<u64> = (1..=12).collect();
        let bookmark = BookmarkPhys::from_words(&words).expect("version 2");
        assert_eq!(bookmark.redaction_list, Some(ObjectId(4)));
        assert_eq!(bookmark.freed_before_next.compressed, 10);
        assert_eq!(bookmark.to_words(true), words);
        let old = BookmarkPhys::from_words(&words[..3]).expect("version 1");
        assert_eq!((old.guid, old.flags), (Guid(1), 0));
        assert_eq!(old.to_words(false), words[..3]);
        assert!(BookmarkPhys::from_words(&words[..2]).is_err());
    }
}
