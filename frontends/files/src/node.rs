//! Node ids of a mounted dataset.
//!
//! ```text
//! 1                      the root directory, whatever its object number is
//! 2 .. 2^48              the head's objects (object 1 is the master node, never a file)
//! n << 48 | object       objects of the n-th snapshot that was looked into, n from 1
//! 2^62, 2^62 + 1         .zfs and .zfs/snapshot
//! ```

use cenote_base::ObjectId;
use cenote_fuse::NodeId;

const OBJECT_BITS: u32 = 48;
const OBJECT_MASK: u64 = (1 << OBJECT_BITS) - 1;
const CONTROL: u64 = 1 << 62;

/// Snapshots that one mount can look into; their numbers must stay below the control nodes'.
pub(super) const SNAPSHOTS_MAX: usize = (1 << (62 - OBJECT_BITS)) - 1;

/// What a node id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// An object of the head (tree 0) or of a snapshot (tree n).
    Object { tree: usize, object: ObjectId },
    /// `.zfs`.
    Control,
    /// `.zfs/snapshot`.
    Snapshots,
}

impl Node {
    /// Decodes a node id; `root` is the head's root directory.
    pub(super) fn decode(id: NodeId, root: ObjectId) -> Self {
        match id.0 {
            1 => Self::Object {
                tree: 0,
                object: root,
            },
            CONTROL => Self::Control,
            id if id == CONTROL + 1 => Self::Snapshots,
            id => Self::Object {
                tree: (id >> OBJECT_BITS) as usize,
                object: ObjectId(id & OBJECT_MASK),
            },
        }
    }

    /// The node's id; `root` is the head's root directory.
    pub(super) fn encode(self, root: ObjectId) -> NodeId {
        NodeId(match self {
            Self::Object { tree: 0, object } if object == root => 1,
            Self::Object { tree, object } => {
                assert!(tree <= SNAPSHOTS_MAX && object.0 <= OBJECT_MASK);
                (tree as u64) << OBJECT_BITS | object.0
            }
            Self::Control => CONTROL,
            Self::Snapshots => CONTROL + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_inverse() {
        let root = ObjectId(34);
        let object = |tree, object| Node::Object {
            tree,
            object: ObjectId(object),
        };
        let last = object(SNAPSHOTS_MAX, OBJECT_MASK);
        for node in [
            object(0, 34),
            object(0, 2),
            object(1, 34),
            last,
            Node::Control,
        ] {
            assert_eq!(Node::decode(node.encode(root), root), node);
        }
        assert_eq!(object(0, 34).encode(root), NodeId::ROOT);
        assert!(last.encode(root).0 < CONTROL);
    }
}
