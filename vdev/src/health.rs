//! Health while the pool is open: leaves that are given up, and what they missed.

use crate::access::LeftLeaf;
use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::kept::Kept;
use crate::labels::DeviceLabels;
use crate::shape::Shape;
use crate::state::{self, ChildHealth, VdevAux, VdevState};
use crate::tree::{Layout, Slot, Source};
use cenote_base::rt;
use cenote_base::{Guid, VdevId};
use cenote_ondisk::VdevKind;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl Shape {
    /// The state of every node as it is now.
    pub(crate) fn states(&self) -> Vec<(VdevState, VdevAux)> {
        self.states_without(&HashSet::new())
    }

    /// The states that the nodes would have if these leaves failed too.
    fn states_without(&self, failed: &HashSet<usize>) -> Vec<(VdevState, VdevAux)> {
        let nodes = &self.tree.nodes;
        let mut states: Vec<_> = nodes.iter().map(|node| (node.state, node.aux)).collect();
        let is_given_up = |leaf: &crate::leaf::Leaf| leaf.is_given_up();
        if failed.is_empty() && !self.tree.leaves.iter().any(is_given_up) {
            return states;
        }
        // Children have higher numbers than their parents.
        for (index, node) in nodes.iter().enumerate().rev() {
            if let Some(leaf) = node.leaf {
                states[index] = match failed.contains(&leaf) {
                    true => (VdevState::Faulted, VdevAux::ErrorsExceeded),
                    false => self.tree.leaves[leaf].live_state(),
                };
            }
            if node.children.is_empty() {
                continue;
            }
            let children = node.children.iter().map(|child| ChildHealth {
                state: states[*child].0,
                aux: states[*child].1,
                is_log: nodes[*child].is_log,
                counts: !matches!(nodes[*child].kind, VdevKind::Hole | VdevKind::Indirect),
            });
            let children: Vec<_> = children.collect();
            states[index] = state::derive(&node.kind, node.parity, &children);
        }
        states
    }

    /// Top-level vdevs that would fail if these leaves did.
    pub(crate) fn would_fail(&self, failed: &HashSet<usize>) -> bool {
        let (now, then) = (self.states(), self.states_without(failed));
        let mut tops = self.tree.nodes[0].children.iter();
        tops.any(|top| now[*top].0.is_readable() && !then[*top].0.is_readable())
    }

    /// Stops using a leaf, unless its top-level vdev would fail without it, or lose data that
    /// others missed.
    pub(crate) fn give_up(&self, leaf: usize) {
        let is_needed = self.would_fail(&HashSet::from([leaf])) || self.is_leaf_required(leaf);
        if !is_needed && self.tree.leaves[leaf].written.set_faulted() {
            self.tree.leaves[leaf].missed.note_outage();
        }
    }

    /// Stops using a leaf, as an administrator may demand; `false` if the pool needs it.
    pub fn fault(&self, leaf: Guid) -> bool {
        let Some(leaf) = self.tree.leaf_of.get(&leaf) else {
            return false;
        };
        self.give_up(*leaf);
        self.tree.leaves[*leaf].written.is_faulted()
    }

    /// Whether a leaf of raidz or dRAID sits out reads; `None` for others.
    pub fn sits_out(&self, leaf: Guid) -> Option<bool> {
        Some(self.sit_out_flag(leaf)?.load(Ordering::Relaxed))
    }

    /// Lets a leaf of raidz or dRAID sit out reads, or take part again; `false` for others. Only
    /// scrubs and resilvers read it then, and reads of what cannot be computed.
    pub fn set_sits_out(&self, leaf: Guid, sits_out: bool) -> bool {
        let store = |flag: &AtomicBool| flag.store(sits_out, Ordering::Relaxed);
        self.sit_out_flag(leaf).map(store).is_some()
    }

    fn sit_out_flag(&self, leaf: Guid) -> Option<&AtomicBool> {
        let leaf = *self.tree.leaf_of.get(&leaf)?;
        let is_below = |slot: &Slot| slot.sources.contains(&Source::Leaf(leaf));
        let mut striped = self.tree.tops.iter().flat_map(|top| match &top.layout {
            Layout::Raidz { slots, .. } | Layout::Draid { slots, .. } => &slots[..],
            _ => &[],
        });
        let flag = &*self.tree.leaves[leaf].sits_out;
        striped.any(is_below).then_some(flag)
    }

    /// Resets the errors of a leaf, or of all: counters restart at zero, and faulted leaves are
    /// used again. What they missed meanwhile stays noted.
    pub fn clear_errors(&self, leaf: Option<Guid>) {
        for (index, node) in self.tree.nodes.iter().enumerate() {
            if leaf.is_some_and(|leaf| leaf != node.guid && index != 0) {
                continue;
            }
            let leaf = node.leaf.map(|leaf| &self.tree.leaves[leaf]);
            if let Some(leaf) = leaf {
                leaf.written.clear();
            }
            let counters = leaf.map(|leaf| &*leaf.counters);
            let counters = counters.or(node.counters.as_deref());
            if let Some(counters) = counters {
                counters.clear_errors();
            }
        }
    }

    /// Leaves that were given up for their failures, log devices aside, with the labels that their
    /// open devices have now.
    pub fn given_up(&self) -> Vec<(Guid, DeviceLabels)> {
        let leaves = self.tree.leaves.iter().enumerate();
        let given_up = leaves.filter_map(|(index, leaf)| {
            let is_meant = leaf.written.is_faulted() && leaf.state.is_readable();
            let device = leaf.device.as_ref().filter(|_| is_meant)?;
            let is_log = self.is_of_log(index);
            (!is_log).then(|| {
                (
                    self.guid_of_leaf(index),
                    DeviceLabels::read(&leaf.drilled(device.as_ref()).probing()),
                )
            })
        });
        given_up.collect()
    }

    /// Leaves in use whose devices do not answer.
    pub fn silent_leaves(&self) -> Vec<Guid> {
        let silent = self.silent(|_| true).into_iter();
        silent
            .map(|leaf| self.tree.nodes[self.tree.leaves[leaf].node].guid)
            .collect()
    }

    /// Whether a top-level vdev can no longer be read from if leaves that do not answer count as
    /// failed.
    pub fn has_gone(&self, vdev: VdevId) -> bool {
        let node = self.top(vdev).map(|top| top.node);
        node.is_some_and(|node| {
            let silent = self.silent(|leaf| self.top_of_leaf(leaf) == node);
            let (now, then) = (self.states(), self.states_without(&silent));
            // Devices that strayed do not count as there already.
            let strayed = |leaf: &usize| self.tree.leaves[*leaf].access.strayed().is_some();
            let was_there = now[node].0.is_readable() || silent.iter().any(strayed);
            was_there && !then[node].0.is_readable()
        })
    }

    /// Those of some leaves whose devices are open and cannot be read at their very beginning.
    fn silent(&self, is_asked: impl Fn(usize) -> bool) -> HashSet<usize> {
        let has_device = |leaf: &usize| self.tree.leaves[*leaf].device.is_some();
        let leaves: Vec<usize> = (0..self.tree.leaves.len())
            .filter(|leaf| has_device(leaf) && is_asked(*leaf))
            .collect();
        let silent = self.on_leaves(&leaves, |leaf| self.tree.leaves[leaf].probe());
        silent.into_iter().map(|(leaf, _)| leaf).collect()
    }

    /// Accepts other devices for these leaves, which have of earlier writes what `kept` says.
    ///
    /// # Errors
    /// If blocks are lost with that; then nothing has changed.
    pub(crate) fn accept<'a>(
        &self,
        kept: &Kept,
        leaves: impl Iterator<Item = &'a Guid> + Clone,
    ) -> Result<(), VdevError> {
        let lacking = leaves.clone().filter(|leaf| kept.lacking.contains(leaf));
        let lacking = lacking.filter_map(|guid| self.tree.leaf_of.get(guid).copied());
        let lacking: HashSet<usize> = lacking.collect();
        let has_unflushed = |leaf: &usize| self.tree.leaves[*leaf].written.has_arrived();
        if kept.is_lost || self.would_fail(&lacking) {
            let mut failures = LeafFailures::default();
            let all = leaves.filter_map(|guid| self.tree.leaf_of.get(guid).copied());
            let blamed: Vec<usize> = match lacking.is_empty() {
                true => all.collect(),
                false => lacking.into_iter().collect(),
            };
            for leaf in blamed {
                let problem = match has_unflushed(&leaf) {
                    true => LeafProblem::Unflushed,
                    false => LeafProblem::OlderCopy,
                };
                self.note(&mut failures, leaf, problem);
            }
            return Err(VdevError::Unflushed { failures });
        }
        let forgotten = self.forget_unflushed(leaves.clone());
        if forgotten.is_err() && kept.is_unknown {
            return forgotten;
        }
        self.accept_losses(leaves);
        Ok(())
    }

    /// Counts what these leaves were given since their last flush as missed.
    ///
    /// # Errors
    /// If blocks may be lost with that; then nothing has changed.
    pub(crate) fn forget_unflushed<'a>(
        &self,
        leaves: impl Iterator<Item = &'a Guid>,
    ) -> Result<(), VdevError> {
        let leaves = leaves.filter_map(|guid| self.tree.leaf_of.get(guid).copied());
        let unflushed = leaves.filter(|leaf| self.tree.leaves[*leaf].written.has_arrived());
        let unflushed: Vec<usize> = unflushed.collect();
        if self.would_fail(&unflushed.iter().copied().collect()) {
            let mut failures = LeafFailures::default();
            for leaf in unflushed {
                self.note(&mut failures, leaf, LeafProblem::Unflushed);
            }
            return Err(VdevError::Unflushed { failures });
        }
        for leaf in unflushed {
            self.tree.leaves[leaf].forget_unflushed();
        }
        Ok(())
    }

    /// Lets a leaf's device go: nothing more is written to it, and what was is flushed.
    pub(crate) fn let_go(&self, leaf: usize) -> Option<LeftLeaf> {
        let leaf = &self.tree.leaves[leaf];
        let device = Arc::clone(leaf.device.as_ref()?);
        leaf.access.end();
        leaf.missed.note_outage();
        // If that fails, the leaf has missed it, wherever it goes.
        let _ = leaf.flush_left(device.as_ref());
        Some(LeftLeaf {
            leaf: self.tree.nodes[leaf.node].guid,
            device,
        })
    }

    /// Lets others open the devices for writing.
    pub fn unlock(&self) {
        for leaf in &self.tree.leaves {
            if let Some(device) = &leaf.device {
                device.unlock();
            }
        }
    }

    /// Does something with several leaves at once; returns those that failed.
    ///
    /// One thread for each, because what is done here waits for devices: seldom and long.
    pub(crate) fn on_leaves(
        &self,
        leaves: &[usize],
        act: impl Fn(usize) -> Result<(), LeafProblem> + Sync,
    ) -> Vec<(usize, LeafProblem)> {
        let act = &act;
        let failed = |leaf: usize| act(leaf).err().map(|problem| (leaf, problem));
        let Some((last, others)) = leaves.split_last() else {
            return Vec::new();
        };
        rt::scope(|scope| {
            let threads: Vec<_> = others
                .iter()
                .map(|leaf| scope.spawn(move || failed(*leaf)))
                .collect();
            let mut failures: Vec<_> = failed(*last).into_iter().collect();
            for thread in threads {
                failures.extend(thread.join().expect("device calls do not panic"));
            }
            failures
        })
    }
}
