//! What a command works with: its outputs, the daemon, the user's time zone and environment.
//!
//! Commands see the daemon as a function from request to answer and write through the context. So
//! tests run whole commands against canned answers and compare every byte.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cenote_control::model::properties::Effect;
use cenote_control::model::{ControlError, Dataset, MissingPool, Part, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};
use jiff::tz::TimeZone;

use crate::format::harmless::harmless;
use crate::getopt::OptionError;
use crate::missing;

/// Answers requests: the connection to the daemon, or a test's canned answers.
pub trait Daemon {
    /// Sends a request; `on_part` receives the parts of the answer as they arrive.
    fn call(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError>;

    /// The message about an earlier daemon that died, if its pools are not imported again.
    fn lost(&mut self) -> Option<String> {
        None
    }

    /// Pools that should be imported, and are not.
    fn missing(&mut self) -> Vec<MissingPool> {
        Vec::new()
    }

    /// The message that the running daemon cannot record its imported pools, if so.
    fn record_failure(&mut self) -> Option<String> {
        None
    }
}

/// Stands for a daemon that is not running.
struct Nobody;

impl Daemon for Nobody {
    fn call(
        &mut self,
        _request: Request,
        _on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        Err(CallError::NotRunning)
    }
}

/// How the message about options that a command ignored begins.
pub const UNREAD: &str = "bug: the command ignored the options";

/// The exit code if a request failed because the daemon died.
pub const DIED: u8 = 3;

/// Why a command ends early.
#[derive(Debug)]
pub enum Stop {
    /// Print a line (unless empty), then the subcommand's usage; exit 2.
    Usage(String),
    /// Print the lines; exit 1.
    Failed(String),
    /// The command has printed everything; exit with this code.
    Code(u8),
}

/// What a command's body returns: its exit code, or why it ends early.
pub type Outcome = Result<u8, Stop>;

impl From<OptionError> for Stop {
    fn from(error: OptionError) -> Self {
        Stop::Usage(error.to_string())
    }
}

/// Ends a command with its usage.
pub fn usage<T>(message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Usage(message.into()))
}

/// Ends a command with a message.
pub fn failed<T>(message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(message.into()))
}

/// What a command works with.
pub struct Context {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    write_error: Option<io::Error>,
    daemon: Box<dyn Daemon>,
    /// Whether a request failed because the daemon died.
    has_died: bool,
    /// The user's time zone.
    pub zone: TimeZone,
    /// The time, in seconds since the epoch.
    pub now: u64,
    /// Opens another connection to the daemon, for a thread of its own.
    pub connect: fn() -> Box<dyn Daemon>,
    /// Looks up an environment variable.
    pub variable: fn(&str) -> Option<String>,
    /// The directory that relative paths start at.
    pub directory: PathBuf,
    /// Whether standard output is a terminal: control characters in names from a disk would act on
    /// it.
    pub is_terminal: bool,
    /// The command line as recorded in the pool's history.
    pub command: String,
    /// The first word that the daemon rejected.
    pub wrong: Option<Wrong>,
}

impl Context {
    /// A context over these outputs and this daemon.
    pub fn new(out: Box<dyn Write>, err: Box<dyn Write>, daemon: Box<dyn Daemon>) -> Self {
        Context {
            out,
            err,
            write_error: None,
            daemon,
            has_died: false,
            zone: TimeZone::UTC,
            now: 0,
            connect: || Box::new(Nobody),
            variable: |_| None,
            directory: PathBuf::from("/"),
            is_terminal: false,
            command: String::new(),
            wrong: None,
        }
    }

    /// An absolute path in the form in which OpenZFS names devices. Symbolic links and dots are
    /// resolved, except in the last component (`/dev/disk/by-id/…`).
    pub fn place(&self, path: &Path) -> PathBuf {
        let path = self.directory.join(path);
        if path.is_dir() {
            return path.canonicalize().unwrap_or(path);
        }
        let above = path.parent().and_then(|above| above.canonicalize().ok());
        match (above, path.file_name()) {
            (Some(above), Some(name)) => above.join(name),
            _ => path,
        }
    }

