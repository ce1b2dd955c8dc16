//! Runs `cenote` as a user would, each test with a daemon and a directory of its own.
//!
//! A run has a limit of time and memory: a test that hangs fails, and says at what. The limits are
//! watched from outside, so that they hold for any program. Time counts while the watcher itself
//! runs: on a machine that is paused or has other things to do nothing is called a hang.

use crate::golden;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Resource, Rlimit};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long one command may take unless its test says otherwise.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Between two looks at a running command.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The most that the time between two looks counts for.
const POLL_COUNTED_MAX: Duration = Duration::from_millis(50);

/// What the kernel sends a process that used up its processor time.
const SIGXCPU: i32 = 24;

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    /// What was run, for messages.
    pub command: String,
    /// The exit code; `None` after a signal or a limit.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
    /// The limit that was passed, if one was.
    pub limit: Option<Limit>,
    /// The most resident memory seen, in bytes: of samples, a lower bound.
    pub memory_max: u64,
    /// How long it ran, as far as it was watched.
    pub elapsed: Duration,
}

/// A limit that a command passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It ran too long.
    Time,
    /// It used too much memory.
    Memory,
}

impl Outcome {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// This outcome if the exit code is 0, and an error with everything it said otherwise.
    pub fn success(self) -> Result<Self> {
        ensure!(self.code == Some(0), "{}", self.report());
        Ok(self)
    }

    /// The command, how it ended and what it said on standard error.
    pub fn report(&self) -> String {
        let end = match (self.limit, self.code, self.signal) {
            (Some(limit), _, _) => format!("stopped at its limit of {limit:?}"),
            (None, Some(code), _) => format!("exit code {code}"),
            (None, None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
        };
        let tail: Vec<&str> = self.stderr.lines().rev().take(30).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!(
            "{}: {end} after {:.1?}\n{}",
            self.command,
            self.elapsed,
            tail.join("\n")
        )
    }

    /// Whether the program broke one of its own promises: it panicked or died by a signal.
    pub fn has_crashed(&self) -> bool {
        let is_signal = self.code.is_none() && self.limit.is_none();
        is_signal || [Some(101), Some(134)].contains(&self.code) || self.stderr.contains("panicked")
    }
}

/// Limits of one run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wall time.
    pub time: Duration,
    /// Resident memory in bytes, looked at now and then.
    pub memory: u64,
    /// Writable memory in bytes, resident or not: the kernel refuses more.
    pub data: Option<u64>,
    /// Processor time in seconds: the kernel ends the program behind it.
    pub processor: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: TIMEOUT,
            memory: 4 << 30,
            data: None,
            processor: None,
        }
    }
}

impl Limits {
    /// Sets the limits that the kernel can enforce. The program may have run for a moment.
    pub(crate) fn impose(&self, child: &Child) -> Result<()> {
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let limits = [(Resource::Data, self.data), (Resource::Cpu, self.processor)];
        for (resource, value) in limits {
            if value.is_none() {
                continue;
            }
            // The soft limit sends a signal that says why; the hard limit just kills.
            let limit = Rlimit {
                current: value,
                maximum: value.map(|value| value.saturating_add(1)),
            };
            match rustix::process::prlimit(process, resource, limit) {
                // It came to its end already.
                Ok(_) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error).context("prlimit"),
            }
        }
        Ok(())
    }
}

/// A TCP port that is free at this moment.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}

/// The built program. It is built once for each run of a test program, if Cargo sees a need.
pub fn cenote_path() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build().expect("cenote builds")).clone()
}

fn build() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CENOTE_BIN") {
        return Ok(path.into());
    }
    // A test runs as target/PROFILE/deps/NAME: the program belongs into the same profile.
    let own = std::env::current_exe()?;
    let is_release = own.components().any(|part| part.as_os_str() == "release");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "cenote", "--bin", "cenote"]);
    command.args(["--features", "ublk"]);
    if is_release {
        command.arg("--release");
    }
    let status = command.current_dir(golden::workspace_root()).status()?;
    ensure!(status.success(), "cargo build failed");
    let profile = if is_release { "release" } else { "debug" };
    Ok(golden::build_directory().join(profile).join("cenote"))
}

/// A user of Cenote: a directory, a daemon's socket, and the commands.
pub struct Cenote {
    directory: tempfile::TempDir,
}

impl Cenote {
    /// A fresh user whose daemon starts with the first command that needs it.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("cenote-test.").tempdir()?;
        let bin = directory.path().join("bin");
        fs::create_dir(&bin)?;
        for name in ["cenote", "zpool", "zfs", "mount.zfs", "mount.fuse.cenote"] {
            std::os::unix::fs::symlink(cenote_path(), bin.join(name))?;
        }
        Ok(Self { directory })
    }

    /// The user's directory, which goes away with the user.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A new directory `name` in the user's.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// The socket of the user's daemon.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A command `program` (`cenote`, `zpool`, `zfs`) with its arguments, ready to run.
    pub fn command<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Command {
        let mut command = Command::new(self.directory.path().join("bin").join(program));
        command.args(arguments);
        self.in_environment(command)
    }

    /// A command that finds the user's daemon, if it calls our programs.
    pub fn in_environment(&self, mut command: Command) -> Command {
        command.env("CENOTE_SOCKET", self.socket());
        // The machine's own files are not part of a test.
        command.env("CENOTE_SETTINGS", "").env("CENOTE_ALARMS", "");
        command.env("CENOTE_STATE", self.directory.path().join("state"));
        command
            .env("RUST_BACKTRACE", "1")
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8");
        command
    }

    /// Runs `program` with `arguments` to its end.
    pub fn run<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Result<Outcome> {
        run(self.command(program, arguments), b"", Limits::default())
    }

    /// The same, with something to read on standard input.
    pub fn run_with_input<S: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: &[S],
        input: &[u8],
    ) -> Result<Outcome> {
        run(self.command(program, arguments), input, Limits::default())
    }

    /// Runs a command line of words without spaces; it has to succeed. Returns standard output.
    pub fn ok(&self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (program, arguments) = words.split_first().context("a command")?;
        Ok(self.run(program, arguments)?.success()?.text())
    }
}

