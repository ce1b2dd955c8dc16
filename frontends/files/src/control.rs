//! The control directory `.zfs` (format/3b 12), and the inode numbers of what is below it.
//!
//! Programs take two files for one if device and inode number are equal: `cp` refuses to copy one
//! over the other, and `tar` stores the second as a hard link. OpenZFS mounts each snapshot below
//! `.zfs/snapshot`, so the device differs. Here it is one mount, so the inode number differs:
//!
//! ```text
//! 2 .. 2^48                         the head's objects, and the control directories
//! 1 << 62 | objset << 40 | object   objects of a snapshot; the same after each mount
//! 3 << 61 | tree << 47 | object     the same, if one of these numbers is too large
//! ```
//!
//! The third form depends on the order in which snapshots are looked into. It needs an object
//! number of 2^40 or more, or an object set of 2^21 or more.

use super::node::Node;
use cenote_base::{ObjectId, ObjsetId};
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

/// The inode number of any other object of a snapshot, which is the `tree`-th that this mount
/// opened.
pub(super) fn ino_in_snapshot(objset: ObjsetId, tree: usize, object: ObjectId) -> u64 {
    match objset.0 < 1 << 21 && object.0 < 1 << 40 {
        true => 1 << 62 | objset.0 << 40 | object.0,
        false => 3 << 61 | (tree as u64) << 47 | object.0 & ((1 << 47) - 1),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of snapshots had the numbers of today's files, and `tar` stored the contents of one
    /// state as hard links to another.
    #[test]
    fn numbers_of_different_states_never_meet() {
        let objsets = [(54, 1), (55, 2), ((1 << 21) - 1, 3), (1 << 21, 4)];
        let objects = [2, 34, (1 << 40) - 1, 1 << 40, (1 << 47) - 1];
        let mut seen: Vec<u64> = objects.to_vec();
        for (objset, tree) in objsets {
            seen.push(snapshot_ino(ObjsetId(objset)));
            for object in objects {
                seen.push(ino_in_snapshot(ObjsetId(objset), tree, ObjectId(object)));
            }
        }
        seen.extend([CONTROL_INO, SNAPSHOTS_INO]);
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
        assert!(seen.iter().all(|&ino| i64::try_from(ino).is_ok()));
    }
}
