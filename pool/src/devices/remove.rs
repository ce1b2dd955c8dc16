//! Permanent removal of devices: `zpool remove` of logs, spares and cache devices.
//!
//! A log device has only blocks of intent logs. Logs that OpenZFS left there after a crash and that
//! were not replayed yet contain data promised by `fsync`. While the device has any of it, it
//! stays, and the refusal names the datasets of these logs. When no log leads to the device, all
//! its space is removed: space maps, tables, and whatever older software left allocated there. No
//! reference to it can exist any more.
//!
//! The place of a removed log stays as a hole, so that later vdevs keep their numbers, which are in
//! block pointers (format/1c). The labels change with the group that removes the device. The device
//! is cleared after that group is on disk: if the pool crashes before, it still has the device.
//!
//! Spares and cache devices are in separate lists. They keep their labels, as in OpenZFS: another
//! pool may list a spare, too, here or elsewhere. Such a label names no pool, so the device can be
//! used for anything else without force.
//!
//! **Not implemented**: removal of data vdevs, whose blocks would have to be copied elsewhere.

use super::change::{Plan, carry_out};
use super::edit::hole;
use super::error::ChangeError;
use super::space_tables::SpaceTables;
use crate::create::remove_auxiliary;
use crate::import::claim::{logs, name_of};
use crate::pool::Pool;
use crate::sync::{Actor, SyncError, Syncer, log_command, log_event};
use cenote_base::{Guid, ObjectId, VdevId};
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, directory_keys as keys};
use cenote_ondisk::VdevConfig;
use std::sync::Arc;

/// Groups to wait for until replayed logs are freed: the end of a log takes two.
const GROUPS_WAITED_MAX: u32 = 4;

/// Which of the pool's lists a device is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auxiliary {
    /// The hot spares.
    Spare,
    /// The cache devices.
    Cache,
}

impl Auxiliary {
    fn key(self) -> &'static str {
        match self {
            Self::Spare => keys::SPARES,
            Self::Cache => keys::CACHE_DEVICES,
        }
    }
}

/// Makes a hole of a log vdev that holds nothing.
struct RemoveLog {
    syncer: Arc<Syncer>,
    guid: Guid,
    actor: Actor,
    command: String,
    refusal: Option<ChangeError>,
}

/// The log vdev with this guid.
fn log_of(root: &VdevConfig, guid: Guid) -> Result<&VdevConfig, ChangeError> {
    let top = root.children.iter().find(|top| top.guid == guid);
    let top = top.filter(|top| top.kind.is_concrete());
    match top {
        Some(top) if top.is_log => Ok(top),
        Some(_) => Err(ChangeError::DataVdev),
        None => match root.walk().any(|vdev| vdev.guid == guid) {
            true => Err(ChangeError::SideOnly),
            false => Err(ChangeError::NoDevice),
        },
    }
}

/// What the history says of a device that was removed.
fn detail(pool: &str, what: &str, vdev: &VdevConfig) -> String {
    let leaves = vdev.leaves().filter_map(|leaf| leaf.path.as_deref());
    let paths: Vec<String> = leaves.map(|path| path.display().to_string()).collect();
    format!("{pool} vdev ({what}) {}", paths.join(" "))
}

impl RemoveLog {
    fn remove(&self, context: &SyncContext<'_>) -> Result<(), ChangeError> {
        let root = self.syncer.config().config.vdev_tree.clone();
        let mut root = root.ok_or(ChangeError::NoDevice)?;
        let top = log_of(&root, self.guid)?.clone();
        let id = top.id.unwrap_or_default();
        let space = self.syncer.space.top(id);
        if let Some(place) = root.children.iter_mut().find(|vdev| vdev.id == top.id) {
            *place = hole(id);
        }
        let mut plan = Plan::new(root);
        let pool = self.syncer.dsl.pool_name().as_str().to_owned();
        plan.note = Some(("vdev remove", detail(&pool, "log", &top)));
        carry_out(context, &self.syncer, plan, &self.actor)?;
        // From here on the vdev is no more: what fails leaves the pool as the last group had it.
        if let Some(space) = space {
            let space = space.lock();
            let maps = space.metaslabs.iter().map(|metaslab| metaslab.map);
            let tables = SpaceTables {
                maps: maps.collect(),
                array: space.array,
                unflushed: space.unflushed,
                top_zap: space.top_zap,
            };
            tables.free(context)?;
        }
        self.syncer.space.remove_top(id);
        // OpenZFS may reuse the vdev's number, so no log of space maps may contain it then.
        self.syncer.flush_space_maps();
        Ok(())
    }
}

