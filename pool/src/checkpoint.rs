//! A pool's checkpoint: made, discarded, gone back to.
//!
//! The first two are tasks of the syncing thread. Going back is a matter of the import, which opens
//! the uberblock that the object directory keeps in place of the newest. To be written to, a pool
//! needs more: the groups to come take space that the newer state has its blocks in, so that state
//! must not be found any more after a crash. Therefore the kept uberblock is written first of all,
//! as a newer one than any (format/1 1.7).

use crate::error::ImportError;
use crate::pool::Pool;
use crate::sync::{Actor, DiscardCheckpoint, SyncError, TakeCheckpoint};
use cenote_base::Txg;
use cenote_ondisk::Uberblock;
use cenote_vdev::UberblockScope;
use std::sync::Arc;

impl Pool {
    /// Keeps the pool's state with everything that was changed before; notes the command, and
    /// waits until that is on disk.
    ///
    /// # Errors
    /// If there is a checkpoint already, or the last one is still being discarded; if the feature
    /// is not enabled, or the pool takes no changes.
    pub fn take_checkpoint(&self, actor: &Actor, command: &str) -> Result<(), SyncError> {
        let syncer = Arc::clone(self.writer()?);
        let task = TakeCheckpoint {
            syncer,
            actor: actor.clone(),
        };
        self.run_command(task, actor, command).map(drop)
    }

    /// Discards the checkpoint. The following groups free the space that only the checkpoint
    /// needed; until then [`Self::is_discarding`] is true.
    ///
    /// # Errors
    /// If there is no checkpoint, or the pool takes no changes.
    pub fn discard_checkpoint(&self, actor: &Actor, command: &str) -> Result<(), SyncError> {
        let syncer = Arc::clone(self.writer()?);
        let task = DiscardCheckpoint {
            syncer,
            actor: actor.clone(),
        };
        self.run_command(task, actor, command).map(drop)
    }

    /// Whether what a discarded checkpoint kept is still being freed.
    ///
    /// # Errors
    /// If the object directory cannot be read.
    pub fn is_discarding(&self) -> Result<bool, SyncError> {
        let features = self.dsl().features();
        let is_active = features.is_active(cenote_ondisk::features::ZPOOL_CHECKPOINT);
        Ok(is_active && self.dsl().checkpoint()?.is_none())
    }

    /// The uberblock with which a pool continues after it was opened at its checkpoint: the kept
    /// one, numbered after the group `newest`.
    pub(crate) fn rewound_uberblock(&self, newest: Txg) -> Uberblock {
        let kept = self.uberblock();
        Uberblock {
            little_endian: true,
            txg: Txg(newest.0 + 1),
            timestamp: self.env().wall_clock().as_secs(),
            checkpoint_txg: kept.txg,
            ..kept
        }
    }

    /// Makes the rewound state the one that is found from now on.
    pub(crate) fn write_rewound(&self, uberblock: &Uberblock) -> Result<(), ImportError> {
        let shape = self.vdevs();
        let scope = UberblockScope::All;
        let multihost = uberblock.multihost.as_ref();
        let multihost = multihost.is_some_and(|multihost| multihost.delay_ns != 0);
        let written = shape.write_uberblock(uberblock, scope, multihost);
        let written = written.and_then(|_| shape.flush());
        written.map_err(|error| ImportError::NotWritable {
            reason: error.to_string(),
        })
    }
}
