//! The metaslabs of one top-level vdev, and the choice among them.
//!
//! Each copy of a block has a metaslab of its own that it allocates from until that can serve no
//! more: so that blocks written together lie together, and the copies of one block far apart.

use super::free_space::FreeSpace;
use super::metaslab::Metaslab;
use cenote_base::{ObjectId, Txg, VdevId};
use cenote_io::RangeConflict;
use cenote_ondisk::block_pointer::DVAS_PER_BLOCK_POINTER;
use cenote_vdev::AllocationClass;
use std::collections::BTreeSet;
use std::ops::Range;

/// Copies on the same vdev are at least this part of it apart, if possible (format/1d.7).
const COPY_DISTANCE_SHIFT: u32 = 3;
/// Free ranges that the loaded metaslabs of a vdev may have before some are forgotten: 64 MiB.
const RANGES_MAX: usize = 1 << 20;

/// A space map that has to be read before more is known of a metaslab's free space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapToRead {
    /// The metaslab.
    pub index: usize,
    /// The map as of the last synced txg.
    pub base: ObjectId,
    /// Where the metaslab's space is.
    pub range: Range<u64>,
    /// Entries are in units of 2^`ashift` bytes.
    pub ashift: u32,
    /// Which state of the map this is.
    epoch: u64,
}

/// What reading a map gave.
#[derive(Debug)]
pub(crate) enum MapRead {
    /// What is free by it.
    Free(FreeSpace),
    /// It cannot be read, or contradicts itself.
    Damaged,
    /// It cannot be read, and was replaced meanwhile.
    Outdated,
}

/// What is known of a metaslab's free space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// All.
    Free,
    /// Nothing, and it stays so.
    Damaged,
    /// This is to be read first.
    After(MapToRead),
}

/// A metaslab that is being copied to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avoided {
    pub index: usize,
    /// Something was allocated there all the same.
    pub is_used: bool,
}

/// The space of a top-level vdev.
#[derive(Debug)]
pub(crate) struct TopSpace {
    pub vdev: VdevId,
    pub class: AllocationClass,
    pub ashift: u32,
    pub metaslab_shift: u32,
    /// Devices that a write of several blocks is spread over.
    pub width: u64,
    /// No new allocations.
    pub is_closed: bool,
    /// The metaslab that is to be left alone if there is room elsewhere.
    pub avoided: Option<Avoided>,
    pub metaslabs: Vec<Metaslab>,
    active: [Option<usize>; DVAS_PER_BLOCK_POINTER],
    /// Metaslabs with changes to record.
    pub dirty: BTreeSet<usize>,
    /// Metaslabs with space for groups that are not being synced yet.
    ahead: BTreeSet<usize>,
    /// Metaslabs that later txgs change something for.
    pub waiting: BTreeSet<usize>,
    /// Blocks freed that only the checkpoint refers to, not recorded yet.
    pub checkpointed: Vec<Range<u64>>,
    /// Bytes that only the checkpoint refers to.
    pub checkpoint_bytes: u64,
    /// The table of the metaslabs' maps.
    pub array: Option<ObjectId>,
    /// The vdev's ZAP.
    pub top_zap: Option<ObjectId>,
    /// The table that says up to which txg each map was brought.
    pub unflushed: Option<ObjectId>,
}

impl TopSpace {
    pub fn new(
        vdev: VdevId,
        class: AllocationClass,
        ashift: u32,
        metaslab_shift: u32,
        metaslabs: Vec<Metaslab>,
    ) -> Self {
        Self {
            vdev,
            class,
            ashift,
            metaslab_shift,
            width: 1,
            is_closed: false,
            avoided: None,
            metaslabs,
            active: [None; DVAS_PER_BLOCK_POINTER],
            dirty: BTreeSet::new(),
            ahead: BTreeSet::new(),
            waiting: BTreeSet::new(),
            checkpointed: Vec::new(),
            checkpoint_bytes: 0,
            array: None,
            top_zap: None,
            unflushed: None,
        }
    }

    /// Bytes of all metaslabs.
    pub fn size(&self) -> u64 {
        self.metaslabs.iter().map(Metaslab::size).sum()
    }

    /// Allocated bytes.
    pub fn allocated(&self) -> u64 {
        self.metaslabs.iter().map(Metaslab::allocated).sum()
    }

    /// Bytes that could be handed out now, in pieces.
    pub fn available(&self) -> u64 {
        self.metaslabs.iter().map(Metaslab::available).sum()
    }

    /// Bytes that wait for later txgs.
    pub fn deferred(&self) -> u64 {
        self.metaslabs.iter().map(Metaslab::deferred_bytes).sum()
    }

