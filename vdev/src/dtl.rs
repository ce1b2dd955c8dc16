//! What vdevs miss, computed up the tree from the logs of leaves (format/1c 7).
//!
//! A mirror misses what all its children miss, a raidz or draid what more of them miss than there
//! is parity. Of that nothing is left at all. *Partial* is what any child misses: it can be read,
//! and has less redundancy than it should. An *outage* is what cannot be read now: of a leaf that
//! is not in use, everything. So the question whether a leaf may be taken away is answered by the
//! outage of its top-level vdev without it: a mirror's other side may be in best health and still
//! lack what only this one has.
//!
//! A removed vdev misses nothing itself; its blocks are elsewhere.

use crate::shape::Shape;
use crate::tree::Node;
use crate::txg_set::TxgSet;
use cenote_base::{Guid, Txg};
use cenote_ondisk::VdevKind;
use std::collections::HashSet;
use std::ops::Range;

/// What of a vdev's txgs is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtlKind {
    /// Those that it does not have, or not all of.
    Missing,
    /// Those that some leaf below it does not have: redundancy is less than it should be.
    Partial,
    /// Those that cannot be read from it now.
    Outage,
}

/// A leaf that a resilver looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResilverTarget {
    /// The leaf.
    pub leaf: Guid,
    /// What it misses and is to get.
    pub txgs: TxgSet,
    /// How often it had been out of use.
    outages: u64,
}

impl Shape {
    /// The sets of all nodes, if these leaves were not there.
    fn dtls(&self, kind: DtlKind, without: &HashSet<usize>) -> Vec<TxgSet> {
        let nodes = &self.tree.nodes;
        let mut sets: Vec<TxgSet> = Vec::new();
        sets.resize_with(nodes.len(), TxgSet::default);
        // Children have higher numbers than their parents.
        for (index, node) in nodes.iter().enumerate().rev() {
            sets[index] = match node.leaf {
                Some(leaf) if kind == DtlKind::Outage && without.contains(&leaf) => TxgSet::all(),
                Some(leaf) => self.dtl_of_leaf(kind, leaf),
                None => {
                    let children = node.children.iter().map(|child| &sets[*child]);
                    TxgSet::in_at_least(losses_of(kind, node), children)
                }
            };
        }
        sets
    }

    fn dtl_of_leaf(&self, kind: DtlKind, leaf: usize) -> TxgSet {
        let leaf = &self.tree.leaves[leaf];
        // Distributed spares have no device of their own.
        let is_device = self.tree.nodes[leaf.node].kind != VdevKind::DistributedSpare;
        let is_lost = is_device && (leaf.device.is_none() || !leaf.live_state().0.is_readable());
        match kind == DtlKind::Outage && is_lost {
            true => TxgSet::all(),
            false => leaf.missed.missing(),
        }
    }

    fn node_of(&self, vdev: Guid) -> Option<usize> {
        let mut nodes = self.tree.nodes.iter();
        nodes.position(|node| node.guid == vdev && vdev != Guid(0))
    }

    /// The txgs of a vdev, leaf or not; `None` without such a vdev.
    pub fn dtl_of(&self, vdev: Guid, kind: DtlKind) -> Option<TxgSet> {
        let node = self.node_of(vdev)?;
        Some(self.dtls(kind, &HashSet::new()).swap_remove(node))
    }

    /// The txgs that a leaf missed, in order; empty for a leaf that missed nothing.
    pub fn dtl(&self, leaf: Guid) -> Vec<Range<Txg>> {
        let leaf = self.tree.leaf_of.get(&leaf);
        let missing = leaf.map(|leaf| self.tree.leaves[*leaf].missed.missing());
        missing.unwrap_or_default().ranges().collect()
    }

    /// Sets the txgs that a leaf missed, as they are stored: what was born in them is read from
    /// it last.
    ///
    /// A guid that is no leaf's is ignored.
    pub fn set_dtl(&self, leaf: Guid, missed: &[Range<Txg>]) {
        if let Some(leaf) = self.tree.leaf_of.get(&leaf) {
            let missed = TxgSet::from_ranges(missed.iter().cloned());
            self.tree.leaves[*leaf].missed.set(missed);
        }
    }

    /// Adds txgs that a leaf turns out to have missed; [`Self::take_changed_dtls`] has them stored.
    ///
    /// A guid that is no leaf's is ignored.
    pub fn add_missed(&self, leaf: Guid, missed: &TxgSet) {
        if let Some(leaf) = self.tree.leaf_of.get(&leaf) {
            self.tree.leaves[*leaf].missed.add(missed);
        }
    }