impl SyncTask for RemoveLog {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        match self.remove(context) {
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

/// Takes a device from the list of spares or cache devices.
struct RemoveAuxiliary {
    syncer: Arc<Syncer>,
    list: Auxiliary,
    vdev: VdevConfig,
    actor: Actor,
    command: String,
    is_refused: bool,
}

impl SyncTask for RemoveAuxiliary {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let root = self.syncer.config().config.vdev_tree.clone();
        let mut tree = root.iter().flat_map(VdevConfig::walk);
        if tree.any(|vdev| vdev.guid == self.vdev.guid) {
            self.is_refused = true;
            return Ok(());
        }
        remove_auxiliary(context, self.list.key(), self.vdev.guid)?;
        let what = match self.list {
            Auxiliary::Spare => "spare",
            Auxiliary::Cache => "cache",
        };
        let pool = context.dsl.pool_name().as_str().to_owned();
        let detail = detail(&pool, what, &self.vdev);
        log_event(context, &self.actor, "vdev remove", &detail)?;
        match self.command.is_empty() {
            true => Ok(()),
            false => log_command(context, &self.actor, &self.command),
        }
    }
}

impl Pool {
    /// Whether a vdev can be removed, by its place in the tree.
    ///
    /// # Errors
    /// Why not.
    pub fn check_remove_log(&self, top: Guid) -> Result<(), ChangeError> {
        log_of(&self.vdev_tree(), top)?;
        self.refuse_with_checkpoint()
    }

    /// Removes a log vdev with all its devices; their labels are taken off.
    ///
    /// # Errors
    /// If it is none, or intent logs lead to it; then the pool is as it was.
    pub fn remove_log(&self, top: Guid, by: (&Actor, &str)) -> Result<(), ChangeError> {
        self.check_remove_log(top)?;
        let syncer = Arc::clone(self.writer()?);
        let tree = self.vdev_tree();
        let config = log_of(&tree, top)?;
        let id = config.id.unwrap_or_default();
        let space = syncer.space.top(id);
        let close = |is_closed| {
            if let Some(space) = &space {
                space.lock().is_closed = is_closed;
            }
        };
        close(true);
        let removed = self.remove_closed_log(&syncer, (top, id), by);
        if removed.is_err() {
            close(config.non_allocating);
        }
        removed
    }

    fn remove_closed_log(
        &self,
        syncer: &Arc<Syncer>,
        (guid, id): (Guid, VdevId),
        (actor, command): (&Actor, &str),
    ) -> Result<(), ChangeError> {
        self.check_unused_log(id)?;
        self.check_tables(id)?;
        let task = RemoveLog {
            syncer: Arc::clone(syncer),
            guid,
            actor: actor.clone(),
            command: command.to_owned(),
            refusal: None,
        };
        let done = self.run_task(task)?;
        done.refusal.map_or(Ok(()), Err)
    }

    /// Does something while no new block goes to these vdevs.
    pub(super) fn while_closed<R>(&self, vdevs: &[VdevConfig], work: impl FnOnce() -> R) -> R {
        let space = |vdev: &VdevConfig| self.syncer()?.space.top(vdev.id?);
        let spaces: Vec<_> = vdevs.iter().map(space).collect();
        let close = |vdev: usize, is_closed| {
            if let Some(space) = &spaces[vdev] {
                space.lock().is_closed = is_closed;
            }
        };
        (0..vdevs.len()).for_each(|vdev| close(vdev, true));
        let done = work();
        (0..vdevs.len()).for_each(|vdev| close(vdev, vdevs[vdev].non_allocating));
        done
    }

