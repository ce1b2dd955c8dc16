//! Finding log devices that may lack blocks of intent logs.
//!
//! A chain of log blocks ends at the first invalid block; nothing else marks its end. So the chain
//! alone does not show that a log device lacks blocks. Five things help:
//!
//! - A missing device has none of its blocks.
//! - A mirror side that missed groups was away. If the other side is missing now, the last blocks
//!   are missing, too (`Shape::may_lack_logs`).
//! - Log devices get the uberblock of every group before other devices do. So a log device without
//!   the newest one of the others was away since, or is an older copy. If the pool was written by
//!   software that does not do so, the labels decide ([`crate::import::required`]).
//! - A failed device gets no more uberblocks, and nothing more is promised there. Before the others
//!   get the next uberblock, their labels name the failed device and its last group. If it has that
//!   group, it is as the pool left it.
//! - The pool keeps the last groups of a device that was away. No log leads to it by blocks that
//!   were allocated later: logs use present devices. An older copy may lack any block.
//!
//! Deliberately absent: detecting a copy that was made after the last group.

use crate::error::MissingVdev;
use crate::import::candidate::PoolCandidate;
use crate::import::label_tree::config_of;
use crate::import::lineage::Groups;
use crate::import::missing::missing_leaves;
use crate::import::required::Required;
use cenote_base::{Guid, Txg, VdevId};
use cenote_intent_log::Chain;
use cenote_ondisk::{BlockPointer, VdevConfig};
use cenote_vdev::Member;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Why a log vdev is not as the pool left it.
#[derive(Clone, Copy, Debug)]
enum Outdated {
    /// It was away since this group.
    Away(Txg),
    /// It is a copy from before.
    Older,
}

/// What is known of a pool's log devices at an import.
#[derive(Debug, Default)]
pub(crate) struct LogDevices {
    outdated: BTreeMap<VdevId, Outdated>,
    logs: Vec<VdevConfig>,
    found: HashSet<Guid>,
}

impl LogDevices {
    /// Looks at the labels of what was found for `tree`. `away` are the last groups of devices that
    /// are away.
    pub fn new(
        candidate: &PoolCandidate,
        tree: &VdevConfig,
        away: &BTreeMap<Guid, Groups>,
    ) -> Self {
        let required = Required::of(candidate, tree);
        let guid = |member: &Arc<Member>| config_of(member)?.guid;
        let logs = tree.children.iter().filter(|top| top.is_log);
        let outdated = |top: &VdevConfig| {
            let is_its = |leaf: Guid| top.leaves().any(|below| below.guid == leaf);
            let its = candidate.members.iter();
            let its = its.filter_map(|member| Some((guid(member)?, member)));
            let its: Vec<_> = its.filter(|(leaf, _)| is_its(*leaf)).collect();
            let mut late = its
                .iter()
                .map(|(_, member)| required.is_outdated(&member.labels));
            if its.is_empty() || late.any(|is_outdated| !is_outdated) {
                return None;
            }
            let leaves = top.leaves().filter(|leaf| leaf.is_leaf_device());
            let rested = leaves.map(|leaf| required.rested_after(leaf.guid));
            let rested: Option<Vec<Txg>> = rested.collect();
            let rested = rested.and_then(|rested| rested.into_iter().max());
            let whole = its.iter();
            let whole = whole.map(|(_, member)| member.labels.whole_until(Txg(u64::MAX)));
            if rested.is_some_and(|rested| whole.max() >= Some(rested)) {
                return None;
            }
            let since = its.iter().map(|(leaf, member)| {
                let kept = away.get(leaf)?.keys().next_back()?;
                Some(member.labels.whole_until(*kept))
            });
            let since: Option<Vec<Txg>> = since.collect();
            let since = since.and_then(|since| since.into_iter().max());
            Some((top.id?, since.map_or(Outdated::Older, Outdated::Away)))
        };
        Self {
            outdated: logs.clone().filter_map(outdated).collect(),
            found: candidate.members.iter().filter_map(guid).collect(),
            logs: logs.cloned().collect(),
        }
    }

    /// Whether devices of log vdevs are missing.
    pub fn are_missing(&self) -> bool {
        let mut leaves = self.logs.iter().flat_map(VdevConfig::leaves);
        leaves.any(|leaf| leaf.is_leaf_device() && !self.found.contains(&leaf.guid))
    }

    /// Whether what comes next in a chain may be on a device that is missing or outdated.
    pub fn may_lack(&self, chain: &Chain) -> bool {
        let end = chain.end();
        let is_outdated = |vdev| match self.outdated.get(&vdev) {
            None => false,
            Some(Outdated::Older) => true,
            Some(Outdated::Away(since)) => end.physical_birth() > *since,
        };
        chain.is_gone() || !end.is_hole() && end.dvas().all(|dva| is_outdated(dva.vdev()))
    }

    /// The devices of the log vdevs that a block is on: those that are missing, or all.
    pub fn of(&self, block: &BlockPointer) -> Vec<MissingVdev> {
        let on = |top: &&VdevConfig| block.dvas().any(|dva| Some(dva.vdev()) == top.id);
        let tops = || self.logs.iter().filter(on);
        let missing = tops().flat_map(|top| missing_leaves(top, |leaf| self.found.contains(&leaf)));
        let missing: Vec<MissingVdev> = missing.collect();
        match missing.is_empty() {
            true => tops()
                .flat_map(|top| missing_leaves(top, |_| false))
                .collect(),
            false => missing,
        }
    }
}
