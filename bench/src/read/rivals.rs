//! OpenZFS's own tools, and the pools that they make.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool of the referee: from `CENOTE_REFEREE`, or `tests/peer`.
pub fn tool(name: &str) -> Result<PathBuf> {
    let beside = crate::workspace_root().join("tests/peer");
    let directory = std::env::var_os("CENOTE_REFEREE").map_or(beside, PathBuf::from);
    let tool = directory.join(name);
    ensure!(
        tool.exists(),
        "{name} is not in {} (CENOTE_REFEREE)",
        directory.display()
    );
    Ok(tool)
}

/// Runs a program to its end and returns what it printed.
pub fn output(program: &Path, arguments: &[&OsStr]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}", program.display(), error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A pool of 4 GiB of data, made by OpenZFS's engine on files; its directory.
pub fn data_pool(directory: &Path, name: &str, layout: &str, size: &str) -> Result<PathBuf> {
    let pool = directory.join(name);
    let done = pool.join("made");
    if done.exists() {
        return Ok(pool);
    }
    std::fs::create_dir_all(&pool)?;
    println!("  (making pool {name}: {layout}, 4 GiB of data)");
    let arguments = [
        "bench-write",
        "--layout",
        layout,
        "--size",
        size,
        "--bytes",
        "4G",
        "--recordsize",
        "128K",
        "--compression",
        "lz4",
        "--compressible",
        "2.0",
    ];
    let mut all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    all.splice(1..1, [pool.as_os_str(), OsStr::new(name)]);
    output(&tool("openzfs-ref")?, &all)?;
    std::fs::write(done, "")?;
    Ok(pool)
}
