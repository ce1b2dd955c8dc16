//! What a file system answers, in terms of POSIX and nothing else.
//!
//! The trait knows neither the FUSE protocol nor ZFS: it separates the transport (this crate's
//! session) from the source of files (a dataset, a test tree, the null server). Three ideas shape
//! it:
//!
//! * Nodes are plain numbers chosen by the file system. When they are derived from object numbers
//!   nothing has to be remembered per looked-up name, and [`FileSystem::forget`] is empty.
//! * Bulk answers go into a [`Payload`] or [`DirectoryReply`] that the session lends out. Cached
//!   blocks are lent to the kernel as they are, without a copy on our side.
//! * All metadata passes through one process, so answers may stay valid for ever; a change that
//!   does not come through the kernel must be reported with [`crate::Notifier`].
//!
//! A file system that only reads implements no changing operation: their defaults return `EROFS`,
//! and so does the session unless [`Features::writable`] is set.

use crate::interrupt::Interrupt;
use crate::notify::Notifier;
use crate::payload::{DirectoryReply, Payload};
use crate::values::{
    Attr, AttrChanges, DeviceNumber, Entry, Errno, Features, FileFlags, FilePlace,
    FileSystemStatus, Handle, Lifetime, Lookup, NewMode, NodeId, OPEN_ACCESS_MASK, Opened,
    SeekTarget, XattrChange,
};
use cenote_device::BlockBuffer;

/// The caller of a request, and whether it still waits.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The caller's user, as seen from the mount's user namespace.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// The caller's thread; 0 for requests of the kernel itself.
    pub pid: u32,
    /// Raised when the caller was signalled; long waits should then end with `EINTR`.
    pub interrupt: &'a Interrupt,
}

impl Context<'_> {
    /// Whether the caller belongs to a group.
    ///
    /// Requests have only one group. The others are asked for, which takes a while; where that is
    /// impossible, the caller does not belong to them.
    pub fn is_in_group(&self, group: u32) -> bool {
        self.gid == group || other_groups(self.pid).is_some_and(|groups| groups.contains(&group))
    }
}

/// The supplementary groups of a thread.
fn other_groups(thread: u32) -> Option<Vec<u32>> {
    // The kernel itself asks as thread 0.
    let status = std::fs::read(format!("/proc/{thread}/status")).ok()?;
    // The program's name, in an earlier line, need not be UTF-8.
    let mut lines = status.split(|&byte| byte == b'\n');
    let groups = lines.find_map(|line| line.strip_prefix(b"Groups:"))?;
    let groups = std::str::from_utf8(groups).ok()?.split_ascii_whitespace();
    groups.map(|group| group.parse().ok()).collect()
}

/// A file system. Methods are called from several threads at once.
///
/// The kernel checks permissions (`default_permissions`): a request that reaches a method is
/// allowed. Errors are errno values; the implementation logs their cause.
pub trait FileSystem: Send + Sync {
    /// The mount exists, and `kernel` can invalidate its caches. Called once, before or while the
    /// first requests are served.
    fn attach(&self, kernel: Notifier) {
        drop(kernel);
    }

    /// A request comes. This may keep it waiting, and the thread that serves it.
    fn begin_request(&self) {}

    /// The request has been served, with or without success.
    fn end_request(&self) {}

