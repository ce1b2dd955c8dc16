//! Which pools should be imported, and are not.
//!
//! A pool is expected if `cenote daemon resume` would import it: the default cache file has it, or
//! a daemon that died had it. Not expected are pools without a place in the default cache file
//! (`cachefile=none`, `-R`, `-t`, read-only imports), once the machine has started again. A pool
//! stays expected until it is imported, under any name, or exported, destroyed or forgotten.
//!
//! A pool that a daemon released when it was stopped is missing on purpose, until an import of it
//! fails or the machine starts again.
//!
//! The cache file is read by requests and by a job, and not where a pool waits.

use crate::registry::cache_file::cached_pools;
use crate::registry::cache_places::CacheFiles;
use cenote_control::expected::{CachedPool, missing};
use cenote_control::model::{
    ControlError, Diagnosis, Fault, ImportPick, MissingPool, Refusal, StoreRefusal,
};
use cenote_control::record::{DaemonRecord, FailedImport, TOUCH_PERIOD};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Devices that a reason names.
const DEVICES_MAX: usize = 8;

/// The pools in the default cache file, and which of those that are missing were reported.
#[derive(Debug, Default)]
pub(super) struct Expected {
    cached: Vec<CachedPool>,
    /// Of the cache files when this was read, and when.
    writes: Option<u64>,
    read: Duration,
    told: BTreeSet<u64>,
}

impl Expected {
    /// Whether the cache file may have changed since it was read.
    pub fn is_outdated(&self, files: &CacheFiles, now: Duration) -> bool {
        self.writes != Some(files.writes()) || now.saturating_sub(self.read) >= TOUCH_PERIOD
    }

    /// Reads the cache file again. One that cannot be read changes nothing: commands report it.
    pub fn read(&mut self, files: &CacheFiles, now: Duration) {
        (self.writes, self.read) = (Some(files.writes()), now);
        let cached = files.default.as_deref().map(|file| {
            let socket = Path::new(&files.owner);
            cached_pools(file, socket)
        });
        match cached {
            None => self.cached.clear(),
            Some(Ok(cached)) => self.cached = cached,
            Some(Err(error)) => log::debug!("the cache file was not read: {error}"),
        }
    }

    /// The guids of the pools in the cache file.
    pub fn guids(&self) -> impl Iterator<Item = u64> {
        self.cached.iter().map(|pool| pool.guid)
    }

    /// The pools that should be imported, and of which `is_imported` does not hold.
    pub fn missing(
        &self,
        record: &DaemonRecord,
        is_imported: impl Fn(u64) -> bool,
    ) -> Vec<MissingPool> {
        missing(record, &self.cached, is_imported)
    }

    /// Those of them whose import failed, and that were not reported yet.
    pub fn untold(&mut self, missing: Vec<MissingPool>) -> Vec<MissingPool> {
        self.told
            .retain(|guid| missing.iter().any(|pool| pool.guid == *guid));
        let mut untold = missing;
        untold.retain(|pool| pool.tried.is_some() && !pool.is_lost && self.told.insert(pool.guid));
        untold
    }
}

/// Which of the missing pools an import was for.
pub(super) fn meant<'a>(pick: &ImportPick, missing: &'a [MissingPool]) -> Option<&'a MissingPool> {
    let is_meant = |pool: &&MissingPool| match pick {
        ImportPick::All => false,
        ImportPick::Name(name) => pool.name == *name,
        ImportPick::Guid(guid) => pool.guid == *guid,
    };
    missing.iter().find(is_meant)
}

