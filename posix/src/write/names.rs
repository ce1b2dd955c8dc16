//! Names: entries of directories, added and removed (format/3b 4).

use super::change::Change;
use super::create::{FLAGS_MODIFIED, exists};
use super::delete_queue::FREED_AT_ONCE_MAX;
use super::store::Changes;
use crate::attributes::FLAG_PROJECT_INHERIT;
use crate::directory::Target;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::master::VERSION_ENTRY_TYPES;
use crate::znode::Znode;
use cenote_base::{ObjectId, SECTOR_SIZE};
use cenote_ondisk::dir_entry::{DirEntry, FileType};
use cenote_ondisk::features;
use cenote_ondisk::intent_log::record::{RecordBody, record_type};
use cenote_ondisk::system_attributes::Attribute;
use std::sync::Arc;

/// The most names of a file.
const LINKS_MAX: u64 = 1 << 31;

/// An entry that was found: its stored spelling and where it leads.
pub(super) type Found = (Vec<u8>, Target);

impl FileSystem {
    /// Adds an entry to a directory, where the name is free.
    pub(super) fn add_entry(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        name: &[u8],
        object: ObjectId,
        kind: FileKind,
    ) -> Result<(), PosixError> {
        let file_type = match self.version() < VERSION_ENTRY_TYPES {
            true => FileType::Unknown,
            false => FileType::from_number(kind.type_bits()),
        };
        let value = DirEntry { object, file_type }.encode();
        if name.len() > 255 {
            self.dataset()?.use_feature(features::LONGNAME);
        }
        let zap = self.set().zap(directory.id())?;
        Ok(zap.insert_u64(tx, name, value)?)
    }

    /// Removes an entry by its stored spelling.
    pub(super) fn remove_entry(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        spelling: &[u8],
    ) -> Result<(), PosixError> {
        let zap = self.set().zap(directory.id())?;
        match zap.remove(tx, spelling)? {
            true => Ok(()),
            false => Err(directory.inconsistent("an entry that was found cannot be removed")),
        }
    }

    /// Adds to the counts of entries and subdirectories in a directory's attributes.
    pub(super) fn change_directory(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        entries: i64,
        subdirectories: i64,
    ) -> Result<(), PosixError> {
        let attributes = directory.attributes();
        let now = self.require_writer()?.now();
        let mut changes = Changes::new()
            .word(
                Attribute::Size,
                attributes.size.saturating_add_signed(entries),
            )
            .time(Attribute::Mtime, now)
            .time(Attribute::Ctime, now)
            .word(Attribute::Flags, attributes.flags | FLAGS_MODIFIED);
        if subdirectories != 0 {
            let links = attributes.links.saturating_add_signed(subdirectories);
            changes = changes.word(Attribute::Links, links);
        }
        self.change(tx, directory.id(), &changes)
    }

    /// The entry of `name`, or an error.
    pub(super) fn find_entry(&self, directory: &Znode, name: &[u8]) -> Result<Found, PosixError> {
        if matches!(name, b"." | b"..") {
            return Err(PosixError::InvalidName {
                name: name.to_vec(),
            });
        }
        let found = self.lookup_spelling(directory, name)?;
        found.ok_or_else(|| PosixError::NotFound {
            directory: directory.id(),
            name: name.to_vec(),
        })
    }

    /// Gives a file one more name.
    pub fn link(
        &self,
        object: ObjectId,
        parent: ObjectId,
        name: &[u8],
    ) -> Result<Arc<Znode>, PosixError> {
        let writer = self.require_writer()?;
        self.check_new_name(name)?;
        let held = writer.lock(&[object, parent]);
        let directory = self.live_directory(parent)?;
        let file = self.znode(object)?;
        let attributes = file.attributes();
        if file.kind() == FileKind::Directory {
            return Err(PosixError::Forbidden { object });
        }
        directory.require_mutable()?;
        file.require_removable()?;
        let is_unnamed = attributes.links == 0;
        if is_unnamed && !self.is_in_delete_queue(object)? {
            return Err(PosixError::NoSuchZnode { object });
        }
        if attributes.links >= LINKS_MAX {
            return Err(PosixError::TooManyNames { object });
        }
        self.check_project(&directory, &file)?;
        if self.lookup(&directory, name)?.is_some() {
            return Err(exists(&directory, name));
        }
        // It gives no room back: as an entry of a directory that grows.
        let tx = self.begin(SECTOR_SIZE)?;
        self.apply_link(&tx, &directory, &file, name)?;
        let linked = self.znode(object)?;
        if is_unnamed {
            self.dequeue(&tx, object)?;
            tx.log_in_order(object);
            self.log_nothing(&tx);
        } else {
            tx.log_in_order(object);
            let directory = parent;
            let body = RecordBody::Link {
                directory,
                object,
                name,
            };
            self.log(&tx, record_type::LINK, body);
        }
        tx.keep();
        drop((tx, held));
        Ok(linked)
    }

