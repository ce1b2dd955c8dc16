//! Files that are gone while the kernel still knows them.
//!
//! A process may be in a directory that was removed, or have it open: directories are opened
//! without asking here, and so is what is opened with `O_PATH`. What such a file was is shown,
//! without links, until the kernel forgets it. Its object is free already.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_fuse::Attr;
use std::collections::HashMap;

/// The attributes of objects that lost their last name since the kernel looked them up.
#[derive(Debug, Default)]
pub(super) struct Ghosts(Mutex<HashMap<ObjectId, Attr>, ranks::Ghosts>);

impl Ghosts {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Attr>> {
        self.0.lock()
    }

    /// Remembers what `object` was before its last name was removed.
    pub(super) fn note(&self, object: ObjectId, before: Attr) {
        self.lock().insert(object, Attr { nlink: 0, ..before });
    }

    /// What is shown of an object that is no more.
    pub(super) fn get(&self, object: ObjectId) -> Option<Attr> {
        self.lock().get(&object).copied()
    }

    /// None is remembered any more.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// The kernel has dropped its last reference.
    pub(super) fn forget(&self, object: ObjectId) {
        self.lock().remove(&object);
    }
}