/// That the import of a missing pool failed.
pub(super) fn failed(pool: &MissingPool, error: &ControlError, now: u64) -> FailedImport {
    let is_away = |path: &&String| path.starts_with('/') && !Path::new(path.as_str()).exists();
    let away: Vec<&str> = pool
        .devices
        .iter()
        .filter(is_away)
        .map(String::as_str)
        .collect();
    let mut reason = error.to_string();
    match error {
        ControlError::DevicesUnavailable { diagnoses, .. } => {
            let lines = diagnoses.iter().take(DEVICES_MAX).map(diagnosis);
            let lines: Vec<String> = lines.collect();
            reason.push_str(&format!(": {}", lines.join("; ")));
            if !away.is_empty() {
                reason.push_str(&format!("; these devices are not there: {}", list(&away)));
            }
        }
        ControlError::NoSuchCandidate { .. } if away.is_empty() => {
            reason = format!(
                "no device has this pool (looked at {})",
                list(&pool.devices)
            );
        }
        ControlError::NoSuchCandidate { .. } => {
            reason = format!("its devices are not there: {}", list(&away));
        }
        _ => {}
    }
    let may_come = match error {
        ControlError::DevicesUnavailable { .. }
        | ControlError::NoSuchCandidate { .. }
        | ControlError::LogMissing { .. } => true,
        error => matches!(
            error,
            ControlError::Refused(Refusal::Store(StoreRefusal::Unreachable { .. }))
        ),
    };
    FailedImport {
        guid: pool.guid,
        tried: now,
        reason,
        may_come,
    }
}

fn list(names: &[impl AsRef<str>]) -> String {
    let shown = names.iter().take(DEVICES_MAX).map(AsRef::as_ref);
    let shown: Vec<&str> = shown.collect();
    match names.len().saturating_sub(DEVICES_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn diagnosis(found: &Diagnosis) -> String {
    let place = found.found_path.as_ref().or(found.last_path.as_ref());
    let place = place.unwrap_or(&found.vdev);
    let what = match &found.fault {
        Fault::NotFound => "not found".to_owned(),
        Fault::Unreadable { reason } => format!("cannot be read: {reason}"),
        Fault::Labels { .. } => "has damaged labels".to_owned(),
        Fault::NoLabel => "has no valid label".to_owned(),
        Fault::OtherPool { pool } => format!("belongs to pool '{pool}'"),
        Fault::NotUsed { reason } => format!("not used: {reason}"),
        Fault::NotWritable { reason } => format!("cannot be opened for writing: {reason}"),
        Fault::TooSmall { .. } => "is too small".to_owned(),
    };
    format!("{place}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::record::RecordedPool;

    fn cached(guid: u64) -> CachedPool {
        CachedPool {
            name: format!("pool{guid}"),
            guid,
            devices: vec![format!("/nowhere/{guid}")],
        }
    }

    /// A pool whose import failed when the machine started was nowhere: "no pools are imported".
    #[test]
    fn a_pool_that_should_be_there_is_missing_until_it_is() {
        let mut record = DaemonRecord::of_this_process(Path::new("/s"), 0);
        let files = [cached(1), cached(2)];
        let names = |record: &DaemonRecord, imported: &[u64]| -> Vec<u64> {
            let missing = missing(record, &files, |guid| imported.contains(&guid));
            missing.iter().map(|pool| pool.guid).collect()
        };
        assert_eq!(names(&record, &[]), [1, 2]);
        assert_eq!(names(&record, &[1, 2]), [0_u64; 0]);
        let stopped = |guid| RecordedPool {
            guid,
            lasting: true,
            ..RecordedPool::default()
        };
        record.stopped = vec![stopped(1), stopped(2)];
        assert_eq!(
            names(&record, &[]),
            [0_u64; 0],
            "they were released on purpose"
        );
        let error = ControlError::NoSuchCandidate {
            pool: "1".to_owned(),
        };
        let all = missing(
            &DaemonRecord {
                stopped: Vec::new(),
                ..record.clone()
            },
            &files,
            |_| false,
        );
        let pool = meant(&ImportPick::Guid(1), &all).expect("it is missing");
        let failure = failed(pool, &error, 7);
        assert_eq!(failure.reason, "its devices are not there: /nowhere/1");
        assert!(failure.may_come);
        record.failed.push(failure);
        assert_eq!(names(&record, &[]), [1], "its import failed");
        let mut expected = Expected::default();
        let now = || missing(&record, &files, |_| false);
        assert_eq!(expected.untold(now()).len(), 1);
        assert!(expected.untold(now()).is_empty(), "it is reported once");
        assert!(expected.untold(Vec::new()).is_empty());
        assert_eq!(expected.untold(now()).len(), 1, "it was there in between");
    }
}
