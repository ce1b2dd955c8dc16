//! Free space: which vdev a block is allocated on, and when freed space is reused.
//!
//! Top-level vdevs belong to classes. Within its class a block goes to the vdev of the rotor; vdevs
//! with more free space get more bytes per turn. Each vdev is divided into metaslabs, and only
//! those in use for allocation have their free ranges in memory. The sync (`pool::sync`) records
//! changes in space maps and logs, and reports when a txg is on disk.
//!
//! Most blocks are allocated by the sync of their group. Intent logs allocate for the group that is
//! still open: such space is kept by group, and recorded when the sync of its group begins.

mod avoid;
mod free_space;
mod hold;
mod load;
mod maps;
mod metaslab;
mod repairs;
mod top;

pub(crate) use load::{load, logs};
pub(crate) use metaslab::{Metaslab, count_range};
pub(crate) use top::TopSpace;

use crate::pool::VdevSpace;
use crate::treatment::FreedRanges;
use cenote_base::rt::SyncSender;
use cenote_base::rt::{self, Mutex, RwLock, ranks};
use cenote_base::{ObjectId, Txg, VdevId, settings};
use cenote_dmu::ObjectSet;
use cenote_io::{Allocation, AllocationRequest, Allocator, NoSpace, RangeConflict};
use cenote_ondisk::Dva;
use cenote_vdev::{AllocationClass, Vdevs};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Freed space that waits is hurried once it is more than this part of what is free.
const WAITING_SHARE: u64 = 64;

/// Maps that one allocation reads on one vdev at most: more than a vdev has metaslabs.
const MAP_READS_MAX: u32 = 1 << 16;

/// Times that an allocation waits for space that is held.
const HOLD_WAITS_MAX: u32 = 60;

/// Before the first group that is written: whatever is allocated belongs to that one.
const NO_GROUP: u64 = u64::MAX;

/// Whose turn it is in a class.
#[derive(Clone, Copy, Debug, Default)]
struct Rotor {
    next: usize,
    left: u64,
}

/// The allocator of a top-level vdev.
pub(crate) type SharedTop = Arc<Mutex<TopSpace, ranks::TopSpace>>;

/// The free space of a pool.
#[derive(Debug)]
pub(crate) struct Space {
    vdevs: Arc<Vdevs>,
    /// By vdev id; `None` where there is no space, as in holes.
    tops: RwLock<Vec<Option<SharedTop>>, ranks::SpaceTops>,
    rotors: [Mutex<Rotor, ranks::SpaceRotors>; 4],
    /// The meta object set as of the last synced txg; `None` before a new pool's first.
    committed: RwLock<Option<Arc<ObjectSet>>, ranks::SpaceCommitted>,
    /// How many callers need that no freed space is reused.
    holds: AtomicUsize,
    /// The group that is being written, or was last; [`NO_GROUP`] before the first.
    group: AtomicU64,
    /// Free ranges that are held for a moment.
    range_holds: hold::Holds,
    /// Allocated ranges in which blocks are repaired.
    repairs: repairs::Repairs,
    /// Receives the ranges that became free.
    pub(crate) freed_to: Mutex<Option<SyncSender<FreedRanges>>, ranks::SpaceFreedTo>,
    /// The first contradiction between what is freed and what is allocated.
    conflict: Mutex<Option<(VdevId, RangeConflict)>, ranks::SpaceConflict>,
    /// What [`Space::figures`] said last.
    last_figures: Mutex<BTreeMap<VdevId, VdevSpace>, ranks::SpaceFigures>,
}

/// How often [`Space::figures_soon`] tries to lock a vdev during allocations,
const FIGURES_TRIES: usize = 200;
/// and how long it waits in between.
const FIGURES_POLL: Duration = Duration::from_millis(1);

/// The vdev's number with its size and allocation.
fn figures_of(top: &TopSpace) -> (VdevId, VdevSpace) {
    let space = VdevSpace {
        size: top.size(),
        allocated: top.allocated(),
        checkpoint: top.checkpoint_bytes,
        deferred: top.deferred(),
        is_closed: top.is_closed,
    };
    (top.vdev, space)
}

/// The classes that a block of `class` may go to, best first.
fn class_order(class: AllocationClass) -> &'static [AllocationClass] {
    use AllocationClass::{Dedup, Log, Normal, Special};
    match class {
        Normal => &[Normal],
        Special => &[Special, Normal],
        Dedup => &[Dedup, Special, Normal],
        Log => &[Log, Special, Normal],
    }
}

