//! Making object sets, and objects in them.

use crate::accounting::OwnerHook;
use crate::error::DmuError;
use crate::live::{
    DirtySpill, GENERATION_BYTES, LiveObject, LiveSet, Numbers, RawHeader, RawState,
};
use crate::new_object::NewObject;
use crate::object::Object;
use crate::object_set::{Committed, OBJECT_ID_MAX, ObjectSet, SpecialObject};
use crate::txg::{Transaction, TxgGate};
use cenote_base::rt::{Mutex, MutexGuard};
use cenote_base::{BlockId, ObjectId, ObjsetId};
use cenote_cache::BlockCache;
use cenote_io::{ObjsetKeys, StoredForm};
use cenote_ondisk::dnode::DNODE_SIZE;
use cenote_ondisk::objset::{INTENT_LOG_HEADER_SIZE, OBJSET_SIZE, ObjsetKind};
use cenote_ondisk::{BlockPointer, ObjectType, Objset};
use std::sync::Arc;

/// Bytes of a block of dnodes (format/2b 2).
const DNODE_BLOCK_SIZE: u64 = 16 << 10;

/// The meta-dnode of a dataset has as many levels from the start as 2^48 objects need.
const DATASET_META_LEVELS: u8 = 6;

/// What a new object set is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateParams {
    /// `FLAG_*` of `ondisk::objset`: which accounting is complete from the start.
    pub flags: u64,
}

impl ObjectSet {
    /// Opens an object set to be changed. `gate` is the pool's, or `None` for the meta object
    /// set, which only the syncing thread changes.
    pub fn open_writable(
        cache: Arc<BlockCache>,
        id: ObjsetId,
        root: BlockPointer,
        keys: Option<Arc<ObjsetKeys>>,
        gate: Option<Arc<TxgGate>>,
    ) -> Result<Arc<Self>, DmuError> {
        Self::open_with(cache, id, root, keys, Some(LiveSet::new(gate)))
    }

    /// A new, empty object set. Its first sync writes it, whether objects were made in it or not.
    pub fn create(
        cache: Arc<BlockCache>,
        id: ObjsetId,
        kind: ObjsetKind,
        keys: Option<Arc<ObjsetKeys>>,
        gate: Option<Arc<TxgGate>>,
        params: CreateParams,
    ) -> Arc<Self> {
        let new = NewObject::new(ObjectType::DNODE, DNODE_BLOCK_SIZE);
        let mut meta_dnode = new.dnode();
        if kind != ObjsetKind::Meta {
            meta_dnode.levels = DATASET_META_LEVELS;
        }
        let header = Objset {
            meta_dnode,
            intent_log_header: [0; INTENT_LOG_HEADER_SIZE],
            kind,
            flags: params.flags,
            portable_mac: [0; 32],
            local_mac: [0; 32],
            user_used: None,
            group_used: None,
            project_used: None,
        };
        let committed = Committed {
            root: BlockPointer::HOLE,
            header: Arc::new(header),
            header_size: OBJSET_SIZE,
        };
        let (cache, live) = (cache.for_dataset(id), LiveSet::new(gate));
        Self::from_parts(cache, id, committed, keys, Some(live))
    }

    /// The set as it is on disk, to be changed in memory only: nothing of that is ever written.
    pub fn in_memory(&self, gate: Arc<TxgGate>) -> Arc<Self> {
        assert!(gate.is_in_memory(), "another gate's groups are written");
        let (cache, keys) = (Arc::clone(self.cache()), self.keys().cloned());
        let live = LiveSet::new(Some(gate));
        let set = Self::from_parts(cache, self.id(), self.committed(), keys, Some(live));
        set.set_caching(self.caching());
        set
    }

    fn live_or_refuse(&self) -> Result<&LiveSet, DmuError> {
        let objset = self.id();
        self.live.as_ref().ok_or(DmuError::ReadOnly { objset })
    }

    /// Sets the hook that finds the owners of this set's objects; a second call changes nothing.
    pub fn set_owner_hook(&self, hook: Arc<dyn OwnerHook>) {
        if let Some(live) = &self.live {
            let _ = live.owner_hook.set(hook);
        }
    }

