//! OpenZFS's engine and the kernel's file systems, on the same disk.

use super::machine::{self, Clocks};
use super::product::{self, POOL};
use super::report::Figures;
use super::{Options, workload};
use crate::read::rivals::{output, tool};
use anyhow::{Context, Result};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The bytes that all write: what `openzfs-ref bench-write` makes itself.
pub fn data(options: &Options) -> Result<Vec<u8>> {
    let path = options.directory.join("data.bin");
    let size = (options.mebibytes << 20) as u64;
    if std::fs::metadata(&path).map_or(0, |metadata| metadata.len()) != size {
        let bytes = size.to_string();
        let words = ["--bytes", &bytes, "--compressible", "2.0"].map(OsStr::new);
        let mut all = vec![OsStr::new("bench-data"), path.as_os_str()];
        all.extend(words);
        output(&tool("openzfs-ref")?, &all)?;
    }
    Ok(std::fs::read(path)?)
}

fn number(value: &Value, key: &str) -> Result<f64> {
    let number = value.get(key).and_then(Value::as_f64);
    number.with_context(|| format!("no {key} in what openzfs-ref says"))
}

/// Runs a bench of `openzfs-ref`; returns what it says.
pub fn openzfs(arguments: &[&OsStr]) -> Result<Value> {
    let mut words = arguments.to_vec();
    words.push(OsStr::new("--json"));
    let answer = output(&tool("openzfs-ref")?, &words)?;
    Ok(serde_json::from_str(&answer)?)
}

/// Figures from what a bench of `openzfs-ref` says of `bytes` of data.
pub fn openzfs_figures(answer: &Value, bytes: f64) -> Result<Figures> {
    let cpu = number(answer, "cpu_user")? + number(answer, "cpu_system")?;
    Ok(Figures {
        rate: bytes / 1e6 / number(answer, "seconds")?,
        cpu: Some(cpu / bytes * (1_u64 << 30) as f64),
        cpu_all: None,
        stored: answer.get("compressed_to").and_then(Value::as_f64),
    })
}

/// Writes the data with OpenZFS's engine, to the end of the sync.
pub fn openzfs_write(
    options: &Options,
    layout: &str,
    compression: &str,
    compressible: &str,
) -> Result<Figures> {
    product::devices(options, layout)?;
    let directory = product::directory(options, layout);
    let bytes = (options.mebibytes << 20).to_string();
    let mut words = vec![
        OsStr::new("bench-write"),
        directory.as_os_str(),
        OsStr::new(POOL),
    ];
    let fixed = [
        "--reuse",
        "--layout",
        layout,
        "--bytes",
        &bytes,
        "--compression",
        compression,
    ];
    words.extend(fixed.map(OsStr::new));
    if !compressible.is_empty() {
        words.extend(["--compressible", compressible].map(OsStr::new));
    }
    rustix::fs::sync();
    let answer = openzfs(&words)?;
    openzfs_figures(&answer, (options.mebibytes << 20) as f64)
}

/// A file system of the kernel on a loop device over a file.
pub struct Kernel {
    directory: tempfile::TempDir,
}

impl Kernel {
    /// Makes and mounts a file system of `kind` with these mount options.
    pub fn new(options: &Options, kind: &str, mount: &str) -> Result<Self> {
        let image = options.directory.join("kernel.img");
        machine::fill(&image, options.mebibytes * 3 / 2 + 1536)?;
        Self::on(&image, kind, mount)
    }

    /// The same on this file, which has all its space and keeps it.
    pub fn on(image: &Path, kind: &str, mount: &str) -> Result<Self> {
        let quiet: &[&str] = match kind {
            "btrfs" => &["-qf"],
            "ext4" => &[
                "-Fq",
                "-E",
                "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
            ],
            _ => &["-fq"],
        };
        let mut words: Vec<&OsStr> = quiet.iter().map(OsStr::new).collect();
        words.push(image.as_os_str());
        output(&PathBuf::from(format!("mkfs.{kind}")), &words)?;
        let kernel = Self {
            directory: tempfile::tempdir()?,
        };
        let mount = match mount {
            "" => "loop".to_owned(),
            options => format!("loop,{options}"),
        };
        let mut words = ["-t", kind, "-o", &mount].map(OsStr::new).to_vec();
        words.extend([image.as_os_str(), kernel.path().as_os_str()]);
        output(Path::new("mount"), &words)?;
        Ok(kernel)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg(self.path())
            .stderr(Stdio::null())
            .status();
    }
}

/// Writes the data with a file system of the kernel; processor time is that of the machine.
pub fn kernel_write(options: &Options, kind: &str, mount: &str, data: &[u8]) -> Result<Figures> {
    let kernel = Kernel::new(options, kind, mount)?;
    rustix::fs::sync();
    let before = Clocks::now(None)?;
    let rate = workload::write(&kernel.path().join("data"), data)?;
    let spent = Clocks::now(None)?.since(&before);
    Ok(spent.per_gib(rate, data.len()))
}
