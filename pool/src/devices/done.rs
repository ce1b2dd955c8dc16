//! What follows when a device has all that it was to get: what it replaced leaves, and a spare
//! goes back when what it stood in for is well again.

use super::change::{Plan, carry_out};
use super::edit::{find_mut, leave, parent};
use super::error::ChangeError;
use crate::sync::{Actor, Syncer};
use cenote_base::Guid;
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_vdev::{DtlKind, Shape};
use std::sync::Arc;

/// The vdev that has another in its place, and that other one: `(old, new)`.
fn pair(vdev: &VdevConfig) -> Option<(Guid, Guid)> {
    let (first, last) = (vdev.children.first()?, vdev.children.last()?);
    if first.guid == last.guid {
        return None;
    }
    match vdev.kind {
        VdevKind::Replacing => Some((first.guid, last.guid)),
        VdevKind::Spare if last.state.unspare => Some((first.guid, last.guid)),
        VdevKind::Spare if first.state.unspare => Some((last.guid, first.guid)),
        _ => None,
    }
}

/// The leaf that leaves for a pair's old vdev. What is below another pair is decided there, but for
/// a spare that came while its device was being replaced: with the replacement both are done, the
/// spare first.
fn leaving(root: &VdevConfig, old: Guid) -> Option<Guid> {
    let above = parent(root, old)?;
    let old = above.children.iter().find(|vdev| vdev.guid == old)?;
    let is_spared = old.kind == VdevKind::Spare && above.kind == VdevKind::Replacing;
    let is_single = old.children.is_empty() || is_spared;
    old.leaves()
        .last()
        .filter(|_| is_single)
        .map(|leaf| leaf.guid)
}

/// The next device that may leave, and what it leaves for.
fn next(root: &VdevConfig, shape: &Shape) -> Option<(Guid, Guid)> {
    let lacks_nothing = |vdev: Guid| {
        let is_empty = |kind| shape.dtl_of(vdev, kind).is_some_and(|txgs| txgs.is_empty());
        is_empty(DtlKind::Missing) && is_empty(DtlKind::Outage)
    };
    let pairs = root.walk().filter_map(pair);
    let mut ready = pairs.filter_map(|(old, new)| {
        let leaf = leaving(root, old)?;
        let is_ready = lacks_nothing(new) && !shape.is_required(leaf);
        is_ready.then_some((leaf, new))
    });
    ready.next()
}

/// Takes out all devices whose time has come.
pub(crate) fn detach_replaced(
    context: &SyncContext<'_>,
    syncer: &Arc<Syncer>,
) -> Result<(), DslError> {
    // Each round takes a leaf out of the tree.
    loop {
        let root = syncer.config().config.vdev_tree.clone();
        let Some(mut root) = root else {
            return Ok(());
        };
        let Some((old, new)) = next(&root, &syncer.vdevs.shape()) else {
            return Ok(());
        };
        let left = take_out(&mut root, old);
        mark_spared(&mut root, new);
        let detail = left.map_err(|error| DslError::Format {
            reason: error.to_string(),
        })?;
        let mut plan = Plan::new(root);
        plan.note = Some(("detach", detail));
        match carry_out(context, syncer, plan, &Actor::default()) {
            Ok(()) => {}
            Err(ChangeError::Dsl(error)) => return Err(error),
            Err(error) => {
                let reason = error.to_string();
                return Err(DslError::Format { reason });
            }
        }
    }
}

/// Marks the replacement of a device that has an active spare: when it is complete, the spare is
/// released.
fn mark_spared(root: &mut VdevConfig, new: Guid) {
    let group = parent(root, new).filter(|group| group.kind == VdevKind::Spare);
    let is_first = group.is_some_and(|group| {
        group
            .children
            .first()
            .is_some_and(|child| child.guid == new)
    });
    if let Some(leaf) = find_mut(root, new).filter(|_| is_first) {
        leaf.state.unspare = true;
    }
}

/// Takes a leaf out. Returns the text for the history.
pub(super) fn take_out(root: &mut VdevConfig, leaf: Guid) -> Result<String, ChangeError> {
    let group = parent(root, leaf).map(|group| (group.kind.clone(), group.children.clone()));
    let gone = leave(root, leaf)?;
    if let Some((VdevKind::Spare, siblings)) = group {
        for sibling in siblings.iter().filter(|sibling| sibling.guid != leaf) {
            if let Some(sibling) = find_mut(root, sibling.guid) {
                sibling.state.unspare = false;
            }
        }
    }
    let path = gone.path.unwrap_or_default();
    // A device that was replaced in its own place has this suffix, to distinguish it from the new
    // one.
    let name = path.display().to_string();
    let place = name.strip_suffix(super::join::OLD).unwrap_or(&name);
    Ok(format!("vdev={place}"))
}

/// [`detach_replaced`] as a task of its own.
pub(crate) struct DetachReplaced {
    pub syncer: Arc<Syncer>,
}

impl SyncTask for DetachReplaced {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let syncer = Arc::clone(&self.syncer);
        detach_replaced(context, &syncer)
    }
}
