//! Those who show a file system and remember what they saw of it: mounts.
//!
//! A mount that is the only one knows of every change, since all come through it, and may keep
//! what it learned. Once there is a second, neither does.

use crate::file_system::FileSystem;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Somebody who remembers names and attributes.
pub trait Viewer: std::fmt::Debug + Send + Sync {
    /// Everything may have changed.
    fn forget(&self);
}

/// The viewers of one file system.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    list: Mutex<Vec<Arc<dyn Viewer>>, ranks::DirectoryViewers>,
    count: AtomicUsize,
    /// There were several since there last was none.
    was_shared: AtomicBool,
}

impl Viewers {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Viewer>>> {
        self.list.lock()
    }
}

impl FileSystem {
    /// Adds a viewer. The others forget what they remember, and none may remember from now on.
    pub fn add_viewer(&self, viewer: &Arc<dyn Viewer>) {
        let mut list = self.viewers().lock();
        let others = list.clone();
        list.push(Arc::clone(viewer));
        // Before the others forget: they must not learn again for longer than a moment.
        self.viewers().count.store(list.len(), Ordering::Release);
        if list.len() > 1 {
            self.viewers().was_shared.store(true, Ordering::Release);
        }
        drop(list);
        others.iter().for_each(|other| other.forget());
    }

    /// Removes a viewer.
    pub fn remove_viewer(&self, viewer: &Arc<dyn Viewer>) {
        let mut list = self.viewers().lock();
        list.retain(|other| !Arc::ptr_eq(other, viewer));
        self.viewers().count.store(list.len(), Ordering::Release);
        if list.is_empty() {
            self.viewers().was_shared.store(false, Ordering::Release);
        }
    }

    /// Whether a viewer may have missed changes of contents, because it is or was not the only one.
    pub fn is_or_was_shared(&self) -> bool {
        self.viewers().was_shared.load(Ordering::Acquire)
    }

    /// Whether there are several viewers, so that each of them misses changes.
    pub fn has_several_viewers(&self) -> bool {
        self.viewers().count.load(Ordering::Acquire) > 1
    }
}
