//! Changing extended attributes (format/3b 7).
//!
//! With `xattr=sa`, small values are stored in a packed list among the system attributes. Others
//! are files in a hidden directory. A value that moves from one place to the other is taken out of
//! the first in the same transaction. The lists of POSIX are attributes whose change changes the
//! mode.

use super::access_list::{mode_of, trivial};
use super::change::Change;
use super::create::exists;
use super::nfs4::list_flags;
use super::store::Changes;
use super::{NAMES_COST, XattrStorage};
use crate::attributes::{FLAG_APPEND_ONLY, FLAG_IMMUTABLE};
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::privileges::SETGID;
use crate::xattr::{POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT, stored_names};
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_ondisk::intent_log::record::{RecordBody, record_type};
use cenote_ondisk::system_attributes::Attribute;
use cenote_ondisk::{NvList, NvValue, ObjectType};

/// The largest value in the list.
const LIST_VALUE_MAX: usize = 32 << 10;
/// The largest list: lengths of attributes have 16 bits.
const LIST_SIZE_MAX: usize = (64 << 10) - 8;
/// The largest value at all, as on Linux.
const VALUE_MAX: usize = 64 << 10;
const NAME_MAX: usize = 255;
/// What a program may do that its caller may not.
const CAPABILITIES: &[u8] = b"security.capability";

/// Whether an attribute must or must not be there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Either.
    #[default]
    Any,
    /// It must be new.
    Create,
    /// It must be there.
    Replace,
    /// Either. The user is outside the file's group, so a POSIX list clears the setgid bit.
    ByStranger,
}

impl FileSystem {
    /// Sets extended attribute `name`.
    pub fn set_xattr(
        &self,
        id: ObjectId,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        if value.len() > VALUE_MAX {
            return Err(PosixError::AttributesTooLarge);
        }
        let _held = writer.lock(&[id]);
        let file = self.file_for_xattr(id, name)?;
        match (self.xattr_unlocked(&file, name)?.is_some(), how) {
            (true, SetXattr::Create) => return Err(exists(&file, name)),
            (false, SetXattr::Replace) => return Err(no_attribute(&file, name)),
            _ => {}
        }
        let bytes = value.len() as u64 * 2;
        let tx = self.begin_growing(file.attributes(), |_| bytes, NAMES_COST + bytes)?;
        let mut changes = Changes::new().time(Attribute::Ctime, writer.now());
        let is_directory = file.kind() == FileKind::Directory;
        if name == POSIX_ACL_DEFAULT && (!is_directory || mode_of(value).is_none()) {
            return Err(PosixError::InvalidValue);
        }
        if name == POSIX_ACL_ACCESS {
            let Some((permissions, is_minimal)) = mode_of(value) else {
                return Err(PosixError::InvalidValue);
            };
            let lost = match how {
                SetXattr::ByStranger => SETGID,
                _ => 0,
            };
            let mode = file.attributes().mode & !0o777 & !lost | permissions;
            changes = take_permissions(changes, &file, mode);
            // A log may end between the two records. There the file must not grant access that
            // neither the old list nor the new one grants. So the mask of a list stays for as long
            // as there is a list, and comes only after it.
            if is_minimal {
                self.log_posix_mode(&tx, &file, mode);
                if file.attributes().xattr_directory.is_some() {
                    tx.log_in_order(id);
                }
                self.take_away(&tx, &file, name, changes)?;
                tx.keep();
                return Ok(());
            }
            self.put_xattr(&tx, &file, name, value, changes)?;
            self.log_posix_mode(&tx, &file, mode);
            let list = self.znode(id)?.xattr_list()?.unwrap_or_default();
            if !list.contains(name) {
                // It is in a hidden file, and comes among the changes of names.
                tx.log_in_order(id);
            }
            tx.keep();
            return Ok(());
        }
        self.put_xattr(&tx, &file, name, value, changes)?;
        tx.keep();
        Ok(())
    }

    /// Reads a value that may be a file of its own, which is replaced in steps.
    pub(crate) fn xattr_between_changes(
        &self,
        file: &Znode,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, PosixError> {
        let _held = self.require_writer()?.lock(&[file.id()]);
        self.xattr_unlocked(&*self.znode(file.id())?, name)
    }

    fn file_for_xattr(
        &self,
        id: ObjectId,
        name: &[u8],
    ) -> Result<std::sync::Arc<Znode>, PosixError> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(&0) {
            return Err(PosixError::InvalidName {
                name: name.to_vec(),
            });
        }
        let settings = self.write_settings()?;
        let is_acl = name == POSIX_ACL_ACCESS || name == POSIX_ACL_DEFAULT;
        if !settings.xattrs.is_on() || is_acl && !settings.posix_acls {
            return Err(PosixError::NotSupported);
        }
        let file = self.znode(id)?;
        file.require_unlocked(FLAG_IMMUTABLE | FLAG_APPEND_ONLY)?;
        Ok(file)
    }

