//! Changing deadlists (format/3a 4).
//!
//! Blocks that die while a snapshot still holds them are sorted into the deadlist's entries by
//! their birth. Making and destroying snapshots moves whole entries, and no block is read for it:
//! the module above ([`super`]) has the drawing.
//!
//! A deadlist has as many entries as there are older snapshots. A task that destroys many
//! snapshots of one dataset would read the same few deadlists again for each of them, so it keeps
//! their entries in memory ([`OpenDeadlists`]); what it changes it also writes at once.

use super::accounting::{SpaceChange, changed};
use crate::deadlist::{Deadlist, DeadlistEntry, SpaceTriple};
use crate::error::DslError;
use crate::write::context::SyncContext;
use crate::write::pool::metadata::number_key;
use cenote_base::{ObjectId, Txg};
use cenote_dmu::zap::NewZap;
use cenote_dmu::{NewObject, Zap};
use cenote_ondisk::deadlist::DeadlistHeader;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::BTreeMap;

/// Deadlists whose entries are kept: of a snapshot, the one after it and the head.
const OPEN_MAX: usize = 4;

/// The deadlists that one task works with. Nothing else may change them meanwhile.
#[derive(Debug)]
pub(crate) struct OpenDeadlists {
    /// The list used last comes last.
    open: Vec<(ObjectId, Vec<DeadlistEntry>)>,
    /// The shared list that is always empty.
    empty: Option<ObjectId>,
    /// References to it that were given back and are still counted.
    dropped: i64,
}

impl OpenDeadlists {
    /// Takes a deadlist's entries out: they are changed elsewhere, or the deadlist is destroyed.
    fn take(
        &mut self,
        context: &SyncContext<'_>,
        deadlist: ObjectId,
    ) -> Result<Vec<DeadlistEntry>, DslError> {
        match self.open.iter().position(|(id, _)| *id == deadlist) {
            Some(index) => Ok(self.open.remove(index).1),
            None => context.deadlist_entries(deadlist),
        }
    }

    fn put(&mut self, deadlist: ObjectId, entries: Vec<DeadlistEntry>) {
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push((deadlist, entries));
    }

    /// A deadlist's entries, in order of key.
    pub fn entries(
        &mut self,
        context: &SyncContext<'_>,
        deadlist: ObjectId,
    ) -> Result<&[DeadlistEntry], DslError> {
        let entries = self.take(context, deadlist)?;
        self.put(deadlist, entries);
        Ok(self.open.last().map_or(&[], |(_, entries)| entries))
    }

    fn is_empty_list(&self, list: ObjectId) -> bool {
        Some(list) == self.empty
    }
}

