//! Files that an administrator names: read whole, and never waited for.
//!
//! Opening a pipe waits until its other end is open, and a device may have no end. A mistyped name
//! of a style sheet must not stop the thread that executes commands.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The bytes of a regular file.
///
/// # Errors
/// It is none, has more than `limit` bytes, or cannot be read.
pub fn read_named_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = nonblocking(OpenOptions::new().read(true)).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::other(format!("it is longer than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// A file to which lines are appended; it is made if it is not there. A pipe has to have a reader.
pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    let opened = nonblocking(OpenOptions::new().create(true).append(true)).open(path);
    opened.map_err(|error| {
        let kind = std::fs::metadata(path).map(|found| found.file_type());
        match kind.is_ok_and(|kind| kind.is_fifo()) {
            true => io::Error::other("it is a pipe without a reader; start its reader first"),
            false => error,
        }
    })
}

fn nonblocking(options: &mut OpenOptions) -> &mut OpenOptions {
    // The same bits in a signed number.
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cenote http start --style PIPE` waited for ever, and with it a thread of the daemon.
    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        for path in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            let error = read_named_file(path, 100).expect_err("no file").to_string();
            assert!(error.contains("no regular file"), "{error}");
        }
        let error = open_log(&pipe).expect_err("no reader").to_string();
        assert!(error.contains("start its reader"), "{error}");
        let _reader = nonblocking(OpenOptions::new().read(true)).open(&pipe);
        assert!(open_log(&pipe).is_ok(), "with a reader it is a log");
        let file = directory.path().join("file");
        std::fs::write(&file, "12345").expect("room");
        assert_eq!(read_named_file(&file, 5).expect("a file"), b"12345");
        let error = read_named_file(&file, 4).expect_err("too long").to_string();
        assert!(error.contains("longer than 4 bytes"), "{error}");
    }
}
