//! The history of errors: what went wrong with each pool, kept over restarts.
//!
//! Error counters of devices are reset by each import, so a day later they may show nothing. So
//! their growth is recorded beside the daemon's other state, in a file for each pool:
//! `errors/GUID.jsonl`, a record a line. It is not stored in the pool: a faulty pool would have to
//! be written to for each of its errors.
//!
//! What is of the same kind and device within [`SPAN`] is one record, and [`RECORDS_MAX`] of a pool
//! are kept. Files are written by a job of its own, at most every [`PERIOD`], since their disk
//! may be slow or ill itself: a crash loses that much.

use cenote_base::rt::Instant;
use cenote_base::rt::job::{Job, once};
use cenote_control::model::{ErrorKind, ErrorRecord};
use cenote_control::regular;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{ErrorKind as IoErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds within which errors are one record.
const SPAN: u64 = 3600;
/// Records of a pool.
const RECORDS_MAX: usize = 200;
/// Bytes of a file: more than so many records take.
const SIZE_MAX: u64 = 1 << 20;
/// Between two writes of the files.
const PERIOD: Duration = Duration::from_secs(10);

/// The histories of all pools that were met.
#[derive(Debug, Default)]
pub struct Journal {
    /// Where the files are; without it nothing outlives the daemon.
    directory: Option<PathBuf>,
    pools: HashMap<u64, Kept>,
    written: Duration,
    job: Job,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<ErrorRecord>,
    is_dirty: bool,
}

/// Adds the counts of a record to an earlier one; whether they are of the same kind.
fn merge(into: &mut ErrorRecord, more: &ErrorRecord) -> bool {
    let is_near = more.last.saturating_sub(into.first) < SPAN;
    if !is_near || into.guid != more.guid || into.device != more.device {
        return false;
    }
    match (&mut into.kind, more.kind) {
        (
            ErrorKind::Errors {
                read,
                write,
                checksum,
            },
            ErrorKind::Errors {
                read: more_read,
                write: more_write,
                checksum: more_checksum,
            },
        ) => {
            *read = read.saturating_add(more_read);
            *write = write.saturating_add(more_write);
            *checksum = checksum.saturating_add(more_checksum);
        }
        (ErrorKind::Data { reads }, ErrorKind::Data { reads: more }) => {
            *reads = reads.saturating_add(more);
        }
        _ => return false,
    }
    into.last = more.last;
    true
}

impl Journal {
    /// The histories in `directory`; without one they are only in memory.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self {
            directory,
            ..Self::default()
        }
    }

    fn file(&self, pool: u64) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?;
        Some(directory.join("errors").join(format!("{pool}.jsonl")))
    }

    fn kept(&mut self, pool: u64) -> &mut Kept {
        let file = self.file(pool);
        self.pools.entry(pool).or_insert_with(|| Kept {
            records: file.map(|file| load(&file)).unwrap_or_default(),
            is_dirty: false,
        })
    }

    /// Notes what went wrong with the pool of this guid.
    pub fn add(&mut self, pool: u64, record: ErrorRecord) {
        let kept = self.kept(pool);
        kept.is_dirty = true;
        // Records in between belong to other devices.
        let mut earlier = kept.records.iter_mut().rev();
        if earlier.any(|earlier| merge(earlier, &record)) {
            return;
        }
        if kept.records.len() >= RECORDS_MAX {
            kept.records.pop_front();
        }
        kept.records.push_back(record);
    }

    /// The history of a pool, oldest first.
    pub fn records(&mut self, pool: u64) -> Vec<ErrorRecord> {
        self.kept(pool).records.iter().cloned().collect()
    }

    /// Has changed histories written, if it is time.
    pub fn write_in_time(&mut self, now: Duration) {
        let is_time = now.saturating_sub(self.written) >= PERIOD;
        if !is_time || self.job.is_at_work() {
            return;
        }
        let work = self.take_changed();
        if work.is_empty() {
            return;
        }
        self.written = now;
        let work = once(move || store_all(work));
        if let Err(error) = self.job.start("error_history", work) {
            log::warn!("the history of errors is not written: {error}");
        }
    }

    /// Writes what is not written yet, before the daemon ends.
    pub fn finish(&mut self) {
        // What is being written now is older, and not to come last.
        self.job.wait_idle(Instant::now() + PERIOD);
        store_all(self.take_changed());
    }

    fn take_changed(&mut self) -> Vec<(PathBuf, Vec<ErrorRecord>)> {
        let changed = self.pools.iter().filter(|(_, kept)| kept.is_dirty);
        let work = changed.filter_map(|(pool, kept)| {
            let records = kept.records.iter().cloned().collect();
            Some((self.file(*pool)?, records))
        });
        let work = work.collect();
        self.pools
            .values_mut()
            .for_each(|kept| kept.is_dirty = false);
        work
    }
}

