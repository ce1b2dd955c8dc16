//! A change of the vdev tree in a transaction group.
//!
//! The group that changes the tree writes the configuration and the labels of all leaves; until its
//! uberblock is written the old ones are valid. A new leaf counts as missing everything up to the
//! last open group, and its log is stored with the same group. A removed device is released when it
//! gets no more writes, and its labels are cleared once the group is on disk: if the pool crashes
//! before, it still has the device.

use super::edit::find_mut;
use super::error::ChangeError;
use crate::create::{VdevZaps, remove_auxiliary};
use crate::rebuild::begin as begin_rebuild;
use crate::sync::{Actor, Syncer, log_command, log_event};
use cenote_base::{Guid, ObjectId, Txg};
use cenote_device::Device;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, directory_keys as keys};
use cenote_ondisk::{VdevConfig, features};
use cenote_vdev::{Reshape, Shape, TxgSet};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The first group that a new leaf can have missed something of (format/1c 7).
const FIRST: Txg = Txg(4);
/// Groups that may be under way when a leaf comes in, its own included.
const UNDER_WAY: u64 = 3;

/// How the tree is to be, and what else follows.
pub(crate) struct Plan {
    pub root: VdevConfig,
    /// Devices of leaves that come in, or come back.
    pub devices: HashMap<Guid, Arc<dyn Device>>,
    /// What leaves that come back missed beside what their logs say.
    pub missed: Vec<(Guid, TxgSet)>,
    /// Leaves that have nothing yet.
    pub new: Vec<Guid>,
    /// A spare that is none any more.
    pub spare_used: Option<Guid>,
    /// Leaves that are being split off from now on, if that changes.
    pub split: Option<Vec<Guid>>,
    /// A new leaf that is brought what it misses in the order of the disk.
    pub rebuild: Option<Guid>,
    /// The event and its detail for the history.
    pub note: Option<(&'static str, String)>,
}

impl Plan {
    pub fn new(root: VdevConfig) -> Self {
        Self {
            root,
            devices: HashMap::new(),
            missed: Vec::new(),
            new: Vec::new(),
            spare_used: None,
            split: None,
            rebuild: None,
            note: None,
        }
    }
}

/// Makes the plan from the tree as it is when the group is written.
type Planner = Box<dyn FnOnce(&VdevConfig, &Shape, Txg) -> Result<Plan, ChangeError> + Send>;

/// A change of the tree as a task.
pub(super) struct ChangeTree {
    pub syncer: Arc<Syncer>,
    pub actor: Actor,
    /// Noted in the history if the change is made; empty for none.
    pub command: String,
    pub planner: Option<Planner>,
    pub refusal: Option<ChangeError>,
}

/// What a leaf that comes in during `txg` has missed.
fn all_before(txg: Txg) -> TxgSet {
    TxgSet::from_ranges([FIRST..Txg(txg.0.saturating_add(UNDER_WAY))])
}

/// Carries out a plan in the group that is being written.
pub(crate) fn carry_out(
    context: &SyncContext<'_>,
    syncer: &Arc<Syncer>,
    mut plan: Plan,
    actor: &Actor,
) -> Result<(), ChangeError> {
    let before = syncer.config().config.vdev_tree.clone();
    let before = before.ok_or(ChangeError::NoDevice)?;
    let missed = plan
        .new
        .iter()
        .map(|leaf| (*leaf, all_before(context.txg())));
    let mut missed: Vec<_> = missed.collect();
    missed.append(&mut plan.missed);
    // Nothing that is on its way may find its device gone.
    syncer.pipeline.arrive();
    let left = syncer.vdevs.reshape(&Reshape {
        root: &plan.root,
        devices: &plan.devices,
        missed: &missed,
    })?;
    let stays: HashSet<Guid> = plan.root.leaves().map(|leaf| leaf.guid).collect();
    if syncer.config().config.has_per_vdev_zaps && !plan.new.is_empty() {
        let zaps = VdevZaps::open(context)?;
        for leaf in &plan.new {
            find_mut(&mut plan.root, *leaf).map_or(Ok(()), |leaf| zaps.leaf(leaf))?;
        }
    }
    if let Some(leaf) = plan.rebuild {
        let below = Txg(context.txg().0.saturating_add(UNDER_WAY));
        begin_rebuild(context, &plan.root, leaf, below)?;
    }
    for gone in before.leaves().filter(|leaf| !stays.contains(&leaf.guid)) {
        forget(context, gone)?;
    }
    if let Some(spare) = plan.spare_used {
        remove_auxiliary(context, keys::SPARES, spare)?;
    }
    let mut config = syncer.config();
    config.temporary.retain(|leaf| stays.contains(leaf));
    config.config.vdev_tree = Some(plan.root);
    if let Some(leaves) = plan.split {
        config.config.split_leaves = leaves;
    }
    config.touch();
    drop(config);
    syncer.tree_changed(left);
    if let Some((event, detail)) = &plan.note {
        log_event(context, actor, event, detail)?;
    }
    Ok(())
}

/// Frees what the pool keeps for a leaf: its table and its log.
pub(crate) fn forget(context: &SyncContext<'_>, leaf: &VdevConfig) -> Result<(), DslError> {
    if let Some(zap) = leaf.leaf_zap {
        VdevZaps::open(context)?.remove(zap)?;
    }
    if let Some(log) = leaf.dtl {
        free_log(context, log)?;
    }
    Ok(())
}

fn free_log(context: &SyncContext<'_>, log: ObjectId) -> Result<(), DslError> {
    context.mos().free(context.tx, log)?;
    let enabled = context.dsl.features();
    if enabled.get(features::SPACEMAP_HISTOGRAM).is_some() {
        context.feature_changed(features::SPACEMAP_HISTOGRAM, -1)?;
    }
    Ok(())
}

impl SyncTask for ChangeTree {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let root = self.syncer.config().config.vdev_tree.clone();
        let (Some(root), Some(planner)) = (root, self.planner.take()) else {
            return Ok(());
        };
        let shape = self.syncer.vdevs.shape();
        let plan = planner(&root, &shape, context.txg());
        let done = plan.and_then(|plan| carry_out(context, &self.syncer, plan, &self.actor));
        match done {
            Ok(()) if self.command.is_empty() => Ok(()),
            Ok(()) => log_command(context, &self.actor, &self.command),
            Err(ChangeError::Dsl(error)) => Err(error),
            Err(refusal) => {
                self.refusal = Some(refusal);
                Ok(())
            }
        }
    }
}
