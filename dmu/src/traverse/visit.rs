//! A block that a walk meets: its pointer, its place, and what must be true of it there.
//!
//! A visit knows enough of its object to judge its pointer and to name its children, so that
//! walks need nothing but visits in their lists.

use crate::error::DmuError;
use crate::object::Object;
use crate::object_set::{ObjectSet, slots_of};
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId, Txg};
use cenote_io::{IoError, ObjsetKeys};
use cenote_ondisk::block_pointer::{BLOCK_POINTER_SIZE, BlockPointer};
use cenote_ondisk::dnode::{DNODE_SIZE, DNODE_SLOTS_MAX};
use cenote_ondisk::{DecodeError, Dnode, ObjectType, Objset, wire};
use std::sync::Arc;

/// The number that a spill block has in a bookmark, as OpenZFS gives it.
pub const SPILL_BLOCK: BlockId = BlockId(u64::MAX);

/// Bytes of a stored visit: pointer, bookmark (4 words), root, size.
pub const VISIT_SIZE: usize = BLOCK_POINTER_SIZE + 6 * 8;

/// log2 of the most block pointers in an indirect block.
const FANOUT_SHIFT_MAX: u64 = 10;

/// Which birth of a block counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Birth {
    /// The one that sharing with snapshots goes by: of a block that `zfs rewrite` moved, when it
    /// was moved.
    #[default]
    Accounting,
    /// When the contents became part of the dataset: what sending and comparing go by.
    Logical,
}

/// The age of what a walk is for: blocks born later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// Blocks that were not born after this, and all below them, are left out. After 0 is
    /// everything, also what says that it was never born.
    pub txg: Txg,
    /// By which birth.
    pub birth: Birth,
}

impl Since {
    /// Everything.
    pub const EVER: Self = Self {
        txg: Txg(0),
        birth: Birth::Accounting,
    };

    /// What became a dataset's own after `txg`.
    pub fn accounting(txg: Txg) -> Self {
        let birth = Birth::Accounting;
        Self { txg, birth }
    }

    /// What has other contents since `txg`.
    pub fn logical(txg: Txg) -> Self {
        let birth = Birth::Logical;
        Self { txg, birth }
    }

    /// Whether a block was born after it. A parent is never older than its children.
    pub fn is_before(&self, pointer: &BlockPointer) -> bool {
        let birth = match self.birth {
            Birth::Accounting => pointer.accounting_birth(),
            Birth::Logical => pointer.logical_birth(),
        };
        birth > self.txg || self.txg == Txg(0)
    }

    /// Whether a hole may have been made after it: one without a birth may.
    pub fn is_before_hole(&self, pointer: &BlockPointer) -> bool {
        pointer.logical_birth() == Txg(0) || self.is_before(pointer)
    }
}

/// Where a walk begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// At an object set block; a hole has nothing below it.
    Objset(BlockPointer),
    /// At an object's dnode. Object 0 is the meta-dnode, with all objects below it.
    Dnode(ObjectId, Arc<Dnode>),
}

/// What is walked.
#[derive(Clone, Debug)]
pub struct Root {
    /// The object set's number in bookmarks.
    pub objset: ObjsetId,
    /// Where it begins.
    pub start: Start,
    /// What is left out as too old.
    pub since: Since,
    /// The keys of an encrypted object set, if they are loaded.
    pub keys: Option<Arc<ObjsetKeys>>,
}

impl Root {
    /// All blocks of an object set's state on disk.
    pub fn of_set(set: &ObjectSet, since: Since) -> Self {
        Self {
            objset: set.id(),
            start: Start::Objset(set.root()),
            since,
            keys: set.keys().cloned(),
        }
    }

    /// The blocks of an object, as it was on disk when `object` was opened.
    pub fn of_object(object: &Object, since: Since) -> Self {
        Self {
            objset: object.set().id(),
            start: Start::Dnode(object.id(), object.shared_dnode()),
            since,
            keys: object.set().keys().cloned(),
        }
    }
}

/// What of an object set a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object set block.
    Objset,
    /// A block in an object's tree, of the meta-dnode's, too.
    Tree,
    /// An object's spill block.
    Spill,
}

/// A block, or a hole, and what must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Where it is stored.
    pub pointer: BlockPointer,
    /// Its place. The object set block has that of the meta-dnode's first block.
    pub bookmark: Bookmark,
    /// The index of what is walked, if it is one of several.
    pub root: usize,
    /// What it is.
    pub part: Part,
    /// log2 of the block pointers in an indirect block of its object.
    pub fanout_shift: u32,
    /// Bytes that a data block of its object has; 0 for spill and object set blocks.
    pub data_size: u64,
}

