//! The tree of a pool while one side of each of its mirrors becomes a pool of its own.
//!
//! It is done in three steps, each of which is on disk before the next begins (format/1a 2):
//!
//! 1. The sides are offline, and the configuration lists them: what is written from now on they
//!    do not get.
//! 2. The sides are opened as the pool that they hold, and become another one (`split_off`).
//! 3. They leave the tree.
//!
//! An import of a pool that lists such sides finds out how far the split got. If the labels of all
//! of them belong to another pool, the third step is carried out. If not, they are taken back and
//! resilvered. If one of them is missing, the decision is postponed.
//!
//! Log devices stay with the old pool, and holes take their places in the new one. So when the
//! sides get their last group, no intent log may lead to a log device: before the first step open
//! datasets leave them, and write their logs to the mirrors until the sides are offline. A log that
//! waits for its replay cannot leave. It is what `fsync` promised, so the split is refused.

use super::change::Plan;
use super::done::take_out;
use super::edit::{find_mut, hole, parent};
use super::error::ChangeError;
use super::spared::Silent;
use crate::pool::Pool;
use crate::sync::Actor;
use cenote_base::{Guid, ObjectId};
use cenote_device::Device;
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_vdev::{DeviceLabels, DtlKind, Shape};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Whether a side can become a pool: it is complete, and its mirror works without it.
fn check_side(
    root: &VdevConfig,
    side: &VdevConfig,
    (shape, silent): (&Shape, &Silent),
) -> Result<(), ChangeError> {
    let is_empty = |kind| {
        let log = shape.dtl_of(side.guid, kind);
        log.is_some_and(|txgs| txgs.is_empty())
    };
    let is_whole = side.is_leaf_device()
        && shape.is_writable(side.guid)
        && !silent.has(side.guid)
        && is_empty(DtlKind::Missing)
        && is_empty(DtlKind::Outage);
    if !is_whole {
        let path = side.path.clone().unwrap_or_default();
        return Err(ChangeError::NotWhole { path });
    }
    silent.check(root, shape, side.guid)
}

/// The side of each mirror that goes: the one that is named, or the last.
fn sides(
    root: &VdevConfig,
    now: (&Shape, &Silent),
    named: &[Guid],
) -> Result<Vec<Guid>, ChangeError> {
    let mut sides = Vec::new();
    for top in &root.children {
        match top.kind {
            VdevKind::Hole | VdevKind::Indirect => continue,
            _ if top.is_log => continue,
            VdevKind::Mirror => {}
            _ => return Err(ChangeError::NotOnlyMirrors),
        }
        // One that is being replaced, or has a spare beside it, is no whole side.
        if let Some(pair) = top.children.iter().find(|side| !side.children.is_empty()) {
            let path = pair.leaves().find_map(|leaf| leaf.path.clone());
            let path = path.unwrap_or_default();
            return Err(ChangeError::NotWhole { path });
        }
        let is_named = |side: &&VdevConfig| named.contains(&side.guid);
        let mut wanted = top.children.iter().filter(is_named);
        let side = match (wanted.next(), wanted.next()) {
            (Some(_), Some(_)) => return Err(ChangeError::TwoSides),
            (Some(side), None) => side,
            _ => top.children.last().ok_or(ChangeError::NotOnlyMirrors)?,
        };
        check_side(root, side, now)?;
        sides.push(side.guid);
    }
    match named.iter().all(|named| sides.contains(named)) {
        true => Ok(sides),
        false => Err(ChangeError::NoDevice),
    }
}

/// The log vdevs of a tree.
pub(crate) fn logs_of(root: &VdevConfig) -> impl Iterator<Item = &VdevConfig> {
    let tops = root.children.iter();
    tops.filter(|top| top.is_log && top.kind.is_concrete())
}

