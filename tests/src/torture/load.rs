//! What all loads have in common.

use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that work on a file system and wait for what they wrote.
pub(super) trait Load {
    /// The name of its file system, too.
    fn name(&self) -> &'static str;

    /// `-o` options of its file system.
    fn properties(&self) -> &'static str {
        ""
    }

    /// Starts the load; it runs until the file system fails.
    fn start(&mut self, root: &Path) -> Result<()>;

    /// Waits for its end, after the daemon was killed.
    fn stop(&mut self) -> Result<()>;

    /// Compares what is there with the ledger, and how much of the ledger that was.
    fn check(&mut self, root: &Path) -> Result<u64>;
}

/// Runs a program that has to succeed; what it prints.
pub(super) fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = errors.lines().chain(said.lines()).take(20).collect();
    let lines = lines.join("\n");
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{lines}",
        output.status
    );
    Ok(said)
}

/// A directory for one load, outside of the pool.
pub(super) fn private(scratch: &Path, name: &str) -> Result<PathBuf> {
    let path = scratch.join(name);
    std::fs::create_dir_all(&path)?;
    Ok(path)
}
