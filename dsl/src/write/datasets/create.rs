//! Making datasets (format/3a 7).

use crate::dataset::DatasetType;
use crate::directory::Directory;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::property::stored::Stored;
use crate::write::context::{SyncContext, SyncTask};
use crate::write::keys::encryption::Encryption;
use crate::write::open_head::Head;
use crate::write::policy::HeadPolicy;
use crate::write::pool::metadata::number_key;
use crate::write::properties::Setting;
use cenote_base::{Guid, ObjectId, ObjsetId, Txg};
use cenote_dmu::{CreateParams, ObjectSet, Transaction};
use cenote_io::ObjsetKeys;
use cenote_ondisk::ObjectType;
use cenote_ondisk::dsl_dataset::{
    DslDataset, FLAG_CASE_INSENSITIVE, FLAG_INCONSISTENT, FLAG_UNIQUE_ACCURATE, FSID_BITS,
};
use cenote_ondisk::dsl_dir::{DslDir, FLAG_USED_BREAKDOWN};
use cenote_ondisk::features;
use cenote_ondisk::objset::{
    FLAG_PROJECT_QUOTA_COMPLETE, FLAG_USER_ACCOUNTING_COMPLETE,
    FLAG_USER_OBJECT_ACCOUNTING_COMPLETE, ObjsetKind,
};
use cenote_ondisk::uberblock::TXG_INITIAL;
use std::sync::Arc;

/// Accounting that depends on a feature.
const ACCOUNTING_FEATURES: [(&str, u64); 2] = [
    (
        features::USEROBJ_ACCOUNTING,
        FLAG_USER_OBJECT_ACCOUNTING_COMPLETE,
    ),
    (features::PROJECT_QUOTA, FLAG_PROJECT_QUOTA_COMPLETE),
];

/// Fills a new object set with what makes it a file system or volume.
pub type Format = Box<dyn FnOnce(&Arc<ObjectSet>, &Transaction) -> Result<(), DslError> + Send>;

/// Makes a file system or volume.
pub struct CreateDataset {
    /// The new dataset.
    pub name: DatasetName,
    /// What it is.
    pub kind: ObjsetKind,
    /// Properties set on it from the start.
    pub properties: Vec<Setting>,
    /// Whether it is encrypted, and by whose key.
    pub encryption: Encryption,
    /// Fills its object set; taken when the task runs.
    pub format: Option<Format>,
    /// Its number once it is made.
    pub created: Option<ObjectId>,
}

impl SyncTask for CreateDataset {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let parent = context.check_new_dataset(&self.name, &self.properties)?;
        context.plan_encryption(&self.name, Some(&parent), &self.encryption)?;
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let above = context.parent_of(&self.name)?;
        let parent = above.id();
        let plan = context.plan_encryption(&self.name, Some(&above), &self.encryption)?;
        let component = self.name.components().last().unwrap_or_default().to_owned();
        let directory = context.create_directory(Some(parent), component.as_bytes())?;
        let origin = context.dsl.origin_snapshot();
        let id = context.create_head(directory, origin)?;
        let dataset = context.dsl.dataset_of(id)?;
        for setting in &self.properties {
            context.account_setting(&dataset, setting)?;
        }
        context.apply_settings(directory, &self.properties)?;
        context.change_counts(Some(parent), 1, 0)?;
        let format = self.format.take();
        let keys = plan.map(|plan| context.create_keys(directory, id, &plan));
        context.format_head(id, self.kind, keys.transpose()?, format)?;
        self.created = Some(id);
        Ok(())
    }
}

/// Refuses what cannot have `name` below it.
pub(crate) fn check_parent(parent: &Arc<Directory>, name: &DatasetName) -> Result<(), DslError> {
    let kind = parent.head()?.map(|head| head.dataset_type()).transpose()?;
    match kind {
        Some(DatasetType::Volume) => Err(DslError::ParentNotFilesystem { name: name.clone() }),
        _ => Ok(()),
    }
}

