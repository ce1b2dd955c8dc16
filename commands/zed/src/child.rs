//! One zedlet that runs.
//!
//! It has a process group of its own, so that its children are killed with it. Its standard input
//! is empty, and what it prints goes to the log, up to [`LINES_MAX`] lines. What it leaves running
//! in the background is not waited for, and loses its output when the zedlet ends.

use crate::tell::Tell;
use cenote_base::rt::{self, Instant};
use cenote_words::format::harmless::harmless;
use log::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How often to check whether the zedlet has ended.
const POLL: Duration = Duration::from_millis(20);

/// How long to wait for the rest of its output: another process may have the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Lines of a zedlet that are logged.
const LINES_MAX: usize = 100;

/// Bytes of a line that are logged.
const LINE_MAX: usize = 1000;

/// A zedlet to run for an event.
pub(crate) struct Task {
    /// The program.
    pub program: PathBuf,
    /// The number of the event.
    pub event: u64,
    /// All of its environment.
    pub variables: Vec<(OsString, OsString)>,
}

/// How a zedlet ended.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself.
    Ended(ExitStatus),
    /// It was killed at the limit of time.
    Slow,
    /// It was killed because the process that runs it ends.
    Over,
}

/// Runs a zedlet until it ends, its time is over, or all time is.
pub(crate) fn run(
    task: &Task,
    limit: Duration,
    is_over: &dyn Fn() -> bool,
    tell: Tell,
) -> io::Result<End> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(&task.program);
    command
        .env_clear()
        .envs(task.variables.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn()?;
    // Closes our ends for writing: otherwise there would be no end of its output.
    drop(command);
    let name = task.program.file_name().unwrap_or_default();
    let mut output = Output {
        reader: Some(reader),
        name: name.to_string_lossy().into_owned(),
        event: task.event,
        line: Vec::new(),
        lines: 0,
        tell,
    };
    let end = wait(&mut child, limit, is_over, &mut output)?;
    output.finish();
    Ok(end)
}

fn wait(
    child: &mut Child,
    limit: Duration,
    is_over: &dyn Fn() -> bool,
    output: &mut Output,
) -> io::Result<End> {
    let end = Instant::now() + limit;
    loop {
        output.take(POLL);
        if let Some(status) = child.try_wait()? {
            return Ok(End::Ended(status));
        }
        let killed = match (is_over(), Instant::now() >= end) {
            (true, _) => End::Over,
            (false, true) => End::Slow,
            (false, false) => continue,
        };
        if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process_group(id, Signal::KILL);
        }
        child.wait()?;
        return Ok(killed);
    }
}

/// What a zedlet prints.
struct Output {
    /// The pipe, until its end.
    reader: Option<PipeReader>,
    name: String,
    event: u64,
    /// The line so far.
    line: Vec<u8>,
    /// How many lines there were.
    lines: usize,
    tell: Tell,
}

impl Output {
    /// Takes what is there; waits a little if there is nothing. Returns whether there was any.
    fn take(&mut self, wait: Duration) -> bool {
        let Some(reader) = &mut self.reader else {
            rt::sleep(wait);
            return false;
        };
        let time = Timespec::try_from(wait).expect("a short time");
        let mut polled = [PollFd::new(reader, PollFlags::IN)];
        match poll(&mut polled, Some(&time)) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let mut piece = [0; 4096];
        match reader.read(&mut piece) {
            Ok(0) | Err(_) => self.reader = None,
            Ok(length) => piece[..length].iter().for_each(|byte| self.put(*byte)),
        }
        self.reader.is_some()
    }

    fn put(&mut self, byte: u8) {
        match byte {
            b'\n' => self.end_line(),
            _ if self.line.len() < LINE_MAX => self.line.push(byte),
            _ => {}
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.lines += 1;
        let text = String::from_utf8_lossy(&line);
        let text = match self.lines {
            ..=LINES_MAX => harmless(&text),
            _ if self.lines == LINES_MAX + 1 => "further lines are left out".into(),
            _ => return,
        };
        let (name, event) = (&self.name, self.event);
        (self.tell)(
            Level::Info,
            &format!("zedlet {name}, event {event}: {text}"),
        );
    }

    /// Takes the rest.
    fn finish(&mut self) {
        let end = Instant::now() + LAST_WORDS;
        while self.reader.is_some() && Instant::now() < end {
            self.take(POLL);
        }
        if !self.line.is_empty() {
            self.end_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn tell(_: Level, text: &str) {
        TOLD.lock().expect("the list").push(text.to_owned());
    }

    fn shell(script: &str, limit: Duration, is_over: &dyn Fn() -> bool) -> (End, Vec<String>) {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("all-x");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).expect("its mode");
        let task = Task {
            program,
            event: 7,
            variables: vec![("A".into(), "b c".into())],
        };
        let end = run(&task, limit, is_over, tell).expect("it runs");
        (end, std::mem::take(&mut TOLD.lock().expect("the list")))
    }

    /// All in one test: what is printed goes to one list.
    #[test]
    fn zedlets_have_their_environment_only_and_a_limit_of_time() {
        let second = Duration::from_secs(1);
        let never = || false;
        let script =
            "env | grep -v '^\\(PWD\\|SHLVL\\|_\\)='; echo err >&2; printf 'a\\033b'; exit 3";
        let (end, told) = shell(script, 60 * second, &never);
        assert!(
            matches!(end, End::Ended(status) if status.code() == Some(3)),
            "{end:?}"
        );
        let lines = ["A=b c", "err", "a?b"].map(|line| format!("zedlet all-x, event 7: {line}"));
        assert_eq!(told, lines);

        let (_, told) = shell("readlink /proc/self/fd/0", 60 * second, &never);
        assert_eq!(told, ["zedlet all-x, event 7: /dev/null"]);

        let (_, told) = shell("seq 200000", 60 * second, &never);
        assert_eq!(told.len(), LINES_MAX + 1);

        let start = Instant::now();
        let (end, _) = shell("sleep 600 & sleep 600", second, &never);
        assert!(matches!(end, End::Slow), "{end:?}");
        let (end, _) = shell("sleep 600", 600 * second, &|| true);
        assert!(matches!(end, End::Over), "{end:?}");
        let (end, _) = shell("sleep 2 & exit 0", 600 * second, &never);
        assert!(matches!(end, End::Ended(_)), "{end:?}");
        let (end, _) = shell("exec >&- 2>&-; sleep 0.1", 600 * second, &never);
        assert!(matches!(end, End::Ended(_)), "{end:?}");
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
