//! Another state of the file system under the same mount: after a rollback.
//!
//! Requests are held back at the gate while the old state is closed and the new one opened. Then
//! the kernel's cached names are invalidated together, and it looks them up again. Open files stay
//! usable if they are the same in the new state: the same object with the same generation. Handles
//! of other files are stale, and their object numbers may be reused. So each handle carries the
//! number of exchanges before it was opened. An older handle of a file that no longer exists gets
//! `EIO`, as from OpenZFS.
//!
//! Kernels before 6.16 cannot forget names without taking away what is mounted below; nor can any
//! if something is: there the mount has to go, and be made again.

use super::DatasetFiles;
use cenote_base::ObjectId;
use cenote_fuse::{Errno, Handle, NodeId};
use cenote_posix::FileSystem;
use std::sync::Arc;
use std::time::Duration;

/// How long requests that are under way may take before an exchange is given up.
const PATIENCE: Duration = Duration::from_secs(10);

impl DatasetFiles {
    /// Whether the mount can stay when the file system becomes another state of itself. The kernel
    /// forgets all names for this.
    pub fn can_exchange(&self) -> bool {
        let kernel = self.kernel.get();
        !self.trees.is_snapshot()
            && kernel.is_some_and(|kernel| kernel.invalidate_all_entries().is_ok())
    }

    /// Holds requests back from now on, and waits for those under way. Returns false if they do not
    /// end in time: then requests are served again.
    pub fn hold_back(&self) -> bool {
        if let Some(kernel) = self.kernel.get() {
            // What was stored through mappings belongs to the state that goes.
            for object in self.opens.with_stores() {
                let _ = kernel.collect_stores(NodeId(object.0), 0);
            }
        }
        self.gate.close(PATIENCE)
    }

    /// Resumes with the old state.
    pub fn go_on(&self) {
        self.gate.open();
    }

    /// Resumes with another state of the file system; of the files that were `open`, some are
    /// `gone`.
    pub fn take_up(&self, files: Arc<FileSystem>, open: &[ObjectId], gone: &[ObjectId]) {
        let before = self.trees.exchange_head(files);
        if let Some(viewer) = self.viewer.get() {
            before.remove_viewer(viewer);
            self.trees.head().add_viewer(viewer);
        }
        self.ghosts.clear();
        self.opens.forget(gone);
        self.exchanges.note(gone);
        self.gate.open();
        let Some(kernel) = self.kernel.get() else {
            return;
        };
        // Errors are ignored: a mount that has just ended has no cache.
        let _ = kernel.invalidate_all_entries();
        let root = self.root();
        for object in open.iter().filter(|object| **object != root) {
            let _ = kernel.invalidate_node(NodeId(object.0));
        }
        let _ = kernel.invalidate_node(NodeId::ROOT);
    }

    /// Refuses a handle of a file that disappeared in an exchange.
    pub(super) fn check_handle(&self, object: ObjectId, handle: Handle) -> Result<(), Errno> {
        match self.exchanges.is_gone(object, handle) {
            true => Err(Errno::IO),
            false => Ok(()),
        }
    }
}
