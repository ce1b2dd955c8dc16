//! Making files, directories, links and devices (format/3b 2, 3, 4).

use super::access_list::{Inherited, inherit, trivial};
use super::change::Change;
use super::format::directory_normflags;
use super::store::Changes;
use super::{WriteSettings, XattrStorage};
use crate::attributes::{
    FLAG_APPEND_ONLY, FLAG_IMMUTABLE, FLAG_NO_UNLINK, FLAG_PROJECT_ID, FLAG_PROJECT_INHERIT,
    FLAG_XATTR,
};
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::{DeviceNumber, FileKind};
use crate::privileges::SETGID;
use crate::xattr::{POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT};
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_dmu::zap::NewZap;
use cenote_dmu::{NewObject, Object, Zap};
use cenote_ondisk::acl::Ace;
use cenote_ondisk::dnode::DNODE_SLOTS_MAX;
use cenote_ondisk::objset::FLAG_PROJECT_QUOTA_COMPLETE;
use cenote_ondisk::system_attributes::Attribute;
use cenote_ondisk::{NvList, NvValue, ObjectType};
use std::sync::Arc;

/// The list only repeats the mode.
pub(super) const FLAG_ACL_TRIVIAL: u64 = 0x4;
pub(super) const FLAG_ACL_AUTO_INHERIT: u64 = 0x40;
/// Everybody may execute: searching a path need not look at the list.
pub(super) const FLAG_NO_EXECS_DENIED: u64 = 0x100;
/// What a change of contents sets: to be archived, to be scanned.
pub(super) const FLAGS_MODIFIED: u64 = 0x8_0000_0000 | 0x400_0000_0000;

const ALL_EXECUTE: u64 = 0o111;
/// Objects of files and empty directories begin with this block size.
const BLOCK_SIZE_MIN: u64 = 512;
/// The longest target of a symbolic link, as Linux has it.
const TARGET_MAX: usize = 4095;

/// What is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// What it is.
    pub kind: FileKind,
    /// The lower twelve bits of the mode.
    pub mode: u64,
    /// Permissions to leave out, unless a default list of the directory decides.
    pub umask: u64,
    /// Owner.
    pub uid: u64,
    /// Group, unless the directory gives its own to what is made in it (setgid).
    pub gid: u64,
    /// What a device node stands for.
    pub device: DeviceNumber,
    /// A symbolic link's target.
    pub target: Vec<u8>,
}

impl NewFile {
    /// A regular file or directory of root's.
    pub fn new(kind: FileKind, mode: u64) -> Self {
        Self {
            kind,
            mode,
            umask: 0,
            uid: 0,
            gid: 0,
            device: DeviceNumber::default(),
            target: Vec::new(),
        }
    }

    /// The same with an owner.
    pub fn owned_by(self, uid: u64, gid: u64) -> Self {
        Self { uid, gid, ..self }
    }
}

/// The flags of a new object with this mode.
pub(super) fn new_flags(mode: u64, is_directory: bool, projects: bool) -> u64 {
    let mut flags = FLAGS_MODIFIED | FLAG_ACL_TRIVIAL;
    if is_directory {
        flags |= FLAG_ACL_AUTO_INHERIT;
    }
    if mode & ALL_EXECUTE == ALL_EXECUTE {
        flags |= FLAG_NO_EXECS_DENIED;
    }
    if projects {
        flags |= FLAG_PROJECT_ID;
    }
    flags
}

/// What the parent decides about a new object.
pub(super) struct Placed {
    pub(super) mode: u64,
    pub(super) gid: u64,
    flags: u64,
    project: u64,
    /// The NFSv4 list.
    pub(super) list: Vec<Ace>,
    /// Whether the list says more than the mode.
    pub(super) is_inherited: bool,
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl Placed {
    /// The POSIX lists by the names of their attributes.
    pub(super) fn posix_lists(&self) -> impl Iterator<Item = (&'static [u8], &Vec<u8>)> {
        let lists = [
            (POSIX_ACL_ACCESS, &self.access),
            (POSIX_ACL_DEFAULT, &self.default),
        ];
        let lists = lists.into_iter();
        lists.filter_map(|(name, value)| Some((name, value.as_ref()?)))
    }
}

impl Znode {
    /// Refuses changes that a flag of the file forbids.
    pub(super) fn require_unlocked(&self, forbidding: u64) -> Result<(), PosixError> {
        match self.attributes().flags & forbidding {
            0 => Ok(()),
            _ => Err(PosixError::Forbidden { object: self.id() }),
        }
    }

