//! Changing modes, owners, times, flags and projects.

use super::access_list::change_mode;
use super::change::Change;
use super::create::{FLAG_ACL_TRIVIAL, FLAG_NO_EXECS_DENIED};
use super::nfs4::list_changes;
use super::store::Changes;
use crate::attributes::{FLAG_APPEND_ONLY, FLAG_IMMUTABLE, FLAG_PROJECT_ID, FLAG_PROJECT_INHERIT};
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::time::Timestamp;
use crate::xattr::POSIX_ACL_ACCESS;
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_ondisk::dir_entry::DirEntry;
use cenote_ondisk::system_attributes::Attribute;
use std::sync::Arc;

const PERMISSIONS: u64 = 0o7777;
/// Objects of extended attributes that change owners in one transaction: those of nearly all files.
/// If a file has more, the rest are changed in earlier transactions.
const HIDDEN_AT_ONCE: usize = 1024;
const ALL_EXECUTE: u64 = 0o111;
/// The flags that a caller may set: those of DOS, those that forbid, and inheritance of projects.
pub(super) const FLAGS_SETTABLE: u64 = 0xFF_0000_0000 | FLAG_PROJECT_INHERIT;

/// New values; `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The lower twelve bits of the mode.
    pub mode: Option<u64>,
    /// Owner.
    pub uid: Option<u64>,
    /// Group.
    pub gid: Option<u64>,
    /// Bytes of a regular file.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<Timestamp>,
    /// Last change of the content.
    pub modified: Option<Timestamp>,
    /// Last change of anything; otherwise that is now.
    pub changed: Option<Timestamp>,
    /// Creation.
    pub created: Option<Timestamp>,
    /// `z_pflags` that callers may choose.
    pub flags: Option<u64>,
    /// Project.
    pub project: Option<u64>,
    /// The request sets the times to now, which every user with write permission may do.
    pub is_touch: bool,
}

impl SetAttributes {
    /// Only the time of the last read.
    pub fn accessed(time: Timestamp) -> Self {
        Self {
            accessed: Some(time),
            ..Self::default()
        }
    }

    /// The flags of a file that had `flags`, but for what else they follow.
    pub(super) fn flags_of(&self, flags: u64) -> u64 {
        let wanted = self.flags.unwrap_or(flags);
        flags & !FLAGS_SETTABLE | wanted & FLAGS_SETTABLE
    }

    /// Whether a file that only grows takes it.
    fn is_allowed_when_growing(&self) -> bool {
        let rest = Self {
            accessed: None,
            modified: None,
            changed: None,
            is_touch: false,
            ..*self
        };
        self.is_touch && rest == Self::default()
    }

    /// Whether a file that may not change takes it: the flag itself, and the time of a read.
    fn is_allowed_when_immutable(&self) -> bool {
        let rest = Self {
            accessed: None,
            flags: None,
            ..*self
        };
        rest == Self::default()
    }
}

impl FileSystem {
    /// Changes attributes; returns the file as it is then.
    pub fn set_attributes(
        &self,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Arc<Znode>, PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        let file = self.znode(id)?;
        if !set.is_allowed_when_immutable() {
            let is_touch = set.is_allowed_when_growing();
            file.require_unlocked(match is_touch {
                true => FLAG_IMMUTABLE,
                false => FLAG_IMMUTABLE | FLAG_APPEND_ONLY,
            })?;
        }
        let owners = self.new_owners(&file, set)?;
        let rest = SetAttributes { size: None, ..*set };
        match set.size {
            _ if rest != SetAttributes::default() => {
                self.set_more_than_size(&file, (set.size, &rest), owners)
            }
            Some(size) => self.truncate_locked(id, size),
            None => Ok(file),
        }
    }

