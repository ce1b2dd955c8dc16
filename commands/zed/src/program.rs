//! `zed`: runs zedlets in the foreground, for the events of a daemon.
//!
//! It is a client of the daemon like `zpool events -f`. When the daemon ends, it waits for the next
//! one. The state file says which event was handled last, so none is handled twice when `zed`
//! starts again while the daemon runs on.

use crate::described::{FLAGS, NAME, refused_option, synopsis};
use crate::directory::{Directory, Sharing};
use crate::place::MACHINE_DIRECTORY;
use crate::plan::{JOBS, Plan};
use crate::position::{Position, StateFile, after};
use crate::runner::Runner;
use crate::surroundings::Surroundings;
use crate::tell::Tell;
use cenote_base::rt;
use cenote_control::model::{Part, Request};
use cenote_control::protocol::{CallError, socket_of_process};
use cenote_words::context::{Context, Daemon, Outcome, Stop, failed, usage};
use cenote_words::getopt::{OptionError, Parsed, parse};
use log::Level;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The default state file.
const STATE_FILE: &str = "/run/zed.state";

/// The exit code of a wrong command line.
const USAGE: u8 = 2;

/// How many zedlets may run at a time: each has a thread.
const JOBS_MAX: usize = 1024;

/// How often to look for a daemon, if there is none.
const RETRY: Duration = Duration::from_millis(500);

/// How often to check for signals.
const LOOK: Duration = Duration::from_millis(50);

/// How long zedlets may take at the end.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Runs the command.
pub fn run(arguments: &[String], context: &mut Context) -> u8 {
    let mut words = arguments.iter().take_while(|word| *word != "--");
    if words.any(|word| matches!(word.as_str(), "--help" | "-h" | "-?")) {
        context.print(&synopsis());
        return 0;
    }
    let ended = parsed(arguments).and_then(|parsed| serve(&parsed, context));
    context.tell_of_unread(&ended);
    match ended {
        Ok(code) | Err(Stop::Code(code)) => code,
        Err(Stop::Failed(message)) => {
            context.complain(&format!("{NAME}: {message}"));
            1
        }
        Err(Stop::Usage(message)) => {
            context.complain(&format!("{NAME}: {message}\n{}", synopsis().trim_end()));
            USAGE
        }
    }
}

fn parsed(arguments: &[String]) -> Result<Parsed, Stop> {
    let parsed = match parse(FLAGS, arguments) {
        Err(OptionError::Invalid(letter)) => {
            return match refused_option(&letter) {
                Some(reason) => failed(reason),
                None => Err(OptionError::Invalid(letter).into()),
            };
        }
        parsed => parsed?,
    };
    match parsed.operands.first() {
        Some(operand) => usage(format!("unexpected operand '{operand}'")),
        None => Ok(parsed),
    }
}

/// Writes messages for people to the standard error.
fn tell(level: Level, text: &str) {
    if level < Level::Debug {
        eprintln!("{NAME}: {text}");
    }
}

/// The same, and also what went well.
fn tell_all(_: Level, text: &str) {
    eprintln!("{NAME}: {text}");
}

fn serve(parsed: &Parsed, context: &mut Context) -> Outcome {
    if parsed.has("V") {
        parsed.only(&["V"])?;
        context.line(&format!("{NAME} (cenote) {}", env!("CARGO_PKG_VERSION")));
        return Ok(0);
    }
    if !parsed.has("F") {
        return usage(
            "-F is missing: zed stays in the foreground. 'cenote daemon' runs the zedlets of \
             /etc/zfs/zed.d by itself",
        );
    }
    let tell: Tell = if parsed.has("v") { tell_all } else { tell };
    let given = |option: &str, usual: &str| -> PathBuf {
        context.directory.join(parsed.last(option).unwrap_or(usual))
    };
    let (place, state) = (given("d", MACHINE_DIRECTORY), given("s", STATE_FILE));
    let jobs = match parsed.last("j").map(str::parse) {
        None => JOBS,
        Some(Ok(jobs)) if (1..=JOBS_MAX).contains(&jobs) => jobs,
        Some(_) => return usage(format!("-j must be a number from 1 to {JOBS_MAX}")),
    };
    let mut directory = Directory::new(place.clone(), Sharing::Nothing);
    if let Err(reason) = directory.lock() {
        return failed(format!("{}: {reason}", place.display()));
    }
    let opened = StateFile::open(&state, parsed.has("Z"));
    let (state_file, last) = match opened {
        Ok(opened) => opened,
        Err(error) => return failed(format!("-s {}: {error}", state.display())),
    };
    if let Some(file) = parsed.last("p") {
        write_id(&context.directory.join(file))?;
    }
    let socket = std::path::absolute(socket_of_process()).unwrap_or_else(|_| socket_of_process());
    let surroundings = Surroundings::new(&socket, parsed.last("P").map(Into::into));
    let plan = Plan {
        jobs,
        tell,
        handled: Box::new(move |event| {
            if let Err(error) = state_file.note(Position::of(event)) {
                tell(Level::Warn, &format!("{}: {error}", state.display()));
            }
        }),
        ..Plan::new(place, Sharing::Nothing, surroundings)
    };
    let stop = stop_on_signals()?;
    let runner = Runner::start_in(directory, plan);
    let runner = Arc::new(runner.map_err(|error| Stop::Failed(error.to_string()))?);
    follow(context.connect, &runner, last, tell)?;
    while !stop.load(Ordering::Acquire) {
        rt::sleep(LOOK);
    }
    // The next zed gets what is left from the daemon.
    runner.finish(LAST_WAIT);
    Ok(0)
}

