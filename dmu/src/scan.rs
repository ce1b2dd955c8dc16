//! Opening many objects at once, and reading dnodes ahead of a scan.
//!
//! A listing with attributes opens an object for each name. Names come in order of their hashes,
//! so the objects of one batch lie anywhere among some dnode blocks: those blocks are read in one
//! sorted batch, and each is looked up once, however many of its dnodes are wanted.
//!
//! Reads ahead only fill the cache. Errors are left to the caller that needs the block.

use crate::error::DmuError;
use crate::object::Object;
use crate::object_set::{ObjectSet, slots_of};
use crate::regions::REGION_BLOCKS;
use cenote_base::{BlockId, Bookmark, ObjectId, settings};
use cenote_cache::Block;
use cenote_io::IoClass;
use cenote_ondisk::dnode::DNODE_SIZE;
use cenote_ondisk::{BlockPointer, Dnode, ObjectType};
use std::sync::Arc;

/// Without so much room for decoded blocks nothing is read ahead: it would push itself out.
const DECODED_LIMIT_MIN: u64 = 16 << 20;
/// Bytes of directories' first blocks that are read with one region.
const DIRECTORY_BYTES_MAX: u64 = 4 << 20;

impl ObjectSet {
    /// Opens several objects. Blocks of dnodes that are not cached are read in one batch.
    pub fn objects_at(self: &Arc<Self>, ids: &[ObjectId]) -> Vec<Result<Object, DmuError>> {
        if self.is_writable() {
            self.fetch_dnodes(ids);
            return ids.iter().map(|id| self.object(*id)).collect();
        }
        let open = |(dnode, id): (Result<Dnode, DmuError>, &ObjectId)| {
            dnode.map(|dnode| Object::new(Arc::clone(self), *id, dnode))
        };
        self.dnodes_at(ids).into_iter().zip(ids).map(open).collect()
    }

    /// The dnodes of several objects, the newest of each. Blocks that are not cached are read in
    /// one batch.
    pub fn dnodes_at(self: &Arc<Self>, ids: &[ObjectId]) -> Vec<Result<Dnode, DmuError>> {
        let mut dnodes: Vec<Option<Result<Dnode, DmuError>>> = Vec::new();
        dnodes.resize_with(ids.len(), || None);
        let Some(live) = &self.live else {
            self.committed_dnodes_at(ids, &mut dnodes);
            return dnodes.into_iter().flatten().collect();
        };
        // Those without an entry in the table are as they are on disk, unless the tree there is
        // replaced meanwhile. None is put in: a listing looks at each once.
        let epoch = live.epoch();
        for (id, dnode) in ids.iter().zip(&mut dnodes) {
            *dnode = live.get(*id).map(|object| {
                let newest = object.read().dnode().map(|dnode| Dnode::clone(dnode));
                newest.ok_or(self.absent(*id))
            });
        }
        self.committed_dnodes_at(ids, &mut dnodes);
        if epoch != live.epoch() {
            return ids.iter().map(|id| self.existing_dnode(*id)).collect();
        }
        dnodes.into_iter().flatten().collect()
    }

    /// Fills in those of several dnodes that are not known yet, as they are on disk.
    fn committed_dnodes_at(
        self: &Arc<Self>,
        ids: &[ObjectId],
        dnodes: &mut [Option<Result<Dnode, DmuError>>],
    ) {
        let meta = self.meta_object();
        let per_block = meta.dnode().data_block_size / DNODE_SIZE as u64;
        let is_wanted = |index: &usize| dnodes[*index].is_none();
        let mut order: Vec<usize> = (0..ids.len()).filter(is_wanted).collect();
        order.sort_unstable_by_key(|index| ids[*index]);
        let mut blocks: Vec<u64> = order.iter().map(|i| ids[*i].0 / per_block).collect();
        blocks.dedup();
        blocks.retain(|block| *block <= meta.dnode().block_id_max.0);
        self.read_dnodes_ahead(&meta, &blocks);
        fetch_missing(&meta, &blocks);
        let mut current: Option<(u64, Block)> = None;
        for index in order {
            let id = ids[index];
            let number = id.0 / per_block;
            if current.as_ref().is_none_or(|(have, _)| *have != number) {
                let block = meta.block(BlockId(number));
                // Numbers that no object can have, holes and errors take the way of one object.
                current = block.ok().flatten().map(|block| (number, block));
            }
            dnodes[index] = Some(match &current {
                Some((_, block)) if id.0 != 0 => {
                    let slot = usize::try_from(id.0 % per_block).expect("below 2^15");
                    let dnode = self.decode_slot(id, block, slot);
                    dnode.and_then(|dnode| dnode.ok_or(self.absent(id)))
                }
                _ => self.existing_dnode(id),
            });
        }
    }