    /// Changes attributes of a file whose lock is held, and perhaps its size; returns it as it is
    /// then. It gets the `owners`, if they differ from the present ones.
    fn set_more_than_size(
        &self,
        file: &Znode,
        (size, rest): (Option<u64>, &SetAttributes),
        owners: Option<(u64, u64, u64)>,
    ) -> Result<Arc<Znode>, PosixError> {
        let id = file.id();
        let hidden = self.hidden_objects(file, rest)?;
        let early = hidden.len().saturating_sub(HIDDEN_AT_ONCE);
        let (early, hidden) = hidden.split_at(early);
        for hidden in early.chunks(HIDDEN_AT_ONCE) {
            let tx = self.begin_freeing(0)?;
            self.change_hidden_owners(&tx, hidden, rest)?;
            tx.keep();
        }
        let tx = match (size, owners) {
            (Some(size), owners) => {
                if let Some(owners) = owners {
                    // Whether they may have the file; nothing is changed yet.
                    drop(self.begin_giving(file, owners)?);
                }
                let tx = self.begin_truncation(id, size)?;
                self.log_modified(&tx, id)?;
                tx
            }
            (None, Some(owners)) => self.begin_giving(file, owners)?,
            (None, None) => self.begin(0)?,
        };
        // As truncation left it.
        let file = self.znode(id)?;
        let changes = self.attribute_changes(&file, rest)?;
        self.change(&tx, id, &changes)?;
        self.change_hidden_owners(&tx, hidden, rest)?;
        let has_hidden_list = match rest.mode {
            Some(mode) => self.change_hidden_list(&tx, &file, mode)?,
            None => false,
        };
        self.log_attributes(&tx, &file, rest);
        // Flags forbid operations on names: a log has both in the order in which they were. The
        // list in a hidden file comes among them, and the mode with it.
        if rest.flags.is_some() || has_hidden_list {
            tx.log_in_order(id);
        }
        if rest.uid.is_some() || rest.gid.is_some() {
            self.drop_capabilities(&tx, &*self.znode(id)?)?;
        }
        let changed = self.znode(id)?;
        tx.keep();
        Ok(changed)
    }

    /// The user, group and project that a file gets, if any of them is another one than now.
    fn new_owners(
        &self,
        file: &Znode,
        set: &SetAttributes,
    ) -> Result<Option<(u64, u64, u64)>, PosixError> {
        let now = file.attributes();
        let uid = set.uid.unwrap_or(now.uid.0);
        let gid = set.gid.unwrap_or(now.gid.0);
        let project = set.project.unwrap_or(now.project);
        if (uid, gid, project) == (now.uid.0, now.gid.0, now.project) {
            return Ok(None);
        }
        if set.project.is_some() && !self.has_projects() {
            return Err(PosixError::NotSupported);
        }
        Ok(Some((uid, gid, project)))
    }

    fn attribute_changes(&self, file: &Znode, set: &SetAttributes) -> Result<Changes, PosixError> {
        let now = file.attributes();
        let mut changes = Changes::new();
        let mut flags = set.flags_of(now.flags);
        if let Some(mode) = set.mode {
            let mode = now.mode & !PERMISSIONS | mode & PERMISSIONS;
            (changes, flags) = self.mode_changes(changes, file, mode, flags)?;
        }
        for (attribute, value) in [(Attribute::Uid, set.uid), (Attribute::Gid, set.gid)] {
            if let Some(value) = value {
                changes = changes.word(attribute, value);
            }
        }
        if let Some(project) = set.project {
            changes = changes.word(Attribute::ProjectId, project);
            flags |= FLAG_PROJECT_ID;
        }
        for (attribute, time) in [
            (Attribute::Atime, set.accessed),
            (Attribute::Mtime, set.modified),
            (Attribute::Crtime, set.created),
        ] {
            if let Some(time) = time {
                changes = changes.time(attribute, time);
            }
        }
        if flags != now.flags {
            changes = changes.word(Attribute::Flags, flags);
        }
        let changed = set.changed.unwrap_or(self.require_writer()?.now());
        Ok(changes.time(Attribute::Ctime, changed))
    }

