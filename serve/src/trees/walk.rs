//! From a path to what it names.
//!
//! The walk is that of `posix::path` with two differences: a link that leads out of the tree names
//! nothing, and directories that others may not enter lead nowhere.

use cenote_http::TreeError;
use cenote_posix::{FileKind, FileSystem, LINKS_MAX, PosixError, Znode};
use std::collections::VecDeque;
use std::sync::Arc;

/// Components that one path may take, links included.
const COMPONENTS_MAX: usize = 4096;

/// The mode's bits for others.
pub(crate) const READ: u16 = 0o4;
pub(crate) const ENTER: u16 = 0o1;

/// Whether others may do that.
pub(crate) fn allows(znode: &Znode, bits: u16) -> bool {
    znode.attributes().permissions() & bits == bits
}

/// Why a walk ends without an object.
pub(crate) enum Stopped {
    /// The path names nothing that is served.
    Fault(TreeError),
    /// The file system cannot be read.
    Posix(PosixError),
}

impl From<PosixError> for Stopped {
    fn from(error: PosixError) -> Self {
        match error {
            // Removed while the walk went there.
            PosixError::NotFound { .. }
            | PosixError::NoSuchZnode { .. }
            | PosixError::NameTooLong { .. } => Self::Fault(TreeError::NotFound),
            error => Self::Posix(error),
        }
    }
}

/// The components of a link's target.
fn components(target: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    let parts = target.split(|byte| *byte == b'/');
    let parts = parts.filter(|part| !part.is_empty() && *part != b".");
    parts.map(<[u8]>::to_vec)
}

/// The objects on the way of a walk.
#[derive(Default)]
pub(crate) struct Way {
    /// From the root on, the object itself last.
    pub znodes: Vec<Arc<Znode>>,
    /// The names in the targets of links.
    pub linked: Vec<Vec<u8>>,
}

/// Walks from the root. Adds each object on the way to `way`, even if the walk fails.
pub(crate) fn walk(files: &FileSystem, path: &[Vec<u8>], way: &mut Way) -> Result<(), Stopped> {
    let not_found = || Stopped::Fault(TreeError::NotFound);
    let mut pending: VecDeque<Vec<u8>> = path.iter().cloned().collect();
    let mut current = files.znode(files.root())?;
    let mut above: Vec<Arc<Znode>> = Vec::new();
    let mut links = 0;
    way.znodes.push(Arc::clone(&current));
    for _ in 0..COMPONENTS_MAX {
        let Some(name) = pending.pop_front() else {
            // A link to a directory above ends at what the way has somewhere else.
            if (way.znodes.last()).is_none_or(|last| last.id() != current.id()) {
                way.znodes.push(current);
            }
            return Ok(());
        };
        if current.kind() != FileKind::Directory {
            return Err(not_found());
        }
        if !allows(&current, ENTER) {
            return Err(Stopped::Fault(TreeError::Forbidden));
        }
        if name == b".." {
            current = above.pop().ok_or_else(not_found)?;
            continue;
        }
        let next = files.lookup_znode(&current, &name)?;
        way.znodes.push(Arc::clone(&next));
        if next.kind() != FileKind::Symlink {
            above.push(std::mem::replace(&mut current, next));
            continue;
        }
        links += 1;
        let target = files.read_link(&next)?;
        if links > LINKS_MAX || target.is_empty() || target.starts_with(b"/") {
            return Err(not_found());
        }
        for name in components(&target).rev() {
            pending.push_front(name);
        }
        way.linked
            .extend(components(&target).filter(|name| name != b".."));
    }
    Err(not_found())
}
