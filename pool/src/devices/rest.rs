//! Devices that are not to be used for a while, and their return.

use super::change::{ChangeTree, Plan};
use super::done::DetachReplaced;
use super::edit::{find_mut, leaf, parent, top};
use super::error::ChangeError;
use super::spared::Silent;
use crate::absence::returning::Returned;
use crate::pool::Pool;
use crate::sync::Actor;
use cenote_base::{Guid, Txg};
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_vdev::Shape;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Groups to wait for before a resilver: one more than the open groups that a new leaf may have
/// missed.
const GROUPS_WAITED_MAX: u32 = 5;

/// How a device is taken out of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offline {
    /// Only until the pool is next imported.
    pub is_temporary: bool,
    /// It counts as faulted, until its errors are cleared.
    pub is_fault: bool,
}

impl Pool {
    /// Carries out a user's change of the vdev tree.
    ///
    /// # Errors
    /// Why it is refused; then nothing has changed.
    pub(super) fn change_tree<F>(
        &self,
        (actor, command): (&Actor, &str),
        planner: F,
    ) -> Result<(), ChangeError>
    where
        F: FnOnce(&VdevConfig, &Shape, Txg) -> Result<Plan, ChangeError> + Send + 'static,
    {
        let task = ChangeTree {
            syncer: Arc::clone(self.writer()?),
            actor: actor.clone(),
            command: command.to_owned(),
            planner: Some(Box::new(planner)),
            refusal: None,
        };
        let done = self.run_task(task)?;
        done.refusal.map_or(Ok(()), Err)
    }

    /// Takes a device out of use. What is written from now on it misses.
    ///
    /// # Errors
    /// If the pool needs it, or takes no changes.
    pub fn offline(
        &self,
        device: Guid,
        how: Offline,
        by: (&Actor, &str),
    ) -> Result<(), ChangeError> {
        let silent = self.ask_all();
        let Some(log) = self.needed_log(device, &silent) else {
            self.put_offline((device, silent), how, by)?;
            return self.end_treatments(device, how, by);
        };
        // Programs that sync all the time begin a new log there as soon as the old one has left.
        self.while_closed(std::slice::from_ref(&log), || {
            self.check_unused_log(log.id.unwrap_or_default())?;
            self.put_offline((device, silent), how, by)
        })?;
        self.end_treatments(device, how, by)
    }

    /// What an administrator declares faulted is not treated any more; what is only offline waits.
    fn end_treatments(
        &self,
        device: Guid,
        how: Offline,
        (actor, _): (&Actor, &str),
    ) -> Result<(), ChangeError> {
        match how.is_fault {
            true => Ok(self.cancel_treatments(device, actor)?),
            false => Ok(()),
        }
    }

    fn put_offline(
        &self,
        (device, silent): (Guid, Silent),
        how: Offline,
        by: (&Actor, &str),
    ) -> Result<(), ChangeError> {
        let syncer = Arc::clone(self.writer()?);
        self.change_tree(by, move |root, shape, _| {
            let found = leaf(root, device)?;
            let is_in_use = !found.state.offline && !found.state.faulted;
            let is_log = top(root, device).is_some_and(|top| top.is_log);
            if is_in_use && !is_log {
                silent.check(root, shape, device)?;
            }
            let mut plan = Plan::new(root.clone());
            if let Some(leaf) = find_mut(&mut plan.root, device) {
                match how.is_fault {
                    true => {
                        leaf.state.faulted = true;
                        leaf.state.aux_state = Some("external".to_owned());
                    }
                    false => leaf.state.offline = true,
                }
            }
            let mut config = syncer.config();
            config.temporary.retain(|leaf| *leaf != device);
            if how.is_temporary {
                config.temporary.push(device);
            }
            Ok(plan)
        })
    }

    /// The log vdev that cannot be used without a device. A log is expendable: new writes are safe
    /// on the other devices. What intent logs still have on it is not.
    fn needed_log(&self, device: Guid, silent: &Silent) -> Option<VdevConfig> {
        let root = self.vdev_tree();
        let log = top(&root, device).filter(|top| top.is_log)?;
        let is_needed = silent.check(&root, &self.vdevs(), device).is_err();
        // Logs on a device that was pulled out may have promised what is in no group yet.
        let is_offline = leaf(&root, device).is_ok_and(|leaf| leaf.state.offline);
        (is_needed && !is_offline).then(|| log.clone())
    }

    /// Records that a device made too many errors. If `is_fault` is set and the pool can do without
    /// it, it is faulted, otherwise degraded. Clearing its errors ends that. Returns whether it was
    /// recorded: not if the device is out of use already, or `is_due`, called at the moment of the
    /// change, returns false.
    ///
    /// # Errors
    /// If there is no such device, or the pool takes no changes.
    pub fn blame(
        &self,
        device: Guid,
        is_fault: bool,
        is_due: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<bool, ChangeError> {
        let is_noted = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&is_noted);
        self.change_tree((&Actor::default(), ""), move |root, shape, _| {
            let state = &leaf(root, device)?.state;
            let is_in_use = !state.offline && !state.faulted;
            let mut plan = Plan::new(root.clone());
            if let Some(leaf) = find_mut(&mut plan.root, device).filter(|_| is_in_use && is_due()) {
                leaf.state.faulted = is_fault && !shape.is_required(device);
                leaf.state.degraded = !leaf.state.faulted;
                leaf.state.aux_state = Some("err_exceeded".to_owned());
                noted.store(true, Ordering::Release);
            }
            Ok(plan)
        })?;
        Ok(is_noted.load(Ordering::Acquire))
    }

