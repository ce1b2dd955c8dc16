//! What can be done with a pool that is open for writing.

use crate::devices::watch_names;
use crate::pool::Pool;
use crate::sync::{SyncError, Syncer, begin_aging};
use cenote_base::Txg;
use cenote_dmu::TxgGate;
use cenote_dsl::write::SyncTask;
use cenote_io::{FailMode, Writer};
use cenote_ondisk::pool_config::PoolState;
use std::sync::Arc;

fn read_only() -> SyncError {
    let cause = "it is open for reading only".to_owned();
    SyncError::Stopped { cause }
}

impl Pool {
    /// Whether the pool can be changed.
    pub fn is_writable(&self) -> bool {
        self.syncer().is_some()
    }

    pub(crate) fn writer(&self) -> Result<&Arc<Syncer>, SyncError> {
        self.syncer().ok_or_else(read_only)
    }

    /// The gate through which transactions enter.
    ///
    /// # Errors
    /// If the pool is open for reading only.
    pub fn gate(&self) -> Result<&Arc<TxgGate>, SyncError> {
        Ok(&self.writer()?.gate)
    }

    /// What writes the pool's blocks, for logs that are written beside transaction groups.
    ///
    /// # Errors
    /// If the pool is open for reading only.
    pub fn block_writer(&self) -> Result<&Arc<Writer>, SyncError> {
        Ok(&self.writer()?.writer)
    }

    /// Why the pool takes no changes, if it does not: for good, or until devices are there again.
    pub fn suspended(&self) -> Option<Arc<str>> {
        let syncer = self.syncer()?;
        let waiting = || syncer.pipeline.suspension().cause();
        syncer.gate.suspended().or_else(waiting)
    }

    /// Whether it is suspended only until devices return, so that [`clear`](Self::clear) may resume
    /// it.
    pub fn is_waiting(&self) -> bool {
        self.syncer().is_some_and(|syncer| {
            syncer.gate.suspended().is_none() && syncer.pipeline.suspension().cause().is_some()
        })
    }

    /// Says what becomes of work that devices do not do (the property `failmode`); by default it
    /// fails, and the pool with it. Nothing waits in a pool that is open for reading only.
    pub fn set_fail_mode(&self, mode: FailMode) {
        if let Some(syncer) = self.syncer() {
            syncer.pipeline.suspension().set_mode(mode);
            syncer.gate.wake();
        }
    }

    /// What becomes of work that devices do not do.
    pub fn fail_mode(&self) -> FailMode {
        self.syncer()
            .map_or(FailMode::Stop, |syncer| syncer.pipeline.suspension().mode())
    }

    /// Sets a listener for suspensions: it gets the cause when the pool starts to wait for devices,
    /// or takes no more changes for another reason.
    pub fn on_suspension(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        if let Some(syncer) = self.syncer() {
            syncer.pipeline.suspension().set_listener(listener);
        }
    }

    /// Stops waiting for devices: all waiting calls return an error.
    pub fn give_up(&self) {
        if let Some(syncer) = self.syncer() {
            syncer.give_up();
        }
    }

    /// Whether it takes none because no heartbeat could be written for too long: other systems may
    /// believe that the pool is free.
    pub fn has_lost_heartbeat(&self) -> bool {
        self.syncer()
            .is_some_and(|syncer| syncer.heartbeat.is_lost())
    }

    /// Begins or ends showing other systems that the pool is in use: the property `multihost`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn set_multihost(&self, is_on: bool) -> std::io::Result<()> {
        match self.syncer() {
            Some(syncer) if is_on => syncer.heartbeat.start(syncer),
            Some(syncer) => {
                syncer.heartbeat.stop();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Carries out a change of the pool's metadata and waits until it is on disk.
    ///
    /// # Errors
    /// Why it was refused, or why the pool takes no changes.
    pub fn run_task<T: SyncTask + 'static>(&self, task: T) -> Result<T, SyncError> {
        self.writer()?.run_task(task)
    }

    /// Waits until everything that was changed before is on disk.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn sync(&self) -> Result<(), SyncError> {
        let gate = self.gate()?;
        let txg = gate.open_txg();
        Ok(gate.wait_synced(txg)?)
    }

    /// The same, but a group is written even if nothing was changed: labels and uberblocks.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn sync_labels(&self) -> Result<(), SyncError> {
        self.writer()?.config().touch();
        self.sync()
    }

    /// The last transaction group that is on disk.
    pub fn synced_txg(&self) -> Txg {
        match self.syncer() {
            Some(syncer) => syncer.gate.synced_txg(),
            None => self.txg(),
        }
    }

    /// Writes what is dirty and ends all writing. The labels keep saying that the pool is in use.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn close(&self) -> Result<(), SyncError> {
        if self.is_waiting() {
            self.give_up();
        }
        self.watchers().iter().for_each(|job| job.close());
        self.stop_treatments();
        self.rebuilds().stop();
        self.scans().stop();
        let Some(syncer) = self.syncer() else {
            return Ok(());
        };
        let stopped = syncer.stop();
        syncer.heartbeat.stop();
        stopped
    }

    /// Begins to give logs what is late, and to look at the names of devices.
    pub(crate) fn begin_watching(&self) {
        if let Some(syncer) = self.syncer() {
            let [aging, names] = self.watchers();
            // Without a thread it waits for its group, as it does in a dataset without a log.
            let _ = begin_aging(aging, syncer);
            // Without one commits still look.
            let _ = watch_names(names, syncer);
        }
    }

    fn stop_treatments(&self) {
        if let (Some(treatments), Some(syncer)) = (self.treatment_slot().get(), self.syncer()) {
            treatments.stop(syncer);
        }
    }

    fn leave(&self, state: PoolState) -> Result<(), SyncError> {
        let Some(syncer) = self.syncer() else {
            return Ok(());
        };
        if self.is_waiting() {
            self.give_up();
        }
        self.watchers().iter().for_each(|job| job.close());
        self.stop_treatments();
        self.rebuilds().stop();
        self.scans().stop();
        {
            let mut config = syncer.config();
            config.config.state = state;
            config.touch();
        }
        let stopped = syncer.stop();
        syncer.heartbeat.stop();
        stopped?;
        syncer.vdevs.shape().unlock();
        Ok(())
    }

    /// Writes what is dirty, marks the pool as exported, and ends all writing.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn export(&self) -> Result<(), SyncError> {
        self.leave(PoolState::Exported)
    }

    /// Ends all writing of a suspended pool: it stays as its last transaction group left it.
    pub fn abandon(&self) {
        if let Some(syncer) = self.syncer() {
            // Why it is suspended is known already.
            let _ = self.close();
            syncer.vdevs.shape().unlock();
        }
    }

    /// Notes that the pool is destroyed, and ends all writing.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn destroy(&self) -> Result<(), SyncError> {
        self.leave(PoolState::Destroyed)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Callers that want the error close or export the pool before.
        let _ = self.close();
    }
}
