//! `zfs send`: the daemon writes the stream to our standard output, and sends notes back.
//!
//! Lines and their destinations are OpenZFS's (format/4 8). With `-n` they are the output;
//! otherwise they go to standard error, because standard output has the stream.

use cenote_codec::token_text::{self, TokenProblem};
use cenote_control::model::{ControlError, Part, Request, Send, SendNote};
use cenote_ondisk::NvList;
use cenote_ondisk::nvlist::print_list;
use cenote_words::context::{Context, Outcome, Said, Stop, failed, usage};
use cenote_words::format::date::{Form, date};
use cenote_words::format::number::nicebytes;
use cenote_words::getopt::Parsed;
use cenote_words::texts::{cannot_open, with_context};
use jiff::tz::TimeZone;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const TO_TERMINAL: &str = "Error: Stream can not be written to a terminal.\n\
                           You must redirect standard output.";
const NO_DEDUP: &str = "WARNING: deduplicated send is no longer supported.  A regular,\n\
                        non-deduplicated stream will be generated.\n";
const NO_TYPE: &str = "Warning: incremental source didn't specify type, assuming snapshot. \
                       Use '@' or '#' prefix to avoid ambiguity.";
/// The exit code of a failed `zfs send -t` (format/4 9).
const RESUME_FAILED: u8 = 255;

/// How to format notes.
struct Words {
    parsable: bool,
    verbose: bool,
    /// Whether the process's name shows the progress.
    shows_in_title: bool,
    dry_run: bool,
    is_package: bool,
    zone: TimeZone,
    /// The snapshot of the progress lines.
    shown: String,
    /// Whether to print a line that would not be printed otherwise.
    is_wanted: Arc<AtomicBool>,
}

/// `zfs send [-DLPUVbcehnpsvw] [-i|-I SOURCE] [-R [-X DATASET,…]] SNAPSHOT`, `send -t TOKEN`,
/// `send -S DATASET`
pub fn run(parsed: &Parsed, context: &mut Context) -> Outcome {
    let shows_in_title = parsed.has("V");
    let send = asked(parsed, context)?;
    if !send.dry_run && std::io::stdout().is_terminal() {
        return failed(TO_TERMINAL);
    }
    let mut words = Words {
        parsable: parsed.has("P"),
        verbose: parsed.has("v") || parsed.has("P"),
        shows_in_title,
        dry_run: send.dry_run,
        is_package: send.recursive || send.intermediates,
        zone: context.zone.clone(),
        shown: String::new(),
        is_wanted: wanted_by_signal(),
    };
    if let Some(token) = send.token.as_ref().filter(|_| words.verbose) {
        let contents = contents(token)?;
        match words.dry_run {
            true => context.print(&contents),
            false => context.complain(contents.trim_end()),
        }
    }
    let target = send.target.clone();
    let is_resuming = send.token.is_some();
    let request = Request::Send {
        send: Box::new(send),
    };
    let answer = context.ask_aloud(request, &mut |part| match part {
        Part::Send(note) => words.said(note),
        _ => Said::default(),
    });
    match answer {
        Ok(_) => Ok(0),
        Err(error) if is_resuming => {
            context.complain(&why_not(&error, &target, true));
            Ok(RESUME_FAILED)
        }
        Err(error) => failed(why_not(&error, &target, false)),
    }
}

/// Why nothing was sent.
pub fn why_not(error: &ControlError, target: &str, is_resuming: bool) -> String {
    match error {
        error if error.is_of_stream() => error.to_string(),
        ControlError::NoSuchDataset { .. } | ControlError::NoSuchPool { .. } => {
            cannot_open(target, error)
        }
        error if is_resuming => with_context("cannot resume send", error),
        error => with_context(&format!("cannot send '{target}'"), error),
    }
}

/// Set by SIGUSR1, which requests a progress line.
fn wanted_by_signal() -> Arc<AtomicBool> {
    let wanted = Arc::new(AtomicBool::new(false));
    // If that fails, the signal ends the command, as usual.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&wanted));
    wanted
}

