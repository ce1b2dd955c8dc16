//! What vdevs miss, computed up the tree from the logs of leaves (format/1c 7).
//!
//! A mirror misses what all its children miss, a raidz or draid what more of them miss than there
//! is parity. Of that nothing is left at all. *Partial* is what any child misses: it can be read,
//! and has less redundancy than it should. An *outage* is what cannot be read now: of a leaf that
//! is not in use, everything. So the question whether a leaf may be taken away is answered by the
//! outage of its top-level vdev without it: a mirror's other side may be in best health and still
//! lack what only this one has.
//!
//! A removed vdev misses nothing itself; its blocks are elsewhere, and count as written when the
//! removal copied them there (`copied`).

use crate::class::AllocationClass;
use crate::leaf::Leaf;
use crate::missed::Missed;
use crate::shape::Shape;
use crate::state::VdevState;
use crate::tree::Node;
use crate::txg_set::TxgSet;
use cenote_base::{Guid, Txg, VdevId};
use cenote_ondisk::VdevKind;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

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

/// A leaf that a resilver or a rebuild looks after.
#[derive(Clone, Debug)]
pub struct ResilverTarget {
    /// The leaf.
    pub leaf: Guid,
    /// What it is to get.
    pub txgs: TxgSet,
    /// All that it missed when that was decided.
    pub missed: TxgSet,
    /// Its log: a leaf that leaves and comes back under the same guid has another.
    log: Arc<Missed>,
    /// How often it had been out of use.
    outages: u64,
}

