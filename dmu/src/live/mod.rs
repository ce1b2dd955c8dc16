//! What a writable object set has beside its committed tree.
//!
//! Objects in use and objects with changes are in a table, sharded by number; each has a lock of
//! its own. Per transaction group a list names the changed ones for the sync.

mod numbers;
mod object;
mod ranges;
mod raw;
pub(crate) mod recount;
pub(crate) mod undo;

pub(crate) use numbers::Numbers;
pub(crate) use object::{
    Compressed, Dirty, DirtySpill, GENERATION_BYTES, Generation, LiveObject, LiveState, Place,
};
pub use raw::RawHeader;
pub(crate) use raw::RawState;

use crate::accounting::OwnerHook;
use crate::txg::TxgGate;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{ObjectId, Txg};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const SHARDS: usize = 64;

/// Unchanged objects that a shard keeps for quick access; beyond it they are swept out.
const SHARD_OBJECTS_MAX: usize = 256;

#[derive(Debug, Default)]
struct Shard {
    objects: HashMap<ObjectId, Arc<LiveObject>>,
    /// The number of objects at which to sweep.
    sweep_at: usize,
}

/// The changed objects of one group.
#[derive(Debug, Default)]
struct DirtyList {
    txg: Txg,
    is_registered: bool,
    objects: Vec<Arc<LiveObject>>,
}

/// The part of an object set that only writable ones have.
#[derive(Debug)]
pub(crate) struct LiveSet {
    pub(crate) gate: Option<Arc<TxgGate>>,
    shards: Vec<Mutex<Shard, ranks::LiveShard>>,
    /// Indexed by the lowest bit of the txg: two groups have changes at most.
    dirty: [Mutex<DirtyList, ranks::DirtyList>; 2],
    /// How often the committed tree was replaced.
    epoch: AtomicU64,
    pub(crate) numbers: Mutex<Numbers, ranks::ObjectNumbers>,
    /// Objects that were allocated and are not in the committed tree yet.
    pub(crate) fresh: Mutex<BTreeSet<ObjectId>, ranks::FreshObjects>,
    pub(crate) owner_hook: OnceLock<Arc<dyn OwnerHook>>,
    /// The state of a set that is received raw, as it is stored elsewhere.
    pub(crate) raw: OnceLock<Mutex<RawState, ranks::RawSet>>,
    /// A new intent log header or new flags, for the next sync.
    pub(crate) header: Mutex<HeaderChange, ranks::SetHeader>,
    /// A count of what owners use that is under way.
    pub(crate) recount: Mutex<Option<recount::Recount>, ranks::Recount>,
    /// Steps until all fail, in tests; `u64::MAX` if none does.
    steps_left: AtomicU64,
}

/// Fields of the object set block that change at the next sync.
#[derive(Debug, Default)]
pub(crate) struct HeaderChange {
    pub(crate) flags: Option<u64>,
    /// With the group that it is of: a replay notes in each how far it has come.
    pub(crate) intent_log_headers: Vec<(Txg, [u8; 192])>,
}

impl HeaderChange {
    /// Puts a header in the place of an earlier one of the same group.
    pub(crate) fn set_intent_log_header(&mut self, txg: Txg, header: [u8; 192]) {
        self.intent_log_headers.retain(|(of, _)| *of != txg);
        self.intent_log_headers.push((txg, header));
    }

    /// The header that is to be written with `txg`.
    pub(crate) fn take_intent_log_header(&mut self, txg: Txg) -> Option<[u8; 192]> {
        let headers = &mut self.intent_log_headers;
        let place = headers.iter().position(|(of, _)| *of == txg)?;
        Some(headers.swap_remove(place).1)
    }
}

