//! Objects without a name: the delete queue (format/3b 6).
//!
//! A file that lost its last name while it is open stays until it is closed. It is in a queue on
//! disk, so that it is freed even after a crash. So is a file whose freeing takes several
//! transactions, because it has files of extended attributes.

use super::change::Change;
use super::store::Changes;
use crate::acl::StoredAcl;
use crate::attributes::Attributes;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use cenote_base::ObjectId;
use cenote_dmu::Zap;
use cenote_dmu::zap::ZapKey;
use cenote_ondisk::system_attributes::Attribute;
use cenote_ondisk::zap::hex_key;

/// A file beyond this size goes through the queue, and its data is freed in steps.
pub(super) const FREED_AT_ONCE_MAX: u64 = 1 << 30;

/// Files of extended attributes that are freed in one transaction.
const BATCH: usize = 64;

impl Attributes {
    /// Whether freeing the object itself is all there is to do.
    pub(super) fn is_simple(&self) -> bool {
        self.xattr_directory.is_none() && !matches!(self.acl, StoredAcl::External { .. })
    }
}

/// An object that is held, as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldObject {
    /// Which.
    pub id: ObjectId,
    count: u64,
    /// What it is, and which of those that had its number; `None` if it cannot be read.
    identity: Option<(FileKind, u64)>,
}

impl FileSystem {
    fn identity(&self, id: ObjectId) -> Option<(FileKind, u64)> {
        let znode = self.znode(id).ok()?;
        Some((znode.kind(), znode.attributes().generation))
    }

    /// The objects that are held.
    pub fn held(&self) -> Vec<HeldObject> {
        let Some(writer) = self.writer() else {
            return Vec::new();
        };
        let held: Vec<_> = writer
            .holds
            .lock()
            .iter()
            .map(|(id, n)| (*id, *n))
            .collect();
        let held = held.into_iter().map(|(id, count)| HeldObject {
            id,
            count,
            identity: self.identity(id),
        });
        held.collect()
    }

    /// Takes over the holds of another state of this file system; returns the objects that are not
    /// the same here.
    ///
    /// # Errors
    /// If it is open for reading only.
    pub fn hold_again(&self, held: &[HeldObject]) -> Result<Vec<ObjectId>, PosixError> {
        let mut gone = Vec::new();
        for one in held {
            let is_same = one.identity.is_some() && self.identity(one.id) == one.identity;
            match is_same {
                true => {
                    let mut holds = self.require_writer()?.holds.lock();
                    *holds.entry(one.id).or_default() += one.count;
                }
                false => gone.push(one.id),
            }
        }
        Ok(gone)
    }