impl SyncContext<'_> {
    /// Makes a deadlist with these keys, each with an empty list.
    pub(crate) fn create_deadlist(&self, txgs: &[Txg]) -> Result<ObjectId, DslError> {
        assert!(
            txgs.windows(2).all(|two| two[0] < two[1]),
            "a deadlist has one entry for each snapshot, in order: {txgs:?}"
        );
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

    pub(crate) fn change_totals(
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
    pub(crate) fn enter_blocks(
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

    /// No deadlists yet, for a task that will open some.
    pub(crate) fn open_deadlists(&self) -> Result<OpenDeadlists, DslError> {
        Ok(OpenDeadlists {
            open: Vec::new(),
            empty: self.empty_list()?,
            dropped: 0,
        })
    }

    /// Ends a task's work with deadlists.
    pub(crate) fn close_deadlists(&self, lists: OpenDeadlists) -> Result<(), DslError> {
        self.drop_empty_lists(lists.dropped)
    }

    /// Divides a deadlist no longer at a txg, if it did: what stood there joins the entry before.
    pub(crate) fn remove_deadlist_key(
        &self,
        lists: &mut OpenDeadlists,
        deadlist: ObjectId,
        txg: Txg,
    ) -> Result<(), DslError> {
        let mut entries = lists.take(self, deadlist)?;
        if let Ok(index) = entries.binary_search_by_key(&txg, |entry| entry.key) {
            let problem = "a deadlist loses its first entry";
            let before = index.checked_sub(1);
            let before = before.ok_or(DslError::structure(deadlist, problem))?;
            self.remove_entry(deadlist, &number_key(txg.0))?;
            let moved = entries.remove(index);
            self.join_entry(lists, deadlist, &mut entries[before], &moved)?;
        }
        lists.put(deadlist, entries);
        Ok(())
    }

    /// Puts the list of an entry into another one, of this deadlist; the totals are the caller's
    /// matter.
    fn join_entry(
        &self,
        lists: &mut OpenDeadlists,
        deadlist: ObjectId,
        entry: &mut DeadlistEntry,
        moved: &DeadlistEntry,
    ) -> Result<SpaceTriple, DslError> {
        if lists.is_empty_list(moved.bpobj) {
            lists.dropped += 1;
            return Ok(SpaceTriple::default());
        }
        let space = match lists.is_empty_list(entry.bpobj) {
            // The list takes the empty one's place.
            true => {
                self.set_number(deadlist, &number_key(entry.key.0), moved.bpobj.0)?;
                entry.bpobj = moved.bpobj;
                lists.dropped += 1;
                moved.space
            }
            false => self.append_list(entry.bpobj, moved.bpobj)?,
        };
        entry.space = entry.space.plus(space);
        Ok(space)
    }

    /// Moves all that is in `from` into `deadlist`, by its birth, and frees `from`.
    pub(crate) fn merge_deadlist(
        &self,
        lists: &mut OpenDeadlists,
        deadlist: ObjectId,
        from: ObjectId,
    ) -> Result<(), DslError> {
        let mut sum = SpaceTriple::default();
        let mut entries = lists.take(self, deadlist)?;
        for moved in lists.take(self, from)? {
            let above = entries.partition_point(|entry| entry.key <= moved.key);
            let problem = "a deadlist is merged into one that is younger";
            let index = above.checked_sub(1);
            let index = index.ok_or(DslError::structure(deadlist, problem))?;
            sum = sum.plus(self.join_entry(lists, deadlist, &mut entries[index], &moved)?);
        }
        lists.put(deadlist, entries);
        self.change_totals(deadlist, SpaceChange::from(sum))?;
        self.destroy_object(from)
    }

    /// Moves the blocks of a deadlist that were born after a txg, one of its keys, into a list.
    pub(crate) fn move_dead_after(
        &self,
        lists: &mut OpenDeadlists,
        deadlist: ObjectId,
        after: Txg,
        list: ObjectId,
    ) -> Result<SpaceTriple, DslError> {
        let mut sum = SpaceTriple::default();
        let mut entries = lists.take(self, deadlist)?;
        let first = entries.partition_point(|entry| entry.key < after);
        for entry in entries.split_off(first) {
            self.remove_entry(deadlist, &number_key(entry.key.0))?;
            match lists.is_empty_list(entry.bpobj) {
                true => lists.dropped += 1,
                false => sum = sum.plus(self.append_list(list, entry.bpobj)?),
            }
        }
        lists.put(deadlist, entries);
        self.change_totals(deadlist, SpaceChange::from(sum).negated())?;
        Ok(sum)
    }

    /// Frees a deadlist and its lists. The blocks in them belong to other datasets.
    pub(crate) fn destroy_deadlist(&self, deadlist: ObjectId) -> Result<(), DslError> {
        let empty = self.empty_list()?;
        let entries = self.deadlist_entries(deadlist)?;
        let (shared, own): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .partition(|entry| Some(entry.bpobj) == empty);
        for entry in own {
            self.destroy_list(entry.bpobj)?;
        }
        self.drop_empty_lists(i64::try_from(shared.len()).unwrap_or(i64::MAX))?;
        self.destroy_object(deadlist)
    }
}