    /// A name of something that is served, or an address. The path of a socket becomes absolute, so
    /// that it is valid for the daemon, too.
    pub fn name_or_socket(&self, word: &str) -> String {
        let place = self.place(Path::new(word));
        let is_socket = || std::fs::metadata(&place).is_ok_and(|at| at.file_type().is_socket());
        // A volume has '/' in its name, an address of the network ':'. No pool begins with '.'.
        match word.starts_with('.') || !word.contains(['/', ':']) || is_socket() {
            true => place.to_string_lossy().into_owned(),
            false => word.to_owned(),
        }
    }

    /// Writes to standard output. [`Self::finish`] reports the first failure.
    pub fn print(&mut self, text: &str) {
        match self.is_terminal {
            true => self.print_bytes(harmless(text).as_bytes()),
            false => self.print_bytes(text.as_bytes()),
        }
    }

    /// Writes bytes to standard output.
    pub fn print_bytes(&mut self, bytes: &[u8]) {
        if self.write_error.is_none()
            && let Err(error) = self.out.write_all(bytes)
        {
            self.write_error = Some(error);
        }
    }

    /// Writes one line to standard output.
    pub fn line(&mut self, text: &str) {
        self.print(text);
        self.print("\n");
    }

    /// Writes one line to standard error, after everything printed so far.
    pub fn complain(&mut self, text: &str) {
        self.flush();
        // There is nowhere left to report that writing an error failed.
        let _ = writeln!(self.err, "{}", harmless(text));
        let _ = self.err.flush();
    }

    /// Flushes buffered output.
    pub fn flush(&mut self) {
        if self.write_error.is_none()
            && let Err(error) = self.out.flush()
        {
            self.write_error = Some(error);
        }
    }

