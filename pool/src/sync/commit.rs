//! The commit: flush, labels, uberblock, labels (format/1 1.4).

use super::error::SyncError;
use super::syncer::Syncer;
use crate::devices::auxiliary_label::label_of;
use crate::pool::space_facts;
use cenote_base::{Guid, ObjsetId, Txg};
use cenote_dmu::{DmuError, ObjectSet};
use cenote_dsl::directory_keys;
use cenote_ondisk::pool_config::{PoolState, Previous};
use cenote_ondisk::uberblock::{Uberblock, VERSION_FEATURES};
use cenote_ondisk::{BlockPointer, NvList, VdevConfig};
use cenote_vdev::{LabelPhase, UberblockScope, VdevError, clear_labels, format_labels};
use std::sync::Arc;

impl Syncer {
    /// Makes `root` the pool's state. A group that changed nothing leaves no trace.
    pub(super) fn commit(&self, txg: Txg, root: BlockPointer) -> Result<(), SyncError> {
        let before = self.uberblock();
        let previous = Previous::from(&before);
        // Changes of the configuration after this point get labels with the next group.
        let (labels, tree_sum, version) = {
            let mut config = self.config();
            let is_new = std::mem::take(&mut config.are_labels_stale);
            let tree = config.config.vdev_tree.as_ref();
            let sum = tree.map_or(0, VdevConfig::guid_sum);
            let version = config.config.version;
            (is_new.then(|| config.labels(txg, previous)), sum, version)
        };
        if root == before.root && labels.is_none() {
            return Ok(());
        }
        self.assert_can_commit(txg, &before, &root);
        self.pipeline.settle().map_err(DmuError::from)?;
        self.pipeline.make_durable()?;
        self.pipeline.assert_durable();
        let uberblock = Uberblock {
            little_endian: true,
            version,
            txg,
            guid_sum: tree_sum,
            timestamp: self.env.wall_clock().as_secs(),
            root,
            software_version: VERSION_FEATURES,
            multihost: Some(self.heartbeat.stamp(0)),
            checkpoint_txg: Txg(0),
            raidz_reflow_word: before.raidz_reflow_word,
        };
        // A group whose blocks went to a file without a name is not on disk.
        self.vdevs.shape().look_at_names();
        if let Some(cause) = self.heartbeat.overdue(self.env.monotonic()) {
            return Err(SyncError::Stopped { cause });
        }
        self.chronicle().begin(&uberblock);
        let taken = self.write_state(&uberblock, labels, previous)?;
        self.pipeline.committed();
        self.heartbeat.note_written(self.env.monotonic());
        self.chronicle().add(&uberblock, taken);
        *self.uberblock.write() = uberblock;
        self.release_left();
        self.finish_group(root)
    }

    /// Asserts what an uberblock promises to the next import: its group is later than all before,
    /// its root is this group's or the last one's, and the space maps below it are complete.
    fn assert_can_commit(&self, txg: Txg, before: &Uberblock, root: &BlockPointer) {
        assert!(txg > before.txg, "{txg:?} comes after {:?}", before.txg);
        assert!(
            *root == before.root || root.logical_birth() == txg,
            "the root of {txg:?} was born in {:?}",
            root.logical_birth()
        );
        assert!(!self.has_unrecorded(), "no map has some of {txg:?}");
    }

    /// Writes labels, if they are to be new, around the uberblock. A log device that does not get
    /// the uberblock is named by labels before any other device gets it. Returns the leaves that
    /// have the uberblock now.
    fn write_state(
        &self,
        uberblock: &Uberblock,
        mut labels: Option<Vec<(Guid, NvList)>>,
        previous: Previous,
    ) -> Result<Vec<Guid>, SyncError> {
        let (txg, multihost) = (uberblock.txg, self.heartbeat.is_on());
        let write_labels =
            |labels: &[(Guid, NvList)], phase| self.vdevs.shape().write_labels(labels, phase, txg);
        if let Some(labels) = &labels {
            self.insist(|| write_labels(labels, LabelPhase::Even))?;
        }
        let mut is_due = false;
        let taken = self.insist(|| {
            let shape = self.vdevs.shape();
            let logs = shape.write_log_uberblocks(uberblock, multihost);
            let mut taken = logs.0.clone();
            {
                let mut config = self.config();
                is_due |= config.note_logs(logs, previous.txg);
                if is_due {
                    labels = Some(config.labels(txg, previous));
                }
            }
            if let Some(labels) = labels.as_ref().filter(|_| is_due) {
                write_labels(labels, LabelPhase::Even)?;
                is_due = false;
            }
            let scope = match &labels {
                Some(_) => UberblockScope::All,
                None => UberblockScope::Some(usize::try_from(txg.0).unwrap_or(0)),
            };
            taken.extend(shape.write_main_uberblocks(uberblock, scope, multihost)?);
            Ok(taken)
        })?;
        if let Some(labels) = &labels {
            self.insist(|| write_labels(labels, LabelPhase::Odd))?;
        }
        Ok(taken)
    }

    /// Releases devices that left with the group, and clears their labels: they must not be found
    /// as a part of the pool. If that fails, their labels are still older than all others, which an
    /// import detects.
    fn release_left(&self) {
        let left = self.take_left();
        if left.is_empty() {
            return;
        }
        let spares = self.dsl.auxiliary_vdevs(directory_keys::SPARES);
        let spares = spares.unwrap_or_default();
        for left in left {
            let is_gone = self.config().leaf_mut(left.leaf).is_none();
            let spare = spares.iter().find(|spare| spare.guid == left.leaf);
            let _ = match spare {
                _ if !is_gone => Ok(()),
                None => clear_labels(left.device.as_ref()),
                Some(spare) => {
                    let label = label_of(spare, PoolState::Spare, self.dsl.version());
                    format_labels(left.device.as_ref(), Some(&label))
                }
            };
            left.device.unlock();
        }
    }

    /// Writes labels or the uberblock, again and again if the pool is to wait for its devices:
    /// every attempt writes all of them.
    fn insist<T>(&self, mut write: impl FnMut() -> Result<T, VdevError>) -> Result<T, SyncError> {
        let suspension = self.pipeline.suspension();
        loop {
            let attempt = suspension.attempt();
            let error = match write() {
                Err(error @ VdevError::UnwrittenLabels { .. }) => error,
                other => return Ok(other?),
            };
            if !suspension.wait(attempt, &error) {
                return Err(error.into());
            }
            if let Some(cause) = self.heartbeat.overdue(self.env.monotonic()) {
                return Err(SyncError::Stopped { cause });
            }
        }
    }

    /// What follows from the group being on disk.
    fn finish_group(&self, root: BlockPointer) -> Result<(), SyncError> {
        let cache = Arc::clone(self.mos.cache());
        let committed = ObjectSet::open(cache, ObjsetId::MOS, root, None)?;
        self.space
            .committed(self.uberblock().txg, committed)
            .map_err(|(vdev, conflict)| SyncError::Space { vdev, conflict })?;
        self.dsl
            .set_space(space_facts(&self.vdevs.shape(), &self.space.figures()));
        Ok(())
    }
}
