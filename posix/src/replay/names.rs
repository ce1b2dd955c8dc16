//! Records that change names: create, remove, link, rename.

use super::state::Replay;
use crate::attributes::{Attributes, FLAG_PROJECT_ID, FLAG_PROJECT_INHERIT, FLAG_XATTR};
use crate::directory::Target;
use crate::error::PosixError;
use crate::fuid::Fuid;
use crate::kind::{DeviceNumber, FileKind};
use crate::time::Timestamp;
use cenote_base::ObjectId;
use cenote_dmu::zap::normalize::{FLAG_TOUPPER, normalize};
use cenote_ondisk::intent_log::record::{Create, Record, RecordBody, Whiteout, record_type};

/// The mode of a directory of extended attributes (format/3b 7).
const XATTR_DIRECTORY_MODE: u64 = 0o041_777;

/// Whether records of this type make objects of this kind, whatever type their mode claims.
pub(crate) fn is_made_by(of_type: u64, kind: FileKind) -> bool {
    match of_type {
        record_type::MKDIR
        | record_type::MKDIR_ACL
        | record_type::MKDIR_ATTR
        | record_type::MKDIR_ACL_ATTR => kind == FileKind::Directory,
        record_type::SYMLINK => kind == FileKind::Symlink,
        _ => kind != FileKind::Directory && kind != FileKind::Symlink,
    }
}

/// What a rename leaves as `name` in `directory`, as a record that makes it would say.
pub(crate) fn create_of<'a>(
    whiteout: &Whiteout,
    directory: ObjectId,
    name: &'a [u8],
) -> Create<'a> {
    Create {
        directory,
        new: whiteout.new,
        mode: whiteout.mode,
        uid: whiteout.uid,
        gid: whiteout.gid,
        generation: whiteout.generation,
        crtime: whiteout.crtime,
        device: whiteout.device,
        attributes: None,
        acl: None,
        domains: &[],
        name,
        target: None,
    }
}

/// From the two words of a record.
pub(crate) fn time_of(words: (u64, u64)) -> Timestamp {
    Timestamp::from_stored((words.0.cast_signed(), words.1.cast_signed()))
}

fn is_directory(attributes: &Attributes) -> bool {
    FileKind::from_mode(attributes.mode) == Some(FileKind::Directory)
}

