//! What all packages have in common.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// What is packaged.
#[derive(Debug)]
pub struct Release {
    /// The version in Cargo.toml, perhaps with something behind it.
    pub version: String,
    /// Debian's name of the processor.
    pub architecture: String,
    /// Where everything is made.
    pub directory: PathBuf,
}

/// The two packages.
pub const PACKAGES: [&str; 2] = ["cenote", "cenote-zfs"];

/// The maintainer of the packages.
pub const MAINTAINER: &str = "Cenote <cenote@localhost>";

/// Runs a program; its output in an error.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}; install it"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{name} failed ({}): {}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    Ok(text(&output.stdout))
}

/// The version of the workspace.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
