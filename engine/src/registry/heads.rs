//! Heads that are open for writing, and the file systems in them.
//!
//! A head is opened for writing when it is mounted, once for all its mounts, and closed when the
//! last of them is gone: everything is then on disk. What is written to a closed head could never
//! be written down, and would stop the pool. So closing takes the file system from everybody: it
//! is owned here alone when it goes, or, where its mounts are to get another state of it, takes no
//! more changes from those who still have it.

use super::damage::DamageLog;
use crate::errors::{of_dsl, of_files};
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_control::model::ControlError;
use cenote_dmu::{IoContext, TxgGate};
use cenote_dsl::{Dataset, Dsl, DslError, Property};
use cenote_ondisk::features;
use cenote_pool::{Pool, SyncError};
use cenote_posix::FileSystem;
use cenote_posix::write::{
    AccessTimes, HeldObject, ListInheritance, ListMode, SpaceGuard, SpaceRefusal, SyncPolicy,
    WriteSettings, WriterParams, XattrStorage,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// For so long an answer about free space is good for small writes.
const SPACE_AGE_MAX: Duration = Duration::from_millis(200);
/// Dirty data brings this share of itself in metadata, at most.
const DIRTY_OVERHEAD: u64 = 8;
/// Writes that together take less than this share of the space that was left need not ask again.
const SPACE_SHARE: u64 = 64;

/// Groups that somebody waits for before a lack of space is believed: what was freed can be used
/// again three groups later.
const SPACE_WAITS_MAX: u32 = 4;

/// So long a head that nobody should have any more is waited for: threads that served a mount
/// which is gone may still be letting go of its files.
const LETTING_GO: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Why a head stays open.
#[derive(Debug)]
pub(crate) enum StaysOpen {
    /// Somebody uses it.
    InUse,
    /// Its changes cannot be written.
    Sync(SyncError),
}

/// Open file systems by their dataset.
#[derive(Debug, Default)]
pub(crate) struct OpenHeads {
    open: Mutex<HashMap<ObjectId, Arc<FileSystem>>, ranks::OpenHeads>,
}

impl OpenHeads {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<FileSystem>>> {
        self.open.lock()
    }

    /// The file system of a head, opened for writing.
    pub fn open(
        &self,
        pool: &Pool,
        damage: &Arc<DamageLog>,
        dataset: &Dataset,
    ) -> Result<Arc<FileSystem>, ControlError> {
        let mut open = self.lock();
        if let Some(files) = open.get(&dataset.id()) {
            return Ok(Arc::clone(files));
        }
        let name = dataset.name().as_str();
        let gate = pool.gate().map_err(|_| ControlError::PoolReadOnly {
            pool: pool.name().to_owned(),
        })?;
        let head = pool.dsl().open_for_writing(dataset, gate).map_err(of_dsl)?;
        let params = WriterParams {
            gate: Arc::clone(gate),
            env: Arc::clone(pool.env()),
            settings: settings_of(dataset)?,
            space: Some(Arc::new(Room::new(pool, gate, dataset.id()))),
            damage: Some(Arc::clone(damage) as _),
        };
        // A mount does not wait for devices that are gone; whoever reads its files may.
        let set = head.set().for_io(&IoContext::COMMAND);
        let files = FileSystem::open_writable(set, params).map_err(|error| {
            // Nobody has it open: it can be destroyed.
            pool.dsl().close_head(dataset.id());
            of_files(name, &error)
        })?;
        let files = Arc::new(files.for_io(&IoContext::USER));
        open.insert(dataset.id(), Arc::clone(&files));
        Ok(files)
    }

    /// The objects of a head that are held, with a name or without.
    pub fn held(&self, id: ObjectId) -> Vec<HeldObject> {
        let files = self.lock().get(&id).map(Arc::clone);
        files.map_or_else(Vec::new, |files| files.held())
    }

    /// Whether a head is open.
    pub fn is_open(&self, id: ObjectId) -> bool {
        self.lock().contains_key(&id)
    }

    /// Writes a head's changes to disk and closes it; nobody can open it meanwhile.
    ///
    /// # Errors
    /// If somebody uses it and goes on doing so for a while; then it is as it was.
    pub fn close(&self, pool: &Pool, id: ObjectId) -> Result<(), StaysOpen> {
        let env = pool.env();
        let until = env.monotonic() + LETTING_GO;
        loop {
            let mut open = self.lock();
            let Some(files) = open.remove(&id) else {
                return Ok(());
            };
            match Arc::try_unwrap(files) {
                Ok(files) => return end(pool, id, &files).map_err(StaysOpen::Sync),
                Err(files) => open.insert(id, files),
            };
            drop(open);
            if env.monotonic() > until {
                return Err(StaysOpen::InUse);
            }
            env.sleep(LOOK_INTERVAL);
        }
    }

    /// As [`Self::close`], of a head whose users are held back and get another one: what they have
    /// takes no changes any more.
    pub fn close_held(&self, pool: &Pool, id: ObjectId) -> Result<(), SyncError> {
        let mut open = self.lock();
        match open.remove(&id) {
            Some(files) => end(pool, id, &files),
            None => Ok(()),
        }
    }

    /// Lets nobody change anything any more, in a pool that takes no changes for good.
    pub fn seal(&self) {
        for (_, files) in self.lock().drain() {
            // What cannot be stored any more is lost with the pool's last changes.
            let _ = files.close();
        }
    }

    /// Writes the changes of heads to disk, and closes those that nobody uses any more; nobody can
    /// open them meanwhile.
    pub fn close_idle(&self, pool: &Pool, ids: &[ObjectId]) -> Result<(), SyncError> {
        let mut open = self.lock();
        if !ids.iter().any(|id| open.contains_key(id)) {
            return Ok(());
        }
        pool.sync()?;
        for id in ids {
            match open.remove(id).map(Arc::try_unwrap) {
                Some(Ok(files)) => end(pool, *id, &files)?,
                Some(Err(files)) => drop(open.insert(*id, files)),
                None => {}
            }
        }
        Ok(())
    }

    /// Does something with every open file system; none is opened or closed meanwhile.
    pub fn each(&self, mut act: impl FnMut(ObjectId, &FileSystem)) {
        for (id, files) in self.lock().iter() {
            act(*id, files);
        }
    }

    /// The datasets whose files are open.
    pub fn ids(&self) -> Vec<ObjectId> {
        self.lock().keys().copied().collect()
    }
}

/// Ends a head that takes no changes from now on.
fn end(pool: &Pool, id: ObjectId, files: &FileSystem) -> Result<(), SyncError> {
    // Where last reads cannot be stored, nothing can: that is the error to tell.
    let _ = files.close();
    pool.sync()?;
    pool.dsl().close_head(id);
    Ok(())
}

/// The properties that writing goes by.
pub(crate) fn settings_of(dataset: &Dataset) -> Result<WriteSettings, ControlError> {
    let number = |property| dataset.stored_number(property);
    let slots = match number(Property::DnodeSize).map_err(of_dsl)? {
        0 => 1,
        // `auto` is 1 KiB where attributes are stored beside the dnode, as OpenZFS has it.
        1 => 2,
        bytes => usize::try_from(bytes / 512).unwrap_or(1).clamp(1, 32),
    };
    Ok(WriteSettings {
        record_size: number(Property::RecordSize).map_err(of_dsl)?,
        dnode_slots: slots,
        xattrs: match number(Property::Xattr).map_err(of_dsl)? {
            0 => XattrStorage::Off,
            1 => XattrStorage::Directory,
            _ => XattrStorage::SystemAttributes,
        },
        posix_acls: number(Property::AclType).map_err(of_dsl)? == 1,
        long_names: number(Property::LongName).map_err(of_dsl)? == 1,
        access_times: match (
            number(Property::Atime).map_err(of_dsl)?,
            number(Property::Relatime).map_err(of_dsl)?,
        ) {
            (0, _) => AccessTimes::Off,
            (_, 0) => AccessTimes::Strict,
            _ => AccessTimes::Relative,
        },
        sync: SyncPolicy::from_number(number(Property::Sync).map_err(of_dsl)?),
        list_inheritance: ListInheritance::from_number(
            number(Property::AclInherit).map_err(of_dsl)?,
        ),
        list_mode: ListMode::from_number(number(Property::AclMode).map_err(of_dsl)?),
    })
}

/// What was known of a dataset's room, and what was written since.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    at: Duration,
    left: u64,
    written: u64,
    is_quota: bool,
}

