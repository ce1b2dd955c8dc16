//! Object sets: from an object's number to its dnode.

use crate::error::DmuError;
use crate::object::Object;
use crate::zap::Zap;
use cenote_base::{BlockId, Bookmark, ObjectId, ObjsetId};
use cenote_cache::BlockCache;
use cenote_io::{ObjsetKeys, ReadContext};
use cenote_ondisk::dnode::{DNODE_SIZE, DNODE_SLOTS_MAX};
use cenote_ondisk::{BlockPointer, DecodeError, Dnode, ObjectType, Objset};
use std::sync::Arc;

/// Object numbers are 48 bits (format/2b 2).
const OBJECT_ID_MAX: u64 = (1 << 48) - 1;

/// Objects that stand in the object set block itself and have negative numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialObject {
    /// Space by user.
    UserUsed,
    /// Space by group.
    GroupUsed,
    /// Space by project.
    ProjectUsed,
}

impl SpecialObject {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::UserUsed, Self::GroupUsed, Self::ProjectUsed];

    /// The number that stands for the object: -1, -2 or -3.
    pub fn id(self) -> ObjectId {
        ObjectId(match self {
            Self::UserUsed => u64::MAX,
            Self::GroupUsed => u64::MAX - 1,
            Self::ProjectUsed => u64::MAX - 2,
        })
    }
}

/// An open object set.
#[derive(Debug)]
pub struct ObjectSet {
    cache: Arc<BlockCache>,
    id: ObjsetId,
    root: BlockPointer,
    header: Objset,
    keys: Option<Arc<ObjsetKeys>>,
    pub(crate) streams: crate::prefetch::Streams,
}

impl ObjectSet {
    /// Opens the object set whose block is at `root`.
    ///
    /// Without `keys` an encrypted object set can be walked, but its contents cannot be read.
    pub fn open(
        cache: Arc<BlockCache>,
        id: ObjsetId,
        root: BlockPointer,
        keys: Option<Arc<ObjsetKeys>>,
    ) -> Result<Arc<Self>, DmuError> {
        let bookmark = Bookmark {
            objset: id,
            ..Bookmark::default()
        };
        if root.is_hole() {
            return Err(DmuError::BadTree {
                bookmark,
                problem: "the object set is a hole",
            });
        }
        if root.object_type() != ObjectType::OBJSET || root.level().0 != 0 {
            let problem = "the root pointer does not point to an object set block";
            return Err(DmuError::BadTree { bookmark, problem });
        }
        let block = cache.read(
            &root,
            ReadContext {
                bookmark,
                keys: keys.as_deref(),
            },
        )?;
        let header = Objset::decode(&block).map_err(|source| DmuError::Decode {
            objset: id,
            object: ObjectId(0),
            source,
        })?;
        let set = Self {
            cache,
            id,
            root,
            header,
            keys,
            streams: Default::default(),
        };
        set.check_meta_dnode()?;
        Ok(Arc::new(set))
    }

    fn check_meta_dnode(&self) -> Result<(), DmuError> {
        let meta = &self.header.meta_dnode;
        let size = meta.data_block_size;
        if meta.object_type != ObjectType::DNODE {
            return Err(self.wrong_type(ObjectId(0), meta.object_type, "a DMU dnode"));
        }
        if !size.is_multiple_of(DNODE_SIZE as u64) {
            let (structure, field) = ("meta-dnode", "data block size");
            let source = DecodeError::BadValue {
                structure,
                field,
                value: size,
            };
            return Err(DmuError::Decode {
                objset: self.id,
                object: ObjectId(0),
                source,
            });
        }
        Ok(())
    }

    pub(crate) fn wrong_type(
        &self,
        object: ObjectId,
        found: ObjectType,
        expected: &'static str,
    ) -> DmuError {
        DmuError::WrongType {
            objset: self.id,
            object,
            found: found.to_string(),
            expected,
        }
    }

    /// The dataset's object number in the MOS, or 0 for the MOS.
    pub fn id(&self) -> ObjsetId {
        self.id
    }

    /// The pointer to the object set block.
    pub fn root(&self) -> &BlockPointer {
        &self.root
    }

    /// The decoded object set block.
    pub fn header(&self) -> &Objset {
        &self.header
    }

    /// The cache that reads go through.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The keys, if the object set is encrypted and they are loaded.
    pub fn keys(&self) -> Option<&Arc<ObjsetKeys>> {
        self.keys.as_ref()
    }

    /// Opens the object `id`.
    pub fn object(self: &Arc<Self>, id: ObjectId) -> Result<Object, DmuError> {
        match self.dnode(id)? {
            Some(dnode) => Ok(Object::new(Arc::clone(self), id, dnode)),
            None => Err(DmuError::NoSuchObject {
                objset: self.id,
                object: id,
            }),
        }
    }

