//! The daemon's log.
//!
//! All code logs with the macros of the crate `log`. Messages go to a file, one per line with time,
//! process and level, and to standard error if it is read: warnings on a terminal, everything with
//! priorities for the journal under systemd.
//!
//! *Invariant: no caller waits for the log's disk*, which may be slow or failing. Lines go through
//! a bounded queue to a thread. Lines that do not fit are counted, and the count is logged. Only
//! the end of the process waits a moment (`flush`).
//!
//! The file is bounded. At [`SIZE_MAX`] it becomes `daemon.log.1`, and so on up to [`FILES_MAX`].
//! Several daemons may write to one file.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
// tidy: allow(door, a message may be logged under any lock; ranked channels are below most of them)
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use cenote_base::rt::{self, Instant};
use cenote_control::regular;
use jiff::Zoned;
use log::{Level, LevelFilter, Log, Metadata, Record};

use cenote_words::context::{Context, Outcome, failed};
use cenote_words::format::harmless::harmless;

/// Maximum size of a file before the next one is begun.
const SIZE_MAX: u64 = 1 << 20;
/// Number of older files that are kept.
const FILES_MAX: u32 = 4;
/// Maximum number of queued lines.
const QUEUE_MAX: usize = 1024;
/// Maximum size of a message.
const MESSAGE_MAX: usize = 4096;
/// How long the end of the process waits for its last lines.
const FLUSH_WAIT: Duration = Duration::from_secs(2);
/// How often `-f` checks for new lines.
const FOLLOW_PERIOD: Duration = Duration::from_millis(200);

enum Entry {
    Line(String),
    Flush(SyncSender<()>),
}

/// What standard error is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Console {
    /// A terminal, or anything else than the journal.
    People,
    /// The journal.
    Journal,
}

struct DaemonLog {
    queue: Option<SyncSender<Entry>>,
    dropped: AtomicU64,
    console: Console,
}

/// The log of this process.
static LOG: OnceLock<DaemonLog> = OnceLock::new();

/// Whether standard error is still read: an auto-started daemon detaches from the terminal.
static HAS_CONSOLE: AtomicBool = AtomicBool::new(true);

/// Sends all messages and panics to the log in `file`.
pub fn begin(file: Option<PathBuf>) {
    let log = LOG.get_or_init(|| DaemonLog {
        queue: file.and_then(start_writer),
        dropped: AtomicU64::new(0),
        console: console(),
    });
    // Only a test can have set a logger before.
    rt::report_wrong_order();
    if log::set_logger(log).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        log::error!("internal error: {panic}");
        log::logger().flush();
        before(panic);
    }));
}

/// Stops writing to standard error, which is no longer read.
pub fn leave_console() {
    HAS_CONSOLE.store(false, Ordering::Release);
}

/// Whether standard error is the journal, according to systemd (systemd.exec(5), `JOURNAL_STREAM`).
fn console() -> Console {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let own = rustix::fs::fstat(std::io::stderr());
    match own {
        Ok(own) if named == format!("{}:{}", own.st_dev, own.st_ino) => Console::Journal,
        _ => Console::People,
    }
}

fn start_writer(file: PathBuf) -> Option<SyncSender<Entry>> {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    match rt::spawn("log", move || write_all(&file, &receiver)) {
        Ok(_) => Some(sender),
        Err(error) => {
            // tidy: allow(door, it is about the log itself)
            eprintln!("cenote: there is no log: {error}");
            None
        }
    }
}

/// Writes the queued lines.
///
/// The directory is created only at the start. Purging a package removes it while the last daemon
/// ends, and the daemon's last line must not create it again.
fn write_all(file: &Path, entries: &Receiver<Entry>) {
    // If this fails, opening the file reports the error.
    let _ = fs::create_dir_all(file.parent().unwrap_or(Path::new("/")));
    let mut has_failed = false;
    for entry in entries {
        match entry {
            Entry::Line(line) => match append(file, &line) {
                Ok(()) => has_failed = false,
                Err(error) if !has_failed => {
                    has_failed = true;
                    // tidy: allow(door, it is about the log itself)
                    eprintln!("cenote: the log {} is not written: {error}", file.display());
                }
                Err(_) => {}
            },
            // The waiting thread may have timed out.
            Entry::Flush(done) => drop(done.send(())),
        }
    }
}

