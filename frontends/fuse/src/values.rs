//! What a file system and the kernel say to each other: nodes, their attributes, and answers.

use std::time::Duration;

pub use rustix::io::Errno;

/// A file's identity between kernel and file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory's fixed number.
    pub const ROOT: NodeId = NodeId(1);
}

/// `O_ACCMODE`; the value 0 in these bits is `O_RDONLY`.
pub(crate) const OPEN_ACCESS_MASK: u32 = 3;

/// An open file's or directory's identity, chosen by [`FileSystem::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Handle(pub u64);

/// How long the kernel may answer from its own cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime(Duration);

impl Lifetime {
    /// Until invalidated. 2^31 seconds (68 years) stays clear of the kernel's jiffies limits.
    pub const FOREVER: Lifetime = Lifetime(Duration::from_secs(1 << 31));
    /// Ask again every time.
    pub const NONE: Lifetime = Lifetime(Duration::ZERO);

    /// At most `duration`.
    pub const fn bounded(duration: Duration) -> Self {
        Lifetime(duration)
    }

    /// The duration sent to the kernel.
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
    /// It does not, and the kernel may cache that for this time.
    Absent(Lifetime),
}

/// Which cache holds a file's data.
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
    /// Which cache holds the data.
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
    /// `st_mode` as requested; type bits count in `mknod` only.
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
    /// Let the kernel enforce `system.posix_acl_access`, which it then requests for each inode.
    pub posix_acl: bool,
    /// Whether [`FileSystem::opendir`] is wanted. Without it the kernel opens directories itself
    /// and keeps listings cached until invalidated: two round trips fewer per directory.
    pub directory_handles: bool,
    /// Whether lookups of `.` and `..` work, which exporting over NFS needs.
    pub lookup_dots: bool,
    /// Whether changing operations are passed on; otherwise they are refused with `EROFS`.
    pub writable: bool,
}
