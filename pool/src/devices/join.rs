//! Devices that come beside others: new sides of mirrors, replacements, spares.

use super::change::Plan;
use super::edit::{find_mut, join, leaf, parent, top};
use super::error::ChangeError;
use crate::create::{NewLeaf, blank, found, leaf as leaf_config, random_guid};
use crate::pool::Pool;
use crate::sync::Actor;
use cenote_base::{Guid, Txg};
use cenote_device::Device;
use cenote_dsl::directory_keys;
use cenote_ondisk::{VdevConfig, VdevKind, features};
use cenote_vdev::create::{leaf_asize, natural_ashift};
use cenote_vdev::{format_labels, leaf_asize_min};
use std::sync::Arc;

/// What the path of a device gets appended that is replaced by another one in its own place.
pub(super) const OLD: &str = "/old";

/// What a device comes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Companion {
    /// To be one more side of a mirror.
    Side,
    /// To take the other's place.
    Replacement,
}

/// A device that comes beside another one.
pub struct Attachment {
    /// The device of the pool.
    pub old: Guid,
    /// The new one. Its contents are lost.
    pub new: NewLeaf,
    /// What it is for.
    pub companion: Companion,
    /// Bring it what it misses in the order of the disk, without verifying anything.
    pub sequential: bool,
    /// log2 of the allocation unit to take it for; `None` to ask the device.
    pub ashift: Option<u32>,
}

/// Whether a vdev of this kind can get a device beside one of its own.
fn check_place(root: &VdevConfig, old: Guid, companion: Companion) -> Result<(), ChangeError> {
    leaf(root, old)?;
    let parent = parent(root, old).ok_or(ChangeError::NoDevice)?;
    match (companion, &parent.kind) {
        (Companion::Side, VdevKind::Mirror | VdevKind::Root) => Ok(()),
        (Companion::Side, _) => Err(ChangeError::NotMirrorable),
        // An active spare cannot be replaced.
        (Companion::Replacement, VdevKind::Spare) => {
            let is_spare = leaf(root, old)?.is_spare;
            match is_spare {
                true => Err(ChangeError::ForeignSpare),
                false => Ok(()),
            }
        }
        (Companion::Replacement, _) => Ok(()),
    }
}

fn check_size(
    root: &VdevConfig,
    old: Guid,
    device: &dyn Device,
    ashift: Option<u32>,
) -> Result<(), ChangeError> {
    let top = top(root, old).ok_or(ChangeError::NoDevice)?;
    if leaf_asize(device.size()).is_none_or(|asize| asize < leaf_asize_min(top)) {
        return Err(ChangeError::TooSmall);
    }
    let own = ashift.unwrap_or_else(|| natural_ashift([device]));
    match top.ashift.is_some_and(|least| own > least) {
        true => Err(ChangeError::BadAshift),
        false => Ok(()),
    }
}

/// The tree with a new leaf beside an old one.
fn joined(
    root: &VdevConfig,
    old: Guid,
    group: VdevConfig,
    mut new: VdevConfig,
    (txg, sequential): (Txg, bool),
) -> Result<Plan, ChangeError> {
    let before = leaf(root, old)?;
    new.create_txg = before.create_txg;
    match sequential {
        true => new.rebuild_txg = Some(txg),
        false => new.resilver_txg = Some(txg),
    }
    let (path, is_spare) = (new.path.clone(), new.is_spare);
    let in_place = before.path == path;
    let old_path = before.path.clone().unwrap_or_default();
    let (guid, kind) = (new.guid, group.kind.clone());
    let mut plan = Plan::new(root.clone());
    plan.new = vec![guid];
    plan.rebuild = sequential.then_some(guid);
    join(&mut plan.root, old, group, new)?;
    if let Some(leaf) = find_mut(&mut plan.root, old).filter(|_| in_place) {
        leaf.path = Some(format!("{}{OLD}", old_path.display()).into());
    }
    let new_path = path.unwrap_or_default();
    let (event, word) = match kind {
        _ if is_spare => ("vdev attach", "spare in"),
        VdevKind::Mirror => ("vdev attach", "attach"),
        _ => ("vdev attach", "replace"),
    };
    let (new_path, old_path) = (new_path.display(), old_path.display());
    let link = if word == "attach" { "to" } else { "for" };
    let detail = format!("{word} vdev={new_path} {link} vdev={old_path}");
    plan.note = Some((event, detail));
    Ok(plan)
}