/// The name of the file `age` generations ago.
fn older(file: &Path, age: u32) -> PathBuf {
    match age {
        0 => file.to_owned(),
        age => {
            let mut name = file.as_os_str().to_owned();
            name.push(format!(".{age}"));
            PathBuf::from(name)
        }
    }
}

/// Appends a line. The file is opened each time, because another daemon may have begun a new one.
fn append(file: &Path, line: &str) -> std::io::Result<()> {
    let mut options = File::options();
    // It contains names of datasets and of damaged files.
    options.append(true).create(true).mode(0o640);
    let mut log = regular::open_with(&mut options, file)?;
    if log.metadata()?.len() >= SIZE_MAX {
        rustix::fs::flock(&log, rustix::fs::FlockOperation::LockExclusive)?;
        // Another daemon may have done this while we waited for the lock.
        if fs::metadata(file).is_ok_and(|now| now.len() >= SIZE_MAX) {
            for age in (0..FILES_MAX).rev() {
                // There may be no file of this age yet.
                let _ = fs::rename(older(file, age), older(file, age + 1));
            }
        }
        log = regular::open_with(&mut options, file)?;
    }
    log.write_all(line.as_bytes())
}

impl DaemonLog {
    fn put(&self, line: String) {
        let Some(queue) = &self.queue else {
            return;
        };
        let dropped = self.dropped.swap(0, Ordering::AcqRel);
        let line = match dropped {
            0 => line,
            dropped => format!("{}{line}", formed(Level::Warn, &lost(dropped))),
        };
        if let Err(TrySendError::Full(_)) = queue.try_send(Entry::Line(line)) {
            self.dropped.fetch_add(dropped + 1, Ordering::AcqRel);
        }
    }
}

fn lost(dropped: u64) -> String {
    format!("{dropped} messages before this one found no place")
}

/// A line of the file.
fn formed(level: Level, message: &str) -> String {
    let when = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%.3f%:z");
    format!("{when} [{}] {level:<5} {message}\n", std::process::id())
}

/// A message in one line, without control characters.
fn plain(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    harmless(&message[..end]).replace('\n', " | ")
}

impl Log for DaemonLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = metadata.target().starts_with("cenote");
        metadata.level() <= if is_ours { Level::Info } else { Level::Warn }
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let message = plain(&record.args().to_string());
        if HAS_CONSOLE.load(Ordering::Acquire) {
            let line = match (self.console, record.level()) {
                (Console::Journal, Level::Error) => Some(format!("<3>{message}\n")),
                (Console::Journal, Level::Warn) => Some(format!("<4>{message}\n")),
                (Console::Journal, _) => Some(format!("<6>{message}\n")),
                (Console::People, Level::Error | Level::Warn) => {
                    Some(format!("cenote: {message}\n"))
                }
                (Console::People, _) => None,
            };
            // It may not be writable; the file has the message, too.
            let _ = line.map(|line| std::io::stderr().write_all(line.as_bytes()));
        }
        self.put(formed(record.level(), &message));
    }

    fn flush(&self) {
        let deadline = Instant::now() + FLUSH_WAIT;
        let (sender, receiver) = sync_channel(1);
        let Some(queue) = &self.queue else {
            return;
        };
        while Instant::now() < deadline {
            match queue.try_send(Entry::Flush(sender.clone())) {
                Ok(()) => {
                    let _ = receiver.recv_timeout(FLUSH_WAIT);
                    return;
                }
                Err(TrySendError::Full(_)) => rt::sleep(Duration::from_millis(10)),
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }
}

/// `cenote daemon log`: the last `count` lines, and with `follow` new ones.
pub fn show(file: &Path, count: usize, follow: bool, context: &mut Context) -> Outcome {
    let (lines, mut position) = match last_lines(file, count) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !follow => {
            return failed(format!(
                "{}: no daemon has written anything yet",
                file.display()
            ));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Vec::new(), (0, 0)),
        Err(error) => return failed(format!("{}: {error}", file.display())),
    };
    context.print_bytes(&lines);
    while follow && !context.output_gone() {
        context.flush();
        rt::sleep(FOLLOW_PERIOD);
        // The file may be missing for a moment, while the next one is begun.
        if let Ok(more) = lines_since(file, &mut position) {
            context.print_bytes(&more);
        }
    }
    Ok(0)
}

