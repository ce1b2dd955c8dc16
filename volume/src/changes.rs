//! The changes in a volume since an older snapshot of it.
//!
//! Blocks and holes have births: the walk descends only where something is younger than the
//! snapshot, and reads no contents. For holes the birth is not enough. One without a birth always
//! existed, or was made before the pool had the feature `hole_birth`; and a young one may be a hole
//! in the snapshot, too. So holes are compared with the snapshot's tree: a hole is a change if the
//! snapshot has data there.
//!
//! A block that was rewritten with the same data counts as changed.

use crate::error::VolumeError;
use crate::volume::Volume;
use cenote_base::{BlockId, Txg};
use cenote_dmu::traverse::{Event, Ordered, Part, Root, Since, Visit, Walk};
use cenote_dmu::{DmuError, Object};
use std::ops::Range;
use std::sync::Arc;

/// How often a walk restarts because the state that it walks was replaced meanwhile.
const WALKS_MAX: usize = 5;

/// Bytes of a range that are all as they were, or all may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// In bytes.
    pub length: u64,
    /// Whether they may have changed.
    pub is_changed: bool,
}

/// Neighbouring parts of a range, in order.
struct Parts {
    /// Up to where they reach.
    at: u64,
    end: u64,
    most: usize,
    parts: Vec<Changed>,
}

impl Parts {
    /// Appends what lies before `to`; false if there are too many parts for that.
    fn reach(&mut self, to: u64, is_changed: bool) -> bool {
        let to = to.min(self.end);
        if to <= self.at {
            return true;
        }
        let length = to - self.at;
        let is_full = self.parts.len() == self.most;
        match self.parts.last_mut() {
            Some(last) if last.is_changed == is_changed => last.length += length,
            _ if is_full => return false,
            _ => self.parts.push(Changed { length, is_changed }),
        }
        self.at = to;
        true
    }

    /// Notes that a range has changed, which begins nowhere before the last.
    fn mark(&mut self, start: u64, end: u64) -> bool {
        end <= self.at || self.reach(start, false) && self.reach(end, true)
    }
}

/// A walk for changes.
struct Search<'a> {
    /// The contents as they are.
    now: &'a Object,
    /// The contents of the snapshot.
    before: &'a Object,
    parts: Parts,
    block_size: u64,
    /// The first block that the walk has not met yet.
    met: u64,
}

impl Search<'_> {
    /// Compares holes here, from block `first` to `last`, with the snapshot; false if there is no
    /// room for more parts.
    fn holes(&mut self, first: u64, last: u64) -> Result<bool, DmuError> {
        let mut at = first;
        while at <= last {
            let data = self.before.next_data_block(BlockId(at))?;
            let Some(data) = data.filter(|data| data.0 <= last) else {
                break;
            };
            let hole = self.before.next_hole_block(data)?.0.max(data.0 + 1);
            let end = hole.min(last.saturating_add(1));
            let bytes = |block: u64| block.saturating_mul(self.block_size);
            if !self.parts.mark(bytes(data.0), bytes(end)) {
                return Ok(false);
            }
            at = end;
        }
        Ok(true)
    }

    fn visit(&mut self, visit: &Visit, is_hole: bool) -> Result<bool, DmuError> {
        if visit.part != Part::Tree || !is_hole && visit.bookmark.level.0 > 0 {
            return Ok(true);
        }
        let (first, last) = visit.span();
        let first = first.max(self.parts.at / self.block_size);
        let last = last.min((self.parts.end - 1) / self.block_size);
        self.met = self.met.max(last.saturating_add(1));
        if first > last {
            return Ok(true);
        }
        if is_hole && !visit.pointer.is_redacted() {
            return self.holes(first, last);
        }
        let bytes = |block: u64| block.saturating_mul(self.block_size);
        Ok(self.parts.mark(bytes(first), bytes(last + 1)))
    }

    fn run(mut self, since: Txg) -> Result<Vec<Changed>, DmuError> {
        let first = self.parts.at / self.block_size;
        let last = (self.parts.end - 1) / self.block_size;
        let root = Root::of_object(self.now, Since::logical(since));
        let plan = Walk {
            holes: true,
            ..Walk::default()
        };
        let plan = plan.over(BlockId(first), BlockId(last));
        let cache = Arc::clone(self.now.set().cache());
        for event in Ordered::new(cache, root, plan) {
            let has_room = match event {
                Event::Object(..) | Event::FreeSlots { .. } => true,
                Event::Block(visit) => self.visit(&visit, false)?,
                Event::Hole(visit) => self.visit(&visit, true)?,
                Event::Damage(damage) => return Err(damage.error),
            };
            if !has_room {
                return Ok(self.parts.parts);
            }
        }
        // Behind the last block there are holes without a pointer.
        let behind = self.now.dnode().block_id_max.0.saturating_add(1);
        let is_whole = self.holes(behind.max(self.met).max(first), last)?;
        if is_whole {
            let end = self.parts.end;
            self.parts.reach(end, false);
        }
        Ok(self.parts.parts)
    }
}

impl Volume {
    /// Which parts of a range may have changed since `base`, from its start on: at most `most` of
    /// them, which need not reach its end.
    ///
    /// `base` is an older snapshot of this volume, or of the one that it is a clone of, and was
    /// made in the group `since`. Of a volume that is written to the changes have to be on disk
    /// first, which this waits for.
    ///
    /// # Errors
    /// If the volume or the snapshot cannot be read, or the range does not lie within the volume.
    pub fn changed_since(
        &self,
        (base, since): (&Volume, Txg),
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Changed>, VolumeError> {
        let length = range.end.saturating_sub(range.start);
        self.check_range(range.start, length)?;
        if length == 0 || most == 0 {
            return Ok(Vec::new());
        }
        let all = Changed {
            length,
            is_changed: true,
        };
        let is_replayed = self.set().is_writable() && !self.is_writable();
        if is_replayed || base.block_size() != self.block_size() {
            // What a replay in memory changed has no birth, and other blocks cannot be compared.
            return Ok(vec![all]);
        }
        if let Some(dataset) = &self.dataset {
            let gate = dataset.gate();
            gate.wait_synced(gate.open_txg())?;
        }
        let before = base.data()?;
        let mut walks = 1;
        loop {
            // Its tree is the one on disk: changes that are not there yet came after the question.
            let now = self.data()?;
            let search = Search {
                now: &now,
                before: &before,
                parts: Parts {
                    at: range.start,
                    end: range.end,
                    most,
                    parts: Vec::new(),
                },
                block_size: self.block_size(),
                met: 0,
            };
            match search.run(since) {
                // What is written to may have been replaced under the walk.
                Err(_) if self.is_writable() && walks < WALKS_MAX => walks += 1,
                found => return Ok(found?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_and_cut() {
        let mut parts = Parts {
            at: 10,
            end: 100,
            most: 3,
            parts: Vec::new(),
        };
        assert!(parts.mark(0, 5), "it lies before");
        assert!(parts.mark(0, 20) && parts.mark(20, 30) && parts.mark(40, 50));
        assert!(!parts.mark(60, 70), "there is no room for it");
        let lengths: Vec<_> = parts
            .parts
            .iter()
            .map(|p| (p.length, p.is_changed))
            .collect();
        assert_eq!(lengths, [(20, true), (10, false), (10, true)]);
        assert!(parts.mark(45, 200), "it is cut");
        assert_eq!(parts.at, 100);
    }
}
