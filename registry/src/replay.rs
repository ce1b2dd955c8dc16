//! Replays of intent logs that a crash left, in pools that are open for writing.
//!
//! A log is replayed when its head is opened for writing, a volume's already when the pool is
//! imported or its key loaded. Afterwards the log is destroyed without a trace. Until then only the
//! replay may change the dataset: records of the log must not overwrite newer changes.

use super::heads::settings_of;
use super::imported::Imported;
use super::replays::Replayed;
use super::walk::walk_heads;
use crate::errors::{of_dsl, of_files, of_sync, of_volume};
use cenote_control::model::{ControlError, IntentLogReport};
use cenote_dataset::{Access, OpenDataset};
use cenote_dsl::{Dataset, DatasetName, DatasetType, Dsl, DslError, KeyStatus};
use cenote_intent_log::IntentLog;
use cenote_posix::{FileSystem, Timestamp};
use cenote_volume::Volume;

/// Whether a head that is not open has a log to be replayed or, if nothing is in it, to be freed.
fn has_log(dataset: &Dataset, dsl: &Dsl) -> Result<bool, DslError> {
    if dataset.is_snapshot() || dataset.phys().block_pointer.is_hole() {
        return Ok(false);
    }
    let log = IntentLog::open(&dataset.object_set()?)?;
    Ok(match log {
        Some(log) if log.is_claimed() => true,
        // A log that the import could not read was not claimed: its blocks may have been reused.
        Some(_) => !dsl.unclaimed_logs()?.contains_key(&dataset.id()),
        None => false,
    })
}

/// Whether a head's log has something that is not in the dataset.
fn needs_replay(dataset: &Dataset) -> Result<bool, DslError> {
    let log = IntentLog::open(&dataset.object_set()?)?;
    Ok(log.is_some_and(|log| log.is_claimed() && log.header().needs_replay()))
}

impl Imported {
    /// Replays what a crash left in a dataset's intent log, if anything, and destroys the log.
    ///
    /// # Errors
    /// If the log cannot be read, or the pool cannot be written. Then all is as before.
    pub(crate) fn replay(&self, dataset: &Dataset) -> Result<(), ControlError> {
        let Ok(access) = self.access() else {
            return Ok(());
        };
        let turn = self.heads.turn(dataset.id());
        match turn.contents {
            // It was replayed when it was opened.
            Some(_) => Ok(()),
            None => self.replay_in_turn(dataset, &access),
        }
    }

    /// Replays the logs of heads that wait for that since the import. A snapshot of such a head
    /// would lack what `fsync` promised.
    ///
    /// # Errors
    /// If one cannot be replayed, for example without its dataset's key.
    pub fn replay_waiting(&self, names: &[DatasetName]) -> Result<(), ControlError> {
        let waiting = self.pool.waiting_logs();
        if waiting.is_empty() {
            return Ok(());
        }
        for name in names {
            // What is not there is for the change itself to say.
            let Ok(dataset) = self.dsl().dataset(&name.dataset()) else {
                continue;
            };
            if waiting.contains(&dataset.id()) && needs_replay(&dataset).map_err(of_dsl)? {
                self.replay(&dataset)?;
            }
        }
        Ok(())
    }

    /// As [`Self::replay`], for a caller that has the turn of a closed head.
    pub(super) fn replay_in_turn(
        &self,
        dataset: &Dataset,
        access: &Access,
    ) -> Result<(), ControlError> {
        if !has_log(dataset, self.dsl()).map_err(of_dsl)? {
            return Ok(());
        }
        let open = access.open(dataset).map_err(of_dsl)?;
        let replayed = self.replay_open(dataset, &open);
        let closed = open.end();
        let replayed = replayed?;
        closed.map_err(|error| of_sync(self.name(), error.into()))?;
        if let Some(replayed) = replayed {
            self.replays.note(dataset.name().as_str(), replayed);
        }
        Ok(())
    }

    /// Replays and destroys the log of an open head. `None` if nothing was in it: of a log whose
    /// records are all in groups on disk a crash leaves the block for the next ones.
    fn replay_open(
        &self,
        dataset: &Dataset,
        open: &OpenDataset,
    ) -> Result<Option<Replayed>, ControlError> {
        let name = dataset.name().as_str();
        let Some(log) = open.log().map_err(of_dsl)? else {
            return Ok(None);
        };
        if !log.header().needs_replay() {
            open.destroy_log(&log).map_err(of_dsl)?;
            return Ok(None);
        }
        let replayed = match dataset.dataset_type().map_err(of_dsl)? {
            DatasetType::Filesystem => {
                let seconds = i64::try_from(self.pool.opened_uberblock().timestamp).unwrap_or(0);
                let since = Timestamp::from_stored((seconds, 0));
                let settings = settings_of(dataset)?.files;
                let report = FileSystem::replay_log(open, &log, settings, since);
                report.map_err(|error| of_files(name, &error))?.into()
            }
            DatasetType::Volume => {
                let report = Volume::replay_log(open, &log);
                report.map_err(of_volume)?.into()
            }
        };
        open.destroy_log(&log).map_err(of_dsl)?;
        Ok(Some(replayed))
    }

    /// Logs that the import discarded, or of which it kept only the beginning.
    pub fn discarded_logs(&self) -> Vec<IntentLogReport> {
        let heads = self.pool.discarded_logs().iter();
        let named = heads.filter_map(|head| self.dsl().dataset_of(*head).ok());
        let report = |head: Dataset| IntentLogReport {
            dataset: head.name().as_str().to_owned(),
            records: 0,
            blocks: 0,
            bytes: 0,
            replayed: false,
            applied: None,
            stopped: None,
            broken: Some("what could not be kept of it was discarded".to_owned()),
        };
        named.map(report).collect()
    }

    /// Replays the logs of all volumes whose keys are there; what failed.
    pub fn replay_volumes(&self) -> Vec<(String, ControlError)> {
        let mut volumes = Vec::new();
        if self.pool.is_writable() {
            walk_heads(self.dsl(), |head| {
                let is_volume = head.dataset_type().ok() == Some(DatasetType::Volume);
                let key = self.dsl().key_status(head.directory()).ok();
                if is_volume && key != Some(KeyStatus::Unavailable) {
                    volumes.push(head.name().clone());
                }
            });
        }
        let mut failures = Vec::new();
        for name in volumes {
            let dataset = self.dsl().dataset(&name).map_err(of_dsl);
            if let Err(error) = dataset.and_then(|dataset| self.replay(&dataset)) {
                failures.push((name.as_str().to_owned(), error));
            }
        }
        failures
    }
}
