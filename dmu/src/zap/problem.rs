//! What may be wrong with a ZAP, and with requests to one.

use crate::error::DmuError;
use crate::object::Object;
use cenote_base::BlockId;
use cenote_cache::Block;
use cenote_ondisk::DecodeError;

pub(super) const STRUCTURE: &str = "ZAP";
pub(super) const TOO_MANY_EQUAL: &str = "too many of its keys have the same hash";

/// A block of a ZAP, none of which is a hole.
pub(super) fn block_of(object: &Object, id: BlockId) -> Result<Block, DmuError> {
    let problem = "its pointer table points to a hole";
    let hole = || inconsistent(object, problem);
    object.block(id)?.ok_or_else(hole)
}

pub(super) fn inconsistent(object: &Object, problem: &'static str) -> DmuError {
    object.malformed(DecodeError::Inconsistent {
        structure: STRUCTURE,
        problem,
    })
}

pub(super) fn cannot(object: &Object, problem: &'static str) -> DmuError {
    DmuError::BadChange {
        objset: object.set().id(),
        object: object.id(),
        problem,
    }
}

pub(super) fn full(object: &Object, problem: &'static str) -> DmuError {
    DmuError::ZapFull {
        objset: object.set().id(),
        object: object.id(),
        problem,
    }
}

pub(super) fn exists(object: &Object) -> DmuError {
    DmuError::EntryExists {
        objset: object.set().id(),
        object: object.id(),
    }
}
