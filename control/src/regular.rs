//! A daemon's own files: only regular files are opened, so that no open can block.
//!
//! A FIFO in the place of a log or a record blocks `open` until its other end is opened, and a
//! device or a socket may do worse. So our own files are opened without waiting, and any other kind
//! of file is refused with an error that names it. `/dev/null` is allowed: it stands for an empty
//! file.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The device number of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// Opens a regular file for reading.
///
/// # Errors
/// The system's; or it is no regular file.
pub fn open(path: &Path) -> Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens a regular file as `options` say.
///
/// # Errors
/// The system's; or it is no regular file.
pub fn open_with(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).expect("flags of open(2) are an int");
    let file = match options.custom_flags(flags).open(path) {
        // A FIFO without a reader.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Err(irregular());
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    let number = metadata.rdev();
    let number = (rustix::fs::major(number), rustix::fs::minor(number));
    let is_null = metadata.file_type().is_char_device() && number == NULL;
    match metadata.is_file() || is_null {
        true => Ok(file),
        false => Err(irregular()),
    }
}

fn irregular() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "not a regular file; move it away or name another place",
    )
}

/// Reads a regular file of at most `size_max` bytes.
///
/// # Errors
/// The system's; or it is no regular file, or a larger one.
pub fn read(path: &Path, size_max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?
        .take(size_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > size_max {
        true => Err(Error::new(
            ErrorKind::InvalidData,
            format!("larger than {size_max} bytes"),
        )),
        false => Ok(bytes),
    }
}

/// Reads a regular file of text.
///
/// # Errors
/// As [`read`]; or it is no text.
pub fn read_text(path: &Path, size_max: u64) -> Result<String> {
    let bytes = read(path, size_max)?;
    String::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode};

    /// `cenote daemon log` waited for ever when the log was a FIFO.
    #[test]
    fn what_is_no_regular_file_is_refused_and_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        rustix::fs::mkfifoat(CWD, at("fifo"), Mode::from_raw_mode(0o600)).expect("a FIFO");
        let listener = std::os::unix::net::UnixListener::bind(at("socket"));
        let listener = listener.expect("a socket");
        std::fs::create_dir(at("directory")).expect("a directory");
        std::fs::write(at("file"), "text").expect("a file");
        for name in ["fifo", "socket", "directory"] {
            assert!(open(&at(name)).is_err(), "{name}");
            let appended = open_with(OpenOptions::new().append(true), &at(name));
            assert!(appended.is_err(), "{name}");
        }
        drop(listener);
        assert_eq!(read_text(&at("file"), 4).expect("read"), "text");
        assert!(read(&at("file"), 3).is_err(), "too large");
        assert_eq!(read(Path::new("/dev/null"), 3).expect("empty"), b"");
    }
}