impl Space {
    /// The space of vdevs that all are in `tops`, at the position of their id.
    pub fn new(
        vdevs: Arc<Vdevs>,
        tops: Vec<Option<TopSpace>>,
        committed: Option<Arc<ObjectSet>>,
    ) -> Self {
        let tops = tops
            .into_iter()
            .map(|top| top.map(|top| Arc::new(Mutex::new(top))));
        Self {
            vdevs,
            tops: RwLock::new(tops.collect()),
            rotors: Default::default(),
            committed: RwLock::new(committed),
            holds: AtomicUsize::new(0),
            group: AtomicU64::new(NO_GROUP),
            range_holds: hold::Holds::default(),
            repairs: repairs::Repairs::default(),
            freed_to: Mutex::default(),
            conflict: Mutex::default(),
            last_figures: Mutex::default(),
        }
    }

    /// The vdevs with space, in order of their ids.
    pub fn tops(&self) -> Vec<SharedTop> {
        let tops = self.tops.read();
        tops.iter().flatten().cloned().collect()
    }

    /// Calls `each` with every vdev that has space, in order of their ids.
    pub fn for_each<E>(
        &self,
        mut each: impl FnMut(&mut TopSpace) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tops().iter().try_for_each(|top| each(&mut top.lock()))
    }

