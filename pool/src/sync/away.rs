//! Keeping the last groups of leaves up to date that are [away](crate::absence::away).

use super::error::SyncError;
use super::syncer::Syncer;
use crate::absence::away::{GROUPS_MAX, encode, key};
use crate::mos::OBJECT_DIRECTORY;
use cenote_base::{Guid, Txg};
use cenote_dsl::write::SyncContext;
use std::collections::BTreeSet;

impl Syncer {
    /// Keeps the last groups of leaves that are behind since the last group, and forgets those of
    /// leaves that have all again.
    pub(super) fn store_away(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        let tree = self.config().config.vdev_tree.clone();
        let (shape, last) = (self.vdevs.shape(), self.uberblock().txg);
        let mut away = self.away();
        let mut leaves = BTreeSet::new();
        for leaf in tree.iter().flat_map(|tree| tree.leaves()) {
            if !leaf.is_leaf_device() {
                continue;
            }
            leaves.insert(leaf.guid);
            let missed = shape.dtl(leaf.guid);
            let misses = |txg: Txg| missed.iter().any(|range| range.contains(&txg));
            let is_new = leaf.resilver_txg.is_some() || leaf.rebuild_txg.is_some();
            let is_writable = shape.is_writable(leaf.guid);
            if !is_writable || misses(last) && !is_new {
                let is_known = away.unknown.contains(&leaf.guid);
                if away.behind.insert(leaf.guid) && !is_known {
                    self.keep(context, leaf.guid)?;
                }
                continue;
            }
            away.behind.remove(&leaf.guid);
            let mut last = self.chronicle().last().into_keys();
            if !last.any(misses) {
                away.unknown.remove(&leaf.guid);
                self.forget_away(context, leaf.guid)?;
            }
        }
        let kept: Vec<Guid> = self.chronicle().away().keys().copied().collect();
        for gone in kept.into_iter().filter(|leaf| !leaves.contains(leaf)) {
            self.forget_away(context, gone)?;
        }
        away.behind.retain(|leaf| leaves.contains(leaf));
        away.unknown.retain(|leaf| leaves.contains(leaf));
        Ok(())
    }

    fn keep(&self, context: &SyncContext<'_>, leaf: Guid) -> Result<(), SyncError> {
        let groups = {
            let mut chronicle = self.chronicle();
            let last = chronicle.last();
            let groups = chronicle.away_mut().entry(leaf).or_default();
            groups.extend(last);
            while groups.len() > GROUPS_MAX {
                groups.pop_first();
            }
            groups.clone()
        };
        let directory = context.mos().zap(OBJECT_DIRECTORY)?;
        directory.update(context.tx, key(leaf).as_bytes(), &encode(&groups))?;
        Ok(())
    }

    fn forget_away(&self, context: &SyncContext<'_>, leaf: Guid) -> Result<(), SyncError> {
        if self.chronicle().away_mut().remove(&leaf).is_some() {
            context.remove_directory_entry(&key(leaf))?;
        }
        Ok(())
    }
}