impl Visit {
    /// The object set block.
    pub(crate) fn of_objset(objset: ObjsetId, pointer: BlockPointer, root: usize) -> Self {
        Self {
            pointer,
            bookmark: Bookmark::data(objset, ObjectId(0), BlockId(0)),
            root,
            part: Part::Objset,
            fanout_shift: 0,
            data_size: 0,
        }
    }

    /// The blocks at the top of an object's tree, holes too, and then the spill block if there is
    /// one: pointer `index` of them.
    pub(crate) fn of_dnode(
        objset: ObjsetId,
        object: ObjectId,
        root: usize,
        dnode: &Dnode,
        index: usize,
    ) -> Option<Self> {
        let Some(pointer) = dnode.block_pointers.get(index) else {
            let is_first_behind = index == dnode.block_pointers.len();
            let pointer = dnode.spill.filter(|_| is_first_behind)?;
            return Some(Self {
                pointer,
                bookmark: Bookmark::data(objset, object, SPILL_BLOCK),
                root,
                part: Part::Spill,
                fanout_shift: 0,
                data_size: 0,
            });
        };
        let bookmark = Bookmark {
            objset,
            object,
            level: Level(dnode.levels - 1),
            block: BlockId(index as u64),
        };
        Some(Self {
            pointer: *pointer,
            bookmark,
            root,
            part: Part::Tree,
            fanout_shift: dnode.indirect_fanout_shift(),
            data_size: dnode.data_block_size,
        })
    }

    /// What entry `index` of this indirect block points to, holes too; `None` behind the last.
    pub(crate) fn child(&self, contents: &[u8], index: usize) -> Option<Self> {
        assert!(self.part == Part::Tree && self.bookmark.level.0 > 0);
        let bytes = contents.chunks_exact(BLOCK_POINTER_SIZE).nth(index)?;
        let first = self.bookmark.block.0.checked_shl(self.fanout_shift);
        let block = first.unwrap_or(u64::MAX).saturating_add(index as u64);
        Some(Self {
            pointer: BlockPointer::decode(bytes).expect("chunks of a pointer's size"),
            bookmark: Bookmark {
                level: Level(self.bookmark.level.0 - 1),
                block: BlockId(block),
                ..self.bookmark
            },
            ..self.clone()
        })
    }

    /// Whether there is no block: a hole, or one that redaction left out.
    pub fn is_absent(&self) -> bool {
        self.pointer.is_hole() || self.pointer.is_redacted()
    }

    /// Whether it is an indirect block.
    pub fn is_indirect(&self) -> bool {
        self.part == Part::Tree && self.bookmark.level.0 > 0
    }

    /// Whether it is a block of dnodes.
    pub fn is_dnodes(&self) -> bool {
        let is_data = self.part == Part::Tree && self.bookmark.level.0 == 0;
        is_data && self.bookmark.object.0 == 0
    }

    /// Whether there are further blocks below it.
    pub fn leads_on(&self) -> bool {
        self.part == Part::Objset || self.is_indirect() || self.is_dnodes()
    }

    /// Whether it holds contents of a file or volume.
    pub fn is_file_data(&self) -> bool {
        let is_data = self.bookmark.level.0 == 0 && self.part == Part::Tree;
        is_data && !self.pointer.object_type().is_metadata()
    }

    /// The first and the last data block of the object that are below it; of a data block itself.
    pub fn span(&self) -> (u64, u64) {
        span_of(self.bookmark.level, self.bookmark.block, self.fanout_shift)
    }

    /// Objects whose dnodes are in each block of the meta-dnode, of which this is a block.
    pub fn dnodes_per_block(&self) -> u64 {
        (self.data_size / DNODE_SIZE as u64).max(1)
    }

    /// Where the first copy is: walks that sort by it go over a device once.
    pub fn disk_order(&self) -> (u64, u64) {
        let first = self.pointer.dva(0);
        (first.vdev().0, first.offset())
    }

    fn bad(&self, problem: &'static str) -> DmuError {
        let bookmark = self.bookmark;
        DmuError::BadTree { bookmark, problem }
    }