impl Pool {
    pub(super) fn refuse_with_checkpoint(&self) -> Result<(), ChangeError> {
        match self.dsl().checkpoint()?.is_some() {
            true => Err(ChangeError::Checkpoint),
            false => Ok(()),
        }
    }

    /// Refuses a rebuild in the order of the disk where that cannot be.
    fn check_sequential(&self, old: Guid) -> Result<(), ChangeError> {
        let tree = self.vdev_tree();
        let top = top(&tree, old).ok_or(ChangeError::NoDevice)?;
        let id = top.id.ok_or(ChangeError::NoDevice)?;
        if !self.vdevs().can_rebuild(id) {
            return Err(ChangeError::NotSequential);
        }
        let enabled = self.dsl().features();
        let has_feature = enabled.get(features::DEVICE_REBUILD).is_some();
        match has_feature && top.top_zap.is_some() {
            true => Ok(()),
            false => Err(ChangeError::NoRebuildFeature),
        }
    }

    /// Puts a device beside one of the pool's and begins to bring it what it needs.
    ///
    /// # Errors
    /// Why it cannot be there; then the pool is as it was.
    pub fn attach(&self, request: &Attachment, by: (&Actor, &str)) -> Result<(), ChangeError> {
        self.refuse_with_checkpoint()?;
        let (old, device) = (request.old, Arc::clone(&request.new.device));
        let (companion, env) = (request.companion, self.env().as_ref());
        let sequential = request.sequential;
        check_place(&self.vdev_tree(), old, companion)?;
        if sequential {
            self.check_sequential(old)?;
        }
        check_size(&self.vdev_tree(), old, device.as_ref(), request.ashift)?;
        let kind = match companion {
            Companion::Side => VdevKind::Mirror,
            Companion::Replacement => VdevKind::Replacing,
        };
        let new = leaf_config(&request.new, env, Txg(0))?;
        let group = blank(kind, random_guid(env)?, Txg(0));
        let guid = new.guid;
        let known = found([&new], [&request.new]);
        format_labels(device.as_ref(), None)?;
        self.change_tree(by, move |root, _, txg| {
            check_place(root, old, companion)?;
            let mut plan = joined(root, old, group, new, (txg, sequential))?;
            plan.devices.insert(guid, device);
            Ok(plan)
        })?;
        self.note_devices(known);
        self.resume_rebuilds();
        self.bring_what_is_missed()
    }

    /// Replaces a device by one of the pool's spares.
    ///
    /// # Errors
    /// If it cannot; then the pool is as it was.
    pub fn attach_spare(
        &self,
        old: Guid,
        spare: Guid,
        sequential: bool,
        by: (&Actor, &str),
    ) -> Result<(), ChangeError> {
        self.refuse_with_checkpoint()?;
        if sequential {
            self.check_sequential(old)?;
        }
        let spares = self.dsl().auxiliary_vdevs(directory_keys::SPARES)?;
        let config = spares.into_iter().find(|config| config.guid == spare);
        let mut config = config.ok_or(ChangeError::NoDevice)?;
        let device = match config.distributed_spare {
            Some((draid, _)) => {
                // Its space is on the devices of its own vdev.
                if top(&self.vdev_tree(), old).map(|top| top.guid) != Some(draid) {
                    return Err(ChangeError::ForeignSpare);
                }
                None
            }
            None => Some(self.open_spare(spare)?),
        };
        if let Some(device) = &device {
            check_size(&self.vdev_tree(), old, device.as_ref(), None)?;
        }
        if let Some(found) = self
            .found_devices()
            .get(&spare)
            .filter(|_| device.is_some())
        {
            config.path = Some(found.path.clone());
        }
        config.is_spare = true;
        config.ashift = None;
        let group = blank(VdevKind::Spare, random_guid(self.env().as_ref())?, Txg(0));
        self.change_tree(by, move |root, _, txg| {
            if root.walk().any(|vdev| vdev.guid == spare) {
                return Err(ChangeError::ForeignSpare);
            }
            let mut plan = joined(root, old, group, config, (txg, sequential))?;
            plan.devices.extend(device.map(|device| (spare, device)));
            Ok(plan)
        })?;
        self.resume_rebuilds();
        self.bring_what_is_missed()
    }
}