/// Says whether a dataset may grow.
#[derive(Debug)]
pub(crate) struct Room {
    dsl: Arc<Dsl>,
    gate: Arc<TxgGate>,
    env: Arc<dyn cenote_base::Env>,
    id: ObjectId,
    known: Mutex<Option<Known>, ranks::Room>,
}

impl Room {
    pub fn new(pool: &Pool, gate: &Arc<TxgGate>, id: ObjectId) -> Self {
        Self {
            // It is asked for programs that write, which wait as for all else.
            dsl: pool.dsl().for_io(&IoContext::USER),
            gate: Arc::clone(gate),
            env: Arc::clone(pool.env()),
            id,
            known: Mutex::default(),
        }
    }

    fn ask(&self) -> Result<Known, DslError> {
        let dataset = self.dsl.dataset_of(self.id)?;
        // What is dirty is not accounted yet, and brings metadata along.
        let dirty = self.gate.dirty_bytes();
        let dirty = dirty.saturating_add(dirty / DIRTY_OVERHEAD);
        let left = dataset.available()?.saturating_sub(dirty);
        let root = self.dsl.root()?.available()?.saturating_sub(dirty);
        Ok(Known {
            at: self.env.monotonic(),
            left,
            written: 0,
            is_quota: left < root,
        })
    }