impl Replay<'_> {
    /// What a name leads to now, with its stored spelling.
    fn find(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        folds: bool,
    ) -> Result<Option<(Vec<u8>, Target)>, PosixError> {
        self.require_directory(directory)?;
        let node = self.node(directory)?;
        let is_stored = node.is_stored;
        if let Some(change) = node.names.as_ref().and_then(|names| names.get(name)) {
            return Ok(change.map(|(spelling, target)| (spelling.to_vec(), target)));
        }
        if !is_stored {
            return Ok(None);
        }
        let znode = self.base.znode(directory)?;
        let found = self.base.lookup_spelling(&znode, name)?;
        if found.is_some() || !folds {
            return Ok(found);
        }
        // The record's caller did not look at the case, although local callers do.
        let flags = self.base.name_flags() | FLAG_TOUPPER;
        let wanted = normalize(name, flags);
        let entries = self.base.read_directory(&znode, 0)?;
        for entry in entries.skip(2) {
            let entry = entry?;
            let hidden = self
                .node(directory)?
                .names
                .as_ref()
                .map(|names| names.hides(&entry.name));
            if normalize(&entry.name, flags) == wanted && hidden != Some(true) {
                return Ok(Some((entry.name, entry.target)));
            }
        }
        Ok(None)
    }

    fn require(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        folds: bool,
    ) -> Result<(Vec<u8>, Target), PosixError> {
        let found = self.find(directory, name, folds)?;
        found.ok_or_else(|| PosixError::NotFound {
            directory,
            name: name.to_vec(),
        })
    }

    /// Adds an entry and what that changes in the directory; not the child.
    fn add_entry(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        child: ObjectId,
    ) -> Result<(), PosixError> {
        let attributes = &self.node(child)?.attributes;
        let (kind, subdirectory) = (
            FileKind::from_mode(attributes.mode),
            is_directory(attributes),
        );
        self.names(directory)?.add(
            name,
            Target {
                object: child,
                kind,
            },
        );
        self.count_entry(directory, 1, subdirectory)
    }

    /// Removes an entry and what that changes in the directory; not the child.
    fn remove_entry(
        &mut self,
        directory: ObjectId,
        spelling: &[u8],
        child: ObjectId,
    ) -> Result<(), PosixError> {
        let subdirectory = is_directory(&self.node(child)?.attributes);
        self.names(directory)?.remove(spelling);
        self.count_entry(directory, -1, subdirectory)
    }

    fn count_entry(
        &mut self,
        directory: ObjectId,
        by: i64,
        subdirectory: bool,
    ) -> Result<(), PosixError> {
        let now = self.now();
        let attributes = &mut self.node(directory)?.attributes;
        attributes.size = attributes.size.saturating_add_signed(by);
        if subdirectory {
            attributes.links = attributes.links.saturating_add_signed(by);
        }
        (attributes.modified, attributes.changed) = (now, now);
        Ok(())
    }

    /// Takes away one of an object's names; the last one frees it.
    fn drop_link(&mut self, object: ObjectId) -> Result<(), PosixError> {
        let now = self.now();
        let attributes = &mut self.node(object)?.attributes;
        attributes.changed = now;
        if is_directory(attributes) {
            if attributes.size > 2 {
                return Err(self.bad("a directory that is not empty is removed"));
            }
            attributes.links = 0;
        } else {
            attributes.links = attributes.links.saturating_sub(1);
        }
        if attributes.links == 0 {
            self.free(object);
        }
        Ok(())
    }

    /// The attributes of a new object, before anything that only some records say.
    fn new_attributes(
        &mut self,
        parent: ObjectId,
        create: &Create<'_>,
    ) -> Result<Attributes, PosixError> {
        let parent_attributes = &self.node(parent)?.attributes;
        let mut flags = parent_attributes.flags & FLAG_XATTR;
        let mut project = 0;
        if parent_attributes.flags & FLAG_PROJECT_INHERIT != 0 {
            flags |= FLAG_PROJECT_INHERIT | FLAG_PROJECT_ID;
            project = parent_attributes.project;
        }
        let now = time_of(create.crtime);
        let mut attributes = Attributes {
            mode: create.mode,
            generation: create.generation,
            links: 1,
            parent,
            uid: Fuid(create.uid),
            gid: Fuid(create.gid),
            flags,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            device: DeviceNumber::from_stored(create.device),
            project,
            ..Attributes::default()
        };
        if is_directory(&attributes) {
            (attributes.size, attributes.links) = (2, 2);
        }
        Ok(attributes)
    }

    /// Types 1, 2, 4 and 14 to 19.
    pub(super) fn apply_create(
        &mut self,
        record: &Record<'_>,
        create: &Create<'_>,
    ) -> Result<(), PosixError> {
        self.advance_clock(time_of(create.crtime));
        self.add_domains(create.uid, create.gid, create.domains);
        if record.record_type == record_type::MKXATTR {
            return self.apply_mkxattr(create);
        }
        if self
            .find(create.directory, create.name, record.case_insensitive)?
            .is_some()
        {
            // The txg that made it was synced after all.
            return Ok(());
        }
        let mut attributes = self.new_attributes(create.directory, create)?;
        let kind = FileKind::from_mode(attributes.mode);
        let wanted = kind.is_some_and(|kind| is_made_by(record.record_type, kind));
        if !wanted {
            return Err(self.bad("an object of another kind than its mode says"));
        }
        if let Some(target) = create.target {
            attributes.size = target.len() as u64;
            attributes.symlink = Some(target.to_vec());
        }
        self.create(create.new.object, attributes)?;
        self.add_entry(create.directory, create.name, create.new.object)?;
        if let Some(extended) = &create.attributes {
            self.set_extended(create.new.object, extended)?;
        }
        if let Some(acl) = &create.acl {
            self.set_acl(create.new.object, acl, false)?;
        }
        Ok(())
    }

    /// Type 3: `directory` is the file that gets a directory of attributes.
    fn apply_mkxattr(&mut self, create: &Create<'_>) -> Result<(), PosixError> {
        let file = create.directory;
        let mut attributes = self.new_attributes(file, create)?;
        attributes.flags |= FLAG_XATTR;
        if !is_directory(&attributes) {
            attributes.mode = XATTR_DIRECTORY_MODE;
            (attributes.size, attributes.links) = (2, 2);
        }
        self.create(create.new.object, attributes)?;
        let now = self.now();
        let attributes = &mut self.node(file)?.attributes;
        attributes.xattr_directory = Some(create.new.object);
        attributes.changed = now;
        Ok(())
    }

    /// Types 5 and 6.
    pub(super) fn apply_remove(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        folds: bool,
    ) -> Result<(), PosixError> {
        let (spelling, target) = self.require(directory, name, folds)?;
        self.remove_entry(directory, &spelling, target.object)?;
        self.drop_link(target.object)
    }

    /// Type 7.
    pub(super) fn apply_link(
        &mut self,
        directory: ObjectId,
        object: ObjectId,
        name: &[u8],
        folds: bool,
    ) -> Result<(), PosixError> {
        if is_directory(&self.node(object)?.attributes) {
            return Err(self.bad("a directory gets a second name"));
        }
        if self.find(directory, name, folds)?.is_some() {
            return Err(self.bad("a link gets a name that is taken"));
        }
        self.add_entry(directory, name, object)?;
        let now = self.now();
        let attributes = &mut self.node(object)?.attributes;
        attributes.links = attributes.links.saturating_add(1);
        attributes.parent = directory;
        attributes.changed = now;
        Ok(())
    }

    /// Types 8, 22 and 23.
    pub(super) fn apply_rename(&mut self, record: &Record<'_>) -> Result<(), PosixError> {
        let RecordBody::Rename {
            source_directory,
            target_directory,
            source,
            target,
            whiteout,
        } = record.body
        else {
            unreachable!("the caller looked at the kind");
        };
        let folds = record.case_insensitive;
        let (spelling, moved) = self.require(source_directory, source, folds)?;
        let replaced = self.find(target_directory, target, folds)?;
        if record.record_type == record_type::RENAME_EXCHANGE {
            let other = replaced.ok_or_else(|| PosixError::NotFound {
                directory: target_directory,
                name: target.to_vec(),
            })?;
            return self.exchange(
                (source_directory, spelling, moved.object),
                (target_directory, other.0, other.1.object),
            );
        }
        self.remove_entry(source_directory, &spelling, moved.object)?;
        match replaced {
            // Two names of one file, or another spelling of the same name.
            Some((_, same)) if same.object == moved.object => {
                let is_other_name = source_directory != target_directory
                    || normalize(source, self.base.name_flags())
                        != normalize(target, self.base.name_flags());
                if is_other_name {
                    self.add_entry(source_directory, &spelling, moved.object)?;
                    return Ok(());
                }
            }
            Some((other, victim)) => {
                self.remove_entry(target_directory, &other, victim.object)?;
                self.drop_link(victim.object)?;
            }
            None => {}
        }
        self.add_entry(target_directory, target, moved.object)?;
        self.set_parent(moved.object, target_directory)?;
        match whiteout {
            Some(whiteout) => self.leave_whiteout(source_directory, source, &whiteout),
            None => Ok(()),
        }
    }

    fn set_parent(&mut self, object: ObjectId, parent: ObjectId) -> Result<(), PosixError> {
        let now = self.now();
        let attributes = &mut self.node(object)?.attributes;
        (attributes.parent, attributes.changed) = (parent, now);
        Ok(())
    }

    fn exchange(
        &mut self,
        first: (ObjectId, Vec<u8>, ObjectId),
        second: (ObjectId, Vec<u8>, ObjectId),
    ) -> Result<(), PosixError> {
        self.remove_entry(first.0, &first.1, first.2)?;
        self.remove_entry(second.0, &second.1, second.2)?;
        self.add_entry(first.0, &first.1, second.2)?;
        self.add_entry(second.0, &second.1, first.2)?;
        self.set_parent(first.2, second.0)?;
        self.set_parent(second.2, first.0)
    }

    fn leave_whiteout(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        whiteout: &Whiteout,
    ) -> Result<(), PosixError> {
        self.advance_clock(time_of(whiteout.crtime));
        let create = create_of(whiteout, directory, name);
        let attributes = self.new_attributes(directory, &create)?;
        if FileKind::from_mode(attributes.mode) != Some(FileKind::CharDevice) {
            return Err(self.bad("a whiteout that is no character device"));
        }
        self.create(whiteout.new.object, attributes)?;
        self.add_entry(directory, name, whiteout.new.object)
    }
}
