//! Cenote as a user runs it: a daemon of its own, pools made by command, files through the mount.

use super::Options;
use super::machine::{self, Clocks};
use crate::read::product::program;
use crate::read::rivals::output;
use anyhow::{Result, ensure};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The name of the pools that are measured, ours and OpenZFS's.
pub const POOL: &str = "wb";

/// A running daemon that holds one pool.
pub struct Daemon {
    cenote: PathBuf,
    process: Child,
    directory: tempfile::TempDir,
}

impl Daemon {
    /// Starts a daemon with no pool.
    pub fn start() -> Result<Self> {
        let cenote = program("cenote", "cenote")?;
        let directory = tempfile::tempdir()?;
        let process = serve(&cenote, directory.path())?;
        Ok(Self {
            cenote,
            process,
            directory,
        })
    }

    /// Starts a daemon and makes a pool of `layout` on the files of [`devices`].
    pub fn create(options: &Options, layout: &str, properties: &[&str]) -> Result<Self> {
        let mut vdevs = Vec::new();
        if let Some((kind, _)) = layout.split_once(':') {
            vdevs.push(OsString::from(kind));
        }
        let devices = devices(options, layout)?;
        vdevs.extend(devices.into_iter().map(PathBuf::into_os_string));
        Self::create_of(&vdevs, properties)
    }

    /// Starts a daemon and makes a pool of these words of `zpool create`.
    pub fn create_of(vdevs: &[OsString], properties: &[&str]) -> Result<Self> {
        let daemon = Self::start()?;
        let root = daemon.root();
        let mut words: Vec<&OsStr> = ["zpool", "create", "-f", "-o", "ashift=12", "-R"]
            .map(OsStr::new)
            .to_vec();
        words.push(root.as_os_str());
        for property in properties {
            words.extend([OsStr::new("-O"), OsStr::new(property)]);
        }
        words.push(OsStr::new(POOL));
        words.extend(vdevs.iter().map(OsString::as_os_str));
        daemon.run(&words)?;
        ensure!(daemon.path().is_dir(), "the pool is not mounted");
        // What others wrote before is not to be in the way.
        rustix::fs::sync();
        Ok(daemon)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// What pools' mount points are below.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// Where the pool's first file system is mounted.
    pub fn path(&self) -> PathBuf {
        self.root().join(POOL)
    }

    /// Runs `cenote` with these arguments against this daemon.
    pub fn run(&self, arguments: &[&OsStr]) -> Result<String> {
        let assignment = format!("CENOTE_SOCKET={}", self.socket().display());
        let mut words = vec![OsStr::new(&assignment), self.cenote.as_os_str()];
        words.extend_from_slice(arguments);
        output(Path::new("/usr/bin/env"), &words)
    }

    /// Exports the pool, so that others can take it.
    pub fn export(&self) -> Result<()> {
        self.run(&["zpool", "export", POOL].map(OsStr::new))
            .map(drop)
    }

    /// The daemon's process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Where the daemon's files are, and below it its mounts.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Kills the daemon as a crash would, and starts another.
    pub fn crash(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        // Otherwise the next command would find the dead daemon's socket.
        let _ = std::fs::remove_file(self.socket());
        self.process = serve(&self.cenote, self.directory.path())?;
        Ok(())
    }

    /// The clocks of this process, the daemon and the machine.
    pub fn clocks(&self) -> Result<Clocks> {
        Clocks::now(Some(self.process.id()))
    }

    /// The bytes that the pool's data takes now for each byte written, parity aside.
    pub fn stored(&self, file: &Path) -> Result<f64> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(file)?;
        Ok(metadata.blocks() as f64 * 512.0 / metadata.len() as f64)
    }
}

/// Starts a daemon with its files in `directory`, and waits until it listens.
fn serve(cenote: &Path, directory: &Path) -> Result<Child> {
    let socket = directory.join("socket");
    let process = Command::new(cenote)
        .args(["daemon", "run"])
        .env("CENOTE_SOCKET", &socket)
        .env("CENOTE_STATE", directory.join("state"))
        // The machine's own files are not part of a measurement.
        .env("CENOTE_SETTINGS", "")
        .env("CENOTE_ALARMS", "")
        .stdin(Stdio::null())
        .spawn()?;
    let limit = Instant::now() + Duration::from_secs(10);
    while !socket.exists() {
        ensure!(Instant::now() < limit, "the daemon does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(process)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.export();
        let _ = self.run(&["daemon", "stop", "-f"].map(OsStr::new));
        let limit = Instant::now() + Duration::from_secs(10);
        while Instant::now() < limit {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The files that pools of a layout (`single`, `raidz2:6`) lie on, which have all their space.
pub fn devices(options: &Options, layout: &str) -> Result<Vec<PathBuf>> {
    let count = layout.split_once(':').map_or(Ok(1), |(_, n)| n.parse())?;
    let directory = directory(options, layout);
    std::fs::create_dir_all(&directory)?;
    // Half as much again for parity, and something for labels and slop space.
    let each = (options.mebibytes * 3 / 2 + 512) / count + 64;
    let device = |index: usize| {
        let path = directory.join(format!("{POOL}-{index:02}.img"));
        machine::fill(&path, each)?;
        Ok(path)
    };
    (0..count).map(device).collect()
}

/// The directory of a layout's files.
pub fn directory(options: &Options, layout: &str) -> PathBuf {
    options.directory.join(layout.replace(':', "-"))
}