    /// The leaves whose missed txgs changed since the last call, with all that they missed: to be
    /// stored with the pool before the leaf is used again.
    pub fn take_changed_dtls(&self) -> Vec<(Guid, Vec<Range<Txg>>)> {
        let leaves = self.tree.leaves.iter();
        let changed = leaves.filter(|leaf| leaf.missed.take_changed());
        let guids = changed.map(|leaf| self.tree.nodes[leaf.node].guid);
        guids.map(|guid| (guid, self.dtl(guid))).collect()
    }

    /// From the first to behind the last txg that some leaf misses and could be given; `None` if
    /// no resilver is needed, or none is possible.
    pub fn is_resilver_needed(&self) -> Option<Range<Txg>> {
        let targets = self.targets().into_iter();
        let all = targets.map(|target| target.txgs);
        all.reduce(|all, txgs| all.with(&txgs))?.bounds()
    }

    /// Whether a leaf misses something that it could be given.
    pub fn needs_resilver(&self, leaf: Guid) -> bool {
        self.targets().iter().any(|target| target.leaf == leaf)
    }

    fn targets(&self) -> Vec<ResilverTarget> {
        let leaves = self.tree.leaves.iter();
        let is_spare = |node: usize| self.tree.nodes[node].kind == VdevKind::DistributedSpare;
        let ready = leaves.filter(|leaf| leaf.is_writable() || is_spare(leaf.node));
        let ready = ready.filter(|leaf| !self.tree.nodes[leaf.node].is_rebuilding);
        let targets = ready.map(|leaf| ResilverTarget {
            leaf: self.tree.nodes[leaf.node].guid,
            txgs: leaf.missed.missing(),
            outages: leaf.missed.outages(),
        });
        targets.filter(|t| !t.txgs.is_empty()).collect()
    }

    /// Begins a resilver of what was written before `below`: the leaves that it is for. Blocks
    /// born in any of their txgs are to be brought to them, as `Pipeline::mend` does; then
    /// [`Self::end_resilver`] is due. One that goes on after an interruption begins here too, and
    /// so does a scrub, which is for all leaves: what it cannot repair is missing then.
    pub fn begin_resilver(&self, below: Txg) -> Vec<ResilverTarget> {
        let later = TxgSet::from_ranges(std::iter::once(below..Txg(u64::MAX)));
        let mut targets = self.targets();
        for target in &mut targets {
            target.txgs = target.txgs.without(&later);
        }
        for leaf in &self.tree.leaves {
            leaf.missed.begin_resilver();
        }
        targets.retain(|target| !target.txgs.is_empty());
        targets
    }

    /// Notes that a block born in `txg` could not be brought to a leaf, which still misses that
    /// txg when the resilver ends.
    pub fn note_unrepaired(&self, leaf: Guid, txg: Txg) {
        if let Some(leaf) = self.tree.leaf_of.get(&leaf) {
            self.tree.leaves[*leaf].missed.note_unrepaired(txg);
        }
    }

    /// Ends a resilver that went through all blocks: its targets do not miss any more what they
    /// got. Returns those that were out of use meanwhile, and miss what they missed before. To be
    /// called when what was written has been flushed.
    pub fn end_resilver(&self, targets: &[ResilverTarget]) -> Vec<Guid> {
        let mut interrupted = Vec::new();
        let nothing = TxgSet::default();
        for leaf in &self.tree.leaves {
            let guid = self.tree.nodes[leaf.node].guid;
            let target = targets.iter().find(|target| target.leaf == guid);
            let reached = target.filter(|target| target.outages == leaf.missed.outages());
            if target.is_some() && reached.is_none() {
                interrupted.push(guid);
            }
            leaf.missed
                .end_resilver(reached.map_or(&nothing, |target| &target.txgs));
        }
        interrupted
    }

    /// Whether data would be lost, or out of reach, if a leaf were taken away: it has no siblings,
    /// or they lack something that it has. A guid that is no leaf's is not needed.
    pub fn is_required(&self, leaf: Guid) -> bool {
        let leaf = self.tree.leaf_of.get(&leaf);
        leaf.is_some_and(|leaf| self.is_leaf_required(*leaf))
    }

    pub(crate) fn is_leaf_required(&self, leaf: usize) -> bool {
        let top = self.top_of_leaf(leaf);
        let outages = self.dtls(DtlKind::Outage, &HashSet::from([leaf]));
        !outages[top].is_empty()
    }
}

/// In how many children something has to be, to be so of the vdev.
fn losses_of(kind: DtlKind, node: &Node) -> usize {
    match node.kind {
        _ if kind == DtlKind::Partial => 1,
        VdevKind::Root => 1,
        VdevKind::Raidz | VdevKind::Draid => {
            usize::try_from(node.parity).map_or(usize::MAX, |parity| parity.saturating_add(1))
        }
        // Of no children, as a hole has, nothing is in that many.
        _ => node.children.len().max(1),
    }
}
