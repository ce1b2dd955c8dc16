//! Faults of blocks: which logical blocks cannot be read, or cannot be decoded.

use crate::chance::Chance;
use cenote_base::rt::{RwLock, ranks};
use cenote_base::{Bookmark, Env, Level, ObjectId, ObjsetId};
use cenote_ondisk::ObjectType;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a block fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// Its copies cannot be read.
    Io,
    /// Its copies are read with a wrong bit, so that their checksums are wrong.
    Checksum,
    /// It cannot be decompressed.
    Decompress,
    /// It cannot be decrypted.
    Decrypt,
}

impl BlockError {
    /// Whether copies fail, rather than the decoding of what they hold.
    fn is_of_copies(self) -> bool {
        matches!(self, Self::Io | Self::Checksum)
    }
}

/// A fault of some blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFault {
    /// How they fail.
    pub error: BlockError,
    /// How many of the reads.
    pub chance: Chance,
    /// In this object set.
    pub objset: ObjsetId,
    /// Of this object; `None` for all.
    pub object: Option<ObjectId>,
    /// Of objects of this type; `None` for all.
    pub kind: Option<ObjectType>,
    /// At this level of the tree.
    pub level: Level,
    /// The blocks of that level.
    pub blocks: RangeInclusive<u64>,
    /// A bit for each copy that fails; 0 for all.
    pub copies: u8,
}

impl BlockFault {
    fn is_of(&self, place: Bookmark, kind: ObjectType) -> bool {
        self.objset == place.objset
            && self.object.is_none_or(|object| object == place.object)
            && self.kind.is_none_or(|meant| meant == kind)
            && self.level == place.level
            && self.blocks.contains(&place.block.0)
    }

    fn is_of_copy(&self, copy: usize) -> bool {
        self.copies == 0 || self.copies & 1_u8.checked_shl(copy as u32).unwrap_or(0) != 0
    }
}

/// What goes wrong with the reads of one copy of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDrill {
    pub(crate) error: BlockError,
    pub(crate) chance: Chance,
}

/// The faults of a pool's blocks, by the numbers that they were given.
#[derive(Debug, Default)]
pub struct BlockFaults {
    has_any: AtomicBool,
    faults: RwLock<Vec<(u64, BlockFault)>, ranks::InjectedFaults>,
}

impl BlockFaults {
    /// Whether all blocks are left alone.
    pub fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u64, BlockFault)>)) {
        let mut faults = self.faults.write();
        change(&mut faults);
        self.has_any.store(!faults.is_empty(), Ordering::Relaxed);
    }

    /// From now on these blocks fail.
    pub fn add(&self, id: u64, fault: BlockFault) {
        self.change(|faults| faults.push((id, fault)));
    }

    /// Ends a fault.
    pub fn remove(&self, id: u64) {
        self.change(|faults| faults.retain(|(other, _)| *other != id));
    }

    /// Whether any read of a block may fail.
    pub fn concerns(&self, place: Bookmark, kind: ObjectType) -> bool {
        let is_of = |(_, fault): &(u64, BlockFault)| fault.is_of(place, kind);
        !self.is_empty() && self.faults.read().iter().any(is_of)
    }

    /// What goes wrong when a copy of a block is read, counted from 0.
    pub fn of_copy(&self, place: Bookmark, kind: ObjectType, copy: usize) -> Option<BlockDrill> {
        if self.is_empty() {
            return None;
        }
        let faults = self.faults.read();
        let mut faults = faults.iter().map(|(_, fault)| fault);
        let fault = faults.find(|fault| {
            fault.error.is_of_copies() && fault.is_of(place, kind) && fault.is_of_copy(copy)
        })?;
        Some(BlockDrill {
            error: fault.error,
            chance: fault.chance,
        })
    }

    /// Why what was read of a block cannot be decoded this time.
    pub fn of_contents(
        &self,
        place: Bookmark,
        kind: ObjectType,
        env: &dyn Env,
    ) -> Option<BlockError> {
        if self.is_empty() {
            return None;
        }
        let faults = self.faults.read();
        let mut faults = faults.iter().map(|(_, fault)| fault);
        let fault = faults.find(|fault| {
            !fault.error.is_of_copies() && fault.is_of(place, kind) && fault.chance.hits(env)
        });
        fault.map(|fault| fault.error)
    }
}
