//! Guests: Debian systems that QEMU runs, with their kernel's console in a file.
//!
//! Debian's own tools make the tree of files of a bare system once (that takes minutes, and it is
//! kept). What a guest is for is for the callers: what is added to the tree, and its disks.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a guest may take for one start.
const TIME: Duration = Duration::from_secs(900);

/// Between two looks at the console.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How guests are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// `kvm` or `tcg`.
    pub accelerator: String,
    /// Where trees of files are kept.
    pub directory: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        let home = std::env::var_os("HOME").map_or_else(|| "/tmp".into(), PathBuf::from);
        Self {
            // A machine may have /dev/kvm and run no guest with it.
            accelerator: "tcg".to_owned(),
            directory: home.join(".cache/cenote-guest"),
        }
    }
}

impl Options {
    /// The options of a command that takes nothing else.
    ///
    /// # Errors
    /// The arguments are not those of `cargo xtask COMMAND`.
    pub fn parse(command: &str, mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        while let Some(word) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            match word.as_str() {
                "--accelerator" if ["kvm", "tcg"].contains(&value.as_str()) => {
                    options.accelerator = value;
                }
                "--directory" if !value.is_empty() => options.directory = value.into(),
                _ => {
                    bail!("usage: cargo xtask {command} [--accelerator kvm|tcg] [--directory DIR]")
                }
            }
        }
        Ok(options)
    }
}

/// The files of a bare system with a kernel and these packages, made once under this name.
///
/// # Errors
/// mmdebstrap is not installed, or fails.
pub fn tree(directory: &Path, name: &str, release: &str, packages: &str) -> Result<PathBuf> {
    let tree = directory.join(name);
    if boot_file(&tree, "initrd").is_err() {
        std::fs::create_dir_all(directory)?;
        println!("making the guest's files in {} (minutes)", tree.display());
        let made = Command::new("mmdebstrap")
            .args(["--variant=minbase", "--mode=root", "--format=directory"])
            .arg("--aptopt=Apt::Install-Recommends \"false\"")
            .arg(format!(
                "--include=linux-image-cloud-amd64,initramfs-tools,util-linux,{packages}"
            ))
            .arg(release)
            .arg(&tree)
            .stdin(Stdio::null())
            .status()
            .context("mmdebstrap is not installed")?;
        ensure!(made.success(), "mmdebstrap failed");
    }
    Ok(tree)
}

/// A file of the guest whose name begins so.
///
/// # Errors
/// There is none.
pub fn boot_file(tree: &Path, prefix: &str) -> Result<String> {
    for entry in std::fs::read_dir(tree.join("boot"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(prefix) {
            return Ok(path.display().to_string());
        }
    }
    bail!("the guest has no {prefix}")
}

/// A guest that runs.
#[derive(Debug)]
pub struct Guest {
    process: Child,
    console: PathBuf,
    begun: Instant,
}

impl Guest {
    /// Starts a guest with the kernel of `tree`, these words for the kernel, and these further
    /// arguments for QEMU.
    ///
    /// # Errors
    /// QEMU is not installed.
    pub fn start(
        options: &Options,
        tree: &Path,
        memory: &str,
        words: &str,
        arguments: &[String],
    ) -> Result<Self> {
        let console = tree.with_extension("console");
        std::fs::write(&console, "")?;
        let process = Command::new("qemu-system-x86_64")
            .args(["-nodefaults", "-no-reboot", "-display", "none", "-smp", "1"])
            .args(["-m", memory, "-cpu", "max", "-accel", &options.accelerator])
            .args(["-kernel", &boot_file(tree, "vmlinuz")?])
            .args(["-initrd", &boot_file(tree, "initrd")?])
            .args([
                "-append",
                &format!("console=ttyS0 panic=-1 tsc=unstable {words}"),
            ])
            .args(["-serial", &format!("file:{}", console.display())])
            .args(arguments)
            .stdin(Stdio::null())
            .spawn()
            .context("qemu-system-x86_64 is not installed")?;
        Ok(Self {
            process,
            console,
            begun: Instant::now(),
        })
    }

    /// What it printed so far.
    ///
    /// # Errors
    /// The console cannot be read.
    pub fn said(&self) -> Result<String> {
        let bytes = std::fs::read(&self.console)?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
    }

    /// How long it has run.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits until it ends by itself; what it said.
    ///
    /// # Errors
    /// It takes too long, or fails.
    pub fn end(mut self) -> Result<String> {
        loop {
            if let Some(status) = self.process.try_wait()? {
                let said = self.said()?;
                ensure!(status.success(), "QEMU failed ({status}):\n{}", tail(&said));
                return Ok(said);
            }
            self.watch()?;
        }
    }

    /// Waits until it says something, and takes its power away; what it said until then.
    ///
    /// # Errors
    /// It takes too long, or ends before.
    pub fn cut(mut self, when: impl Fn(&str) -> bool) -> Result<String> {
        loop {
            if when(&self.said()?) {
                self.process.kill()?;
                self.process.wait()?;
                return self.said();
            }
            if self.process.try_wait()?.is_some() {
                bail!("the guest ended too early:\n{}", tail(&self.said()?));
            }
            self.watch()?;
        }
    }

    fn watch(&self) -> Result<()> {
        ensure!(
            self.begun.elapsed() < TIME,
            "the guest takes too long:\n{}",
            tail(&self.said()?)
        );
        thread::sleep(POLL_INTERVAL);
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended; if not, its result is not needed any more.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The last lines, for messages.
pub fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
