//! Allocated space in which blocks are being repaired: see [`RepairSpace`].
//!
//! Space becomes fit to be handed out in one place only: when a group is on disk, what was freed
//! three groups before joins the free ranges ([`Space::committed`]). Each metaslab remembers when
//! that last happened to any of its space, which is fine enough: a repair that is refused for the
//! sake of a neighbour is made by the next reader, or by the scrub that asks once more.

use super::Space;
use cenote_base::Txg;
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_io::{RepairSpace, SpaceStamp};
use cenote_ondisk::Dva;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What repairs there are.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    state: Mutex<State, ranks::RepairSpace>,
    ended: Condvar,
    /// How often space became fit to be handed out.
    pub moment: AtomicU64,
    /// The last group that is on disk.
    pub committed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// No more are begun.
    is_over: bool,
}

fn range_of(place: &Dva) -> Range<u64> {
    place.offset()..place.offset().saturating_add(place.asize())
}

impl Space {
    /// Begins no more repairs.
    pub fn refuse_repairs(&self) {
        self.repairs.state.lock().is_over = true;
    }

    /// Blocks that were born in later groups are not repaired.
    pub fn repairable(&self) -> Txg {
        Txg(self.repairs.committed.load(Ordering::Acquire))
    }

    /// Begins no more repairs, and returns when none is under way.
    pub fn end_repairs(&self) {
        self.refuse_repairs();
        let state = self.repairs.state.lock();
        let ended = self.repairs.ended.wait_while(state, |s| s.under_way > 0);
        drop(ended);
    }

    fn hold_place(&self, place: &Dva, stamp: SpaceStamp) -> bool {
        let Some(top) = self.top(place.vdev()) else {
            return false;
        };
        let mut top = top.lock();
        let range = range_of(place);
        let Ok(index) = top.index_of(&range) else {
            return false;
        };
        top.metaslabs[index].begin_repair(range, stamp.0)
    }

    fn release_places(&self, places: &[Dva]) {
        for place in places {
            if let Some(top) = self.top(place.vdev()) {
                let mut top = top.lock();
                let range = range_of(place);
                if let Ok(index) = top.index_of(&range) {
                    top.metaslabs[index].end_repair(&range);
                }
            }
        }
    }
}

impl RepairSpace for Space {
    fn stamp(&self) -> SpaceStamp {
        SpaceStamp(self.repairs.moment.load(Ordering::Acquire))
    }

    fn hold(&self, places: &[Dva], birth: Txg, stamp: SpaceStamp) -> bool {
        if birth.0 > self.repairs.committed.load(Ordering::Acquire) {
            return false;
        }
        {
            let mut state = self.repairs.state.lock();
            if state.is_over {
                return false;
            }
            state.under_way += 1;
        }
        let refused = places.iter().position(|p| !self.hold_place(p, stamp));
        if let Some(refused) = refused {
            self.release(&places[..refused]);
        }
        refused.is_none()
    }

    fn is_freed(&self, places: &[Dva]) -> bool {
        places.iter().any(|place| {
            let Some(top) = self.top(place.vdev()) else {
                return false;
            };
            let top = top.lock();
            let range = range_of(place);
            let index = top.index_of(&range);
            index.is_ok_and(|index| top.metaslabs[index].is_unused(&range))
        })
    }

    fn release(&self, places: &[Dva]) {
        self.release_places(places);
        self.repairs.state.lock().under_way -= 1;
        self.repairs.ended.notify_all();
    }
}