/// The identity of the current file, and the position in it.
type Position = (u64, u64);

fn last_lines(file: &Path, count: usize) -> std::io::Result<(Vec<u8>, Position)> {
    let mut newest = Vec::new();
    let mut log = regular::open(file)?;
    log.read_to_end(&mut newest)?;
    let position = (log.metadata()?.ino(), newest.len() as u64);
    let mut text = Vec::new();
    for age in (1..=FILES_MAX).rev() {
        if let Ok(more) = regular::read(&older(file, age), 2 * SIZE_MAX) {
            text.extend(more);
        }
    }
    text.extend(newest);
    let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
    let skipped = ends.len().saturating_sub(count);
    let start = skipped.checked_sub(1).map_or(0, |last| ends[last] + 1);
    Ok((text.split_off(start), position))
}

fn lines_since(file: &Path, position: &mut Position) -> std::io::Result<Vec<u8>> {
    let mut more = Vec::new();
    let mut log = regular::open(file)?;
    let inode = log.metadata()?.ino();
    if inode != position.0 {
        // The rest of the previous file.
        if let Ok(mut before) = regular::open(&older(file, 1))
            && before.metadata()?.ino() == position.0
        {
            before.seek(SeekFrom::Start(position.1))?;
            before.read_to_end(&mut more)?;
        }
        *position = (inode, 0);
    }
    log.seek(SeekFrom::Start(position.1))?;
    position.1 += log.read_to_end(&mut more)? as u64;
    Ok(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_and_none_of_the_last_lines_is_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("logs/daemon.log");
        fs::create_dir(directory.path().join("logs")).expect("made");
        let line = |number: usize| format!("{number:06} {}\n", "x".repeat(1000));
        // More than a file can hold, several times.
        let all = 8 * 1040;
        let mut position = (0, 0);
        let mut followed = 0;
        for number in 0..all {
            append(&file, &line(number)).expect("written");
            followed += lines_since(&file, &mut position).expect("read").len();
        }
        assert_eq!(followed, all * line(0).len(), "every line is followed");
        let files = fs::read_dir(directory.path().join("logs")).expect("a directory");
        let sizes: Vec<u64> = files
            .map(|file| file.expect("a file").metadata().expect("metadata").len())
            .collect();
        assert_eq!(sizes.len(), 1 + FILES_MAX as usize);
        assert!(
            sizes.iter().all(|size| *size < SIZE_MAX + 2000),
            "{sizes:?}"
        );
        let (lines, _) = last_lines(&file, 3000).expect("read");
        let expected: String = (all - 3000..all).map(line).collect();
        assert!(lines == expected.as_bytes());
    }

    /// When a package was purged while its daemon ended, the daemon's last line recreated the log
    /// directory, which then remained.
    #[test]
    fn a_directory_that_was_removed_stays_away() {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = directory.path().join("logs");
        let queue = start_writer(logs.join("daemon.log")).expect("a thread");
        let put = |line: &str| {
            let (done, written) = sync_channel(1);
            queue.send(Entry::Line(line.to_owned())).expect("it runs");
            queue.send(Entry::Flush(done)).expect("it runs");
            written.recv().expect("flushed");
        };
        put("first\n");
        assert_eq!(fs::read(logs.join("daemon.log")).expect("made"), b"first\n");
        fs::remove_dir_all(&logs).expect("removed");
        put("last\n");
        assert!(!logs.exists());
    }

    #[test]
    fn a_message_is_one_line_that_no_terminal_obeys() {
        assert_eq!(plain("a\nb\u{1b}[2J"), "a | b?[2J");
        assert!(plain(&"ä".repeat(MESSAGE_MAX)).len() <= MESSAGE_MAX);
        let line = formed(Level::Warn, "a disk");
        assert!(line.ends_with(" WARN  a disk\n"), "{line}");
    }
}