    /// The metaslab that all of `range` lies in.
    pub fn index_of(&self, range: &Range<u64>) -> Result<usize, RangeConflict> {
        let conflict = || RangeConflict {
            range: range.clone(),
        };
        // What is no multiple of the unit of allocation no map could say.
        let unit = 1_u64.checked_shl(self.ashift).unwrap_or(u64::MAX);
        if !range.start.is_multiple_of(unit) || !range.end.is_multiple_of(unit) {
            return Err(conflict());
        }
        let plain = range.start.checked_shr(self.metaslab_shift).unwrap_or(0);
        let index = usize::try_from(plain).map_err(|_| conflict())?;
        // The metaslabs of draid vdevs begin a little later than their number says.
        let candidates = [Some(index), index.checked_sub(1)];
        let holds = |index: &usize| {
            let metaslab = self.metaslabs.get(*index);
            metaslab.is_some_and(|m| m.range.start <= range.start && range.end <= m.range.end)
        };
        candidates
            .into_iter()
            .flatten()
            .find(holds)
            .ok_or_else(conflict)
    }

    /// The sync of `txg` begins: what was allocated for it ahead is to be recorded.
    pub fn begin_group(&mut self, txg: Txg) -> Result<(), RangeConflict> {
        for index in std::mem::take(&mut self.ahead) {
            let metaslab = &mut self.metaslabs[index];
            if metaslab.begin_group(txg)? {
                self.dirty.insert(index);
            }
            if metaslab.has_ahead() {
                self.ahead.insert(index);
            }
        }
        Ok(())
    }

    /// Takes `size` bytes in one piece for copy `copy` of a block, away from its `other` copies:
    /// `ahead` of the sync of a group, or for the one being synced.
    ///
    /// An error is a map that is to be read first; then this is called again.
    pub fn allocate(
        &mut self,
        size: u64,
        copy: usize,
        other: &[Range<u64>],
        ahead: Option<Txg>,
    ) -> Result<Option<u64>, MapToRead> {
        if let Some(index) = self.active[copy]
            && !self.is_avoided(index)
            && self.is_far(index, other)
            && let Some(start) = self.allocate_from(index, size, other, ahead)?
        {
            return Ok(Some(start));
        }
        for keep_distance in [true, false] {
            for index in self.candidates(size) {
                let is_taken =
                    self.active.iter().enumerate().any(|(slot, active)| {
                        slot != copy && *active == Some(index) && keep_distance
                    });
                if keep_distance && (is_taken || !self.is_far(index, other)) {
                    continue;
                }
                if let Some(start) = self.allocate_from(index, size, other, ahead)? {
                    self.active[copy] = Some(index);
                    return Ok(Some(start));
                }
            }
        }
        Ok(None)
    }

    fn is_avoided(&self, index: usize) -> bool {
        self.avoided.is_some_and(|avoided| avoided.index == index)
    }

    /// Whether a metaslab is far from the other copies.
    fn is_far(&self, index: usize, other: &[Range<u64>]) -> bool {
        let range = &self.metaslabs[index].range;
        let last = self.metaslabs.last().map_or(0, |last| last.range.end);
        let distance = last >> COPY_DISTANCE_SHIFT;
        other.iter().all(|other| {
            let apart = range.start.abs_diff(other.start);
            apart >= distance.min(1 << self.metaslab_shift) && !overlap(range, other)
        })
    }

    /// Metaslabs that may have `size` bytes in one piece, best first.
    fn candidates(&self, size: u64) -> Vec<usize> {
        let mut found: Vec<(u32, bool, usize)> = Vec::new();
        for (index, metaslab) in self.metaslabs.iter().enumerate() {
            let weight = metaslab.weight(self.ashift);
            // What a histogram says may be old: metaslabs that are not loaded get a chance.
            let has_room = match metaslab.free {
                Some(_) => weight >= size,
                None => !metaslab.is_damaged && metaslab.available() >= size,
            };
            if has_room {
                let log2 = weight.checked_ilog2().unwrap_or(0);
                found.push((log2, metaslab.free.is_some(), index));
            }
        }
        found.sort_by_key(|(log2, loaded, index)| {
            (self.is_avoided(*index), u32::MAX - log2, !loaded, *index)
        });
        found.into_iter().map(|(_, _, index)| index).collect()
    }

