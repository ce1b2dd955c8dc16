//! Damage found by work that no caller waits for.

use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId};
use cenote_dmu::DmuError;
use cenote_io::IoError;
use std::error::Error;
use std::fmt;

/// Receives reports of damage found by work that no caller waits for.
pub trait DamageSink: fmt::Debug + Send + Sync {
    /// Records `error`, and the damaged block if it is known.
    fn report(&self, error: &dyn Error, place: Option<Bookmark>);
}

/// Ignores reports: the damage has no effect.
#[derive(Debug)]
pub(crate) struct Unheard;

impl DamageSink for Unheard {
    fn report(&self, _: &dyn Error, _: Option<Bookmark>) {}
}

/// The block that an error is about.
pub fn place_of(error: &DmuError) -> Option<Bookmark> {
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
        let damage = DmuError::BadTree { bookmark, problem };
        assert_eq!(place_of(&damage), Some(bookmark));
        let (objset, object) = (ObjsetId(54), ObjectId(8));
        assert_eq!(place_of(&DmuError::NoSuchObject { objset, object }), None);
    }
}