    /// The exit code of a command that ended with `code`, once its output is written.
    ///
    /// A closed pipe (`| head`) is not an error. If the daemon died, all commands exit with the
    /// same code.
    pub fn finish(&mut self, code: u8) -> u8 {
        self.flush();
        let code = if self.has_died { DIED } else { code };
        match self.write_error.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.complain(&format!("write error: {error}"));
                code.max(1)
            }
            _ => code,
        }
    }

    /// In debug builds: complains if a command succeeded but never read an option that was given.
    /// That is a bug in the command; tests look for this message.
    pub fn tell_of_unread(&mut self, ended: &Outcome) {
        let unread = crate::getopt::unread();
        if cfg!(debug_assertions) && matches!(ended, Ok(0)) && !unread.is_empty() {
            let options = unread.join("', '");
            self.complain(&format!("{UNREAD} '{options}'"));
        }
    }

    /// Whether the output can no longer be written, for example because its reader is gone.
    pub fn output_gone(&self) -> bool {
        self.write_error.is_some()
    }

    /// Reports that an earlier daemon died and its pools are not imported, if so.
    pub fn complain_of_lost(&mut self) {
        if let Some(text) = self.daemon.lost() {
            self.has_died = true;
            self.complain(&text);
        }
    }

    /// The pools that should be imported and are not. If there are any, the command exits with the
    /// code for a daemon that died.
    pub fn missing(&mut self) -> Vec<MissingPool> {
        let missing = self.daemon.missing();
        self.has_died |= !missing.is_empty();
        missing
    }

    /// Reports each missing pool.
    pub fn complain_of_missing(&mut self) {
        let zone = self.zone.clone();
        for pool in self.missing() {
            self.complain(&missing::text(&pool, &zone));
        }
    }

    /// Reports that the daemon cannot record its imported pools. Returns whether that is so.
    pub fn complain_of_record(&mut self) -> bool {
        let text = self.daemon.record_failure();
        if let Some(text) = &text {
            self.complain(text);
        }
        text.is_some()
    }

    /// The command has handled the daemon's death: it no longer sets the exit code.
    pub fn forget_death(&mut self) {
        self.has_died = false;
    }

    /// The answer of a call, or why it failed. Notes whether the daemon died.
    fn answer_of(&mut self, called: Result<Response, CallError>) -> Result<Response, ControlError> {
        let answer = answer_of(called);
        self.has_died |= matches!(answer, Err(ControlError::DaemonDied { .. }));
        answer
    }

    /// Sends a request whose answer has no parts.
    pub fn ask(&mut self, request: Request) -> Result<Response, ControlError> {
        self.ask_in_parts(request, &mut |_| {})
    }

    /// Sends a request that changes nothing, but whose command is recorded in the pool's history.
    pub fn ask_noted(&mut self, request: Request) -> Result<Response, ControlError> {
        let asked = Box::new(request);
        let command = self.command.clone();
        self.ask(Request::Noted { asked, command })
    }

    /// As [`Self::ask_noted`], several at once: each further one by a connection of its own. The
    /// answers are in the order of the requests; only the first one's has its parts shown.
    pub fn ask_all_noted(
        &mut self,
        requests: Vec<Request>,
        on_part: &mut dyn FnMut(Part),
    ) -> Vec<Result<Response, ControlError>> {
        let (connect, command) = (self.connect, self.command.clone());
        let ask = |request: Request| {
            let (asked, command) = (Box::new(request), command.clone());
            connect().call(Request::Noted { asked, command }, &mut |_| {
                ControlFlow::Continue(())
            })
        };
        let mut requests = requests.into_iter();
        let Some(first) = requests.next() else {
            return Vec::new();
        };
        std::thread::scope(|scope| {
            let ask = &ask;
            let others: Vec<_> = requests
                .map(|request| scope.spawn(move || ask(request)))
                .collect();
            let mut answers = vec![self.ask_noted_in_parts(first, on_part)];
            for other in others {
                let called = other.join().expect("requests do not panic");
                answers.push(self.answer_of(called));
            }
            answers
        })
    }

    /// As [`Self::ask_noted`], with an answer in parts.
    pub fn ask_noted_in_parts(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part),
    ) -> Result<Response, ControlError> {
        let asked = Box::new(request);
        let command = self.command.clone();
        self.ask_in_parts(Request::Noted { asked, command }, on_part)
    }

    /// Sends a request; `on_part` receives the parts of the answer.
    ///
    /// An unreachable daemon is the error `Unreachable`, so that callers print it as one line.
    pub fn ask_in_parts(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part),
    ) -> Result<Response, ControlError> {
        let mut forward = |part| {
            on_part(part);
            ControlFlow::Continue(())
        };
        let called = self.daemon.call(request, &mut forward);
        let answer = self.answer_of(called);
        if self.wrong.is_none() {
            self.wrong = wrong_word(&answer);
        }
        answer
    }

    /// Sends a request, and prints a message for each part as it arrives.
    pub fn ask_aloud(
        &mut self,
        request: Request,
        said: &mut dyn FnMut(Part) -> Said,
    ) -> Result<Response, ControlError> {
        self.flush();
        let (out, err) = (&mut self.out, &mut self.err);
        let mut forward = |part| {
            let Said {
                out: line,
                err: complaint,
            } = said(part);
            // A message that cannot be printed does not stop the operation.
            if !line.is_empty() {
                let _ = writeln!(out, "{}", harmless(&line)).and_then(|()| out.flush());
            }
            if !complaint.is_empty() {
                let _ = writeln!(err, "{}", harmless(&complaint));
            }
            ControlFlow::Continue(())
        };
        let called = self.daemon.call(request, &mut forward);
        self.answer_of(called)
    }

    /// Lists datasets, for at most `limit`; `None` if that was too short.
    pub fn glance(&mut self, request: Request, limit: Duration) -> Option<Vec<Dataset>> {
        let (mut rows, begun) = (Vec::new(), Instant::now());
        let called = self.daemon.call(request, &mut |part| {
            if let Part::Datasets(more) = part {
                rows.extend(more);
            }
            match begun.elapsed() < limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        called.is_ok().then_some(rows)
    }

    /// Reports that a property is stored but has no effect here, if so.
    pub fn tell_of_effect(&mut self, name: &str, effect: Effect) {
        if let Effect::Kept(reason) = effect {
            self.complain(&format!(
                "'{name}' is stored, and has no effect here: {reason}"
            ));
        }
    }

    /// Lists datasets: the rows, and the roots that could not be listed.
    pub fn ask_datasets(&mut self, request: Request) -> Result<Listing, ControlError> {
        let mut rows = Vec::new();
        let answer = self.ask_in_parts(request, &mut |part| {
            if let Part::Datasets(more) = part {
                rows.extend(more);
            }
        })?;
        match answer {
            Response::Failures { failures, .. } => Ok(Listing { rows, failures }),
            Response::Done => Ok(Listing {
                rows,
                failures: Vec::new(),
            }),
            _ => Err(mismatch()),
        }
    }
}

/// A word of the command line that the daemon rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The name of a pool, a dataset or a snapshot.
    Name(String),
    /// The name of a property.
    Property(String),
    /// The value of the property of this name.
    Value(String),
}

