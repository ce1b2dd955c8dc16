//! Paths: from a path to a znode, and from an object back to a path.
//!
//! Paths are relative to the dataset's root; a leading slash changes nothing. The way back goes
//! by the parent that each znode names and by a search for the object among that directory's
//! entries (format/3b 2, 14): hard-linked files have one of their paths, objects that wait in the
//! delete queue have none.

use crate::attributes::FLAG_XATTR;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::znode::Znode;
use cenote_base::ObjectId;
use std::collections::VecDeque;
use std::sync::Arc;

/// Symbolic links that one resolution follows, as in Linux.
pub const LINKS_MAX: usize = 40;
/// Components that one resolution may take, links included. Linux's longest path has 2048.
const COMPONENTS_MAX: usize = 1 << 16;
/// Directories above an object when its path is sought. Nothing deeper can be named by one path.
const DEPTH_MAX: usize = 1 << 14;

/// What an attribute directory, which has no name, is called in paths.
const XATTR_DIRECTORY: &[u8] = b"<xattrdir>";

/// What to do with symbolic links on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Follow all.
    Follow,
    /// Follow all but the last component, which is the link itself.
    FollowParents,
    /// Follow none: a link on the way is an error, as the last component it is the link itself.
    Refuse,
}

/// Splits a path into its components; empty ones and `.` mean nothing.
fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
    let parts = path.split(|byte| *byte == b'/');
    parts
        .filter(|part| !part.is_empty() && *part != b".")
        .map(<[u8]>::to_vec)
}

/// `directory/name`, or `name` alone in the root.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() {
        return name.to_vec();
    }
    [directory, b"/", name].concat()
}

impl FileSystem {
    /// The znode that `path` leads to from the root.
    ///
    /// `..` in the root stays there. A trailing slash requires a directory. A link with an absolute
    /// target is refused: the mountpoint is unknown here.
    pub fn resolve(&self, path: &[u8], policy: SymlinkPolicy) -> Result<Arc<Znode>, PosixError> {
        let wants_directory = path.ends_with(b"/");
        let mut pending: VecDeque<Vec<u8>> = components(path).collect();
        let mut walked: Vec<Vec<u8>> = Vec::new();
        let mut current = self.znode(self.root())?;
        let mut links = 0;
        for _ in 0..COMPONENTS_MAX {
            let Some(name) = pending.pop_front() else {
                if wants_directory {
                    current.require_directory()?;
                }
                return Ok(current);
            };
            if name == b".." {
                walked.pop();
                current.require_directory()?;
                current = self.znode(current.attributes().parent)?;
                continue;
            }
            let next = self.lookup_znode(&current, &name)?;
            walked.push(name);
            let is_last = pending.is_empty() && !wants_directory;
            if next.kind() != FileKind::Symlink || (is_last && policy != SymlinkPolicy::Follow) {
                current = next;
                continue;
            }
            if policy == SymlinkPolicy::Refuse {
                return Err(PosixError::SymlinkRefused {
                    path: walked.join(&b'/'),
                });
            }
            links += 1;
            if links > LINKS_MAX {
                let (path, limit) = (path.to_vec(), LINKS_MAX);
                return Err(PosixError::TooManyLinks { path, limit });
            }
            let target = self.read_link(&next)?;
            if target.starts_with(b"/") {
                return Err(PosixError::LeavesDataset {
                    path: walked.join(&b'/'),
                    target,
                });
            }
            // The link's target is resolved relative to the directory that holds the link:
            // `current`.
            walked.pop();
            components(&target)
                .rev()
                .for_each(|part| pending.push_front(part));
        }
        let (length, limit) = (path.len(), COMPONENTS_MAX);
        Err(PosixError::NameTooLong { length, limit })
    }

    /// The znode that `name` in `directory` leads to.
    pub fn lookup_znode(&self, directory: &Znode, name: &[u8]) -> Result<Arc<Znode>, PosixError> {
        match self.lookup(directory, name)? {
            Some(target) => self.znode(target.object),
            None => {
                let name = name.to_vec();
                Err(PosixError::NotFound {
                    directory: directory.id(),
                    name,
                })
            }
        }
    }

    /// A path from the root to object `id`, without a leading slash; empty for the root.
    ///
    /// An attribute directory shows as `<xattrdir>` below its file, as in OpenZFS.
    /// [`PosixError::NoPath`] for objects that have no path: those in the delete queue, and
    /// those whose parents are damaged.
    pub fn path_of(&self, id: ObjectId) -> Result<Vec<u8>, PosixError> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut current = id;
        for _ in 0..DEPTH_MAX {
            if current == self.root() {
                names.reverse();
                return Ok(names.join(&b'/'));
            }
            let znode = self.znode(current)?;
            let parent = self.znode(znode.attributes().parent)?;
            let is_hidden = znode.attributes().flags & FLAG_XATTR != 0;
            let name = match is_hidden && znode.kind() == FileKind::Directory {
                true => Some(XATTR_DIRECTORY.to_vec()),
                false => self.name_in(&parent, current)?,
            };
            names.push(name.ok_or(PosixError::NoPath { object: id })?);
            current = parent.id();
        }
        Err(PosixError::NoPath { object: id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_components() {
        let parts = |path: &[u8]| components(path).collect::<Vec<_>>();
        assert_eq!(
            parts(b"/a//b/./c/"),
            [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]
        );
        assert!(parts(b"/").is_empty());
        assert_eq!(join(b"", b"a"), b"a");
        assert_eq!(join(b"a/b", b"c"), b"a/b/c");
    }
}
