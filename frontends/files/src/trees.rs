//! The head and the snapshots that were looked into.
//!
//! A snapshot that is destroyed is given up: its blocks are used for something else soon. Its
//! number stays taken, so that what the kernel remembers of it leads nowhere.

use super::control;
use super::node::SNAPSHOTS_MAX;
use cenote_base::ObjsetId;
use cenote_base::rt::{RwLock, ranks};
use cenote_dsl::{Dataset, SnapshotEntry};
use cenote_fuse::{Errno, Timestamp};
use cenote_posix::{FileSystem, IoContext};
use std::sync::Arc;

#[derive(Debug)]
struct Snapshot {
    objset: ObjsetId,
    /// The name under which it was found last.
    name: Vec<u8>,
    /// `None` once it is destroyed.
    files: Option<Arc<FileSystem>>,
}

/// File systems by tree number: 0 is the head, snapshots count from 1 as they are opened.
#[derive(Debug)]
pub(super) struct Trees {
    dataset: Dataset,
    head: RwLock<Arc<FileSystem>, ranks::HeadTree>,
    snapshots: RwLock<Vec<Snapshot>, ranks::SnapshotTrees>,
}

impl Trees {
    pub(super) fn new(dataset: &Dataset, head: Arc<FileSystem>) -> Self {
        Self {
            // Programs that read snapshots or query space wait as they do for files.
            dataset: dataset.for_io(&IoContext::USER),
            head: RwLock::new(head),
            snapshots: RwLock::default(),
        }
    }

    pub(super) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    pub(super) fn head(&self) -> Arc<FileSystem> {
        Arc::clone(&self.head.read())
    }

    /// The head is another state of itself from now on; returns what it was.
    pub(super) fn exchange_head(&self, files: Arc<FileSystem>) -> Arc<FileSystem> {
        let mut head = self.head.write();
        std::mem::replace(&mut *head, files)
    }

    /// The file system of a tree number.
    pub(super) fn get(&self, tree: usize) -> Result<Arc<FileSystem>, Errno> {
        let Some(index) = tree.checked_sub(1) else {
            return Ok(self.head());
        };
        let snapshots = self.snapshots.read();
        let files = snapshots.get(index).and_then(|found| found.files.as_ref());
        files.map(Arc::clone).ok_or(Errno::STALE)
    }

    /// Gives up the snapshots that are gone, and returns the names under which they, and those
    /// that have another name now, were looked into.
    pub(super) fn forget_gone(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let listed = self.dataset.listed_snapshots().map_err(|_| Errno::IO)?;
        let mut snapshots = self.snapshots.write();
        let mut changed = Vec::new();
        for one in snapshots.iter_mut().filter(|one| one.files.is_some()) {
            let is_it = |entry: &&SnapshotEntry| ObjsetId(entry.object.0) == one.objset;
            match listed.iter().find(is_it) {
                Some(entry) if entry.name == one.name => {}
                Some(entry) => changed.push(std::mem::replace(&mut one.name, entry.name.clone())),
                None => {
                    one.files = None;
                    changed.push(std::mem::take(&mut one.name));
                }
            }
        }
        Ok(changed)
    }

    /// Names and inode numbers of all snapshots.
    pub(super) fn snapshots(&self) -> Result<Vec<(Vec<u8>, u64)>, Errno> {
        let listed = self.dataset.listed_snapshots().map_err(|_| Errno::IO)?;
        let numbered = listed.into_iter().map(|snapshot| {
            let ino = control::snapshot_ino(ObjsetId(snapshot.object.0));
            (snapshot.name, ino)
        });
        Ok(numbered.collect())
    }

    /// When the list of snapshots last changed; 1970 if it never did, or that is not noted.
    pub(super) fn snapshots_changed(&self) -> Result<Timestamp, Errno> {
        // The handle may be older than the note.
        let now = self.dataset.dsl().dataset_of(self.dataset.id());
        let changed = now.and_then(|now| now.directory().snapshots_changed());
        let (seconds, nanoseconds) = changed.map_err(|_| Errno::IO)?.unwrap_or_default();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        Ok(Timestamp::new(seconds, nanoseconds.min(999_999_999) as u32))
    }

    /// Whether what is mounted is itself a snapshot.
    pub(super) fn is_snapshot(&self) -> bool {
        self.dataset.is_snapshot()
    }

    /// The tree number of the snapshot `name`, which is opened if it was not yet.
    pub(super) fn open_snapshot(&self, name: &[u8]) -> Result<Option<usize>, Errno> {
        let Some(snapshot) = self.dataset.snapshot(name).map_err(|_| Errno::IO)? else {
            return Ok(None);
        };
        let objset = snapshot.objset_id();
        let is_it = |one: &Snapshot| one.objset == objset && one.files.is_some();
        let position = |snapshots: &[Snapshot]| snapshots.iter().position(is_it);
        if let Some(index) = position(&self.snapshots.read()) {
            return Ok(Some(index + 1));
        }
        let set = snapshot.object_set().map_err(|_| Errno::IO);
        let files = set.and_then(|set| {
            FileSystem::open(set).map_err(|error| Errno::from_raw_os_error(error.errno()))
        });
        let files = match files {
            Ok(files) => files,
            // It was destroyed meanwhile, perhaps.
            Err(error) => match self.dataset.snapshot(name).map_err(|_| Errno::IO)? {
                Some(_) => return Err(error),
                None => return Ok(None),
            },
        };
        let mut snapshots = self.snapshots.write();
        if let Some(index) = position(&snapshots) {
            return Ok(Some(index + 1));
        }
        if snapshots.len() == SNAPSHOTS_MAX {
            return Err(Errno::NFILE);
        }
        snapshots.push(Snapshot {
            objset,
            name: name.to_vec(),
            files: Some(Arc::new(files)),
        });
        Ok(Some(snapshots.len()))
    }
}
