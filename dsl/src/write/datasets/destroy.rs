//! Destroying datasets (format/3a 7 and 8).
//!
//! A dataset leaves the tree at once, and its blocks are freed in the background. The root of its
//! object set is added to a queue, the bptree. Each transaction group frees a part of it, and a
//! crash at any point is safe. For a clone with a livelist, the livelist is queued instead
//! ([`crate::write::blocks::livelist`]). A pool without the feature for that queue frees all blocks
//! in the group that destroys the dataset, however long it takes.

use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::object_directory::keys;
use crate::property::table::Property;
use crate::write::blocks::accounting::{Part, SpaceChange, signed};
use crate::write::context::{SyncContext, SyncTask};
use crate::write::pool::metadata::number_key;
use cenote_base::ObjectId;
use cenote_dmu::NewObject;
use cenote_ondisk::ObjectType;
use cenote_ondisk::bptree::{BptreeEntry, BptreeHeader, ENTRY_SIZE};
use cenote_ondisk::crypto_key::entries;
use cenote_ondisk::features;

const BPTREE_BLOCK_SIZE: u64 = 128 << 10;

/// Destroys a head that has neither snapshots nor children.
#[derive(Debug)]
pub struct DestroyDataset {
    /// The dataset.
    pub name: DatasetName,
}

impl SyncTask for DestroyDataset {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let head = context.dsl.dataset(&self.name)?;
        let name = || self.name.clone();
        if head.is_snapshot() {
            return Err(DslError::NotADataset { object: head.id() });
        }
        if head.directory().parent().is_none() {
            return Err(DslError::RootDataset { name: name() });
        }
        if context.dsl.is_head_in_use(head.id()) {
            return Err(DslError::Busy { name: name() });
        }
        if head.directory().child_count()? > 0 {
            return Err(DslError::HasChildren { name: name() });
        }
        if !head.snapshots()?.is_empty() {
            return Err(DslError::HasSnapshots { name: name() });
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let head = context.dsl.dataset(&self.name)?;
        let origin = head.directory().origin();
        context.forget_boot_file_system(head.id())?;
        context.destroy_head(&head)?;
        context.destroy_directory(&head)?;
        context.dsl.forget_names();
        // It may have been the last clone of a snapshot that was only kept for it.
        origin.map_or(Ok(()), |origin| context.destroy_if_deferred(origin))
    }
}

