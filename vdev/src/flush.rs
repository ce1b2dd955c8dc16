//! Making writes durable, for all callers that need it.
//!
//! A leaf's flush covers all writes that arrived there before, from any caller. So a flush by a
//! commit of an intent log may be the one that loses the data of a transaction group, and vice
//! versa. Each leaf counts its failed flushes. A caller that needs its own writes to be durable
//! compares the counts: an intent log with a [`FlushMark`] from before it wrote, a group's commit
//! with the counts that the commit before it saw.
//!
//! *Whose flush counts.* A group has nothing on log vdevs: an intent log flushes its blocks there
//! itself, before it promises anything. So a log device that fails a flush delays its commits and
//! does not affect the group. It is given up until it answers again ([`Shape::try_log`]). Devices
//! for spares and caches are in no tree, so no flush reaches them.
//!
//! *What a failed flush costs.* A leaf whose siblings have the same blocks has missed them. If a
//! block may be nowhere, the group cannot be committed; it is *in doubt* which leaves have it
//! until the group has written all of it again and flushed.

use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::shape::Shape;
use cenote_base::{Guid, VdevId};
use std::collections::HashSet;

/// What a flush is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Writes of any kind.
    Any,
    /// A transaction group, which was written again since the last flush if that is said.
    Group { is_again: bool },
}

/// A moment before something was written, to compare with when it is to be durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushMark {
    /// Flushes that had lost blocks, of leaves that had any.
    failures: Vec<(Guid, u64)>,
}

impl FlushMark {
    fn failures_of(&self, leaf: Guid) -> u64 {
        let mut failures = self.failures.iter();
        let found = failures.find(|(guid, _)| *guid == leaf);
        found.map_or(0, |(_, failures)| *failures)
    }
}

impl Shape {
    /// This moment.
    pub fn flush_mark(&self) -> FlushMark {
        let leaves = 0..self.tree.leaves.len();
        let failures = leaves.map(|leaf| {
            let failures = self.tree.leaves[leaf].written.losses();
            (self.guid_of_leaf(leaf), failures)
        });
        FlushMark {
            failures: failures.filter(|(_, failures)| *failures > 0).collect(),
        }
    }

    /// Makes durable everything that arrived before.
    ///
    /// A leaf that fails counts as having missed what it was given since its last flush. Losses of
    /// an earlier flush were reported to the caller of that flush: see [`Self::flush_since`].
    ///
    /// # Errors
    /// If so many leaves failed that blocks may be lost. Those on log vdevs do not count.
    pub fn flush(&self) -> Result<(), VdevError> {
        let is_main = |leaf: usize| !self.is_of_log(leaf);
        self.flush_leaves(self.unflushed(|_| true), (is_main, |_| false), Purpose::Any)
    }

    /// Makes durable what was written to some top-level vdevs since a moment.
    ///
    /// # Errors
    /// If writes may be lost because too many leaves of these failed a flush since then, by any
    /// caller.
    pub fn flush_since(&self, mark: &FlushMark, vdevs: &[VdevId]) -> Result<(), VdevError> {
        let tops = vdevs.iter().filter_map(|vdev| self.top(*vdev));
        let nodes: Vec<usize> = tops.map(|top| top.node).collect();
        let is_meant = |leaf: usize| nodes.contains(&self.top_of_leaf(leaf));
        let is_behind = |leaf: usize| {
            let failures = self.tree.leaves[leaf].written.losses();
            is_meant(leaf) && failures > mark.failures_of(self.guid_of_leaf(leaf))
        };
        self.flush_leaves(
            self.unflushed(is_meant),
            (|_| true, is_behind),
            Purpose::Any,
        )?;
        let Some(strayed) = self.strays_below(&nodes) else {
            return Ok(());
        };
        let mut failures = LeafFailures::default();
        if let Some(lead) = self.tree.leaves[strayed].access.strayed() {
            self.note(&mut failures, strayed, LeafProblem::Strayed(lead));
        }
        Err(VdevError::Unflushed { failures })
    }

    /// Makes durable everything that a transaction group has written, before its uberblock. The
    /// group was written again since the last failure if `is_again` is set.
    ///
    /// # Errors
    /// If too many leaves failed a flush since the last call, by any caller: blocks of the group
    /// may be lost, unless all of them are written again.
    pub fn flush_group(&self, is_again: bool) -> Result<(), VdevError> {
        let is_main = |leaf: usize| !self.is_of_log(leaf);
        let is_behind =
            |leaf: usize| is_main(leaf) && self.tree.leaves[leaf].written.take_unreported();
        self.flush_leaves(
            self.unflushed(is_main),
            (is_main, is_behind),
            Purpose::Group { is_again },
        )
    }