    /// Choices for the whole mount.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Resolves `name` in `parent`. `ENOENT` is not cached; [`Lookup::Absent`] may be.
    ///
    /// The kernel passes names of up to 1024 bytes; `ENAMETOOLONG` is the file system's to say.
    fn lookup(&self, context: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<Lookup, Errno>;

    /// The kernel dropped `lookups` references to `node`, gained by lookups and by entries of
    /// [`DirectoryReply::add_entry`].
    fn forget(&self, node: NodeId, lookups: u64) {
        let _ = (node, lookups);
    }

    /// The attributes and how long they hold.
    fn getattr(&self, context: &Context<'_>, node: NodeId) -> Result<(Attr, Lifetime), Errno>;

    /// Appends a symbolic link's target, at most 4095 bytes.
    fn readlink(
        &self,
        context: &Context<'_>,
        node: NodeId,
        target: &mut Payload,
    ) -> Result<(), Errno>;

    /// Opens a file. `flags` are those of `open(2)`; wanting to write is refused by default.
    /// `kill_suid_gid` asks to clear setuid and setgid bits of a file that is opened with
    /// `O_TRUNC`.
    fn open(
        &self,
        context: &Context<'_>,
        node: NodeId,
        flags: u32,
        kill_suid_gid: bool,
    ) -> Result<Opened, Errno> {
        let _ = (context, node, kill_suid_gid);
        match flags & OPEN_ACCESS_MASK {
            0 => Ok(Opened::default()),
            _ => Err(Errno::ROFS),
        }
    }

    /// The last descriptor of an opened file was closed.
    fn release(&self, node: NodeId, handle: Handle) {
        let _ = (node, handle);
    }

    /// Appends up to `size` bytes from `offset`. Fewer mean the end of the file.
    fn read(
        &self,
        context: &Context<'_>,
        node: NodeId,
        handle: Handle,
        offset: u64,
        size: usize,
        data: &mut Payload,
    ) -> Result<(), Errno>;

    /// The next data or hole at or after `offset`; `ENXIO` at or beyond the end of the file.
    fn seek(
        &self,
        context: &Context<'_>,
        node: NodeId,
        handle: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64, Errno>;

    /// Opens a directory; only called when [`Features::directory_handles`] is set.
    fn opendir(&self, context: &Context<'_>, node: NodeId) -> Result<Handle, Errno> {
        let _ = (context, node);
        Ok(Handle::default())
    }

    /// The last descriptor of an opened directory was closed.
    fn releasedir(&self, node: NodeId, handle: Handle) {
        let _ = (node, handle);
    }

    /// Adds entries that follow `cookie` (0 is the start) until `reply` is full.
    ///
    /// `.` and `..` are the file system's to add. Cookies must stay valid while entries come and
    /// go, be unique within the directory, above 0, and below 2^63.
    fn readdir(
        &self,
        context: &Context<'_>,
        node: NodeId,
        handle: Handle,
        cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno>;

    /// Space and file counts.
    fn statfs(&self, context: &Context<'_>, node: NodeId) -> Result<FileSystemStatus, Errno>;

    /// Appends the value of an extended attribute; `ENODATA` when there is none. The session
    /// deals with the caller's buffer size.
    fn getxattr(
        &self,
        context: &Context<'_>,
        node: NodeId,
        name: &[u8],
        value: &mut Payload,
    ) -> Result<(), Errno> {
        let _ = (context, node, name, value);
        Err(Errno::NODATA)
    }

    /// Appends the names of all extended attributes, each followed by a NUL.
    fn listxattr(
        &self,
        context: &Context<'_>,
        node: NodeId,
        names: &mut Payload,
    ) -> Result<(), Errno> {
        let _ = (context, node, names);
        Ok(())
    }

    /// Changes attributes; the result is what they are afterwards.
    fn setattr(
        &self,
        context: &Context<'_>,
        node: NodeId,
        handle: Option<Handle>,
        changes: &AttrChanges,
    ) -> Result<(Attr, Lifetime), Errno> {
        let _ = (context, node, handle, changes);
        Err(Errno::ROFS)
    }

    /// Makes a file of any kind but directories and symbolic links.
    fn mknod(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        mode: NewMode,
        device: DeviceNumber,
    ) -> Result<Entry, Errno> {
        let _ = (context, parent, name, mode, device);
        Err(Errno::ROFS)
    }

    /// Makes a directory.
    fn mkdir(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        mode: NewMode,
    ) -> Result<Entry, Errno> {
        let _ = (context, parent, name, mode);
        Err(Errno::ROFS)
    }

    /// Makes a symbolic link to `target`.
    fn symlink(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        target: &[u8],
    ) -> Result<Entry, Errno> {
        let _ = (context, parent, name, target);
        Err(Errno::ROFS)
    }

    /// Gives a file one more name.
    fn link(
        &self,
        context: &Context<'_>,
        node: NodeId,
        parent: NodeId,
        name: &[u8],
    ) -> Result<Entry, Errno> {
        let _ = (context, node, parent, name);
        Err(Errno::ROFS)
    }

    /// Removes a name of a file that is no directory.
    fn unlink(&self, context: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        let _ = (context, parent, name);
        Err(Errno::ROFS)
    }

    /// Removes an empty directory.
    fn rmdir(&self, context: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        let _ = (context, parent, name);
        Err(Errno::ROFS)
    }

    /// Moves `from` (a directory and a name in it) to `to`; `flags` are `RENAME_*`.
    fn rename(
        &self,
        context: &Context<'_>,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        flags: u32,
    ) -> Result<(), Errno> {
        let _ = (context, from, to, flags);
        Err(Errno::ROFS)
    }

    /// Makes a regular file, if the name is free, and opens the file with this name.
    fn create(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        mode: NewMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        let _ = (context, parent, name, mode, flags);
        Err(Errno::ROFS)
    }

    /// Makes a regular file without a name and opens it.
    fn tmpfile(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        mode: NewMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        let _ = (context, parent, mode, flags);
        Err(Errno::ROFS)
    }

    /// Writes all of `data`. `kill_suid_gid` asks to clear setuid and setgid bits.
    fn write(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        data: &[u8],
        kill_suid_gid: bool,
    ) -> Result<(), Errno> {
        let _ = (context, place, data, kill_suid_gid);
        Err(Errno::ROFS)
    }

    /// As [`Self::write`], of the first `length` bytes of some buffers, taken one after the other.
    /// A file system that keeps a buffer for its own leaves an empty one in its place. Returns the
    /// size of the file's blocks, if it has such: the next write comes in buffers of that size.
    fn write_blocks(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        (blocks, length): (&mut [BlockBuffer], usize),
        kill_suid_gid: bool,
    ) -> Result<Option<usize>, Errno> {
        let mut done = 0;
        for block in blocks {
            let piece = &block[..block.len().min(length - done)];
            if piece.is_empty() {
                continue;
            }
            let offset = place.offset.saturating_add(done as u64);
            let at = FilePlace { offset, ..place };
            self.write(context, at, piece, kill_suid_gid)?;
            done += piece.len();
        }
        Ok(None)
    }

    /// Allocates or punches holes; `mode` is that of `fallocate(2)`.
    fn allocate(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        let _ = (context, place, length, mode);
        Err(Errno::ROFS)
    }

    /// Copies up to `length` bytes between open files; returns how many.
    fn copy_range(
        &self,
        context: &Context<'_>,
        from: FilePlace,
        to: FilePlace,
        length: u64,
    ) -> Result<u64, Errno> {
        let _ = (context, from, to, length);
        Err(Errno::ROFS)
    }

    /// Sets an extended attribute.
    fn setxattr(
        &self,
        context: &Context<'_>,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        how: XattrChange,
    ) -> Result<(), Errno> {
        let _ = (context, node, name, value, how);
        Err(Errno::ROFS)
    }

    /// Removes an extended attribute; `ENODATA` when there is none.
    fn removexattr(&self, context: &Context<'_>, node: NodeId, name: &[u8]) -> Result<(), Errno> {
        let _ = (context, node, name);
        Err(Errno::ROFS)
    }

    /// The flags and the project of a file; `ENOTTY` where files have none.
    fn file_flags(&self, context: &Context<'_>, node: NodeId) -> Result<FileFlags, Errno> {
        let _ = (context, node);
        Err(Errno::NOTTY)
    }

    /// Changes flags and project. The kernel has checked permissions.
    fn set_file_flags(
        &self,
        context: &Context<'_>,
        node: NodeId,
        flags: &FileFlags,
    ) -> Result<(), Errno> {
        let _ = (context, node, flags);
        Err(Errno::ROFS)
    }

    /// The DOS attributes of a file, as bits of ZFS; `ENOTTY` where files have none.
    fn dos_attributes(&self, context: &Context<'_>, node: NodeId) -> Result<u64, Errno> {
        let _ = (context, node);
        Err(Errno::NOTTY)
    }

    /// Replaces the DOS attributes of a file. Permissions were not checked.
    fn set_dos_attributes(
        &self,
        context: &Context<'_>,
        node: NodeId,
        attributes: u64,
    ) -> Result<(), Errno> {
        let _ = (context, node, attributes);
        Err(Errno::NOTTY)
    }

    /// The generation, which distinguishes successive files with the same inode number; `ENOTTY` if
    /// there is none.
    fn generation(&self, context: &Context<'_>, node: NodeId) -> Result<u64, Errno> {
        let _ = (context, node);
        Err(Errno::NOTTY)
    }

    /// Whether the file of a handle was opened with `O_SYNC` or `O_DSYNC`. A write says so itself;
    /// `fallocate` and `copy_file_range` do not.
    fn is_synchronous(&self, handle: Handle) -> bool {
        let _ = handle;
        false
    }

    /// Ends a call that changed something of a node; returns when that survives a power cut, if the
    /// caller wants that or the file system itself.
    fn sync_if_due(&self, node: NodeId, is_wanted: bool) -> Result<(), Errno> {
        let _ = (node, is_wanted);
        Ok(())
    }

    /// Returns when the changes of a file or directory made so far survive a power cut, and those
    /// of names.
    fn fsync(&self, context: &Context<'_>, node: NodeId) -> Result<(), Errno> {
        let _ = (context, node);
        Ok(())
    }

    /// The mount has ended; no further call follows.
    fn destroy(&self) {}
}