/// What is made in a pool's first group counts as made before all others (format/3a 1).
fn creation_txg(txg: Txg) -> Txg {
    match txg == TXG_INITIAL {
        true => Txg(1),
        false => txg,
    }
}

impl SyncContext<'_> {
    /// The directory that is to have a new dataset below it.
    pub(crate) fn parent_of(&self, name: &DatasetName) -> Result<Arc<Directory>, DslError> {
        let missing = || DslError::NoParent { name: name.clone() };
        let above = name.parent().ok_or_else(missing)?;
        let directory = self.dsl.directory(&above)?.ok_or_else(missing)?;
        match directory.phys().head_dataset {
            Some(_) => Ok(directory),
            None => Err(missing()),
        }
    }

    /// Refuses a dataset that cannot be made; returns the directory above it.
    pub(crate) fn check_new_dataset(
        &self,
        name: &DatasetName,
        properties: &[Setting],
    ) -> Result<Arc<Directory>, DslError> {
        if self.dsl.directory(name)?.is_some() {
            return Err(DslError::DatasetExists { name: name.clone() });
        }
        let parent = self.parent_of(name)?;
        check_parent(&parent, name)?;
        self.check_limits(parent.id(), 1, 0)?;
        for setting in properties {
            self.check_feature(setting)?;
        }
        let room = parent.available()?;
        let reserved = properties.iter().filter_map(|setting| {
            let is_reservation = matches!(setting.name.as_str(), "reservation" | "refreservation");
            match setting.value {
                Some(Stored::Number(bytes)) if is_reservation => Some(bytes),
                _ => None,
            }
        });
        match reserved.max().is_some_and(|bytes| bytes > room) {
            true => Err(DslError::NoSpaceFor { name: name.clone() }),
            false => Ok(parent),
        }
    }

    /// Makes a directory and hangs it into its parent's; the root goes nowhere.
    pub fn create_directory(
        &self,
        parent: Option<ObjectId>,
        component: &[u8],
    ) -> Result<ObjectId, DslError> {
        let id =
            self.create_bonus_object(ObjectType::DSL_DIR, DslDir::default().encode().into())?;
        let phys = DslDir {
            creation_time: self.seconds(),
            parent,
            properties: self.create_table(ObjectType::DSL_PROPS)?,
            child_map: self.create_table(ObjectType::DSL_DIR_CHILD_MAP)?,
            flags: FLAG_USED_BREAKDOWN,
            ..DslDir::default()
        };
        self.store_directory(id, &phys)?;
        self.begin_counts(id)?;
        if let Some(parent) = parent {
            let children = self.directory(parent)?.child_map;
            self.set_number(children, component, id.0)?;
        }
        Ok(id)
    }

    /// Makes the head of a directory as a clone of `origin`, which is `$ORIGIN@$ORIGIN` for what
    /// users do not call a clone.
    pub fn create_head(
        &self,
        directory: ObjectId,
        origin: Option<ObjectId>,
    ) -> Result<ObjectId, DslError> {
        let empty = DslDataset::default().encode().to_vec();
        let id = self.create_bonus_object(ObjectType::DSL_DATASET, empty)?;
        self.dsl.forget_dataset(id);
        let mut phys = DslDataset {
            directory,
            snapshot_names: Some(self.create_table(ObjectType::DSL_DATASET_SNAP_MAP)?),
            creation_time: self.seconds(),
            creation_txg: creation_txg(self.txg()),
            guid: Guid(self.random_guid()?),
            fsid_guid: self.random_guid()? & ((1 << FSID_BITS) - 1),
            flags: FLAG_UNIQUE_ACCURATE,
            ..DslDataset::default()
        };
        match origin {
            None => phys.deadlist = self.create_deadlist(&[Txg(0)])?,
            Some(origin) => {
                let (_, snapshot) = self.dsl.read_dataset(origin)?;
                phys.previous_snapshot = Some(origin);
                phys.previous_snapshot_txg = snapshot.creation_txg;
                phys.referenced_bytes = snapshot.referenced_bytes;
                phys.compressed_bytes = snapshot.compressed_bytes;
                phys.uncompressed_bytes = snapshot.uncompressed_bytes;
                phys.block_pointer = snapshot.block_pointer;
                phys.flags |= snapshot.flags & (FLAG_INCONSISTENT | FLAG_CASE_INSENSITIVE);
                let head = self.directory(snapshot.directory)?.head_dataset;
                let problem = "the origin's directory has no head";
                let head = head.ok_or(DslError::structure(snapshot.directory, problem))?;
                let (_, head) = self.dsl.read_dataset(head)?;
                phys.deadlist = self.clone_deadlist(head.deadlist, snapshot.creation_txg)?;
            }
        }
        self.store_dataset(id, &phys)?;
        if let Some(origin) = origin {
            self.link_clone(origin, id)?;
        }
        self.change_directory(directory, |phys| {
            phys.origin = origin;
            phys.head_dataset = Some(id);
        })?;
        Ok(id)
    }

    /// Enters a clone's head into the tables of its origin.
    fn link_clone(&self, origin: ObjectId, clone: ObjectId) -> Result<(), DslError> {
        let (_, mut snapshot) = self.dsl.read_dataset(origin)?;
        let next_clones = match snapshot.next_clones {
            Some(table) => table,
            None => self.create_table(ObjectType::NEXT_CLONES)?,
        };
        snapshot.next_clones = Some(next_clones);
        snapshot.children = snapshot.children.saturating_add(1);
        self.store_dataset(origin, &snapshot)?;
        self.set_number(next_clones, &number_key(clone.0), clone.0)?;
        let mut directory = self.directory(snapshot.directory)?;
        let clones = match directory.clones {
            Some(table) => table,
            None => self.create_table(ObjectType::DSL_DIR_CLONES)?,
        };
        directory.clones = Some(clones);
        self.store_directory(snapshot.directory, &directory)?;
        self.set_number(clones, &number_key(clone.0), clone.0)
    }

    /// Takes a clone's head out of the tables of its origin.
    pub(crate) fn unlink_clone(&self, origin: ObjectId, clone: ObjectId) -> Result<(), DslError> {
        let (_, mut snapshot) = self.dsl.read_dataset(origin)?;
        snapshot.children = snapshot.children.saturating_sub(1);
        self.store_dataset(origin, &snapshot)?;
        if let Some(table) = snapshot.next_clones {
            self.remove_entry(table, &number_key(clone.0))?;
        }
        let directory = self.directory(snapshot.directory)?;
        match directory.clones {
            Some(table) => self.remove_entry(table, &number_key(clone.0)),
            None => Ok(()),
        }
    }

    /// Makes the object set of a new head, with its keys if it is encrypted, and writes it.
    pub fn format_head(
        &self,
        id: ObjectId,
        kind: ObjsetKind,
        keys: Option<Arc<ObjsetKeys>>,
        format: Option<Format>,
    ) -> Result<(), DslError> {
        let dataset = self.dsl.dataset_of(id)?;
        let cache = Arc::clone(self.mos().cache());
        let params = CreateParams {
            flags: self.accounting_flags(id, kind)?,
        };
        let set = ObjectSet::create(cache, ObjsetId(id.0), kind, keys, None, params);
        if let Some(format) = format {
            let transaction = Transaction::syncing(self.txg());
            format(&set, &transaction)?;
        }
        let policy = HeadPolicy::of(&dataset)?;
        let directory = dataset.directory().id();
        Head::new(id, directory, &set, policy).sync(self)
    }

    /// Which accounting a new object set has from its start (format/3b 10), noted as features of
    /// its dataset.
    fn accounting_flags(&self, id: ObjectId, kind: ObjsetKind) -> Result<u64, DslError> {
        if kind != ObjsetKind::Zfs {
            return Ok(0);
        }
        let mut flags = FLAG_USER_ACCOUNTING_COMPLETE;
        for (guid, flag) in ACCOUNTING_FEATURES {
            if self.dsl.features().get(guid).is_some() {
                flags |= flag;
                self.use_dataset_feature(id, guid)?;
            }
        }
        Ok(flags)
    }
}
