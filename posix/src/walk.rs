//! Walking a tree of directories.
//!
//! The walk keeps its own stack. It remembers each directory that it entered, and the one it came
//! from (about 16 bytes, leased from the pool's budget). So it notices a directory that is reached
//! twice, which never happens in a sound tree, and can report both paths.

use crate::directory::{DirectoryEntry, DirectoryReader};
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::path::join;
use crate::znode::Znode;
use cenote_base::{MemoryLease, ObjectId};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes that a remembered directory takes, with the slack of the table.
const ENTERED_SIZE: u64 = 48;
/// How many remembered directories are leased at once.
const LEASE_ENTRIES: usize = 4096;
/// Listings that stay open on the way down; those above are opened again when it goes back up.
const OPEN_READERS_MAX: usize = 32;
/// Directories within each other. A path as deep could not be named to any system call.
const DEPTH_MAX: usize = 1 << 16;

/// An object met on a walk.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    /// Its path from where the walk began, without a leading slash; empty for the start.
    pub path: Vec<u8>,
    /// The znode.
    pub znode: Arc<Znode>,
}

/// A directory on the way down.
#[derive(Debug)]
struct Frame {
    directory: Arc<Znode>,
    /// The listing, unless it was closed to save memory.
    reader: Option<DirectoryReader>,
    /// Where to open it again.
    cookie: u64,
    /// Bytes of the walk's path that name this directory.
    path_length: usize,
}

/// Walks a tree, directories before what is in them. See [`FileSystem::walk`].
#[derive(Debug)]
pub struct TreeWalk {
    file_system: Arc<FileSystem>,
    start: Option<Arc<Znode>>,
    stack: Vec<Frame>,
    path: Vec<u8>,
    /// Each directory entered, and from which one.
    entered: HashMap<ObjectId, ObjectId>,
    leases: Vec<MemoryLease>,
    /// A directory to enter before the next step, if the caller does not skip it.
    pending: Option<Arc<Znode>>,
}

impl FileSystem {
    /// Walks the tree below `start`, which comes first.
    ///
    /// An object or directory that cannot be read is an error in its place, as is a name that
    /// cannot be in a path; the walk continues behind it. A directory that is reached twice is
    /// [`PosixError::DirectoryTwice`] and is not entered again, so the walk ends on any input.
    pub fn walk(self: &Arc<Self>, start: ObjectId) -> Result<TreeWalk, PosixError> {
        let start = Some(self.znode(start)?);
        Ok(TreeWalk {
            file_system: Arc::clone(self),
            start,
            stack: Vec::new(),
            path: Vec::new(),
            entered: HashMap::new(),
            leases: Vec::new(),
            pending: None,
        })
    }
}

impl TreeWalk {
    /// Does not enter the directory that was returned last.
    pub fn skip_children(&mut self) {
        self.pending = None;
    }

    fn enter(&mut self, directory: Arc<Znode>) -> Result<(), PosixError> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(directory.inconsistent("directories within each other to no end"));
        }
        if self.entered.len() >= self.leases.len() * LEASE_ENTRIES {
            let memory = self.file_system.set().cache().pipeline().memory();
            self.leases
                .push(memory.lease(ENTERED_SIZE * LEASE_ENTRIES as u64)?);
        }
        let from = self
            .stack
            .last()
            .map_or(directory.id(), |frame| frame.directory.id());
        if self.entered.contains_key(&directory.id()) {
            let first = self.first_path(directory.id());
            let second = self.path.clone();
            return Err(PosixError::DirectoryTwice {
                object: directory.id(),
                first,
                second,
            });
        }
        self.entered.insert(directory.id(), from);
        if let Some(above) = self.stack.len().checked_sub(OPEN_READERS_MAX) {
            self.stack[above].reader = None;
        }
        let path_length = self.path.len();
        self.stack.push(Frame {
            directory,
            reader: None,
            cookie: 0,
            path_length,
        });
        Ok(())
    }

    /// The path under which a directory was entered first, as far as it can be found.
    fn first_path(&self, id: ObjectId) -> Vec<u8> {
        let mut names = Vec::new();
        let mut current = id;
        while let Some(from) = self.entered.get(&current).filter(|from| **from != current) {
            let parent = self.file_system.znode(*from);
            let name = parent.and_then(|parent| self.file_system.name_in(&parent, current));
            names.push(name.ok().flatten().unwrap_or_else(|| b"?".into()));
            current = *from;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// The next entry of the innermost directory; `None` when it has no more.
    fn next_in_top(&mut self) -> Option<Result<DirectoryEntry, PosixError>> {
        let frame = self.stack.last_mut()?;
        let reader = match &mut frame.reader {
            Some(reader) => reader,
            none => {
                let opened = self
                    .file_system
                    .read_directory(&frame.directory, frame.cookie);
                match opened {
                    Ok(reader) => none.insert(reader),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        let entry = reader.find(|entry| match entry {
            Ok(entry) => !entry.is_dots(),
            Err(_) => true,
        })?;
        if let Ok(entry) = &entry {
            frame.cookie = entry.cookie;
        }
        Some(entry)
    }

    fn visit(&mut self, entry: DirectoryEntry) -> Result<WalkEntry, PosixError> {
        let frame = self.stack.last().expect("an entry comes from a frame");
        self.path.truncate(frame.path_length);
        self.path = join(&self.path, &entry.name);
        let znode = self.file_system.znode(entry.target.object)?;
        if znode.kind() == FileKind::Directory {
            self.pending = Some(Arc::clone(&znode));
        }
        Ok(WalkEntry {
            path: self.path.clone(),
            znode,
        })
    }
}

impl Iterator for TreeWalk {
    type Item = Result<WalkEntry, PosixError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(znode) = self.start.take() {
            if znode.kind() == FileKind::Directory {
                self.pending = Some(Arc::clone(&znode));
            }
            return Some(Ok(WalkEntry {
                path: Vec::new(),
                znode,
            }));
        }
        if let Some(directory) = self.pending.take()
            && let Err(error) = self.enter(directory)
        {
            return Some(Err(error));
        }
        loop {
            match self.next_in_top() {
                Some(Ok(entry)) if !entry.has_usable_name() => {
                    let name = entry.name;
                    return Some(Err(PosixError::InvalidName { name }));
                }
                Some(Ok(entry)) => return Some(self.visit(entry)),
                Some(Err(error)) => {
                    // The listing is broken from here on: leave the directory.
                    self.stack.pop();
                    return Some(Err(error));
                }
                None => {
                    self.stack.pop()?;
                }
            }
        }
    }
}
