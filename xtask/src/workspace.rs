//! Where the workspace is, and running its tools there.

use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// The directory of the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = package.parent().expect("xtask lies in the workspace");
    root.to_path_buf()
}

/// The `cargo` that runs this program.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// `git` in the workspace.
pub fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(root());
    command
}

/// Runs `command` with its output passed on; whether it succeeded.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    Ok(status.success())
}
