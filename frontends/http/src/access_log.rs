//! The access log: a line for each request, in the combined format of Apache.
//!
//! Requests do not wait for the disk that the log is on. They put what happened into a queue of
//! bounded length, from which one thread makes lines and writes many of them at once. A queue that
//! is full drops the line and counts it.
//!
//! What clients sent is escaped as Apache does it, so that no line can be forged.

use crate::date::Parts;
use crate::named_file::open_log;
use cenote_base::rt::process::{self, Instant, JoinHandle, mpsc};
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Lines that wait. One takes at most a few hundred bytes ([`TEXT_BYTES_MAX`]), all some 8 MiB.
const QUEUE: usize = 8192;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;
/// Bytes of each text of a client that are kept.
const TEXT_BYTES_MAX: usize = 2048;
/// Lines that a write may collect.
const COLLECT: usize = 1024;

/// How long an end waits for the last lines: the disk may hang.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

/// Where lines go. Called by one thread only.
pub trait AccessLog: Send {
    /// Takes whole lines.
    ///
    /// # Errors
    /// They could not be written; they are counted as dropped.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// The file was moved away: later lines go to a new one of the same name.
    ///
    /// # Errors
    /// There can be none; lines go where they went before.
    fn reopen(&mut self) -> io::Result<()>;
}

/// An access log in a file.
#[derive(Debug)]
pub struct FileLog {
    path: PathBuf,
    file: File,
    /// It ends within a line: the disk was full.
    is_torn: bool,
}

impl FileLog {
    /// Appends to a file, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be opened for writing.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = open_log(&path)?;
        Ok(Self {
            path,
            file,
            is_torn: false,
        })
    }
}

impl AccessLog for FileLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        // A line that was cut off is not to become one with the next.
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        let written = self.file.write_all(lines);
        self.is_torn = written.is_err();
        written
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = Self::open(self.path.clone())?;
        *self = file;
        Ok(())
    }
}

/// A request that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub address: Option<IpAddr>,
    pub time: SystemTime,
    /// `GET /a HTTP/1.1`.
    pub request: Box<[u8]>,
    pub status: u16,
    /// Bytes of the body that were sent.
    pub bytes: u64,
    pub referer: Option<Box<[u8]>>,
    pub agent: Option<Box<[u8]>>,
}

/// A text of a client, cut to what a line keeps of it.
pub(crate) fn kept(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(TEXT_BYTES_MAX)].into()
}

enum Message {
    Record(Box<Record>),
    Reopen,
}

/// The queue before the thread that writes.
pub(crate) struct Writer {
    sender: Option<mpsc::SyncSender<Message>>,
    dropped: Arc<AtomicU64>,
    is_moved: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// # Errors
    /// The system has no room for the thread.
    pub fn start(log: Box<dyn AccessLog>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let is_moved = Arc::new(AtomicBool::new(false));
        let (counter, moved) = (Arc::clone(&dropped), Arc::clone(&is_moved));
        let work = move || write_all(log, &receiver, &counter, &moved);
        let thread = process::spawn("http-log", work)?;
        Ok(Self {
            sender: Some(sender),
            dropped,
            is_moved,
            thread: Some(thread),
        })
    }

