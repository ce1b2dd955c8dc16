//! What a file system answers, in terms of POSIX and nothing else.
//!
//! The trait knows neither the FUSE protocol nor ZFS: it is the seam between the transport (this
//! crate's session) and whatever holds files (a dataset, a test tree, the null server). Three
//! ideas shape it:
//!
//! * Nodes are plain numbers chosen by the file system. When they are derived from object numbers
//!   nothing has to be remembered per looked-up name, and [`FileSystem::forget`] is empty.
//! * Bulk answers go into a [`Payload`] or [`DirectoryReply`] that the session lends out. Cached
//!   blocks are lent to the kernel as they are, without a copy on our side.
//! * All metadata passes through one process, so answers may stay valid for ever; whoever changes
//!   something behind the kernel's back calls [`crate::Notifier`].
//!
//! A file system that only reads implements no changing operation: their defaults say `EROFS`, and
//! so does the session by itself unless [`Features::writable`] is set.

use crate::notify::Notifier;
use crate::payload::{DirectoryReply, Payload};
use crate::session::Interrupt;
use cenote_device::BlockBuffer;
pub use rustix::io::Errno;
use std::time::Duration;

/// A file's identity between kernel and file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory's fixed number.
    pub const ROOT: NodeId = NodeId(1);
}

/// `O_ACCMODE`; the value 0 in these bits is `O_RDONLY`.
const OPEN_ACCESS_MASK: u32 = 3;

/// An open file's or directory's identity, chosen by [`FileSystem::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Handle(pub u64);

/// How long the kernel may answer from its own cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime(Duration);

impl Lifetime {
    /// Until told otherwise. 2^31 seconds (68 years) stays clear of the kernel's jiffies limits.
    pub const FOREVER: Lifetime = Lifetime(Duration::from_secs(1 << 31));
    /// Ask again every time.
    pub const NONE: Lifetime = Lifetime(Duration::ZERO);

    /// At most `duration`.
    pub const fn bounded(duration: Duration) -> Self {
        Lifetime(duration)
    }

    /// The duration the kernel is told.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// The type of a file, as in the upper bits of `st_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device node.
    CharDevice,
    /// A block device node.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    /// The four type bits, `st_mode >> 12`, which are also `d_type`.
    pub const fn type_bits(self) -> u32 {
        match self {
            FileKind::Fifo => 1,
            FileKind::CharDevice => 2,
            FileKind::Directory => 4,
            FileKind::BlockDevice => 6,
            FileKind::Regular => 8,
            FileKind::Symlink => 10,
            FileKind::Socket => 12,
        }
    }

    /// The kind that `mode`'s type bits name, if they name one.
    pub const fn from_mode(mode: u32) -> Option<FileKind> {
        Some(match (mode >> 12) & 0xf {
            1 => FileKind::Fifo,
            2 => FileKind::CharDevice,
            4 => FileKind::Directory,
            6 => FileKind::BlockDevice,
            8 => FileKind::Regular,
            10 => FileKind::Symlink,
            12 => FileKind::Socket,
            _ => return None,
        })
    }
}

/// A point in time; negative seconds lie before 1970, nanoseconds always count forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds within the second, below 10^9.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// The given instant.
    pub const fn new(seconds: i64, nanoseconds: u32) -> Self {
        Timestamp {
            seconds,
            nanoseconds,
        }
    }
}

/// A device node's number. Linux keeps 12 bits of major and 20 bits of minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The driver's instance.
    pub minor: u32,
}

/// What `stat` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// `st_ino`; need not equal the node id.
    pub ino: u64,
    /// The file's type.
    pub kind: FileKind,
    /// The low twelve bits of `st_mode`: permissions, setuid, setgid, sticky.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub nlink: u32,
    /// Size in bytes; must not exceed `i64::MAX`.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size in bytes. The kernel rounds it down to a power of two.
    pub block_size: u32,
    /// The device that a device node stands for.
    pub device: DeviceNumber,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of content or metadata.
    pub changed: Timestamp,
    /// Creation, shown by `statx` where known.
    pub born: Option<Timestamp>,
}

/// A directory entry resolved to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The file.
    pub node: NodeId,
    /// Distinguishes successive files that reuse one node id (file handles of NFS exports).
    pub generation: u64,
    /// The file's attributes.
    pub attr: Attr,
    /// How long the name may be taken to mean this file.
    pub entry_lifetime: Lifetime,
    /// How long the attributes hold.
    pub attr_lifetime: Lifetime,
}

/// The outcome of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The name exists.
    Found(Entry),
    /// It does not, and the kernel may remember that for so long.
    Absent(Lifetime),
}

/// Who caches a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DataCache {
    /// Reads come to us each time (we have the ARC); `mmap` still uses the page cache.
    #[default]
    Direct,
    /// The kernel's page cache keeps what was read, over reopening too.
    Kernel,
}

/// An opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opened {
    /// Given back in later calls.
    pub handle: Handle,
    /// Who caches the data.
    pub cache: DataCache,
}

