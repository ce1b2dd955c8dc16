//! OpenZFS's own tools, and the pools that they make.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script that makes the pool of files, inside a guest with the OpenZFS kernel module. It
/// expects compressible data in `/mnt/share/data.bin` and an empty disk `/dev/vdb`.
pub const FILES_SCRIPT: &str = include_str!("files-pool.sh");

/// Bytes of the data file that the script copies.
const DATA_BYTES: &str = "768M";

/// A tool of the referee: from `CENOTE_REFEREE`, or beside the repository.
pub fn tool(name: &str) -> Result<PathBuf> {
    let beside = crate::workspace_root().join("../shared/peer");
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

/// The image of the pool of files; made in a guest, which takes about half an hour.
pub fn files_image(directory: &Path, given: Option<&Path>) -> Result<PathBuf> {
    if let Some(image) = given {
        ensure!(image.exists(), "{} does not exist", image.display());
        return Ok(image.to_owned());
    }
    let image = directory.join("files.raw");
    let done = directory.join("files.made");
    if done.exists() {
        return Ok(image);
    }
    println!("  (making the pool of files in a guest: about half an hour, once)");
    let share = directory.join("share");
    std::fs::create_dir_all(&share)?;
    let data = share.join("data.bin");
    let arguments = ["bench-data", "--bytes", DATA_BYTES, "--compressible", "2.0"];
    let mut all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    all.insert(1, data.as_os_str());
    output(&tool("openzfs-ref")?, &all)?;
    let script = share.join("make.sh");
    std::fs::write(&script, FILES_SCRIPT)?;
    std::fs::File::create(&image)?.set_len(8 << 30)?;
    let words = [
        "run",
        "--udev",
        "--mem",
        "3G",
        "--cpus",
        "1",
        "--timeout",
        "5400",
        "--disk",
    ];
    let mut all: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    all.extend([image.as_os_str(), OsStr::new("--share"), share.as_os_str()]);
    all.extend([OsStr::new("--script"), script.as_os_str()]);
    output(&tool("openzfs-vm")?, &all)?;
    std::fs::write(done, "")?;
    Ok(image)
}
