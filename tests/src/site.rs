//! A pool of its own to write to: devices on files, a daemon, mounts, and OpenZFS as the judge.
//!
//! A [`Site`] is used as a person would use a machine: `zpool` and `zfs` by their command lines,
//! files by system calls below its root. The daemon is a child, so that it can be killed.
//!
//! OpenZFS judges what a test leaves behind: a test ends with [`Site::finish`], and a site that
//! goes away without it is judged then.

use crate::manifest::Entries;
use crate::mounted;
use crate::program::{Cenote, Outcome};
use crate::referee;
use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a daemon may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How often an export that finds a mount busy is tried again; see [`crate::pool::unmount`].
const BUSY_TRIES: usize = 40;

/// Devices and pool configurations by name, as words of `zpool create`; `N` is the number of a
/// file.
const LAYOUTS: [(&str, &str); 11] = [
    ("single", "0"),
    ("mirror", "mirror 0 1"),
    ("raidz1", "raidz1 0 1 2"),
    ("raidz2", "raidz2 0 1 2 3"),
    ("raidz3", "raidz3 0 1 2 3 4 5"),
    ("draid1", "draid1:2d:4c:0s 0 1 2 3"),
    ("draid2", "draid2:3d:7c:1s 0 1 2 3 4 5 6"),
    ("stripe", "0 mirror 1 2"),
    ("mirrors", "mirror 0 1 2 mirror 3 4"),
    ("tables", "mirror 0 1 dedup 2 special 3 log mirror 4 5"),
    ("classes", "raidz2 0 1 2 3 special mirror 4 5 log 6"),
];

/// What lies before the space of a device, in bytes (format/1a: two labels and the boot block).
const LABELS: u64 = 4 << 20;

/// The bytes of a sector.
pub type Sector = [u8; 512];

/// The names of the layouts that [`Site::create`] knows.
pub fn layouts() -> impl Iterator<Item = &'static str> {
    LAYOUTS.iter().map(|(name, _)| *name)
}

/// A pool on files, and the daemon that works on it.
pub struct Site {
    cenote: Cenote,
    daemon: Mutex<Option<Child>>,
    /// Whether the pool was written to since OpenZFS judged it.
    is_unjudged: AtomicBool,
    /// The first command that did not do what the test wanted: perhaps why the test ended.
    first_failure: OnceLock<String>,
    pool: String,
    devices: PathBuf,
    root: PathBuf,
}

impl Site {
    /// A site without devices, its daemon running.
    pub fn new(pool: &str) -> Result<Self> {
        let cenote = Cenote::new()?;
        let devices = cenote.subdirectory("devices")?;
        let root = cenote.subdirectory("root")?;
        let site = Self {
            cenote,
            daemon: Mutex::new(None),
            is_unjudged: AtomicBool::new(false),
            first_failure: OnceLock::new(),
            pool: pool.into(),
            devices,
            root,
        };
        site.start()?;
        Ok(site)
    }

    /// A site with a new pool `tank` of this layout; each device has `mebibytes`.
    pub fn create(layout: &str, mebibytes: u64, options: &str) -> Result<Self> {
        let site = Self::new("tank")?;
        let known = LAYOUTS.iter().find(|(name, _)| *name == layout);
        let (_, words) = known.with_context(|| format!("no layout {layout}"))?;
        let mut vdevs = Vec::new();
        for word in words.split(' ') {
            let Ok(number) = word.parse::<u32>() else {
                vdevs.push(word.to_string());
                continue;
            };
            let path = site.devices.join(format!("d{number}.img"));
            File::create(&path)?.set_len(mebibytes << 20)?;
            vdevs.push(path.display().to_string());
        }
        let (root, vdevs) = (site.root.display(), vdevs.join(" "));
        site.ok(&format!("zpool create -f -R {root} {options} tank {vdevs}"))?;
        site.is_unjudged.store(true, Ordering::Relaxed);
        Ok(site)
    }

    /// The user of the site.
    pub fn cenote(&self) -> &Cenote {
        &self.cenote
    }

    /// Where the files of the devices are.
    pub fn devices(&self) -> &Path {
        &self.devices
    }

    /// Where `dataset` is mounted.
    pub fn path(&self, dataset: &str) -> PathBuf {
        self.root.join(dataset)
    }

    /// Runs a command line of words without spaces; it has to succeed.
    pub fn ok(&self, line: &str) -> Result<String> {
        self.noted(self.cenote.ok(line))
    }

