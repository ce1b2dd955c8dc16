//! Blocks that write and clone records point to.
//!
//! They hold what is too large for the log. Such a block belongs to no tree yet; its place is that
//! of the object's first block.

use cenote_base::{BlockId, Bookmark, ObjectId};
use cenote_dmu::{Block, DmuError, ObjectSet};
use cenote_io::ReadContext;
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// The contents of a block that a record about `object` points to.
///
/// # Errors
/// If the block cannot be read, or its key is not loaded.
pub fn read_pointed(
    set: &Arc<ObjectSet>,
    object: ObjectId,
    pointer: &BlockPointer,
) -> Result<Block, DmuError> {
    let context = ReadContext {
        bookmark: Bookmark::data(set.id(), object, BlockId(0)),
        keys: set.keys().map(AsRef::as_ref),
    };
    Ok(set.cache().read(pointer, context)?)
}
