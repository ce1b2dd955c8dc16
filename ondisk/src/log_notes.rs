//! Intent logs that could not be read: two entries of the object directory of our own.
//!
//! A log is found through its dataset's object set block. Where that block cannot be read, neither
//! a claim nor a destruction reaches the log's blocks, and OpenZFS stores nothing about it. When
//! the block can be read later, it leads to blocks that are not what they were:
//!
//! * After a crash, blocks of later groups than the last synced one are in no space map. Without
//!   a claim they are free, and other things may have been written there.
//! * The log of a destroyed dataset is still allocated, and nothing but the object set block in the
//!   queue of what is to be freed leads to it. A block there usually leads to a log that was freed
//!   when the dataset was destroyed, so the block alone does not tell.
//!
//! So Cenote notes both:
//!
//! ```text
//!   org.cenote:unclaimed_logs   for each head:  head dataset, last group synced before its import
//!   org.cenote:unfreed_logs     for each root:  words 0 and 1 of its block pointer, its birth,
//!                                               last group whose log blocks are in the space
//!                                               maps, head dataset that it was of
//! ```
//!
//! OpenZFS ignores names that it does not know.

use crate::BlockPointer;
use cenote_base::{ObjectId, Txg};
use std::collections::BTreeMap;

/// The entry of heads whose logs were not claimed.
pub const UNCLAIMED_LOGS: &str = "org.cenote:unclaimed_logs";
/// The entry of destroyed contents whose logs were not freed.
pub const UNFREED_LOGS: &str = "org.cenote:unfreed_logs";

/// Notes that an entry has at most: a ZAP takes values of 8 KiB.
pub const NOTES_MAX: usize = 128;

const UNCLAIMED_WORDS: usize = 2;
const UNFREED_WORDS: usize = 5;

/// The words for heads whose logs were not claimed, each with the last group synced before that.
pub fn encode_unclaimed(heads: &BTreeMap<ObjectId, Txg>) -> Vec<u64> {
    let words = heads.iter().map(|(head, synced)| [head.0, synced.0]);
    words.take(NOTES_MAX).flatten().collect()
}

/// The heads whose logs were not claimed.
pub fn decode_unclaimed(words: &[u64]) -> BTreeMap<ObjectId, Txg> {
    let notes = words.chunks_exact(UNCLAIMED_WORDS).take(NOTES_MAX);
    notes
        .map(|words| (ObjectId(words[0]), Txg(words[1])))
        .collect()
}

/// Contents that wait to be freed, and whose log is to be freed with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfreedLog {
    /// The first copy of the object set block, as it is stored.
    place: [u64; 2],
    birth: Txg,
    /// Log blocks of later groups are not allocated.
    pub allocated: Txg,
    /// The head dataset that the log was of: its blocks' checksums contain the number.
    pub head: ObjectId,
}

impl UnfreedLog {
    /// The note for an object set block.
    pub fn new(root: &BlockPointer, head: ObjectId, allocated: Txg) -> Self {
        Self {
            place: [root.words[0], root.words[1]],
            birth: root.physical_birth(),
            allocated,
            head,
        }
    }

    /// Whether the note is of this object set block.
    pub fn is_of(&self, root: &BlockPointer) -> bool {
        let place = [root.words[0], root.words[1]];
        self.place == place && self.birth == root.physical_birth()
    }
}

/// The words for contents whose logs are to be freed.
pub fn encode_unfreed(logs: &[UnfreedLog]) -> Vec<u64> {
    let words = logs.iter().take(NOTES_MAX).flat_map(|log| {
        let [a, b] = log.place;
        [a, b, log.birth.0, log.allocated.0, log.head.0]
    });
    words.collect()
}

/// The contents whose logs are to be freed.
pub fn decode_unfreed(words: &[u64]) -> Vec<UnfreedLog> {
    let notes = words.chunks_exact(UNFREED_WORDS).take(NOTES_MAX);
    let note = |words: &[u64]| UnfreedLog {
        place: [words[0], words[1]],
        birth: Txg(words[2]),
        allocated: Txg(words[3]),
        head: ObjectId(words[4]),
    };
    notes.map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_any_words_are_decoded() {
        let heads = BTreeMap::from([(ObjectId(54), Txg(7)), (ObjectId(60), Txg(u64::MAX))]);
        let mut words = encode_unclaimed(&heads);
        assert_eq!(decode_unclaimed(&words), heads);
        words.push(1);
        assert_eq!(decode_unclaimed(&words), heads);
        let mut root = BlockPointer::HOLE;
        root.words[..2].copy_from_slice(&[9, 8]);
        let log = UnfreedLog::new(&root, ObjectId(54), Txg(7));
        assert!(log.is_of(&root));
        let mut words = encode_unfreed(&[log, log]);
        assert_eq!(decode_unfreed(&words), [log, log]);
        words.pop();
        assert_eq!(decode_unfreed(&words), [log]);
        root.words[1] = 7;
        assert!(!log.is_of(&root), "another place");
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let heads = (0..1000).map(|head| (ObjectId(head), Txg(1))).collect();
        assert_eq!(encode_unclaimed(&heads).len(), 2 * NOTES_MAX);
        let log = UnfreedLog::new(&BlockPointer::HOLE, ObjectId(1), Txg(1));
        let words = encode_unfreed(&[log; 1000]);
        assert_eq!(words.len(), UNFREED_WORDS * NOTES_MAX);
        assert!(words.len() * 8 <= 8192);
    }
}
