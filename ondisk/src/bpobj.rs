//! Block pointer objects: lists of blocks that are dead, or are to be freed.
//!
//! Source: format/3a 3. The bonus buffer grew with the software's age, its length tells:
//!
//! ```text
//!  0 entries   8 bytes                 16 bytes
//! 16 compressed bytes   24 uncompressed           32 bytes
//! 32 object that lists sub-objects  40 its length     48 bytes
//! 48 entries that are frees                           56 bytes
//! ```
//!
//! The data is an array of block pointers, with fill 0 and, where not needed to free the block,
//! checksum 0. In livelists bit 0 of the fill word tells a free from an allocation. A sub-object
//! is another bpobj whose contents belong to this one, and whose bytes are in its totals.

use crate::block_pointer::BLOCK_POINTER_SIZE;
use crate::wire;
use crate::{BlockPointer, DecodeError};
use cenote_base::ObjectId;

/// The lengths that the bonus buffer has had.
pub const HEADER_SIZES: [usize; 4] = [16, 32, 48, 56];

const STRUCTURE: &str = "bpobj";
const WORD_FILL: usize = 11;

/// The bonus buffer of a bpobj.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpobjHeader {
    /// Block pointers in the data.
    pub entries: u64,
    /// Bytes that they use, with those in sub-objects.
    pub bytes: u64,
    /// After compression; absent in the oldest form.
    pub compressed_bytes: Option<u64>,
    /// Before compression; absent in the oldest form.
    pub uncompressed_bytes: Option<u64>,
    /// The object that lists the sub-objects, as 64-bit object numbers.
    pub subobjects: Option<ObjectId>,
    /// How many sub-objects there are.
    pub subobject_count: u64,
    /// Entries that are frees; absent in older forms.
    pub freed: Option<u64>,
}

impl BpobjHeader {
    /// Decodes a bonus buffer of any of the four lengths.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let optional = |offset| match bonus.len() >= offset + 8 {
            true => word(offset).map(Some),
            false => Ok(None),
        };
        let entries = word(0)?;
        if entries > u64::MAX / BLOCK_POINTER_SIZE as u64 {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "number of entries",
                value: entries,
            });
        }
        let subobjects = optional(32)?.filter(|object| *object != 0);
        Ok(Self {
            entries,
            bytes: word(8)?,
            compressed_bytes: optional(16)?,
            uncompressed_bytes: optional(24)?,
            subobjects: subobjects.map(ObjectId),
            subobject_count: optional(40)?.unwrap_or(0),
            freed: optional(48)?,
        })
    }

    /// The bonus buffer in the shortest of the 48 and 56 byte forms that holds everything.
    pub fn encode(&self) -> Vec<u8> {
        let mut words = vec![
            self.entries,
            self.bytes,
            self.compressed_bytes.unwrap_or(0),
            self.uncompressed_bytes.unwrap_or(0),
            self.subobjects.map_or(0, ObjectId::get),
            self.subobject_count,
        ];
        words.extend(self.freed);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries == 0 && self.subobject_count == 0
    }
}

/// The block pointers in a part of the data.
pub fn entries(bytes: &[u8]) -> impl DoubleEndedIterator<Item = BlockPointer> + '_ {
    bytes.chunks_exact(BLOCK_POINTER_SIZE).map(|bytes| {
        let bytes = bytes.try_into().expect("chunks of a pointer's size");
        BlockPointer::from_array(bytes)
    })
}

/// Whether an entry of a livelist is a free, and not an allocation.
pub fn is_free(entry: &BlockPointer) -> bool {
    entry.words[WORD_FILL] & 1 != 0
}

/// What is stored for a block: without what freeing it does not need.
pub fn to_entry(pointer: &BlockPointer, freed: bool) -> BlockPointer {
    let mut entry = *pointer;
    if pointer.is_embedded() {
        entry = BlockPointer::HOLE;
        entry.words[6] = pointer.words[6];
        entry.words[10] = pointer.words[10];
    } else if !pointer.is_dedup() {
        entry.words[12..].fill(0);
    }
    entry.words[WORD_FILL] = u64::from(freed);
    entry
}

/// The object numbers in a part of the list of sub-objects.
pub fn subobjects(bytes: &[u8]) -> impl DoubleEndedIterator<Item = ObjectId> + '_ {
    bytes.chunks_exact(8).map(|bytes| {
        let bytes = bytes.try_into().expect("chunks of 8 bytes");
        ObjectId(u64::from_le_bytes(bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_tells_the_form() {
        let bytes: Vec<u8> = (1..=7_u64).flat_map(u64::to_le_bytes).collect();
        let newest = BpobjHeader::decode(&bytes).expect("56 bytes");
        assert_eq!(
            (newest.subobjects, newest.freed),
            (Some(ObjectId(5)), Some(7))
        );
        assert_eq!(newest.encode(), bytes);
        let middle = BpobjHeader::decode(&bytes[..48]).expect("48 bytes");
        assert_eq!((middle.subobject_count, middle.freed), (6, None));
        assert_eq!(middle.encode(), bytes[..48]);
        let old = BpobjHeader::decode(&bytes[..16]).expect("16 bytes");
        assert_eq!((old.bytes, old.compressed_bytes), (2, None));
        assert_eq!(old.subobjects, None);
        assert!(BpobjHeader::decode(&bytes[..15]).is_err());
        assert!(BpobjHeader::decode(&[0xff; 16]).is_err());
    }

    #[test]
    fn entries_lose_what_freeing_does_not_need() {
        let mut pointer = BlockPointer {
            words: std::array::from_fn(|i| i as u64 + 1),
        };
        pointer.words[6] = 1 << 63 | 19 << 48 | 7 << 40 | 2 << 32;
        let entry = to_entry(&pointer, true);
        assert!(is_free(&entry));
        assert_eq!(entry.checksum(), [0; 4]);
        assert_eq!(entry.dva(0), pointer.dva(0));
        assert!(!is_free(&to_entry(&pointer, false)));
        pointer.words[6] |= 1 << 62;
        let entry = to_entry(&pointer, false);
        assert_eq!(
            entry.checksum(),
            pointer.checksum(),
            "the dedup table's key"
        );
        let bytes = [entry.encode(), pointer.encode()].concat();
        assert_eq!(entries(&bytes).collect::<Vec<_>>(), [entry, pointer]);
        assert_eq!(entries(&bytes[..200]).count(), 1);
    }
}