/// The word that an answer rejects.
fn wrong_word(answer: &Result<Response, ControlError>) -> Option<Wrong> {
    let of_error = |error: &ControlError| match error {
        ControlError::NoSuchDataset { dataset } => Some(Wrong::Name(dataset.clone())),
        ControlError::NoSuchPool { pool } => Some(Wrong::Name(pool.clone())),
        ControlError::NoSuchProperty { property } => Some(Wrong::Property(property.clone())),
        error => error
            .wrong_option()
            .map(|name| Wrong::Value(name.to_owned())),
    };
    match answer {
        Err(error) => of_error(error),
        Ok(
            Response::Failures { failures, .. }
            | Response::Pools { failures, .. }
            | Response::Statuses { failures, .. },
        ) => failures.iter().find_map(|(_, error)| of_error(error)),
        Ok(_) => None,
    }
}

/// The answer of a call, or why it failed.
fn answer_of(called: Result<Response, CallError>) -> Result<Response, ControlError> {
    match called {
        Ok(response) => Ok(response),
        Err(CallError::Refused(error)) => Err(error),
        Err(CallError::Interrupted) => Err(ControlError::Interrupted),
        Err(CallError::Mismatch) => Err(mismatch()),
        Err(error) => Err(ControlError::Unreachable {
            reason: error.to_string(),
        }),
    }
}

/// The message for a part: a line for each output, without its newline; empty for none.
#[derive(Debug, Default)]
pub struct Said {
    /// To standard output.
    pub out: String,
    /// To standard error.
    pub err: String,
}

/// Datasets, and the names that could not be listed.
#[derive(Debug, Default)]
pub struct Listing {
    /// The datasets, in any order.
    pub rows: Vec<Dataset>,
    /// Name and reason.
    pub failures: Vec<(String, ControlError)>,
}

/// The answer does not match the request: a bug in the client or the daemon.
pub fn mismatch() -> ControlError {
    ControlError::Internal {
        detail: "the daemon gave an answer to another question".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Previously, `cenote nbd stop rel.sock` looked for an export of that name.
    #[test]
    fn a_socket_may_be_named_by_its_relative_path() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("tank")).expect("a directory");
        let _socket = UnixListener::bind(directory.path().join("tank/s")).expect("a socket");
        let sink = || Box::new(io::sink());
        let mut context = Context::new(sink(), sink(), Box::new(Nobody));
        context.directory = directory.path().canonicalize().expect("it is there");
        let below = |name: &str| context.directory.join(name).to_string_lossy().into_owned();
        for (word, named) in [
            ("rel.sock", below("rel.sock")),
            ("./rel.sock", below("rel.sock")),
            ("tank/s", below("tank/s")),
            ("tank/v", "tank/v".to_owned()),
            ("127.0.0.1:10809", "127.0.0.1:10809".to_owned()),
        ] {
            assert_eq!(context.name_or_socket(word), named, "{word}");
        }
    }
}
