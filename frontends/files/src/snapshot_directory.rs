//! `.zfs/snapshot`: listing, creating, destroying and renaming snapshots.
//!
//! The kernel locks the directory while it waits for the reply, and updates its cache of the names
//! itself. So nothing is invalidated here: that would wait for the lock of the directory.

use super::DatasetFiles;
use super::control;
use super::name_changer::NameChange;
use super::node::Node;
use cenote_fuse::{DirectoryReply, Entry, Errno, Lookup, NodeId};

/// `RENAME_NOREPLACE` of `linux/fs.h`.
const NO_REPLACE: u32 = 1 << 0;

impl DatasetFiles {
    /// Lists `.zfs` or `.zfs/snapshot`.
    pub(super) fn list_control(
        &self,
        node: Node,
        cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno> {
        let parent = if node == Node::Control {
            self.root().0
        } else {
            control::CONTROL_INO
        };
        let mut names = vec![
            (b".".to_vec(), control::ino(node)),
            (b"..".to_vec(), parent),
        ];
        match node {
            Node::Control => names.push((b"snapshot".to_vec(), control::SNAPSHOTS_INO)),
            _ => {
                // The kernel refuses a whole listing with such a name.
                let mut snapshots = self.trees.snapshots()?;
                snapshots.retain(|(name, _)| {
                    !matches!(&name[..], b"." | b"..") && !name.contains(&b'/')
                });
                names.extend(snapshots);
            }
        }
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
        for ((name, ino), next) in names.into_iter().zip(1_u64..).skip(skip) {
            if !reply.add_name(&name, ino, cenote_fuse::FileKind::Directory, next) {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn is_snapshots(&self, node: NodeId) -> bool {
        self.node(node) == Node::Snapshots
    }

    fn change_name(&self, user: u32, change: NameChange<'_>) -> Result<(), Errno> {
        if self.refuses_changes() {
            return Err(Errno::ROFS);
        }
        (self.name_changer)(user, change)?;
        self.trees.forget_gone().map(drop)
    }

    /// `mkdir` in `.zfs/snapshot`.
    pub(super) fn make_snapshot(&self, user: u32, name: &[u8]) -> Result<Entry, Errno> {
        self.change_name(user, NameChange::Make(name))?;
        match self.lookup_snapshot(name)? {
            Lookup::Found(entry) => Ok(entry),
            // It was destroyed in between.
            Lookup::Absent(_) => Err(Errno::NOENT),
        }
    }

    /// `rmdir` there.
    pub(super) fn destroy_snapshot(&self, user: u32, name: &[u8]) -> Result<(), Errno> {
        self.change_name(user, NameChange::Destroy(name))
    }

    /// `rename` from or to there.
    pub(super) fn rename_snapshot(
        &self,
        user: u32,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        flags: u32,
    ) -> Result<(), Errno> {
        if from.0 != to.0 || flags & !NO_REPLACE != 0 {
            return Err(Errno::INVAL);
        }
        let (from, to) = (from.1, to.1);
        self.change_name(user, NameChange::Rename { from, to })
    }
}
