//! Heads that are open for writing, and what is in them: files or a volume.
//!
//! A head is opened for writing once for all its users (its mounts, or the clients of a volume). It
//! is closed, with everything on disk, when the last of them has ended. A write to a closed head
//! could never be synced, and would stop the pool. So closing takes the contents from all users.
//! When the head is closed, either only this table has the contents, or they accept no more
//! changes. The second case is for mounts that will show another state of the head.
//!
//! Opening and closing do I/O, which can take any time. So the table's lock is not held meanwhile.
//! A thread that opens, closes or changes a head takes its [`Turn`]: an entry in the table that
//! other threads wait for. The turns of several heads are taken in the order of their numbers.

use crate::errors::of_dsl;
use cenote_base::ObjectId;
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_control::model::ControlError;
use cenote_dataset::{OpenDataset, SyncPolicy};
use cenote_dsl::{Dataset, Property};
use cenote_pool::{Pool, SyncError};
use cenote_posix::FileSystem;
use cenote_posix::write::{
    AccessTimes, HeldObject, ListInheritance, ListMode, WriteSettings, XattrStorage,
};
use cenote_volume::Volume;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for a head that should be unused: threads that served an ended mount may still
/// be closing its files.
const LETTING_GO: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Why a head stays open.
#[derive(Debug)]
pub(crate) enum StaysOpen {
    /// It is in use.
    InUse,
    /// Its changes cannot be written.
    Sync(SyncError),
}

/// What is in an open head.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    Files(Arc<FileSystem>),
    Volume(Arc<Volume>),
}

impl Contents {
    /// Whether only the table has them.
    fn is_unused(&self) -> bool {
        match self {
            Self::Files(files) => Arc::strong_count(files) == 1,
            Self::Volume(volume) => Arc::strong_count(volume) == 1,
        }
    }

    /// Takes no more changes.
    fn close(&self) {
        // An error here is ignored: if access times cannot be stored, syncing fails too, and
        // reports it.
        let _ = match self {
            Self::Files(files) => files.close().map_err(drop),
            Self::Volume(volume) => volume.close().map_err(drop),
        };
    }

    fn dataset(&self) -> &OpenDataset {
        const WRITABLE: &str = "what is in the table was opened for writing";
        match self {
            Self::Files(files) => files.dataset().expect(WRITABLE),
            Self::Volume(volume) => volume.dataset().expect(WRITABLE),
        }
    }

    /// Goes by the properties as they are now.
    pub fn set_settings(&self, settings: &Settings) {
        settings.obey(self.dataset());
        if let Self::Files(files) = self {
            // It was opened for writing, so this cannot be refused.
            let _ = files.set_write_settings(settings.files);
        }
    }
}

#[derive(Debug)]
enum Entry {
    /// A thread has the turn.
    Taken,
    Open(Contents),
}

/// Open heads by their dataset.
#[derive(Debug, Default)]
pub struct OpenHeads {
    entries: Mutex<HashMap<ObjectId, Entry>, ranks::OpenHeads>,
    /// A turn ended.
    settled: Condvar,
}

/// The exclusive right to open, change or close a head. It ends when this is dropped. The head is
/// then open if the turn has contents, and closed otherwise.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    heads: &'a OpenHeads,
    id: ObjectId,
    pub contents: Option<Contents>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut entries = self.heads.entries.lock();
        match self.contents.take() {
            Some(contents) => entries.insert(self.id, Entry::Open(contents)),
            None => entries.remove(&self.id),
        };
        drop(entries);
        self.heads.settled.notify_all();
    }
}