    /// Refuses the change of a file that may not change at all.
    pub(super) fn require_mutable(&self) -> Result<(), PosixError> {
        self.require_unlocked(FLAG_IMMUTABLE)
    }

    /// Refuses the removal of a name of the file.
    pub(super) fn require_removable(&self) -> Result<(), PosixError> {
        self.require_unlocked(FLAG_IMMUTABLE | FLAG_APPEND_ONLY | FLAG_NO_UNLINK)
    }

    /// Refuses the removal of names in the directory.
    pub(super) fn require_shrinkable(&self) -> Result<(), PosixError> {
        self.require_unlocked(FLAG_IMMUTABLE | FLAG_APPEND_ONLY)
    }
}

impl FileSystem {
    /// Makes what `new` says under a name that is free.
    pub fn create(
        &self,
        parent: ObjectId,
        name: &[u8],
        new: &NewFile,
    ) -> Result<Arc<Znode>, PosixError> {
        let writer = self.require_writer()?;
        self.check_new_name(name)?;
        if new.target.len() > TARGET_MAX {
            let (length, limit) = (new.target.len(), TARGET_MAX);
            return Err(PosixError::NameTooLong { length, limit });
        }
        let held = writer.lock(&[parent]);
        let directory = self.live_directory(parent)?;
        directory.require_mutable()?;
        if self.lookup(&directory, name)?.is_some() {
            return Err(exists(&directory, name));
        }
        let placed = self.place(&directory, new)?;
        let tx = self.begin_making((new.uid, placed.gid, placed.project))?;
        let is_directory = new.kind == FileKind::Directory;
        let links = if is_directory { 2 } else { 1 };
        let object = self.make(&tx, parent, links, new, &placed)?;
        self.add_entry(&tx, &directory, name, object.id(), new.kind)?;
        self.change_directory(&tx, &directory, 1, i64::from(is_directory))?;
        let made = self.znode(object.id())?;
        tx.keep();
        self.log_creation(&tx, (parent, name), new, (&object, &placed));
        drop((tx, held));
        Ok(made)
    }

    /// Makes a regular file without a name, to be given one by [`Self::link`]; it is held once.
    pub fn create_unnamed(
        &self,
        parent: ObjectId,
        new: &NewFile,
    ) -> Result<Arc<Znode>, PosixError> {
        let writer = self.require_writer()?;
        if new.kind != FileKind::Regular {
            return Err(PosixError::NotSupported);
        }
        let held = writer.lock(&[parent]);
        let directory = self.live_directory(parent)?;
        let placed = self.place(&directory, new)?;
        let tx = self.begin_making((new.uid, placed.gid, placed.project))?;
        let object = self.make(&tx, parent, 0, new, &placed)?;
        let made = self.znode(object.id())?;
        self.hold_new(object.id())?;
        if let Err(error) = self.enqueue(&tx, object.id()) {
            self.unhold_new(object.id())?;
            return Err(error);
        }
        tx.keep();
        drop((tx, held));
        Ok(made)
    }

    /// What the parent decides.
    fn place(&self, directory: &Znode, new: &NewFile) -> Result<Placed, PosixError> {
        let parent = directory.attributes();
        let is_directory = new.kind == FileKind::Directory;
        let settings = self.write_settings()?;
        let default = match settings.posix_acls && new.kind != FileKind::Symlink {
            true => self.xattr_unlocked(directory, POSIX_ACL_DEFAULT)?,
            false => None,
        };
        let inherited = default.as_deref().and_then(|list| inherit(list, new.mode));
        let has_posix_list = inherited.is_some();
        let (mut mode, access) = match inherited {
            Some(Inherited {
                permissions,
                access,
            }) => (permissions, access),
            None => (new.mode & 0o7777 & !new.umask, None),
        };
        let mut gid = new.gid;
        if parent.mode & SETGID != 0 {
            gid = parent.gid.0;
            mode |= if is_directory { SETGID } else { 0 };
        }
        let mut mode = mode | u64::from(new.kind.type_bits()) << 12;
        let projects = self.has_projects();
        let owners = (new.uid, gid);
        let list = match has_posix_list {
            true => None,
            false => self.inherited_list(directory, new.kind, mode, owners)?,
        };
        let is_inherited = list.is_some();
        let (list, mut flags) = match list {
            Some(inherited) => {
                mode = inherited.mode;
                let flags = inherited.flags_of(new_flags(mode, is_directory, projects));
                (inherited.aces, flags)
            }
            None => {
                let flags = new_flags(mode, is_directory, projects);
                (trivial(mode, is_directory), flags)
            }
        };
        let inherits = projects && parent.flags & FLAG_PROJECT_INHERIT != 0;
        if inherits && is_directory {
            flags |= FLAG_PROJECT_INHERIT;
        }
        Ok(Placed {
            mode,
            gid,
            flags,
            project: if inherits { parent.project } else { 0 },
            list,
            is_inherited,
            access,
            default: default.filter(|_| is_directory),
        })
    }

