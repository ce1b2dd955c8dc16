//! Space in which a block is written again.
//!
//! Repairs write to allocated space on behalf of a reader that holds no lock: the block may be
//! freed at any time, and its space given to another block. *Readers* are protected by the deferral
//! of frees: space that a group freed is allocated again only after two more groups are on disk
//! (format/1d 5), and a reader that has a pointer reads at once. A late reader gets a checksum
//! error. A late repair would destroy another block, so it must not depend on being quick. Hence
//! two rules, which the allocator keeps:
//!
//! 1. Before a block is read, its reader takes a *stamp*. A repair is refused if space nearby
//!    became fit to be handed out since then: it may have been the block's.
//! 2. A repair that is not refused *holds* the block's space until it is done. If that is freed
//!    meanwhile, it stays back for another group, and so on, but it alone.
//!
//! So the repaired block is the one that was there when the stamp was taken, or the space belongs
//! to no block. Nothing else is held back, however long a scrub takes. A caller that queues
//! pointers for longer than a read takes has to drop those that are freed before it takes the
//! stamp.

use cenote_base::Txg;
use cenote_ondisk::Dva;
use std::fmt::Debug;
use std::sync::Arc;

/// A moment in the life of a pool's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceStamp(pub u64);

/// The allocator, as repairs see it.
pub trait RepairSpace: Debug + Send + Sync {
    /// The present moment; cheap.
    fn stamp(&self) -> SpaceStamp;

    /// Keeps these places, with the bytes that are allocated there, from being handed out until
    /// [`Self::release`], and says whether that is done. It is not if they may have been handed
    /// out since `stamp`, if the block is of a `birth` that is not on disk yet, if it has been
    /// freed, or if the pool takes no more writes.
    fn hold(&self, places: &[Dva], birth: Txg, stamp: SpaceStamp) -> bool;

    /// Whether some of these places are known to be free: the block there was freed, and needs no
    /// repair.
    fn is_freed(&self, places: &[Dva]) -> bool;

    /// Ends what [`Self::hold`] began, with the same places.
    fn release(&self, places: &[Dva]);
}

/// Places that are held until this is dropped.
#[derive(Debug)]
pub struct HeldPlaces {
    space: Arc<dyn RepairSpace>,
    places: Vec<Dva>,
}

impl HeldPlaces {
    /// Holds the places of a block, unless they may have been handed out since `stamp`.
    pub fn hold(
        space: &Arc<dyn RepairSpace>,
        places: Vec<Dva>,
        birth: Txg,
        stamp: SpaceStamp,
    ) -> Option<Self> {
        if !space.hold(&places, birth, stamp) {
            return None;
        }
        let space = Arc::clone(space);
        Some(Self { space, places })
    }
}

impl Drop for HeldPlaces {
    fn drop(&mut self) {
        self.space.release(&self.places);
    }
}
