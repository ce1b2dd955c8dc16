//! What is served: trees of files, and which of them answers for a request.
//!
//! Reading has two ways. [`File::read_cached`] gives what memory has, at once, and is called by
//! the thread that serves many connections; [`File::read`] may wait for a device, and is called by
//! a thread that may wait. Bytes go to the socket as they lie in the cache: an implementation hands
//! out references to its blocks ([`Bytes::from_owner`]), not copies.
//!
//! Names are bytes. They are decoded and checked before they come here: no component is empty, `.`
//! or `..`, or has a zero byte or a slash in it.

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Why a tree has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Nothing has that name, or it is nothing that can be served (a socket, a link that leads out
    /// of the tree or in circles).
    #[error("not found")]
    NotFound,
    /// It is not served to this client.
    #[error("forbidden")]
    Forbidden,
    /// It is another version than the one that was found: look for it again.
    #[error("it changed while it was read")]
    Changed,
    /// It cannot be read now: the pool waits for its devices, or a key is not loaded.
    #[error("not available: {0}")]
    Unavailable(String),
    /// It is damaged, or another error of the storage below.
    #[error("{0}")]
    Storage(String),
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link that has not been resolved yet.
    Link,
    /// A device, pipe or socket; it is listed and cannot be fetched.
    Other,
}

/// A line of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes; 0 for what is no file.
    pub size: u64,
    /// When its content last changed.
    pub modified: SystemTime,
}

/// What has a path.
pub enum Found {
    /// A regular file, ready to be read.
    File(Arc<dyn File>),
    /// A directory.
    Directory {
        /// When its content last changed.
        modified: SystemTime,
    },
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "Found::File",
            Self::Directory { .. } => "Found::Directory",
        })
    }
}

/// What a file is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It may be read again: it stays cached as long as it is hot.
    Keep,
    /// A long download: what is not in memory passes through without pushing out what is hot.
    PassThrough,
}

/// A regular file at the moment at which it was found.
///
/// A file of a live dataset may change while it is read. Then a read fails with
/// [`TreeError::Changed`]; or [`Self::entity_tag`] changes, and a read gives the new bytes, or
/// fewer than requested if it became shorter.
pub trait File: Send + Sync {
    /// Bytes.
    fn size(&self) -> u64;

    /// When its content last changed.
    fn modified(&self) -> SystemTime;

    /// The value of a strong `ETag` without its quotes: it differs whenever the bytes do.
    fn entity_tag(&self) -> String;

    /// The bytes from `offset` as far as memory has them without a gap, at most `length` of them,
    /// in pieces. Empty if the first of them has to be read. Never waits.
    fn read_cached(&self, offset: u64, length: usize) -> Vec<Bytes>;

    /// The bytes from `offset`, at most `length`; fewer at the end of the file. May wait, and reads
    /// ahead as the device below likes it.
    ///
    /// # Errors
    /// [`TreeError::Storage`] or [`TreeError::Unavailable`].
    fn read(&self, offset: u64, length: usize, purpose: Purpose) -> Result<Vec<Bytes>, TreeError>;
}

/// What a path names, and how one gets there.
pub struct Resolved {
    /// What it names.
    pub found: Result<Found, TreeError>,
    /// The names that symbolic links lead over, also if they lead to nothing that is served.
    pub linked: Arc<[Vec<u8>]>,
}

impl Resolved {
    /// What a path names without symbolic links.
    pub fn directly(found: Result<Found, TreeError>) -> Self {
        Self {
            found,
            linked: Arc::default(),
        }
    }
}

/// Files and directories.
pub trait Tree: Send + Sync {
    /// What a path of components names, if it is in memory; `None` means: call [`Self::find`].
    fn find_cached(&self, path: &[Vec<u8>]) -> Option<Resolved> {
        let _ = path;
        None
    }

    /// What a path of components names; none of them: the root. Symbolic links are followed as far
    /// as they stay in the tree. May wait.
    fn find(&self, path: &[Vec<u8>]) -> Resolved;

    /// Calls `each` with the entries of a directory, in any order, until it returns false.
    /// May wait.
    ///
    /// # Errors
    /// [`TreeError::NotFound`] if it is none.
    fn list(&self, path: &[Vec<u8>], each: &mut dyn FnMut(Entry) -> bool) -> Result<(), TreeError>;
}

/// A tree under the path at which a site has it.
#[derive(Clone)]
pub struct Site {
    /// What answers.
    pub tree: Arc<dyn Tree>,
    /// How many components of the request's path lead to its root.
    pub prefix: usize,
    /// What is served, for logs and the status: `tank/mirror@2026-11-27`.
    pub name: Arc<str>,
}

/// Which tree answers for a request.
pub trait Sites: Send + Sync {
    /// The tree for a host (lower case, without a port; empty if the client named none) and a path,
    /// or `None`. Called for each request; must not wait.
    fn site(&self, host: &str, path: &[Vec<u8>]) -> Option<Site>;
}

/// No trees: for a server that has pages only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSites;

impl Sites for NoSites {
    fn site(&self, _host: &str, _path: &[Vec<u8>]) -> Option<Site> {
        None
    }
}

/// The same tree for every host and path.
#[derive(Clone)]
pub struct OneTree(pub Arc<dyn Tree>);

impl Sites for OneTree {
    fn site(&self, _host: &str, _path: &[Vec<u8>]) -> Option<Site> {
        Some(Site {
            tree: Arc::clone(&self.0),
            prefix: 0,
            name: "tree".into(),
        })
    }
}