    /// Whether the pointer fits its place. Nothing is read of one that does not.
    ///
    /// # Errors
    /// If it is no possible pointer, is of another level, size or type, or is that of a block
    /// that leads on and embedded.
    pub fn check(&self) -> Result<(), DmuError> {
        if self.is_absent() {
            return Ok(());
        }
        if let Err(source) = self.pointer.check() {
            let bookmark = self.bookmark;
            return Err(IoError::BadPointer { bookmark, source }.into());
        }
        if self.part == Part::Objset {
            let is_objset = self.pointer.object_type() == ObjectType::OBJSET;
            return match is_objset && self.pointer.level() == Level(0) {
                true => Ok(()),
                false => Err(self.bad("the root pointer does not point to an object set block")),
            };
        }
        if self.pointer.level() != self.bookmark.level {
            return Err(self.bad("its pointer is of another level"));
        }
        let expected = match self.bookmark.level.0 {
            0 => self.data_size,
            _ => (BLOCK_POINTER_SIZE as u64) << self.fanout_shift,
        };
        if expected != 0 && self.pointer.logical_size() != expected {
            return Err(self.bad("its size is not that of the object's blocks"));
        }
        if self.is_dnodes() && self.pointer.object_type() != ObjectType::DNODE {
            return Err(self.bad("the meta-dnode has a block of another type"));
        }
        if self.leads_on() && self.pointer.is_embedded() {
            return Err(self.bad("an indirect block is embedded into its pointer"));
        }
        Ok(())
    }

    /// Whether a block's contents have the size that the pointer says: two pointers to one address
    /// that disagree about it meet in the cache.
    pub fn check_contents(&self, contents: &[u8]) -> Result<(), DmuError> {
        match contents.len() as u64 == self.pointer.logical_size() {
            true => Ok(()),
            false => Err(self.bad("another pointer to the same address gives it another size")),
        }
    }

    /// The refusal of a block that was met before.
    pub(crate) fn repeated(&self) -> DmuError {
        self.bad("it stands in the tree more than once")
    }

    /// The objects in an object set block: the meta-dnode, then those of the accounting in the
    /// order of their numbers.
    pub(crate) fn objset_dnodes(
        &self,
        contents: &[u8],
    ) -> Result<Vec<(ObjectId, Arc<Dnode>)>, DmuError> {
        let objset = Objset::decode(contents);
        let objset = objset.map_err(|source| self.undecodable(ObjectId(0), source))?;
        let mut dnodes = vec![(ObjectId(0), Arc::new(objset.meta_dnode))];
        for (back, dnode) in [
            (2, objset.project_used),
            (1, objset.group_used),
            (0, objset.user_used),
        ] {
            let object = ObjectId(u64::MAX - back);
            dnodes.extend(dnode.map(|dnode| (object, Arc::new(dnode))));
        }
        Ok(dnodes)
    }

    /// A structure in the block does not decode.
    pub(crate) fn undecodable(&self, object: ObjectId, source: DecodeError) -> DmuError {
        DmuError::Decode {
            objset: self.bookmark.objset,
            object,
            source,
        }
    }

    /// Slot `slot` of this block of dnodes; `None` behind the last.
    pub(crate) fn slot(&self, contents: &[u8], slot: usize) -> Option<Slot> {
        let bytes = contents.get(slot * DNODE_SIZE..)?;
        if bytes.len() < DNODE_SIZE {
            return None;
        }
        let first = self
            .bookmark
            .block
            .0
            .saturating_mul(self.dnodes_per_block());
        let object = ObjectId(first.saturating_add(slot as u64));
        let (found, slots) = match Dnode::decode(bytes) {
            Ok(None) => (Ok(None), 1),
            Ok(Some(dnode)) => {
                let slots = dnode.slots().clamp(1, DNODE_SLOTS_MAX);
                (Ok(Some(Arc::new(dnode))), slots)
            }
            Err(source) => (Err(self.undecodable(object, source)), slots_of(bytes)),
        };
        Some(Slot {
            object,
            found,
            slots,
        })
    }

