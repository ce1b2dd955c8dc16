//! The pool's checkpoint: the state of one group, kept as it was until it is discarded.
//!
//! A checkpoint is an uberblock stored in the object directory (format/1 1.7). Nothing is copied
//! and no block is marked: blocks that were born up to its group and are freed later stay
//! allocated, and are added to a separate space map of their vdev (format/1d.9).
//!
//! This begins with the first block freed by the group after the checkpoint's. So a checkpoint is
//! requested before the next group is written ([`Syncer::begin_checkpoint`]), and a task records it
//! during that group.
//!
//! Discarding removes the uberblock at once. Each of the following groups frees a few blocks of the
//! maps, from the end on, so that it resumes after a crash at the same place. The feature's count
//! shows how long that lasts.

use super::error::SyncError;
use super::record::{append, free_map};
use super::syncer::Syncer;
use crate::allocation::SharedTop;
use crate::mos::OBJECT_DIRECTORY;
use crate::space;
use cenote_base::{ObjectId, Txg};
use cenote_dmu::zap::ZapValue;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, directory_keys as keys};
use cenote_history::{Actor, log_event};
use cenote_ondisk::features::ZPOOL_CHECKPOINT;
use cenote_ondisk::space_map::{Action, SpaceMapHeader};
use cenote_ondisk::vdev_zap::top::CHECKPOINT_SPACE_MAP;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many groups a log's block can be ahead of the last one on disk, and a few more: one is being
/// written, one is frozen, one is open.
const GROUPS_AHEAD_MAX: u64 = 16;
/// Blocks of the maps that one group works off: of 128 KiB, which hold 16384 entries at most.
const BLOCKS_PER_GROUP: u32 = 4;

/// Keeps the state of the group before.
pub(crate) struct TakeCheckpoint {
    pub syncer: Arc<Syncer>,
    pub actor: Actor,
}

impl SyncTask for TakeCheckpoint {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        if context.dsl.checkpoint()?.is_some() {
            return Err(DslError::CheckpointExists);
        }
        match context.dsl.features().get(ZPOOL_CHECKPOINT) {
            None => {
                let feature = "zpool_checkpoint".to_owned();
                return Err(DslError::FeatureDisabled { feature });
            }
            Some(feature) if feature.is_active() => return Err(DslError::DiscardingCheckpoint),
            Some(_) => {}
        }
        self.check_logs(context)?;
        // The frees of this group before this point cannot be undone.
        match self.syncer.checkpoint_txg() == Txg(0) {
            true => {
                self.syncer.wants_checkpoint.store(true, Ordering::Release);
                let name = context.dsl.pool_name().clone();
                Err(DslError::NextGroup { name })
            }
            false => Ok(()),
        }
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut uberblock = self.syncer.uberblock();
        uberblock.checkpoint_txg = uberblock.txg;
        let words = ZapValue::from_u64s(&uberblock.to_words());
        let directory = context.mos().zap(OBJECT_DIRECTORY)?;
        directory.update(context.tx, keys::CHECKPOINT.as_bytes(), &words)?;
        context.feature_changed(ZPOOL_CHECKPOINT, 1)?;
        let detail = format!("checkpointed uberblock txg={}", uberblock.txg.0);
        log_event(context, &self.actor, "spa checkpoint", &detail)
    }
}

impl TakeCheckpoint {
    /// Waits until no block of an intent log that waits for its replay is younger than the state
    /// that is kept. A log is claimed in the first group after a crash, and has blocks of later
    /// groups that never came: freed after its replay, such a block would count as one that the
    /// checkpoint does not know.
    fn check_logs(&self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let (birth, kept) = (self.syncer.log_birth, self.syncer.uberblock().txg);
        if birth <= kept {
            return Ok(());
        }
        if birth.0 - kept.0 > GROUPS_AHEAD_MAX {
            let (birth, txg) = (birth.0, kept.0);
            return Err(DslError::LogFromLater { birth, txg });
        }
        // A group that changes nothing leaves no trace.
        self.syncer.mos.mark_dirty(context.tx)?;
        let name = context.dsl.pool_name().clone();
        Err(DslError::NextGroup { name })
    }
}

/// Gives the state up that was kept; what only it needs is freed by later groups.
pub(crate) struct DiscardCheckpoint {
    pub syncer: Arc<Syncer>,
    pub actor: Actor,
}

