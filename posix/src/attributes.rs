//! A file's attributes, decoded from the form that the file system's version stores.

use crate::error::PosixError;
use crate::fuid::Fuid;
use crate::kind::{DeviceNumber, FileKind};
use crate::stored_acl::StoredAcl;
use crate::time::Timestamp;
use cenote_base::ObjectId;
use cenote_dmu::{DmuError, ObjectSet, Zap};
use cenote_ondisk::DecodeError;
use cenote_ondisk::master_node::attribute_keys;
use cenote_ondisk::system_attributes::{Attribute, SaTables, SaValue};
use cenote_ondisk::znode_phys::{ZnodeAcl, ZnodePhys};
use std::sync::Arc;

/// The file is, or belongs to, extended attributes (`ZFS_XATTR`, format/3b 3).
pub const FLAG_XATTR: u64 = 0x1;
/// The file does not change at all (`ZFS_IMMUTABLE`).
pub const FLAG_IMMUTABLE: u64 = 0x10_0000_0000;
/// The file keeps its names (`ZFS_NOUNLINK`).
pub const FLAG_NO_UNLINK: u64 = 0x20_0000_0000;
/// The file only grows (`ZFS_APPENDONLY`).
pub const FLAG_APPEND_ONLY: u64 = 0x40_0000_0000;
/// `dump(8)` passes the file over (`ZFS_NODUMP`).
pub const FLAG_NO_DUMP: u64 = 0x80_0000_0000;
/// What is made in the directory belongs to its project (`ZFS_PROJINHERIT`).
pub const FLAG_PROJECT_INHERIT: u64 = 0x4000_0000_0000;
/// The file has a project id (`ZFS_PROJID`).
pub const FLAG_PROJECT_ID: u64 = 0x8000_0000_0000;

const PERMISSIONS: u64 = 0o7777;

/// The attributes of an object of a file system (format/3b 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Type and permissions, as `st_mode`.
    pub mode: u64,
    /// Bytes; of directories entries + 2.
    pub size: u64,
    /// The txg of creation.
    pub generation: u64,
    /// Number of names.
    pub links: u64,
    /// The directory of the last link, the file of an attribute directory, or itself (the root).
    pub parent: ObjectId,
    /// Owner.
    pub uid: Fuid,
    /// Group.
    pub gid: Fuid,
    /// `z_pflags` (format/3b 3).
    pub flags: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of content or attributes.
    pub changed: Timestamp,
    /// Creation.
    pub created: Timestamp,
    /// What a device node stands for.
    pub device: DeviceNumber,
    /// The hidden directory of extended attributes.
    pub xattr_directory: Option<ObjectId>,
    /// The project that space is counted for; 0 is the default project.
    pub project: u64,
    /// A symbolic link's target, if it is an attribute.
    pub symlink: Option<Vec<u8>>,
    /// The access control list.
    pub acl: StoredAcl,
    /// The packed list of small extended attributes.
    pub xattrs: Option<Vec<u8>>,
}

impl Attributes {
    /// The lower twelve bits of the mode.
    pub fn permissions(&self) -> u16 {
        u16::try_from(self.mode & PERMISSIONS).expect("twelve bits")
    }

    /// The type of the file whose attributes these are.
    pub(crate) fn kind(&self, object: ObjectId) -> Result<FileKind, PosixError> {
        FileKind::from_mode(self.mode).ok_or_else(|| {
            let (structure, field) = ("znode", "mode");
            let source = DecodeError::BadValue {
                structure,
                field,
                value: self.mode,
            };
            PosixError::Malformed { object, source }
        })
    }

