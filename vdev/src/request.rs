//! Requests to the vdevs for one block, and their outcome.

use crate::io_context::IoContext;
use crate::leaf::Fitness;
use crate::shape::Shape;
use cenote_base::{Guid, Txg};
use cenote_ondisk::Dva;

/// A block to be read.
pub(crate) struct Request<'a> {
    pub dva: Dva,
    /// Stored bytes.
    pub size: usize,
    /// Physical birth.
    pub birth: Txg,
    /// Whether bytes are the block's.
    pub verify: &'a dyn Fn(&[u8]) -> bool,
    /// The leaves that are charged with a checksum error.
    pub blame: Blame,
    /// What it is read for.
    pub io: &'a IoContext,
}

/// The leaves that are charged with a checksum error for bytes that are not the block's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Every leaf that gave some.
    Each,
    /// Those that gave some, if the block is nowhere: a power cut leaves it on some leaves only.
    IfLost,
    /// None: the block may never have been written.
    Nobody,
}

/// Why a leaf's part of a block was not to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The leaf is known to have missed the block's txg, and has other bytes.
    Stale,
    /// The device answers, but not with this part.
    Unreadable,
    /// Other bytes than were written.
    Wrong,
}

/// A leaf whose part of a block is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafFault {
    /// The leaf.
    pub leaf: Guid,
    /// What is the matter with it.
    pub kind: FaultKind,
}

/// A block that was read, and the leaves that did not have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The stored bytes, which the caller's check accepted.
    pub bytes: Vec<u8>,
    /// The leaves that were read and did not have their part of these bytes, each once. Leaves that
    /// did not have to be read may be wrong all the same.
    pub wrong: Vec<LeafFault>,
}

/// The leaves, by number, that gave wrong bytes or none while a block was read.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(usize, FaultKind)>);

impl Faults {
    /// Notes a fault; of several at one leaf the worst counts.
    pub(crate) fn note(&mut self, leaf: usize, kind: FaultKind) {
        match self.0.iter_mut().find(|(known, _)| *known == leaf) {
            Some((_, known)) => *known = kind.max(*known),
            None => self.0.push((leaf, kind)),
        }
    }

    /// Notes that a leaf of this fitness gave wrong bytes. From one that is not in use nothing
    /// else was to be expected.
    pub(crate) fn note_wrong(&mut self, leaf: usize, fitness: Fitness) {
        match fitness {
            Fitness::Good | Fitness::Failing => self.note(leaf, FaultKind::Wrong),
            Fitness::Stale => self.note(leaf, FaultKind::Stale),
            Fitness::LastResort => {}
        }
    }

    /// Notes that a leaf of this fitness gave nothing.
    pub(crate) fn note_unread(&mut self, leaf: usize, fitness: Fitness) {
        if fitness < Fitness::LastResort {
            self.note(leaf, FaultKind::Unreadable);
        }
    }

    /// Adds what another attempt met.
    pub(crate) fn extend(&mut self, other: Self) {
        for (leaf, kind) in other.0 {
            self.note(leaf, kind);
        }
    }

    /// The leaves that are to be charged with a checksum error.
    pub(crate) fn to_charge(&self) -> Vec<usize> {
        let wrong = self.0.iter().filter(|(_, kind)| *kind == FaultKind::Wrong);
        wrong.map(|(leaf, _)| *leaf).collect()
    }
}

impl Shape {
    /// The answer to a request: these bytes, and the leaves that did not have them.
    pub(crate) fn outcome(&self, bytes: Vec<u8>, faults: &Faults) -> ReadOutcome {
        let wrong = faults.0.iter().map(|(leaf, kind)| LeafFault {
            leaf: self.guid_of_leaf(*leaf),
            kind: *kind,
        });
        ReadOutcome {
            bytes,
            wrong: wrong.collect(),
        }
    }

    /// The guid of a leaf by its number.
    pub(crate) fn guid_of_leaf(&self, leaf: usize) -> Guid {
        self.tree.nodes[self.tree.leaves[leaf].node].guid
    }

    /// Counts a checksum error at each of these leaves.
    pub(crate) fn charge(&self, leaves: &[usize]) {
        for leaf in leaves {
            self.tree.leaves[*leaf].counters.checksum_errors.add(1);
        }
    }
}
