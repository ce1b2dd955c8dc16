//! Finding what paths name in a tree, and listing its directories.

use super::file::TreeFile;
use super::names::{Named, Names, Node};
use super::time::system_time;
use super::tree::FileTree;
use super::walk::{ENTER, READ, Stopped, Way, allows, walk};
use cenote_base::rt;
use cenote_http::{Entry, EntryKind, Found, Resolved, TreeError};
use cenote_posix::{FileKind, Znode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// Entries of a listing whose attributes are read at once.
const BATCH: usize = 512;
/// How often a lookup is tried while the file is being written, and the pause in between: at most
/// a second in all.
const LOOKS: u32 = 200;
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

fn kind_of(kind: FileKind) -> EntryKind {
    match kind {
        FileKind::Directory => EntryKind::Directory,
        FileKind::Regular => EntryKind::File,
        FileKind::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

impl FileTree {
    /// What a path names, if the cache has a valid answer. Does not wait.
    pub fn find_cached(self: &Arc<Self>, path: &[Vec<u8>]) -> Option<Resolved> {
        let node = self.names.get(&Names::key(path))?;
        if self.is_closing.load(Ordering::Acquire) || !self.is_lasting() && !node.holds(&self.files)
        {
            return None;
        }
        let is_unsettled = matches!(node.named, Named::File(None));
        (!is_unsettled).then(|| self.found(node))
    }

    /// What a path names. May wait for devices.
    pub fn find(self: &Arc<Self>, path: &[Vec<u8>]) -> Resolved {
        match self.find_node(path) {
            Ok(node) => self.found(node),
            Err(error) => Resolved::directly(Err(error)),
        }
    }

    fn find_node(&self, path: &[Vec<u8>]) -> Result<Arc<Node>, TreeError> {
        for look in 1..=LOOKS {
            self.check()?;
            // A busy writer may leave no gap. So the last try does not wait for the end of a write,
            // and may see half of one.
            if let Some(node) = self.look(path, look < LOOKS)? {
                let node = Arc::new(node);
                self.names.insert(Names::key(path), &node);
                return Ok(node);
            }
            rt::sleep(LOOK_INTERVAL);
        }
        let name = &self.name;
        Err(TreeError::Unavailable(format!(
            "a file of {name} is being written all the time"
        )))
    }

    /// What a path names; `None` if it is a file that is being changed.
    fn look(&self, path: &[Vec<u8>], is_patient: bool) -> Result<Option<Node>, TreeError> {
        let mut way = Way::default();
        let walked = walk(&self.files, path, &mut way);
        let Way {
            znodes: mut way,
            linked,
        } = way;
        let named = match walked {
            Ok(()) => self.named(way.last().expect("it has the root"), is_patient),
            Err(Stopped::Fault(fault)) => Some((Named::Not(fault), 0)),
            Err(Stopped::Posix(error)) => return Err(self.fault(&error)),
        };
        let modified = way
            .last()
            .map(|znode| system_time(znode.attributes().modified));
        let modified = modified.unwrap_or(SystemTime::UNIX_EPOCH);
        if self.is_lasting() {
            // The objects on the way are not checked again.
            way.drain(..way.len().saturating_sub(1));
        }
        Ok(named.map(|named| Node::new((way, linked), named, modified)))
    }

    /// What an object is to clients, and how often its contents had changed; `None` if it is being
    /// changed.
    fn named(&self, znode: &Znode, is_patient: bool) -> Option<(Named, u64)> {
        let named = match znode.kind() {
            FileKind::Directory => Named::Directory,
            FileKind::Regular if !allows(znode, READ) => Named::Not(TreeError::Forbidden),
            FileKind::Regular if self.is_lasting() => Named::File(Some(self.tags.lasting(znode))),
            FileKind::Regular => {
                let state = self.tags.state(&self.files, znode, is_patient)?;
                return Some((Named::File(state.tag), state.changes));
            }
            _ => Named::Not(TreeError::NotFound),
        };
        Some((named, 0))
    }

    fn found(self: &Arc<Self>, node: Arc<Node>) -> Resolved {
        node.note();
        let linked = Arc::clone(&node.linked);
        let found = match &node.named {
            Named::Not(fault) => Err(fault.clone()),
            Named::Directory => Ok(Found::Directory {
                modified: node.modified,
            }),
            Named::File(tag) => {
                let tag = tag.clone().unwrap_or_else(|| self.tags.fresh());
                Ok(Found::File(Arc::new(TreeFile::open(self, node, tag))))
            }
        };
        Resolved { found, linked }
    }

    /// Calls `each` with the entries of a directory until it returns false.
    pub fn list(
        &self,
        path: &[Vec<u8>],
        each: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), TreeError> {
        self.check()?;
        let mut way = Way::default();
        walk(&self.files, path, &mut way).map_err(|stopped| match stopped {
            Stopped::Fault(fault) => fault,
            Stopped::Posix(error) => self.fault(&error),
        })?;
        let directory = way.znodes.pop().expect("it has the root");
        if directory.kind() != FileKind::Directory {
            return Err(TreeError::NotFound);
        }
        if !allows(&directory, READ | ENTER) {
            return Err(TreeError::Forbidden);
        }
        let mut cookie = 0;
        loop {
            self.check()?;
            let batch = self.files.read_directory_plus(&directory, cookie, BATCH);
            let batch = batch.map_err(|error| self.fault(&error))?;
            let is_last = batch.len() < BATCH;
            for (entry, stat) in batch {
                cookie = entry.cookie;
                if entry.is_dots() || !entry.has_usable_name() {
                    continue;
                }
                // It was removed meanwhile, or cannot be read. A request for it reports the error.
                let Ok(stat) = stat else { continue };
                let entry = Entry {
                    name: entry.name,
                    kind: kind_of(stat.kind),
                    size: if stat.kind == FileKind::Regular {
                        stat.size
                    } else {
                        0
                    },
                    modified: system_time(stat.modified),
                };
                if !each(entry) {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }
}
