//! The holders of a slot's bytes: disks, and distributed spares that lead to other slots.

use crate::error::{LeafFailure, LeafFailures, LeafProblem};
use crate::leaf::{Fitness, Leaf};
use crate::shape::Shape;
use crate::tree::{Layout, Slot, Source};
use cenote_base::Txg;

/// Distributed spares that stand in for each other in a row.
const SPARE_HOPS_MAX: usize = 16;

/// Reads of nearby offsets go to the same source of a mirror: 1 MiB.
const BALANCE_SHIFT: u32 = 20;

/// A leaf that holds bytes of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub leaf: usize,
    /// The distributed spare whose space on the leaf it is, which may have missed what the leaf
    /// has not.
    pub spare: Option<usize>,
}

/// A leaf that may have the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub leaf: usize,
    pub fitness: Fitness,
}

impl Shape {
    /// All leaves that hold `[offset, offset + length)` of a slot, whatever their state.
    pub(crate) fn holders(&self, slot: &Slot, offset: u64, length: usize) -> Vec<Holder> {
        let mut leaves = Vec::with_capacity(slot.sources.len());
        let mut spares = Vec::new();
        let mut add = |sources: &[Source], of: Option<usize>, spares: &mut Vec<_>| {
            for source in sources {
                match *source {
                    Source::Leaf(leaf) => leaves.push(Holder { leaf, spare: of }),
                    Source::DistributedSpare { top, spare, leaf } => {
                        // Of spares of spares, the one that took the slot's place knows.
                        spares.push((top, spare, of.unwrap_or(leaf)));
                    }
                }
            }
        };
        add(&slot.sources, None, &mut spares);
        for _ in 0..SPARE_HOPS_MAX {
            let Some((top, spare, leaf)) = spares.pop() else {
                break;
            };
            let Layout::Draid { geometry, slots } = &self.tree.tops[top].layout else {
                continue;
            };
            match geometry.spare_disk(spare, offset) {
                // A range never reaches into the next slice: blocks stay within a group.
                Some((disk, end)) if offset.saturating_add(length as u64) <= end => {
                    add(&slots[disk].sources, Some(leaf), &mut spares);
                }
                _ => {}
            }
        }
        leaves
    }

    /// How well a holder serves a block born in `birth`; `None` if it has no device.
    pub(crate) fn fitness_of(&self, holder: Holder, birth: Txg) -> Option<Fitness> {
        let fitness = self.tree.leaves[holder.leaf].fitness(birth)?;
        let spare = holder.spare.map(|spare| &self.tree.leaves[spare].missed);
        Some(match spare.is_some_and(|missed| missed.contains(birth)) {
            true => fitness.max(Fitness::Stale),
            false => fitness,
        })
    }

    /// The leaves that may be read to get `[offset, offset + length)` of a slot, the fittest
    /// first.
    pub(crate) fn candidates(
        &self,
        slot: &Slot,
        offset: u64,
        length: usize,
        birth: Txg,
    ) -> Vec<Candidate> {
        let holders = self.holders(slot, offset, length).into_iter();
        let candidates = holders.filter_map(|holder| {
            let fitness = self.fitness_of(holder, birth)?;
            let leaf = holder.leaf;
            Some(Candidate { leaf, fitness })
        });
        let mut found: Vec<Candidate> = candidates.collect();
        found.sort_by_key(|candidate| candidate.fitness);
        found
    }

    /// As [`Self::candidates`], equally fit ones by load and else so that each serves a share of
    /// the address space.
    pub(crate) fn balanced(
        &self,
        slot: &Slot,
        offset: u64,
        length: usize,
        birth: Txg,
    ) -> Vec<Candidate> {
        let mut found = self.candidates(slot, offset, length, birth);
        if found.len() > 1 {
            let count = found.len();
            let first = (offset >> BALANCE_SHIFT) as usize % count;
            found.rotate_left(first);
            found.sort_by_key(|candidate| {
                (candidate.fitness, self.tree.leaves[candidate.leaf].load())
            });
        }
        found
    }

    /// Adds a leaf's problem to a failed read's story.
    pub(crate) fn note(&self, failures: &mut LeafFailures, leaf: usize, problem: LeafProblem) {
        let node = &self.tree.nodes[self.tree.leaves[leaf].node];
        let path = node.path.as_ref();
        failures.push(LeafFailure {
            guid: node.guid,
            name: path.map_or_else(|| node.kind.to_string(), |path| path.display().to_string()),
            problem,
        });
    }

    /// Adds the leaves of a slot that have no device.
    pub(crate) fn note_closed(&self, failures: &mut LeafFailures, slot: &Slot) {
        for source in &slot.sources {
            if let Source::Leaf(leaf) = *source {
                let Leaf { state, aux, .. } = self.tree.leaves[leaf];
                if self.tree.leaves[leaf].device.is_none() {
                    self.note(failures, leaf, LeafProblem::NotOpen(state, aux));
                }
            }
        }
    }
}
