//! Damage that readers meet, on its way to the pool's error log.

use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId};
use cenote_dmu::DmuError;
use cenote_dsl::ErrorEntry;
use cenote_io::IoError;
use cenote_pool::{ErrorNotes, Pool};
use cenote_posix::PosixError;
use cenote_posix::write::DamageSink;
use std::sync::Arc;

/// What readers of one pool are given to tell of damage.
#[derive(Debug)]
pub struct DamageLog(Arc<ErrorNotes>);

impl DamageLog {
    /// What goes into a pool's log.
    pub fn of(pool: &Pool) -> Arc<Self> {
        Arc::new(Self(Arc::clone(pool.error_notes())))
    }

    /// Notes what a reader met, if it is damage and says where.
    pub fn report(&self, error: &PosixError) {
        let Some(place) = place_of(error).filter(|_| error.is_damage()) else {
            return;
        };
        self.0.note(ErrorEntry {
            objset: place.objset,
            object: place.object,
            level: i64::from(place.level.0),
            block: place.block.0,
            birth: None,
        });
    }
}

impl DamageSink for DamageLog {
    fn report(&self, error: &PosixError) {
        log::error!("{error}");
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
    fn damage_has_a_place_and_absence_none() {
        let bookmark = Bookmark::data(ObjsetId(54), ObjectId(7), BlockId(3));
        let problem = "its level is wrong";
        let damage = PosixError::Dmu(DmuError::BadTree { bookmark, problem });
        assert_eq!(place_of(&damage), Some(bookmark));
        let (objset, object) = (ObjsetId(54), ObjectId(8));
        let absence = PosixError::Dmu(DmuError::NoSuchObject { objset, object });
        assert_eq!(place_of(&absence), None);
    }
}
