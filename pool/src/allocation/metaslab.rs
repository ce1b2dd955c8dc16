//! One metaslab: its allocations on disk, the changes since, and its free ranges.
//!
//! ```text
//! space map as of the last synced txg
//!   + `flushed`    appended to the map in the txg being synced
//!   + `delta`      in the pool-wide logs only
//!   + `allocating`, `freeing`   of the txg being synced, not recorded anywhere yet
//!   + `ahead`        of txgs that are still open: log blocks
//! ```
//!
//! The free ranges are computed when the metaslab is first needed, by reading its map as of the
//! last synced txg: so this can happen during a sync. The map is read without the vdev's lock, and
//! the changes in memory are added under it. If another txg was synced meanwhile that changed the
//! map, it is read again. Space freed in a txg is not reused until two more have been synced
//! (format/1d.5): these *deferred* ranges are free on disk and allocated in memory.
//!
//! *Invariant:* each byte of a loaded metaslab is free, held back, waiting for later txgs or
//! allocated. The sets of ranges count the first three, and the headers of the map count the last
//! one. [`Metaslab::load`] refuses a map that contradicts its header, so from then on a difference
//! is our own fault ([`Metaslab::assert_counted`]).

use super::free_space::FreeSpace;
use cenote_base::{ObjectId, Txg};
use cenote_io::{Delta, RangeConflict, RangeSet, without};
use cenote_ondisk::space_map::{Action, HISTOGRAM_BUCKETS, SpaceMapHeader};
use std::collections::BTreeMap;
use std::ops::Range;

/// The txgs that freed space waits for.
pub(crate) const DEFER_TXGS: usize = 2;

/// A metaslab.
#[derive(Debug)]
pub(crate) struct Metaslab {
    pub range: Range<u64>,
    /// The space map; `None` while nothing was ever recorded.
    pub map: Option<ObjectId>,
    /// The space map as of the last synced txg.
    pub base: Option<ObjectId>,
    /// The map's header with everything that was appended in the txg being synced.
    pub header: SpaceMapHeader,
    /// Since when changes are only in the logs; 0 for never.
    pub unflushed_txg: Txg,
    pub delta: Delta,
    pub flushed: Delta,
    pub free: Option<FreeSpace>,
    /// The map cannot be read, or contradicts itself: nothing is allocated here.
    pub is_damaged: bool,
    pub allocating: RangeSet,
    pub freeing: RangeSet,
    /// Allocated for groups that are not being synced yet. The maps of earlier groups must not
    /// contain it: if the pool crashes in one of these groups, the claim of its intent logs marks
    /// the space as allocated.
    ahead: BTreeMap<Txg, RangeSet>,
    /// Freed in the txg being synced, and recorded or never to be.
    pub freed: RangeSet,
    pub deferred: [RangeSet; DEFER_TXGS],
    /// Free, but not to be handed out just now.
    pub held: RangeSet,
    /// Allocated, and being repaired: not to be handed out even if it is freed.
    repairing: Vec<Range<u64>>,
    /// The moment when freed space became available last.
    renewed: u64,
    /// How often the map changed on disk since the pool was opened.
    pub epoch: u64,
}

impl Metaslab {
    /// A metaslab of `range` that is free except for the allocations in its map.
    pub fn new(range: Range<u64>, map: Option<(ObjectId, SpaceMapHeader)>) -> Self {
        let empty = SpaceMapHeader {
            object: ObjectId(0),
            length: 0,
            allocated: 0,
            histogram: None,
        };
        let (map, header) = match map {
            Some((map, header)) => (Some(map), header),
            None => (None, empty),
        };
        Self {
            range,
            map,
            base: map,
            header,
            unflushed_txg: Txg(0),
            delta: Delta::default(),
            flushed: Delta::default(),
            free: None,
            is_damaged: false,
            allocating: RangeSet::default(),
            freeing: RangeSet::default(),
            ahead: BTreeMap::new(),
            freed: RangeSet::default(),
            deferred: Default::default(),
            held: RangeSet::default(),
            repairing: Vec::new(),
            renewed: 0,
            epoch: 0,
        }
    }