    /// Opens the ZAP in object `id`.
    pub fn zap(self: &Arc<Self>, id: ObjectId) -> Result<Zap, DmuError> {
        Zap::open(self.object(id)?)
    }

    /// Opens an accounting object, if the object set has it.
    pub fn special_object(self: &Arc<Self>, special: SpecialObject) -> Option<Object> {
        let dnode = match special {
            SpecialObject::UserUsed => &self.header.user_used,
            SpecialObject::GroupUsed => &self.header.group_used,
            SpecialObject::ProjectUsed => &self.header.project_used,
        };
        dnode
            .as_ref()
            .map(|dnode| Object::new(Arc::clone(self), special.id(), dnode.clone()))
    }

    /// The meta-dnode as an object: its data is the array of all dnodes.
    pub fn meta_object(self: &Arc<Self>) -> Object {
        Object::new(
            Arc::clone(self),
            ObjectId(0),
            self.header.meta_dnode.clone(),
        )
    }

    /// The dnode of object `id`; `None` if the number is free.
    pub fn dnode(self: &Arc<Self>, id: ObjectId) -> Result<Option<Dnode>, DmuError> {
        if id.0 == 0 || id.0 > OBJECT_ID_MAX {
            return Ok(None);
        }
        let meta = self.meta_object();
        let per_block = meta.dnode().data_block_size / DNODE_SIZE as u64;
        let Some(block) = meta.block(BlockId(id.0 / per_block))? else {
            return Ok(None);
        };
        let slot = usize::try_from(id.0 % per_block).expect("below 2^15");
        self.decode_slot(id, &block, slot)
    }

    /// The dnode in `slot`, unless that is free or inside another dnode.
    ///
    /// The inner slots of a large dnode are not marked, so the block is walked from its start.
    fn decode_slot(
        &self,
        id: ObjectId,
        block: &[u8],
        slot: usize,
    ) -> Result<Option<Dnode>, DmuError> {
        let mut at = 0;
        while at < slot {
            at += slots_of(&block[at * DNODE_SIZE..]);
        }
        if at > slot {
            return Ok(None);
        }
        Dnode::decode(&block[slot * DNODE_SIZE..]).map_err(|source| DmuError::Decode {
            objset: self.id,
            object: id,
            source,
        })
    }

    /// All allocated objects from number `from` on, in order.
    pub fn objects(self: &Arc<Self>, from: ObjectId) -> Objects {
        Objects {
            meta: self.meta_object(),
            next: from,
            block: None,
        }
    }
}

/// Slots that the dnode (or free slot) at the start of `bytes` takes.
fn slots_of(bytes: &[u8]) -> usize {
    if bytes[0] == 0 {
        1
    } else {
        (usize::from(bytes[12]) + 1).min(DNODE_SLOTS_MAX)
    }
}

/// Iterates over the allocated objects of an object set.
///
/// A damaged block of dnodes yields one error; the iterator then goes on behind it.
#[derive(Debug)]
pub struct Objects {
    meta: Object,
    next: ObjectId,
    /// The dnode block that holds `next`, with its number and the slot to look at.
    block: Option<(BlockId, cenote_cache::Block)>,
}

impl Objects {
    fn per_block(&self) -> u64 {
        self.meta.dnode().data_block_size / DNODE_SIZE as u64
    }

    fn load(&mut self) -> Result<bool, DmuError> {
        let wanted = BlockId(self.next.0 / self.per_block());
        if self.block.as_ref().is_some_and(|(id, _)| *id == wanted) {
            return Ok(true);
        }
        self.block = None;
        let Some(found) = self.meta.next_data_block(wanted)? else {
            return Ok(false);
        };
        if found != wanted {
            self.next = ObjectId(found.0 * self.per_block());
        }
        let block = self.meta.block(found)?;
        self.block = block.map(|block| (found, block));
        Ok(self.block.is_some())
    }

    fn advance(&mut self) -> Result<Option<(ObjectId, Dnode)>, DmuError> {
        loop {
            if self.next.0 > OBJECT_ID_MAX || !self.load()? {
                return Ok(None);
            }
            let (id, block) = self.block.clone().expect("load left a block");
            let first = id.0 * self.per_block();
            let slot = usize::try_from(self.next.0 - first).expect("within a block");
            let set = Arc::clone(self.meta.set());
            let dnode = set.decode_slot(self.next, &block, slot);
            let object = self.next;
            self.next = ObjectId(object.0 + 1);
            if let Some(dnode) = dnode? {
                self.next = ObjectId(object.0 + dnode.slots() as u64);
                return Ok(Some((object, dnode)));
            }
        }
    }
}

impl Iterator for Objects {
    type Item = Result<(ObjectId, Dnode), DmuError>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.next;
        let result = self.advance();
        if result.is_err() && self.next == before {
            let per_block = self.per_block();
            self.next = ObjectId((before.0 / per_block + 1) * per_block);
        }
        result.transpose()
    }
}
