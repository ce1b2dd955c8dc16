//! The files that contain streams.

use cenote_base::Guid;
use cenote_control::model::Send;
use cenote_ondisk::stream::{HeaderKind, Record};
use cenote_stream::{Checks, Reader};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The extensions of stream files, and of incomplete ones.
const STREAM: &str = "zstream";
const PARTIAL: &str = "partial";

/// A stream file to write.
pub struct StreamFile {
    /// Its final name.
    pub whole: PathBuf,
    /// Its name while it is incomplete.
    pub partial: PathBuf,
}

/// The file for the stream of `send`: `to` itself, or a generated name if `to` is a directory.
pub fn stream_file(to: &Path, send: &Send) -> StreamFile {
    let whole = match to.is_dir() {
        true => to.join(name_of(send)),
        false => to.to_owned(),
    };
    let mut partial = whole.clone().into_os_string();
    partial.push(".");
    partial.push(PARTIAL);
    StreamFile {
        whole,
        partial: partial.into(),
    }
}

/// A file name. `%` replaces slashes, because no dataset has it in its name.
fn name_of(send: &Send) -> String {
    let target = send.target.replace('/', "%");
    let from = send.from.as_deref().unwrap_or_default();
    let at = from.find(['@', '#']).map_or(0, |at| at + 1);
    let since = match from[at..].is_empty() {
        true => String::new(),
        false => format!(".since-{}", from[at..].replace('/', "%")),
    };
    // Streams of one snapshot that leave out different blocks are different files.
    let redact = send.redact.as_deref().unwrap_or_default();
    let redacted = match redact.rsplit('#').next().unwrap_or_default() {
        "" => String::new(),
        bookmark => format!(".redacted-{bookmark}"),
    };
    format!("{target}{since}{redacted}.{STREAM}")
}

/// Opens and locks a partial file; `None` if another process has it.
pub fn open_partial(path: &Path) -> io::Result<Option<File>> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives a complete stream its final name, durably.
pub fn complete(file: &File, place: &StreamFile) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(&place.partial, &place.whole)?;
    let parent = place
        .whole
        .parent()
        .filter(|path| !path.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// The first snapshot's BEGIN record in a file.
struct Head {
    made: u64,
    path: PathBuf,
    to: Guid,
    from: Guid,
}

/// The streams to receive: a file, or all files of a directory, each after its base.
pub fn streams(from: &Path) -> io::Result<Vec<PathBuf>> {
    if !from.is_dir() {
        return Ok(vec![from.to_owned()]);
    }
    let mut left = Vec::new();
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == STREAM)
        {
            left.push(head_of(path)?);
        }
    }
    left.sort_by(|a, b| (a.made, &a.path).cmp(&(b.made, &b.path)));
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_ready =
            |head: &Head| head.from.0 == 0 || !left.iter().any(|other| other.to == head.from);
        // No sender creates a cycle. The receiver reports the error.
        let next = left.iter().position(is_ready).unwrap_or(0);
        ordered.push(left.remove(next).path);
    }
    Ok(ordered)
}

fn head_of(path: PathBuf) -> io::Result<Head> {
    let mut reader = Reader::with_checks(File::open(&path)?, Checks::default());
    let mut head = Head {
        made: 0,
        path,
        to: Guid(0),
        from: Guid(0),
    };
    while let Ok(Some(header)) = reader.next_header() {
        match &header.record {
            Record::Begin(begin) if begin.header_kind == HeaderKind::Substream => {
                (head.made, head.to) = (begin.creation_time, begin.to_guid);
                head.from = begin.from_guid;
                break;
            }
            Record::Begin(_) | Record::End(_) => {}
            _ => break,
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_name_for_each_stream() {
        let mut send = Send {
            target: "tank/home/a@friday".to_owned(),
            ..Send::default()
        };
        assert_eq!(name_of(&send), "tank%home%a@friday.zstream");
        send.from = Some("tank/home/a#monday".to_owned());
        assert_eq!(name_of(&send), "tank%home%a@friday.since-monday.zstream");
        send.redact = Some("tank/home/a#clean".to_owned());
        let name = "tank%home%a@friday.since-monday.redacted-clean.zstream";
        assert_eq!(name_of(&send), name);
    }
}
