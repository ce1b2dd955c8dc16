//! A received stream becomes a snapshot (format/4 7.3, "END").
//!
//! A new dataset already has the contents. The contents of `%recv` replace those of its dataset:
//! the old blocks are freed as in a rollback, and the dataset takes over the root, deadlist and
//! space of
//! `%recv`, all in one group. The empty `%recv` is then removed. At last the snapshot is created,
//! with the guid and time of the snapshot that was sent.
//!
//! `%recv` was accounted as a clone: its dead blocks belong to its origin and are not charged. Now
//! they are blocks that the dataset freed since its snapshot. So the sums of the snapshot and of
//! the directory are set as if the dataset itself had been written to.

use super::postponed::Postponed;
use crate::dataset::Dataset;
use crate::deadlist::Deadlist;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::property::table::Property;
use crate::write::blocks::accounting::{Part, SpaceChange, signed};
use crate::write::context::{SyncContext, SyncTask};
use crate::write::keys::received::{KeyOwner, NewWrapping};
use crate::write::properties::Setting;
use cenote_base::{Guid, ObjectId};
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_CASE_INSENSITIVE, FLAG_INCONSISTENT, fields};
use cenote_ondisk::stream::CryptKeydata;

/// Makes a snapshot of what was received.
#[derive(Debug)]
pub struct EndReceive {
    /// The dataset that the stream was for.
    pub name: DatasetName,
    /// The short name of the snapshot.
    pub snapshot: String,
    /// The head that was received into; it is not open any more.
    pub received: ObjectId,
    /// What the dataset has beyond the snapshot that the stream builds upon may go.
    pub force: bool,
    /// The guid of the snapshot.
    pub guid: Guid,
    /// Seconds since 1970 at which it was made.
    pub creation_time: u64,
    /// The set of IVs of a raw stream.
    pub ivset_guid: Option<Guid>,
    /// The keys of a raw stream, as its sender wraps them.
    pub keys: Option<Box<CryptKeydata>>,
    /// Whose user key wraps them there.
    pub key_owner: KeyOwner,
    /// Properties that came with the stream and cannot be, and why.
    pub refused: Vec<(String, DslError)>,
}

impl EndReceive {
    fn is_exchange(&self, target: &Dataset) -> bool {
        target.id() != self.received
    }

    /// The keys of the dataset, if they are to be wrapped as those of the stream.
    fn new_wrapping(
        &self,
        context: &SyncContext<'_>,
        target: &Dataset,
    ) -> Result<Option<NewWrapping>, DslError> {
        match &self.keys {
            Some(keys) => context.plan_wrapping(target, keys, self.key_owner),
            None => Ok(None),
        }
    }

    fn check_exchange(&self, context: &SyncContext<'_>, target: &Dataset) -> Result<(), DslError> {
        let (_, received) = context.dsl.read_dataset(self.received)?;
        let base = received.previous_snapshot;
        if target.phys().previous_snapshot != base {
            let name = target.name().clone();
            return Err(DslError::MoreRecent { name });
        }
        let newest = target.previous();
        let newest = newest.map(|id| context.dsl.dataset_of(id)).transpose()?;
        if !self.force && is_modified_since(target, newest.as_ref())? {
            let name = target.name().clone();
            return Err(DslError::Modified { name });
        }
        context.deadlist_entries(target.phys().deadlist)?;
        context.deadlist_entries(received.deadlist)?;
        self.new_wrapping(context, target)?;
        Ok(())
    }

    /// The properties that the dataset gets with the contents.
    fn postponed(&self, context: &SyncContext<'_>) -> Result<Postponed, DslError> {
        let received = context.dsl.dataset_of(self.received)?;
        Postponed::of(received.directory())
    }
}

impl SyncTask for EndReceive {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let target = context.dsl.dataset(&self.name)?;
        let name = || target.name().clone();
        for id in [target.id(), self.received] {
            if context.dsl.is_head_in_use(id) {
                return Err(DslError::Busy { name: name() });
            }
        }
        if let Some(snapshot) = target.snapshot(self.snapshot.as_bytes())? {
            let name = snapshot.name().clone();
            return Err(DslError::DatasetExists { name });
        }
        if target.phys().previous_snapshot_txg >= context.txg() {
            return Err(DslError::NextGroup { name: name() });
        }
        context.deadlist_entries(target.phys().deadlist)?;
        if self.is_exchange(&target) {
            self.check_exchange(context, &target)?;
        }
        let (_, received) = context.dsl.read_dataset(self.received)?;
        let mut postponed = self.postponed(context)?;
        self.refused = postponed.check(context, &target, received.referenced_bytes)?;
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let target = context.dsl.dataset(&self.name)?;
        let mut postponed = self.postponed(context)?;
        let is_refused = |setting: &Setting| {
            let mut refused = self.refused.iter();
            refused.any(|(name, _)| *name == setting.name)
        };
        postponed.received.retain(|setting| !is_refused(setting));
        if let Some(wrapping) = self.new_wrapping(context, &target)? {
            context.take_wrapping(target.directory().id(), &wrapping)?;
        }
        if self.is_exchange(&target) {
            let received = context.dsl.dataset_of(self.received)?;
            context.exchange(&target, &received)?;
        } else {
            context.forget_resume_state(&target)?;
        }
        context.change_dataset(target.id(), |phys| phys.flags &= !FLAG_INCONSISTENT)?;
        postponed.apply(context, &context.dsl.dataset(&self.name)?)?;
        let target = context.dsl.dataset(&self.name)?;
        let id = context.create_snapshot(&target, self.snapshot.as_bytes())?;
        context.change_dataset(id, |phys| {
            phys.guid = self.guid;
            phys.creation_time = self.creation_time;
        })?;
        if let Some(guid) = self.ivset_guid {
            context.set_extension(id, fields::IVSET_GUID, guid.0)?;
        }
        context.dsl.objsets.forget(target.id());
        Ok(())
    }
}

