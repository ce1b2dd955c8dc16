//! Entity tags: the names of a file's contents.
//!
//! A tag is a digest of the block pointers in the file's dnode and the size. The pointers have the
//! addresses, births and checksums of the blocks below them ([`ContentRoot`]). So files with the
//! same tag have the same bytes, regardless of their snapshot and name: a client that got half of a
//! file from one snapshot gets the rest from the next, unless the file changed.
//!
//! Changes that are not on disk yet have no pointers. A file with such changes gets a tag that is
//! never used twice, so no client takes it for a version that it already has.
//!
//! A file of a head may change while it is sent. So a lookup returns a [`State`]: in addition to
//! the tag it has the number of changes so far. Each read checks with it whether the bytes are
//! still the same ([`Object::is_unchanged_since`](cenote_dmu::Object::is_unchanged_since)).

use cenote_base::ObjectId;
use cenote_dmu::ContentRoot;
use cenote_posix::{FileSystem, Znode};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hexadecimal digits of a tag: 128 bits.
const BYTES: usize = 16;

fn tag_of(purpose: &[u8], words: impl Iterator<Item = u64>) -> Arc<str> {
    let mut digest = Sha256::new();
    digest.update(purpose);
    words.for_each(|word| digest.update(word.to_le_bytes()));
    let mut text = String::with_capacity(2 * BYTES);
    for byte in digest.finalize().iter().take(BYTES) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

/// Makes the tags of one tree.
#[derive(Debug)]
pub(crate) struct Tags {
    /// A random number that no other tree has.
    salt: u64,
    given: AtomicU64,
}

impl Tags {
    pub fn new(salt: u64) -> Self {
        Self {
            salt,
            given: AtomicU64::new(0),
        }
    }

    /// The tag of a state that is on disk.
    fn of_root(root: &ContentRoot, size: u64) -> Arc<str> {
        tag_of(b"root", root.words().iter().copied().chain([size]))
    }

    /// The tag of an object in a tree that cannot change while it is open.
    pub fn lasting(&self, file: &Znode) -> Arc<str> {
        let root = file.object().and_then(|object| object.content_root());
        let size = file.attributes().size;
        match root {
            Some(root) => Self::of_root(&root, size),
            // A log was replayed in memory.
            None => self.of_object(file.id(), size),
        }
    }

    fn of_object(&self, id: ObjectId, size: u64) -> Arc<str> {
        tag_of(b"object", [self.salt, id.0, size].into_iter())
    }

    /// A tag that nothing else has.
    pub fn fresh(&self) -> Arc<str> {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        tag_of(b"fresh", [self.salt, number].into_iter())
    }

    /// The state of a file that may change at any time; `None` if it changed during this call. With
    /// `is_patient` also `None` while a change of it is under way.
    pub fn state(&self, files: &FileSystem, file: &Znode, is_patient: bool) -> Option<State> {
        let root_of = |file: &Znode| file.object()?.content_root();
        let changes = changes_of(file);
        let before = root_of(file);
        if is_patient && files.is_changing(file.id()) {
            return None;
        }
        // The size is valid only if the contents were the same before and after it was read.
        let now = files.znode(file.id()).ok()?;
        let is_same = now.attributes().generation == file.attributes().generation
            && now.attributes().size == file.attributes().size
            && changes_of(&now) == changes;
        let after = root_of(&now);
        // Otherwise it was written to disk meanwhile: the next call finds its tag.
        let root = before.filter(|before| after.as_ref() == Some(before));
        is_same.then(|| State {
            tag: root.map(|root| Self::of_root(&root, file.attributes().size)),
            changes,
        })
    }
}

/// A file of a head at one moment.
#[derive(Debug)]
pub(crate) struct State {
    /// Its tag, if all of it is on disk.
    pub tag: Option<Arc<str>>,
    /// How often its contents had changed.
    pub changes: u64,
}

fn changes_of(file: &Znode) -> u64 {
    file.object().map_or(0, |object| object.changes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn fresh_tags_differ_from_all_others() {
        let (tags, other) = (Tags::new(1), Tags::new(2));
        let fresh = (0..100).flat_map(|_| [tags.fresh(), other.fresh()]);
        let objects = (0..100).map(|id| tags.of_object(ObjectId(id), 0));
        let all: HashSet<Arc<str>> = fresh.chain(objects).collect();
        assert_eq!(all.len(), 300);
        assert!(all.iter().all(|tag| tag.len() == 32));
        assert_eq!(
            tags.of_object(ObjectId(1), 2),
            tags.of_object(ObjectId(1), 2)
        );
    }
}
