//! What changed between two states of a dataset (format/3b 14).
//!
//! Dnodes are stored in blocks of 32, and a block that was not written since the older state holds
//! no change; neither does a whole tree of such blocks. So a walk in order goes down the
//! meta-dnode's tree only where births are younger, and the objects there are compared one by one.
//! Where the newer state has a hole, another walk goes over what the older state has in its place.
//!
//! The newer state may be written to while it is compared. After each sync the walk restarts behind
//! the last block that it compared.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::time::Timestamp;
use crate::znode::Znode;
use cenote_base::{BlockId, ObjectId, Txg};
use cenote_dmu::ObjectSet;
use cenote_dmu::traverse::{Event, Ordered, Root, Since, Visit, Walk};
use cenote_ondisk::dnode::DNODE_SIZE;
use cenote_ondisk::{BlockPointer, Dnode};
use std::collections::VecDeque;
use std::sync::Arc;

/// What happened to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffChange {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Its content or attributes changed.
    Modified {
        /// By how many names its link count changed.
        links: i64,
    },
    /// It has another path.
    Renamed {
        /// The new one.
        to: Vec<u8>,
    },
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffRecord {
    /// What happened.
    pub change: DiffChange,
    /// The path in the dataset, without a leading slash.
    pub path: Vec<u8>,
    /// The object.
    pub object: ObjectId,
    /// Its kind.
    pub kind: FileKind,
    /// When it was last changed.
    pub changed: Timestamp,
}

/// A znode and its path.
type Named = (Arc<Znode>, Vec<u8>);

/// Iterates over the differences in order of object number. See [`FileSystem::diff`].
#[derive(Debug)]
pub struct Diff {
    from: Arc<FileSystem>,
    to: Arc<FileSystem>,
    blocks: ChangedBlocks,
    /// Objects of the block in hand.
    objects: std::ops::Range<u64>,
    /// A second line about one object.
    pending: VecDeque<DiffRecord>,
}

/// Finds the blocks of dnodes that may differ, in order.
#[derive(Debug)]
struct ChangedBlocks {
    from_txg: Txg,
    /// The next block that was not judged yet; `None` behind the last.
    next: Option<u64>,
    /// The walk over the newer state, and the root that it began at.
    newer: Option<(BlockPointer, Ordered)>,
    /// A walk over what the older state has where the newer has nothing, and the last block there.
    older: Option<(Ordered, u64)>,
}

impl FileSystem {
    /// The differences that lead from `from` to `to`, a later state of the same dataset.
    ///
    /// `from_txg` is when `from` was taken: for a snapshot its creation txg. An object that
    /// cannot be read is an error in its place.
    pub fn diff(from: &Arc<Self>, to: &Arc<Self>, from_txg: Txg) -> Diff {
        let blocks = ChangedBlocks {
            from_txg,
            next: Some(0),
            newer: None,
            older: None,
        };
        Diff {
            from: Arc::clone(from),
            to: Arc::clone(to),
            blocks,
            objects: 0..0,
            pending: VecDeque::new(),
        }
    }
}

/// A walk over the blocks `first..=last` of the array of dnodes.
fn walk_of(set: &Arc<ObjectSet>, since: Since, first: u64, last: u64) -> Ordered {
    let walk = Walk {
        holes: true,
        retention: set.retention(true),
        ..Walk::default()
    };
    let walk = walk.over(BlockId(first), BlockId(last));
    let root = Root::of_object(&set.meta_object(), since);
    Ordered::new(Arc::clone(set.cache()), root, walk)
}

/// The next block of dnodes, or the next hole, of a walk that goes into none.
fn next_place(walk: &mut Ordered) -> Result<Option<Visit>, PosixError> {
    while let Some(event) = walk.next() {
        match event {
            Event::Block(visit) if visit.is_dnodes() => {
                walk.pass_over();
                return Ok(Some(visit));
            }
            Event::Hole(visit) => return Ok(Some(visit)),
            Event::Damage(damage) => return Err(damage.error.into()),
            Event::Block(_) | Event::Object(..) | Event::FreeSlots { .. } => {}
        }
    }
    Ok(None)
}

/// The first block that the tree of an array of dnodes is too low for.
fn end_of_tree(meta: &Dnode) -> u64 {
    let shift = meta.indirect_fanout_shift() * u32::from(meta.levels - 1);
    let span = 1_u64.checked_shl(shift).unwrap_or(u64::MAX);
    span.saturating_mul(meta.block_pointers.len() as u64)
}

