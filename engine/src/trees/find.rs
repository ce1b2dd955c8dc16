//! Finding what paths name in a tree, and listing its directories.

use super::error::{TreeEntry, TreeFault, system_time};
use super::file::TreeFile;
use super::names::{Named, Names, Node};
use super::tree::FileTree;
use super::walk::{ENTER, READ, Stopped, allows, walk};
use cenote_posix::{FileKind, Znode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Entries of a listing whose attributes are read at once.
const BATCH: usize = 512;

/// What a path names.
#[derive(Debug)]
pub enum TreeFound {
    /// A file.
    File(TreeFile),
    /// A directory.
    Directory {
        /// When its content last changed.
        modified: SystemTime,
    },
}

impl FileTree {
    /// What a path names, if memory can tell.
    pub fn find_at_hand(
        self: &Arc<Self>,
        path: &[Vec<u8>],
    ) -> Option<Result<TreeFound, TreeFault>> {
        let node = self.names.get(&Names::key(path))?;
        if self.is_closing.load(Ordering::Acquire) || !self.is_lasting() && !node.holds(&self.files)
        {
            return None;
        }
        let is_unsettled = matches!(node.named, Named::File(None));
        (!is_unsettled).then(|| self.found(node))
    }

    /// What a path names.
    pub fn find(self: &Arc<Self>, path: &[Vec<u8>]) -> Result<TreeFound, TreeFault> {
        self.check()?;
        let mut way = Vec::new();
        let named = match walk(&self.files, path, &mut way) {
            Ok(()) => self.named(way.last().expect("it has the root")),
            Err(Stopped::Fault(fault)) => Named::Not(fault),
            Err(Stopped::Posix(error)) => return Err(self.fault(&error)),
        };
        let modified = way
            .last()
            .map(|znode| system_time(znode.attributes().modified));
        let modified = modified.unwrap_or(SystemTime::UNIX_EPOCH);
        if self.is_lasting() {
            // The way is not looked at again.
            way.drain(..way.len().saturating_sub(1));
        }
        let node = Arc::new(Node::new(way, named, modified));
        self.names.insert(Names::key(path), &node);
        self.found(node)
    }

    /// What an object is to clients.
    fn named(&self, znode: &Znode) -> Named {
        match znode.kind() {
            FileKind::Directory => Named::Directory,
            FileKind::Regular if !allows(znode, READ) => Named::Not(TreeFault::Forbidden),
            FileKind::Regular if self.is_lasting() => Named::File(Some(self.tags.lasting(znode))),
            FileKind::Regular => Named::File(self.tags.settled(&self.files, znode)),
            _ => Named::Not(TreeFault::NotFound),
        }
    }

    fn found(self: &Arc<Self>, node: Arc<Node>) -> Result<TreeFound, TreeFault> {
        node.note();
        match &node.named {
            Named::Not(fault) => Err(fault.clone()),
            Named::Directory => Ok(TreeFound::Directory {
                modified: node.modified,
            }),
            Named::File(tag) => {
                let tag = tag.clone().unwrap_or_else(|| self.tags.fresh());
                Ok(TreeFound::File(TreeFile::open(self, node, tag)))
            }
        }
    }

    /// Calls `each` with the entries of a directory until it returns false.
    pub fn list(
        &self,
        path: &[Vec<u8>],
        each: &mut dyn FnMut(TreeEntry) -> bool,
    ) -> Result<(), TreeFault> {
        self.check()?;
        let mut way = Vec::new();
        walk(&self.files, path, &mut way).map_err(|stopped| match stopped {
            Stopped::Fault(fault) => fault,
            Stopped::Posix(error) => self.fault(&error),
        })?;
        let directory = way.pop().expect("it has the root");
        if directory.kind() != FileKind::Directory {
            return Err(TreeFault::NotFound);
        }
        if !allows(&directory, READ | ENTER) {
            return Err(TreeFault::Forbidden);
        }
        let mut cookie = 0;
        loop {
            self.check()?;
            let batch = self.files.read_directory_plus(&directory, cookie, BATCH);
            let batch = batch.map_err(|error| self.fault(&error))?;
            let is_last = batch.len() < BATCH;
            for (entry, stat) in batch {
                cookie = entry.cookie;
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                // One that was removed meanwhile, or cannot be read: whoever asks for it is told.
                let Ok(stat) = stat else { continue };
                let entry = TreeEntry {
                    name: entry.name,
                    kind: stat.kind,
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
