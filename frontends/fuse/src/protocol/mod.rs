//! The FUSE wire protocol, as `linux/fuse.h` of version 7.45 states it.
//!
//! Requests and answers are C structures in the machine's own byte order, exchanged with the
//! kernel of the same machine. They are read and written field by field at fixed offsets; no
//! structure is ever laid over the bytes. Kernels from 7.31 (Linux 5.4) on are supported: fields
//! that came later are read only if the request is long enough to hold them.

mod check;
pub(crate) mod init;
pub(crate) mod modification;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod wire;

pub use check::check_request;

/// Operation codes, `enum fuse_opcode`.
pub(crate) mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    /// Every code is below this.
    pub const LIMIT: u32 = 64;
}

/// Notification codes, `enum fuse_notify_code`.
pub(crate) mod notification {
    pub const INVALIDATE_INODE: i32 = 2;
    pub const INVALIDATE_ENTRY: i32 = 3;
    pub const INCREASE_EPOCH: i32 = 8;
}

/// Answers to OPEN and OPENDIR, `FOPEN_*`.
pub(crate) mod open_flag {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}