    /// Adds a name for a file to a directory, where it is free.
    pub(super) fn apply_link(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        file: &Znode,
        name: &[u8],
    ) -> Result<(), PosixError> {
        self.add_entry(tx, directory, name, file.id(), file.kind())?;
        let changes = Changes::new()
            .word(Attribute::Links, file.attributes().links.saturating_add(1))
            .word(Attribute::Parent, directory.id().0)
            .time(Attribute::Ctime, self.require_writer()?.now());
        self.change(tx, file.id(), &changes)?;
        self.change_directory(tx, directory, 1, 0)
    }

    /// Refuses to bring a file into a directory that has another project for its files.
    pub(super) fn check_project(&self, directory: &Znode, file: &Znode) -> Result<(), PosixError> {
        let (directory, file) = (directory.attributes(), file.attributes());
        let inherits = directory.flags & FLAG_PROJECT_INHERIT != 0;
        match inherits && directory.project != file.project {
            true => Err(PosixError::OtherProject),
            false => Ok(()),
        }
    }

    /// Removes a name of a file that is no directory.
    ///
    /// With the last name the file goes, at once or when it is held no more. Returns it as it was.
    pub fn unlink(&self, parent: ObjectId, name: &[u8]) -> Result<Arc<Znode>, PosixError> {
        self.remove_name(parent, name, false)
    }

    /// Removes an empty directory. Returns it as it was.
    pub fn rmdir(&self, parent: ObjectId, name: &[u8]) -> Result<Arc<Znode>, PosixError> {
        self.remove_name(parent, name, true)
    }

    fn remove_name(
        &self,
        parent: ObjectId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<Arc<Znode>, PosixError> {
        let writer = self.require_writer()?;
        loop {
            let directory = self.znode(parent)?;
            let (mut spelling, target) = self.find_entry(&directory, name)?;
            let held = writer.lock(&[parent, target.object]);
            let before = directory;
            let directory = self.live_directory(parent)?;
            // A change of an entry changes its directory's attributes, and so replaces the cached
            // znode. If the znode is the same, so are the entries.
            if !Arc::ptr_eq(&before, &directory) {
                let (now, target_now) = self.find_entry(&directory, name)?;
                if target_now.object != target.object {
                    continue;
                }
                spelling = now;
            }
            let file = self.znode(target.object)?;
            self.check_removal(&directory, &file, is_directory)?;
            let tx = self.begin_freeing(0)?;
            let is_gone = self.apply_removal(&tx, &directory, &spelling, &file)?;
            let kind = match is_directory {
                true => record_type::RMDIR,
                false => record_type::REMOVE,
            };
            let body = RecordBody::Remove {
                directory: parent,
                name: &spelling,
            };
            tx.keep();
            self.log(&tx, kind, body);
            drop((tx, held));
            if is_gone {
                self.reap_soon(target.object);
            }
            return Ok(file);
        }
    }

    /// Removes a name of a file from a directory; returns whether [`Self::reap`] is due.
    pub(super) fn apply_removal(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        spelling: &[u8],
        file: &Znode,
    ) -> Result<bool, PosixError> {
        let subdirectories = i64::from(file.kind() == FileKind::Directory);
        self.remove_entry(tx, directory, spelling)?;
        self.change_directory(tx, directory, -1, -subdirectories)?;
        let is_gone = self.drop_name(tx, file)?;
        if is_gone {
            self.enqueue(tx, file.id())?;
        }
        Ok(is_gone)
    }

    /// Whether a name of `file` may be removed from `directory`.
    pub(super) fn check_removal(
        &self,
        directory: &Znode,
        file: &Znode,
        is_directory: bool,
    ) -> Result<(), PosixError> {
        directory.require_shrinkable()?;
        file.require_removable()?;
        match (file.kind() == FileKind::Directory, is_directory) {
            (true, false) => return Err(PosixError::IsDirectory { object: file.id() }),
            (false, true) => return Err(PosixError::NotDirectory { object: file.id() }),
            (false, false) => return Ok(()),
            (true, true) => {}
        }
        if self.set().zap(file.id())?.count() > 0 {
            return Err(PosixError::NotEmpty { object: file.id() });
        }
        Ok(())
    }

    /// Notes that an object lost a name, in its attributes. With the last one it is freed, or it
    /// returns that it is to be put into the delete queue, and then reaped. Putting it there is the
    /// caller's last step.
    pub(super) fn drop_name(&self, tx: &Change<'_>, file: &Znode) -> Result<bool, PosixError> {
        let attributes = file.attributes();
        let is_directory = file.kind() == FileKind::Directory;
        let links = match is_directory {
            true => 0,
            false => attributes.links.saturating_sub(1),
        };
        let is_simple = attributes.is_simple() && attributes.size <= FREED_AT_ONCE_MAX;
        if links == 0 && is_simple && !self.is_held(file.id())? {
            // What is too damaged for that waits in the delete queue for better times.
            if self.set().free(tx, file.id()).is_ok() {
                self.forget(file.id());
                tx.log_freed(file.id());
                return Ok(false);
            }
        }
        let changes = Changes::new()
            .word(Attribute::Links, links)
            .time(Attribute::Ctime, self.require_writer()?.now());
        self.change(tx, file.id(), &changes)?;
        Ok(links == 0)
    }
}
