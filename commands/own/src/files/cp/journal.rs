//! What an interrupted copy needs to resume.
//!
//! A small file in the target records what is being copied and how many entries of the walk are
//! complete *and written out*. The walk over one txg of a dataset always has the same order, so a
//! number is enough. Later entries may exist, partly exist, or be lost after a power failure: they
//! are copied again. For a large file in progress, the journal has the number of bytes written out.

use super::target::TargetDirectory;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The journal's name in the target directory.
pub const JOURNAL_NAME: &[u8] = b".cenote-copy";
/// The name of a new journal before it replaces the old one.
const JOURNAL_NEW: &[u8] = b".cenote-copy.new";
/// How often to sync the target and save the journal.
const INTERVAL: Duration = Duration::from_secs(10);
/// The maximum size of a journal. It has a few hundred bytes; a path has at most a few thousand.
const LENGTH_MAX: u64 = 1 << 20;

/// What is being copied. A journal of a different copy is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The pool.
    pub pool_guid: u64,
    /// The dataset's object set.
    pub objset: u64,
    /// The txg that the pool was opened at.
    pub txg: u64,
    /// Whether the intent log was replayed.
    pub replay: bool,
    /// The object that the copy begins with.
    pub start: u64,
    /// Whether attributes are copied, too.
    pub attributes: bool,
}

/// A file that is partly written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Its entry's number in the walk.
    pub entry: u64,
    /// Bytes that are written out.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    identity: Identity,
    entries: u64,
    partial: Option<Partial>,
}

/// The journal of one copy.
#[derive(Debug)]
pub struct Journal {
    directory: TargetDirectory,
    state: State,
    /// The progress of an earlier run.
    before: (u64, Option<Partial>),
    saved: Instant,
}

impl Journal {
    /// Opens the journal in `directory`; uses an earlier run's if it belongs to the same copy.
    pub fn open(directory: TargetDirectory, identity: Identity) -> Self {
        // An unreadable journal is ignored: everything is copied again.
        let before = read(&directory).ok().flatten();
        let before = before.filter(|state| state.identity == identity);
        let before = before.map_or((0, None), |state| (state.entries, state.partial));
        let state = State {
            identity,
            entries: 0,
            partial: None,
        };
        Self {
            directory,
            state,
            before,
            saved: Instant::now(),
        }
    }

    /// Whether an earlier run completed entry `entry`.
    pub fn was_done(&self, entry: u64) -> bool {
        entry < self.before.0
    }

    /// How many bytes of entry `entry` an earlier run wrote.
    pub fn was_written(&self, entry: u64) -> u64 {
        match self.before.1 {
            Some(partial) if partial.entry == entry => partial.bytes,
            _ => 0,
        }
    }

    /// Whether an earlier run left progress to resume from.
    pub fn goes_on(&self) -> bool {
        self.before != (0, None)
    }

    /// Whether it is time to save.
    pub fn is_due(&self) -> bool {
        self.saved.elapsed() >= INTERVAL
    }

    /// Syncs the target and records the progress.
    pub fn save(&mut self, entries: u64, partial: Option<Partial>) -> io::Result<()> {
        self.directory.sync()?;
        // Keep the earlier run's progress until this run is beyond it.
        (self.state.entries, self.state.partial) = match entries >= self.before.0 {
            true => (entries, partial),
            false => self.before,
        };
        let mut file = self.directory.create(JOURNAL_NEW, 0o600, false)?;
        file.write_all(&serde_json::to_vec(&self.state)?)?;
        file.sync_all()?;
        self.directory.rename(JOURNAL_NEW, JOURNAL_NAME)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// Removes the journal: the copy is complete.
    pub fn remove(&self) -> io::Result<()> {
        self.directory.remove(JOURNAL_NAME)
    }
}

fn read(directory: &TargetDirectory) -> io::Result<Option<State>> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd: OwnedFd = match openat(directory, JOURNAL_NAME, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut text = Vec::new();
    std::fs::File::from(fd)
        .take(LENGTH_MAX)
        .read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(txg: u64) -> Identity {
        Identity {
            pool_guid: u64::MAX,
            objset: 54,
            txg,
            replay: false,
            start: 34,
            attributes: true,
        }
    }

    #[test]
    fn a_journal_counts_for_the_same_copy_only() {
        let directory = tempfile::tempdir().unwrap();
        let open = |txg| {
            let top = TargetDirectory::open_top(directory.path()).unwrap();
            Journal::open(top, identity(txg))
        };
        let mut journal = open(7);
        assert!(!journal.goes_on() && !journal.was_done(0));
        let partial = Partial {
            entry: 12,
            bytes: 99,
        };
        journal.save(12, Some(partial)).unwrap();
        assert!(!open(8).goes_on());
        let mut again = open(7);
        assert!(again.was_done(11) && !again.was_done(12));
        assert_eq!((again.was_written(12), again.was_written(13)), (99, 0));
        // An early save in the second run keeps the first run's progress.
        again.save(3, None).unwrap();
        assert!(open(7).was_done(11));
        again.remove().unwrap();
        assert!(!open(7).goes_on());
    }

    #[test]
    fn rubbish_is_no_journal() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(".cenote-copy"), "{\"entries\": 5").unwrap();
        let top = TargetDirectory::open_top(directory.path()).unwrap();
        assert!(!Journal::open(top, identity(7)).goes_on());
    }
}