/// Which end of a run `lseek` looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeekTarget {
    /// The next byte that is stored.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
}

/// What `statfs` shows. Counts are in units of `fragment_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSystemStatus {
    /// All blocks, used and free.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks for ordinary users.
    pub blocks_available: u64,
    /// All file slots, used and free.
    pub files: u64,
    /// Free file slots.
    pub files_free: u64,
    /// Preferred transfer size in bytes.
    pub block_size: u32,
    /// Size of a counted block in bytes.
    pub fragment_size: u32,
    /// Longest name in bytes.
    pub name_length_max: u32,
}

/// A time that a file gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeChange {
    /// The time at which the request is served.
    Now,
    /// This one.
    To(Timestamp),
}

/// What a `setattr` changes; `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttrChanges {
    /// `st_mode`, of which the low twelve bits count.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes: truncation or a hole at the end.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<TimeChange>,
    /// Last change of the content.
    pub modified: Option<TimeChange>,
    /// Last change of anything, where the kernel keeps it.
    pub changed: Option<Timestamp>,
    /// The caller may not keep setuid and setgid bits through this change.
    pub kill_suid_gid: bool,
}

/// Permission bits of a new file, and what the caller does not want of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewMode {
    /// `st_mode` as asked for; type bits count in `mknod` only.
    pub mode: u32,
    /// Bits to leave out, unless a default ACL decides.
    pub umask: u32,
}

/// Flags of a file that `chattr` changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileFlags {
    /// It does not change at all.
    pub immutable: bool,
    /// It only grows.
    pub append_only: bool,
    /// `dump(8)` passes it over.
    pub no_dump: bool,
    /// What is made in the directory belongs to its project.
    pub project_inherit: bool,
    /// The project that its space is counted for; `None` leaves it.
    pub project: Option<u32>,
}

/// How an extended attribute is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XattrChange {
    /// `XATTR_CREATE` and `XATTR_REPLACE`.
    pub flags: u32,
    /// It is an access list, and the caller may not keep the file's setgid bit.
    pub clears_setgid: bool,
}

/// A place in an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub node: NodeId,
    /// Its open handle.
    pub handle: Handle,
    /// Bytes from its start.
    pub offset: u64,
}

/// Choices that hold for a whole mount, asked once before the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Let the kernel enforce `system.posix_acl_access`, which it then asks for per inode.
    pub posix_acl: bool,
    /// Whether [`FileSystem::opendir`] is wanted. Without it the kernel opens directories by
    /// itself and keeps listings cached until invalidated: two round trips fewer per directory.
    pub directory_handles: bool,
    /// Whether lookups of `.` and `..` work, which exporting over NFS needs.
    pub lookup_dots: bool,
    /// Whether changing operations are passed on; otherwise they are refused with `EROFS`.
    pub writable: bool,
}

/// Who asks, and whether they still want to know.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The caller's user, as seen from the mount's user namespace.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// The caller's thread; 0 for requests the kernel makes by itself.
    pub pid: u32,
    /// Raised when the caller was signalled; long waits should then end with `EINTR`.
    pub interrupt: &'a Interrupt,
}

/// A file system. Methods are called from several threads at once.
///
/// Permissions are the kernel's business (`default_permissions`): a method that is reached is
/// allowed. Errors are errno values; whatever the cause was is for the implementation to log.
pub trait FileSystem: Send + Sync {
    /// The mount is there, and `kernel` can be told to forget. Called once, before or while the
    /// first requests are served.
    fn attach(&self, kernel: Notifier) {
        drop(kernel);
    }

    /// A request comes. This may keep it waiting, and the thread that serves it.
    fn begin_request(&self) {}

    /// The request is served, whatever came of it.
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
    fn open(&self, context: &Context<'_>, node: NodeId, flags: u32) -> Result<Opened, Errno> {
        let _ = (context, node);
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

    /// As [`Self::write`] of the first so many bytes of some buffers, taken one after the other.
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

    /// Changes flags and project. The kernel has checked who may.
    fn set_file_flags(
        &self,
        context: &Context<'_>,
        node: NodeId,
        flags: &FileFlags,
    ) -> Result<(), Errno> {
        let _ = (context, node, flags);
        Err(Errno::ROFS)
    }

    /// What tells successive files apart that reuse one inode number; `ENOTTY` where nothing does.
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

    /// Ends a call that changed something; returns when that survives a power cut, if the caller
    /// wants that or the file system itself.
    fn sync_if_due(&self, is_wanted: bool) -> Result<(), Errno> {
        let _ = is_wanted;
        Ok(())
    }

    /// Returns when all changes of a file or directory made so far survive a power cut.
    fn fsync(&self, context: &Context<'_>, node: NodeId) -> Result<(), Errno> {
        let _ = (context, node);
        Ok(())
    }

    /// The mount has ended; no further call follows.
    fn destroy(&self) {}
}