/// Loads the records of a file. Skips lines that are not records.
fn load(file: &Path) -> VecDeque<ErrorRecord> {
    let opened = match regular::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == IoErrorKind::NotFound => return VecDeque::new(),
        Err(error) => {
            log::warn!("{}: {error}", file.display());
            return VecDeque::new();
        }
    };
    let mut bytes = Vec::new();
    if let Err(error) = opened.take(SIZE_MAX).read_to_end(&mut bytes) {
        log::warn!("{}: {error}", file.display());
    }
    let text = String::from_utf8_lossy(&bytes);
    let records = text.lines().map(serde_json::from_str::<ErrorRecord>);
    let mut records: VecDeque<ErrorRecord> = records.filter_map(Result::ok).collect();
    let surplus = records.len().saturating_sub(RECORDS_MAX);
    records.drain(..surplus);
    records
}

fn store_all(work: Vec<(PathBuf, Vec<ErrorRecord>)>) {
    for (file, records) in work {
        if let Err(error) = store(&file, &records) {
            log::warn!("{}: {error}", file.display());
        }
    }
}

/// Writes a file beside its place and puts it there: there is always a whole one.
fn store(file: &Path, records: &[ErrorRecord]) -> std::io::Result<()> {
    let mut text = String::new();
    for record in records {
        text.push_str(&serde_json::to_string(record)?);
        text.push('\n');
    }
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let beside = file.with_extension("new");
    fs::write(&beside, text)?;
    fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(at: u64, guid: u64, checksum: u64) -> ErrorRecord {
        ErrorRecord {
            first: at,
            last: at,
            device: format!("/dev/{guid}"),
            guid,
            kind: ErrorKind::Errors {
                read: 0,
                write: 1,
                checksum,
            },
        }
    }

    #[test]
    fn records_are_merged_bounded_and_outlive_their_daemon() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = || Some(directory.path().to_owned());
        let mut journal = Journal::new(place());
        journal.add(7, errors(1000, 1, 2));
        journal.add(7, errors(1500, 2, 1));
        journal.add(7, errors(2000, 1, 3));
        journal.add(7, errors(1000 + SPAN, 1, 1));
        let suspended = ErrorRecord {
            kind: ErrorKind::Suspended,
            ..errors(9000, 0, 0)
        };
        journal.add(8, suspended.clone());
        let of_7 = journal.records(7);
        assert_eq!(of_7.len(), 3);
        let counts = ErrorKind::Errors {
            read: 0,
            write: 2,
            checksum: 5,
        };
        assert_eq!((of_7[0].last, of_7[0].kind), (2000, counts));
        journal.finish();
        let mut next = Journal::new(place());
        assert_eq!(next.records(7), of_7);
        assert_eq!(next.records(8), [suspended]);
        for number in 0..2 * RECORDS_MAX as u64 {
            next.add(7, errors(10_000 + number, 100 + number, 1));
        }
        assert_eq!(next.records(7).len(), RECORDS_MAX);
        next.finish();
        let file = directory.path().join("errors/7.jsonl");
        let mut text = fs::read_to_string(&file).expect("a file");
        text.push_str("{\"first\": 1\n\u{0}\n");
        fs::write(&file, text).expect("a file");
        let last = Journal::new(place()).records(7);
        assert_eq!(last, next.records(7), "what is no record is left out");
    }
}
