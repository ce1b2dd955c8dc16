//! The error log: blocks that were found damaged and could not be repaired (format/1b 7).
//!
//! There are two logs: errors since the last scrub, and those that the running one has found.
//! With the feature `head_errlog` entries are filed by head dataset and name a block by its birth
//! as well; without, each names its object set.

use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_base::{BlockId, ObjectId, ObjsetId, Txg};
use cenote_dmu::ObjectSet;
use cenote_ondisk::{BlockPointer, features};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Entries that are read.
const ENTRIES_MAX: usize = 1 << 20;

/// One damaged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorEntry {
    /// The object set, or with `head_errlog` the head dataset of the family of snapshots.
    pub objset: ObjsetId,
    /// The object.
    pub object: ObjectId,
    /// The block's level; negative for object set blocks and the intent log.
    pub level: i64,
    /// The block.
    pub block: u64,
    /// When the block was born, where that is noted.
    pub birth: Option<Txg>,
}

impl Dsl {
    /// All damaged blocks on record, each once.
    pub fn error_log(&self) -> Result<BTreeSet<ErrorEntry>, DslError> {
        let mut entries = BTreeSet::new();
        for key in [keys::ERROR_LOG_LAST, keys::ERROR_LOG_SCRUB] {
            let Some(log) = self.object_directory().object(key)? else {
                continue;
            };
            if self.features().is_active(features::HEAD_ERRLOG) {
                self.by_head(log, &mut entries)?;
            } else {
                self.by_objset(log, &mut entries)?;
            }
        }
        Ok(entries)
    }

    /// The datasets and snapshots in which a damaged block stands: one, or with `head_errlog` all
    /// of a family that have it. What cannot be opened is left out.
    pub fn datasets_with(self: &Arc<Self>, entry: &ErrorEntry) -> Vec<Dataset> {
        let Ok(head) = self.dataset_of(ObjectId(entry.objset.0)) else {
            return Vec::new();
        };
        // Before there was a birth to go by, the entry names the place alone.
        let Some(birth) = entry.birth.filter(|birth| birth.0 != 0) else {
            return vec![head];
        };
        let snapshots = head.snapshots().unwrap_or_default();
        let snapshots = snapshots.iter().filter_map(|snapshot| {
            let is_young = snapshot.creation_txg >= birth;
            is_young.then(|| self.dataset_of(snapshot.object).ok())?
        });
        let has_it = |dataset: &Dataset| {
            let pointer = pointer_in(dataset, entry);
            pointer.is_some_and(|pointer| pointer.logical_birth() == birth)
        };
        snapshots.chain([head]).filter(has_it).collect()
    }

    fn by_head(&self, log: ObjectId, entries: &mut BTreeSet<ErrorEntry>) -> Result<(), DslError> {
        for head in self.mos().zap(log)?.entries() {
            let head = head?;
            let objset = head.key.as_str().and_then(hex_words::<1>);
            let (Some([objset]), Some(object)) = (objset, head.value.as_u64()) else {
                return Err(DslError::structure(
                    log,
                    "an entry of the error log is malformed",
                ));
            };
            for entry in self.mos().zap(ObjectId(object))?.entries() {
                let entry = entry?;
                let words = entry.key.as_str().and_then(hex_words::<4>);
                let Some([object, level, block, birth]) = words else {
                    return Err(malformed(object));
                };
                let birth = Some(Txg(birth));
                insert(entries, [objset, object, level, block], birth);
            }
        }
        Ok(())
    }

    fn by_objset(&self, log: ObjectId, entries: &mut BTreeSet<ErrorEntry>) -> Result<(), DslError> {
        for entry in self.mos().zap(log)?.entries() {
            let entry = entry?;
            let words = entry.key.as_str().and_then(hex_words::<4>);
            insert(entries, words.ok_or(malformed(log.0))?, None);
        }
        Ok(())
    }
}

/// The block pointer at an entry's place in a dataset; `None` if it is unreadable.
pub fn pointer_in(dataset: &Dataset, entry: &ErrorEntry) -> Option<BlockPointer> {
    let level = u8::try_from(entry.level).ok()?;
    // Block pointers can be read without keys.
    let cache = Arc::clone(dataset.dsl().mos().cache());
    let root = dataset.phys().block_pointer;
    let set = ObjectSet::open(cache, ObjsetId(dataset.id().0), root, None).ok()?;
    let object = set.object(entry.object).ok()?;
    object.block_pointer(level, BlockId(entry.block)).ok()
}

fn malformed(object: u64) -> DslError {
    DslError::structure(ObjectId(object), "an entry of the error log is malformed")
}

fn insert(entries: &mut BTreeSet<ErrorEntry>, words: [u64; 4], birth: Option<Txg>) {
    let [objset, object, level, block] = words;
    if entries.len() < ENTRIES_MAX {
        entries.insert(ErrorEntry {
            objset: ObjsetId(objset),
            object: ObjectId(object),
            level: level as i64,
            block,
            birth,
        });
    }
}

/// Hexadecimal numbers with colons between them.
fn hex_words<const N: usize>(key: &str) -> Option<[u64; N]> {
    let words: Option<Vec<u64>> = key
        .split(':')
        .map(|word| u64::from_str_radix(word, 16).ok())
        .collect();
    words?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hexadecimal_words() {
        assert_eq!(hex_words::<4>("36:2:0:1f"), Some([0x36, 2, 0, 0x1f]));
        assert_eq!(
            hex_words::<4>("36:2:ffffffffffffffff:0"),
            Some([0x36, 2, u64::MAX, 0])
        );
        assert_eq!(hex_words::<4>("36:2:0"), None);
        assert_eq!(hex_words::<1>("x"), None);
    }
}
