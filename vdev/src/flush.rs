//! Making durable what was written, for everybody who needs that.
//!
//! A leaf's flush covers whatever arrived there before, no matter who sent it. So a flush by a
//! commit of an intent log may be the one that loses the data of a transaction group, and the
//! other way round. Each leaf counts its failed flushes, and whoever needs its own writes to be
//! durable compares: an intent log with a [`FlushMark`] from before it wrote, a group's commit
//! with what the commit before it saw.

use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::shape::Shape;
use cenote_base::{Guid, VdevId};
use std::collections::HashSet;

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
    /// A leaf that fails counts as having missed what it was given since its last flush. What an
    /// earlier flush lost, whoever asked for that was told: see [`Self::flush_since`].
    ///
    /// # Errors
    /// If so many leaves failed that blocks may be lost.
    pub fn flush(&self) -> Result<(), VdevError> {
        self.flush_leaves(self.unflushed(|_| true), |_| false)
    }

    /// Makes durable what was written to some top-level vdevs since a moment.
    ///
    /// # Errors
    /// If so many leaves of these failed since then, whoever flushed them, that it may be lost.
    pub fn flush_since(&self, mark: &FlushMark, vdevs: &[VdevId]) -> Result<(), VdevError> {
        let tops = vdevs.iter().filter_map(|vdev| self.top(*vdev));
        let nodes: Vec<usize> = tops.map(|top| top.node).collect();
        let is_meant = |leaf: usize| nodes.contains(&self.top_of_leaf(leaf));
        self.flush_leaves(self.unflushed(is_meant), |leaf| {
            let failures = self.tree.leaves[leaf].written.losses();
            is_meant(leaf) && failures > mark.failures_of(self.guid_of_leaf(leaf))
        })
    }

    /// Makes durable everything that a transaction group has written, before its uberblock.
    ///
    /// # Errors
    /// If so many leaves failed since the last call, whoever flushed them, that blocks of the
    /// group may be lost.
    pub fn flush_group(&self) -> Result<(), VdevError> {
        self.flush_leaves(self.unflushed(|_| true), |leaf| {
            self.tree.leaves[leaf].written.take_unreported()
        })
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

    /// Flushes some leaves. Then asks all leaves whether an earlier flush lost something.
    fn flush_leaves(
        &self,
        leaves: Vec<usize>,
        is_behind: impl Fn(usize) -> bool,
    ) -> Result<(), VdevError> {
        let mut failures = self.on_leaves(&leaves, |leaf| self.tree.leaves[leaf].flush());
        for leaf in 0..self.tree.leaves.len() {
            if is_behind(leaf) && failures.iter().all(|(failed, _)| *failed != leaf) {
                failures.push((leaf, LeafProblem::LostWrites));
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        let failed: HashSet<usize> = failures.iter().map(|(leaf, _)| *leaf).collect();
        // What these leaves lost is noted by now; others may lack the same.
        let is_lost = self.would_fail(&failed) || failed.iter().any(|leaf| self.has_lost(*leaf));
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
