//! From the file system's terms to the mount's.

use cenote_fuse::{Attr, DeviceNumber, FileKind, FileSystemStatus, Timestamp};
use cenote_posix::{FileSystemStat, Stat};

pub(super) fn kind_of(kind: cenote_posix::FileKind) -> FileKind {
    use cenote_posix::FileKind as Stored;
    match kind {
        Stored::Regular => FileKind::Regular,
        Stored::Directory => FileKind::Directory,
        Stored::Symlink => FileKind::Symlink,
        Stored::CharDevice => FileKind::CharDevice,
        Stored::BlockDevice => FileKind::BlockDevice,
        Stored::Fifo => FileKind::Fifo,
        Stored::Socket => FileKind::Socket,
    }
}

fn timestamp(time: cenote_posix::Timestamp) -> Timestamp {
    Timestamp::new(time.seconds, time.nanoseconds)
}

/// The largest file that the kernel can show.
const SIZE_MAX: u64 = i64::MAX as u64;

pub(super) fn attr_of(stat: &Stat) -> Attr {
    Attr {
        ino: stat.object.0,
        kind: kind_of(stat.kind),
        mode: stat.mode & 0o7777,
        uid: stat.uid.posix_id(),
        gid: stat.gid.posix_id(),
        nlink: u32::try_from(stat.links).unwrap_or(u32::MAX),
        size: stat.size.min(SIZE_MAX),
        blocks: stat.blocks,
        block_size: u32::try_from(stat.block_size).unwrap_or(u32::MAX),
        device: DeviceNumber {
            major: stat.device.major,
            minor: stat.device.minor,
        },
        accessed: timestamp(stat.accessed),
        modified: timestamp(stat.modified),
        changed: timestamp(stat.changed),
        born: Some(timestamp(stat.created)),
    }
}

pub(super) fn status_of(stat: &FileSystemStat) -> FileSystemStatus {
    let block_size = u32::try_from(stat.block_size).unwrap_or(u32::MAX);
    FileSystemStatus {
        blocks: stat.blocks,
        blocks_free: stat.blocks_free,
        blocks_available: stat.blocks_free,
        files: stat.files,
        files_free: stat.files_free,
        block_size,
        fragment_size: block_size,
        name_length_max: stat.name_length_max,
    }
}