impl LiveSet {
    pub(crate) fn new(gate: Option<Arc<TxgGate>>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            gate,
            shards,
            dirty: Default::default(),
            epoch: AtomicU64::new(0),
            numbers: Mutex::default(),
            fresh: Mutex::default(),
            owner_hook: OnceLock::new(),
            raw: OnceLock::new(),
            header: Mutex::default(),
            recount: Mutex::default(),
            steps_left: AtomicU64::new(u64::MAX),
        }
    }

    /// From `steps` reads and changes on all fail; `u64::MAX` ends that. Returns how many were
    /// left of those given before.
    pub(crate) fn fail_after(&self, steps: u64) -> u64 {
        self.steps_left.swap(steps, Ordering::Relaxed)
    }

    /// Whether a step that can fail is to do so.
    pub(crate) fn is_step_to_fail(&self) -> bool {
        match self.steps_left.load(Ordering::Relaxed) {
            u64::MAX => false,
            0 => true,
            left => {
                self.steps_left.store(left - 1, Ordering::Relaxed);
                false
            }
        }
    }

    fn shard(&self, id: ObjectId) -> MutexGuard<'_, Shard> {
        let spread = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        self.shards[usize::try_from(spread).expect("6 bits")].lock()
    }

    /// Whether the set's changes stay in memory and are never written.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.is_in_memory())
    }

    /// How often the committed tree was replaced.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Notes that the committed tree was replaced.
    pub(crate) fn next_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// What `read` finds, again if the committed tree was replaced meanwhile: what it gave up may
    /// have been written over.
    pub(crate) fn in_one_epoch<T>(&self, read: impl Fn() -> T) -> T {
        loop {
            let epoch = self.epoch();
            let found = read();
            if epoch == self.epoch() {
                return found;
            }
        }
    }

    /// As [`Self::in_one_epoch`] where only failures matter: what was found may be a little old.
    pub(crate) fn retry_stale<T, E>(&self, read: impl Fn() -> Result<T, E>) -> Result<T, E> {
        loop {
            let epoch = self.epoch();
            let found = read();
            if found.is_ok() || epoch == self.epoch() {
                return found;
            }
        }
    }

    /// The object, if it is in the table.
    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<LiveObject>> {
        self.shard(id).objects.get(&id).cloned()
    }

    /// Puts an object into the table as found in the committed tree at `epoch`, or returns the
    /// one that is there. `None` if the tree was replaced meanwhile.
    pub(crate) fn put(&self, epoch: u64, object: Arc<LiveObject>) -> Option<Arc<LiveObject>> {
        let mut shard = self.shard(object.id);
        if let Some(found) = shard.objects.get(&object.id) {
            return Some(Arc::clone(found));
        }
        if epoch != self.epoch() {
            return None;
        }
        shard.sweep();
        shard.objects.insert(object.id, Arc::clone(&object));
        Some(object)
    }

    /// The object's entry, made if there is none. Only for numbers that are known to be free.
    pub(crate) fn get_or_insert_free(&self, id: ObjectId) -> Arc<LiveObject> {
        let mut shard = self.shard(id);
        if let Some(found) = shard.objects.get(&id) {
            return Arc::clone(found);
        }
        shard.sweep();
        let object = LiveObject::new(id, None);
        shard.objects.insert(id, Arc::clone(&object));
        object
    }

    /// Whether the object's number is taken by an entry of the table, in whatever layer.
    pub(crate) fn slots_taken(&self, id: ObjectId) -> Option<usize> {
        let object = self.get(id)?;
        let state = object.read();
        if self.is_in_memory() {
            // What is free in memory does not have to be free on disk first.
            return state.dnode().map(|dnode| dnode.slots());
        }
        let open = state.open.as_ref().and_then(|open| open.dnode.as_ref());
        let frozen = state.frozen.as_ref().and_then(|old| old.dnode.as_ref());
        let layers = [open, frozen, state.committed.as_ref()];
        layers
            .into_iter()
            .flatten()
            .map(|dnode| dnode.slots())
            .max()
    }

    /// Whether an object was freed in a set that is never written: its slots are free at once.
    pub(crate) fn is_free_at_once(&self, id: ObjectId) -> bool {
        self.is_in_memory()
            && self
                .get(id)
                .is_some_and(|object| object.read().dnode().is_none())
    }

    /// Notes that `object` has changes in `txg`; says whether the set had none in it before.
    ///
    /// Called once for each generation, whose memory it accounts.
    pub(crate) fn add_dirty(&self, txg: Txg, object: Option<&Arc<LiveObject>>) -> bool {
        if object.is_some() {
            self.add_dirty_bytes(GENERATION_BYTES);
        }
        let mut list = self.dirty_list(txg);
        list.objects.extend(object.cloned());
        !std::mem::replace(&mut list.is_registered, true)
    }

    fn dirty_list(&self, txg: Txg) -> MutexGuard<'_, DirtyList> {
        let mut list = self.dirty[usize::from(txg.0 & 1 == 1)].lock();
        if list.txg != txg {
            assert!(list.objects.is_empty(), "an older group was not synced");
            list.txg = txg;
            list.is_registered = false;
        }
        list
    }

    /// Takes the objects that changed in `txg`, in order of number; `None` if nothing did.
    pub(crate) fn take_dirty(&self, txg: Txg) -> Option<Vec<Arc<LiveObject>>> {
        let mut list = self.dirty_list(txg);
        if !std::mem::take(&mut list.is_registered) {
            return None;
        }
        let mut objects = std::mem::take(&mut list.objects);
        drop(list);
        objects.sort_unstable_by_key(|object| object.id);
        objects.dedup_by_key(|object| object.id);
        Some(objects)
    }

    /// Whether `txg` has changes.
    pub(crate) fn is_dirty(&self, txg: Txg) -> bool {
        self.dirty_list(txg).is_registered
    }

    pub(crate) fn add_dirty_bytes(&self, bytes: u64) {
        if let (Some(gate), 1..) = (&self.gate, bytes) {
            gate.add_dirty(bytes);
        }
    }

    /// As [`Self::add_dirty_bytes`] of file contents, of which `new` were not dirty in the open
    /// group before.
    pub(crate) fn add_dirty_data(&self, bytes: u64, new: u64) {
        if let (Some(gate), 1..) = (&self.gate, bytes) {
            gate.add_dirty_data(bytes, new);
        }
    }

    pub(crate) fn remove_dirty_bytes(&self, bytes: u64) {
        if let (Some(gate), 1..) = (&self.gate, bytes) {
            gate.remove_dirty(bytes);
        }
    }
}

impl Shard {
    /// Drops unused objects when there are many.
    fn sweep(&mut self) {
        if self.objects.len() < self.sweep_at.max(SHARD_OBJECTS_MAX) {
            return;
        }
        let is_used =
            |object: &Arc<LiveObject>| Arc::strong_count(object) > 1 || !object.read().is_clean();
        self.objects.retain(|_, object| is_used(object));
        // Twice of what had to stay, so that sweeping costs little for each object put in.
        self.sweep_at = 2 * self.objects.len();
    }
}