    /// Reads the blocks of dnodes that are on disk and in no memory, in one batch.
    fn fetch_dnodes(self: &Arc<Self>, ids: &[ObjectId]) {
        let is_absent = |id: &ObjectId| {
            self.live
                .as_ref()
                .is_none_or(|live| live.get(*id).is_none())
        };
        let meta = self.meta_object();
        let per_block = meta.dnode().data_block_size / DNODE_SIZE as u64;
        let absent = ids.iter().copied().filter(is_absent);
        let mut blocks: Vec<u64> = absent.map(|id| id.0 / per_block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.retain(|block| *block <= meta.dnode().block_id_max.0);
        self.read_dnodes_ahead(&meta, &blocks);
        fetch_missing(&meta, &blocks);
    }

    fn existing_dnode(self: &Arc<Self>, id: ObjectId) -> Result<Dnode, DmuError> {
        self.dnode(id)?.ok_or(self.absent(id))
    }

    fn absent(&self, object: ObjectId) -> DmuError {
        DmuError::NoSuchObject {
            objset: self.id(),
            object,
        }
    }

    /// Reads those spill blocks of several objects that are not cached, in one batch.
    pub fn fetch_spills<'a>(&self, objects: impl Iterator<Item = &'a Object>) {
        let spills = objects.filter_map(|object| {
            let place = Bookmark::data(self.id(), object.id(), BlockId(u64::MAX));
            Some((object.dnode().spill?, place))
        });
        let wanted: Vec<_> = spills
            .filter(|(pointer, _)| !pointer.is_hole() && !self.cache().has(pointer))
            .collect();
        if wanted.len() > 1 {
            let keys = self.keys().map(AsRef::as_ref);
            self.cache().fetch(&wanted, keys, self.retention(true));
        }
    }

    fn read_dnodes_ahead(self: &Arc<Self>, meta: &Object, blocks: &[u64]) {
        let is_off = settings::PREFETCH_DISABLE.is_on() || !meta.is_read_ahead();
        let limit = self.cache().decoded_limit(meta.retention(0));
        if is_off || limit < DECODED_LIMIT_MIN {
            return;
        }
        let io = self.io().with_class(IoClass::AsyncRead);
        for region in self.scans.note(blocks) {
            let meta = meta.for_io(&io);
            if self
                .cache()
                .workers()
                .offer(move || read_region(&meta, region))
                .is_err()
            {
                return;
            }
        }
    }
}

/// Reads those of some blocks that are not cached: alone a block is left to its reader.
fn fetch_missing(object: &Object, blocks: &[u64]) {
    let set = object.set();
    let pointers = blocks.iter().filter_map(|block| {
        let pointer = object.block_pointer(0, BlockId(*block)).ok()?;
        let place = Bookmark::data(set.id(), object.id(), BlockId(*block));
        Some((pointer, place))
    });
    let missing: Vec<_> = pointers
        .filter(|(pointer, _)| !pointer.is_hole() && !set.cache().has(pointer))
        .collect();
    if missing.len() > 1 {
        let keys = set.keys().map(AsRef::as_ref);
        set.cache().fetch(&missing, keys, object.retention(0));
    }
}

/// Reads a region of the array of dnodes, and the first blocks of the directories in it.
fn read_region(meta: &Object, region: u64) {
    let last = meta.dnode().block_id_max.0;
    let first = region.saturating_mul(REGION_BLOCKS);
    if first > last {
        return;
    }
    let last = last.min(first + REGION_BLOCKS - 1);
    let Ok(pointers) = meta.data_pointers(BlockId(first), BlockId(last)) else {
        return;
    };
    meta.fetch(&pointers, first);
    let set = meta.set();
    let per_block = meta.dnode().data_block_size / DNODE_SIZE as u64;
    let mut wanted = Vec::new();
    let mut bytes = 0;
    for (pointer, number) in pointers.iter().zip(first..) {
        // A block that could not be read fails again for the caller that needs it.
        if pointer.is_hole() || !set.cache().has(pointer) {
            continue;
        }
        let Ok(Some(block)) = meta.block(BlockId(number)) else {
            continue;
        };
        for (slot, pointer) in directories(&block) {
            bytes += pointer.logical_size();
            if bytes > DIRECTORY_BYTES_MAX {
                break;
            }
            let object = ObjectId(number * per_block + slot);
            wanted.push((pointer, Bookmark::data(set.id(), object, BlockId(0))));
        }
    }
    let keys = set.keys().map(AsRef::as_ref);
    set.cache().fetch(&wanted, keys, set.retention(true));
}

/// The first blocks of the directories of one block in a block of dnodes, with their slots.
fn directories(block: &[u8]) -> Vec<(u64, BlockPointer)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + DNODE_SIZE <= block.len() {
        let bytes = &block[at..];
        let slot = (at / DNODE_SIZE) as u64;
        at += slots_of(bytes) * DNODE_SIZE;
        if bytes[0] != ObjectType::DIRECTORY.0 {
            continue;
        }
        let Ok(Some(dnode)) = Dnode::decode(bytes) else {
            continue;
        };
        let pointer = dnode.block_pointers.first().filter(|_| dnode.levels == 1);
        found.extend(pointer.filter(|p| !p.is_hole()).map(|p| (slot, *p)));
    }
    found
}
