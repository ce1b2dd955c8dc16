//! Changing a file system.
//!
//! Each operation is one transaction, so that after a crash it has happened or not: an entry is
//! never without its object, nor a link count without its entries. An operation takes the locks
//! of the objects that it changes, looks at them, begins its transaction, changes, and lets the
//! caches of the reading side forget what changed. Contents that do not fit one transaction are
//! written in several.
//!
//! Access checks are not made here, nor are they for reading; what is checked is what keeps a
//! file system sound (names, kinds, loops) and what its attributes and quotas forbid.

mod access_list;
mod access_time;
mod attributes;
mod clone;
mod create;
mod data;
mod default_quota;
mod delete_queue;
mod format;
mod legacy;
mod locks;
mod names;
mod nfs4;
mod owner;
mod quota;
mod rename;
mod replay;
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
use cenote_base::rt::{Mutex, RwLock, ranks};
use cenote_base::{Env, ObjectId};
use cenote_dmu::{Object, ObjectSet, Transaction, TxCost, TxgGate};
use locks::{Held, Locks};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// `sync`: which changes are on disk before the call returns (zfsprops(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Those that the caller wants there: `fsync`, `O_SYNC`, `O_DSYNC`.
    #[default]
    Standard,
    /// All.
    Always,
    /// None: whoever asks is told that they are.
    Disabled,
}

impl SyncPolicy {
    /// The meaning of a stored value.
    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Always,
            2 => Self::Disabled,
            _ => Self::Standard,
        }
    }
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
    /// `sync`.
    pub sync: SyncPolicy,
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
            sync: SyncPolicy::default(),
            list_inheritance: ListInheritance::default(),
            list_mode: ListMode::default(),
        }
    }
}

/// Why there is no space for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceRefusal {
    /// The pool is full, or what is left is reserved.
    NoSpace,
    /// A quota of a dataset is reached.
    Quota,
    /// Nobody can tell: the pool's metadata cannot be read.
    Unknown,
}

impl From<SpaceRefusal> for PosixError {
    fn from(refusal: SpaceRefusal) -> Self {
        match refusal {
            SpaceRefusal::NoSpace => Self::NoSpace,
            SpaceRefusal::Quota => Self::QuotaExceeded,
            SpaceRefusal::Unknown => Self::SpaceUnknown,
        }
    }
}

/// Says whether the dataset may grow: the dataset layer's quotas and reservations.
pub trait SpaceGuard: std::fmt::Debug + Send + Sync {
    /// Whether about so many bytes more may be written.
    fn check(&self, bytes: u64) -> Result<(), SpaceRefusal>;

    /// Whether the dataset may refer to so many bytes of blocks that are stored already. Asked in
    /// the transaction that does so.
    fn may_share(&self, bytes: u64) -> Result<bool, SpaceRefusal> {
        let _ = bytes;
        Ok(false)
    }

    /// The first name of more than 255 bytes is made, which needs a feature of the dataset.
    fn use_long_names(&self) {}
}

/// Who is told of damage that keeps something from being done which nobody waits for.
pub trait DamageSink: fmt::Debug + Send + Sync {
    /// Takes note.
    fn report(&self, error: &PosixError);
}

/// What a writable file system needs from outside.
#[derive(Clone, Debug)]
pub struct WriterParams {
    /// The pool's gate.
    pub gate: Arc<TxgGate>,
    /// The clock of timestamps.
    pub env: Arc<dyn Env>,
    /// Properties; [`FileSystem::set_write_settings`] changes them later.
    pub settings: WriteSettings,
    /// Limits of the dataset, if any.
    pub space: Option<Arc<dyn SpaceGuard>>,
    /// Who hears of files that are too damaged to be freed, which then stay in the delete queue;
    /// without one they are errors of whoever removes them.
    pub damage: Option<Arc<dyn DamageSink>>,
}

/// The part of a file system that only writable ones have.
#[derive(Debug)]
pub(crate) struct Writer {
    gate: Arc<TxgGate>,
    env: Arc<dyn Env>,
    settings: RwLock<WriteSettings, ranks::WriteSettings>,
    space: Option<Arc<dyn SpaceGuard>>,
    damage: Option<Arc<dyn DamageSink>>,
    locks: Locks,
    /// Held by renames that move a directory: two of them could make a loop.
    moves: Mutex<(), ranks::DirectoryMoves>,
    /// Held while attributes or layouts are registered.
    tables: Mutex<(), ranks::NewAttributes>,
    /// Held while the delete queue changes.
    queue: Mutex<(), ranks::DeleteQueue>,
    /// Objects in use beyond their names, and how often.
    holds: Mutex<HashMap<ObjectId, u64>, ranks::HeldFiles>,
    quotas: RwLock<[QuotaObjects; 3], ranks::QuotaTables>,
    reads: Reads,
    /// It takes no changes any more, from whoever still has it.
    is_closed: AtomicBool,
}

