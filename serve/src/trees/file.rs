//! A file that a client reads.

use super::lent::pieces;
use super::names::Node;
use super::tree::FileTree;
use bytes::Bytes;
use cenote_http::{File, Purpose, TreeError};
use cenote_posix::{IoContext, PosixError, Segment, Znode};
use cenote_vdev::Patience;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

/// Larger files are read by threads that may wait, even if memory has their blocks. Those threads
/// detect sequential reads and read ahead.
const AT_HAND_SIZE_MAX: u64 = 4 << 20;

/// An open file. It does not keep its tree open.
///
/// *Invariant: all reads return bytes of one version*, the one that the tag stands for. After a
/// change of a head's file before its old end, reads fail with [`TreeError::Changed`].
#[derive(Debug)]
pub struct TreeFile {
    tree: Weak<FileTree>,
    node: Weak<Node>,
    number: u64,
    size: u64,
    modified: SystemTime,
    tag: Arc<str>,
    passes: bool,
}

impl TreeFile {
    pub(super) fn open(tree: &Arc<FileTree>, node: Arc<Node>, tag: Arc<str>) -> Self {
        let (size, modified) = (
            node.znode().map_or(0, |file| file.attributes().size),
            node.modified,
        );
        Self {
            tree: Arc::downgrade(tree),
            node: Arc::downgrade(&node),
            size,
            modified,
            tag,
            passes: !node.is_wanted_by_several(),
            number: tree.handles.add(node),
        }
    }

    fn parts(&self) -> Option<(Arc<FileTree>, Arc<Node>)> {
        Some((self.tree.upgrade()?, self.node.upgrade()?))
    }

    /// Whether the contents are still the version that was opened.
    fn is_as_it_was(&self, tree: &FileTree, node: &Node, file: &Znode) -> bool {
        let object = file.object();
        tree.is_lasting()
            || object.is_none_or(|object| object.is_unchanged_since(node.changes, self.size))
    }
}

impl File for TreeFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn modified(&self) -> SystemTime {
        self.modified
    }

    fn entity_tag(&self) -> String {
        self.tag.as_ref().to_owned()
    }

    fn read_cached(&self, offset: u64, length: usize) -> Vec<Bytes> {
        let Some((tree, node)) = self.parts().filter(|_| self.size <= AT_HAND_SIZE_MAX) else {
            return Vec::new();
        };
        let Some(file) = node.znode() else {
            return Vec::new();
        };
        let segments = tree.files.segments_at_hand(file, offset, length);
        if !self.is_as_it_was(&tree, &node, file) {
            // The read that may wait reports the change.
            return Vec::new();
        }
        tree.counts.add(bytes(&segments));
        pieces(segments)
    }

    /// Blocks that only pass through stay in memory anyway if several clients want the file.
    fn read(&self, offset: u64, length: usize, purpose: Purpose) -> Result<Vec<Bytes>, TreeError> {
        let (tree, node) = self.parts().ok_or_else(no_longer)?;
        // Not `check`: a tree that is being closed waits for its open files, which stay readable.
        tree.check_devices()?;
        let file = node.znode().ok_or_else(no_longer)?;
        let left = self.size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        let Some(object) = file.object().filter(|_| length > 0) else {
            return Ok(Vec::new());
        };
        let object = object.for_io(&IoContext::USER.with_patience(Patience::Never));
        let object = object.for_reader(&tree.counts.from_devices);
        let object = match purpose == Purpose::PassThrough && self.passes {
            true => object.in_passing(),
            false => object,
        };
        let read = object.segments(offset, length).map_err(PosixError::from);
        if !self.is_as_it_was(&tree, &node, file) {
            return Err(TreeError::Changed);
        }
        let segments = read.map_err(|error| tree.fault(&error))?;
        tree.counts.add(bytes(&segments));
        Ok(pieces(segments))
    }
}

fn no_longer() -> TreeError {
    TreeError::Unavailable("it is no longer served".to_owned())
}

fn bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.length as u64).sum()
}

impl Drop for TreeFile {
    fn drop(&mut self) {
        if let Some(tree) = self.tree.upgrade() {
            tree.handles.remove(self.number);
        }
    }
}
