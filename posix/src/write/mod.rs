//! Changing a file system.
//!
//! Each operation is one transaction, so that after a crash it has happened or not: an entry is
//! never without its object, nor a link count without its entries. An operation takes the locks of
//! the objects that it changes, reads them, begins its transaction, changes them, and invalidates
//! the caches of the reading side. Contents that do not fit one transaction are written in several.
//!
//! Access checks are not made here, nor are they for reading; what is checked is what keeps a
//! file system sound (names, kinds, loops) and what its attributes and quotas forbid.

mod access_list;
mod access_time;
mod attributes;
mod change;
mod clone;
mod create;
mod data;
mod default_quota;
mod delete_queue;
mod format;
mod legacy;
mod locks;
mod logged;
mod names;
mod nfs4;
mod operation;
mod owner;
mod owners;
mod quota;
mod recount;
mod rename;
pub(crate) mod replay;
mod store;
mod version;
mod xattr;

pub use access_time::AccessTimes;
pub use attributes::SetAttributes;
pub use clone::CopySource;
pub use create::NewFile;
pub use data::{FallocateMode, OpenMode, WriteOptions};
pub use delete_queue::HeldObject;
pub use format::{FormatParams, format_new};
pub use nfs4::{ListInheritance, ListMode};
pub use owner::PosixOwnerHook;
pub use rename::RenameMode;
pub use xattr::SetXattr;

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::master::QuotaObjects;
use crate::time::Timestamp;
use crate::znode::Znode;
use access_time::Reads;
use cenote_base::ObjectId;
use cenote_base::rt::{Job, Mutex, RwLock, ranks};
use cenote_dataset::{Commit, OpenDataset};
use cenote_dmu::{IoContext, Object, Transaction};
use change::{Change, Forgetful};
use locks::{Held, Locks};
use logged::LoggedFiles;
use owners::Owners;
use std::collections::HashMap;
use std::sync::Arc;

/// What an operation on names and attributes keeps in memory until it is on disk: some blocks of
/// directories and dnodes.
const NAMES_COST: u64 = 64 << 10;

/// Where new extended attributes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrStorage {
    /// None may be made.
    Off,
    /// Among the system attributes while they are small.
    #[default]
    SystemAttributes,
    /// Into a hidden directory.
    Directory,
}

/// The dataset's properties that writing goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSettings {
    /// `recordsize` in bytes, a power of two.
    pub record_size: u64,
    /// `dnodesize` in slots of 512 bytes.
    pub dnode_slots: usize,
    /// `xattr`.
    pub xattrs: XattrStorage,
    /// `acltype=posix`.
    pub posix_acls: bool,
    /// The feature `longname` and its property are on.
    pub long_names: bool,
    /// `atime` and `relatime`.
    pub access_times: AccessTimes,
    /// `aclinherit`.
    pub list_inheritance: ListInheritance,
    /// `aclmode`.
    pub list_mode: ListMode,
}

impl Default for WriteSettings {
    fn default() -> Self {
        Self {
            record_size: 128 << 10,
            dnode_slots: 1,
            xattrs: XattrStorage::default(),
            posix_acls: false,
            long_names: false,
            access_times: AccessTimes::default(),
            list_inheritance: ListInheritance::default(),
            list_mode: ListMode::default(),
        }
    }
}

/// The part of a file system that only writable ones have.
#[derive(Debug)]
pub(crate) struct Writer {
    dataset: Arc<OpenDataset>,
    settings: RwLock<WriteSettings, ranks::WriteSettings>,
    locks: Arc<Locks>,
    /// Held by renames that move a directory: two of them could make a loop.
    moves: Mutex<(), ranks::DirectoryMoves>,
    /// Held while attributes or layouts are registered.
    tables: Mutex<(), ranks::NewAttributes>,
    /// Held while the delete queue changes.
    queue: Mutex<(), ranks::DeleteQueue>,
    /// Objects in use beyond their names, and how often.
    holds: Mutex<HashMap<ObjectId, u64>, ranks::HeldFiles>,
    quotas: RwLock<[QuotaObjects; 3], ranks::QuotaTables>,
    in_flight: Owners,
    /// Counts what accounts are missing.
    recount: Job,
    reads: Reads,
}

impl FileSystem {
    /// Opens the file system in `dataset` so that it can be changed. Files that are too damaged to
    /// be freed stay in the delete queue if the dataset has a sink for damage. Without a sink,
    /// removing them fails.
    ///
    /// What an earlier crash left in the delete queue stays until
    /// [`FileSystem::drain_delete_queue`]. Changes are logged from now on, if the dataset has a
    /// log.
    pub fn open_writable(
        dataset: Arc<OpenDataset>,
        settings: WriteSettings,
    ) -> Result<Self, PosixError> {
        // Opening does not wait for missing devices; reads of files may.
        let file_system = Self::open(dataset.set().for_io(&IoContext::COMMAND))?;
        let file_system = file_system.for_io(dataset.set().io());
        let set = file_system.set();
        if !set.is_writable() {
            return Err(PosixError::ReadOnly);
        }
        set.set_owner_hook(Arc::new(PosixOwnerHook));
        let quotas = RwLock::new(file_system.master().quotas);
        let locks = Arc::new(Locks::new());
        dataset.start_log(Arc::new(LoggedFiles {
            set: Arc::clone(dataset.set()),
            locks: Arc::clone(&locks),
        }));
        dataset.set_block_size(settings.record_size);
        let writer = Writer {
            dataset,
            settings: RwLock::new(settings),
            locks,
            moves: Mutex::default(),
            tables: Mutex::default(),
            queue: Mutex::default(),
            holds: Mutex::default(),
            quotas,
            in_flight: Owners::default(),
            reads: Reads::default(),
            recount: Job::new(),
        };
        Ok(file_system.with_writer(writer))
    }