    /// Gives log devices up that failed, as this error tells: a log that is slow to fail costs each
    /// commit that time. What was promised on them stays readable there.
    pub fn rest_logs(&self, error: &VdevError) {
        let (VdevError::Unflushed { failures } | VdevError::Unwritten { failures, .. }) = error
        else {
            return;
        };
        let failed = failures.iter().filter(|failure| {
            matches!(
                failure.problem,
                LeafProblem::Device(_) | LeafProblem::LostWrites
            )
        });
        let leaves = failed.filter_map(|failure| self.tree.leaf_of.get(&failure.guid));
        for leaf in leaves.filter(|leaf| self.is_of_log(**leaf)) {
            self.rest_log(*leaf);
        }
    }

    pub(crate) fn rest_log(&self, leaf: usize) {
        if self.tree.leaves[leaf].written.set_faulted() {
            self.tree.leaves[leaf].missed.note_outage();
        }
    }

    /// Log devices that were given up since they were opened.
    pub fn resting_logs(&self) -> Vec<Guid> {
        let leaves = 0..self.tree.leaves.len();
        let resting = leaves.filter(|leaf| {
            let is_meant = self.tree.leaves[*leaf].written.is_faulted() && self.is_of_log(*leaf);
            is_meant && self.tree.leaves[*leaf].state.is_readable()
        });
        resting.map(|leaf| self.guid_of_leaf(leaf)).collect()
    }

    /// Uses a log device again that was given up, if it answers. It keeps its counted errors.
    pub fn try_log(&self, leaf: Guid) -> bool {
        let Some(leaf) = self.tree.leaf_of.get(&leaf).copied() else {
            return false;
        };
        let is_back = self.is_of_log(leaf) && self.tree.leaves[leaf].answers();
        if is_back {
            let is_alone = self.tree.leaves[leaf].node == self.top_of_leaf(leaf);
            if is_alone {
                // No commit counted on what it missed.
                let missed = self.tree.leaves[leaf].missed.missing();
                self.tree.leaves[leaf].missed.strike(&missed);
            }
            self.tree.leaves[leaf].written.clear();
        }
        is_back
    }

    /// Whether a leaf's device is open and can be read at its very beginning.
    pub fn can_be_read(&self, leaf: Guid) -> bool {
        let leaf = self.tree.leaf_of.get(&leaf);
        leaf.is_some_and(|leaf| self.tree.leaves[*leaf].probe().is_ok())
    }

    pub(crate) fn is_of_log(&self, leaf: usize) -> bool {
        self.tree.nodes[self.top_of_leaf(leaf)].is_log
    }

    /// Whatever flushes of these leaves lost is known to be there, or elsewhere.
    pub(crate) fn accept_losses<'a>(&self, leaves: impl Iterator<Item = &'a Guid>) {
        for leaf in leaves.filter_map(|guid| self.tree.leaf_of.get(guid)) {
            self.tree.leaves[*leaf].written.accept_losses();
        }
    }

    fn unflushed(&self, is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
        let leaves = 0..self.tree.leaves.len();
        leaves
            .filter(|leaf| self.tree.leaves[*leaf].written.has_unflushed() && is_meant(*leaf))
            .collect()
    }

    /// Flushes some leaves. Then asks all leaves whether an earlier flush lost something. What is
    /// lost of those that count is an error.
    fn flush_leaves(
        &self,
        leaves: Vec<usize>,
        (counts, is_behind): (impl Fn(usize) -> bool, impl Fn(usize) -> bool),
        purpose: Purpose,
    ) -> Result<(), VdevError> {
        let mut failures = self.on_leaves(&leaves, |leaf| self.tree.leaves[leaf].flush());
        for leaf in 0..self.tree.leaves.len() {
            if is_behind(leaf) && failures.iter().all(|(failed, _)| *failed != leaf) {
                failures.push((leaf, LeafProblem::LostWrites));
            }
        }
        let failed: HashSet<usize> = failures.iter().map(|(leaf, _)| *leaf).collect();
        if purpose == (Purpose::Group { is_again: true }) {
            // All that these were given since a flush failed is there now.
            let others = (0..self.tree.leaves.len()).filter(|leaf| !failed.contains(leaf));
            others
                .filter(|leaf| !self.is_of_log(*leaf))
                .for_each(|leaf| self.tree.leaves[leaf].missed.settle_doubts(true));
        }
        if failures.is_empty() {
            return Ok(());
        }
        // What these leaves lost is noted by now; others may lack the same.
        let counted: HashSet<usize> = failed
            .iter()
            .copied()
            .filter(|leaf| counts(*leaf))
            .collect();
        let is_lost = self.would_fail(&counted) || counted.iter().any(|leaf| self.has_lost(*leaf));
        for leaf in failed {
            let is_log = self.is_of_log(leaf);
            if is_log || !is_lost {
                self.tree.leaves[leaf].missed.settle_doubts(false);
            }
            if is_log {
                self.rest_log(leaf);
            }
        }
        let mut told = LeafFailures::default();
        for (leaf, problem) in failures {
            self.note(&mut told, leaf, problem);
        }
        match is_lost {
            true => Err(VdevError::Unflushed { failures: told }),
            false => Ok(()),
        }
    }
}
