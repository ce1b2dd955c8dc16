//! Telling the kernel that what it remembers is no longer true.

use crate::mount::mounts;
use crate::protocol::notification;
use crate::protocol::reply;
use crate::protocol::wire::Writer;
use crate::values::{Errno, NodeId};
use std::io::IoSlice;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of `fuse_out_header`.
const HEADER_SIZE: usize = reply::HEADER_SIZE;

/// The connection that notifications go through.
pub(crate) trait Channel: Send + Sync {
    /// Sends one to the kernel.
    fn notify(&self, pieces: &[IoSlice<'_>]) -> Result<(), Errno>;

    /// Allows a worker to wait for requests that other workers have to serve; `None` if too many
    /// wait already.
    fn begin_collecting(&self) -> Option<Collecting<'_>>;
}

/// A worker that waits for other workers.
pub(crate) struct Collecting<'a>(pub &'a AtomicUsize);

impl Drop for Collecting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A handle for invalidations, usable from any thread.
///
/// Never call it while holding a lock that a [`crate::FileSystem`] method needs: the kernel may
/// wait for a request under way before it releases a page or name.
#[derive(Clone)]
pub struct Notifier {
    /// Weak, since the file system that a session serves may keep a notifier.
    session: Weak<dyn Channel>,
    /// The mount's number in the kernel's table, if that could be read.
    mount_id: Option<u64>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Notifier").finish_non_exhaustive()
    }
}

impl Notifier {
    pub(crate) fn new(session: Weak<dyn Channel>, mount_id: Option<u64>) -> Self {
        Notifier { session, mount_id }
    }

    /// Drops the attributes of `node` and its cached data or listing.
    pub fn invalidate_node(&self, node: NodeId) -> Result<(), Errno> {
        let mut body = [0; 24];
        // Offset 0 and length 0: everything.
        Writer::new(&mut body).u64(node.0).i64(0).i64(0);
        self.send(notification::INVALIDATE_INODE, &[IoSlice::new(&body)])
    }

    /// Has the kernel send off what programs stored through mappings of `node` from `offset` on,
    /// and drop what it caches there. Stores that happen meanwhile may stay.
    ///
    /// This waits for requests that other workers serve, and is for workers to call; at most half
    /// of them may at a time.
    ///
    /// # Errors
    /// `EAGAIN` if that many wait already.
    pub fn collect_stores(&self, node: NodeId, offset: u64) -> Result<(), Errno> {
        let Some(session) = self.session.upgrade() else {
            return Ok(());
        };
        let _collecting = session.begin_collecting().ok_or(Errno::AGAIN)?;
        let offset = i64::try_from(offset).map_err(|_| Errno::OVERFLOW)?;
        let mut body = [0; 24];
        // Length 0: to the end.
        Writer::new(&mut body).u64(node.0).i64(offset).i64(0);
        self.send(notification::INVALIDATE_INODE, &[IoSlice::new(&body)])
    }

    /// Drops the attributes of `node` and keeps its cached data.
    pub fn invalidate_attributes(&self, node: NodeId) -> Result<(), Errno> {
        let mut body = [0; 24];
        Writer::new(&mut body).u64(node.0).i64(-1).i64(0);
        self.send(notification::INVALIDATE_INODE, &[IoSlice::new(&body)])
    }

    /// Forgets what `name` in `parent` means, existing or not.
    pub fn invalidate_entry(&self, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        let Ok(length) = u32::try_from(name.len()) else {
            return Err(Errno::NAMETOOLONG);
        };
        let mut body = [0; 16];
        Writer::new(&mut body).u64(parent.0).u32(length).u32(0);
        let pieces = [IoSlice::new(&body), IoSlice::new(name), IoSlice::new(&[0])];
        self.send(notification::INVALIDATE_ENTRY, &pieces)
    }

    /// Invalidates all cached names at once. `EINVAL` on kernels before 6.16.
    ///
    /// Invalidating a name detaches mounts on it or below. `EBUSY` where anything is mounted on
    /// this mount.
    pub fn invalidate_all_entries(&self) -> Result<(), Errno> {
        let table = mounts().unwrap_or_default();
        let is_known = table.iter().any(|entry| Some(entry.id) == self.mount_id);
        let mut others = table.iter().map(|entry| Some(entry.parent));
        if !is_known || others.any(|parent| parent == self.mount_id) {
            return Err(Errno::BUSY);
        }
        self.send(notification::INCREASE_EPOCH, &[])
    }

    /// Sends one notification. What the kernel does not remember (ENOENT) needs no invalidation.
    fn send(&self, code: i32, body: &[IoSlice<'_>]) -> Result<(), Errno> {
        let length = body.iter().map(|piece| piece.len()).sum();
        let header: [u8; HEADER_SIZE] = reply::header(0, code, length);
        let mut pieces = Vec::with_capacity(4);
        pieces.push(IoSlice::new(&header));
        pieces.extend_from_slice(body);
        let Some(session) = self.session.upgrade() else {
            return Ok(());
        };
        match session.notify(&pieces) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
