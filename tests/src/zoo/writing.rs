//! Mutants that are opened for writing: files are changed and removed in them, and datasets made
//! and destroyed.
//!
//! A pool may refuse all of that, and suspend itself because of damage that it finds while writing.
//! Its daemon must not crash, hang or exceed its memory limit, and neither must its users'
//! commands.

use super::{Subject, Summary};
use crate::mutate::Devices;
use crate::program::{Cenote, Limits, Outcome, resident_memory_max, run};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The daemon's memory limit for caches and buffers.
const BUDGET: &str = "128M";

/// Resident memory that it may take, its own code and threads included.
const DAEMON_MEMORY_MAX: u64 = 512 << 20;

/// Processor time of a mutant's daemon, in seconds.
const DAEMON_PROCESSOR_TIME: u64 = 60;

/// How long the daemon may take to start listening, or to end after a stop command.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// What a user does to files: in some of those that are there all kinds of changes, then new ones
/// in each place. What fails is the pool's own affair.
const CHANGES: &str = r#"
files() { find . -name .zfs -prune -o -type f -print0 | head -z -n 30; }
files | xargs -0 -r -n 1 sh -c '
    head -c 150000 /dev/urandom >> "$0"; truncate -s 90000 "$0"
    fallocate -p -o 4096 -l 40000 "$0"; printf changed | dd of="$0" bs=1 seek=5000 conv=notrunc
    setfattr -n user.zoo -v value "$0"; ln "$0" "$0.link"; mv "$0" "$0.moved"; cp "$0.moved" "$0"
'
find . -name .zfs -prune -o -type d -print0 | head -z -n 20 | xargs -0 -r -n 1 sh -c '
    mkdir "$0/new" && echo small > "$0/new/small" && ln -s target "$0/new/link"
    chown 1234:1234 "$0"
'
sync -f .
"#;

/// And everything is removed.
const REMOVAL: &str = "rm -rf ./* ; sync -f .";

impl Subject<'_> {
    /// Opens the mutant for writing and changes it; says which promise was broken, if one was.
    pub(super) fn write(
        &self,
        devices: &Devices,
        number: u64,
        summary: &mut Summary,
    ) -> Result<Option<String>> {
        let mut keeper = Keeper::new(self, devices)?;
        let broken = keeper.visit(summary)?;
        summary
            .suspended
            .extend(keeper.suspension()?.map(|cause| (number, cause)));
        let ended = keeper.end()?;
        summary.memory_max = summary.memory_max.max(keeper.memory_max);
        Ok(broken.or(ended))
    }
}

/// A daemon with a mutant.
struct Keeper<'a> {
    subject: &'a Subject<'a>,
    cenote: Cenote,
    devices: PathBuf,
    root: PathBuf,
    daemon: Child,
    memory_max: u64,
}

