//! Using what devices have gained: `zpool online -e` and the property `autoexpand`.
//!
//! A top-level vdev gets more metaslabs of the size that it has; its geometry stays. The labels
//! at the ends of its devices are moved before the group that writes the new size, so that a
//! pool that goes down in between is found as it was: with labels at the old ends or the new.

use crate::allocation::Metaslab;
use crate::pool::Pool;
use crate::sync::{Actor, SyncError, Syncer};
use cenote_base::VdevId;
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_ondisk::VdevConfig;
use cenote_vdev::{Shape, VdevError};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// `asize`, which a top-level vdev could have, if that is at least a metaslab more than it has.
fn if_more(top: &VdevConfig, asize: u64) -> Option<u64> {
    if top.removing || top.metaslab_shift == 0 {
        return None;
    }
    let metaslabs = |asize: u64| asize >> top.metaslab_shift;
    (metaslabs(asize) > metaslabs(top.asize)).then_some(asize)
}

/// Allocatable bytes that a top-level vdev could have by now, if they are more.
fn grown_asize(vdevs: &Shape, top: &VdevConfig) -> Option<u64> {
    if_more(top, vdevs.asize_by_now(top.id?)?)
}

/// Gives top-level vdevs all that their devices have.
struct Grow {
    syncer: Arc<Syncer>,
    tops: Vec<VdevId>,
}

impl Grow {
    fn failed(error: &VdevError) -> DslError {
        DslError::Format {
            reason: error.to_string(),
        }
    }

    /// Adds the metaslabs that a vdev has gained: it has `count` now.
    fn add_metaslabs(&self, vdev: VdevId, count: u64) {
        let Some(top) = self.syncer.space.top(vdev) else {
            return;
        };
        let mut top = top.lock();
        let new = top.metaslabs.len() as u64..count;
        let ranges = new.filter_map(|index| self.syncer.vdevs.shape().metaslab(vdev, index));
        let new = ranges.map(|(start, length)| Metaslab::new(start..start + length, None));
        top.metaslabs.extend(new);
    }
}

impl SyncTask for Grow {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        let vdevs = self.syncer.vdevs.shape();
        let moved = self.tops.iter().try_for_each(|top| vdevs.move_labels(*top));
        moved.map_err(|error| Self::failed(&error))
    }

    fn sync(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        let vdevs = self.syncer.vdevs.shape();
        let root = self.syncer.config().config.vdev_tree.clone();
        let Some(mut root) = root else {
            return Ok(());
        };
        let mut grown = BTreeMap::new();
        for top in &mut root.children {
            let Some(id) = top.id.filter(|id| self.tops.contains(id)) else {
                continue;
            };
            // A device may have grown once more since its labels were moved.
            let noted = vdevs.asize_as_noted(id);
            if let Some(asize) = noted.and_then(|asize| if_more(top, asize)) {
                top.asize = asize;
                grown.insert(id, asize >> top.metaslab_shift);
            }
        }
        let changed = self.syncer.vdevs.change(&root, &HashMap::new());
        changed.map_err(|error| Self::failed(&error))?;
        for (id, count) in grown {
            self.add_metaslabs(id, count);
        }
        let mut config = self.syncer.config();
        config.config.vdev_tree = Some(root);
        config.touch();
        Ok(())
    }
}

impl Pool {
    /// Bytes that could be added to the top-level vdevs whose devices have grown, in whole
    /// metaslabs.
    pub fn expandable(&self) -> BTreeMap<VdevId, u64> {
        let tree = self.vdev_tree();
        let tops = tree.children.iter();
        let gains = tops.filter_map(|top| {
            let gain = grown_asize(&self.vdevs(), top)? - top.asize;
            Some((top.id?, gain >> top.metaslab_shift << top.metaslab_shift))
        });
        gains.filter(|(_, gain)| *gain > 0).collect()
    }

    /// Gives these top-level vdevs, or all, what their devices have gained; whether any grew.
    /// Without a gain nothing is changed and the command is not noted.
    ///
    /// # Errors
    /// If a device does not take its labels, or the pool takes no changes.
    pub fn expand(
        &self,
        tops: Option<&[VdevId]>,
        actor: &Actor,
        command: &str,
    ) -> Result<bool, SyncError> {
        let syncer = Arc::clone(self.writer()?);
        let tree = self.vdev_tree();
        let all = tree.children.iter();
        let grown = all.filter(|top| grown_asize(&self.vdevs(), top).is_some());
        let mut grown: Vec<VdevId> = grown.filter_map(|top| top.id).collect();
        grown.retain(|id| tops.is_none_or(|tops| tops.contains(id)));
        if grown.is_empty() {
            return Ok(false);
        }
        let task = Grow {
            syncer,
            tops: grown,
        };
        self.run_command(task, actor, command)?;
        self.renew_config();
        Ok(true)
    }
}
