//! Changing block pointer objects (format/3a 3).
//!
//! A list is appended to in batches: its header is read and stored once for each. Lists are
//! joined without their blocks being read: one becomes a part of the other, by its number.
//!
//! ```text
//! before:  list [a b]        sub [c d e] parts (x, y)
//!
//! after:   list [a b] parts (x, y, sub)       sub [c d e]         sub is long
//!          list [a b c d e] parts (x, y)                          sub is short, and is gone
//! ```
//!
//! That the parts of what is joined become parts of the whole keeps the trees flat, however often
//! lists are joined: only a list of parts of more than one block stays where it is. Lists are
//! emptied from their ends.

use crate::deadlist::SpaceTriple;
use crate::error::DslError;
use crate::object_directory::keys;
use crate::write::context::SyncContext;
use cenote_base::ObjectId;
use cenote_dmu::{NewObject, Object};
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::bpobj::{self, BpobjHeader};
use cenote_ondisk::features;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::HashSet;

/// Blocks of lists and of lists of sub-objects.
const BLOCK_SIZE: u64 = 128 << 10;
/// Lists are read in pieces of this size.
const PIECE: usize = 128 << 10;
/// Sub-objects of one list that are followed.
const SUBOBJECTS_MAX: usize = 1 << 20;
/// Lists nested in one another: each level means that more than 16384 lists were joined.
const DEPTH_MAX: usize = 64;
/// A header that can name sub-objects has at least this many bytes.
const HEADER_WITH_PARTS: usize = 48;

/// The header of a list.
fn header_of(object: &Object) -> Result<BpobjHeader, DslError> {
    BpobjHeader::decode(&object.dnode().bonus)
        .map_err(|source| DslError::decode(object.id(), source))
}

fn add_space(header: &mut BpobjHeader, space: SpaceTriple, sign: i64) {
    let add = |value: u64, bytes: u64| match sign < 0 {
        true => value.saturating_sub(bytes),
        false => value.saturating_add(bytes),
    };
    header.bytes = add(header.bytes, space.used);
    header.compressed_bytes = header.compressed_bytes.map(|v| add(v, space.compressed));
    header.uncompressed_bytes = header
        .uncompressed_bytes
        .map(|v| add(v, space.uncompressed));
}