    /// The time by the clock that stamps files.
    pub fn now(&self) -> Result<Timestamp, PosixError> {
        Ok(self.require_writer()?.now())
    }

    pub(crate) fn require_writer(&self) -> Result<&Writer, PosixError> {
        self.writer().ok_or(PosixError::ReadOnly)
    }

    /// Whether the file system can be changed.
    pub fn is_writable(&self) -> bool {
        self.writer().is_some()
    }

    /// Whether the object is being changed, or another one that shares its lock. An operation
    /// changes the contents before the size; a caller that needs both must not see the state
    /// between.
    pub fn is_changing(&self, id: ObjectId) -> bool {
        self.writer()
            .is_some_and(|writer| writer.locks.try_lock(id).is_none())
    }

    /// The open dataset that changes go through.
    pub fn dataset(&self) -> Result<&Arc<OpenDataset>, PosixError> {
        Ok(&self.require_writer()?.dataset)
    }

    /// The properties that writing goes by.
    pub fn write_settings(&self) -> Result<WriteSettings, PosixError> {
        Ok(self.require_writer()?.settings())
    }

    /// Changes the properties that writing goes by.
    pub fn set_write_settings(&self, settings: WriteSettings) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        *writer.settings.write() = settings;
        writer.dataset.set_block_size(settings.record_size);
        Ok(())
    }

    /// Takes no changes from now on. Those that were made before, last reads included, are in the
    /// open group or in one before it.
    ///
    /// # Errors
    /// If the last access times cannot be stored; it is closed nevertheless.
    pub fn close(&self) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let stored = self.store_access_times();
        writer.dataset.close();
        stored
    }

    /// Waits until everything that was changed before is in a transaction group on disk, last reads
    /// included.
    pub fn sync(&self) -> Result<(), PosixError> {
        self.store_access_times()?;
        Ok(self.require_writer()?.dataset.sync()?)
    }

    /// Starts to sync all earlier changes to disk, and does not wait for it.
    pub fn request_sync(&self) -> Result<(), PosixError> {
        self.store_access_times()?;
        self.require_writer()?.dataset.request_sync();
        Ok(())
    }

    /// Waits until the contents and attributes of a file or directory as they were before survive a
    /// power cut, and all changes of names with them (`fsync(2)`); unless the property `sync` is
    /// `disabled`. The access time need not survive.
    ///
    /// # Errors
    /// If the pool takes no more changes; then they may be lost.
    pub fn fsync(&self, object: ObjectId) -> Result<(), PosixError> {
        self.sync_if_due(object, true)
    }

    /// As [`Self::fsync`], of all files and directories.
    ///
    /// # Errors
    /// If the pool takes no more changes; then they may be lost.
    pub fn fsync_all(&self) -> Result<(), PosixError> {
        Ok(self.dataset()?.settle(Some(Commit::All))?)
    }

    /// Ends a call that may have changed something of `object`: waits until that survives a power
    /// cut if the caller wants that, or the property `sync`.
    ///
    /// # Errors
    /// If the pool takes no more changes; then it may be lost.
    pub fn sync_if_due(&self, object: ObjectId, is_wanted: bool) -> Result<(), PosixError> {
        let wanted = is_wanted.then_some(Commit::Object(object));
        Ok(self.dataset()?.settle(wanted)?)
    }

    /// The object of a znode, with its newest dnode.
    fn newest(&self, id: ObjectId) -> Result<Object, PosixError> {
        Ok(self.set().object(id)?)
    }

    /// A directory that exists: one that was removed takes no more names.
    fn live_directory(&self, id: ObjectId) -> Result<Arc<Znode>, PosixError> {
        let directory = self.znode(id)?;
        directory.require_directory()?;
        if directory.attributes().links == 0 {
            return Err(PosixError::NotFound {
                directory: id,
                name: b".".to_vec(),
            });
        }
        Ok(directory)
    }
}

impl Writer {
    fn settings(&self) -> WriteSettings {
        *self.settings.read()
    }

    fn lock(&self, objects: &[ObjectId]) -> Held<'_> {
        self.locks.lock(objects)
    }

    fn now(&self) -> Timestamp {
        let now = self.dataset.env().wall_clock();
        Timestamp {
            seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: now.subsec_nanos(),
        }
    }
}

impl FileSystem {
    /// Begins a transaction that makes the dataset larger by about `bytes`.
    fn begin(&self, bytes: u64) -> Result<Change<'_>, PosixError> {
        let dataset = &self.require_writer()?.dataset;
        self.change_in(dataset.begin(bytes, NAMES_COST + bytes)?)
    }

    /// As [`Self::begin`], for changes that free space: they are allowed when the dataset is full.
    fn begin_freeing(&self, bytes: u64) -> Result<Change<'_>, PosixError> {
        let dataset = &self.require_writer()?.dataset;
        self.change_in(dataset.begin_freeing(NAMES_COST + bytes)?)
    }

    /// An operation that changes the dataset in this transaction.
    fn change_in(&self, tx: Transaction) -> Result<Change<'_>, PosixError> {
        let dataset = &self.require_writer()?.dataset;
        Ok(Change::new(tx, self, dataset.log_sink()))
    }
}

impl Forgetful for FileSystem {
    fn forget_changes(&self, id: ObjectId) {
        self.forget(id);
    }
}
