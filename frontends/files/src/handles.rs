//! Files found again by their handle: `open_by_handle_at(2)`, and clients of an NFS server.
//!
//! The kernel makes a handle of a file's node id and generation. When it has forgotten the file
//! it looks up `.` in that node, and `..` in directories that it does not know the way to.

use super::DatasetFiles;
use super::node::Node;
use cenote_fuse::{Errno, Lookup};
use cenote_posix::{FileSystem, Stat};

impl DatasetFiles {
    /// The file that is `node` itself.
    pub(super) fn lookup_itself(&self, node: Node) -> Result<Lookup, Errno> {
        let Node::Object { tree, object } = node else {
            return self.control_entry(node).map(Lookup::Found);
        };
        let znode = self.znode(tree, object)?;
        // A file without a name exists only while it is open, and then the kernel has it cached.
        match znode.attributes().links {
            0 => Err(Errno::STALE),
            _ => Ok(Lookup::Found(self.entry(tree, &znode)?)),
        }
    }

    /// The directory that `node` is in.
    pub(super) fn lookup_parent(&self, node: Node) -> Result<Lookup, Errno> {
        let root = Node::Object {
            tree: 0,
            object: self.root(),
        };
        let parent = match node {
            Node::Control => root,
            Node::Snapshots => Node::Control,
            Node::Object { tree, object } => match object == self.trees.get(tree)?.root() {
                true if tree == 0 => root,
                true => Node::Snapshots,
                false => Node::Object {
                    tree,
                    object: self.znode(tree, object)?.attributes().parent,
                },
            },
        };
        self.lookup_itself(parent)
    }

    /// The generation, which distinguishes files that have the same node id one after the other.
    /// Node ids of snapshots are assigned when they are first accessed, so the snapshot is part of
    /// it.
    pub(super) fn generation_of(files: &FileSystem, tree: usize, stat: &Stat) -> u64 {
        // The kernel's handles keep 32 bits; multiples of an odd number stay apart in them.
        const SPREAD: u64 = 0x9e37_79b1;
        match tree {
            0 => stat.generation,
            _ => {
                let set = files.set().id().0;
                stat.generation.wrapping_add(set.wrapping_mul(SPREAD))
            }
        }
    }
}