    fn allocate_from(
        &mut self,
        index: usize,
        size: u64,
        other: &[Range<u64>],
        ahead: Option<Txg>,
    ) -> Result<Option<u64>, MapToRead> {
        match self.known(index) {
            Known::Free => {}
            Known::Damaged => return Ok(None),
            Known::After(map) => return Err(map),
        }
        let metaslab = &mut self.metaslabs[index];
        let start = match ahead {
            Some(txg) => metaslab.allocate_ahead(txg, size, other),
            None => metaslab.allocate(size, other),
        };
        let Some(start) = start else {
            return Ok(None);
        };
        self.assert_in_units(start, size);
        match ahead {
            Some(_) => self.ahead.insert(index),
            None => self.dirty.insert(index),
        };
        if let Some(avoided) = self.avoided.as_mut().filter(|a| a.index == index) {
            avoided.is_used = true;
        }
        Ok(Some(start))
    }

    /// Asserts that space that is handed out consists of units of allocation. [`Self::index_of`]
    /// refuses other ranges of claims and frees, and the maps' entries cannot express them.
    fn assert_in_units(&self, start: u64, size: u64) {
        let unit = 1_u64 << self.ashift;
        assert!(
            start.is_multiple_of(unit) && size.is_multiple_of(unit),
            "{size} bytes at {start:x} of {:?} are not in units of {unit}",
            self.vdev
        );
    }

    /// What is known of a metaslab's free ranges, which are worked out if that takes no reading.
    pub fn known(&mut self, index: usize) -> Known {
        let metaslab = &self.metaslabs[index];
        match (metaslab.is_damaged, &metaslab.free, metaslab.base) {
            (true, ..) => Known::Damaged,
            (false, Some(_), _) => Known::Free,
            (false, None, Some(base)) => Known::After(MapToRead {
                index,
                base,
                range: metaslab.range.clone(),
                ashift: self.ashift,
                epoch: metaslab.epoch,
            }),
            (false, None, None) => {
                let free = FreeSpace::whole(metaslab.range.clone());
                self.load(index, free)
            }
        }
    }

    /// Takes over what reading a map gave, if the metaslab still needs it.
    pub fn take_read(&mut self, map: &MapToRead, read: MapRead) -> Known {
        let Some(metaslab) = self.metaslabs.get_mut(map.index) else {
            return Known::Damaged;
        };
        if metaslab.free.is_none() && !metaslab.is_damaged && metaslab.epoch == map.epoch {
            match read {
                MapRead::Free(free) => return self.load(map.index, free),
                MapRead::Damaged => metaslab.is_damaged = true,
                MapRead::Outdated => {}
            }
        }
        self.known(map.index)
    }

    fn load(&mut self, index: usize, free: FreeSpace) -> Known {
        self.forget_some(index);
        let metaslab = &mut self.metaslabs[index];
        match metaslab.load(free) {
            Ok(()) => Known::Free,
            Err(_) => {
                metaslab.free = None;
                metaslab.is_damaged = true;
                Known::Damaged
            }
        }
    }

    /// Keeps memory bounded: drops free ranges of metaslabs that are not allocated from.
    fn forget_some(&mut self, keep: usize) {
        let ranges = |metaslab: &Metaslab| metaslab.free.as_ref().map_or(0, |f| f.range_count());
        let mut total: usize = self.metaslabs.iter().map(ranges).sum();
        for (index, metaslab) in self.metaslabs.iter_mut().enumerate() {
            if total <= RANGES_MAX {
                return;
            }
            if index != keep && !self.active.contains(&Some(index)) {
                total -= ranges(metaslab);
                metaslab.free = None;
            }
        }
    }

    /// Releases a range that was never written to.
    pub fn undo(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        let index = self.index_of(&range)?;
        self.metaslabs[index].undo(range)
    }

    /// Marks space as allocated that something on disk refers to.
    pub fn claim(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        let index = self.index_of(&range)?;
        self.metaslabs[index].claim(range)?;
        self.dirty.insert(index);
        Ok(())
    }

    /// Frees a block's space.
    pub fn free(&mut self, range: Range<u64>) -> Result<(), RangeConflict> {
        let index = self.index_of(&range)?;
        self.metaslabs[index].release(range)?;
        self.dirty.insert(index);
        self.waiting.insert(index);
        Ok(())
    }

    /// Calls `each` with the space that [`Self::committed`] lets go.
    pub fn becoming_free(&self, mut each: impl FnMut(Range<u64>)) {
        for index in &self.waiting {
            self.metaslabs[*index].deferred[0]
                .iter()
                .for_each(&mut each);
        }
    }

