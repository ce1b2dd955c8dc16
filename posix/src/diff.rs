//! What changed between two states of a dataset (format/3b 14).
//!
//! Dnodes stand in blocks of 32, and a block that was not written since the older state holds no
//! change; neither does a whole tree of such blocks. So the walk goes down the meta-dnode's tree
//! only where births are younger, and compares the objects that it finds there one by one.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::time::Timestamp;
use crate::znode::Znode;
use cenote_base::{BlockId, ObjectId, Txg};
use cenote_dmu::Object;
use cenote_ondisk::dnode::DNODE_SIZE;
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
    from_txg: Txg,
    /// The next block of dnodes to look at.
    next_block: Option<u64>,
    /// Objects of the block in hand.
    objects: std::ops::Range<u64>,
    /// A second line about one object.
    pending: VecDeque<DiffRecord>,
}

impl FileSystem {
    /// The differences that lead from `from` to `to`, a later state of the same dataset.
    ///
    /// `from_txg` is when `from` was taken: for a snapshot its creation txg. An object that
    /// cannot be read is an error in its place.
    pub fn diff(from: &Arc<Self>, to: &Arc<Self>, from_txg: Txg) -> Diff {
        let (from, to) = (Arc::clone(from), Arc::clone(to));
        Diff {
            from,
            to,
            from_txg,
            next_block: Some(0),
            objects: 0..0,
            pending: VecDeque::new(),
        }
    }
}

impl Diff {
    /// Whether anything at `level` and `block` may differ.
    fn may_differ(
        &self,
        metas: &[Object; 2],
        level: u8,
        block: BlockId,
    ) -> Result<bool, PosixError> {
        let [from, to] = metas;
        let pointer = to.block_pointer(level, block)?;
        if pointer.is_hole() {
            // Older pools keep no birth of holes, so the older tree decides.
            return Ok(!from.block_pointer(level, block)?.is_hole());
        }
        Ok(pointer.logical_birth() > self.from_txg)
    }

    /// The first block of dnodes from `block` on that may differ.
    fn find_block(&self, mut block: u64) -> Result<Option<u64>, PosixError> {
        let metas = [self.from.set().meta_object(), self.to.set().meta_object()];
        let last = metas
            .iter()
            .map(|meta| meta.dnode().block_id_max.0)
            .max()
            .unwrap_or(0);
        let levels = metas
            .iter()
            .map(|meta| meta.dnode().levels)
            .min()
            .unwrap_or(1);
        // A shift that both trees share; if they have none, only data blocks are compared.
        let fanout = metas[1].dnode().indirect_fanout_shift();
        let same_shape = metas[0].dnode().indirect_fanout_shift() == fanout;
        let top = if same_shape { levels - 1 } else { 0 };
        'blocks: while block <= last {
            for level in (0..=top).rev() {
                let shift = fanout * u32::from(level);
                let Some(span) = 1_u64.checked_shl(shift) else {
                    continue;
                };
                // A subtree is judged once, at its first block.
                if block.is_multiple_of(span)
                    && !self.may_differ(&metas, level, BlockId(block >> shift))?
                {
                    block = block.saturating_add(span);
                    continue 'blocks;
                }
            }
            return Ok(Some(block));
        }
        Ok(None)
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
            let Some(block) = self.next_block else {
                return Ok(None);
            };
            self.next_block = None;
            let Some(found) = self.find_block(block)? else {
                return Ok(None);
            };
            let size = self.to.set().meta_object().dnode().data_block_size;
            let per_block = size / DNODE_SIZE as u64;
            self.objects = found * per_block..(found + 1) * per_block;
            self.next_block = Some(found + 1);
        }
    }
}

impl Iterator for Diff {
    type Item = Result<DiffRecord, PosixError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