/// The request for a command line.
pub fn asked(parsed: &Parsed, context: &mut Context) -> Result<Send, Stop> {
    match parsed.has("t") {
        true => of_token(parsed),
        false => of_names(parsed, context),
    }
}

fn of_token(parsed: &Parsed) -> Result<Send, Stop> {
    let others = ["i", "I", "R", "D", "p", "b", "h", "X", "s", "d", "S", "U"];
    if !parsed.operands.is_empty() || others.iter().any(|option| parsed.given(option)) {
        return usage("invalid flags combined with -t");
    }
    Ok(Send {
        token: parsed.last("t").map(str::to_owned),
        dry_run: parsed.has("n"),
        large_blocks: parsed.has("L"),
        embedded: parsed.has("e"),
        compressed: parsed.has("c"),
        raw: parsed.has("w"),
        estimates: parsed.has("v") || parsed.has("P"),
        ..Send::default()
    })
}

fn of_names(parsed: &Parsed, context: &mut Context) -> Result<Send, Stop> {
    let has = |letter: &str| parsed.has(letter);
    if parsed.given("s") && !parsed.given("R") {
        return usage("skip-missing flag can only be used in conjunction with replicate");
    }
    if parsed.given("X") && !parsed.given("R") {
        return usage("exclude flag can only be used in conjunction with replicate");
    }
    let target = match parsed.operands.as_slice() {
        [] => return usage("missing snapshot argument"),
        [target] => target,
        _ => return usage("too many arguments"),
    };
    if has("S") {
        return of_saved(parsed, target, context);
    }
    let given: Vec<&str> = parsed.all("i").chain(parsed.all("I")).collect();
    if given.len() > 1 {
        return usage("-i and -I are mutually exclusive, and may be given once");
    }
    super::select::require(std::slice::from_ref(target), context)?;
    if has("D") {
        context.complain(NO_DEDUP);
    }
    let from = given.first().map(|from| source_name(from, target, context));
    if has("I") && from.as_ref().is_some_and(|from| from.contains('#')) {
        return failed("Error: multiple snapshots cannot be sent from a bookmark.");
    }
    let is_head = !target.contains('@');
    let is_from_bookmark = from.as_ref().is_some_and(|from| from.contains('#'));
    let is_package = ["R", "I", "p", "b", "h"].iter().any(|one| has(one));
    if is_head && is_package || is_from_bookmark && has("R") {
        return failed("Error: Unsupported flag with filesystem or bookmark.");
    }
    if has("d") && (has("R") || has("I") || has("h")) {
        return failed("Error: multiple snapshots cannot be sent redacted.");
    }
    if has("d") && has("w") {
        return failed("Error: raw sends may not be redacted.");
    }
    let excluded = parsed.all("X").flat_map(|list| list.split(','));
    Ok(Send {
        target: target.clone(),
        from,
        intermediates: has("I"),
        recursive: has("R"),
        skips_missing: has("s"),
        excluded: excluded.map(str::to_owned).collect(),
        properties: has("p"),
        received_only: has("b"),
        holds: has("h"),
        large_blocks: has("L"),
        embedded: has("e"),
        compressed: has("c"),
        raw: has("w"),
        decrypted: has("U"),
        redact: parsed.last("d").map(str::to_owned),
        token: None,
        saved: false,
        dry_run: has("n"),
        estimates: has("v") || has("P"),
    })
}

/// The request for a partially received snapshot: the stream's own header determines how blocks are
/// sent.
fn of_saved(parsed: &Parsed, target: &str, context: &mut Context) -> Result<Send, Stop> {
    let others = [
        "i", "I", "R", "D", "p", "L", "e", "c", "w", "b", "h", "X", "s", "d", "U",
    ];
    if others.iter().any(|option| parsed.given(option)) {
        return usage("incompatible flags combined with saved send flag");
    }
    if target.contains('@') {
        return usage("cannot create saved send from a snapshot");
    }
    super::select::require(&[target.to_owned()], context)?;
    Ok(Send {
        target: target.to_owned(),
        saved: true,
        dry_run: parsed.has("n"),
        estimates: parsed.has("v") || parsed.has("P"),
        ..Send::default()
    })
}