impl Drop for Cenote {
    fn drop(&mut self) {
        if self.socket().exists() {
            // A failure cannot be reported any more; the daemon's mounts end with it.
            let limits = Limits {
                time: Duration::from_secs(20),
                ..Limits::default()
            };
            let stop = self.command("cenote", &["daemon", "stop", "--force"]);
            if let Err(error) = run(stop, b"", limits) {
                eprintln!("cannot stop the daemon: {error:#}");
            }
        }
    }
}

/// Runs `command` within `limits`.
pub fn run(mut command: Command, input: &[u8], limits: Limits) -> Result<Outcome> {
    let shown = format!("{command:?}");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| shown.clone())?;
    limits.impose(&child)?;
    let stdout = collect(child.stdout.take().context("a pipe was asked for")?);
    let stderr = collect(child.stderr.take().context("a pipe was asked for")?);
    let mut stdin = child.stdin.take().context("a pipe was asked for")?;
    let input = input.to_vec();
    let feeder = thread::spawn(move || {
        // A program that ends without reading its input closes the pipe: not our concern.
        let _ = stdin.write_all(&input);
    });
    let (status, limit, memory_max, elapsed) = supervise(&mut child, limits)?;
    let limit = limit.or((status.signal() == Some(SIGXCPU)).then_some(Limit::Time));
    let (stdout, stderr) = (finish(stdout)?, finish(stderr)?);
    if feeder.join().is_err() {
        bail!("the thread that writes standard input panicked");
    }
    Ok(Outcome {
        command: shown,
        code: status.code().filter(|_| limit.is_none()),
        signal: status.signal(),
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        limit,
        memory_max,
        elapsed,
    })
}

type Ending = (ExitStatus, Option<Limit>, u64, Duration);

/// Waits for `child`, and ends it when it passes a limit.
fn supervise(child: &mut Child, limits: Limits) -> Result<Ending> {
    let mut memory_max = 0;
    let mut elapsed = Duration::ZERO;
    let mut last = Instant::now();
    loop {
        elapsed += last.elapsed().min(POLL_COUNTED_MAX);
        last = Instant::now();
        if let Some(status) = child.try_wait()? {
            return Ok((status, None, memory_max, elapsed));
        }
        memory_max = memory_max.max(resident_memory_max(child.id()).unwrap_or(0));
        let passed = match () {
            () if elapsed > limits.time && !is_only_starved(child.id(), limits) => {
                Some(Limit::Time)
            }
            () if memory_max > limits.memory => Some(Limit::Memory),
            () => None,
        };
        if passed.is_some() {
            child.kill()?;
            return Ok((child.wait()?, passed, memory_max, elapsed));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Whether a process that took too long only waits for a processor, which others have.
///
/// Then its limit of processor time decides, if it has one.
fn is_only_starved(process: u32, limits: Limits) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        return false;
    };
    // The state follows the name, which is in brackets.
    let is_runnable = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = text
            .rsplit_once(") ")
            .map(|(_, rest)| rest.starts_with('R'));
        state.unwrap_or(false)
    };
    limits.processor.is_some() && tasks.flatten().any(is_runnable)
}

/// The high-water mark of the process's resident memory, in bytes.
///
/// `None` for a moment after the start: until a process runs its own program, its memory is that of
/// its parent.
pub fn resident_memory_max(process: u32) -> Option<u64> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    if process != std::process::id() && program == std::env::current_exe().ok()? {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

type Collector = JoinHandle<std::io::Result<Vec<u8>>>;

/// Reads a pipe to its end on a thread, so that its writer never waits.
///
/// The end comes when the last process that has the pipe closes it: a daemon that keeps its
/// parent's standard output open shows here as a test that hangs, as it would hang a shell's
/// command substitution.
fn collect(mut pipe: impl Read + Send + 'static) -> Collector {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

fn finish(collector: Collector) -> Result<Vec<u8>> {
    match collector.join() {
        Ok(bytes) => Ok(bytes?),
        Err(_) => bail!("the thread that reads the output panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limits: Limits) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, b"input", limits).expect("sh runs")
    }

    #[test]
    fn outcomes_are_told_apart() {
        let outcome = shell("cat; echo problem >&2; exit 3", Limits::default());
        assert_eq!((outcome.code, outcome.text().as_str()), (Some(3), "input"));
        assert!(outcome.stderr.contains("problem") && !outcome.has_crashed());
        assert!(shell("exit 101", Limits::default()).has_crashed());
        assert!(shell("kill -SEGV $$", Limits::default()).has_crashed());
    }

    #[test]
    fn limits_end_a_run() {
        let limits = Limits {
            time: Duration::from_millis(100),
            ..Limits::default()
        };
        assert_eq!(shell("exec sleep 30", limits).limit, Some(Limit::Time));
        let limits = Limits {
            processor: Some(1),
            ..Limits::default()
        };
        let busy = shell("while :; do :; done", limits);
        assert_eq!(busy.limit, Some(Limit::Time), "{}", busy.report());
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        let limits = Limits {
            data: Some(64 << 20),
            ..Limits::default()
        };
        let greedy = shell(
            "read x; exec dd if=/dev/zero of=/dev/null bs=100M count=1",
            limits,
        );
        assert!(greedy.code != Some(0), "{}", greedy.report());
    }
}