/// Whether a head has anything that one of its snapshots has not; without a snapshot, anything.
///
/// # Errors
/// If either cannot be read.
pub fn is_modified_since(head: &Dataset, snapshot: Option<&Dataset>) -> Result<bool, DslError> {
    let root = head.phys().block_pointer;
    let Some(snapshot) = snapshot else {
        return Ok(!root.is_hole());
    };
    if root.logical_birth() <= snapshot.phys().creation_txg {
        return Ok(false);
    }
    // A mount and an unmount write the object set, and change none of its objects.
    let (now, then) = (head.object_set()?, snapshot.object_set()?);
    Ok(now.header().meta_dnode.block_pointers != then.header().meta_dnode.block_pointers)
}

impl SyncContext<'_> {
    /// Gives `target` the contents of `received`, which is a clone of its newest snapshot or of
    /// nothing, and removes `received`.
    fn exchange(&self, target: &Dataset, received: &Dataset) -> Result<(), DslError> {
        let problem = "it has no snapshot before it";
        let base = target.phys().previous_snapshot;
        let base = base.ok_or(DslError::structure(target.id(), problem))?;
        let base = self.dsl.dataset_of(base)?;
        self.roll_back(target, &base)?;
        let received = self.dsl.dataset_of(received.id())?;
        self.drop_livelist(received.directory().id())?;
        let dead = Deadlist::open(self.dsl, received.phys().deadlist)?;
        self.move_own_space(target, &received)?;
        self.charge_dead(target, &base, &dead)?;
        let (_, old) = self.dsl.read_dataset(target.id())?;
        let new = received.phys();
        self.destroy_deadlist(old.deadlist)?;
        let ignores_case = new.flags & FLAG_CASE_INSENSITIVE;
        self.store_dataset(
            target.id(),
            &DslDataset {
                deadlist: new.deadlist,
                referenced_bytes: new.referenced_bytes,
                compressed_bytes: new.compressed_bytes,
                uncompressed_bytes: new.uncompressed_bytes,
                unique_bytes: new.unique_bytes,
                block_pointer: new.block_pointer,
                flags: old.flags & !FLAG_CASE_INSENSITIVE | ignores_case,
                ..old
            },
        )?;
        self.replace_dataset_features(target.id(), received.id())?;
        let txg = base.phys().creation_txg;
        self.recount_bookmarks(target.id(), txg, dead.totals())?;
        self.destroy_husk(&received)
    }

    /// Moves what a head has for itself to another, with the space that it takes.
    fn move_own_space(&self, target: &Dataset, received: &Dataset) -> Result<(), DslError> {
        let from = received.directory().id();
        let phys = self.directory(from)?;
        let own = SpaceChange {
            used: signed(phys.breakdown.head),
            compressed: signed(phys.compressed_bytes),
            uncompressed: signed(phys.uncompressed_bytes),
        };
        self.use_space(from, Part::Head, own.negated())?;
        let reserved = target.stored_number(Property::RefReservation)?;
        let after = received.phys().unique_bytes.max(reserved);
        let change = SpaceChange {
            used: signed(after) - signed(reserved),
            ..own
        };
        let (held, head) = (Part::Refreservation, Part::Head);
        self.transfer_space(target.directory().id(), change, own.used, held, head)
    }

    /// Charges a dataset's newest snapshot and its directory with what the head gave up.
    fn charge_dead(
        &self,
        target: &Dataset,
        base: &Dataset,
        dead: &Deadlist,
    ) -> Result<(), DslError> {
        let directory = target.directory().id();
        if base.directory().id() == directory {
            let before = base.phys().previous_snapshot_txg;
            let unique = dead.space_after(before).unwrap_or_default().used;
            self.change_dataset(base.id(), |phys| phys.unique_bytes = unique)?;
        }
        let shared = dead.space_after(self.origin_txg(directory)?);
        let shared = signed(shared.unwrap_or_default().used);
        self.move_space(directory, shared, Part::Head, Part::Snapshots)
    }

    /// Removes a head whose contents are another's now.
    fn destroy_husk(&self, head: &Dataset) -> Result<(), DslError> {
        self.destroy_bookmarks(head.id())?;
        self.forget_dataset_features(head.id())?;
        self.remove_head(head)?;
        self.destroy_directory(head)?;
        self.dsl.forget_names();
        Ok(())
    }
}