    /// Whether new files get a project id.
    pub(super) fn has_projects(&self) -> bool {
        let flags = self.set().header().flags | self.set().counted_now();
        self.tables().is_some() && flags & FLAG_PROJECT_QUOTA_COMPLETE != 0
    }

    /// The attributes of a new object in the order in which they are stored.
    fn new_attributes(
        &self,
        tx: &Change<'_>,
        parent: ObjectId,
        links: u64,
        new: &NewFile,
        placed: &Placed,
    ) -> Result<Changes, PosixError> {
        let size = match new.kind {
            FileKind::Directory => 2,
            FileKind::Symlink => new.target.len() as u64,
            _ => 0,
        };
        let now = self.require_writer()?.now();
        let mut attributes = Changes::new()
            .word(Attribute::Mode, placed.mode)
            .word(Attribute::Size, size)
            .word(Attribute::Gen, tx.txg().0)
            .word(Attribute::Uid, new.uid)
            .word(Attribute::Gid, placed.gid)
            .word(Attribute::Parent, parent.0)
            .word(Attribute::Flags, placed.flags)
            .time(Attribute::Atime, now)
            .time(Attribute::Mtime, now)
            .time(Attribute::Ctime, now)
            .time(Attribute::Crtime, now)
            .word(Attribute::Links, links);
        if placed.flags & FLAG_PROJECT_ID != 0 {
            attributes = attributes.word(Attribute::ProjectId, placed.project);
        }
        if matches!(new.kind, FileKind::CharDevice | FileKind::BlockDevice) {
            attributes = attributes.word(Attribute::Rdev, new.device.to_stored());
        }
        attributes = attributes.access_list(&placed.list);
        if new.kind == FileKind::Symlink {
            attributes = attributes.bytes(Attribute::Symlink, new.target.clone());
        }
        let mut list = NvList::new();
        for (name, value) in placed.posix_lists() {
            list.set(name, NvValue::ByteArray(value.clone()));
        }
        if !list.is_empty() && self.tables().is_some() {
            attributes = attributes.bytes(Attribute::Dxattr, list.encode_xdr());
        }
        Ok(attributes)
    }

    /// Makes the object, which no name leads to yet.
    fn make(
        &self,
        tx: &Change<'_>,
        parent: ObjectId,
        links: u64,
        new: &NewFile,
        placed: &Placed,
    ) -> Result<Object, PosixError> {
        let attributes = self.new_attributes(tx, parent, links, new, placed)?;
        let object = self.allocate(tx, new.kind, &attributes, None)?;
        if self.tables().is_none() {
            for (name, value) in placed.posix_lists() {
                // No record could come behind the one that makes the file.
                self.log_nothing(tx);
                self.put_xattr_file(tx, object.id(), (name, value), false)?;
            }
        }
        Ok(object)
    }

