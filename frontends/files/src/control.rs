//! The control directory `.zfs` (format/3b 12).

use super::node::Node;
use cenote_base::ObjsetId;
use cenote_fuse::{Attr, FileKind};

pub(super) const CONTROL_NAME: &[u8] = b".zfs";
/// The inode number of `.zfs`.
pub(super) const CONTROL_INO: u64 = 0xffff_ffff_ffff;
/// The inode number of `.zfs/snapshot`.
pub(super) const SNAPSHOTS_INO: u64 = 0xffff_ffff_fffd;
/// What the numbers of snapshots' root directories count down from: as seen on mounted snapshots
/// of the golden pools.
const SNAPSHOT_ROOTS_INO: u64 = 0xffff_ffff_fffc;
/// The cookie in the root's listing at which `.zfs` stands; entries of the directory follow.
pub(super) const COOKIE: u64 = 2;

/// The inode number of a snapshot's root directory.
pub(super) fn snapshot_ino(objset: ObjsetId) -> u64 {
    SNAPSHOT_ROOTS_INO.wrapping_sub(objset.0)
}

pub(super) fn ino(node: Node) -> u64 {
    if node == Node::Control {
        CONTROL_INO
    } else {
        SNAPSHOTS_INO
    }
}

/// The attributes of a control directory: those of the root, but for its number and size.
pub(super) fn attr(node: Node, root: &Attr) -> Attr {
    Attr {
        ino: ino(node),
        kind: FileKind::Directory,
        mode: 0o777,
        uid: 0,
        gid: 0,
        nlink: 2,
        size: 2,
        blocks: 0,
        block_size: 512,
        ..*root
    }
}