/// The full name of an incremental source, which may be given without the dataset.
fn source_name(from: &str, target: &str, context: &mut Context) -> String {
    let dataset = target.split('@').next().unwrap_or_default();
    match from.chars().next() {
        Some('@' | '#') => format!("{dataset}{from}"),
        _ if from.contains(['@', '#', '/']) => from.to_owned(),
        _ => {
            context.complain(NO_TYPE);
            format!("{dataset}@{from}")
        }
    }
}

/// The contents of a token, as text.
fn contents(token: &str) -> Result<String, Stop> {
    let packed = token_text::from_text(token);
    let list = packed.and_then(|packed| NvList::decode(&packed).map_err(|_| TokenProblem::List));
    let list = list.map_err(|problem| Stop::Failed(format!("cannot resume send: {problem}")))?;
    let mut text = b"resume token contents:\n".to_vec();
    let printed = print_list(&list, &mut text);
    printed.map_err(|error| Stop::Failed(error.to_string()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl Words {
    fn said(&mut self, note: SendNote) -> Said {
        let line = match note {
            SendNote::Stream { from, to, bytes } => self.stream(from.as_deref(), &to, bytes),
            SendNote::Total { bytes } if self.parsable => format!("size\t{bytes}"),
            SendNote::Total { bytes } => {
                format!("total estimated size is {}", nicebytes(bytes))
            }
            SendNote::Skipped { dataset, snapshot } => {
                let err = format!(
                    "WARNING: skipping dataset {dataset}: snapshot '@{snapshot}' does not exist"
                );
                return Said {
                    err,
                    ..Said::default()
                };
            }
            SendNote::Progress { snapshot, bytes } => {
                if self.shows_in_title {
                    // The name in `ps` is a courtesy; the stream does not depend on it.
                    let _ = std::fs::write("/proc/self/comm", format!("send {}", nicebytes(bytes)));
                }
                let is_asked = self.is_wanted.swap(false, Ordering::Relaxed);
                return match self.verbose || is_asked {
                    true => Said {
                        err: self.progress(&snapshot, bytes),
                        ..Said::default()
                    },
                    false => Said::default(),
                };
            }
        };
        match self.dry_run {
            true => Said {
                out: line,
                ..Said::default()
            },
            false => Said {
                err: line,
                ..Said::default()
            },
        }
    }

    fn stream(&self, from: Option<&str>, to: &str, bytes: u64) -> String {
        match (self.parsable, from) {
            (true, None) => return format!("full\t{to}\t{bytes}"),
            (true, Some(from)) => return format!("incremental\t{from}\t{to}\t{bytes}"),
            _ => {}
        }
        let size = match bytes {
            0 => String::new(),
            bytes => format!(" estimated size is {}", nicebytes(bytes)),
        };
        match from {
            None => format!("full send of {to}{size}"),
            Some(from) if self.is_package && !from.contains('@') => {
                format!("send from @{from} to {to}{size}")
            }
            Some(from) => format!("send from {from} to {to}{size}"),
        }
    }

    fn progress(&mut self, snapshot: &str, bytes: u64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        let time = date(now, Form::Ctime, &self.zone);
        // `Sat Nov 21 18:30:16 2026`: only the time of day.
        let time = time.split_whitespace().nth(3).unwrap_or_default();
        if self.parsable {
            return format!("{time}\t{bytes}\t{snapshot}");
        }
        let line = format!("{time}   {:>5}   {snapshot}", nicebytes(bytes));
        if self.shown == snapshot {
            return line;
        }
        snapshot.clone_into(&mut self.shown);
        format!("TIME        SENT   SNAPSHOT {snapshot}\n{line}")
    }
}
