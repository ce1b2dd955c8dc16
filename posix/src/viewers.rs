//! Viewers of a file system that cache what they saw of it: mounts.
//!
//! If there is only one mount, all changes come through it, and its cache cannot become stale. Once
//! there is a second, neither may cache.

use cenote_base::rt::{Mutex, ranks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A frontend that caches names and attributes.
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
    /// Adds a viewer. The other viewers drop their caches, and from now on none may cache.
    pub(crate) fn add(&self, viewer: &Arc<dyn Viewer>) {
        let mut list = self.list.lock();
        let others = list.clone();
        list.push(Arc::clone(viewer));
        // Before the others drop their caches: they must not fill them again.
        self.count.store(list.len(), Ordering::Release);
        if list.len() > 1 {
            self.was_shared.store(true, Ordering::Release);
        }
        drop(list);
        others.iter().for_each(|other| other.forget());
    }

    /// Removes a viewer.
    pub(crate) fn remove(&self, viewer: &Arc<dyn Viewer>) {
        let mut list = self.list.lock();
        list.retain(|other| !Arc::ptr_eq(other, viewer));
        self.count.store(list.len(), Ordering::Release);
        if list.is_empty() {
            self.was_shared.store(false, Ordering::Release);
        }
    }

    /// Whether a viewer may have missed changes, because it is or was not the only one.
    pub(crate) fn is_or_was_shared(&self) -> bool {
        self.was_shared.load(Ordering::Acquire)
    }

    /// Whether there are several, so that each of them misses changes.
    pub(crate) fn are_several(&self) -> bool {
        self.count.load(Ordering::Acquire) > 1
    }
}