    /// A new mode, the lists that follow it, and the file's new flags.
    pub(super) fn mode_changes(
        &self,
        changes: Changes,
        file: &Znode,
        mode: u64,
        flags: u64,
    ) -> Result<(Changes, u64), PosixError> {
        let aces = self.list_after(file, mode)?;
        let changes = changes.word(Attribute::Mode, mode);
        let (changes, flags) = list_changes(changes, file, &aces, (mode, flags));
        let Some(mut list) = file.xattr_list()? else {
            return Ok((changes, flags));
        };
        let Some(changed) = list
            .get_byte_array(POSIX_ACL_ACCESS)
            .and_then(|access| change_mode(access, mode))
        else {
            return Ok((changes, flags));
        };
        list.set(POSIX_ACL_ACCESS, cenote_ondisk::NvValue::ByteArray(changed));
        let changes = changes.bytes(Attribute::Dxattr, list.encode_xdr());
        Ok((changes, flags))
    }
}

impl FileSystem {
    /// The objects of a file's extended attributes, if its owners change: they belong to the same.
    pub(super) fn hidden_objects(
        &self,
        file: &Znode,
        set: &SetAttributes,
    ) -> Result<Vec<ObjectId>, PosixError> {
        let changes_owners = set.uid.is_some() || set.gid.is_some() || set.project.is_some();
        let directory = file.attributes().xattr_directory;
        let Some(directory) = directory.filter(|_| changes_owners) else {
            return Ok(Vec::new());
        };
        let mut objects = vec![directory];
        for entry in self.set().zap(directory)?.entries() {
            let word = entry?.value.first_u64().unwrap_or(0);
            objects.push(DirEntry::decode(word).object);
        }
        Ok(objects)
    }

    /// Gives objects of extended attributes to the owners that their file gets.
    pub(super) fn change_hidden_owners(
        &self,
        tx: &Change<'_>,
        objects: &[ObjectId],
        set: &SetAttributes,
    ) -> Result<(), PosixError> {
        for id in objects {
            let mut changes = Changes::new();
            for (attribute, value) in [(Attribute::Uid, set.uid), (Attribute::Gid, set.gid)] {
                if let Some(value) = value {
                    changes = changes.word(attribute, value);
                }
            }
            if let Some(project) = set.project {
                let flags = self.znode(*id)?.attributes().flags | FLAG_PROJECT_ID;
                changes = changes
                    .word(Attribute::ProjectId, project)
                    .word(Attribute::Flags, flags);
            }
            self.change(tx, *id, &changes)?;
        }
        Ok(())
    }

    /// Lets a POSIX list that is in the directory of extended attributes follow the mode, as
    /// [`Self::mode_changes`] does with one among the attributes; whether there is one that does.
    pub(super) fn change_hidden_list(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        mode: u64,
    ) -> Result<bool, PosixError> {
        if file.attributes().xattr_directory.is_none() {
            return Ok(false);
        }
        let list = file.xattr_list()?;
        if list.is_some_and(|list| list.get_byte_array(POSIX_ACL_ACCESS).is_some()) {
            return Ok(false);
        }
        let Some(access) = self.xattr_unlocked(file, POSIX_ACL_ACCESS)? else {
            return Ok(false);
        };
        let Some(changed) = change_mode(&access, mode) else {
            return Ok(false);
        };
        self.write_xattr_file(tx, file.id(), POSIX_ACL_ACCESS, &changed)?;
        Ok(true)
    }
}

/// The flags that follow from a mode.
pub(super) fn mode_flags(flags: u64, mode: u64) -> u64 {
    let flags = flags & !FLAG_NO_EXECS_DENIED | FLAG_ACL_TRIVIAL;
    match mode & ALL_EXECUTE == ALL_EXECUTE {
        true => flags | FLAG_NO_EXECS_DENIED,
        false => flags,
    }
}
