//! Damage that readers met since the import.
//!
//! A pool that is only read cannot write its error log, so what mounts and walks find is noted
//! here and shown by `zpool status` beside the log.

use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId};
use cenote_dmu::DmuError;
use cenote_dsl::ErrorEntry;
use cenote_io::IoError;
use cenote_posix::PosixError;
use cenote_posix::write::DamageSink;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Blocks that are remembered.
const ENTRIES_MAX: usize = 10_000;

/// The damaged blocks that were met.
#[derive(Debug, Default)]
pub struct DamageLog {
    entries: Mutex<BTreeSet<ErrorEntry>>,
}

impl DamageLog {
    /// Notes what a reader met, if it is damage and says where.
    pub fn report(&self, error: &PosixError) {
        let Some(place) = place_of(error).filter(|_| error.is_damage()) else {
            return;
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() < ENTRIES_MAX {
            entries.insert(ErrorEntry {
                objset: place.objset,
                object: place.object,
                level: i64::from(place.level.0),
                block: place.block.0,
                birth: None,
            });
        }
    }

    /// Everything noted so far.
    pub(crate) fn entries(&self) -> BTreeSet<ErrorEntry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.clone()
    }
}

impl DamageSink for DamageLog {
    fn report(&self, error: &PosixError) {
        eprintln!("cenote: {error}");
        Self::report(self, error);
    }
}

/// The block that an error is about.
fn place_of(error: &PosixError) -> Option<Bookmark> {
    let PosixError::Dmu(error) = error else {
        return None;
    };
    let of_object = |objset: ObjsetId, object: ObjectId| Bookmark {
        objset,
        object,
        level: Level(0),
        block: BlockId(0),
    };
    match error {
        DmuError::Io(
            IoError::BadPointer { bookmark, .. }
            | IoError::Unreadable { bookmark, .. }
            | IoError::BadGang { bookmark, .. }
            | IoError::Decompress { bookmark, .. }
            | IoError::Authentication { bookmark }
            | IoError::MalformedProtected { bookmark, .. },
        )
        | DmuError::BadTree { bookmark, .. } => Some(*bookmark),
        DmuError::Decode { objset, object, .. } | DmuError::WrongType { objset, object, .. } => {
            Some(of_object(*objset, *object))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_noted_once_and_absence_not_at_all() {
        let log = DamageLog::default();
        let bookmark = Bookmark::data(ObjsetId(54), ObjectId(7), BlockId(3));
        let problem = "its level is wrong";
        let damage = || PosixError::Dmu(DmuError::BadTree { bookmark, problem });
        log.report(&damage());
        log.report(&damage());
        let (objset, object) = (ObjsetId(54), ObjectId(8));
        log.report(&PosixError::Dmu(DmuError::NoSuchObject { objset, object }));
        let noted = log.entries();
        assert_eq!(noted.len(), 1);
        let entry = noted.first().expect("one");
        assert_eq!((entry.object, entry.block), (ObjectId(7), 3));
    }
}
