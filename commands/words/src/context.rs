//! What a command works with: its outputs, the daemon, the user's time zone and environment.
//!
//! Commands see the daemon as a function from request to answer and write through here, so that
//! tests run them whole against canned answers and compare every byte.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cenote_control::model::properties::Effect;
use cenote_control::model::{ControlError, Dataset, MissingPool, Part, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};
use jiff::tz::TimeZone;

use crate::format::harmless::harmless;
use crate::getopt::OptionError;
use crate::missing;

/// Whoever answers requests.
pub trait Daemon {
    /// Asks; parts go to `on_part` as they come.
    fn call(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError>;

    /// What is to be said of an earlier daemon that died, whose pools this one has not imported.
    fn lost(&mut self) -> Option<String> {
        None
    }

    /// Pools that should be imported, and are not.
    fn missing(&mut self) -> Vec<MissingPool> {
        Vec::new()
    }

    /// What is to be said of a daemon that runs and cannot write down what it has imported.
    fn record_failure(&mut self) -> Option<String> {
        None
    }
}

/// Where no daemon runs.
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

/// How the complaint about options begins that a command never asked for.
pub const UNREAD: &str = "bug: the command ignored the options";

/// The exit code of whoever could not ask because the daemon died.
pub const DIED: u8 = 3;

/// Why a command ends early.
#[derive(Debug)]
pub enum Stop {
    /// Print a line (unless empty), then the subcommand's usage; exit 2.
    Usage(String),
    /// Print the lines; exit 1.
    Failed(String),
    /// Everything was said; exit with this code.
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
    /// Whether something could not be asked because the daemon died.
    has_died: bool,
    /// The user's time zone.
    pub zone: TimeZone,
    /// The time, in seconds since the epoch.
    pub now: u64,
    /// Makes another connection to the daemon, for a thread of its own.
    pub connect: fn() -> Box<dyn Daemon>,
    /// Looks an environment variable up.
    pub variable: fn(&str) -> Option<String>,
    /// The directory that relative paths start at.
    pub directory: PathBuf,
    /// Whether standard output is a terminal, which obeys what names on a disk may hold.
    pub is_terminal: bool,
    /// The command line as the history of a pool keeps it.
    pub command: String,
    /// The first word that the daemon did not know.
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

    /// A path that means the same in any directory, as OpenZFS names devices: without links and
    /// dots on the way to it, though the last component may be a link (`/dev/disk/by-id/…`).
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

    /// Writes to standard output. The first failure is kept for the end.
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
        // There is nowhere left to report a failure to write an error.
        let _ = writeln!(self.err, "{}", harmless(text));
        let _ = self.err.flush();
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) {
        if self.write_error.is_none()
            && let Err(error) = self.out.flush()
        {
            self.write_error = Some(error);
        }
    }

    /// The exit code of a command that ended with `code`, once its output is written.
    ///
    /// A reader that left early (`| head`) is not an error. Where the daemon died, all commands end
    /// with the same code.
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

    /// In debug builds: complains where a command ended well and never asked for an option that it
    /// was given. That is a bug of the command, which tests look for.
    pub fn tell_of_unread(&mut self, ended: &Outcome) {
        let unread = crate::getopt::unread();
        if cfg!(debug_assertions) && matches!(ended, Ok(0)) && !unread.is_empty() {
            let options = unread.join("', '");
            self.complain(&format!("{UNREAD} '{options}'"));
        }
    }

    /// Whether nobody reads the output any more.
    pub fn output_gone(&self) -> bool {
        self.write_error.is_some()
    }

    /// Says that the pools of an earlier daemon are lost, if they are.
    pub fn complain_of_lost(&mut self) {
        if let Some(text) = self.daemon.lost() {
            self.has_died = true;
            self.complain(&text);
        }
    }

    /// The pools that should be imported and are not, if there are any: the command ends with the
    /// code for a daemon that died.
    pub fn missing(&mut self) -> Vec<MissingPool> {
        let missing = self.daemon.missing();
        self.has_died |= !missing.is_empty();
        missing
    }

    /// Says which these are.
    pub fn complain_of_missing(&mut self) {
        let zone = self.zone.clone();
        for pool in self.missing() {
            self.complain(&missing::text(&pool, &zone));
        }
    }

    /// Says that the daemon cannot write down what it has imported, if it cannot; whether that is
    /// so.
    pub fn complain_of_record(&mut self) -> bool {
        let text = self.daemon.record_failure();
        if let Some(text) = &text {
            self.complain(text);
        }
        text.is_some()
    }

    /// The daemon's death has been dealt with.
    pub fn forget_death(&mut self) {
        self.has_died = false;
    }

    /// The answer of a call, or why there is none.
    fn answer_of(&mut self, called: Result<Response, CallError>) -> Result<Response, ControlError> {
        let answer = answer_of(called);
        self.has_died |= matches!(answer, Err(ControlError::DaemonDied { .. }));
        answer
    }

    /// Asks the daemon something whose answer has no parts.
    pub fn ask(&mut self, request: Request) -> Result<Response, ControlError> {
        self.ask_in_parts(request, &mut |_| {})
    }

    /// The same of what is no change, and whose command belongs into the pool's history.
    pub fn ask_noted(&mut self, request: Request) -> Result<Response, ControlError> {
        let asked = Box::new(request);
        let command = self.command.clone();
        self.ask(Request::Noted { asked, command })
    }

    /// The same with an answer in parts.
    pub fn ask_noted_in_parts(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part),
    ) -> Result<Response, ControlError> {
        let asked = Box::new(request);
        let command = self.command.clone();
        self.ask_in_parts(Request::Noted { asked, command }, on_part)
    }

    /// Asks the daemon; parts go to `on_part`.
    ///
    /// A daemon that cannot be reached is `Unreachable`: whoever prints errors prints one line.
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

    /// Asks the daemon, and prints what is to be said of each part as it comes.
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
            // What cannot be said does not stop what is being done.
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

    /// Asks for datasets, for no longer than `limit`; `None` if that was not enough.
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

    /// Says that a property was stored and changes nothing here, if that is so.
    pub fn tell_of_effect(&mut self, name: &str, effect: Effect) {
        if let Effect::Kept(reason) = effect {
            self.complain(&format!(
                "'{name}' is stored, and has no effect here: {reason}"
            ));
        }
    }

    /// Asks for datasets: the rows, and the roots that could not be listed.
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

/// A word of a command line that the daemon did not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The name of a pool, a dataset or a snapshot.
    Name(String),
    /// The name of a property.
    Property(String),
    /// The value of the property of this name.
    Value(String),
}

/// The word that an answer says is wrong.
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

/// The answer of a call, or why there is none.
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

/// What is to be said of a part: a line each, without its end; empty for nothing.
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

/// The daemon answered another question: a bug of one side.
pub fn mismatch() -> ControlError {
    ControlError::Internal {
        detail: "the daemon gave an answer to another question".to_owned(),
    }
}