    /// Vdevs with metaslabs that are not allocated from as their maps cannot be read; how many.
    pub fn damaged(&self) -> Vec<(VdevId, usize)> {
        let count = |top: SharedTop| {
            let top = top.lock();
            let damaged = top.metaslabs.iter().filter(|metaslab| metaslab.is_damaged);
            (top.vdev, damaged.count())
        };
        let counts = self.tops().into_iter().map(count);
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// The space of one vdev.
    pub fn top(&self, vdev: VdevId) -> Option<SharedTop> {
        let tops = self.tops.read();
        tops.get(usize::try_from(vdev.0).ok()?)?.clone()
    }

    /// Adds a vdev, at the position of its id.
    pub fn add_top(&self, top: TopSpace) {
        let mut tops = self.tops.write();
        let index = usize::try_from(top.vdev.0).expect("ids have 24 bits");
        if tops.len() <= index {
            tops.resize(index + 1, None);
        }
        tops[index] = Some(Arc::new(Mutex::new(top)));
    }

    /// Takes the space of a vdev out: nothing on it is allocated any more, nor will be.
    pub fn remove_top(&self, vdev: VdevId) {
        let mut tops = self.tops.write();
        let index = usize::try_from(vdev.0).expect("ids have 24 bits");
        if let Some(place) = tops.get_mut(index) {
            *place = None;
        }
        self.last_figures.lock().remove(&vdev);
    }

    /// Says which ZAP a vdev has.
    pub fn set_top_zap(&self, vdev: VdevId, zap: Option<ObjectId>) {
        if let Some(top) = self.top(vdev) {
            top.lock().top_zap = zap;
        }
    }

    /// Whether so much waits for later txgs that it should not have to wait long.
    pub fn is_waiting(&self) -> bool {
        let of = |top: &SharedTop| {
            let top = top.lock();
            (top.deferred(), top.available())
        };
        let all = self
            .tops()
            .iter()
            .map(of)
            .fold((0_u64, 0_u64), |sum, (deferred, available)| {
                (sum.0 + deferred, sum.1 + available)
            });
        all.0 > all.1 / WAITING_SHARE
    }

    /// Marks a block's space as allocated that something on disk refers to.
    pub fn claim(&self, dva: Dva) -> Result<(), RangeConflict> {
        let range = dva.offset()..dva.offset().saturating_add(dva.asize());
        let Some(shared) = self.top(dva.vdev()).filter(|_| dva.asize() > 0) else {
            return Err(RangeConflict { range });
        };
        let index = shared.lock().index_of(&range)?;
        // What else is free has to be known: the map's histogram must count this no more. OpenZFS
        // aborts where it counts more free ranges of the greatest length than there are.
        match self.lock_loaded(&shared, index) {
            Some(mut top) => top.claim(range),
            None => shared.lock().claim(range),
        }
    }

    /// Frees `asize` bytes at an address of a concrete vdev.
    pub fn free(&self, vdev: VdevId, offset: u64, asize: u64) -> Result<(), RangeConflict> {
        let range = offset..offset.saturating_add(asize);
        match self.top(vdev) {
            Some(top) if asize > 0 => top.lock().free(range),
            _ => Err(RangeConflict { range }),
        }
    }

    /// Keeps `asize` bytes allocated that from now on only the checkpoint refers to.
    pub fn checkpoint(&self, vdev: VdevId, offset: u64, asize: u64) -> Result<(), RangeConflict> {
        let range = offset..offset.saturating_add(asize);
        let Some(top) = self.top(vdev) else {
            return Err(RangeConflict { range });
        };
        top.lock().checkpointed.push(range);
        Ok(())
    }

    /// Remembers that space was freed that cannot have been allocated: nothing more is to be
    /// written to such a pool.
    pub fn note_conflict(&self, vdev: VdevId, conflict: RangeConflict) {
        self.conflict.lock().get_or_insert((vdev, conflict));
    }

    /// The first contradiction that was noticed.
    pub fn conflict(&self) -> Option<(VdevId, RangeConflict)> {
        self.conflict.lock().clone()
    }

    /// The pool was opened at this group: what was born until then is on disk, and can be repaired.
    pub fn opened_at(&self, txg: Txg) {
        self.repairs.committed.store(txg.0, Ordering::Release);
    }

    /// Begins the sync of `txg`, which has no open transactions any more. Space that was allocated
    /// ahead for it is recorded with it.
    pub fn begin_group(&self, txg: Txg) -> Result<(), (VdevId, RangeConflict)> {
        let before = self.group.swap(txg.0, Ordering::AcqRel);
        assert!(
            before == NO_GROUP || before < txg.0,
            "groups are written in order: {before}, then {txg:?}"
        );
        self.for_each(|top| {
            let vdev = top.vdev;
            top.begin_group(txg).map_err(|conflict| (vdev, conflict))
        })
    }

    /// The group that space is allocated ahead for, unless it is that of the sync under way.
    fn ahead(&self, txg: Txg) -> Option<Txg> {
        (txg.0 > self.group.load(Ordering::Acquire)).then_some(txg)
    }

    /// `txg` is on disk: `mos` is the meta object set as it has it.
    pub fn committed(&self, txg: Txg, mos: Arc<ObjectSet>) -> Result<(), (VdevId, RangeConflict)> {
        let is_held = self.holds.load(Ordering::Acquire) > 0;
        self.assert_can_commit(txg);
        // First, so that no base is looked for in the set before.
        let all = self.tops();
        let mut tops: Vec<_> = all.iter().map(|top| top.lock()).collect();
        *self.committed.write() = Some(mos);
        let freed_to = self.freed_to.lock();
        let mut freed = FreedRanges::new();
        let moment = self.repairs.moment.load(Ordering::Acquire) + 1;
        for top in &mut tops {
            let vdev = top.vdev;
            if freed_to.is_some() && !is_held {
                top.becoming_free(|range| freed.push((vdev, range)));
            }
            top.committed(is_held, moment)
                .map_err(|conflict| (vdev, conflict))?;
        }
        // Last: a stamp from in between counts as one from before.
        self.repairs.moment.store(moment, Ordering::Release);
        self.repairs.committed.store(txg.0, Ordering::Release);
        if let Some(freed_to) = freed_to.as_ref().filter(|_| !freed.is_empty()) {
            // If the receiver does not keep up, it misses some ranges.
            let _ = freed_to.try_send(freed);
        }
        Ok(())
    }

    /// Asserts that `txg` is the group that is being written, that it is later than all that are on
    /// disk, and that everything that it allocated or freed is recorded.
    fn assert_can_commit(&self, txg: Txg) {
        let writing = self.group.load(Ordering::Acquire);
        assert!(
            writing == NO_GROUP || writing == txg.0,
            "{txg:?} is on disk, and {writing} was being written"
        );
        let before = self.repairs.committed.load(Ordering::Acquire);
        assert!(before < txg.0, "{before} was on disk before {txg:?}");
        assert!(!self.has_unrecorded(), "no map has some of {txg:?}");
    }

    /// Drops the meta object set. It reads through the pipeline, which refers to this for
    /// allocations: a cycle that would keep devices open forever.
    pub fn close(&self) {
        let mut committed = self.committed.write();
        *committed = None;
        *self.freed_to.lock() = None;
    }

    /// From now on no freed space is used again.
    pub fn hold(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends what [`Self::hold`] began.
    pub fn release_hold(&self) {
        let before = self.holds.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "only what is held can be released");
    }

    /// Whether there are changes that no map has.
    pub fn has_unrecorded(&self) -> bool {
        let is_dirty = |top: &TopSpace| {
            let mut dirty = top.dirty.iter();
            dirty.any(|index| top.metaslabs[*index].is_dirty()) || !top.checkpointed.is_empty()
        };
        self.tops().iter().any(|top| is_dirty(&top.lock()))
    }

    /// Size and allocation of each vdev.
    pub fn figures(&self) -> BTreeMap<VdevId, VdevSpace> {
        let tops = self.tops();
        let figures = tops.iter().map(|top| figures_of(&top.lock()));
        let figures: BTreeMap<VdevId, VdevSpace> = figures.collect();
        *self.last_figures.lock() = figures.clone();
        figures
    }

    /// Like [`Space::figures`], for reports only: while an allocation waits for a device, it
    /// returns the last known figures.
    pub fn figures_soon(&self) -> BTreeMap<VdevId, VdevSpace> {
        let mut figures = BTreeMap::new();
        let mut tries_left = FIGURES_TRIES;
        for top in self.tops() {
            loop {
                match top.try_lock() {
                    Some(top) => figures.extend([figures_of(&top)]),
                    None if tries_left > 0 => {
                        tries_left -= 1;
                        rt::sleep(FIGURES_POLL);
                        continue;
                    }
                    None => {}
                }
                break;
            }
        }
        let mut last = self.last_figures.lock();
        if tries_left > 0 {
            last.clear();
        }
        last.extend(figures);
        last.clone()
    }

    /// The vdevs of a class that can be allocated from. A log device that is offline or gone
    /// cannot: each commit would fail on it and wait for its group.
    fn members(&self, class: AllocationClass) -> Vec<SharedTop> {
        let shape = (class == AllocationClass::Log).then(|| self.vdevs.shape());
        let is_here = |vdev| {
            let state = shape.as_ref().map(|shape| shape.top_state(vdev));
            state.is_none_or(|state| state.is_some_and(|(state, _)| state.is_readable()))
        };
        let mut tops = self.tops();
        tops.retain(|top| {
            let top = top.lock();
            top.class == class && !top.is_closed && is_here(top.vdev)
        });
        tops
    }

    /// The member whose turn it is, after `size` bytes more.
    fn turn(&self, class: AllocationClass, members: &[SharedTop], size: u64) -> usize {
        let mut rotor = self.rotors[class as usize].lock();
        if members.len() < 2 {
            return 0;
        }
        if rotor.left < size {
            rotor.next = (rotor.next + 1) % members.len();
            let shares = members.iter().map(|top| top.lock().available());
            let shares: Vec<u64> = shares.collect();
            let average = (shares.iter().sum::<u64>() / members.len() as u64).max(1);
            let width = members[rotor.next].lock().width;
            // Between a quarter of and four times the usual turn, by free space.
            let percent = u128::from(shares[rotor.next]) * 100 / u128::from(average);
            let percent = u64::try_from(percent).unwrap_or(400).clamp(25, 400);
            rotor.left = (settings::METASLAB_ALIQUOT.get() * width / 100 * percent).max(size);
        }
        rotor.left -= size;
        rotor.next.min(members.len() - 1)
    }

    /// Takes space for up to all copies from the vdevs of one class.
    fn allocate_in(
        &self,
        class: AllocationClass,
        txg: Txg,
        request: &AllocationRequest,
    ) -> Vec<Dva> {
        let members = self.members(class);
        let mut dvas: Vec<Dva> = Vec::new();
        if members.is_empty() {
            return dvas;
        }
        let first = self.turn(class, &members, request.size);
        for copy in 0..usize::from(request.copies) {
            // Vdevs that have no copy yet come first.
            let ring = (0..members.len()).map(|i| &members[(first + copy + i) % members.len()]);
            let (mut fresh, mut used): (Vec<_>, Vec<_>) = ring.partition(|top| {
                let vdev = top.lock().vdev;
                dvas.iter().all(|dva| dva.vdev() != vdev)
            });
            fresh.append(&mut used);
            let mut rest = fresh.into_iter();
            let found = rest.find_map(|top| self.allocate_copy(top, txg, request, copy, &dvas));
            match found {
                Some(dva) => dvas.push(dva),
                None => break,
            }
        }
        dvas
    }

    fn allocate_copy(
        &self,
        shared: &SharedTop,
        txg: Txg,
        request: &AllocationRequest,
        copy: usize,
        dvas: &[Dva],
    ) -> Option<Dva> {
        let vdev = shared.lock().vdev;
        let asize = self.vdevs.shape().asize(vdev, request.size, txg)?;
        let same = dvas.iter().filter(|dva| dva.vdev() == vdev);
        let other: Vec<Range<u64>> = same
            .map(|dva| dva.offset()..dva.offset() + dva.asize())
            .collect();
        // A map may be outdated by the time it was read, and metaslabs may be forgotten.
        for _ in 0..MAP_READS_MAX {
            let mut top = shared.lock();
            match top.allocate(asize, copy, &other, self.ahead(txg)) {
                Ok(start) => return Some(Dva::new(vdev, start?, asize)),
                Err(map) => {
                    let source = self.map_source();
                    drop(top);
                    let read = self.read_map(&map, source);
                    shared.lock().take_read(&map, read);
                }
            }
        }
        None
    }

    /// Why there was no space.
    fn refusal(&self, request: &AllocationRequest) -> NoSpace {
        let members = class_order(request.class)
            .iter()
            .flat_map(|class| self.members(*class));
        let available: u64 = members.map(|top| top.lock().available()).sum();
        match available >= request.size {
            true => NoSpace::Contiguous { size: request.size },
            false => NoSpace::Full,
        }
    }

    fn undo_all(&self, dvas: &[Dva]) {
        for dva in dvas {
            let range = dva.offset()..dva.offset() + dva.asize();
            if let Some(top) = self.top(dva.vdev())
                && let Err(conflict) = top.lock().undo(range)
            {
                self.note_conflict(dva.vdev(), conflict);
            }
        }
    }
}

impl Space {
    /// Whether a class other than the log class has space for a request and for what must stay
    /// free: for a log, the data that its group has to write, and half of the slop space.
    ///
    /// If a log used all space, its group could not be written and the pool would be suspended.
    fn leaves_enough(&self, class: AllocationClass, txg: Txg, request: &AllocationRequest) -> bool {
        let Some(leaves) = request.leaves else {
            return true;
        };
        let shape = self.vdevs.shape();
        let wanted = leaves.saturating_add(request.size);
        let (mut size, mut available, mut needed) = (0_u64, 0_u64, 0_u64);
        for top in self.members(class) {
            let top = top.lock();
            size = size.saturating_add(top.size());
            available = available.saturating_add(top.available());
            // With parity; the vdev with the most overhead counts.
            let stored = shape.asize(top.vdev, request.size.max(1), txg);
            let stored = u128::from(stored.unwrap_or(request.size));
            let stored = u128::from(wanted) * stored / u128::from(request.size.max(1));
            needed = needed.max(u64::try_from(stored).unwrap_or(u64::MAX));
        }
        available >= needed.saturating_add(cenote_dsl::slop(size, 0) / 2)
    }