impl ResilverTarget {
    /// Limits what the leaf is to get.
    fn within(mut self, txgs: Range<Txg>) -> Option<Self> {
        let later = TxgSet::from_ranges([Txg(0)..txgs.start, txgs.end..Txg(u64::MAX)]);
        self.txgs = self.txgs.without(&later);
        (!self.txgs.is_empty()).then_some(self)
    }
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
        let targets = ready.map(|leaf| self.target(leaf));
        targets.filter(|t| !t.txgs.is_empty()).collect()
    }

    pub(crate) fn target(&self, leaf: &Leaf) -> ResilverTarget {
        // First: what happens between the two reads is an outage.
        let outages = leaf.missed.outages();
        let missed = leaf.missed.missing();
        ResilverTarget {
            leaf: self.tree.nodes[leaf.node].guid,
            txgs: missed.clone(),
            missed,
            log: Arc::clone(&leaf.missed),
            outages,
        }
    }

    /// Begins a resilver of what was written before `below`: the leaves that it is for, decided
    /// here once. Blocks written in any of their txgs ([`Self::is_written_in`]) are to be brought
    /// to them, as `Pipeline::mend` does; then [`Self::end_resilver`] is due. A leaf that comes
    /// later is for a later resilver. A scrub begins here too, and is for no leaf: what it cannot
    /// repair is missing from then on.
    pub fn begin_resilver(&self, below: Txg) -> Vec<ResilverTarget> {
        for leaf in &self.tree.leaves {
            leaf.missed.begin_resilver();
        }
        let targets = self.targets().into_iter();
        let limited = targets.filter_map(|target| target.within(Txg(0)..below));
        limited.collect()
    }

    /// Resumes a resilver of these txgs after an import, for leaves that missed exactly this
    /// when it was noted last how far it came: those that were away since miss more.
    pub fn resume_resilver(
        &self,
        known: &[(Guid, TxgSet)],
        txgs: &Range<Txg>,
    ) -> Vec<ResilverTarget> {
        let is_same = |target: &ResilverTarget| {
            let mut known = known.iter();
            known.any(|(leaf, missed)| *leaf == target.leaf && *missed == target.missed)
        };
        let targets = self.targets().into_iter().filter(is_same);
        let limited = targets.filter_map(|target| target.within(txgs.clone()));
        limited.collect()
    }

    /// Whether a target is still the same device, and was in use all the time.
    pub fn is_reached(&self, target: &ResilverTarget) -> bool {
        let leaf = self.tree.leaf_of.get(&target.leaf);
        leaf.is_some_and(|leaf| {
            let log = &self.tree.leaves[*leaf].missed;
            Arc::ptr_eq(log, &target.log) && log.outages() == target.outages
        })
    }

    /// The targets that got all that was tried so far, with all that they missed.
    pub fn served<'a>(
        &'a self,
        targets: &'a [ResilverTarget],
    ) -> impl Iterator<Item = (Guid, TxgSet)> + 'a {
        let served = targets.iter().filter(|target| {
            self.is_reached(target)
                && target.log.unrepaired().is_empty()
                && target.log.missing() == target.missed
        });
        served.map(|target| (target.leaf, target.missed.clone()))
    }

    /// Notes that blocks born up to `last` may not have been met: no target counts as having
    /// got any of what it misses of that time, nor of what removals of vdevs copied later.
    pub fn note_unwalked(&self, targets: &[ResilverTarget], last: Txg) {
        let later = TxgSet::from_ranges([Txg(last.0.saturating_add(1))..Txg(u64::MAX)]);
        let later = later.without(&self.copied_in());
        for target in targets {
            target.log.note_all_unrepaired(&target.txgs.without(&later));
        }
    }

    /// What could not be repaired until now is missing, whatever becomes of the scan.
    pub fn keep_unrepaired(&self) {
        self.tree
            .leaves
            .iter()
            .for_each(|leaf| leaf.missed.keep_unrepaired());
    }

    /// Whether a leaf misses something that a resilver for these targets did not try to bring: it
    /// was no target, was out of use meanwhile, or missed more than was due. To be asked before
    /// the resilver ends.
    pub fn is_another_due(&self, targets: &[ResilverTarget]) -> bool {
        self.targets().iter().any(|now| {
            let target = targets.iter().find(|target| target.leaf == now.leaf);
            let untried = match target.filter(|target| self.is_reached(target)) {
                Some(target) => target.missed.without(&target.txgs),
                None => now.missed.without(&now.log.unrepaired()),
            };
            !untried.is_empty()
        })
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
        let (reached, interrupted): (Vec<_>, Vec<_>) =
            targets.iter().partition(|target| self.is_reached(target));
        let nothing = TxgSet::default();
        for leaf in &self.tree.leaves {
            let guid = self.tree.nodes[leaf.node].guid;
            let target = reached.iter().find(|target| target.leaf == guid);
            leaf.missed
                .end_resilver(target.map_or(&nothing, |target| &target.txgs));
        }
        interrupted.iter().map(|target| target.leaf).collect()
    }

    /// Whether data would be lost, or out of reach, if a leaf were taken away: it has no siblings,
    /// or they lack something that it has. A guid that is no leaf's is not needed.
    pub fn is_required(&self, leaf: Guid) -> bool {
        let leaf = self.tree.leaf_of.get(&leaf);
        leaf.is_some_and(|leaf| self.is_leaf_required(*leaf))
    }

    /// The same if these leaves were not there either.
    pub fn is_required_without(&self, leaf: Guid, gone: &[Guid]) -> bool {
        let all = gone.iter().chain([&leaf]);
        let all = all.filter_map(|guid| self.tree.leaf_of.get(guid).copied());
        let leaf = self.tree.leaf_of.get(&leaf);
        leaf.is_some_and(|leaf| self.has_outage(*leaf, &all.collect()))
    }

    pub(crate) fn is_leaf_required(&self, leaf: usize) -> bool {
        self.has_outage(leaf, &HashSet::from([leaf]))
    }

    /// Whether a leaf's top-level vdev has something out of reach now.
    pub(crate) fn has_lost(&self, leaf: usize) -> bool {
        self.has_outage(leaf, &HashSet::new())
    }

    /// Whether blocks of intent logs on a top-level vdev may be out of reach: it cannot be read, or
    /// it is a log vdev whose devices that are here missed something, and another is not here. What
    /// was promised last is in no dirty time log, but it went to that other device only.
    pub fn may_lack_logs(&self, vdev: VdevId) -> bool {
        let Some(top) = self.top(vdev) else {
            return true;
        };
        if !self.states()[top.node].0.is_readable() {
            return true;
        }
        let is_away = |leaf: &usize| {
            let found = &self.tree.leaves[*leaf];
            let rests = found.state == VdevState::Offline;
            found.device.is_none() && !rests && self.top_of_leaf(*leaf) == top.node
        };
        *top.class.read() == AllocationClass::Log
            && (0..self.tree.leaves.len()).any(|leaf| is_away(&leaf))
            && !self.dtls(DtlKind::Outage, &HashSet::new())[top.node].is_empty()
    }

    /// Whether a leaf's top-level vdev would have something out of reach without these leaves.
    fn has_outage(&self, leaf: usize, without: &HashSet<usize>) -> bool {
        let top = self.top_of_leaf(leaf);
        !self.dtls(DtlKind::Outage, without)[top].is_empty()
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
