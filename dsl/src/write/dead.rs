//! Changing deadlists (format/3a 4).
//!
//! Blocks that die while a snapshot still holds them are sorted into the deadlist's entries by
//! their birth. Making and destroying snapshots moves whole entries, and no block is read for it:
//! the module above ([`super`]) has the drawing.

use super::accounting::{SpaceChange, changed};
use super::context::SyncContext;
use super::metadata::number_key;
use crate::deadlist::{Deadlist, DeadlistEntry, SpaceTriple};
use crate::error::DslError;
use cenote_base::{ObjectId, Txg};
use cenote_dmu::zap::NewZap;
use cenote_dmu::{NewObject, Zap};
use cenote_ondisk::deadlist::DeadlistHeader;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::BTreeMap;

impl SyncContext<'_> {
    /// Makes a deadlist with these keys, each with an empty list.
    pub(crate) fn create_deadlist(&self, txgs: &[Txg]) -> Result<ObjectId, DslError> {
        let empty = DeadlistHeader::default().encode().to_vec();
        let new = NewObject::new(ObjectType::DEADLIST, 512)
            .with_bonus(ObjectType::DEADLIST_HEADER, empty);
        let object = self.mos().allocate(self.tx, new)?;
        Zap::initialize(&object, self.tx, NewZap::default())?;
        let id = object.id();
        for (txg, list) in txgs.iter().zip(self.create_empty_lists(txgs.len())?) {
            self.set_number(id, &number_key(txg.0), list.0)?;
        }
        Ok(id)
    }

    /// Makes a deadlist with the keys of another that are before `limit`.
    pub(crate) fn clone_deadlist(&self, of: ObjectId, limit: Txg) -> Result<ObjectId, DslError> {
        let entries = self.deadlist_entries(of)?;
        let before = entries.iter().map(|entry| entry.key);
        let txgs: Vec<Txg> = before.filter(|key| *key < limit).collect();
        self.create_deadlist(&txgs)
    }

    pub(crate) fn deadlist_entries(
        &self,
        deadlist: ObjectId,
    ) -> Result<Vec<DeadlistEntry>, DslError> {
        let open = Deadlist::open(self.dsl, deadlist)?;
        let problem = "a deadlist of a pool before version 26 cannot be written";
        let entries = open
            .entries()
            .ok_or(DslError::structure(deadlist, problem))?;
        Ok(entries.to_vec())
    }

    pub(super) fn change_totals(
        &self,
        deadlist: ObjectId,
        change: SpaceChange,
    ) -> Result<(), DslError> {
        let object = self.mos().object(deadlist)?;
        let header = DeadlistHeader::decode(&object.dnode().bonus);
        let mut header = header.map_err(|source| DslError::decode(deadlist, source))?;
        header.used_bytes = changed(header.used_bytes, change.used);
        header.compressed_bytes = changed(header.compressed_bytes, change.compressed);
        header.uncompressed_bytes = changed(header.uncompressed_bytes, change.uncompressed);
        object.set_bonus(
            self.tx,
            ObjectType::DEADLIST_HEADER,
            header.encode().to_vec(),
        )?;
        Ok(())
    }

    /// Puts dead blocks into a deadlist.
    pub(crate) fn bury(&self, deadlist: ObjectId, blocks: &[BlockPointer]) -> Result<(), DslError> {
        self.enter_blocks(deadlist, blocks, false)
    }

    /// Puts blocks into a deadlist or livelist; `freed` marks frees in livelists, which count
    /// negatively.
    pub(super) fn enter_blocks(
        &self,
        deadlist: ObjectId,
        blocks: &[BlockPointer],
        freed: bool,
    ) -> Result<(), DslError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let entries = self.deadlist_entries(deadlist)?;
        let mut sorted: BTreeMap<usize, Vec<BlockPointer>> = BTreeMap::new();
        for block in blocks {
            let birth = block.accounting_birth();
            let above = entries.partition_point(|entry| entry.key < birth);
            let problem = "a block is older than all of its dataset's list";
            let index = above.checked_sub(1);
            let index = index.ok_or(DslError::structure(deadlist, problem))?;
            sorted.entry(index).or_default().push(*block);
        }
        let mut sum = SpaceTriple::default();
        for (index, blocks) in sorted {
            let list = self.own_list(deadlist, &entries[index])?;
            sum = sum.plus(self.append_blocks(list, &blocks, freed)?);
        }
        let sum = SpaceChange::from(sum);
        self.change_totals(deadlist, if freed { sum.negated() } else { sum })
    }

    /// The list of an entry; the shared empty one is replaced by one that can be written.
    fn own_list(&self, deadlist: ObjectId, entry: &DeadlistEntry) -> Result<ObjectId, DslError> {
        if Some(entry.bpobj) != self.empty_list()? {
            return Ok(entry.bpobj);
        }
        let list = self.create_list()?;
        self.set_number(deadlist, &number_key(entry.key.0), list.0)?;
        self.drop_empty_list()?;
        Ok(list)
    }

    /// Divides a deadlist no longer at a txg, if it did: what stood there joins the entry before.
    pub(crate) fn remove_deadlist_key(&self, deadlist: ObjectId, txg: Txg) -> Result<(), DslError> {
        let mut entries = self.deadlist_entries(deadlist)?;
        let Some(index) = entries.iter().position(|entry| entry.key == txg) else {
            return Ok(());
        };
        let problem = "a deadlist loses its first entry";
        let before = index.checked_sub(1);
        let before = before.ok_or(DslError::structure(deadlist, problem))?;
        self.remove_entry(deadlist, &number_key(txg.0))?;
        let list = entries[index].bpobj;
        self.join_entry(deadlist, &mut entries[before], list)?;
        Ok(())
    }

    /// Puts a list into an entry of a deadlist; the totals are the caller's matter.
    fn join_entry(
        &self,
        deadlist: ObjectId,
        entry: &mut DeadlistEntry,
        list: ObjectId,
    ) -> Result<SpaceTriple, DslError> {
        if Some(entry.bpobj) != self.empty_list()? {
            return self.append_list(entry.bpobj, list);
        }
        // The list takes the empty one's place; it may be the empty one itself.
        let space = Deadlist::totals_of(self.dsl, list)?;
        if list != entry.bpobj {
            self.set_number(deadlist, &number_key(entry.key.0), list.0)?;
            entry.bpobj = list;
        }
        self.drop_empty_list()?;
        Ok(space)
    }

    /// Moves all that is in `from` into `deadlist`, by its birth, and frees `from`.
    pub(crate) fn merge_deadlist(
        &self,
        deadlist: ObjectId,
        from: ObjectId,
    ) -> Result<(), DslError> {
        let mut sum = SpaceTriple::default();
        let mut entries = self.deadlist_entries(deadlist)?;
        for moved in self.deadlist_entries(from)? {
            let above = entries.partition_point(|entry| entry.key <= moved.key);
            let problem = "a deadlist is merged into one that is younger";
            let index = above.checked_sub(1);
            let index = index.ok_or(DslError::structure(deadlist, problem))?;
            sum = sum.plus(self.join_entry(deadlist, &mut entries[index], moved.bpobj)?);
        }
        self.change_totals(deadlist, SpaceChange::from(sum))?;
        self.destroy_object(from)
    }

    /// Moves the blocks of a deadlist that were born after a txg, one of its keys, into a list.
    pub(crate) fn move_dead_after(
        &self,
        deadlist: ObjectId,
        after: Txg,
        list: ObjectId,
    ) -> Result<SpaceTriple, DslError> {
        let mut sum = SpaceTriple::default();
        for entry in self.deadlist_entries(deadlist)? {
            if entry.key >= after {
                self.remove_entry(deadlist, &number_key(entry.key.0))?;
                sum = sum.plus(self.append_list(list, entry.bpobj)?);
            }
        }
        self.change_totals(deadlist, SpaceChange::from(sum).negated())?;
        Ok(sum)
    }

    /// Frees a deadlist and its lists; the blocks in them are somebody else's.
    pub(crate) fn destroy_deadlist(&self, deadlist: ObjectId) -> Result<(), DslError> {
        for entry in self.deadlist_entries(deadlist)? {
            self.destroy_list(entry.bpobj)?;
        }
        self.destroy_object(deadlist)
    }
}
