//! A mount's kernel as a viewer: it caches what it saw of a file system.

use cenote_fuse::{NodeId, Notifier};
use cenote_posix::Viewer;

/// The cache of a mount's kernel.
#[derive(Debug)]
pub(super) struct KernelView(pub Notifier);

impl Viewer for KernelView {
    fn forget(&self) {
        // Kernels before 6.16 do not support this, and it would detach other mounts below this one.
        // In both cases the mount keeps showing the names that it cached before.
        let _ = self.0.invalidate_all_entries();
        let _ = self.0.invalidate_node(NodeId::ROOT);
    }
}