    /// The txg is on disk. While something `is_held`, no freed space becomes free; what does, does
    /// so at this `moment`.
    pub fn committed(&mut self, is_held: bool, moment: u64) -> Result<(), RangeConflict> {
        let waiting = std::mem::take(&mut self.waiting);
        for index in waiting {
            self.metaslabs[index].committed(is_held, moment)?;
            if self.metaslabs[index].is_waiting() {
                self.waiting.insert(index);
            }
        }
        Ok(())
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes space where no map was ever recorded.
    fn take(top: &mut TopSpace, size: u64, copy: usize, other: &[Range<u64>]) -> Option<u64> {
        let taken = top.allocate(size, copy, other, None);
        taken.expect("no map is to be read")
    }

    fn top(metaslabs: u64) -> TopSpace {
        let range = |i: u64| i << 24..(i + 1) << 24;
        let metaslabs = (0..metaslabs)
            .map(|i| Metaslab::new(range(i), None))
            .collect();
        TopSpace::new(VdevId(0), AllocationClass::Normal, 12, 24, metaslabs)
    }

    #[test]
    fn odd_ranges_are_in_no_metaslab() {
        let top = top(2);
        assert_eq!(top.index_of(&(0x100_1000..0x100_2000)), Ok(1));
        for odd in [
            0x100_1000..0x100_1200,
            0xff_fe00..0x100_0000,
            0xff_f000..0x100_1000,
        ] {
            assert!(top.index_of(&odd).is_err(), "{odd:x?}");
        }
    }

    #[test]
    fn copies_are_apart() {
        let mut top = top(16);
        let mut copies: Vec<Range<u64>> = Vec::new();
        for copy in 0..3 {
            let start = take(&mut top, 8192, copy, &copies).expect("room");
            copies.push(start..start + 8192);
        }
        for (i, a) in copies.iter().enumerate() {
            for b in &copies[..i] {
                assert!(a.start.abs_diff(b.start) >= 1 << 24, "{copies:?}");
            }
        }
        let next = take(&mut top, 8192, 0, &[]).expect("room");
        assert_eq!(next, copies[0].end, "blocks lie one after another");
    }

    #[test]
    fn a_single_metaslab_holds_all_copies_if_it_must() {
        let mut top = top(1);
        let mut copies: Vec<Range<u64>> = Vec::new();
        for copy in 0..3 {
            let start = take(&mut top, 8192, copy, &copies).expect("room");
            assert!(copies.iter().all(|c| !overlap(c, &(start..start + 8192))));
            copies.push(start..start + 8192);
        }
    }

    #[test]
    fn everything_can_be_used_and_no_more() {
        let mut top = top(4);
        let mut taken = Vec::new();
        while let Some(start) = take(&mut top, 1 << 20, 0, &[]) {
            taken.push(start..start + (1 << 20));
        }
        assert_eq!(taken.len(), 64);
        assert_eq!(top.available(), 0);
        for range in taken {
            top.free(range).expect("allocated");
        }
        assert_eq!(top.deferred(), 64 << 20);
        assert_eq!(take(&mut top, 4096, 0, &[]), None, "not in the same txg");
        for _ in 0..=crate::allocation::metaslab::DEFER_TXGS {
            top.metaslabs.iter_mut().for_each(|m| {
                m.take_pending().expect("consistent");
            });
            top.committed(false, 1).expect("consistent");
        }
        assert!(take(&mut top, 16 << 20, 0, &[]).is_some());
    }

    /// The lock of the vdev was held while a map was read: allocations, frees and queries of
    /// figures had to wait for the device. Now the map may be outdated when it arrives.
    #[test]
    fn a_map_that_changed_while_it_was_read_is_read_again() {
        let mut top = top(1);
        top.metaslabs[0].map = Some(ObjectId(7));
        top.metaslabs[0].base = Some(ObjectId(7));
        let Err(map) = top.allocate(4096, 0, &[], None) else {
            panic!("nothing is known before the map is read");
        };
        assert_eq!((map.index, map.base), (0, ObjectId(7)));
        let read = || MapRead::Free(FreeSpace::whole(map.range.clone()));
        // A txg that changed the map was synced in between.
        top.waiting.insert(0);
        top.committed(false, 1).expect("consistent");
        let Known::After(again) = top.take_read(&map, read()) else {
            panic!("what was read is of before");
        };
        assert_ne!(again, map);
        assert!(matches!(
            top.take_read(&again, MapRead::Outdated),
            Known::After(_)
        ));
        assert_eq!(top.take_read(&again, read()), Known::Free);
        assert!(take(&mut top, 4096, 0, &[]).is_some());
        // The second reader finds it loaded, whatever it read itself.
        assert_eq!(top.take_read(&again, MapRead::Damaged), Known::Free);
    }
}