    /// From a legacy znode.
    pub(crate) fn from_legacy(znode: ZnodePhys) -> Self {
        Self {
            mode: znode.mode,
            size: znode.size,
            generation: znode.generation,
            links: znode.links,
            parent: znode.parent,
            uid: Fuid(znode.uid),
            gid: Fuid(znode.gid),
            flags: znode.flags,
            accessed: Timestamp::from_stored(znode.atime),
            modified: Timestamp::from_stored(znode.mtime),
            changed: Timestamp::from_stored(znode.ctime),
            created: Timestamp::from_stored(znode.crtime),
            device: DeviceNumber::from_stored(znode.device),
            xattr_directory: znode.xattr,
            project: 0,
            symlink: None,
            acl: match znode.acl {
                ZnodeAcl::Inline(aces) => StoredAcl::Decoded(aces),
                ZnodeAcl::External {
                    object,
                    count,
                    is_old,
                } => StoredAcl::External {
                    object,
                    count,
                    is_old,
                },
            },
            xattrs: None,
        }
    }

    /// Takes in one value of a buffer of system attributes.
    fn take(&mut self, attribute: Attribute, value: &SaValue<'_>) -> Result<(), DecodeError> {
        let time = || value.time().map(Timestamp::from_stored);
        match attribute {
            Attribute::Atime => self.accessed = time()?,
            Attribute::Mtime => self.modified = time()?,
            Attribute::Ctime => self.changed = time()?,
            Attribute::Crtime => self.created = time()?,
            Attribute::Gen => self.generation = value.word()?,
            Attribute::Mode => self.mode = value.word()?,
            Attribute::Size => self.size = value.word()?,
            Attribute::Parent => self.parent = ObjectId(value.word()?),
            Attribute::Links => self.links = value.word()?,
            Attribute::Xattr => {
                self.xattr_directory = Some(ObjectId(value.word()?)).filter(|id| id.0 != 0);
            }
            Attribute::Rdev => self.device = DeviceNumber::from_stored(value.word()?),
            Attribute::Flags => self.flags = value.word()?,
            Attribute::Uid => self.uid = Fuid(value.word()?),
            Attribute::Gid => self.gid = Fuid(value.word()?),
            Attribute::Symlink => self.symlink = Some(value.bytes().into_owned()),
            Attribute::Dxattr => self.xattrs = Some(value.bytes().into_owned()),
            Attribute::ProjectId => self.project = value.word()?,
            Attribute::DaclCount => {
                let entries = usize::try_from(value.word()?).unwrap_or(usize::MAX);
                let StoredAcl::Encoded { count, .. } = self.encoded_acl() else {
                    return Ok(());
                };
                *count = entries;
            }
            Attribute::DaclAces => {
                let entries = value.bytes().into_owned();
                let StoredAcl::Encoded { bytes, .. } = self.encoded_acl() else {
                    return Ok(());
                };
                *bytes = entries;
            }
            Attribute::Pad | Attribute::ZnodeAcl | Attribute::Scanstamp | Attribute::Seq => {}
        }
        Ok(())
    }

    /// The list in its stored form: its count and its bytes are two attributes.
    fn encoded_acl(&mut self) -> &mut StoredAcl {
        if !matches!(self.acl, StoredAcl::Encoded { .. }) {
            self.acl = StoredAcl::Encoded {
                count: 0,
                bytes: Vec::new(),
            };
        }
        &mut self.acl
    }

    /// Bytes on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::capacity);
        let acl = match &self.acl {
            StoredAcl::Encoded { bytes, .. } => bytes.capacity(),
            StoredAcl::Decoded(aces) => aces.capacity() * 24,
            StoredAcl::None | StoredAcl::External { .. } => 0,
        };
        length(&self.symlink) + length(&self.xattrs) + acl
    }
}

/// A file system's attribute numbers and layouts, read once.
#[derive(Clone, Debug)]
pub(crate) struct AttributeTables {
    pub(crate) tables: SaTables,
    /// What each number means, if that is known.
    meanings: Vec<Option<Attribute>>,
}

fn tables_error(zap: &Zap, source: DecodeError) -> DmuError {
    zap.object().malformed(source)
}