/// The tree of the pool that the sides become: each is in the place of its mirror, with holes in
/// the places of logs.
pub(crate) fn without_other_sides(
    root: &VdevConfig,
    sides: &[Guid],
) -> Result<VdevConfig, ChangeError> {
    let mut root = root.clone();
    for top in root.children.iter_mut().filter(|top| top.is_log) {
        *top = hole(top.id.unwrap_or_default());
    }
    let others = root.leaves().filter(|leaf| {
        let above = parent(&root, leaf.guid);
        let is_side = above.is_some_and(|above| above.kind == VdevKind::Mirror);
        is_side && !sides.contains(&leaf.guid)
    });
    let others: Vec<Guid> = others.map(|leaf| leaf.guid).collect();
    for other in others {
        take_out(&mut root, other)?;
    }
    for side in sides {
        let leaf = find_mut(&mut root, *side).ok_or(ChangeError::NoDevice)?;
        leaf.state.offline = false;
    }
    Ok(root)
}

/// The pool that the labels of a side being split off belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The old pool: some label is not the new pool's.
    Own,
    /// The new pool has it.
    Taken,
}

impl Pool {
    /// The sides that a split takes.
    pub(crate) fn check_split(&self, named: &[Guid]) -> Result<Vec<Guid>, ChangeError> {
        self.refuse_with_checkpoint()?;
        let root = self.vdev_tree();
        let sides = sides(&root, (&self.vdevs(), &self.ask_all()), named)?;
        // Datasets that are open leave the log devices by themselves.
        let open: HashSet<ObjectId> = self
            .dsl()
            .open_heads()
            .iter()
            .map(|head| head.id())
            .collect();
        for log in logs_of(&root) {
            let is_closed = |head| !open.contains(&head);
            // What cannot be read matters only if the device is not empty without open datasets.
            match self.refuse_logs_on(log.id.unwrap_or_default(), is_closed) {
                Err(error @ ChangeError::LogNeeded { .. }) => return Err(about_log(log, error)),
                Err(ChangeError::LogsUnknown { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sides)
    }

    /// Takes the sides that are to become a pool out of use; they have everything until now.
    pub(crate) fn begin_split(&self, named: &[Guid]) -> Result<Vec<Guid>, ChangeError> {
        let chosen = self.check_split(named)?;
        let root = self.vdev_tree();
        let logs: Vec<VdevConfig> = logs_of(&root).cloned().collect();
        // Until the sides are offline: what they get must lead to no log device.
        self.while_closed(&logs, || {
            for log in &logs {
                let id = log.id.unwrap_or_default();
                let checked = self
                    .check_unused_log(id)
                    .and_then(|()| self.check_tables(id));
                checked.map_err(|error| about_log(log, error))?;
            }
            self.take_sides(named, chosen, &logs)
        })
    }

    /// Takes the sides out of use, unless there are other logs than these meanwhile.
    fn take_sides(
        &self,
        named: &[Guid],
        chosen: Vec<Guid>,
        logs: &[VdevConfig],
    ) -> Result<Vec<Guid>, ChangeError> {
        self.sync()?;
        let silent = self.ask_all();
        let (named, expected) = (named.to_vec(), chosen.clone());
        let left: Vec<Guid> = logs.iter().map(|log| log.guid).collect();
        self.change_tree((&Actor::default(), ""), move |root, shape, _| {
            let sides = sides(root, (shape, &silent), &named)?;
            if sides != expected || logs_of(root).any(|log| !left.contains(&log.guid)) {
                return Err(ChangeError::NoDevice);
            }
            let mut plan = Plan::new(root.clone());
            for side in &sides {
                let leaf = find_mut(&mut plan.root, *side).ok_or(ChangeError::NoDevice)?;
                leaf.state.offline = true;
            }
            plan.split = Some(sides);
            Ok(plan)
        })?;
        Ok(chosen)
    }

    /// The sides are another pool's.
    pub(crate) fn finish_split(
        &self,
        sides: &[Guid],
        detail: String,
        by: (&Actor, &str),
    ) -> Result<(), ChangeError> {
        let sides = sides.to_vec();
        self.change_tree(by, move |root, _, _| {
            let mut plan = Plan::new(root.clone());
            for side in sides {
                // A user may have taken it out already.
                if plan.root.leaves().any(|leaf| leaf.guid == side) {
                    take_out(&mut plan.root, side)?;
                }
            }
            plan.split = Some(Vec::new());
            plan.note = Some(("split", detail));
            Ok(plan)
        })
    }

    /// The sides did not become a pool: they are used again.
    pub(crate) fn take_back_split(&self, sides: &[Guid]) -> Result<(), ChangeError> {
        let mut opened: HashMap<Guid, Arc<dyn Device>> = HashMap::new();
        let mut missed = Vec::new();
        let shape = self.vdevs();
        for leaf in self.vdev_tree().leaves() {
            let Some(path) = leaf.path.as_ref().filter(|_| sides.contains(&leaf.guid)) else {
                continue;
            };
            if shape.is_open(leaf.guid) {
                continue;
            }
            let device = self.options().opener.open_writable(path)?;
            let labels = DeviceLabels::read(device.as_ref());
            if side_of(&labels, (self.guid(), leaf.guid)) != Some(Side::Own) {
                return Err(ChangeError::NoDevice);
            }
            missed.push((leaf.guid, self.missed_by(leaf.guid, &labels)));
            opened.insert(leaf.guid, device);
        }
        let sides = sides.to_vec();
        self.change_tree((&Actor::default(), ""), move |root, _, _| {
            let mut plan = Plan::new(root.clone());
            for side in sides {
                if let Some(leaf) = find_mut(&mut plan.root, side) {
                    leaf.state.offline = false;
                }
            }
            plan.devices = opened;
            plan.missed = missed;
            plan.split = Some(Vec::new());
            Ok(plan)
        })?;
        self.bring_what_is_missed()
    }

    /// Ends a split that did not come to its end, one way or the other.
    pub(crate) fn settle_split(&self) {
        let sides = self.config().split_leaves.clone();
        if sides.is_empty() || self.options().becomes.is_some() {
            return;
        }
        let tree = self.vdev_tree();
        let leaves = tree.leaves();
        let out: Vec<_> = leaves
            .filter(|leaf| sides.contains(&leaf.guid) && leaf.state.offline)
            .map(|leaf| (leaf.guid, leaf.path.clone()))
            .collect();
        let found: Option<Vec<Side>> = out
            .iter()
            .map(|(side, path)| self.look_at_side(*side, path.as_ref()))
            .collect();
        let Some(found) = found else { return };
        let sides: Vec<Guid> = out.into_iter().map(|(side, _)| side).collect();
        let settled = match found.iter().all(|side| *side == Side::Taken) {
            true => {
                let detail = format!("interrupted, pool {}", self.name());
                self.finish_split(&sides, detail, (&Actor::default(), ""))
            }
            false => self.take_back_split(&sides),
        };
        // The next import tries again, and meanwhile the sides are offline.
        drop(settled);
    }

    fn look_at_side(&self, side: Guid, path: Option<&PathBuf>) -> Option<Side> {
        if self.vdevs().is_open(side) {
            return Some(Side::Own);
        }
        let device = self.options().opener.open(path?).ok()?;
        side_of(&DeviceLabels::read(device.as_ref()), (self.guid(), side))
    }
}

/// Adds the log device to an error.
fn about_log(log: &VdevConfig, error: ChangeError) -> ChangeError {
    let paths = log.leaves().filter_map(|leaf| leaf.path.as_ref());
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    ChangeError::LogDevice {
        log: paths.join(" "),
        source: Box::new(error),
    }
}

/// The pool of a side's device; `None` if it is not that side.
fn side_of(labels: &DeviceLabels, (pool, side): (Guid, Guid)) -> Option<Side> {
    let configs = labels
        .labels
        .iter()
        .filter_map(|label| label.config.as_ref());
    let configs: Vec<_> = configs.collect();
    if configs.is_empty() || configs.iter().any(|config| config.guid != Some(side)) {
        return None;
    }
    // The new pool may have been imported meanwhile, and its labels not name its origin any more.
    let is_taken = |config: &&cenote_ondisk::PoolConfig| config.pool_guid != Some(pool);
    let all_taken = configs.iter().all(is_taken) && configs.len() == labels.labels.len();
    Some(if all_taken { Side::Taken } else { Side::Own })
}
