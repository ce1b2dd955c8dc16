//! Reports on intent logs after a crash: which there are, and how their replay went.

use super::imported::Imported;
use super::walk::walk_heads;
use cenote_control::model::IntentLogReport;
use cenote_dsl::{Dataset, DatasetName, DatasetType};
use cenote_intent_log::IntentLog;
use cenote_volume::Volume;
use std::sync::Arc;

impl Imported {
    /// The contents of the datasets' intent logs after a crash, which are read once, and the
    /// results of their replays so far. Replayed logs are reported only if the replay stopped
    /// early.
    pub fn intent_logs(&self) -> Vec<IntentLogReport> {
        let found = self.replays.found.get_or_init(|| {
            let mut reports = Vec::new();
            walk_heads(self.dsl(), |head| reports.extend(self.intent_log(head)));
            reports
        });
        let results = self.replays.results();
        let with_result = found.iter().map(|report| {
            let mut report = report.clone();
            if let Some(result) = results.get(&report.dataset) {
                report.applied = Some(result.applied);
                report.stopped = result.stopped.clone();
            }
            report
        });
        let is_told = |report: &IntentLogReport| {
            !self.pool.is_writable() || report.stopped.is_some() || self.still_waits(report)
        };
        with_result.filter(is_told).collect()
    }

    /// Whether the log is still there.
    fn still_waits(&self, report: &IntentLogReport) -> bool {
        let name = DatasetName::parse(&report.dataset).ok();
        let dataset = name.and_then(|name| self.dsl().dataset(&name).ok());
        report.applied.is_none()
            && dataset.is_some_and(|dataset| self.intent_log(&dataset).is_some())
    }

    /// The logs whose replay stops early; those of unopened datasets are replayed in memory to find
    /// out. Datasets without loaded keys are left out.
    pub fn logs_cut_short(&self) -> Vec<IntentLogReport> {
        if self.pool.is_writable() {
            let mut logs = self.intent_logs();
            logs.retain(|log| log.stopped.is_some());
            return logs;
        }
        if !self.replays_in_memory() {
            return Vec::new();
        }
        for report in self.intent_logs() {
            let name = DatasetName::parse(&report.dataset);
            let unknown = name.ok().filter(|_| report.applied.is_none());
            let dataset = unknown.and_then(|name| self.dsl().dataset(&name).ok());
            // An unreadable log is reported as such already, and again when it is mounted.
            dataset.and_then(|dataset| match dataset.dataset_type().ok()? {
                DatasetType::Filesystem => self.files(&dataset).ok().map(|_| ()),
                DatasetType::Volume => self.replay_volume(&dataset),
            });
        }
        let mut logs = self.intent_logs();
        logs.retain(|log| log.stopped.is_some() || log.broken.is_some());
        logs
    }

    /// Replays a volume's log in memory, to find how far it goes. Commands that read volumes
    /// do the same.
    fn replay_volume(&self, dataset: &Dataset) -> Option<()> {
        let set = dataset.object_set().ok()?;
        let env = Arc::clone(self.pool.env());
        let (_, report) = Volume::open_replayed(set, self.pool.txg(), env).ok()?;
        self.replays.note(dataset.name().as_str(), report.into());
        Some(())
    }

    fn intent_log(&self, head: &Dataset) -> Option<IntentLogReport> {
        let set = head.object_set().ok()?;
        let log = IntentLog::open(&set).ok()??;
        // In a writable pool, logs from a crash were claimed; other logs are in use.
        if self.pool.is_writable() && !log.is_claimed() {
            return None;
        }
        let mut report = IntentLogReport {
            dataset: head.name().as_str().to_owned(),
            records: 0,
            blocks: 0,
            bytes: 0,
            replayed: self.replays_in_memory(),
            applied: None,
            stopped: None,
            broken: None,
        };
        match log.summary(self.pool.txg()) {
            Ok(summary) if summary.replayable == 0 => return None,
            Ok(summary) => {
                report.records = summary.replayable;
                report.blocks = summary.blocks;
                report.bytes = summary.bytes;
            }
            Err(error) => report.broken = Some(error.to_string()),
        }
        Some(report)
    }
}
