//! Key files, read with a timeout.
//!
//! Reading a named pipe without a writer would block for ever. A shell's process substitution
//! (`file:///dev/fd/63`) is a pipe, too, and has a writer.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long the writer of a pipe may take to write the key.
const WAIT: Duration = Duration::from_secs(30);

/// Reads at most the first `limit` bytes of the file at `path`.
///
/// The file cannot be opened or read, or it is a pipe and no key arrives within 30 seconds.
pub fn read(path: &Path, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    read_within(path, limit, WAIT)
}

fn read_within(path: &Path, limit: usize, wait: Duration) -> io::Result<Zeroizing<Vec<u8>>> {
    // Without `NONBLOCK`, opening a pipe waits for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // Never grown: what a vector leaves behind when it grows is not wiped.
    let mut bytes = Zeroizing::new(vec![0; limit]);
    let mut length = 0;
    let end = Instant::now() + wait;
    while length < limit {
        let left = end.saturating_duration_since(Instant::now());
        let mut ready = [PollFd::new(&file, PollFlags::IN)];
        let left = Timespec::try_from(left).expect("half a minute");
        match poll(&mut ready, Some(&left)) {
            Ok(0) => {
                let text = "it is a pipe, and no key was written to it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn a_pipe_without_a_writer_is_given_up() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let error = read_within(&path, 32, SHORT).expect_err("no writer");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let writing = path.clone();
        let writer = std::thread::spawn(move || {
            let mut pipe = File::options().write(true).open(writing).expect("a reader");
            pipe.write_all(b"half ").expect("room");
            std::thread::sleep(SHORT);
            pipe.write_all(b"and half").expect("room");
        });
        let key = read_within(&path, 32, WAIT).expect("a writer");
        writer.join().expect("no panic");
        assert_eq!(*key, b"half and half");
    }

    #[test]
    fn an_open_pipe_is_read_to_its_end() {
        let (read_end, write_end) = rustix::pipe::pipe().expect("a pipe");
        File::from(write_end).write_all(b"a key\n").expect("room");
        // The writer is gone before the pipe is opened by its name.
        let path = format!("/proc/self/fd/{}", read_end.as_raw_fd());
        let key = read_within(Path::new(&path), 6, WAIT).expect("a key");
        assert_eq!(*key, b"a key\n");
        drop(read_end);
    }

    #[test]
    fn files_are_read_up_to_the_limit() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[7; 100]).expect("room");
        assert_eq!(*read(file.path(), 32).expect("a key"), [7; 32]);
        assert_eq!(read(file.path(), 200).expect("a key").len(), 100);
        assert!(read(file.path().parent().expect("one"), 32).is_err());
    }
}