    fn put_xattr(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        name: &[u8],
        value: &[u8],
        changes: Changes,
    ) -> Result<(), PosixError> {
        let settings = self.write_settings()?;
        let in_list = settings.xattrs == XattrStorage::SystemAttributes
            && value.len() <= LIST_VALUE_MAX
            // Legacy znodes have no place for a list, in file systems of any version.
            && self.newest(file.id())?.dnode().bonus_type == ObjectType::SYSTEM_ATTRIBUTES;
        let before = file.xattr_list()?;
        let mut list = before.clone().unwrap_or_default();
        for stored in stored_names(name) {
            list.remove(stored);
        }
        if in_list {
            let mut list = list.clone();
            list.set(name, NvValue::ByteArray(value.to_vec()));
            let packed = list.encode_xdr();
            if packed.len() <= LIST_SIZE_MAX {
                let changes = changes.bytes(Attribute::Dxattr, packed);
                let before = before.unwrap_or_default();
                let others = stored_names(name).filter(|other| *other != name);
                for other in others.filter(|other| before.contains(other)) {
                    self.log_xattr(tx, file, (other, None));
                }
                self.log_xattr(tx, file, (name, Some(value)));
                self.change(tx, file.id(), &changes)?;
                if self.has_xattr_file(file, name)? {
                    // What replaces the hidden file comes before its name goes.
                    tx.log_in_order(file.id());
                }
                return self.remove_xattr_file(tx, file, name);
            }
        }
        let before = before.unwrap_or_default();
        let changes = match before != list {
            true => with_list(changes, &list),
            false => changes,
        };
        self.change(tx, file.id(), &changes)?;
        self.write_xattr_file(tx, file.id(), name, value)?;
        if before != list {
            // The value in the list counts until the hidden file is there.
            for other in stored_names(name).filter(|other| before.contains(other)) {
                self.log_xattr(tx, file, (other, None));
            }
            tx.log_in_order(file.id());
        }
        Ok(())
    }