impl SyncContext<'_> {
    fn destroy_head(&self, head: &Dataset) -> Result<(), DslError> {
        let directory = head.directory().id();
        let phys = head.phys();
        let reserved = head.stored_number(Property::RefReservation)?;
        let unused = signed(reserved.saturating_sub(phys.unique_bytes));
        let returned = SpaceChange::of_used(-unused);
        self.use_space(directory, Part::Refreservation, returned)?;
        self.destroy_bookmarks(head.id())?;
        self.forget_dataset_features(head.id())?;
        self.destroy_deadlist(phys.deadlist)?;
        // The object set's tree does not lead to the log, which is beside it.
        self.free_log_of(head)?;
        self.free_contents(head)?;
        self.remove_head(head)
    }

    /// Takes a head out of all tables once its contents are seen to.
    pub(crate) fn remove_head(&self, head: &Dataset) -> Result<(), DslError> {
        let (directory, phys) = (head.directory().id(), head.phys());
        if let Some(origin) = phys.previous_snapshot {
            self.unlink_clone(origin, head.id())?;
        }
        self.change_directory(directory, |phys| phys.head_dataset = None)?;
        if let Some(names) = phys.snapshot_names {
            self.destroy_object(names)?;
        }
        self.forget_errors(head.id())?;
        self.scan_without(head.id(), None)?;
        self.dsl.forget_dataset(head.id());
        self.destroy_extensible(head.id())
    }

    /// Frees a head's blocks, or queues them for later groups.
    fn free_contents(&self, head: &Dataset) -> Result<(), DslError> {
        let phys = self.directory(head.directory().id())?;
        let space = SpaceChange {
            used: signed(phys.breakdown.head),
            compressed: signed(phys.compressed_bytes),
            uncompressed: signed(phys.uncompressed_bytes),
        };
        let directory = head.directory().id();
        match self.give_up_livelist(directory)? {
            true => self.use_space(directory, Part::Head, space.negated()),
            false => self.free_tree(head, space),
        }
    }

    /// Frees the blocks that a head has and its previous snapshot has not, which take `space`.
    pub(crate) fn free_tree(&self, head: &Dataset, space: SpaceChange) -> Result<(), DslError> {
        let directory = head.directory().id();
        self.use_space(directory, Part::Head, space.negated())?;
        let phys = head.phys();
        match self.dsl.features().get(features::ASYNC_DESTROY) {
            _ if phys.block_pointer.is_hole() => Ok(()),
            Some(_) => self.queue_for_freeing(head, space),
            None => self.free_at_once(&phys.block_pointer, phys.previous_snapshot_txg),
        }
    }

    /// Takes a head's damaged blocks off the record, where that is kept by head (format/1b 7).
    fn forget_errors(&self, head: ObjectId) -> Result<(), DslError> {
        if !self.dsl.features().is_active(features::HEAD_ERRLOG) {
            return Ok(());
        }
        for key in [keys::ERROR_LOG_LAST, keys::ERROR_LOG_SCRUB] {
            let log = self.dsl.object_directory().object(key)?;
            let Some(log) = log.filter(|log| log.0 != 0) else {
                continue;
            };
            let own = self.mos().zap(log)?.lookup(&number_key(head.0))?;
            if let Some(own) = own.and_then(|value| value.as_u64()) {
                self.destroy_object(ObjectId(own))?;
                self.remove_entry(log, &number_key(head.0))?;
            }
        }
        Ok(())
    }

    /// Hands a head's blocks to the queue and their space to `$FREE`.
    fn queue_for_freeing(&self, head: &Dataset, space: SpaceChange) -> Result<(), DslError> {
        let free = self.hidden_directory("$FREE")?;
        self.use_space(free, Part::Head, space)?;
        let queue = match self.dsl.object_directory().object(keys::BPTREE)? {
            Some(queue) => queue,
            None => {
                let empty = BptreeHeader::default().encode().to_vec();
                let new = NewObject::new(ObjectType::UINT64_METADATA, BPTREE_BLOCK_SIZE)
                    .with_bonus(ObjectType::UINT64_METADATA, empty);
                let queue = self.mos().allocate(self.tx, new)?.id();
                self.set_directory_number(keys::BPTREE, queue.0)?;
                self.feature_changed(features::ASYNC_DESTROY, 1)?;
                queue
            }
        };
        let object = self.mos().object(queue)?;
        let mut header = self.queue_header(queue)?;
        let entry = BptreeEntry {
            block_pointer: head.phys().block_pointer,
            birth_txg: head.phys().previous_snapshot_txg,
            resume: None,
        };
        object.write(self.tx, header.end * ENTRY_SIZE as u64, &entry.encode())?;
        header.end = header.end.saturating_add(1);
        header.bytes = header.bytes.saturating_add_signed(space.used);
        let sum = header
            .compressed_bytes
            .saturating_add_signed(space.compressed);
        header.compressed_bytes = sum;
        let sum = header
            .uncompressed_bytes
            .saturating_add_signed(space.uncompressed);
        header.uncompressed_bytes = sum;
        object.set_bonus(
            self.tx,
            ObjectType::UINT64_METADATA,
            header.encode().to_vec(),
        )?;
        Ok(())
    }

    pub(crate) fn queue_header(&self, queue: ObjectId) -> Result<BptreeHeader, DslError> {
        BptreeHeader::decode(&self.mos().object(queue)?.dnode().bonus)
            .map_err(|source| DslError::decode(queue, source))
    }

    /// One of the directories that only account space.
    pub(crate) fn hidden_directory(&self, name: &'static str) -> Result<ObjectId, DslError> {
        let root = self.dsl.root()?;
        let found = root.child(name.as_bytes())?;
        let missing = DslError::MissingEntry { key: name };
        Ok(found.ok_or(missing)?.id())
    }

    pub(crate) fn destroy_directory(&self, head: &Dataset) -> Result<(), DslError> {
        let directory = head.directory();
        let id = directory.id();
        let parent = directory.parent().expect("checked not to be the root");
        let name = directory.name().last_component();
        if !name.starts_with('$') && !name.starts_with('%') {
            self.change_counts(Some(parent.id()), -1, 0)?;
        }
        self.change_reservation(id, 0)?;
        self.release_crypto_key(directory)?;
        let phys = self.directory(id)?;
        self.destroy_object(phys.child_map)?;
        self.destroy_object(phys.properties)?;
        if let Some(clones) = phys.clones {
            self.destroy_object(clones)?;
        }
        self.free_grants(&phys)?;
        let children = self.directory(parent.id())?.child_map;
        self.remove_entry(children, name.as_bytes())?;
        self.destroy_extensible(id)
    }

    /// Gives up a directory's share of its family's keys (format/2d 2).
    fn release_crypto_key(&self, directory: &crate::directory::Directory) -> Result<(), DslError> {
        let Some(key) = directory.crypto_key()? else {
            return Ok(());
        };
        match key.stored.references {
            0 | 1 => {
                self.dsl.keys().forget_family(key.object);
                if key.root() == directory.id() {
                    self.dsl.keys().forget_root(key.root());
                }
                self.destroy_object(key.object)
            }
            references => {
                let name = entries::REFERENCES.as_bytes();
                self.set_number(key.object, name, references - 1)
            }
        }
    }
}

impl Dsl {
    /// Whether blocks of destroyed datasets are still to be freed.
    pub fn is_freeing(&self) -> Result<bool, DslError> {
        let is_there = |key| Ok::<_, DslError>(self.object_directory().object(key)?.is_some());
        Ok(is_there(keys::BPTREE)? || is_there(keys::DELETED_CLONES)?)
    }
}