    /// Puts a record into the queue, or drops it.
    pub fn put(&self, record: Box<Record>) {
        let sender = self.sender.as_ref();
        if sender.is_none_or(|sender| sender.try_send(Message::Record(record)).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests that the file be reopened. Does not wait for it: the disk may hang.
    pub fn reopen(&self) {
        self.is_moved.store(true, Ordering::Release);
        if let Some(sender) = &self.sender {
            // If the queue is full, the thread finds the flag behind the next record.
            let _ = sender.try_send(Message::Reopen);
        }
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.sender.take());
        let Some(thread) = self.thread.take() else {
            return;
        };
        let begin = Instant::now();
        while !thread.is_finished() {
            if begin.elapsed() > FAREWELL {
                log::warn!("HTTP: the access log hangs; its last lines may be missing");
                return;
            }
            process::sleep(LOOK);
        }
    }
}

fn write_all(
    mut log: Box<dyn AccessLog>,
    receiver: &mpsc::Receiver<Message>,
    dropped: &AtomicU64,
    is_moved: &AtomicBool,
) {
    let (mut lines, mut count, mut has_failed) = (Vec::with_capacity(WRITE_BYTES), 0, false);
    let mut write = |log: &mut Box<dyn AccessLog>, lines: &mut Vec<u8>, count: &mut u64| {
        if lines.is_empty() {
            return;
        }
        match log.write(lines) {
            Ok(()) => has_failed = false,
            Err(error) => {
                dropped.fetch_add(*count, Ordering::Relaxed);
                if !has_failed {
                    log::warn!(
                        "HTTP: the access log cannot be written: {error}; requests are answered \
                         without it. Make room for it, or choose another file"
                    );
                }
                has_failed = true;
            }
        }
        lines.clear();
        *count = 0;
    };
    while let Ok(first) = receiver.recv() {
        let more = std::iter::from_fn(|| receiver.try_recv().ok());
        for message in std::iter::once(first).chain(more.take(COLLECT)) {
            if let Message::Record(record) = message {
                line(&record, &mut lines);
                count += 1;
            }
            if is_moved.swap(false, Ordering::AcqRel) {
                write(&mut log, &mut lines, &mut count);
                if let Err(error) = log.reopen() {
                    log::warn!(
                        "HTTP: the access log cannot be reopened: {error}; lines still go to \
                         the old file. Correct its path or permissions and reload again"
                    );
                }
            }
            if lines.len() >= WRITE_BYTES {
                write(&mut log, &mut lines, &mut count);
            }
        }
        write(&mut log, &mut lines, &mut count);
    }
}

/// Appends a line of the combined format.
fn line(record: &Record, to: &mut Vec<u8>) {
    // A vector takes all that is written to it.
    let _ = match record.address {
        Some(address) => write!(to, "{address}"),
        None => write!(to, "unix:"),
    };
    let _ = write!(to, " - - [{}] \"", clf_time(record.time));
    escape(&record.request, to);
    let _ = write!(to, "\" {} ", record.status);
    match record.bytes {
        0 => to.push(b'-'),
        bytes => drop(write!(to, "{bytes}")),
    }
    for text in [&record.referer, &record.agent] {
        to.extend_from_slice(b" \"");
        match text {
            Some(text) => escape(text, to),
            None => to.push(b'-'),
        }
        to.push(b'"');
    }
    to.push(b'\n');
}

/// Appends a text so that it stays within its quotes, and all of it visible.
fn escape(text: &[u8], to: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => to.push(*byte),
            _ => drop(write!(to, "\\x{byte:02x}")),
        }
    }
}

/// `27/Nov/2026:03:00:00 +0000`.
fn clf_time(time: SystemTime) -> String {
    let parts = Parts::of(time);
    let (day, month, year) = (parts.day(), parts.month_name(), parts.year());
    format!("{day}/{month}/{year}:{} +0000", parts.clock())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    fn record() -> Record {
        Record {
            address: Some([10, 0, 0, 1].into()),
            time: UNIX_EPOCH + Duration::from_secs(1_795_748_400),
            request: kept(b"GET /a HTTP/1.1"),
            status: 206,
            bytes: 5,
            referer: None,
            agent: Some(kept(b"curl \"8\"\n\xff\\")),
        }
    }

    #[test]
    fn a_line_is_apaches_and_cannot_be_forged() {
        let mut lines = Vec::new();
        line(&record(), &mut lines);
        let text = String::from_utf8(lines).expect("ASCII");
        let expected = "10.0.0.1 - - [27/Nov/2026:03:00:00 +0000] \"GET /a HTTP/1.1\" 206 5 \"-\" \
                        \"curl \\\"8\\\"\\x0a\\xff\\\\\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_moved_file_is_left_to_whoever_moved_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, old) = (directory.path().join("log"), directory.path().join("log.1"));
        let writer = Writer::start(Box::new(FileLog::open(&path).expect("room"))).expect("room");
        std::fs::rename(&path, &old).expect("renamed");
        writer.put(Box::new(record()));
        writer.reopen();
        while !path.exists() {
            std::thread::yield_now();
        }
        writer.put(Box::new(record()));
        drop(writer);
        let lines = |path| {
            std::fs::read_to_string(path)
                .expect("a file")
                .lines()
                .count()
        };
        assert_eq!((lines(&old), lines(&path)), (1, 1));
    }

    /// A log on a disk that hangs until the test releases it.
    struct Stuck(Arc<Mutex<()>>);

    impl AccessLog for Stuck {
        fn write(&mut self, _lines: &[u8]) -> io::Result<()> {
            drop(self.0.lock());
            Ok(())
        }

        fn reopen(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_hangs_loses_lines_and_counts_them() {
        let disk = Arc::new(Mutex::new(()));
        let hangs = disk.lock().expect("no panic");
        let writer = Writer::start(Box::new(Stuck(Arc::clone(&disk)))).expect("room");
        for _ in 0..2 * QUEUE + COLLECT + 2 {
            writer.put(Box::new(record()));
        }
        assert!(writer.dropped() >= QUEUE as u64);
        drop(hangs);
    }

    /// A line that a full disk cut off became one with the next that had room.
    #[test]
    fn a_line_that_was_cut_off_stays_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let mut log = FileLog::open(&path).expect("a log");
        log.file = open_log("/dev/full".as_ref()).expect("a device");
        assert!(log.write(b"one\n").is_err());
        std::fs::write(&path, "half").expect("room");
        log.file = open_log(&path).expect("a log");
        log.write(b"two\n").expect("room");
        log.write(b"three\n").expect("room");
        let text = std::fs::read_to_string(&path).expect("a log");
        assert_eq!(text, "half\ntwo\nthree\n");
    }
}
