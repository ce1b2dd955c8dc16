//! A znode: an open object of a file system with its attributes parsed.

use crate::attributes::{AttributeTables, Attributes};
use crate::error::PosixError;
use crate::kind::FileKind;
use crate::stored_acl::StoredAcl;
use cenote_base::{BlockId, ObjectId};
use cenote_dmu::{DmuError, Object, Zap};
use cenote_ondisk::znode_phys::ZnodePhys;
use cenote_ondisk::{DecodeError, Dnode, NvList, ObjectType};
use std::sync::OnceLock;

/// The longest target of a symbolic link; Linux allows 4095 bytes.
const SYMLINK_LENGTH_MAX: u64 = 64 << 10;

/// An object of a file system.
///
/// It shows the object's attributes as they were when it was opened; in a writable file system it
/// is opened again for each operation.
#[derive(Debug)]
pub struct Znode {
    id: ObjectId,
    kind: FileKind,
    attributes: Attributes,
    /// None in tests.
    object: Option<Object>,
    /// A directory's entries, once they were needed.
    zap: OnceLock<Zap>,
}

impl Znode {
    fn new(
        id: ObjectId,
        attributes: Attributes,
        object: Option<Object>,
    ) -> Result<Self, PosixError> {
        let kind = attributes.kind(id)?;
        Ok(Self {
            id,
            kind,
            attributes,
            object,
            zap: OnceLock::new(),
        })
    }

    /// Parses the attributes of an object on disk.
    pub(crate) fn read(
        object: Object,
        tables: Option<&AttributeTables>,
    ) -> Result<Self, PosixError> {
        let mut object = object;
        let attributes = loop {
            let attributes = read_attributes(&object, tables);
            let Some(newer) = changed_since(&object)? else {
                break attributes?;
            };
            object = newer;
        };
        Self::new(object.id(), attributes, Some(object))
    }

    #[cfg(test)]
    pub(crate) fn for_tests(id: ObjectId) -> Self {
        let attributes = Attributes {
            mode: 0o100_644,
            ..Attributes::default()
        };
        Self::new(id, attributes, None).expect("a regular file")
    }

    /// The object's number.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// What it is.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Its attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The object; `None` in tests.
    pub fn object(&self) -> Option<&Object> {
        self.object.as_ref()
    }

    /// About how many bytes the znode takes in memory.
    pub(crate) fn memory_size(&self) -> u64 {
        let dnode = self.object.as_ref().map(|object| object.dnode());
        let dnode = dnode.map_or(0, |dnode| {
            size_of_val(dnode) + dnode.bonus.capacity() + size_of_val(&*dnode.block_pointers)
        });
        // The table's slot and the reference counts come on top.
        (size_of::<Self>() + self.attributes.heap_size() + dnode + 64) as u64
    }

    /// A directory's entries; `None` in tests.
    ///
    /// In a writable file system it is opened each time: a block that is kept here would have to
    /// be copied by the next change.
    pub(crate) fn zap(&self) -> Result<Option<Zap>, PosixError> {
        let Some(object) = &self.object else {
            return Ok(None);
        };
        if let Some(zap) = self.zap.get() {
            return Ok(Some(zap.clone()));
        }
        let zap = Zap::open(object.clone())?;
        if object.set().is_writable() {
            return Ok(Some(zap));
        }
        Ok(Some(self.zap.get_or_init(|| zap).clone()))
    }

    /// The small extended attributes.
    pub(crate) fn xattr_list(&self) -> Result<Option<NvList>, PosixError> {
        let packed = self
            .attributes
            .xattrs
            .as_deref()
            .filter(|packed| !packed.is_empty());
        let list = packed.map(NvList::decode).transpose();
        list.map_err(|source| PosixError::Malformed {
            object: self.id,
            source,
        })
    }

    pub(crate) fn require_directory(&self) -> Result<(), PosixError> {
        match self.kind {
            FileKind::Directory => Ok(()),
            _ => Err(PosixError::NotDirectory { object: self.id }),
        }
    }

    pub(crate) fn inconsistent(&self, problem: &'static str) -> PosixError {
        PosixError::Inconsistent {
            object: self.id,
            problem,
        }
    }

