//! Which log devices may lack blocks that logs lead to.
//!
//! A chain of log blocks ends where a block is not valid, and nothing else says where. So what a
//! log device does not have cannot be told from the end of a log by the chain alone. Three things
//! tell more:
//!
//! - A device that is missing has none of its blocks.
//! - A side of a mirror that missed groups was away. If the other side is missing now, what went
//!   there last is (`Shape::may_lack_logs`).
//! - Every device that is there gets the labels of a group before any device gets its uberblock. So
//!   one with older labels was away since, or is a copy from before. If it was away, no log leads
//!   to it by blocks that were allocated later: logs use devices that are there.
//!
//! OpenZFS writes the labels of some devices only, so its labels say nothing of that; ours have a
//! mark ([`Previous`](cenote_ondisk::pool_config::Previous)). Deliberately absent is what would
//! tell a copy that was made after the last labels: log devices get uberblocks with labels only.

use crate::error::MissingVdev;
use crate::import::candidate::PoolCandidate;
use crate::import::label_tree::config_of;
use crate::import::missing::missing_leaves;
use cenote_base::{Guid, Txg, VdevId};
use cenote_intent_log::Chain;
use cenote_ondisk::{BlockPointer, VdevConfig};
use std::collections::{BTreeMap, HashSet};

/// What is known of a pool's log devices at an import.
#[derive(Debug, Default)]
pub(crate) struct LogDevices {
    /// Log vdevs that have no labels of this group, which all others have.
    outdated: BTreeMap<VdevId, Txg>,
    logs: Vec<VdevConfig>,
    found: HashSet<Guid>,
}

impl LogDevices {
    /// Looks at the labels of what was found for `tree`, of which `opened` is the last group.
    pub fn new(candidate: &PoolCandidate, tree: &VdevConfig, opened: Txg) -> Self {
        let configs = candidate.members.iter();
        let configs: Vec<_> = configs.filter_map(|member| config_of(member)).collect();
        let marked = configs.iter().filter(|config| config.previous.is_some());
        let labelled = marked.filter_map(|config| config.txg);
        let newest = labelled.filter(|txg| *txg <= opened).max();
        let logs: Vec<VdevConfig> = tree
            .children
            .iter()
            .filter(|top| top.is_log)
            .cloned()
            .collect();
        let newest_of = |top: &VdevConfig| {
            let is_its = |leaf: Option<Guid>| top.leaves().any(|found| Some(found.guid) == leaf);
            let its = configs.iter().filter(|config| is_its(config.guid));
            its.filter_map(|config| config.txg).max()
        };
        let outdated = logs.iter().filter_map(|top| {
            let (newest, own) = newest.zip(newest_of(top))?;
            (own < newest).then_some((top.id?, newest))
        });
        Self {
            outdated: outdated.collect(),
            found: configs.iter().filter_map(|config| config.guid).collect(),
            logs,
        }
    }

    /// Whether what comes next in a chain may be on a device that is missing or outdated.
    pub fn may_lack(&self, chain: &Chain) -> bool {
        let end = chain.end();
        let is_outdated = |vdev| {
            let since = self.outdated.get(&vdev);
            since.is_some_and(|since| end.physical_birth() > *since)
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
