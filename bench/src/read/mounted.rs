//! Other file systems to compare with: the empty FUSE server and btrfs.

use super::machine;
use super::product::program;
use super::rivals::output;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The FUSE server that answers from constants, in a process of its own.
pub struct NullServer {
    process: Child,
    directory: tempfile::TempDir,
}

impl NullServer {
    /// Serves `files` numbered files.
    pub fn new(files: u64) -> Result<Self> {
        let server = program("cenote-fuse", "cenote-fuse-serve")?;
        let directory = tempfile::tempdir()?;
        let mut process = Command::new(server)
            .arg(directory.path())
            .args(["--files", &files.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().context("its output was asked for")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(
            line.trim() == "ready",
            "the null server says '{}'",
            line.trim()
        );
        Ok(Self { process, directory })
    }

    /// The server's process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.directory.path())
            .status();
        let _ = self.process.wait();
    }
}

/// A btrfs on a loop device over a file.
pub struct Btrfs {
    image: PathBuf,
    directory: tempfile::TempDir,
}

impl Btrfs {
    /// Makes one in `image` with the files below `source`, unless it is there.
    pub fn new(image: &Path, source: &Path) -> Result<Self> {
        let done = image.with_extension("made");
        let btrfs = Self {
            image: image.to_owned(),
            directory: tempfile::tempdir()?,
        };
        if !done.exists() {
            println!("  (copying the files to btrfs, once)");
            std::fs::File::create(image)?.set_len(4 << 30)?;
            output(
                Path::new("mkfs.btrfs"),
                &[OsStr::new("-qf"), image.as_os_str()],
            )?;
            btrfs.mount()?;
            let contents = source.join(".");
            let words = [
                OsStr::new("-a"),
                contents.as_os_str(),
                btrfs.path().as_os_str(),
            ];
            output(Path::new("cp"), &words)?;
            btrfs.unmount()?;
            std::fs::write(done, "")?;
        }
        Ok(btrfs)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Mounts it with cold caches.
    pub fn mount(&self) -> Result<()> {
        machine::drop_caches()?;
        let options = ["-t", "btrfs", "-o", "loop"].map(OsStr::new);
        let mut words = options.to_vec();
        words.extend([self.image.as_os_str(), self.path().as_os_str()]);
        output(Path::new("mount"), &words).map(drop)
    }

    /// Unmounts it.
    pub fn unmount(&self) -> Result<()> {
        output(Path::new("umount"), &[self.path().as_os_str()]).map(drop)
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.path())
            .stderr(Stdio::null())
            .status();
    }
}