    /// Uses a device again that was taken out of use, or was not there: `opened`, if it is not
    /// open, has been found to be the one. What it missed a resilver brings.
    ///
    /// # Errors
    /// If there is no such device, or the pool takes no changes.
    pub fn online(
        &self,
        device: Guid,
        opened: Option<Returned>,
        by: (&Actor, &str),
    ) -> Result<(), ChangeError> {
        let syncer = Arc::clone(self.writer()?);
        self.change_tree(by, move |root, _, _| {
            leaf(root, device)?;
            let is_spared = is_first_of_spare(root, device);
            let mut plan = Plan::new(root.clone());
            if let Some(opened) = opened {
                plan.missed.push((device, opened.missed));
                plan.devices.insert(device, opened.device);
            }
            if let Some(leaf) = find_mut(&mut plan.root, device) {
                leaf.state.offline = false;
                leaf.state.removed = false;
                leaf.state.not_present = false;
                leaf.state.unspare = is_spared;
            }
            syncer.config().temporary.retain(|leaf| *leaf != device);
            Ok(plan)
        })?;
        self.bring_what_is_missed()
    }

    /// Forgets that devices, or all if none is named, are to count as faulted or degraded.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn clear_faults(
        &self,
        devices: &[Guid],
        opened: HashMap<Guid, Returned>,
        by: (&Actor, &str),
    ) -> Result<(), ChangeError> {
        let devices = devices.to_vec();
        let syncer = Arc::clone(self.writer()?);
        self.change_tree(by, move |root, _, _| {
            // Looked for at the moment of the change: what counts the errors changes the tree, too.
            let is_meant = |leaf: &VdevConfig| devices.is_empty() || devices.contains(&leaf.guid);
            let is_marked = |leaf: &VdevConfig| leaf.state.faulted || leaf.state.degraded;
            let marked = root
                .leaves()
                .filter(|leaf| is_meant(leaf) && is_marked(leaf));
            let marked: Vec<Guid> = marked.map(|leaf| leaf.guid).collect();
            let mut plan = Plan::new(root.clone());
            for guid in marked.iter().chain(opened.keys()) {
                let is_spared = is_first_of_spare(root, *guid);
                if let Some(leaf) = find_mut(&mut plan.root, *guid) {
                    (leaf.state.faulted, leaf.state.degraded) = (false, false);
                    leaf.state.not_present = false;
                    leaf.state.aux_state = None;
                    leaf.state.unspare = is_spared;
                }
            }
            for (guid, returned) in opened {
                plan.missed.push((guid, returned.missed));
                plan.devices.insert(guid, returned.device);
            }
            let mut config = syncer.config();
            config.temporary.retain(|leaf| !marked.contains(leaf));
            Ok(plan)
        })?;
        self.bring_what_is_missed()
    }

    /// Begins a resilver if it is needed; if not, what waits for the end of one is due now.
    pub(super) fn bring_what_is_missed(&self) -> Result<(), ChangeError> {
        // A resilver is for what was written before it began.
        for _ in 0..GROUPS_WAITED_MAX {
            let needed = self.vdevs().is_resilver_needed();
            if needed.is_none_or(|txgs| txgs.end <= self.synced_txg()) {
                break;
            }
            self.sync()?;
        }
        let is_under_way =
            self.look_for_resilver()
                .map_err(|error| crate::sync::SyncError::Stopped {
                    cause: error.to_string(),
                })?;
        if !is_under_way {
            let syncer = Arc::clone(self.writer()?);
            self.run_task(DetachReplaced { syncer })?;
        }
        self.resume_active_treatments();
        Ok(())
    }

    /// Whether an administrator took a device out of use, whatever else is wrong with it.
    pub fn is_out_of_use(&self, device: Guid) -> bool {
        let tree = self.vdev_tree();
        let mut leaves = tree.leaves();
        let leaf = leaves.find(|leaf| leaf.guid == device);
        leaf.is_some_and(|leaf| leaf.state.offline || leaf.state.removed)
    }

    /// Whether a device has to stay where it is: others lack what it has.
    pub fn is_needed(&self, device: Guid) -> bool {
        top(&self.vdev_tree(), device).is_some() && self.vdevs().is_required(device)
    }
}

/// Whether a leaf is the device that a spare replaces.
fn is_first_of_spare(root: &VdevConfig, leaf: Guid) -> bool {
    let group = parent(root, leaf).filter(|parent| parent.kind == VdevKind::Spare);
    group.is_some_and(|group| group.children.first().map(|child| child.guid) == Some(leaf))
}
