//! Which event was handled last, kept over a restart of `zed`.
//!
//! Numbers of events begin again with each daemon, so the time belongs to the position: if a daemon
//! has an event with both, the next one comes after it. Otherwise all events that the daemon still
//! has are new.

use crate::variables::number_of;
use cenote_control::model::Event;
use cenote_control::regular;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The length of the file's only line: three numbers, and what is between them.
const LENGTH: usize = 20 + 1 + 20 + 1 + 9 + 1;

/// An event: its number and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    number: u64,
    seconds: u64,
    nanoseconds: u32,
}

impl Position {
    /// That of an event.
    pub fn of(event: &Event) -> Self {
        Self {
            number: number_of(event),
            seconds: event.seconds,
            nanoseconds: event.nanoseconds,
        }
    }

    fn line(self) -> String {
        let Self {
            number,
            seconds,
            nanoseconds,
        } = self;
        format!("{number:020} {seconds:020} {nanoseconds:09}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let position = Self {
            number: words.next()?.parse().ok()?,
            seconds: words.next()?.parse().ok()?,
            nanoseconds: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(position)
    }
}

/// The events that are after `last`, of those that a daemon has.
pub(crate) fn after(events: Vec<Event>, last: Option<Position>) -> Vec<Event> {
    let is_last = |event: &Event| Some(Position::of(event)) == last;
    let skipped = events.iter().rposition(is_last);
    let first = skipped.map_or(0, |index| index + 1);
    events.into_iter().skip(first).collect()
}

/// The file with the position. It is locked as long as this value lives.
#[derive(Debug)]
pub(crate) struct StateFile(File);

impl StateFile {
    /// Opens the file, or makes one; with the position in it, if there is one. With `forget` the
    /// position is not used.
    ///
    /// # Errors
    /// The system's; or another process has the file, or something else is in it.
    pub fn open(path: &Path, forget: bool) -> Result<(Self, Option<Position>)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o644);
        let file = regular::open_with(&mut options, path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => {
                Error::new(ErrorKind::WouldBlock, "another process uses it")
            }
            error => error.into(),
        })?;
        let mut text = String::new();
        (&file).take(4096).read_to_string(&mut text)?;
        if text.is_empty() {
            return Ok((Self(file), None));
        }
        let other = || {
            let words = "something else is in it; name another file, or remove it";
            Error::new(ErrorKind::InvalidData, words)
        };
        let position = Position::parse(&text).ok_or_else(other)?;
        Ok((Self(file), Some(position).filter(|_| !forget)))
    }

    /// Notes that an event was handled. The line has always the same length, so there is always a
    /// whole one.
    ///
    /// # Errors
    /// The system's.
    pub fn note(&self, position: Position) -> Result<()> {
        let line = position.line();
        assert_eq!(line.len(), LENGTH, "a line replaces the one before it");
        self.0.write_all_at(line.as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64, seconds: u64) -> Event {
        Event {
            class: "x".to_owned(),
            seconds,
            nanoseconds: 7,
            details: vec![("eid".to_owned(), format!("{number:#x}"))],
        }
    }

    #[test]
    fn events_after_the_last_one_are_new_and_all_of_another_daemon() {
        let numbers = |events: Vec<Event>, last: Option<Position>| -> Vec<u64> {
            after(events, last).iter().map(number_of).collect()
        };
        let events = || vec![event(1, 100), event(2, 100), event(3, 101)];
        assert_eq!(numbers(events(), None), [1, 2, 3]);
        let second = Position::of(&event(2, 100));
        assert_eq!(numbers(events(), Some(second)), [3]);
        // The same number, noted about another daemon's event.
        let other = Position::of(&event(2, 99));
        assert_eq!(numbers(events(), Some(other)), [1, 2, 3]);
    }

    #[test]
    fn the_position_outlives_its_process_and_has_one_user() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("zed.state");
        let (file, position) = StateFile::open(&path, false).expect("a new file");
        assert_eq!(position, None);
        let error = StateFile::open(&path, false).expect_err("it is in use");
        assert!(error.to_string().contains("another process"), "{error}");
        let largest = Position {
            number: u64::MAX,
            seconds: u64::MAX,
            nanoseconds: 999_999_999,
        };
        let last = Position::of(&event(2, 100));
        for noted in [largest, last] {
            file.note(noted).expect("noted");
        }
        drop(file);
        let (file, position) = StateFile::open(&path, false).expect("the file");
        assert_eq!(position, Some(last));
        drop(file);
        let (file, position) = StateFile::open(&path, true).expect("the file");
        assert_eq!(position, None);
        drop(file);
        std::fs::write(&path, "hello\n").expect("a file");
        assert!(StateFile::open(&path, false).is_err());
    }
}