impl AttributeTables {
    /// Reads the registry and the layouts from the master object.
    pub(crate) fn read(set: &Arc<ObjectSet>, master: ObjectId) -> Result<Self, DmuError> {
        let master = set.zap(master)?;
        let mut tables = SaTables::default();
        if let Some(registry) = master.lookup_u64(attribute_keys::REGISTRY)? {
            let registry = set.zap(ObjectId(registry))?;
            for entry in registry.entries() {
                let entry = entry?;
                // Names of attributes are ASCII; a name that is not would be unknown anyway.
                let name = entry
                    .key
                    .as_name()
                    .map(String::from_utf8_lossy)
                    .unwrap_or_default();
                let value = entry.value.as_u64().unwrap_or(u64::MAX);
                let added = tables.add_attribute(&name, value);
                added.map_err(|source| tables_error(&registry, source))?;
            }
        }
        if let Some(layouts) = master.lookup_u64(attribute_keys::LAYOUTS)? {
            let layouts = set.zap(ObjectId(layouts))?;
            for entry in layouts.entries() {
                let entry = entry?;
                let name = entry
                    .key
                    .as_name()
                    .map(String::from_utf8_lossy)
                    .unwrap_or_default();
                let numbers = entry.value.as_u16s().unwrap_or_default();
                let added = tables.add_layout(&name, numbers);
                added.map_err(|source| tables_error(&layouts, source))?;
            }
        }
        Ok(Self::new(tables))
    }

    pub(crate) fn new(tables: SaTables) -> Self {
        let mut meanings = Vec::new();
        for attribute in Attribute::ALL {
            if let Some(number) = tables.number(attribute).map(usize::from) {
                let length = meanings.len().max(number + 1);
                meanings.resize(length, None);
                meanings[number] = Some(attribute);
            }
        }
        Self { tables, meanings }
    }

    /// Takes the values of a bonus buffer or spill block into `attributes`.
    pub(crate) fn take_buffer(
        &self,
        buffer: &[u8],
        attributes: &mut Attributes,
    ) -> Result<(), DecodeError> {
        for value in self.tables.values(buffer)? {
            let meaning = self.meanings.get(usize::from(value.number));
            if let Some(attribute) = meaning.copied().flatten() {
                attributes.take(attribute, &value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two attributes of variable length and some others, as a writer would lay them out.
    #[test]
    fn a_buffer_is_taken_apart() {
        let mut tables = SaTables::default();
        for (name, number, length, class) in [
            ("ZPL_MODE", 5_u64, 8_u64, 0_u64),
            ("ZPL_SIZE", 6, 8, 0),
            ("ZPL_MTIME", 1, 16, 0),
            ("ZPL_SYMLINK", 17, 0, 3),
            ("ZPL_DACL_COUNT", 16, 8, 0),
            ("ZPL_DACL_ACES", 19, 0, 4),
            ("ZPL_OF_THE_FUTURE", 40, 8, 0),
        ] {
            tables
                .add_attribute(name, length << 24 | class << 16 | number)
                .unwrap();
        }
        tables
            .add_layout("3", vec![5, 6, 1, 40, 16, 19, 17])
            .unwrap();
        let tables = AttributeTables::new(tables);
        let mut buffer = vec![
            0x5a,
            0x50,
            0x2f,
            0,
            3,
            2 << 2,
            16,
            0,
            6,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        for word in [0o120_777_u64, 6, u64::MAX, 5, 99, 1] {
            buffer.extend_from_slice(&word.to_le_bytes());
        }
        buffer.extend_from_slice(&[1; 16]);
        buffer.extend_from_slice(b"target\0\0");
        let mut attributes = Attributes::default();
        tables.take_buffer(&buffer, &mut attributes).unwrap();
        assert_eq!(attributes.mode, 0o120_777);
        assert_eq!(attributes.symlink.as_deref(), Some(b"target".as_slice()));
        assert_eq!(
            attributes.modified,
            Timestamp {
                seconds: -1,
                nanoseconds: 5
            }
        );
        assert_eq!(
            attributes.acl,
            StoredAcl::Encoded {
                count: 1,
                bytes: vec![1; 16]
            }
        );
        assert!(tables.take_buffer(&buffer[..40], &mut attributes).is_err());
    }
}