    /// Waits until what was replayed is freed, and refuses if intent logs still need the vdev.
    pub(super) fn check_unused_log(&self, id: VdevId) -> Result<(), ChangeError> {
        let syncer = self.writer()?;
        let allocated = || {
            let space = syncer.space.top(id);
            space.map_or(0, |space| space.lock().allocated())
        };
        for _ in 0..GROUPS_WAITED_MAX {
            if allocated() == 0 {
                break;
            }
            // No new block goes to the vdev: logs that are being written leave it.
            let heads = self.dsl().open_heads();
            for writer in heads.iter().filter_map(|head| head.log()) {
                writer.end_chain().map_err(SyncError::from)?;
            }
            self.sync()?;
        }
        if allocated() > 0 {
            self.refuse_logs_on(id, |_| true)?;
        }
        Ok(())
    }

    /// What is to be freed with a vdev has to be readable: within the group it would be too late.
    pub(super) fn check_tables(&self, vdev: VdevId) -> Result<(), ChangeError> {
        let Some(space) = self.writer()?.space.top(vdev) else {
            return Ok(());
        };
        let space = space.lock();
        let maps = space.metaslabs.iter().filter_map(|metaslab| metaslab.map);
        let tables = [space.array, space.unflushed, space.top_zap];
        for object in maps.chain(tables.into_iter().flatten()) {
            self.mos().object(object).map_err(DslError::from)?;
        }
        Ok(())
    }

    /// Refuses if intent logs have blocks on a vdev, or may have: those of the heads that are
    /// `asked` for.
    pub(super) fn refuse_logs_on(
        &self,
        vdev: VdevId,
        asked: impl Fn(ObjectId) -> bool,
    ) -> Result<(), ChangeError> {
        let unreadable = |error: &dyn std::fmt::Display| ChangeError::LogsUnknown {
            reason: error.to_string(),
        };
        let found = logs(self).map_err(|error| unreadable(&error))?;
        if let Some(head) = found.unreadable.first() {
            let name = name_of(self, head.head);
            return Err(unreadable(&format!("{name}: {}", head.reason)));
        }
        let mut datasets = Vec::new();
        for (head, log) in found.logs.into_iter().filter(|(head, _)| asked(*head)) {
            let owned = log.owned_blocks();
            let is_there = owned.map(|owned| {
                let mut dvas = owned.iter().flat_map(|pointer| pointer.dvas());
                dvas.any(|dva| dva.vdev() == vdev)
            });
            // What cannot be read may lead anywhere.
            if is_there.unwrap_or(true) {
                datasets.push(name_of(self, head));
            }
        }
        datasets.sort();
        match datasets.is_empty() {
            true => Ok(()),
            false => Err(ChangeError::LogNeeded { datasets }),
        }
    }

    /// The configuration of a spare or cache device that can be removed.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check_remove_auxiliary(
        &self,
        list: Auxiliary,
        device: Guid,
    ) -> Result<VdevConfig, ChangeError> {
        let vdevs = self.dsl().auxiliary_vdevs(list.key())?;
        let vdev = vdevs.into_iter().find(|vdev| vdev.guid == device);
        let vdev = vdev.ok_or(ChangeError::NoDevice)?;
        if vdev.distributed_spare.is_some() {
            return Err(ChangeError::DistributedSpare);
        }
        match self.vdev_tree().walk().any(|other| other.guid == device) {
            true => Err(ChangeError::SpareInUse),
            false => Ok(vdev),
        }
    }

    /// Removes a spare or cache device.
    ///
    /// # Errors
    /// If the pool has no such device or uses it.
    pub fn remove_auxiliary(
        &self,
        (list, device): (Auxiliary, Guid),
        (actor, command): (&Actor, &str),
    ) -> Result<(), ChangeError> {
        let vdev = self.check_remove_auxiliary(list, device)?;
        let task = RemoveAuxiliary {
            syncer: Arc::clone(self.writer()?),
            list,
            vdev,
            actor: actor.clone(),
            command: command.to_owned(),
            is_refused: false,
        };
        if self.run_task(task)?.is_refused {
            return Err(ChangeError::SpareInUse);
        }
        Ok(())
    }
}