    fn try_allocate(&self, txg: Txg, request: &AllocationRequest) -> Result<Allocation, NoSpace> {
        let mut best: Vec<Dva> = Vec::new();
        for class in class_order(request.class) {
            if *class != AllocationClass::Log && !self.leaves_enough(*class, txg, request) {
                continue;
            }
            let dvas = self.allocate_in(*class, txg, request);
            let (keep, drop) = match dvas.len() > best.len() {
                true => (dvas, best),
                false => (best, dvas),
            };
            self.undo_all(&drop);
            best = keep;
            if best.len() == usize::from(request.copies) {
                return Ok(Allocation::new(&best));
            }
        }
        // Fewer copies than wanted are better than none (format/1d.7), but the members of a
        // gang are counted copy by copy.
        if best.is_empty() || request.for_gang {
            self.undo_all(&best);
            return Err(self.refusal(request));
        }
        Ok(Allocation::new(&best))
    }
}

impl Allocator for Space {
    fn allocate(&self, txg: Txg, request: AllocationRequest) -> Result<Allocation, NoSpace> {
        assert!(
            (1..=3).contains(&request.copies),
            "a block has one to three copies"
        );
        let mut tries = 0;
        loop {
            match self.try_allocate(txg, &request) {
                // What is held is free: it comes back soon.
                Err(_) if tries < HOLD_WAITS_MAX && self.range_holds.wait() => tries += 1,
                done => return done,
            }
        }
    }

    fn undo(&self, _txg: Txg, allocation: &Allocation) {
        self.undo_all(allocation.dvas());
    }
}
