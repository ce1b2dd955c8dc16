//! Object sets: from an object's number to its dnode.

use crate::caching::{Caching, CachingCell};
use crate::error::DmuError;
use crate::live::{LiveObject, LiveSet};
use crate::memo::BlockMemo;
use crate::object::Object;
use crate::regions::DnodeScans;
use crate::streams::Streams;
use cenote_base::metrics::Count;
use cenote_base::rt::{RwLock, ranks};
use cenote_base::{BlockId, Bookmark, ObjectId, ObjsetId};
use cenote_cache::{BlockCache, Retention};
use cenote_io::{IoContext, ObjsetKeys, ReadContext};
use cenote_ondisk::dnode::{DNODE_SIZE, DNODE_SLOTS_MAX};
use cenote_ondisk::{BlockPointer, DecodeError, Dnode, ObjectType, Objset};
use std::ops::Deref;
use std::sync::Arc;

/// Object numbers are 48 bits (format/2b 2).
pub(crate) const OBJECT_ID_MAX: u64 = (1 << 48) - 1;

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

    /// The accounting object with this number.
    pub(crate) fn from_id(id: ObjectId) -> Option<Self> {
        Self::ALL.into_iter().find(|special| special.id() == id)
    }

    /// The number that stands for the object: -1, -2 or -3.
    pub fn id(self) -> ObjectId {
        ObjectId(match self {
            Self::UserUsed => u64::MAX,
            Self::GroupUsed => u64::MAX - 1,
            Self::ProjectUsed => u64::MAX - 2,
        })
    }
}

/// What of an object set is on disk.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) root: BlockPointer,
    pub(crate) header: Arc<Objset>,
    /// Bytes of the object set block.
    pub(crate) header_size: usize,
}

/// An open object set.
///
/// A writable one shows its newest state, which may be in memory only: [`Object`]s and ZAPs are
/// read in the same way, whether their changes were synced or not.
///
/// This is a handle: all handles of a set share its state, and each says, by the cache that it
/// reads through, what it reads for ([`Self::for_io`]).
#[derive(Debug)]
pub struct ObjectSet {
    cache: Arc<BlockCache>,
    state: Arc<SetState>,
}

/// What all handles of an object set share.
#[derive(Debug)]
pub struct SetState {
    id: ObjsetId,
    committed: RwLock<Committed, ranks::CommittedSet>,
    keys: Option<Arc<ObjsetKeys>>,
    pub(crate) live: Option<LiveSet>,
    pub(crate) streams: Streams,
    pub(crate) scans: DnodeScans,
    pub(crate) memo: BlockMemo,
    pub(crate) caching: CachingCell,
}

impl Deref for ObjectSet {
    type Target = SetState;

    fn deref(&self) -> &SetState {
        &self.state
    }
}

impl ObjectSet {
    /// A handle of the same set that reads for something else.
    #[must_use]
    pub fn for_io(&self, io: &IoContext) -> Arc<Self> {
        Arc::new(Self {
            cache: self.cache.for_io(io),
            state: Arc::clone(&self.state),
        })
    }

    /// A handle of the same set for one reader among many, as [`BlockCache::for_reader`].
    #[must_use]
    pub fn for_reader(&self, from_devices: &Arc<Count>) -> Arc<Self> {
        Arc::new(Self {
            cache: self.cache.for_reader(from_devices),
            state: Arc::clone(&self.state),
        })
    }

    /// What this handle reads for.
    pub fn io(&self) -> &IoContext {
        self.cache.io()
    }

    /// Whether another handle is of the same set.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Whether there is another handle of this set.
    pub fn is_shared(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || Arc::strong_count(&self.state) > 1
    }

    /// Opens the object set whose block is at `root`.
    ///
    /// Without `keys` an encrypted object set can be walked, but its contents cannot be read.
    pub fn open(
        cache: Arc<BlockCache>,
        id: ObjsetId,
        root: BlockPointer,
        keys: Option<Arc<ObjsetKeys>>,
    ) -> Result<Arc<Self>, DmuError> {
        Self::open_with(cache, id, root, keys, None)
    }

    pub(crate) fn open_with(
        cache: Arc<BlockCache>,
        id: ObjsetId,
        root: BlockPointer,
        keys: Option<Arc<ObjsetKeys>>,
        live: Option<LiveSet>,
    ) -> Result<Arc<Self>, DmuError> {
        let cache = cache.for_dataset(id);
        let bookmark = Bookmark {
            objset: id,
            ..Bookmark::default()
        };
        let bad = |problem| DmuError::BadTree { bookmark, problem };
        if root.is_hole() {
            return Err(bad("the object set is a hole"));
        }
        if root.object_type() != ObjectType::OBJSET || root.level().0 != 0 {
            let problem = "the root pointer does not point to an object set block";
            return Err(bad(problem));
        }
        let keys_for_reading = keys.as_deref();
        let context = ReadContext {
            bookmark,
            keys: keys_for_reading,
        };
        let block = cache.read(&root, context)?;
        let header = Objset::decode(&block).map_err(|source| DmuError::Decode {
            objset: id,
            object: ObjectId(0),
            source,
        })?;
        let committed = Committed {
            root,
            header: Arc::new(header),
            header_size: block.len(),
        };
        let set = Self::from_parts(cache, id, committed, keys, live);
        set.check_meta_dnode()?;
        Ok(set)
    }

