//! Cenote itself, as a user runs it: built for release, with a daemon of its own.

use super::machine;
use super::rivals::output;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Builds `package`'s program `name` for release and returns its path; with
/// `CENOTE_BENCH_PROGRAMS` set, the one in that directory is taken as it is.
pub fn program(package: &str, name: &str) -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("CENOTE_BENCH_PROGRAMS") {
        return Ok(PathBuf::from(directory).join(name));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = crate::workspace_root();
    let built = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--quiet",
            "--package",
            package,
            "--bin",
            name,
        ])
        .current_dir(&root)
        .status()?;
    ensure!(built.success(), "{name} does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("release").join(name))
}

/// A running daemon with one pool imported and one dataset mounted.
pub struct Mounted {
    cenote: PathBuf,
    daemon: Child,
    directory: tempfile::TempDir,
}

impl Mounted {
    /// Starts a daemon that may take so much memory, with no pool.
    pub fn start(memory: &str) -> Result<Self> {
        let cenote = program("cenote", "cenote")?;
        let directory = tempfile::tempdir()?;
        std::fs::create_dir(directory.path().join("mount"))?;
        let daemon = Command::new(&cenote)
            .args(["daemon", "run", "--memory", memory])
            .env("CENOTE_SOCKET", directory.path().join("socket"))
            .env("CENOTE_STATE", directory.path().join("state"))
            .stdin(Stdio::null())
            .spawn()?;
        let mounted = Self {
            cenote,
            daemon,
            directory,
        };
        let limit = Instant::now() + Duration::from_secs(10);
        while !mounted.socket().exists() {
            ensure!(Instant::now() < limit, "the daemon does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(mounted)
    }

    /// Starts a daemon with cold caches and mounts `dataset` of the pool on `devices`.
    pub fn new(devices: &Path, dataset: &str, memory: &str) -> Result<Self> {
        machine::drop_caches()?;
        let mounted = Self::start(memory)?;
        let mountpoint = mounted.path();
        let words = [OsStr::new("mount"), OsStr::new("-f"), OsStr::new("-d")];
        let mut all = words.to_vec();
        all.extend([
            devices.as_os_str(),
            OsStr::new(dataset),
            mountpoint.as_os_str(),
        ]);
        mounted.run(&all)?;
        Ok(mounted)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Runs `cenote` with these arguments against this daemon.
    pub fn run(&self, arguments: &[&OsStr]) -> Result<String> {
        let socket = self.socket();
        let mut words = vec![OsStr::new("CENOTE_SOCKET=x"), self.cenote.as_os_str()];
        let assignment = format!("CENOTE_SOCKET={}", socket.display());
        words[0] = OsStr::new(&assignment);
        words.extend_from_slice(arguments);
        output(Path::new("/usr/bin/env"), &words)
    }

    /// A command of `cenote` with these arguments, for this daemon, ready to run.
    pub fn command(&self, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(&self.cenote);
        command.args(arguments).env("CENOTE_SOCKET", self.socket());
        command
    }

    /// The daemon's process.
    pub fn process(&self) -> u32 {
        self.daemon.id()
    }

    /// Where the dataset is mounted.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.run(&["daemon", "stop", "-f"].map(OsStr::new));
        let limit = Instant::now() + Duration::from_secs(10);
        while Instant::now() < limit {
            if matches!(self.daemon.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// The high water mark of a process's resident memory, in bytes.
pub fn peak_of(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words = line.context("no VmHWM in /proc")?;
    let kilobytes = words
        .split_whitespace()
        .next()
        .context("no figure in VmHWM")?;
    Ok(kilobytes.parse::<u64>()? << 10)
}