    /// Whether an attribute is in the hidden directory.
    fn has_xattr_file(&self, file: &Znode, name: &[u8]) -> Result<bool, PosixError> {
        let Some(directory) = file.attributes().xattr_directory else {
            return Ok(false);
        };
        let directory = self.znode(directory)?;
        for stored in stored_names(name) {
            if self.lookup(&directory, stored)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes a value as a file in the hidden directory, which is made if there is none.
    pub(super) fn write_xattr_file(
        &self,
        tx: &Change<'_>,
        id: ObjectId,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), PosixError> {
        // What has no name is gone after a crash, and no record can speak of it.
        let is_told = self.znode(id)?.attributes().links > 0;
        self.put_xattr_file(tx, id, (name, value), is_told)
    }

    /// The same; `is_told` if the log gets records of it.
    pub(super) fn put_xattr_file(
        &self,
        tx: &Change<'_>,
        id: ObjectId,
        (name, value): (&[u8], &[u8]),
        is_told: bool,
    ) -> Result<(), PosixError> {
        let file = self.znode(id)?;
        let directory = match file.attributes().xattr_directory {
            Some(directory) => directory,
            None => {
                let directory = self.make_xattr_directory(tx, &file)?;
                let changes = Changes::new().word(Attribute::Xattr, directory.id().0);
                self.change(tx, id, &changes)?;
                if is_told {
                    self.log_hidden(tx, record_type::MKXATTR, (id, b""), &directory)?;
                }
                directory.id()
            }
        };
        let directory = self.znode(directory)?;
        let mut object = None;
        for stored in stored_names(name) {
            object = object.or(self.lookup(&directory, stored)?);
        }
        let object = match object {
            Some(target) => target.object,
            None => {
                let object = self.make_xattr_file(tx, &file, &directory)?;
                self.add_entry(tx, &directory, name, object.id(), FileKind::Regular)?;
                self.change_directory(tx, &directory, 1, 0)?;
                if is_told {
                    let place = (directory.id(), name);
                    self.log_hidden(tx, record_type::CREATE, place, &object)?;
                }
                object.id()
            }
        };
        let contents = self.newest(object)?;
        contents.free_range(tx, 0, u64::MAX)?;
        if !value.is_empty() {
            let size = (value.len() as u64).next_multiple_of(512);
            if contents.dnode().block_id_max.0 == 0 && contents.dnode().data_block_size < size {
                contents.set_block_size(tx, size)?;
            }
            contents.write(tx, 0, value)?;
        }
        if is_told {
            self.log_hidden_value(tx, object, value);
        }
        let now = self.require_writer()?.now();
        let changes = Changes::new()
            .word(Attribute::Size, value.len() as u64)
            .time(Attribute::Mtime, now)
            .time(Attribute::Ctime, now);
        self.change(tx, object, &changes)
    }

    /// Removes extended attribute `name`.
    pub fn remove_xattr(&self, id: ObjectId, name: &[u8]) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        let file = self.file_for_xattr(id, name)?;
        if self.xattr_unlocked(&file, name)?.is_none() {
            return Err(no_attribute(&file, name));
        }
        let tx = self.begin_freeing(0)?;
        let changes = Changes::new().time(Attribute::Ctime, writer.now());
        self.take_away(&tx, &file, name, changes)?;
        tx.keep();
        Ok(())
    }

    /// Removes the capabilities of a program whose contents or owner change: the changed program
    /// must not run with them (capabilities(7)). Linux leaves this to file systems that promise
    /// `FUSE_HANDLE_KILLPRIV_V2`.
    pub(super) fn drop_capabilities(
        &self,
        tx: &Change<'_>,
        file: &Znode,
    ) -> Result<(), PosixError> {
        let attributes = file.attributes();
        let packed = attributes.xattrs.as_deref().unwrap_or_default();
        let is_listed = packed
            .windows(CAPABILITIES.len())
            .any(|name| name == CAPABILITIES);
        if !is_listed && attributes.xattr_directory.is_none() {
            return Ok(());
        }
        match self.xattr_unlocked(file, CAPABILITIES)? {
            Some(_) => self.take_away(tx, file, CAPABILITIES, Changes::new()),
            None => Ok(()),
        }
    }

    /// Removes an attribute, from the list or the directory.
    fn take_away(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        name: &[u8],
        changes: Changes,
    ) -> Result<(), PosixError> {
        let mut changes = changes;
        if let Some(mut list) = file.xattr_list()? {
            let mut removed = false;
            for stored in stored_names(name) {
                if list.remove(stored) {
                    self.log_xattr(tx, file, (stored, None));
                    removed = true;
                }
            }
            if removed {
                changes = with_list(changes, &list);
            }
        }
        self.change(tx, file.id(), &changes)?;
        self.remove_xattr_file(tx, file, name)
    }

    /// Removes an attribute from the hidden directory, if it is there.
    fn remove_xattr_file(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        name: &[u8],
    ) -> Result<(), PosixError> {
        let Some(directory) = file.attributes().xattr_directory else {
            return Ok(());
        };
        for stored in stored_names(name) {
            let directory = self.znode(directory)?;
            let Some(target) = self.lookup(&directory, stored)? else {
                continue;
            };
            self.set().free(tx, target.object)?;
            self.remove_entry(tx, &directory, stored)?;
            self.change_directory(tx, &directory, -1, 0)?;
            if file.attributes().links > 0 {
                let (directory, name) = (directory.id(), stored);
                let body = RecordBody::Remove { directory, name };
                self.log(tx, record_type::REMOVE, body);
            }
            self.forget(target.object);
        }
        Ok(())
    }
}

/// The mode that a POSIX list stands for. The NFSv4 list follows it.
fn take_permissions(changes: Changes, file: &Znode, mode: u64) -> Changes {
    let is_directory = file.kind() == FileKind::Directory;
    let aces = trivial(mode, is_directory);
    let flags = list_flags(file.attributes().flags, &aces, mode, is_directory);
    changes
        .word(Attribute::Mode, mode)
        .word(Attribute::Flags, flags)
        .access_list(&aces)
}

/// Stores a list; an empty one is not stored at all.
pub(super) fn with_list(changes: Changes, list: &NvList) -> Changes {
    match list.is_empty() {
        true => changes.absent(Attribute::Dxattr),
        false => changes.bytes(Attribute::Dxattr, list.encode_xdr()),
    }
}

fn no_attribute(file: &Znode, name: &[u8]) -> PosixError {
    PosixError::NoAttribute {
        object: file.id(),
        name: name.to_vec(),
    }
}
