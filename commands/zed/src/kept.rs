//! Events that a daemon could not handle any more, for the next one.
//!
//! They are in a file beside the daemon's record, a line each. The next daemon takes the file away
//! before it handles them: if it dies then, they are lost, but none is handled twice.

use cenote_control::model::Event;
use cenote_control::regular;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// The maximum size of the file.
const SIZE_MAX: u64 = 64 << 20;

/// Takes the events out of the file.
///
/// # Errors
/// The file cannot be read or removed, or has something else in it; it is away then, if possible.
pub(crate) fn take(file: &Path) -> Result<Vec<Event>> {
    let text = match regular::read_text(file, SIZE_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => {
            let removed = fs::remove_file(file);
            let text = read?;
            removed?;
            text
        }
    };
    let event = |line: &str| serde_json::from_str(line).map_err(Error::from);
    text.lines().map(event).collect()
}

/// Keeps events; without any, there is no file.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn keep(file: &Path, events: &[Event]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    for event in events {
        text.push_str(&serde_json::to_string(event)?);
        text.push('\n');
    }
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let beside = file.with_extension("zedlets.new");
    fs::write(&beside, text)?;
    fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("daemons/-run-s.zedlets");
        assert!(take(&file).expect("no file").is_empty());
        keep(&file, &[]).expect("nothing to do");
        assert!(!file.exists());
        let event = |seconds| Event {
            class: "sysevent.fs.zfs.pool_export".to_owned(),
            seconds,
            nanoseconds: 5,
            details: vec![("pool".to_owned(), "\"a\nb\"".to_owned())],
        };
        let events = [event(1), event(2)];
        keep(&file, &events).expect("kept");
        assert_eq!(take(&file).expect("a file"), events);
        assert!(take(&file).expect("no file").is_empty(), "taken once");
        fs::write(&file, "{\n").expect("a file");
        assert!(take(&file).is_err());
        assert!(!file.exists(), "not reported at each start");
    }
}