    pub(crate) fn from_parts(
        cache: Arc<BlockCache>,
        id: ObjsetId,
        committed: Committed,
        keys: Option<Arc<ObjsetKeys>>,
        live: Option<LiveSet>,
    ) -> Arc<Self> {
        let state = SetState {
            id,
            committed: RwLock::new(committed),
            keys,
            live,
            streams: Default::default(),
            scans: Default::default(),
            memo: Default::default(),
            caching: Default::default(),
        };
        Arc::new(Self {
            cache,
            state: Arc::new(state),
        })
    }

    pub(crate) fn committed(&self) -> Committed {
        let committed = self.committed.read();
        committed.clone()
    }

    pub(crate) fn set_committed(&self, new: Committed) {
        let mut committed = self.committed.write();
        *committed = new;
        if let Some(live) = &self.live {
            live.next_epoch();
        }
    }

    fn check_meta_dnode(&self) -> Result<(), DmuError> {
        let header = self.header();
        let meta = &header.meta_dnode;
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

    /// The pointer to the object set block on disk; a hole if it was never written.
    pub fn root(&self) -> BlockPointer {
        self.committed().root
    }

    /// The decoded object set block.
    pub fn header(&self) -> Arc<Objset> {
        self.committed().header
    }

    /// Whether the object set can be changed.
    pub fn is_writable(&self) -> bool {
        self.live.is_some()
    }

    /// The cache that reads go through.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// Changes how blocks are cached from now on.
    pub fn set_caching(&self, caching: Caching) {
        self.caching.set(caching);
    }

    /// How blocks are cached now.
    pub fn caching(&self) -> Caching {
        self.caching.get()
    }

    /// How long a block stays.
    pub fn retention(&self, is_metadata: bool) -> Retention {
        match self.caching().primary.covers(is_metadata) {
            true => Retention::Keep,
            false => Retention::Pass,
        }
    }

    /// The keys, if the object set is encrypted and they are loaded.
    pub fn keys(&self) -> Option<&Arc<ObjsetKeys>> {
        self.keys.as_ref()
    }

    /// Opens the object `id`.
    pub fn object(self: &Arc<Self>, id: ObjectId) -> Result<Object, DmuError> {
        self.find_object(id)?.ok_or(DmuError::NoSuchObject {
            objset: self.id,
            object: id,
        })
    }

    /// Whether an object has contents, or has lost some, that are not on disk yet: the space that
    /// its dnode tells will be another.
    pub fn moves_space(&self, id: ObjectId) -> bool {
        let live = self.live.as_ref().filter(|live| !live.is_in_memory());
        let object = live.and_then(|live| live.get(id));
        object.is_some_and(|object| object.read().moves_space())
    }

    /// Lets all reads and changes of objects fail after so many, as damage does; `u64::MAX` ends
    /// that. For tests of what failures leave behind. Returns how many were left of those given
    /// before.
    pub fn fail_after(&self, steps: u64) -> u64 {
        let live = self.live.as_ref();
        live.map_or(u64::MAX, |live| live.fail_after(steps))
    }

    /// A step that can fail.
    pub(crate) fn step(&self, id: ObjectId) -> Result<(), DmuError> {
        match &self.live {
            Some(live) if live.is_step_to_fail() => Err(DmuError::Decode {
                objset: self.id,
                object: id,
                source: DecodeError::Inconsistent {
                    structure: "block",
                    problem: "it is to fail in a test",
                },
            }),
            _ => Ok(()),
        }
    }

    fn find_object(self: &Arc<Self>, id: ObjectId) -> Result<Option<Object>, DmuError> {
        self.step(id)?;
        if self.live.is_some() {
            let live = self.live_object(id)?;
            return Ok(live.and_then(|live| Object::from_live(Arc::clone(self), live)));
        }
        let dnode = self.committed_dnode(id)?;
        Ok(dnode.map(|dnode| Object::new(Arc::clone(self), id, dnode)))
    }

    /// The entry in the table of a writable set; `None` if the number is free and not in use.
    pub(crate) fn live_object(
        self: &Arc<Self>,
        id: ObjectId,
    ) -> Result<Option<Arc<LiveObject>>, DmuError> {
        let Some(live) = &self.live else {
            return Err(DmuError::ReadOnly { objset: self.id });
        };
        loop {
            if let Some(found) = live.get(id) {
                return Ok(Some(found));
            }
            let epoch = live.epoch();
            let committed = self.committed_dnode(id);
            if committed.is_err() && epoch != live.epoch() {
                continue;
            }
            let Some(dnode) = committed? else {
                match live.get(id) {
                    None if epoch == live.epoch() => return Ok(None),
                    None => continue,
                    Some(found) => return Ok(Some(found)),
                }
            };
            let object = LiveObject::new(id, Some(Arc::new(dnode)));
            if let Some(object) = live.put(epoch, object) {
                return Ok(Some(object));
            }
        }
    }

    /// Opens an accounting object, if the object set has it.
    pub fn special_object(self: &Arc<Self>, special: SpecialObject) -> Option<Object> {
        // The header is in memory: nothing is read that could fail.
        self.find_object(special.id()).ok().flatten()
    }

    fn committed_special(&self, special: SpecialObject) -> Option<Dnode> {
        let header = self.header();
        let dnode = match special {
            SpecialObject::UserUsed => &header.user_used,
            SpecialObject::GroupUsed => &header.group_used,
            SpecialObject::ProjectUsed => &header.project_used,
        };
        dnode.clone()
    }

    /// The meta-dnode as an object: its data is the array of all dnodes that are on disk.
    pub fn meta_object(self: &Arc<Self>) -> Object {
        let meta_dnode = self.header().meta_dnode.clone();
        Object::new(Arc::clone(self), ObjectId(0), meta_dnode)
    }

    /// The dnode of object `id`; `None` if the number is free.
    pub fn dnode(self: &Arc<Self>, id: ObjectId) -> Result<Option<Dnode>, DmuError> {
        let object = self.find_object(id)?;
        Ok(object.map(|object| object.dnode().clone()))
    }

    /// The dnode of object `id` as it is on disk.
    pub(crate) fn committed_dnode(
        self: &Arc<Self>,
        id: ObjectId,
    ) -> Result<Option<Dnode>, DmuError> {
        if let Some(special) = SpecialObject::from_id(id) {
            return Ok(self.committed_special(special));
        }
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
    pub(crate) fn decode_slot(
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
pub(crate) fn slots_of(bytes: &[u8]) -> usize {
    if bytes[0] == 0 {
        1
    } else {
        (usize::from(bytes[12]) + 1).min(DNODE_SLOTS_MAX)
    }
}

/// Iterates over the allocated objects of an object set.
///
/// A damaged block of dnodes yields one error; the iterator then continues behind it.
#[derive(Debug)]
pub struct Objects {
    meta: Object,
    next: ObjectId,
    /// The block that holds `next`.
    block: Option<DnodeBlock>,
}

/// A block of dnodes as it is on disk, if it is, and its number.
type DnodeBlock = (BlockId, Option<cenote_cache::Block>);

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
        let set = Arc::clone(self.meta.set());
        let found = match &set.live {
            None => self.find_block(&self.meta, wanted)?,
            Some(live) => live.retry_stale(|| self.find_block(&set.meta_object(), wanted))?,
        };
        let Some((found, block)) = found else {
            return Ok(false);
        };
        if found != wanted {
            self.next = ObjectId(found.0 * self.per_block());
        }
        self.block = Some((found, block));
        Ok(true)
    }

    /// The first block of dnodes from `wanted` on in which there are any, on disk or not yet.
    fn find_block(&self, meta: &Object, wanted: BlockId) -> Result<Option<DnodeBlock>, DmuError> {
        let committed = meta.next_data_block(wanted)?;
        let next = committed.into_iter().chain(self.next_fresh()).min();
        next.map(|found| Ok((found, meta.block(found)?)))
            .transpose()
    }

    /// The block for the next new object that is not on disk yet.
    fn next_fresh(&self) -> Option<BlockId> {
        let fresh = self.meta.set().live.as_ref()?.fresh.lock();
        let next = fresh.range(self.next..).next()?;
        Some(BlockId(next.0 / self.per_block()))
    }

    /// The newest dnode of object `id`, which is in `slot` of `block`.
    fn decode(
        &self,
        id: ObjectId,
        block: Option<&cenote_cache::Block>,
        slot: usize,
    ) -> Result<Option<Dnode>, DmuError> {
        let set = self.meta.set();
        if let Some(live) = set.live.as_ref().and_then(|live| live.get(id)) {
            return Ok(live.read().dnode().map(|dnode| Dnode::clone(dnode)));
        }
        block.map_or(Ok(None), |block| set.decode_slot(id, block, slot))
    }

    fn advance(&mut self) -> Result<Option<(ObjectId, Dnode)>, DmuError> {
        loop {
            if self.next.0 > OBJECT_ID_MAX || !self.load()? {
                return Ok(None);
            }
            let (id, block) = self.block.clone().expect("load left a block");
            let first = id.0 * self.per_block();
            let slot = usize::try_from(self.next.0 - first).expect("within a block");
            let dnode = self.decode(self.next, block.as_ref(), slot);
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