impl SyncTask for DiscardCheckpoint {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        if context.dsl.checkpoint()?.is_some() {
            return Ok(());
        }
        match context.dsl.features().is_active(ZPOOL_CHECKPOINT) {
            true => Err(DslError::DiscardingCheckpoint),
            false => Err(DslError::NoCheckpoint),
        }
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let kept = self.syncer.checkpoint_txg();
        context.remove_directory_entry(keys::CHECKPOINT)?;
        self.syncer.set_checkpoint_txg(Txg(0));
        let detail = format!("discarded checkpoint of txg={}", kept.0);
        log_event(context, &self.actor, "spa discard checkpoint", &detail)
    }
}

impl Syncer {
    /// The group whose state is kept; 0 for none.
    pub(super) fn checkpoint_txg(&self) -> Txg {
        Txg(self.checkpoint_txg.load(Ordering::Acquire))
    }

    fn set_checkpoint_txg(&self, txg: Txg) {
        self.checkpoint_txg.store(txg.0, Ordering::Release);
    }

    /// Starts to keep all blocks of the previous group, if a checkpoint was requested. Called
    /// before the first block of a group is freed; returns whether it started.
    pub(super) fn begin_checkpoint(&self) -> bool {
        let begins = self.wants_checkpoint.swap(false, Ordering::AcqRel);
        if begins {
            assert_eq!(self.checkpoint_txg(), Txg(0), "there is one checkpoint");
            self.set_checkpoint_txg(self.uberblock().txg);
        }
        begins
    }

    /// Frees the blocks that were kept for a checkpoint which was not taken in the end.
    pub(super) fn abandon_checkpoint(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        if context.dsl.checkpoint()?.is_some() {
            return Ok(());
        }
        self.set_checkpoint_txg(Txg(0));
        self.space.for_each(|top| {
            let vdev = top.vdev;
            let mut kept = std::mem::take(&mut top.checkpointed).into_iter();
            kept.try_for_each(|range| top.free(range))
                .map_err(|conflict| SyncError::Space { vdev, conflict })
        })
    }

    /// Works off some of the maps of a checkpoint that was discarded; says whether it did
    /// anything.
    pub(super) fn discard_some(&self, context: &SyncContext<'_>) -> Result<bool, SyncError> {
        let is_active = context.dsl.features().is_active(ZPOOL_CHECKPOINT);
        if self.checkpoint_txg() != Txg(0) || !is_active {
            return Ok(false);
        }
        let mut left = BLOCKS_PER_GROUP;
        let mut is_complete = true;
        for top in self.space.tops() {
            // This very group put some more on the map, before it discarded the checkpoint.
            is_complete &= top.lock().checkpointed.is_empty();
            while discard_block(context, &top)? {
                left -= 1;
                if left == 0 {
                    return Ok(true);
                }
            }
        }
        if is_complete {
            context.feature_changed(ZPOOL_CHECKPOINT, -1)?;
        }
        Ok(true)
    }
}

/// Frees what the last block of a vdev's map names; false if there is no map any more.
fn discard_block(context: &SyncContext<'_>, shared: &SharedTop) -> Result<bool, SyncError> {
    let (vdev, ashift, zap) = {
        let top = shared.lock();
        (top.vdev, top.ashift, top.top_zap)
    };
    let Some(zap) = zap else {
        return Ok(false);
    };
    let zap = context.mos().zap(zap)?;
    let Some(map) = zap.lookup_u64(CHECKPOINT_SPACE_MAP)?.map(ObjectId) else {
        return Ok(false);
    };
    let object = context.mos().object(map)?;
    let mut header = SpaceMapHeader::decode(&object.dnode().bonus)?;
    let (at, entries) = space::last_entries(&object, header.length, ashift)?;
    let mut top = shared.lock();
    for entry in entries {
        if entry.action != Action::Free {
            continue;
        }
        let range = entry.offset..entry.offset.saturating_add(entry.length);
        let freed = top.free(range);
        freed.map_err(|conflict| SyncError::Space { vdev, conflict })?;
        let length = i64::try_from(entry.length).unwrap_or(i64::MAX);
        header.allocated = header.allocated.saturating_add(length);
        top.checkpoint_bytes = top.checkpoint_bytes.saturating_sub(entry.length);
    }
    if at == 0 {
        top.checkpoint_bytes = 0;
    }
    drop(top);
    if at == 0 {
        free_map(context, map)?;
        zap.remove(context.tx, CHECKPOINT_SPACE_MAP.as_bytes())?;
        return Ok(true);
    }
    header.length = at;
    object.free_range(context.tx, at, u64::MAX)?;
    append(context, &object, &header, at, &[])?;
    Ok(true)
}