    /// Keeps an object alive beyond its last name until [`Self::release`].
    pub fn hold(&self, id: ObjectId) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        let znode = self.znode(id)?;
        let mut holds = writer.holds.lock();
        if znode.attributes().links == 0 && !holds.contains_key(&id) {
            return Err(PosixError::NoSuchZnode { object: id });
        }
        *holds.entry(id).or_default() += 1;
        Ok(())
    }

    /// Holds a new object that no other thread can reach yet.
    pub(super) fn hold_new(&self, id: ObjectId) -> Result<(), PosixError> {
        *self.require_writer()?.holds.lock().entry(id).or_default() += 1;
        Ok(())
    }

    /// Takes back [`Self::hold_new`] of an object that is not made after all.
    pub(super) fn unhold_new(&self, id: ObjectId) -> Result<(), PosixError> {
        self.require_writer()?.holds.lock().remove(&id);
        Ok(())
    }

    /// Ends one [`Self::hold`]. An object without a name goes with the last.
    pub fn release(&self, id: ObjectId) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let mut holds = writer.holds.lock();
        let Some(count) = holds.get_mut(&id) else {
            return Ok(());
        };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        holds.remove(&id);
        drop(holds);
        match self.znode(id) {
            Ok(znode) if znode.attributes().links == 0 => self.reap(id),
            Ok(_) | Err(PosixError::NoSuchZnode { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_held(&self, id: ObjectId) -> Result<bool, PosixError> {
        Ok(self.require_writer()?.holds.lock().contains_key(&id))
    }

    fn queue_zap(&self) -> Result<Zap, PosixError> {
        let queue = self.master().delete_queue.ok_or(PosixError::NotSupported)?;
        Ok(self.set().zap(queue)?)
    }

    pub(super) fn enqueue(&self, tx: &Change<'_>, id: ObjectId) -> Result<(), PosixError> {
        let _guard = self.require_writer()?.queue.lock();
        let key = hex_key(id.0);
        tx.apart(|| Ok(self.queue_zap()?.update_u64(tx, &key, id.0)?))
    }

    pub(super) fn dequeue(&self, tx: &Change<'_>, id: ObjectId) -> Result<(), PosixError> {
        let _guard = self.require_writer()?.queue.lock();
        tx.apart(|| {
            self.queue_zap()?.remove(tx, &hex_key(id.0))?;
            Ok(())
        })
    }

    /// Frees an object of the delete queue, unless it is held or has a name again.
    ///
    /// A file that is too damaged for that stays there, and is reported to the file system's damage
    /// sink.
    pub(super) fn reap(&self, id: ObjectId) -> Result<(), PosixError> {
        self.or_told(self.reap_whole(id))
    }

    /// As [`Self::reap`] after a change that has happened: that is no failure if this is. What
    /// cannot be freed stays in the queue, and the next mount tries again.
    pub(super) fn reap_soon(&self, id: ObjectId) {
        let _ = self.reap(id);
    }

    /// Reports damage to the sink, if there is one, and turns it into success.
    fn or_told(&self, done: Result<(), PosixError>) -> Result<(), PosixError> {
        let sink = self.require_writer()?.dataset.damage();
        match (done, sink) {
            (Err(error), Some(sink)) if error.is_damage() => {
                sink.report(&error, error.place());
                Ok(())
            }
            (done, _) => done,
        }
    }

    fn reap_whole(&self, id: ObjectId) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        let znode = match self.znode(id) {
            Err(PosixError::NoSuchZnode { .. }) => return Ok(()),
            znode => znode?,
        };
        if znode.attributes().links > 0 || self.is_held(id)? || !self.is_in_delete_queue(id)? {
            return Ok(());
        }
        // In memory no sync has to give up the blocks.
        if znode.attributes().size > FREED_AT_ONCE_MAX && !writer.dataset.is_in_memory() {
            self.empty_contents(id)?;
        }
        // Nothing that it refers to is given up before it is sure that it can go itself.
        self.set().object(id)?.check_freeable()?;
        if let Some(directory) = znode.attributes().xattr_directory {
            self.empty_xattr_directory(directory)?;
        }
        let tx = self.begin_freeing(0)?;
        if let Some(directory) = znode.attributes().xattr_directory {
            self.set().free(&tx, directory)?;
            self.forget(directory);
        }
        if let StoredAcl::External { object, .. } = &znode.attributes().acl {
            self.free_list(&tx, *object)?;
        }
        self.set().free(&tx, id)?;
        self.dequeue(&tx, id)?;
        tx.keep();
        tx.log_freed(id);
        self.forget(id);
        Ok(())
    }

    /// Frees a large file's data, a part in each transaction.
    fn empty_contents(&self, id: ObjectId) -> Result<(), PosixError> {
        let object = self.set().object(id)?;
        loop {
            let tx = self.begin_freeing(0)?;
            let has_more = object.free_some(&tx)?;
            tx.keep();
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Frees the files in a directory of extended attributes.
    fn empty_xattr_directory(&self, directory: ObjectId) -> Result<(), PosixError> {
        loop {
            let zap = self.set().zap(directory)?;
            let entries = zap.entries().take(BATCH);
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            if entries.is_empty() {
                return Ok(());
            }
            let tx = self.begin_freeing(0)?;
            for entry in entries {
                let ZapKey::Name(name) = &entry.key else {
                    return Err(PosixError::Inconsistent {
                        object: directory,
                        problem: "an entry's key is not a name",
                    });
                };
                let word = entry.value.first_u64().unwrap_or(0);
                let file = cenote_ondisk::dir_entry::DirEntry::decode(word).object;
                self.set().free(&tx, file)?;
                zap.remove(&tx, name.as_slice())?;
                self.forget(file);
            }
            tx.keep();
        }
    }

    /// Frees what an earlier mount left in the delete queue; returns how many objects were tried.
    ///
    /// Entries whose object no longer exists are dropped; those that are held stay, and so do those
    /// that cannot be freed. All entries are tried before the first error is returned; damage that
    /// was reported to a sink is not an error.
    pub fn drain_delete_queue(&self) -> Result<u64, PosixError> {
        let (mut freed, mut failed) = (0, None);
        for id in self.delete_queue()? {
            match self.drain_one(id) {
                Ok(()) => freed += 1,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(freed), Err)
    }

    pub(super) fn drain_one(&self, id: ObjectId) -> Result<(), PosixError> {
        let disowned = self.disown(id);
        self.or_told(disowned.and_then(|()| self.reap_whole(id)))
    }

    /// Makes an object of the delete queue ready to be freed, and drops an entry without one.
    ///
    /// The file system may be in use meanwhile: an object that was in the queue a moment ago can
    /// have a name by now, or be another one.
    fn disown(&self, id: ObjectId) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        if self.is_held(id)? || !self.is_in_delete_queue(id)? {
            return Ok(());
        }
        let znode = match self.znode(id) {
            Err(PosixError::NoSuchZnode { .. }) => {
                let tx = self.begin_freeing(0)?;
                self.dequeue(&tx, id)?;
                tx.keep();
                return Ok(());
            }
            znode => znode?,
        };
        if znode.attributes().links == 0 {
            return Ok(());
        }
        // It has no name any more, but directories of attributes keep their count of links.
        let tx = self.begin_freeing(0)?;
        let changes = Changes::new().word(Attribute::Links, 0);
        self.change(&tx, id, &changes)?;
        tx.keep();
        Ok(())
    }
}