impl SyncContext<'_> {
    /// The header of a list.
    pub(crate) fn list_header(&self, list: ObjectId) -> Result<BpobjHeader, DslError> {
        header_of(&self.mos().object(list)?)
    }

    /// Calls `each` for every block of a list and its parts.
    ///
    /// # Errors
    /// If a list cannot be read, or has holes in it: a damaged one could have no end of them.
    pub(crate) fn each_listed(
        &self,
        list: ObjectId,
        each: &mut dyn FnMut(&BlockPointer) -> Result<(), DslError>,
    ) -> Result<(), DslError> {
        let mut stack = vec![list];
        let mut seen = HashSet::new();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) || seen.len() > SUBOBJECTS_MAX {
                return Err(DslError::structure(id, "a list of blocks contains itself"));
            }
            let object = self.mos().object(id)?;
            let header = header_of(&object)?;
            stack.extend(self.subobjects(&header)?);
            // The header's decoder saw to it that the product fits.
            let end = header.entries * BLOCK_POINTER_SIZE as u64;
            let mut piece = vec![0; PIECE];
            for at in (0..end).step_by(PIECE) {
                let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
                object.read(at, &mut piece[..length])?;
                for block in bpobj::entries(&piece[..length]) {
                    if block.is_hole() {
                        return Err(DslError::structure(id, "a list of blocks has a hole"));
                    }
                    each(&block)?;
                }
            }
        }
        Ok(())
    }

    fn store_list(&self, object: &Object, header: &BpobjHeader) -> Result<(), DslError> {
        let mut bonus = header.encode();
        // Lists of older pools keep their shorter headers.
        bonus.truncate(object.dnode().bonus.len().max(16));
        object.set_bonus(self.tx, ObjectType::BPOBJ_HEADER, bonus)?;
        Ok(())
    }

    /// Makes a list of its own.
    pub(crate) fn create_list(&self) -> Result<ObjectId, DslError> {
        let freed = self
            .dsl
            .features()
            .is_active(features::LIVELIST)
            .then_some(0);
        let header = BpobjHeader {
            compressed_bytes: Some(0),
            uncompressed_bytes: Some(0),
            freed,
            ..BpobjHeader::default()
        };
        let new = NewObject::new(ObjectType::BPOBJ, BLOCK_SIZE)
            .with_bonus(ObjectType::BPOBJ_HEADER, header.encode());
        Ok(self.mos().allocate(self.tx, new)?.id())
    }

    /// The shared list that is always empty, if the pool has it.
    pub(crate) fn empty_list(&self) -> Result<Option<ObjectId>, DslError> {
        self.dsl.object_directory().object(keys::EMPTY_BPOBJ)
    }

    /// Lists with nothing in them: all the shared one, where the pool allows that.
    pub(crate) fn create_empty_lists(&self, count: usize) -> Result<Vec<ObjectId>, DslError> {
        if self.dsl.features().get(features::EMPTY_BPOBJ).is_none() {
            return (0..count).map(|_| self.create_list()).collect();
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let list = match self.empty_list()? {
            Some(list) => list,
            None => {
                let list = self.create_list()?;
                self.set_directory_number(keys::EMPTY_BPOBJ, list.0)?;
                list
            }
        };
        self.feature_changed(
            features::EMPTY_BPOBJ,
            i64::try_from(count).unwrap_or(i64::MAX),
        )?;
        Ok(vec![list; count])
    }

    /// Gives back a reference to the shared empty list.
    pub(crate) fn drop_empty_list(&self) -> Result<(), DslError> {
        self.drop_empty_lists(1)
    }

    /// Gives back so many references to the shared empty list.
    pub(crate) fn drop_empty_lists(&self, count: i64) -> Result<(), DslError> {
        if count == 0 {
            return Ok(());
        }
        let list = self.empty_list()?;
        if self.feature_changed(features::EMPTY_BPOBJ, -count)? == 0
            && let Some(list) = list
        {
            self.remove_directory_entry(keys::EMPTY_BPOBJ)?;
            self.mos().free(self.tx, list)?;
        }
        Ok(())
    }

    /// Appends blocks to a list; `freed` marks frees in livelists, which count negatively.
    pub(crate) fn append_blocks(
        &self,
        list: ObjectId,
        blocks: &[BlockPointer],
        freed: bool,
    ) -> Result<SpaceTriple, DslError> {
        assert!(
            Some(list) != self.empty_list()?,
            "nothing is ever put into the shared empty list"
        );
        let object = self.mos().object(list)?;
        let mut header = header_of(&object)?;
        let mut bytes = Vec::with_capacity(blocks.len() * BLOCK_POINTER_SIZE);
        let mut sum = SpaceTriple::default();
        for block in blocks {
            sum = sum.plus(self.dsl.space_of_block(block));
            bytes.extend_from_slice(&bpobj::to_entry(block, freed).encode());
        }
        let at = header.entries * BLOCK_POINTER_SIZE as u64;
        object.write(self.tx, at, &bytes)?;
        header.entries = header.entries.saturating_add(blocks.len() as u64);
        add_space(&mut header, sum, if freed { -1 } else { 1 });
        if freed {
            header.freed = header.freed.map(|v| v.saturating_add(blocks.len() as u64));
        }
        self.store_list(&object, &header)?;
        Ok(sum)
    }

    /// Makes `sub` with all that is in it a part of `list`, which takes it over.
    ///
    /// Returns the space of what `list` gained.
    pub(crate) fn append_list(
        &self,
        list: ObjectId,
        sub: ObjectId,
    ) -> Result<SpaceTriple, DslError> {
        let empty = self.empty_list()?;
        assert!(
            Some(list) != empty,
            "nothing is ever put into the shared empty list"
        );
        // The tables of a damaged pool may name a list twice.
        if list == sub {
            return Err(DslError::structure(
                list,
                "a list of blocks contains itself",
            ));
        }
        if Some(sub) == empty {
            self.drop_empty_list()?;
            return Ok(SpaceTriple::default());
        }
        let part = self.mos().object(sub)?;
        let mut below = header_of(&part)?;
        if below.is_empty() {
            self.destroy_list(sub)?;
            return Ok(SpaceTriple::default());
        }
        let object = self.mos().object(list)?;
        let mut header = header_of(&object)?;
        if object.dnode().bonus.len() < HEADER_WITH_PARTS {
            let problem = "a list of blocks has a header without room for parts";
            return Err(DslError::structure(list, problem));
        }
        self.take_over_parts(&mut header, &part, &mut below)?;
        let bytes = below.entries.saturating_mul(BLOCK_POINTER_SIZE as u64);
        let is_short = bytes <= part.dnode().data_block_size && below.subobjects.is_none();
        if is_short {
            let mut entries = vec![0; usize::try_from(bytes).unwrap_or(0)];
            part.read(0, &mut entries)?;
            let at = header.entries * BLOCK_POINTER_SIZE as u64;
            object.write(self.tx, at, &entries)?;
            header.entries = header.entries.saturating_add(below.entries);
            self.mos().free(self.tx, sub)?;
        } else {
            self.append_parts(&mut header, &[sub])?;
        }
        let space = SpaceTriple::from(&below);
        add_space(&mut header, space, 1);
        let freed = below.freed.unwrap_or(0);
        header.freed = header.freed.map(|count| count.saturating_add(freed));
        self.store_list(&object, &header)?;
        Ok(space)
    }

    /// Moves the parts of a list that becomes a part itself to the list above, unless there are
    /// very many.
    fn take_over_parts(
        &self,
        header: &mut BpobjHeader,
        part: &Object,
        below: &mut BpobjHeader,
    ) -> Result<(), DslError> {
        let Some(names) = below.subobjects else {
            return Ok(());
        };
        if below.subobject_count.saturating_mul(8) > BLOCK_SIZE {
            return Ok(());
        }
        let parts = self.subobjects(below)?;
        self.append_parts(header, &parts)?;
        self.mos().free(self.tx, names)?;
        below.subobjects = None;
        below.subobject_count = 0;
        self.store_list(part, below)
    }

    /// Appends to the numbers of a list's parts. The caller stores the header.
    fn append_parts(&self, header: &mut BpobjHeader, parts: &[ObjectId]) -> Result<(), DslError> {
        if parts.is_empty() {
            return Ok(());
        }
        let names = match header.subobjects {
            Some(names) => self.mos().object(names)?,
            None => self.mos().allocate(
                self.tx,
                NewObject::new(ObjectType::BPOBJ_SUBOBJ, BLOCK_SIZE),
            )?,
        };
        header.subobjects = Some(names.id());
        let bytes: Vec<u8> = parts.iter().flat_map(|id| id.0.to_le_bytes()).collect();
        let at = header.subobject_count.saturating_mul(8);
        names.write(self.tx, at, &bytes)?;
        header.subobject_count = header.subobject_count.saturating_add(parts.len() as u64);
        Ok(())
    }

    /// Frees a list with all its parts; not the blocks in it.
    pub(crate) fn destroy_list(&self, list: ObjectId) -> Result<(), DslError> {
        let mut stack = vec![list];
        let mut seen = HashSet::new();
        while let Some(id) = stack.pop() {
            if Some(id) == self.empty_list()? {
                self.drop_empty_list()?;
                continue;
            }
            if !seen.insert(id) || seen.len() > SUBOBJECTS_MAX {
                return Err(DslError::structure(id, "a list of blocks contains itself"));
            }
            let header = header_of(&self.mos().object(id)?)?;
            stack.extend(self.subobjects(&header)?);
            if let Some(subobjects) = header.subobjects {
                self.mos().free(self.tx, subobjects)?;
            }
            self.mos().free(self.tx, id)?;
        }
        Ok(())
    }

    fn subobjects(&self, header: &BpobjHeader) -> Result<Vec<ObjectId>, DslError> {
        let Some(id) = header.subobjects.filter(|_| header.subobject_count > 0) else {
            return Ok(Vec::new());
        };
        let count = usize::try_from(header.subobject_count).unwrap_or(usize::MAX);
        if count > SUBOBJECTS_MAX {
            return Err(DslError::structure(
                id,
                "a list of blocks has too many parts",
            ));
        }
        let mut bytes = vec![0; count * 8];
        self.mos().object(id)?.read(0, &mut bytes)?;
        Ok(bpobj::subobjects(&bytes).collect())
    }

    fn last_subobject(&self, header: &BpobjHeader) -> Result<Option<ObjectId>, DslError> {
        let names = header.subobjects.filter(|_| header.subobject_count > 0);
        let Some(names) = names else {
            return Ok(None);
        };
        let mut bytes = [0; 8];
        let at = (header.subobject_count - 1).saturating_mul(8);
        self.mos().object(names)?.read(at, &mut bytes)?;
        Ok(bpobj::subobjects(&bytes).next())
    }

    /// Takes up to `limit` blocks out of a list, the last first; the header is kept in step.
    ///
    /// An empty result says that the list and all its parts are empty.
    pub(crate) fn take_blocks(
        &self,
        list: ObjectId,
        limit: usize,
    ) -> Result<Vec<BlockPointer>, DslError> {
        // The path to the part that is being emptied: sub-objects are nested a few deep at most,
        // but pools decide that, so there is a bound.
        let mut path = vec![list];
        loop {
            let id = *path.last().expect("the list itself is on it");
            if path.len() > DEPTH_MAX {
                return Err(DslError::structure(
                    list,
                    "lists of blocks are nested too deep",
                ));
            }
            let object = self.mos().object(id)?;
            let mut header = header_of(&object)?;
            if header.entries > 0 {
                return self.take_entries(&path, &object, header, limit);
            }
            if let Some(sub) = self.last_subobject(&header)? {
                path.push(sub);
                continue;
            }
            if path.len() == 1 {
                return Ok(Vec::new());
            }
            // This part is empty: unlink it from the one above.
            self.destroy_list(id)?;
            path.pop();
            let above = *path.last().expect("checked to be deeper");
            let object = self.mos().object(above)?;
            header = header_of(&object)?;
            header.subobject_count -= 1;
            self.store_list(&object, &header)?;
        }
    }

    fn take_entries(
        &self,
        path: &[ObjectId],
        object: &Object,
        mut header: BpobjHeader,
        limit: usize,
    ) -> Result<Vec<BlockPointer>, DslError> {
        let count = header.entries.min(limit as u64);
        let first = header.entries - count;
        let size = BLOCK_POINTER_SIZE as u64;
        let mut bytes = vec![0; usize::try_from(count * size).unwrap_or(0)];
        object.read(first * size, &mut bytes)?;
        let mut blocks: Vec<BlockPointer> = bpobj::entries(&bytes).collect();
        blocks.reverse();
        object.free_range(self.tx, first * size, u64::MAX)?;
        header.entries = first;
        let each = blocks.iter().map(|block| self.dsl.space_of_block(block));
        let space = each.fold(SpaceTriple::default(), SpaceTriple::plus);
        add_space(&mut header, space, -1);
        self.store_list(object, &header)?;
        for above in path.iter().rev().skip(1) {
            let object = self.mos().object(*above)?;
            let mut header = header_of(&object)?;
            add_space(&mut header, space, -1);
            self.store_list(&object, &header)?;
        }
        Ok(blocks)
    }
}