    /// Allocates an object for a file with these attributes; `place` names its number and the
    /// slots of its dnode, if they are given.
    pub(super) fn allocate(
        &self,
        tx: &Change<'_>,
        kind: FileKind,
        attributes: &Changes,
        place: Option<(ObjectId, usize)>,
    ) -> Result<Object, PosixError> {
        let slots = match place {
            Some((_, slots)) => slots.clamp(1, DNODE_SLOTS_MAX),
            None => self.write_settings()?.dnode_slots,
        };
        let is_legacy = self.tables().is_none();
        let (bonus_type, bonus, spill, target) = match is_legacy {
            true => {
                let new = self.new_legacy(tx, attributes)?;
                (ObjectType::ZNODE, new.bonus, None, new.target)
            }
            false => {
                let (bonus, spill) = self.new_buffers(tx, attributes, slots)?;
                (ObjectType::SYSTEM_ATTRIBUTES, bonus, spill, None)
            }
        };
        let is_directory = kind == FileKind::Directory;
        let object_type = match is_directory {
            true => ObjectType::DIRECTORY,
            false => ObjectType::PLAIN_FILE,
        };
        let block_size = target.as_ref().map_or(BLOCK_SIZE_MIN, |target| {
            (target.len() as u64).next_multiple_of(BLOCK_SIZE_MIN)
        });
        let mut new = NewObject::new(object_type, block_size).with_bonus(bonus_type, bonus);
        new.slots = slots;
        let object = match place {
            Some((id, _)) => self.set().allocate_at(tx, id, new)?,
            None => self.set().allocate(tx, new)?,
        };
        if spill.is_some() {
            object.set_spill(tx, spill)?;
        }
        if let Some(target) = target {
            object.write(tx, 0, &target)?;
        }
        if is_directory {
            let new = NewZap {
                normflags: directory_normflags(self.master().names),
                ..NewZap::default()
            };
            Zap::initialize(&object, tx, new)?;
        }
        // Another object may have had the number.
        self.forget(object.id());
        self.forget_read(object.id());
        Ok(object)
    }

    /// Makes the hidden directory of extended attributes of `file`.
    pub(super) fn make_xattr_directory(
        &self,
        tx: &Change<'_>,
        file: &Znode,
    ) -> Result<Object, PosixError> {
        let new = NewFile::new(FileKind::Directory, 0o1777);
        self.make_hidden(tx, file, file, &new)
    }

    /// Makes the file that holds an extended attribute of `file`. It is counted for the project of
    /// the hidden directory.
    pub(super) fn make_xattr_file(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        directory: &Znode,
    ) -> Result<Object, PosixError> {
        let new = NewFile::new(FileKind::Regular, 0o644);
        self.make_hidden(tx, file, directory, &new)
    }

    fn make_hidden(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        parent: &Znode,
        new: &NewFile,
    ) -> Result<Object, PosixError> {
        let owner = file.attributes();
        let new = new.clone().owned_by(owner.uid.0, owner.gid.0);
        let is_directory = new.kind == FileKind::Directory;
        let mode = new.mode | u64::from(new.kind.type_bits()) << 12;
        let placed = Placed {
            mode,
            gid: owner.gid.0,
            flags: FLAG_XATTR | new_flags(mode, is_directory, self.has_projects()),
            project: parent.attributes().project,
            list: trivial(mode, is_directory),
            is_inherited: false,
            access: None,
            default: None,
        };
        let links = if is_directory { 2 } else { 1 };
        self.make(tx, parent.id(), links, &new, &placed)
    }

    /// Checks that a name may be made.
    pub(super) fn check_new_name(&self, name: &[u8]) -> Result<(), PosixError> {
        let WriteSettings { long_names, .. } = self.write_settings()?;
        let limit = if long_names { 1023 } else { 255 };
        if name.len() > limit {
            let length = name.len();
            return Err(PosixError::NameTooLong { length, limit });
        }
        let is_reserved = matches!(name, b"" | b"." | b"..");
        if is_reserved || name.contains(&b'/') || name.contains(&0) {
            return Err(PosixError::InvalidName {
                name: name.to_vec(),
            });
        }
        if self.master().names.utf8_only && std::str::from_utf8(name).is_err() {
            return Err(PosixError::NotUtf8 {
                name: name.to_vec(),
            });
        }
        Ok(())
    }
}

pub(super) fn exists(directory: &Znode, name: &[u8]) -> PosixError {
    PosixError::Exists {
        directory: directory.id(),
        name: name.to_vec(),
    }
}

impl XattrStorage {
    /// Whether attributes may be made at all.
    pub(super) fn is_on(self) -> bool {
        self != Self::Off
    }
}

impl FileSystem {
    /// Makes an object for a name in `directory`, as [`Self::create`] does; returns it with the
    /// mode and the group that it got.
    pub(super) fn make_in(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        new: &NewFile,
    ) -> Result<(Object, Placed), PosixError> {
        let placed = self.place(directory, new)?;
        let object = self.make(tx, directory.id(), 1, new, &placed)?;
        Ok((object, placed))
    }
}