impl ChangedBlocks {
    /// The next block that may differ, at most `last`.
    fn find(
        &mut self,
        from: &Arc<ObjectSet>,
        to: &Arc<ObjectSet>,
        last: u64,
    ) -> Result<Option<u64>, PosixError> {
        while let Some(next) = self.next.filter(|next| *next <= last) {
            if let Some((older, end)) = &mut self.older {
                match next_place(older)? {
                    Some(visit) if !visit.is_absent() => return Ok(Some(self.judge(&visit))),
                    Some(_) => {}
                    None => {
                        self.next = end.checked_add(1);
                        self.older = None;
                    }
                }
                continue;
            }
            let root = to.root();
            // The blocks of a state that was replaced meanwhile may be gone.
            let walk = self.newer.take().filter(|(begun_at, _)| *begun_at == root);
            let since = Since::logical(self.from_txg);
            let walk = walk.map_or_else(|| walk_of(to, since, next, last), |(_, walk)| walk);
            let (_, walk) = self.newer.insert((root, walk));
            let (first, end) = match next_place(walk)? {
                Some(visit) if !visit.is_absent() => return Ok(Some(self.judge(&visit))),
                // Older pools keep no birth of holes, so the older tree decides.
                Some(hole) => hole.span(),
                None => (end_of_tree(to.meta_object().dnode()), last),
            };
            let (first, end) = (first.max(next), end.min(last));
            match first <= end {
                true => self.older = Some((walk_of(from, Since::EVER, first, end), end)),
                false => self.next = end.checked_add(1).map(|behind| behind.max(next)),
            }
        }
        Ok(None)
    }

    /// Notes the block that is being compared.
    fn judge(&mut self, visit: &Visit) -> u64 {
        let (block, _) = visit.span();
        self.next = block.checked_add(1);
        block
    }
}

impl Diff {
    /// The next block of dnodes that may differ. If one may differ and cannot be found, the
    /// comparison stops there.
    fn find_block(&mut self) -> Result<Option<u64>, PosixError> {
        let (from, to) = (self.from.set(), self.to.set());
        let last = [from, to].map(|set| set.meta_object().dnode().block_id_max.0);
        let found = self.blocks.find(from, to, last[0].max(last[1]));
        if found.is_err() {
            self.blocks.next = None;
        }
        found
    }

    /// The znode of an object, if it is a file that has a name.
    fn named(file_system: &FileSystem, id: ObjectId) -> Result<Option<Named>, PosixError> {
        let znode = match file_system.znode(id) {
            Err(PosixError::NoSuchZnode { .. }) => return Ok(None),
            znode => znode?,
        };
        if Some(id) == file_system.master().shares || znode.attributes().links == 0 {
            return Ok(None);
        }
        let path = file_system.path_of(id)?;
        Ok(Some((znode, path)))
    }

    fn compare(&mut self, id: ObjectId) -> Result<Option<DiffRecord>, PosixError> {
        if self.is_same(id) {
            return Ok(None);
        }
        let before = Self::named(&self.from, id)?;
        let after = Self::named(&self.to, id)?;
        let record = |change, znode: &Znode, path: Vec<u8>| DiffRecord {
            change,
            path,
            object: id,
            kind: znode.kind(),
            changed: znode.attributes().changed,
        };
        let ((before, old_path), (after, new_path)) = match (before, after) {
            (None, None) => return Ok(None),
            (None, Some((znode, path))) => {
                return Ok(Some(record(DiffChange::Added, &znode, path)));
            }
            (Some((znode, path)), None) => {
                return Ok(Some(record(DiffChange::Removed, &znode, path)));
            }
            (Some(before), Some(after)) => (before, after),
        };
        let (old, new) = (before.attributes(), after.attributes());
        if old.generation != new.generation || before.kind() != after.kind() {
            // The number was freed and used again.
            self.pending
                .push_back(record(DiffChange::Added, &after, new_path));
            return Ok(Some(record(DiffChange::Removed, &before, old_path)));
        }
        if old.changed == new.changed {
            return Ok(None);
        }
        let is_directory = after.kind() == FileKind::Directory;
        let links = match is_directory {
            true => 0,
            false => new
                .links
                .cast_signed()
                .wrapping_sub(old.links.cast_signed()),
        };
        let (change, path) = match links {
            0 if old_path == new_path => (DiffChange::Modified { links }, old_path),
            0 => (DiffChange::Renamed { to: new_path }, old_path),
            1.. => (DiffChange::Modified { links }, old_path),
            _ => (DiffChange::Modified { links }, new_path),
        };
        Ok(Some(record(change, &after, path)))
    }

    /// Whether both states have the same dnode: most neighbours of a changed object do.
    fn is_same(&self, id: ObjectId) -> bool {
        match (self.from.set().dnode(id), self.to.set().dnode(id)) {
            (Ok(before), Ok(after)) => before == after,
            _ => false,
        }
    }

    fn advance(&mut self) -> Result<Option<DiffRecord>, PosixError> {
        if let Some(record) = self.pending.pop_front() {
            return Ok(Some(record));
        }
        loop {
            if let Some(id) = self.objects.next() {
                if let Some(record) = self.compare(ObjectId(id))? {
                    return Ok(Some(record));
                }
                continue;
            }
            let Some(found) = self.find_block()? else {
                return Ok(None);
            };
            let size = self.to.set().meta_object().dnode().data_block_size;
            let per_block = size / DNODE_SIZE as u64;
            let first = found.saturating_mul(per_block);
            self.objects = first..first.saturating_add(per_block);
        }
    }
}

impl Iterator for Diff {
    type Item = Result<DiffRecord, PosixError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
