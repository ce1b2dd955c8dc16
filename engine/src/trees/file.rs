//! A file that a client reads.

use super::error::TreeFault;
use super::names::Node;
use super::tree::FileTree;
use cenote_posix::{FileKind, IoContext, PosixError, Segment};
use cenote_vdev::Patience;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

/// Larger files are read by threads that may wait, also where memory has them: that is where
/// readers that go forward are noticed, so that their next blocks are read ahead.
const AT_HAND_SIZE_MAX: u64 = 4 << 20;

/// An open file. It keeps nothing from going away.
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

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// When its content last changed.
    pub fn modified(&self) -> SystemTime {
        self.modified
    }

    /// Differs whenever the bytes do.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    fn parts(&self) -> Option<(Arc<FileTree>, Arc<Node>)> {
        Some((self.tree.upgrade()?, self.node.upgrade()?))
    }

    /// The bytes from `offset` on that memory has without a gap.
    pub fn at_hand(&self, offset: u64, length: usize) -> Vec<Segment> {
        let Some((tree, node)) = self.parts().filter(|_| self.size <= AT_HAND_SIZE_MAX) else {
            return Vec::new();
        };
        let Some(file) = node.znode() else {
            return Vec::new();
        };
        let segments = tree.files.segments_at_hand(file, offset, length);
        // Of a file that changed meanwhile nobody can say whose bytes these are.
        if !tree.is_lasting() && !node.holds(&tree.files) {
            return Vec::new();
        }
        tree.counts.add_cached(bytes(&segments));
        segments
    }

    /// The bytes from `offset` on; fewer at the end of the file. May wait. With `passes` they do
    /// not stay in memory, unless several clients want the file.
    ///
    /// # Errors
    /// If they cannot be read, or the tree was taken away.
    pub fn read(
        &self,
        offset: u64,
        length: usize,
        passes: bool,
    ) -> Result<Vec<Segment>, TreeFault> {
        let (tree, node) = self.parts().ok_or_else(no_longer)?;
        // Who waits until the tree's files are closed waits for this one.
        tree.check_devices()?;
        let file = node.znode().ok_or_else(no_longer)?;
        let left = self.size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        let Some(object) = file.object().filter(|_| length > 0) else {
            return Ok(Vec::new());
        };
        let object = object.for_io(&IoContext::USER.with_patience(Patience::Never));
        let object = match passes && self.passes {
            true => object.in_passing(),
            false => object,
        };
        let read = object.segments(offset, length).map_err(PosixError::from);
        let mut segments = match (read, tree.is_lasting()) {
            (Ok(segments), true) => segments,
            (Err(error), true) => return Err(tree.fault(&error)),
            // What was read of a file that was removed is nobody's.
            (read, false) => {
                let size = still_there(&tree, &node)?;
                let mut segments = read.map_err(|error| tree.fault(&error))?;
                cut(&mut segments, size.saturating_sub(offset));
                segments
            }
        };
        segments.retain(|segment| segment.length > 0);
        tree.counts.add_read(bytes(&segments));
        Ok(segments)
    }
}

fn no_longer() -> TreeFault {
    TreeFault::Unavailable("it is no longer served".to_owned())
}

fn bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.length as u64).sum()
}

/// The size of a file of a head now, if it is still the same file.
fn still_there(tree: &FileTree, node: &Node) -> Result<u64, TreeFault> {
    let before = node.znode().ok_or_else(no_longer)?;
    let removed = || TreeFault::Storage("the file was removed while it was read".to_owned());
    let now = match tree.files.znode(before.id()) {
        Ok(now) => now,
        Err(PosixError::NoSuchZnode { .. }) => return Err(removed()),
        Err(error) => return Err(tree.fault(&error)),
    };
    let is_same = now.kind() == FileKind::Regular
        && now.attributes().generation == before.attributes().generation;
    match is_same {
        true => Ok(now.attributes().size),
        false => Err(removed()),
    }
}

/// Leaves so many bytes of the segments.
fn cut(segments: &mut [Segment], mut left: u64) {
    for segment in segments {
        let length = usize::try_from(left).unwrap_or(usize::MAX);
        segment.length = segment.length.min(length);
        left -= segment.length as u64;
    }
}

impl Drop for TreeFile {
    fn drop(&mut self) {
        if let Some(tree) = self.tree.upgrade() {
            tree.handles.remove(self.number);
        }
    }
}