    /// What is known of the room, fresh enough to take `bytes` more.
    fn known(&self, bytes: u64) -> Result<Known, SpaceRefusal> {
        let mut known = self.known.lock();
        let now = self.env.monotonic();
        let is_good = |known: &Known| {
            let written = known.written.saturating_add(bytes);
            now.saturating_sub(known.at) < SPACE_AGE_MAX && written < known.left / SPACE_SHARE
        };
        let mut now = match known.filter(is_good) {
            Some(known) => known,
            None => self.ask().map_err(|_| SpaceRefusal::Unknown)?,
        };
        now.written = now.written.saturating_add(bytes);
        *known = Some(now);
        Ok(now)
    }

    /// Space that the next groups may give back: what is dirty may replace something, and what
    /// was freed is not free yet.
    fn is_space_coming(&self, known: &Known) -> bool {
        let deferred = match known.is_quota {
            true => 0,
            false => self.dsl.space().deferred,
        };
        self.gate.dirty_bytes() > 0 || deferred > 0
    }
}

impl SpaceGuard for Room {
    fn check(&self, bytes: u64) -> Result<(), SpaceRefusal> {
        for tries in 0.. {
            let known = self.known(bytes)?;
            if bytes == 0 || known.left >= bytes {
                return Ok(());
            }
            let may_wait = tries < SPACE_WAITS_MAX && self.is_space_coming(&known);
            // A pool that is suspended gives nothing back; it says so itself.
            if !may_wait || self.gate.wait_synced(self.gate.request_sync()).is_err() {
                return Err(match known.is_quota {
                    true => SpaceRefusal::Quota,
                    false => SpaceRefusal::NoSpace,
                });
            }
        }
        unreachable!("the number of tries is bounded");
    }

    fn may_share(&self, bytes: u64) -> Result<bool, SpaceRefusal> {
        if !self.dsl.begin_cloning() {
            return Ok(false);
        }
        // It takes no space of the pool, and counts for quotas.
        let known = self.known(0)?;
        match known.is_quota && known.left < bytes {
            true => Err(SpaceRefusal::Quota),
            false => Ok(true),
        }
    }

    fn use_long_names(&self) {
        if let Some(head) = self.dsl.open_head(self.id) {
            head.use_feature(features::LONGNAME);
        }
    }
}