    /// Remembers the first error: if the judge finds fault, too, neither is to hide the other.
    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            let _ = self.first_failure.set(format!("{error:#}"));
        })
    }

    /// Runs a command line that is to fail; returns how it did.
    pub fn fails(&self, line: &str) -> Result<Outcome> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (program, arguments) = words.split_first().context("a command")?;
        let outcome = self.cenote.run(program, arguments)?;
        let is_refused = outcome.code.is_some_and(|code| code != 0) && !outcome.has_crashed();
        if is_refused {
            return Ok(outcome);
        }
        self.noted(Err(anyhow!("not refused: {}", outcome.report())))
    }

    /// Starts a daemon.
    pub fn start(&self) -> Result<()> {
        self.start_with(&[])
    }

    /// Exchanges the daemon for one that has the dashboard on this port and lets the owner of this
    /// token act.
    pub fn show_dashboard(&self, port: u16, token: &str) -> Result<()> {
        self.export()?;
        self.cenote.ok("cenote daemon stop")?;
        let file = self.cenote.subdirectory("token")?.join("file");
        fs::write(&file, format!("{token}\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        self.start_with(&[
            ("CENOTE_METRICS_LISTEN", format!("127.0.0.1:{port}")),
            ("CENOTE_DASHBOARD_TOKEN_FILE", file.display().to_string()),
        ])?;
        self.import("")
    }

    /// Starts a daemon with these variables in its environment.
    pub fn start_with(&self, variables: &[(&str, String)]) -> Result<()> {
        self.end_resumed()?;
        let mut command = self.cenote.command("cenote", &["daemon", "run"]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.cenote.directory().join("daemon.log"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let daemon = command.spawn()?;
        *self.daemon() = Some(daemon);
        let start = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.cenote.socket()).is_err() {
            ensure!(
                start.elapsed() < START_TIMEOUT,
                "the daemon does not listen"
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends the daemon of a command that ran beside `kill` and came too late for ours: it had the
    /// pool imported again by one of its own, which leaves with its last pool. Another daemon, that
    /// is about to leave or has no such pool, is no concern of ours.
    fn end_resumed(&self) -> Result<()> {
        let answers = || std::os::unix::net::UnixStream::connect(self.cenote.socket()).is_ok();
        if !answers() {
            return Ok(());
        }
        let has_pool = self.cenote.run("zpool", &["list", "-H", &self.pool])?;
        if has_pool.code != Some(0) {
            return Ok(());
        }
        self.export()?;
        let start = Instant::now();
        while answers() {
            ensure!(start.elapsed() < START_TIMEOUT, "the daemon does not leave");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills the daemon as a crash would, and starts another.
    pub fn crash(&self) -> Result<()> {
        self.kill()?;
        self.start()
    }

    /// Kills the daemon, once it has written its note. If it dies earlier, the next daemon reports
    /// that its pools are unknown.
    pub fn kill(&self) -> Result<()> {
        let note = self.cenote().directory().join("socket.note");
        for _ in 0..1000 {
            if note.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut daemon = self.daemon().take().context("a daemon")?;
        daemon.kill()?;
        daemon.wait()?;
        Ok(())
    }

    /// Stops the daemon while `meanwhile` runs.
    pub fn pause<T>(&self, meanwhile: impl FnOnce() -> Result<T>) -> Result<T> {
        let daemon = self.daemon();
        let id = daemon.as_ref().context("a daemon")?.id();
        let process = Pid::from_raw(i32::try_from(id)?).context("a process")?;
        kill_process(process, Signal::STOP)?;
        let result = meanwhile();
        kill_process(process, Signal::CONT)?;
        result
    }

    fn daemon(&self) -> MutexGuard<'_, Option<Child>> {
        // The child exists or not, even if another holder panicked.
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exports the pool.
    pub fn export(&self) -> Result<()> {
        for _ in 0..BUSY_TRIES {
            let outcome = self.cenote.run("zpool", &["export", &self.pool])?;
            if outcome.code == Some(0) || !outcome.stderr.contains("busy") {
                return self.noted(outcome.success().map(|_| ()));
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.noted(Err(anyhow!("{} stays busy", self.pool)))
    }

    /// Imports the pool with these options, and mounts its file systems.
    pub fn import(&self, options: &str) -> Result<()> {
        let (root, devices) = (self.root.display(), self.devices.display());
        let pool = &self.pool;
        if !options.contains("readonly=on") {
            self.is_unjudged.store(true, Ordering::Relaxed);
        }
        self.ok(&format!(
            "zpool import -R {root} -d {devices} {options} {pool}"
        ))?;
        Ok(())
    }

    /// What is in `dataset`, as a program sees it; the atimes of directories apart.
    pub fn walk(&self, dataset: &str) -> Result<Entries> {
        mounted::walk(&self.path(dataset)).with_context(|| dataset.to_string())
    }

    /// Exports and imports the pool; everything in `datasets` must be as it was.
    pub fn reopen(&self, datasets: &[&str]) -> Result<()> {
        let walk = || -> Result<Vec<Entries>> {
            datasets.iter().map(|dataset| self.walk(dataset)).collect()
        };
        let before = walk()?;
        self.export()?;
        self.import("")?;
        let after = walk()?;
        for (dataset, (before, after)) in datasets.iter().zip(before.iter().zip(&after)) {
            same(before, after).with_context(|| format!("{dataset} after an import"))?;
        }
        Ok(())
    }

    /// Exports the pool, and has OpenZFS judge it.
    pub fn finish(self) -> Result<()> {
        self.export()?;
        self.judge()
    }

    /// Puts sectors at these places of the only device, as block pointers count them, while the
    /// pool is exported; returns what was there.
    pub fn exchange(&self, sectors: &[(u64, Sector)]) -> Result<Vec<(u64, Sector)>> {
        let device = fs::read_dir(self.devices())?.next().context("a device")??;
        let device = File::options().read(true).write(true).open(device.path())?;
        let mut before = Vec::new();
        for (place, sector) in sectors {
            let mut old = [0; 512];
            device.read_exact_at(&mut old, LABELS + place)?;
            device.write_all_at(sector, LABELS + place)?;
            before.push((*place, old));
        }
        Ok(before)
    }

    /// The pool is damaged on purpose: OpenZFS does not check it.
    pub fn abandon(self) {
        self.is_unjudged.store(false, Ordering::Relaxed);
    }

    /// For a test that did not have the pool judged, whether it failed or has nothing to say.
    fn judge_at_last(&self) -> Result<()> {
        if self.cenote.run("zpool", &["list", &self.pool])?.code == Some(0)
            && let Err(error) = self.export()
        {
            // A test that failed may leave files open; its own error is what counts.
            eprintln!("not judged: {error:#}");
            return Ok(());
        }
        self.judge()
    }

    /// Calls the caller's check instead, which panics if it finds an error.
    pub fn judged_by(&self, judge: impl FnOnce(&Path)) {
        self.is_unjudged.store(false, Ordering::Relaxed);
        judge(&self.devices);
    }

    /// OpenZFS checks the pool, which must be exported.
    pub fn judge(&self) -> Result<()> {
        self.is_unjudged.store(false, Ordering::Relaxed);
        let devices = self.devices.display().to_string();
        match referee::run(&["check", &devices, &self.pool])? {
            Some(outcome) => outcome.map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let is_judge_wanted = !thread::panicking() && self.is_unjudged.load(Ordering::Relaxed);
        let judged = is_judge_wanted.then(|| self.judge_at_last());
        let log = fs::read_to_string(self.cenote.directory().join("daemon.log"));
        if let Some(log) = log.ok().filter(|log| !log.is_empty()) {
            eprintln!("the daemon said: {log}");
        }
        let stop = self.cenote.run("cenote", &["daemon", "stop", "--force"]);
        if let Err(error) = stop.and_then(Outcome::success) {
            eprintln!("cannot stop the daemon: {error:#}");
        }
        let daemon = self.daemon().take();
        if let Some(mut daemon) = daemon {
            // Even if it ended by itself, no process may be left.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // Dead mounts must be unmounted; mostly there are none.
        let root = self.root.display().to_string();
        let _ = self.cenote.run("cenote", &["unmount", &root]);
        if let Some(Err(error)) = judged {
            // This panic hides a test's own error, unless a command was the cause. Messages of the
            // test's own
            // `ensure!` are not available here.
            let before = self.first_failure.get();
            let before = before.map_or("no command failed before", String::as_str);
            panic!("what the test left is not sound: {error:#}\nthe first failure: {before}");
        }
    }
}

/// The differences of two walks, as an error.
pub fn same(before: &Entries, after: &Entries) -> Result<()> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let mut differences = Vec::new();
    for name in names {
        if before.get(name) != after.get(name) {
            let (before, after) = (before.get(name), after.get(name));
            differences.push(format!("{name}: {before:?} became {after:?}"));
        }
    }
    let count = differences.len();
    differences.truncate(10);
    ensure!(
        count == 0,
        "{count} differences:\n{}",
        differences.join("\n")
    );
    Ok(())
}