    /// Has the set written in the transaction's group even if no object changes.
    pub fn mark_dirty(self: &Arc<Self>, tx: &Transaction) -> Result<(), DmuError> {
        self.note_dirty(tx, None)
    }

    /// Whether the set has changes in `txg`.
    pub fn is_dirty_in(&self, txg: cenote_base::Txg) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_dirty(txg))
    }

    /// Replaces the flags that say which accounting is complete.
    pub fn set_flags(self: &Arc<Self>, tx: &Transaction, flags: u64) -> Result<(), DmuError> {
        self.live_or_refuse()?.header.lock().flags = Some(flags);
        self.note_dirty(tx, None)
    }

    /// Replaces the intent log's header with the transaction's group: no other group writes it.
    pub fn set_intent_log_header(
        self: &Arc<Self>,
        tx: &Transaction,
        header: [u8; INTENT_LOG_HEADER_SIZE],
    ) -> Result<(), DmuError> {
        self.live_or_refuse()?
            .header
            .lock()
            .set_intent_log_header(tx.txg(), header);
        self.note_dirty(tx, None)
    }

    /// From now on the set takes blocks as they are stored elsewhere, whose MACs `header` contains.
    /// Space used by files and by their owners is not accounted any more.
    pub fn begin_raw(
        self: &Arc<Self>,
        tx: &Transaction,
        header: RawHeader,
    ) -> Result<(), DmuError> {
        let raw = &self.live_or_refuse()?.raw;
        raw.get_or_init(|| Mutex::new(RawState::new(header)))
            .lock()
            .header = header;
        self.note_dirty(tx, None)
    }

    /// Notes how the block of dnodes from `first` on is protected.
    pub fn set_raw_range(
        self: &Arc<Self>,
        tx: &Transaction,
        first: ObjectId,
        form: StoredForm,
    ) -> Result<(), DmuError> {
        if let Some(raw) = self.live_or_refuse()?.raw.get() {
            raw.lock().note_range(tx.txg(), first, form);
        }
        self.note_dirty(tx, None)
    }

    /// Notes the bonus area of an object as it is stored elsewhere.
    pub fn set_raw_area(&self, id: ObjectId, area: Vec<u8>) -> Result<(), DmuError> {
        if let Some(raw) = self.live_or_refuse()?.raw.get() {
            raw.lock().note_area(id, area);
        }
        Ok(())
    }

    fn slots_per_block(&self) -> u64 {
        self.header().meta_dnode.data_block_size / DNODE_SIZE as u64
    }

    /// Makes an object and gives it a number.
    pub fn allocate(
        self: &Arc<Self>,
        tx: &Transaction,
        new: NewObject,
    ) -> Result<Object, DmuError> {
        let live = self.live_or_refuse()?;
        self.check_new(ObjectId(0), &new)?;
        let per_block = self.slots_per_block();
        let mut numbers = live.numbers.lock();
        let id = loop {
            if let Some(slot) = numbers.take(new.slots) {
                let block = numbers.block.expect("slots were taken from it");
                break ObjectId(block * per_block + slot as u64);
            }
            let next = match numbers.block {
                None => 0,
                Some(_) if numbers.is_worth_a_new_search() => 0,
                Some(block) => block + 1,
            };
            if next == 0 {
                (numbers.freed, numbers.searched) = (0, 0);
            }
            numbers.searched += 1;
            let block = live.retry_stale(|| self.block_with_room(next))?;
            if block * per_block > OBJECT_ID_MAX {
                return Err(self.bad_new(ObjectId(0), "all object numbers are taken"));
            }
            numbers.taken = self.taken_slots(block)?;
            numbers.block = Some(block);
        };
        // Under the lock still: until the entry stands in the table only the bits know of it.
        self.insert(tx, id, &new)
    }

    /// The first block of dnodes from `block` on that is not full by its fill count.
    fn block_with_room(self: &Arc<Self>, block: u64) -> Result<u64, DmuError> {
        let meta = self.meta_object();
        let per_block = self.slots_per_block();
        let mut block = block;
        while block <= meta.dnode().block_id_max.0 {
            let last = block.saturating_add(1023).min(meta.dnode().block_id_max.0);
            let pointers = meta.data_pointers(BlockId(block), BlockId(last))?;
            let is_open = |pointer: &BlockPointer| pointer.fill() < per_block;
            if let Some(index) = pointers.iter().position(is_open) {
                return Ok(block + index as u64);
            }
            block = last + 1;
        }
        Ok(block)
    }

    /// Which slots of a block of dnodes are taken, on disk or by what is not on disk yet.
    fn taken_slots(self: &Arc<Self>, block: u64) -> Result<Vec<bool>, DmuError> {
        let live = self.live_or_refuse()?;
        // An object that comes to disk meanwhile may be in neither when its turn comes.
        live.in_one_epoch(|| self.taken_slots_now(live, block))
    }

    fn taken_slots_now(
        self: &Arc<Self>,
        live: &LiveSet,
        block: u64,
    ) -> Result<Vec<bool>, DmuError> {
        let count = usize::try_from(self.slots_per_block()).expect("at most 2^15");
        let mut taken = vec![false; count];
        if block == 0 {
            taken[0] = true;
        }
        let mut take = |slot: usize, slots: usize| {
            taken[slot..(slot + slots).min(count)].fill(true);
        };
        if let Some(contents) = self.meta_object().block(BlockId(block))? {
            let mut slot = 0;
            while slot < count {
                let slots = crate::object_set::slots_of(&contents[slot * DNODE_SIZE..]);
                let id = ObjectId(block * count as u64 + slot as u64);
                if contents[slot * DNODE_SIZE] != 0 && !live.is_free_at_once(id) {
                    take(slot, slots);
                }
                slot += slots;
            }
        }
        for slot in 0..count {
            let id = ObjectId(block * count as u64 + slot as u64);
            if let Some(slots) = live.slots_taken(id) {
                take(slot, slots);
            }
        }
        Ok(taken)
    }

    /// Reserves the slots behind an object's dnode for it to grow. No other object gets them while
    /// the caller, which notes the growth in the dnode, holds the returned reservation.
    pub(crate) fn reserve_slots(
        self: &Arc<Self>,
        id: ObjectId,
        now: usize,
        slots: usize,
    ) -> Result<MutexGuard<'_, Numbers>, DmuError> {
        let live = self.live_or_refuse()?;
        let mut numbers = live.numbers.lock();
        let per_block = self.slots_per_block();
        let (block, slot) = (id.0 / per_block, id.0 % per_block);
        let slot = usize::try_from(slot).expect("at most 2^15");
        let mut taken = self.taken_slots(block)?;
        let wanted = slot + now..slot + slots;
        if wanted.end > taken.len() || taken[wanted.clone()].contains(&true) {
            return Err(self.bad_new(id, "the slots behind its dnode are taken"));
        }
        taken[wanted].fill(true);
        if numbers.block == Some(block) {
            numbers.taken = taken;
        }
        Ok(numbers)
    }

    /// Makes the object `id`, which must be free. A number freed in the same transaction group
    /// may be taken again in this way.
    pub fn allocate_at(
        self: &Arc<Self>,
        tx: &Transaction,
        id: ObjectId,
        new: NewObject,
    ) -> Result<Object, DmuError> {
        let live = self.live_or_refuse()?;
        self.check_new(id, &new)?;
        if SpecialObject::from_id(id).is_some() {
            return self.insert(tx, id, &new);
        }
        let per_block = self.slots_per_block();
        let (block, slot) = (id.0 / per_block, id.0 % per_block);
        if id.0 == 0 || id.0 > OBJECT_ID_MAX || slot + new.slots as u64 > per_block {
            return Err(self.bad_new(id, "no dnode can lie there"));
        }
        let mut numbers = live.numbers.lock();
        // The object itself may have been freed in this group; then its slots still count as
        // taken, rightly for all others.
        let before = self.live_object(id)?;
        let is_free = before
            .as_ref()
            .is_none_or(|object| object.read().dnode().is_none());
        let slots_before = live.slots_taken(id).unwrap_or(0);
        if !is_free {
            return Err(self.bad_new(id, "the object exists"));
        }
        let slot = usize::try_from(slot).expect("at most 2^15");
        let mut taken = self.taken_slots(block)?;
        let end = slot + new.slots;
        if taken[slot + slots_before.min(new.slots)..end].contains(&true) {
            return Err(self.bad_new(id, "its slots are taken"));
        }
        taken[slot..end].fill(true);
        if numbers.block == Some(block) {
            numbers.taken = taken;
        }
        self.insert(tx, id, &new)
    }

    fn bad_new(&self, object: ObjectId, problem: &'static str) -> DmuError {
        DmuError::BadChange {
            objset: self.id(),
            object,
            problem,
        }
    }

    fn check_new(&self, id: ObjectId, new: &NewObject) -> Result<(), DmuError> {
        let refuse = |problem| Err(self.bad_new(id, problem));
        new.problem().map_or(Ok(()), refuse)
    }

    fn insert(
        self: &Arc<Self>,
        tx: &Transaction,
        id: ObjectId,
        new: &NewObject,
    ) -> Result<Object, DmuError> {
        let live = self.live_or_refuse()?;
        let object = live.get_or_insert_free(id);
        {
            let mut state = object.write();
            let has_below = state.committed.is_some() || !state.is_clean();
            let generation = self.open_generation(tx, (&object, &mut state))?;
            generation.is_replaced |= has_below;
            generation.dnode = Some(Arc::new(new.dnode()));
            state.changes.note(0);
        }
        if SpecialObject::from_id(id).is_none() {
            self.note_fresh(tx, &object, true);
        }
        Ok(Object::from_live(Arc::clone(self), object).expect("it was just made"))
    }

    /// Frees object `id` with all its blocks.
    ///
    /// # Errors
    /// If it is not there, or damaged ([`Object::check_freeable`]): nothing is freed then.
    pub fn free(self: &Arc<Self>, tx: &Transaction, id: ObjectId) -> Result<(), DmuError> {
        let live = self.live_or_refuse()?;
        let found = match SpecialObject::from_id(id) {
            Some(_) => None,
            None => self.live_object(id)?,
        };
        let Some(object) = found else {
            return Err(self.no_such_object(id));
        };
        if let Some(whole) = Object::from_live(Arc::clone(self), Arc::clone(&object)) {
            whole.check_freeable()?;
        }
        let bytes = {
            let mut state = object.write();
            if state.dnode().is_none() {
                return Err(self.no_such_object(id));
            }
            let generation = self.open_generation(tx, (&object, &mut state))?;
            generation.dnode = None;
            generation.is_replaced = true;
            let blocks = std::mem::take(&mut generation.blocks);
            let freed = std::mem::take(&mut generation.freed);
            if let Some(undo) = &mut *tx.undo_log() {
                undo.emptied(&object, (blocks, freed));
            }
            generation.spill = DirtySpill::Removed;
            generation.forms.clear();
            let bytes = generation.dirty_bytes - GENERATION_BYTES;
            generation.dirty_bytes = GENERATION_BYTES;
            generation.beside_bytes = 0;
            state.changes.note(0);
            bytes
        };
        live.remove_dirty_bytes(bytes);
        self.note_fresh(tx, &object, false);
        Ok(())
    }

    /// Notes whether an object is allocated and not on disk yet.
    fn note_fresh(&self, tx: &Transaction, object: &Arc<LiveObject>, is_fresh: bool) {
        let Some(live) = &self.live else {
            return;
        };
        let mut fresh = live.fresh.lock();
        let was_fresh = match is_fresh {
            true => !fresh.insert(object.id),
            false => fresh.remove(&object.id),
        };
        drop(fresh);
        if let Some(undo) = &mut *tx.undo_log() {
            undo.fresh(object, was_fresh);
        }
    }

    fn no_such_object(&self, object: ObjectId) -> DmuError {
        DmuError::NoSuchObject {
            objset: self.id(),
            object,
        }
    }

    /// Notes that an object is on disk now, or gone from it.
    pub(crate) fn note_committed(&self, object: &LiveObject, exists: bool) {
        let Some(live) = &self.live else {
            return;
        };
        match exists {
            true => {
                live.fresh.lock().remove(&object.id);
            }
            false => live.numbers.lock().freed += 1,
        }
    }
}