    pub(crate) fn wrong_kind(&self, expected: &'static str) -> PosixError {
        PosixError::WrongKind {
            object: self.id,
            expected,
        }
    }

    /// A symbolic link's target (format/3b 2): an attribute, the end of a legacy znode's bonus
    /// buffer, or the object's first block.
    pub(crate) fn read_link(&self) -> Result<Vec<u8>, PosixError> {
        if self.kind != FileKind::Symlink {
            return Err(self.wrong_kind("a symbolic link"));
        }
        if let Some(target) = &self.attributes.symlink {
            return Ok(target.clone());
        }
        let size = self.attributes.size;
        if size > SYMLINK_LENGTH_MAX {
            return Err(self.inconsistent("a symbolic link of more than 64 KiB"));
        }
        let Some(object) = &self.object else {
            return Err(self.inconsistent("a symbolic link without a target"));
        };
        let dnode = object.dnode();
        if dnode.bonus_type == ObjectType::ZNODE
            && let Some(target) = ZnodePhys::inline_symlink(dnode, size)
        {
            return Ok(target.to_vec());
        }
        let length = usize::try_from(size).expect("at most 64 KiB");
        match object.block(BlockId(0))? {
            Some(block) if block.len() >= length => Ok(block[..length].to_vec()),
            _ => Err(self.inconsistent("a symbolic link without a target")),
        }
    }
}

/// The object as it is now, if its attributes may have changed while both of their parts were read.
/// The caller then repeats the read, which ends unless another thread changes the object again and
/// again.
fn changed_since(object: &Object) -> Result<Option<Object>, PosixError> {
    let dnode = object.dnode();
    if dnode.spill.is_none() || !object.set().is_writable() {
        return Ok(None);
    }
    let newest = object.set().object(object.id());
    let newest = newest.map_err(|error| ZnodeAbsent::from(error).0)?;
    let now = newest.dnode();
    let is_same = now.bonus == dnode.bonus && now.spill == dnode.spill;
    Ok((!is_same).then_some(newest))
}

fn read_attributes(
    object: &Object,
    tables: Option<&AttributeTables>,
) -> Result<Attributes, PosixError> {
    let malformed = |source| PosixError::from(object.malformed(source));
    let mut attributes =
        bonus_attributes(object.id(), object.dnode(), tables)?.map_err(malformed)?;
    // A spill block that came since is not meant: it may contradict the bonus buffer.
    if object.dnode().spill.is_some()
        && object.dnode().bonus_type == ObjectType::SYSTEM_ATTRIBUTES
        && let (Some(tables), Some(spill)) = (tables, object.spill()?)
    {
        let taken = tables.take_buffer(&spill, &mut attributes);
        taken.map_err(malformed)?;
    }
    Ok(attributes)
}

/// The attributes in an object's bonus buffer; an error if it is no file.
pub(crate) fn bonus_attributes(
    id: ObjectId,
    dnode: &Dnode,
    tables: Option<&AttributeTables>,
) -> Result<Result<Attributes, DecodeError>, PosixError> {
    match (dnode.bonus_type, tables) {
        (ObjectType::ZNODE, _) => Ok(ZnodePhys::decode(&dnode.bonus).map(Attributes::from_legacy)),
        (ObjectType::SYSTEM_ATTRIBUTES, Some(tables)) => {
            let mut attributes = Attributes::default();
            let taken = match dnode.bonus.is_empty() {
                true => Ok(()),
                false => tables.take_buffer(&dnode.bonus, &mut attributes),
            };
            Ok(taken.map(|()| attributes))
        }
        _ => Err(PosixError::NoSuchZnode { object: id }),
    }
}

impl From<DmuError> for ZnodeAbsent {
    fn from(error: DmuError) -> Self {
        match error {
            DmuError::NoSuchObject { object, .. } => Self(PosixError::NoSuchZnode { object }),
            error => Self(PosixError::Dmu(error)),
        }
    }
}

/// An error of opening an object, in which absence is a stale reference.
pub(crate) struct ZnodeAbsent(pub(crate) PosixError);

impl StoredAcl {
    /// Whether any list is stored.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}