    /// Holds back the first free space behind `from`, at most `length` bytes of it; the metaslab
    /// must be loaded.
    pub fn hold(&mut self, from: u64, length: u64) -> Option<Range<u64>> {
        let free = self.free.as_mut()?;
        let found = free.next_from(from)?;
        let start = found.start.max(from);
        let range = start..found.end.min(start.saturating_add(length));
        free.take(&range);
        self.held
            .add(range.clone())
            .expect("free space is not held");
        Some(range)
    }

    /// Ends what [`Self::hold`] began.
    pub fn release_hold(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        self.held.remove(range.clone())?;
        match &mut self.free {
            Some(free) => free.add(range),
            None => Ok(()),
        }
    }

    /// Keeps an allocated range from being handed out, even if it is freed; false if it has been
    /// freed, or may have been handed out since the moment `since`.
    pub fn begin_repair(&mut self, range: Range<u64>, since: u64) -> bool {
        if self.renewed > since || self.is_unused(&range) {
            return false;
        }
        self.repairing.push(range);
        true
    }

    /// Whether some of a range is known to be free, or to become so.
    pub fn is_unused(&self, range: &Range<u64>) -> bool {
        let pending = [&self.freeing, &self.freed, &self.held];
        let mut unused = pending.into_iter().chain(&self.deferred);
        let is_free = self.free.as_ref().is_some_and(|free| free.overlaps(range));
        is_free || unused.any(|set| set.overlaps(range))
    }

    /// Ends what [`Self::begin_repair`] began.
    pub fn end_repair(&mut self, range: &Range<u64>) {
        if let Some(index) = self.repairing.iter().position(|known| known == range) {
            self.repairing.swap_remove(index);
        }
    }

    pub fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Allocated bytes, deferred ones not counted.
    pub fn allocated(&self) -> u64 {
        // A header may say anything, and the sums over all metaslabs must not overflow.
        let counted = u64::try_from(self.counted()).unwrap_or(0);
        counted.min(self.size())
    }

    /// The same, as the header counts them.
    fn counted(&self) -> i64 {
        let ahead: u64 = self.ahead.values().map(RangeSet::bytes).sum();
        let taken = signed(self.allocating.bytes()).saturating_add(signed(ahead));
        let pending = taken.saturating_sub(signed(self.freeing.bytes()));
        let all = self.header.allocated.saturating_add(self.delta.balance());
        all.saturating_add(pending)
    }

    /// Whether the ranges of a loaded metaslab agree with what its header counts.
    fn is_counted(&self) -> bool {
        let Some(free) = self.free.as_ref().map(FreeSpace::bytes) else {
            return true;
        };
        let unused = signed(free + self.held.bytes() + self.deferred_bytes());
        self.counted().checked_add(unused) == Some(signed(self.size()))
    }

    /// Asserts that each byte is counted once: see the invariant of this module.
    fn assert_counted(&self) {
        assert!(
            self.is_counted(),
            "the metaslab at {:x} has {:?} bytes free and {} held, and {} of {} available",
            self.range.start,
            self.free.as_ref().map(FreeSpace::bytes),
            self.held.bytes(),
            self.available(),
            self.size(),
        );
    }

    /// Asserts that a range that is handed out lies in the metaslab, and is not allocated, freed
    /// or held elsewhere. In release builds the sets that it joins and leaves check most of this.
    fn assert_can_be_taken(&self, start: u64, size: u64) {
        assert!(size > 0, "nothing is allocated");
        let range = start..start + size;
        let is_inside = self.range.start <= range.start && range.end <= self.range.end;
        assert!(is_inside, "space is allocated in its metaslab");
        let mut others = self.unrecorded().chain([&self.freeing]);
        debug_assert!(
            others.all(|set| !set.overlaps(&range)),
            "space is allocated once, and freed space waits for its txgs"
        );
    }