impl<'a> Keeper<'a> {
    fn new(subject: &'a Subject<'a>, devices: &Devices) -> Result<Self> {
        let cenote = Cenote::new()?;
        let (place, root) = (
            cenote.subdirectory("devices")?,
            cenote.subdirectory("root")?,
        );
        devices.keep(&place)?;
        let words = ["daemon", "run", "--memory", BUDGET];
        let mut command = cenote.command("cenote", &words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log_of(&cenote))?);
        let daemon = command.spawn()?;
        let limits = Limits {
            processor: Some(DAEMON_PROCESSOR_TIME),
            ..Limits::default()
        };
        limits.impose(&daemon)?;
        let start = Instant::now();
        while UnixStream::connect(cenote.socket()).is_err() {
            anyhow::ensure!(
                start.elapsed() < START_TIMEOUT,
                "the daemon does not listen"
            );
            thread::sleep(Duration::from_millis(2));
        }
        Ok(Self {
            subject,
            cenote,
            devices: place,
            root,
            daemon,
            memory_max: 0,
        })
    }

    /// What a user does with the pool, as long as it lets her.
    fn visit(&mut self, summary: &mut Summary) -> Result<Option<String>> {
        let pool = self.subject.golden.manifest.pool.clone();
        let (devices, root) = (self.devices.clone(), self.root.clone());
        let (devices, root) = (text(&devices)?, text(&root)?);
        let import = ["import", "-f", "-R", root, "-d", devices, &pool];
        if let Some(end) = self.step("zpool", &import, summary)? {
            return Ok(end.broken);
        }
        let options = self.subject.quick_options.windows(2);
        for option in options.filter(|option| option[0] == "--key") {
            let (dataset, place) = option[1].split_once('=').context("a dataset and its key")?;
            self.ask("zfs", &["load-key", "-L", place, dataset], summary)?;
        }
        self.ask("zfs", &["mount", "-a"], summary)?;
        let name = format!("{pool}/made");
        let lines: [&[&str]; 6] = [
            &["zfs", "create", "-o", "compression=zstd", &name],
            &["sh", CHANGES],
            &["zpool", "sync", &pool],
            &["zfs", "set", "compression=gzip-1", &pool],
            &["sh", REMOVAL],
            &["zpool", "sync", &pool],
        ];
        for line in lines {
            if let Some(broken) = self.ask(line[0], &line[1..], summary)? {
                return Ok(Some(broken));
            }
        }
        if let Some(broken) = self.destroy_all(&pool, summary)? {
            return Ok(Some(broken));
        }
        for line in [&["export", pool.as_str()][..], &["export", "-f", &pool]] {
            match self.step("zpool", line, summary)? {
                None => break,
                Some(Refusal { broken: None }) => {}
                Some(Refusal { broken }) => return Ok(broken),
            }
        }
        Ok(None)
    }

    fn destroy_all(&mut self, pool: &str, summary: &mut Summary) -> Result<Option<String>> {
        let list = [
            "list", "-H", "-d", "1", "-o", "name", "-t", "all", "-r", pool,
        ];
        let outcome = self.command("zfs", &list)?;
        let names = outcome.text();
        let names: Vec<&str> = names.lines().filter(|name| *name != pool).collect();
        for name in names {
            if let Some(broken) = self.ask("zfs", &["destroy", "-R", name], summary)? {
                return Ok(Some(broken));
            }
        }
        self.ask("zpool", &["sync", pool], summary)
    }

    /// Runs a command that may be refused; says which promise it broke.
    fn ask(
        &mut self,
        program: &str,
        words: &[&str],
        summary: &mut Summary,
    ) -> Result<Option<String>> {
        let refusal = self.step(program, words, summary)?;
        Ok(refusal.and_then(|refusal| refusal.broken))
    }

    /// Runs a command; `None` if it succeeded.
    fn step(
        &mut self,
        program: &str,
        words: &[&str],
        summary: &mut Summary,
    ) -> Result<Option<Refusal>> {
        let outcome = self.command(program, words)?;
        summary.elapsed_max = summary.elapsed_max.max(outcome.elapsed);
        let is_ours = program != "sh";
        let broken = match () {
            () if outcome.limit.is_some() || (is_ours && outcome.has_crashed()) => {
                Some(outcome.report())
            }
            () => self
                .broken_promise()
                .map(|problem| format!("{}\n{problem}", outcome.report())),
        };
        if is_ours && outcome.code == Some(0) {
            summary.clean += 1;
        } else if is_ours {
            summary.refused += 1;
        }
        if broken.is_none() && outcome.code == Some(0) {
            return Ok(None);
        }
        Ok(Some(Refusal { broken }))
    }

    fn command(&self, program: &str, words: &[&str]) -> Result<Outcome> {
        let limits = Limits {
            time: self.subject.time,
            ..Limits::default()
        };
        let command = match program {
            "sh" => {
                let mut shell = Command::new("sh");
                shell.arg("-c").args(words).current_dir(&self.root);
                shell
            }
            _ => self.cenote.command(program, words),
        };
        run(command, b"", limits)
    }

    /// What the daemon did that it must not, if anything.
    fn broken_promise(&mut self) -> Option<String> {
        let memory = resident_memory_max(self.daemon.id()).unwrap_or(0);
        self.memory_max = self.memory_max.max(memory);
        let log = fs::read_to_string(log_of(&self.cenote)).unwrap_or_default();
        let ended = self.daemon.try_wait().ok().flatten();
        match ended {
            Some(status) => Some(format!("the daemon is gone: {status}\n{log}")),
            None if log.contains("panicked") => Some(format!("the daemon:\n{log}")),
            None if memory > DAEMON_MEMORY_MAX => {
                Some(format!("the daemon takes {} MiB", memory >> 20))
            }
            None => None,
        }
    }

    /// Why the pool suspended itself, if it did.
    fn suspension(&self) -> Result<Option<String>> {
        let log = fs::read_to_string(log_of(&self.cenote))?;
        let told = log
            .lines()
            .find_map(|line| line.split_once("' is suspended: "));
        Ok(told.map(|(_, cause)| cause.to_owned()))
    }

    /// Ends the daemon, which has to do that by itself.
    fn end(&mut self) -> Result<Option<String>> {
        let stop = self.command("cenote", &["daemon", "stop", "--force"])?;
        let start = Instant::now();
        while self.daemon.try_wait()?.is_none() {
            if start.elapsed() > START_TIMEOUT {
                self.daemon.kill()?;
                self.daemon.wait()?;
                return Ok(Some(format!("the daemon does not end\n{}", stop.report())));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let log = fs::read_to_string(log_of(&self.cenote))?;
        Ok(log.contains("panicked").then_some(log))
    }
}

/// A command that was refused.
struct Refusal {
    /// The promise that was broken with it.
    broken: Option<String>,
}

fn log_of(cenote: &Cenote) -> PathBuf {
    cenote.directory().join("daemon.log")
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}
