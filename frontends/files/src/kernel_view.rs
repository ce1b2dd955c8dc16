//! A mount's kernel among those who remember what they saw of a file system.

use cenote_fuse::{NodeId, Notifier};
use cenote_posix::Viewer;

/// A mount's kernel, as one who remembers.
#[derive(Debug)]
pub(super) struct KernelView(pub Notifier);

impl Viewer for KernelView {
    fn forget(&self) {
        // Kernels before 6.16 cannot, and where something is mounted below it must not be: there
        // this mount goes on showing names as it learned them before.
        let _ = self.0.invalidate_all_entries();
        let _ = self.0.invalidate_node(NodeId::ROOT);
    }
}