impl OpenHeads {
    /// Waits until no other thread opens, changes or closes a head, and excludes others.
    pub(crate) fn turn(&self, id: ObjectId) -> Turn<'_> {
        let mut entries = self.entries.lock();
        while matches!(entries.get(&id), Some(Entry::Taken)) {
            entries = self.settled.wait(entries);
        }
        let contents = match entries.insert(id, Entry::Taken) {
            Some(Entry::Open(contents)) => Some(contents),
            Some(Entry::Taken) | None => None,
        };
        Turn {
            heads: self,
            id,
            contents,
        }
    }

    /// What is in a head, which `open` opens if it is not open yet.
    pub(crate) fn open<E>(
        &self,
        id: ObjectId,
        open: impl FnOnce() -> Result<Contents, E>,
    ) -> Result<Contents, E> {
        let mut turn = self.turn(id);
        let contents = match turn.contents.take() {
            Some(contents) => contents,
            None => open()?,
        };
        turn.contents = Some(contents.clone());
        Ok(contents)
    }

    /// The objects of a head that are held, with a name or without.
    pub(crate) fn held(&self, id: ObjectId) -> Vec<HeldObject> {
        match &self.turn(id).contents {
            Some(Contents::Files(files)) => files.held(),
            Some(Contents::Volume(_)) | None => Vec::new(),
        }
    }

    /// Writes a head's changes to disk and closes it; it cannot be opened meanwhile.
    ///
    /// # Errors
    /// If it stays in use for a while; then nothing has changed.
    pub(crate) fn close(&self, pool: &Pool, id: ObjectId) -> Result<(), StaysOpen> {
        let env = pool.env();
        let until = env.monotonic() + LETTING_GO;
        loop {
            let mut turn = self.turn(id);
            match turn.contents.take_if(|contents| contents.is_unused()) {
                Some(contents) => return end(&contents).map_err(StaysOpen::Sync),
                None if turn.contents.is_none() => return Ok(()),
                None => drop(turn),
            }
            if env.monotonic() > until {
                return Err(StaysOpen::InUse);
            }
            env.sleep(LOOK_INTERVAL);
        }
    }

    /// As [`Self::close`], of a head whose users are held back and get another one: what they have
    /// takes no changes any more.
    ///
    /// # Errors
    /// If it is a volume in use: its users cannot be held back.
    pub(crate) fn close_held(&self, id: ObjectId) -> Result<(), StaysOpen> {
        let mut turn = self.turn(id);
        let is_held = |contents: &mut Contents| match contents {
            Contents::Files(_) => true,
            Contents::Volume(_) => contents.is_unused(),
        };
        match turn.contents.take_if(is_held) {
            Some(contents) => end(&contents).map_err(StaysOpen::Sync),
            None if turn.contents.is_none() => Ok(()),
            None => Err(StaysOpen::InUse),
        }
    }

    /// Closes a head even if it is in use: its users can make no more changes.
    pub(crate) fn cut_off(&self, id: ObjectId) -> Result<(), SyncError> {
        let mut turn = self.turn(id);
        match turn.contents.take() {
            Some(contents) => end(&contents),
            None => Ok(()),
        }
    }

    /// Ends all changes, in a pool that will accept none any more.
    pub fn seal(&self) {
        for id in self.ids() {
            // What cannot be stored any more is lost with the pool's last changes.
            if let Some(contents) = self.turn(id).contents.take() {
                contents.close();
            }
        }
    }

    /// Writes the changes of heads to disk, and closes the unused ones; they cannot be opened
    /// meanwhile.
    pub(crate) fn close_idle(&self, pool: &Pool, ids: &[ObjectId]) -> Result<(), SyncError> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let mut closing = Vec::new();
        let mut is_any_open = false;
        for id in ids {
            let mut turn = self.turn(id);
            is_any_open |= turn.contents.is_some();
            if let Some(contents) = turn.contents.take_if(|contents| contents.is_unused()) {
                contents.close();
                contents.dataset().end_log()?;
                closing.push((turn, contents));
            }
        }
        if !is_any_open {
            return Ok(());
        }
        pool.sync()?;
        for (turn, contents) in closing {
            match contents.dataset().has_ended() {
                true => contents.dataset().release(),
                false => contents.dataset().end()?,
            }
            drop(turn);
        }
        Ok(())
    }

    /// The datasets that are open, or are being opened or closed.
    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        self.entries.lock().keys().copied().collect()
    }
}

/// Ends a head that takes no changes from now on.
fn end(contents: &Contents) -> Result<(), SyncError> {
    contents.close();
    Ok(contents.dataset().end()?)
}

/// The properties that changes go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub sync: SyncPolicy,
    /// The log does not use log devices: `logbias=throughput`.
    pub avoids_log_devices: bool,
    /// What concerns file systems only.
    pub files: WriteSettings,
}

impl Settings {
    /// Applies them to an open dataset with any contents.
    pub fn obey(&self, dataset: &OpenDataset) {
        dataset.set_sync_policy(self.sync);
        dataset.set_avoids_log_devices(self.avoids_log_devices);
    }
}

/// `logbias=throughput`, as it is stored.
const THROUGHPUT: u64 = 1;

/// The properties that writing goes by.
pub(crate) fn settings_of(dataset: &Dataset) -> Result<Settings, ControlError> {
    let number = |property| dataset.stored_number(property);
    let slots = match number(Property::DnodeSize).map_err(of_dsl)? {
        0 => 1,
        // `auto` is 1 KiB where attributes are stored beside the dnode, as OpenZFS has it.
        1 => 2,
        bytes => usize::try_from(bytes / 512).unwrap_or(1).clamp(1, 32),
    };
    let files = WriteSettings {
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
        list_inheritance: ListInheritance::from_number(
            number(Property::AclInherit).map_err(of_dsl)?,
        ),
        list_mode: ListMode::from_number(number(Property::AclMode).map_err(of_dsl)?),
    };
    Ok(Settings {
        sync: SyncPolicy::from_number(number(Property::Sync).map_err(of_dsl)?),
        avoids_log_devices: number(Property::LogBias).map_err(of_dsl)? == THROUGHPUT,
        files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// One table lock was held while heads were opened and closed, for as long as devices took: all
    /// mounts of the pool waited for each other.
    #[test]
    fn who_opens_a_head_keeps_others_from_that_head_alone() {
        let heads = OpenHeads::default();
        let (one, two) = (ObjectId(1), ObjectId(2));
        let turn = heads.turn(one);
        let has_turn = AtomicBool::new(false);
        rt::scope(|scope| {
            let waiter = scope.spawn(|| {
                drop(heads.turn(one));
                assert!(has_turn.load(Ordering::SeqCst), "it waited");
            });
            drop(heads.turn(two));
            assert_eq!(heads.ids(), [one], "of the other nothing stays");
            has_turn.store(true, Ordering::SeqCst);
            drop(turn);
            waiter.join().expect("no panic");
        });
        assert_eq!(heads.ids(), []);
    }
}