fn write_id(file: &Path) -> Result<(), Stop> {
    let written = std::fs::write(file, format!("{}\n", std::process::id()));
    written.map_err(|error| Stop::Failed(format!("-p {}: {error}", file.display())))
}

/// A flag that SIGTERM and SIGINT set. SIGHUP is ignored.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Stop> {
    let (stop, nothing) = (Arc::new(AtomicBool::new(false)), Arc::default());
    for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &nothing)] {
        let registered = signal_hook::flag::register(signal, Arc::clone(flag));
        registered.map_err(|error| Stop::Failed(format!("cannot listen for signals: {error}")))?;
    }
    Ok(stop)
}

/// Starts a thread that queues the events of the daemon, and of each later one. It ends with the
/// process.
fn follow(
    connect: fn() -> Box<dyn Daemon>,
    runner: &Arc<Runner>,
    last: Option<Position>,
    tell: Tell,
) -> Result<(), Stop> {
    let (runner, mut last) = (Arc::clone(runner), last);
    let work = move || {
        let mut told = String::new();
        loop {
            let error = follow_one(connect, &runner, &mut last).err();
            let error = error.map_or(String::new(), |error| error.to_string());
            if !error.is_empty() && error != told {
                tell(Level::Info, &format!("waiting for a daemon: {error}"));
            }
            told = error;
            rt::sleep(RETRY);
        }
    };
    let started = rt::spawn("zed-events", work);
    started.map_err(|error| Stop::Failed(format!("no thread: {error}")))?;
    Ok(())
}

/// Queues the events of one daemon until it ends.
fn follow_one(
    connect: fn() -> Box<dyn Daemon>,
    runner: &Runner,
    last: &mut Option<Position>,
) -> Result<(), CallError> {
    let request = Request::Events {
        pool: None,
        follow: true,
    };
    let mut is_first = true;
    connect().call(request, &mut |part| {
        if let Part::Events(events) = part {
            // The first part has the events that the daemon still has.
            let before = last.filter(|_| is_first);
            is_first = false;
            for event in after(events, before) {
                *last = Some(Position::of(&event));
                runner.put(event);
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::Response;
    use cenote_control::protocol::Interrupt;
    use std::fs;

    /// No command line here gets as far as a daemon.
    struct NoDaemon;

    impl Daemon for NoDaemon {
        fn call(
            &mut self,
            request: Request,
            _: &mut dyn FnMut(Part) -> Interrupt,
        ) -> Result<Response, CallError> {
            panic!("{request:?}");
        }
    }

    /// Runs a command line that ends at once: its exit code and what it prints.
    fn zed(line: &str) -> (u8, String) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let err = Box::new(file.reopen().expect("the file"));
        let mut context = Context::new(Box::new(Vec::new()), err, Box::new(NoDaemon));
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let code = run(&words, &mut context);
        let code = context.finish(code);
        (code, fs::read_to_string(file.path()).expect("text"))
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        for (line, expected, words) in [
            ("", USAGE, "-F is missing"),
            ("-F x", USAGE, "unexpected operand 'x'"),
            ("-F -q", USAGE, "invalid option 'q'"),
            ("-F -j 0", USAGE, "-j must be a number from 1 to 1024"),
            ("-F -j x", USAGE, "-j must be a number"),
            ("-V -F", USAGE, "'-F' has no effect here"),
            ("-F -f", 1, "programs that others may write are never run"),
            ("-F -d /no/such", 1, "/no/such: no such directory"),
        ] {
            let (code, text) = zed(line);
            assert_eq!(code, expected, "{line}: {text}");
            assert!(
                text.starts_with("zed: ") && text.contains(words),
                "{line}: {text}"
            );
        }
        assert_eq!(zed("-V"), (0, String::new()));
        assert_eq!(zed("-h"), (0, String::new()));
    }

    #[test]
    fn a_state_file_of_another_kind_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path().join("notes");
        fs::write(&state, "hello\n").expect("a file");
        let (place, file) = (directory.path().display(), state.display());
        let (code, text) = zed(&format!("-F -d {place} -s {file}"));
        assert_eq!(code, 1);
        assert!(text.contains("something else is in it"), "{text}");
        assert_eq!(fs::read_to_string(&state).expect("a file"), "hello\n");
    }
}