    /// The bytes of a stored visit. Of blocks in trees alone the fanout is not 0.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!((self.part == Part::Tree) == (self.fanout_shift > 0));
        let Bookmark {
            objset,
            object,
            level,
            block,
        } = self.bookmark;
        out.extend_from_slice(&self.pointer.encode());
        let packed = u64::from(level.0) << 32 | u64::from(self.fanout_shift);
        for word in [
            objset.0,
            object.0,
            packed,
            block.0,
            self.root as u64,
            self.data_size,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a stored visit of a walk over so many roots.
    ///
    /// # Errors
    /// If the bytes are too few, or say what cannot be.
    pub fn decode(bytes: &[u8], roots: usize) -> Result<Self, DecodeError> {
        let structure = "stored walk";
        let pointer = BlockPointer::decode(bytes)?;
        let word = |index: usize| wire::u64_le(bytes, BLOCK_POINTER_SIZE + 8 * index, structure);
        let packed = word(2)?;
        let root = usize::try_from(word(4)?).ok().filter(|root| *root < roots);
        let bad = |field, value| DecodeError::BadValue {
            structure,
            field,
            value,
        };
        let root = root.ok_or(bad("root", word(4)?))?;
        let fanout_shift = wire::bits(packed, 0, 32);
        if fanout_shift > FANOUT_SHIFT_MAX {
            return Err(bad("fanout", fanout_shift));
        }
        let level = Level(u8::try_from(packed >> 32).map_err(|_| bad("level", packed))?);
        let block = BlockId(word(3)?);
        let part = match (fanout_shift, level.0, block) {
            (1.., ..) => Part::Tree,
            (0, 0, SPILL_BLOCK) => Part::Spill,
            (0, 0, BlockId(0)) => Part::Objset,
            _ => return Err(bad("fanout", fanout_shift)),
        };
        Ok(Self {
            pointer,
            bookmark: Bookmark {
                objset: ObjsetId(word(0)?),
                object: ObjectId(word(1)?),
                level,
                block,
            },
            root,
            part,
            fanout_shift: fanout_shift as u32,
            data_size: word(5)?,
        })
    }
}

/// What is in a slot of a block of dnodes.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) object: ObjectId,
    /// `None` if it is free.
    pub(crate) found: Result<Option<Arc<Dnode>>, DmuError>,
    /// Slots that it takes.
    pub(crate) slots: usize,
}

/// The first and the last data block below a block of a tree.
pub(crate) fn span_of(level: Level, block: BlockId, fanout_shift: u32) -> (u64, u64) {
    let shift = fanout_shift.saturating_mul(u32::from(level.0));
    if shift >= u64::BITS {
        let first = if block.0 == 0 { 0 } else { u64::MAX };
        return (first, u64::MAX);
    }
    let fits = block.0 <= u64::MAX >> shift;
    let first = if fits { block.0 << shift } else { u64::MAX };
    (first, first.saturating_add((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(level: u8, block: u64) -> Visit {
        let mut pointer = BlockPointer::HOLE;
        pointer.words[3] = 77;
        Visit {
            pointer,
            bookmark: Bookmark {
                objset: ObjsetId(54),
                object: ObjectId(7),
                level: Level(level),
                block: BlockId(block),
            },
            root: 3,
            part: Part::Tree,
            fanout_shift: 10,
            data_size: 131_072,
        }
    }

    #[test]
    fn storing_is_inverse() {
        let mut spill = visit(0, SPILL_BLOCK.0);
        (spill.part, spill.fanout_shift) = (Part::Spill, 0);
        let root = Visit::of_objset(ObjsetId(54), spill.pointer, 3);
        for visit in [visit(2, 9), visit(0, 12), spill, root] {
            let mut bytes = Vec::new();
            visit.encode(&mut bytes);
            assert_eq!(bytes.len(), VISIT_SIZE);
            assert_eq!(Visit::decode(&bytes, 4), Ok(visit));
            assert!(Visit::decode(&bytes, 3).is_err(), "there is no root 3");
        }
    }

    #[test]
    fn spans_end_at_the_last_number() {
        assert_eq!(visit(0, 5).span(), (5, 5));
        assert_eq!(visit(2, 1).span(), (1 << 20, (2 << 20) - 1));
        assert_eq!(visit(11, 0).span(), (0, u64::MAX));
        assert_eq!(visit(11, 1).span(), (u64::MAX, u64::MAX));
        assert_eq!(visit(1, u64::MAX).span(), (u64::MAX, u64::MAX));
    }

    #[test]
    fn births_say_what_is_too_old() {
        let mut pointer = BlockPointer::HOLE;
        pointer.words[0] = 1;
        pointer.words[10] = 5;
        let after = |txg| Since::accounting(Txg(txg));
        assert!(after(4).is_before(&pointer) && !after(5).is_before(&pointer));
        // Moved by a rewrite in txg 9, which changed no contents.
        pointer.words[7] |= 1 << 63;
        pointer.words[9] = 9;
        assert!(after(8).is_before(&pointer) && !Since::logical(Txg(8)).is_before(&pointer));
        assert!(after(8).is_before_hole(&BlockPointer::HOLE));
        pointer.words[7..11].fill(0);
        assert!(Since::EVER.is_before(&pointer) && !after(1).is_before(&pointer));
        let mut hole = BlockPointer::HOLE;
        hole.words[10] = 8;
        assert!(after(7).is_before_hole(&hole) && !after(8).is_before_hole(&hole));
    }
}