    /// Bytes that were freed and cannot be used yet.
    pub fn deferred_bytes(&self) -> u64 {
        let waiting: u64 = self.deferred.iter().map(RangeSet::bytes).sum();
        waiting + self.freed.bytes() + self.freeing.bytes()
    }

    /// Bytes that could be handed out, in pieces.
    pub fn available(&self) -> u64 {
        let taken = self.allocated().saturating_add(self.deferred_bytes());
        self.size().saturating_sub(taken)
    }

    /// Whether there is anything to record.
    pub fn is_dirty(&self) -> bool {
        !self.allocating.is_empty() || !self.freeing.is_empty()
    }

    /// About how long the longest free range is: what to choose a metaslab by.
    pub fn weight(&self, ashift: u32) -> u64 {
        if self.is_damaged {
            return 0;
        }
        if let Some(free) = &self.free {
            return free.largest();
        }
        let available = self.available();
        let longest = |histogram: &[u64; HISTOGRAM_BUCKETS]| {
            let bucket = histogram.iter().rposition(|count| *count > 0)?;
            Some(1 << (bucket as u32 + ashift).min(63))
        };
        match &self.header.histogram {
            Some(histogram) if self.map.is_some() => longest(histogram).unwrap_or(0).min(available),
            _ => available,
        }
    }

    /// What a map of `whole` says is free. `entries` calls back with each of its entries, in order.
    pub fn free_by_map(
        whole: Range<u64>,
        entries: impl FnOnce(&mut dyn FnMut(Action, Range<u64>)),
    ) -> Result<FreeSpace, RangeConflict> {
        let mut free = FreeSpace::whole(whole.clone());
        let mut failure = None;
        entries(&mut |action, range| {
            if range.start < whole.start || range.end > whole.end {
                failure.get_or_insert(RangeConflict { range });
                return;
            }
            let done = match action {
                Action::Alloc => free.remove(range),
                Action::Free => free.add(range),
            };
            if let Err(conflict) = done {
                failure.get_or_insert(conflict);
            }
        });
        failure.map_or(Ok(free), Err)
    }

    /// Works out the free ranges from what is free by the map as of the last synced txg.
    pub fn load(&mut self, mut free: FreeSpace) -> Result<(), RangeConflict> {
        for delta in [&self.flushed, &self.delta] {
            for range in delta.allocated.iter() {
                free.remove(range)?;
            }
            for range in delta.freed.iter() {
                free.add(range)?;
            }
        }
        for range in self.unrecorded().flat_map(RangeSet::iter) {
            free.take(&range);
        }
        // Freed before the map was read, which does not have it allocated.
        if let Some(range) = self.freeing.iter().find(|range| free.overlaps(range)) {
            return Err(RangeConflict { range });
        }
        self.free = Some(free);
        // The pair of `assert_counted`: what was read contradicts what its header says.
        match self.is_counted() {
            true => Ok(()),
            false => Err(RangeConflict {
                range: self.range.clone(),
            }),
        }
    }

    /// What cannot be handed out and is free as far as any map says.
    fn unrecorded(&self) -> impl Iterator<Item = &RangeSet> {
        let others = [&self.freed, &self.allocating, &self.held];
        self.deferred
            .iter()
            .chain(others)
            .chain(self.ahead.values())
    }

    /// Takes space in one piece for a group that is not being synced yet; the metaslab must be
    /// loaded.
    pub fn allocate_ahead(&mut self, txg: Txg, size: u64, avoid: &[Range<u64>]) -> Option<u64> {
        let start = self.free.as_mut()?.allocate(size, avoid)?;
        self.assert_can_be_taken(start, size);
        let ahead = self.ahead.entry(txg).or_default();
        ahead
            .add(start..start + size)
            .expect("free space is not allocated");
        Some(start)
    }