impl FileSystem {
    /// Opens the file system in `set`, which must be open for writing, so that it can be changed.
    ///
    /// What an earlier crash left in the delete queue stays until
    /// [`FileSystem::drain_delete_queue`].
    pub fn open_writable(set: Arc<ObjectSet>, params: WriterParams) -> Result<Self, PosixError> {
        let file_system = Self::open(set)?;
        let set = file_system.set();
        if !set.is_writable() {
            return Err(PosixError::ReadOnly);
        }
        set.set_owner_hook(Arc::new(PosixOwnerHook));
        let quotas = RwLock::new(file_system.master().quotas);
        let writer = Writer {
            gate: params.gate,
            env: params.env,
            settings: RwLock::new(params.settings),
            space: params.space,
            damage: params.damage,
            locks: Locks::new(),
            moves: Mutex::default(),
            tables: Mutex::default(),
            queue: Mutex::default(),
            holds: Mutex::default(),
            quotas,
            reads: Reads::default(),
            is_closed: AtomicBool::new(false),
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

    /// The properties that writing goes by.
    pub fn write_settings(&self) -> Result<WriteSettings, PosixError> {
        Ok(self.require_writer()?.settings())
    }

    /// Changes the properties that writing goes by.
    pub fn set_write_settings(&self, settings: WriteSettings) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        *writer.settings.write() = settings;
        Ok(())
    }

    /// Takes no changes from now on. Those that were made before, last reads included, are in the
    /// open group or in one before it.
    ///
    /// # Errors
    /// If last reads cannot be stored; it is closed all the same.
    pub fn close(&self) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let stored = self.store_access_times();
        writer.is_closed.store(true, Ordering::SeqCst);
        stored
    }

    /// Waits until everything that was changed before is on disk.
    pub fn sync(&self) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        self.store_access_times()?;
        let txg = writer.gate.request_sync();
        writer.gate.wait_synced(txg)?;
        Ok(())
    }

    /// Asks for everything that was changed before to be on disk soon, and does not wait for it.
    pub fn request_sync(&self) -> Result<(), PosixError> {
        self.store_access_times()?;
        self.require_writer()?.gate.request_sync();
        Ok(())
    }

    /// Ends a call that may have changed something: waits until that is on disk if the caller wants
    /// that, or the property `sync`.
    ///
    /// # Errors
    /// If the pool takes no more changes; then it is not on disk.
    pub fn sync_if_due(&self, is_wanted: bool) -> Result<(), PosixError> {
        match self.require_writer()?.settings().sync {
            SyncPolicy::Standard if !is_wanted => Ok(()),
            SyncPolicy::Disabled => Ok(()),
            SyncPolicy::Standard | SyncPolicy::Always => self.sync(),
        }
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
        let now = self.env.wall_clock();
        Timestamp {
            seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: now.subsec_nanos(),
        }
    }

    /// Begins a transaction that makes the dataset larger by about `bytes`.
    fn begin(&self, bytes: u64) -> Result<Transaction, PosixError> {
        if let Some(space) = &self.space {
            space.check(bytes)?;
        }
        self.begin_freeing(bytes)
    }

    /// Whether the dataset may refer to so many bytes of stored blocks.
    fn may_share(&self, bytes: u64) -> Result<bool, PosixError> {
        match &self.space {
            Some(space) => Ok(space.may_share(bytes)?),
            None => Ok(false),
        }
    }

    /// As [`Self::begin`], for what makes the dataset smaller: it goes on when there is no space.
    fn begin_freeing(&self, bytes: u64) -> Result<Transaction, PosixError> {
        let dirty_bytes = NAMES_COST + bytes;
        let tx = self.gate.begin(TxCost { dirty_bytes })?;
        // Only now: the group cannot close before this transaction ends. So whoever closes the
        // file system, and then waits for the open group, waits for all changes there will be.
        match self.is_closed.load(Ordering::SeqCst) {
            true => Err(PosixError::Closed),
            false => Ok(tx),
        }
    }
}
