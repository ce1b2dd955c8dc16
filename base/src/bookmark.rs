//! The place of a block in a pool, for error messages, error logs and resumable walks.

use crate::{BlockId, Level, ObjectId, ObjsetId};
use std::fmt;

/// Names one block: object set, object, level and block number at that level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bookmark {
    /// The object set that holds the object.
    pub objset: ObjsetId,
    /// The object whose block tree holds the block.
    pub object: ObjectId,
    /// The block's height; 0 is data.
    pub level: Level,
    /// The block's number among the blocks of its level.
    pub block: BlockId,
}

impl Bookmark {
    /// The data block `block` of `object` in `objset`.
    pub fn data(objset: ObjsetId, object: ObjectId, block: BlockId) -> Self {
        Self {
            objset,
            object,
            level: Level(0),
            block,
        }
    }
}

impl fmt::Display for Bookmark {
    /// The form that OpenZFS prints: `<objset:object:level:block>` in decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<{}:{}:{}:{}>",
            self.objset, self.object, self.level, self.block
        )
    }
}