    /// Whether there is space for groups that are not being synced yet.
    pub fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// The sync of `txg` begins: what was allocated for it ahead is to be recorded. Says whether
    /// that is anything.
    pub fn begin_group(&mut self, txg: Txg) -> Result<bool, RangeConflict> {
        let later = self.ahead.split_off(&Txg(txg.0.saturating_add(1)));
        let due = std::mem::replace(&mut self.ahead, later);
        for range in due.values().flat_map(RangeSet::iter) {
            self.allocating.add(range)?;
        }
        Ok(!due.is_empty())
    }

    /// Takes space in one piece; the metaslab must be loaded.
    pub fn allocate(&mut self, size: u64, avoid: &[Range<u64>]) -> Option<u64> {
        let start = self.free.as_mut()?.allocate(size, avoid)?;
        self.assert_can_be_taken(start, size);
        self.allocating
            .add(start..start + size)
            .expect("free space is not allocated");
        Some(start)
    }

    /// Releases a range that was never written to.
    pub fn undo(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        let mut ahead = self.ahead.values_mut();
        match ahead.find(|ahead| ahead.contains(&range)) {
            Some(ahead) => ahead.remove(range.clone())?,
            None => self.allocating.remove(range.clone())?,
        };
        match &mut self.free {
            Some(free) => free.add(range).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Marks space as allocated that something on disk already refers to.
    pub fn claim(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        if let Some(free) = &mut self.free {
            free.remove(range.clone())?;
        }
        self.allocating.add(range).map(|_| ())
    }

    /// Frees a block's space.
    pub fn release(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        if self.allocating.contains(&range) {
            self.allocating.remove(range.clone())?;
            // It is not on disk, but may have been written to in this txg.
            self.freed.add(range)?;
            return Ok(());
        }
        let overlaps = |set: &RangeSet| set.overlaps(&range);
        let is_free = self.free.as_ref().is_some_and(|free| free.overlaps(&range));
        if is_free
            || overlaps(&self.freed)
            || overlaps(&self.held)
            || self.deferred.iter().any(overlaps)
            || self.ahead.values().any(overlaps)
        {
            return Err(RangeConflict { range });
        }
        self.freeing.add(range).map(|_| ())
    }

    /// The changes to record, in order; they count as recorded afterwards.
    pub fn take_pending(&mut self) -> Result<Delta, RangeConflict> {
        let allocated = std::mem::take(&mut self.allocating);
        let freed = std::mem::take(&mut self.freeing);
        for range in freed.iter() {
            self.freed.add(range)?;
        }
        Ok(Delta { allocated, freed })
    }

    /// The txg is on disk: at this `moment` older frees become available, unless something
    /// `is_held` or they are under repair.
    pub fn committed(&mut self, is_held: bool, moment: u64) -> Result<(), RangeConflict> {
        assert!(
            !self.is_dirty(),
            "everything was recorded before the txg ended"
        );
        self.flushed = Delta::default();
        self.base = self.map;
        self.epoch += 1;
        let freed = std::mem::take(&mut self.freed);
        if is_held {
            for range in freed.iter() {
                self.deferred[DEFER_TXGS - 1].add(range)?;
            }
            self.assert_counted();
            return Ok(());
        }
        let [mut oldest, mut newer] = std::mem::take(&mut self.deferred);
        for part in self.repairing.iter().flat_map(|range| oldest.take(range)) {
            newer.add(part)?;
        }
        if !oldest.is_empty() {
            self.renewed = moment;
        }
        if let Some(free) = &mut self.free {
            for range in oldest.iter() {
                free.add(range)?;
            }
        }
        self.deferred = [newer, freed];
        self.assert_counted();
        Ok(())
    }

    /// Whether space waits for later txgs, so that [`Self::committed`] has something to do.
    pub fn is_waiting(&self) -> bool {
        let waits = self.deferred.iter().any(|set| !set.is_empty());
        waits || self.base != self.map || !self.freed.is_empty() || !self.flushed.is_empty()
    }

    /// The ranges that are recorded as allocated, or will be by changes taken before now; `None`
    /// unless the metaslab is loaded.
    pub fn recorded_ranges(&self) -> Option<Vec<Range<u64>>> {
        let mut free = self.free.clone()?;
        for range in self.unrecorded().flat_map(RangeSet::iter) {
            free.add(range).ok()?;
        }
        let free: Vec<_> = free.iter().collect();
        Some(without(&self.range, &free))
    }

    /// Counts of free ranges by size, with deferred ones, as in the map's header.
    pub fn histogram(&self, ashift: u32) -> Option<[u64; HISTOGRAM_BUCKETS]> {
        let free = self.free.as_ref()?;
        let mut histogram = [0; HISTOGRAM_BUCKETS];
        let held = self.deferred.iter().chain([&self.freed, &self.held]);
        let held = held.chain(self.ahead.values());
        for range in free.iter().chain(held.flat_map(RangeSet::iter)) {
            count_range(&mut histogram, range.end - range.start, ashift);
        }
        Some(histogram)
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Counts a free range of `length` bytes; what is too long for the last bucket counts several
/// times there (format/1d.2).
pub(crate) fn count_range(histogram: &mut [u64; HISTOGRAM_BUCKETS], length: u64, shift: u32) {
    let units = length >> shift;
    let Some(log2) = units.checked_ilog2() else {
        return;
    };
    let last = HISTOGRAM_BUCKETS as u32 - 1;
    let bucket = log2.min(last);
    histogram[bucket as usize] += 1 << (log2 - bucket).min(31);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded() -> Metaslab {
        let mut metaslab = Metaslab::new(0..1 << 20, None);
        let whole = FreeSpace::whole(metaslab.range.clone());
        metaslab.load(whole).expect("no map");
        metaslab
    }

    /// Takes the changes as the recorder does: the header knows them at once.
    fn record(metaslab: &mut Metaslab) -> Delta {
        let delta = metaslab.take_pending().expect("consistent");
        metaslab.header.allocated += delta.balance();
        delta
    }

    fn end_txg(metaslab: &mut Metaslab, moment: u64) {
        record(metaslab);
        metaslab.committed(false, moment).expect("consistent");
    }

    #[test]
    fn space_under_repair_is_not_handed_out() {
        let mut metaslab = loaded();
        let start = metaslab.allocate(4096, &[]).expect("empty");
        let other = metaslab.allocate(4096, &[]).expect("room");
        let (range, neighbour) = (start..start + 4096, other..other + 4096);
        end_txg(&mut metaslab, 1);
        assert!(metaslab.begin_repair(range.clone(), 1));
        metaslab.release(range.clone()).expect("allocated");
        metaslab.release(neighbour.clone()).expect("allocated");
        for moment in 2..9 {
            end_txg(&mut metaslab, moment);
        }
        let is_free = |metaslab: &Metaslab, range| {
            let free = metaslab.free.as_ref().expect("loaded");
            free.overlaps(range)
        };
        assert!(is_free(&metaslab, &neighbour) && !is_free(&metaslab, &range));
        assert!(!metaslab.begin_repair(range.clone(), 8), "it was freed");
        metaslab.end_repair(&range);
        end_txg(&mut metaslab, 9);
        assert!(is_free(&metaslab, &range), "held no longer than that");
    }

    #[test]
    fn space_that_may_have_been_handed_out_is_not_repaired() {
        let mut metaslab = loaded();
        let start = metaslab.allocate(4096, &[]).expect("empty");
        let (old, kept) = (start..start + 4096, start + 4096..start + 8192);
        assert_eq!(metaslab.allocate(4096, &[]), Some(kept.start));
        metaslab.allocate((1 << 20) - 8192, &[]).expect("the rest");
        end_txg(&mut metaslab, 1);
        metaslab.release(old.clone()).expect("allocated");
        for moment in 2..5 {
            end_txg(&mut metaslab, moment);
        }
        assert_eq!(metaslab.allocate(4096, &[]), Some(old.start), "used again");
        // A reader from before cannot know to which block it belongs.
        assert!(!metaslab.begin_repair(old.clone(), 3));
        assert!(!metaslab.begin_repair(kept.clone(), 3));
        assert!(metaslab.begin_repair(old, 4) && metaslab.begin_repair(kept, 4));
    }

    #[test]
    fn freed_space_waits_for_two_more_txgs() {
        let mut metaslab = loaded();
        let start = metaslab.allocate(4096, &[]).expect("empty");
        record(&mut metaslab);
        metaslab.committed(false, 1).expect("consistent");
        metaslab.release(start..start + 4096).expect("allocated");
        assert!(
            metaslab.release(start..start + 4096).is_err(),
            "freed twice"
        );
        let delta = record(&mut metaslab);
        assert_eq!(delta.freed.bytes(), 4096);
        assert_eq!(
            (metaslab.allocated(), metaslab.available()),
            (0, (1 << 20) - 4096)
        );
        for _ in 0..2 {
            metaslab.committed(false, 1).expect("consistent");
            assert_eq!(metaslab.deferred_bytes(), 4096);
            assert!(
                metaslab.release(start..start + 4096).is_err(),
                "still deferred"
            );
        }
        metaslab.committed(false, 1).expect("consistent");
        assert_eq!(metaslab.deferred_bytes(), 0);
        assert_eq!(metaslab.free.as_ref().map(FreeSpace::bytes), Some(1 << 20));
    }

    #[test]
    fn loading_in_the_midst_of_a_txg_gives_the_same_free_space() {
        let mut metaslab = loaded();
        let old = metaslab.allocate(8192, &[]).expect("room");
        let first = record(&mut metaslab);
        // As if flushed to the map and synced: the base that a load reads.
        metaslab.committed(false, 1).expect("consistent");
        metaslab.release(old..old + 4096).expect("allocated");
        let second = metaslab.take_pending().expect("consistent");
        for range in second.freed.iter() {
            metaslab.delta.free(range).expect("allocated");
        }
        metaslab.allocate(512, &[]).expect("room");
        let before: Vec<_> = metaslab
            .free
            .as_ref()
            .map(|f| f.iter().collect())
            .expect("loaded");
        metaslab.free = None;
        let base = Metaslab::free_by_map(metaslab.range.clone(), |each| {
            first.allocated.iter().for_each(|r| each(Action::Alloc, r));
        });
        metaslab
            .load(base.expect("a sound map"))
            .expect("consistent");
        let after: Vec<_> = metaslab
            .free
            .as_ref()
            .map(|f| f.iter().collect())
            .expect("loaded");
        assert_eq!(before, after);
    }

    #[test]
    fn what_is_allocated_ahead_is_recorded_with_its_own_group() {
        let mut metaslab = loaded();
        let log = metaslab.allocate_ahead(Txg(8), 4096, &[]).expect("empty");
        let range = log..log + 4096;
        let other = metaslab.allocate(8192, &[]).expect("room");
        assert_eq!(metaslab.allocated(), 12288);
        assert_eq!(metaslab.available(), (1 << 20) - 12288);
        assert!(!metaslab.begin_group(Txg(7)).expect("consistent"));
        let histogram = metaslab.histogram(12).expect("loaded");
        assert_eq!(histogram.iter().sum::<u64>(), 2, "free in the map of 7");
        assert_eq!(
            metaslab.recorded_ranges(),
            Some(vec![]),
            "neither is in the map before it is written"
        );
        let delta = record(&mut metaslab);
        assert!(
            delta
                .allocated
                .iter()
                .eq(std::iter::once(other..other + 8192)),
            "and the log block is not"
        );
        metaslab.committed(false, 1).expect("consistent");
        assert!(metaslab.release(range.clone()).is_err(), "not yet there");
        // Loading again must not allocate it a second time.
        metaslab.free = None;
        let mut free = FreeSpace::whole(metaslab.range.clone());
        let recorded = delta.allocated.iter();
        recorded.for_each(|range| free.remove(range).expect("free"));
        metaslab.load(free).expect("consistent");
        let free = metaslab.free.as_ref().expect("loaded");
        assert!(!free.overlaps(&range));
        assert!(metaslab.begin_group(Txg(8)).expect("consistent"));
        assert!(metaslab.is_dirty());
        assert_eq!(metaslab.allocated(), 12288, "counted once");
        let delta = record(&mut metaslab);
        assert!(delta.allocated.iter().eq(std::iter::once(range.clone())));
        metaslab.committed(false, 2).expect("consistent");
        metaslab.release(range).expect("allocated");
        assert_eq!(metaslab.allocated(), 8192);
    }

    #[test]
    fn what_was_allocated_ahead_can_be_given_back() {
        let mut metaslab = loaded();
        let start = metaslab.allocate_ahead(Txg(8), 4096, &[]).expect("empty");
        metaslab.undo(start..start + 4096).expect("not written");
        assert_eq!(metaslab.available(), 1 << 20);
        assert_eq!(metaslab.allocate(1 << 20, &[]), Some(0), "all of it");
    }

    #[test]
    fn maps_that_contradict_themselves_are_refused() {
        let twice = |each: &mut dyn FnMut(Action, Range<u64>)| {
            each(Action::Alloc, 0..512);
            each(Action::Alloc, 0..512);
        };
        assert!(Metaslab::free_by_map(0..4096, twice).is_err());
        let beyond = |each: &mut dyn FnMut(Action, Range<u64>)| each(Action::Alloc, 4000..5000);
        assert!(Metaslab::free_by_map(0..4096, beyond).is_err());
    }

    #[test]
    fn a_map_that_contradicts_its_header_is_not_used() {
        for allocated in [4096, -4096, i64::MAX] {
            let mut metaslab = Metaslab::new(0..1 << 20, None);
            metaslab.header.allocated = allocated;
            let whole = FreeSpace::whole(metaslab.range.clone());
            assert!(metaslab.load(whole).is_err(), "{allocated}");
            assert!(metaslab.allocated() <= metaslab.size());
        }
    }

    /// Such a block was freed while its metaslab was not loaded. Its space could have been handed
    /// out twice.
    #[test]
    fn what_was_freed_and_never_allocated_is_refused_at_the_latest_by_a_load() {
        let mut metaslab = Metaslab::new(0..1 << 20, None);
        metaslab.release(0..4096).expect("nothing is known yet");
        let whole = FreeSpace::whole(metaslab.range.clone());
        assert_eq!(metaslab.load(whole), Err(RangeConflict { range: 0..4096 }));
    }

    #[test]
    #[should_panic(expected = "allocated")]
    fn space_that_is_allocated_is_not_handed_out() {
        let mut metaslab = loaded();
        metaslab.allocating.add(0..4096).expect("empty");
        metaslab.allocate(4096, &[]);
    }

    #[test]
    #[should_panic(expected = "free and 0 held")]
    fn each_byte_is_counted_once() {
        let mut metaslab = loaded();
        metaslab.allocate(4096, &[]).expect("empty");
        // Recorded, and the header does not know it.
        metaslab.take_pending().expect("consistent");
        let _ = metaslab.committed(false, 1);
    }

    #[test]
    fn histograms_fold_what_is_too_long() {
        let mut histogram = [0; HISTOGRAM_BUCKETS];
        count_range(&mut histogram, 512, 9);
        count_range(&mut histogram, 1023, 9);
        count_range(&mut histogram, 1 << 20, 9);
        count_range(&mut histogram, 1 << 42, 9);
        assert_eq!((histogram[0], histogram[11], histogram[31]), (2, 1, 4));
    }
}
