//! What the suites do with an imported pool: import it with its keys, list it, read its volumes.

use crate::golden::Golden;
use crate::manifest::Key;
use crate::mounted;
use crate::program::Cenote;
use crate::skip;
use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often a busy mount is tried again.
const BUSY_TRIES: usize = 40;

/// How to import a pool.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Options for `zpool import`, besides those that every test gives.
    pub options: Vec<String>,
    /// Without loading keys.
    pub is_locked: bool,
}

impl Import {
    /// What the kind of pool needs: those that went down with the power were never exported, and
    /// the log of some is to be replayed.
    pub fn of(golden: &Golden) -> Self {
        let mut import = Self::default();
        if golden.kind.starts_with("dirty") {
            import.options.push("-f".into());
        }
        if golden.kind.starts_with("dirty-zil") {
            import
                .options
                .extend(["-o".into(), "cenote:replay=memory".into()]);
        }
        import
    }

    /// The same with more options.
    pub fn with(mut self, options: &[&str]) -> Self {
        self.options
            .extend(options.iter().map(|option| option.to_string()));
        self
    }
}

/// Imports the pool from `devices` read-only, nothing mounted, and loads its keys.
pub fn import(cenote: &Cenote, golden: &Golden, devices: &Path, import: &Import) -> Result<()> {
    let devices = devices.to_str().context("a path in UTF-8")?;
    let mut arguments = vec!["import", "-N", "-o", "readonly=on", "-d", devices];
    arguments.extend(import.options.iter().map(String::as_str));
    arguments.push(&golden.manifest.pool);
    cenote.run("zpool", &arguments)?.success()?;
    if import.is_locked {
        return Ok(());
    }
    for (dataset, key) in &golden.manifest.keys {
        let input = key_input(key);
        let arguments = ["load-key", "-L", "prompt", dataset];
        cenote
            .run_with_input("zfs", &arguments, &input)?
            .success()?;
    }
    Ok(())
}

/// What a user gives for a key on standard input.
pub fn key_input(key: &Key) -> Vec<u8> {
    match key {
        Key::Passphrase(text) | Key::Hex(text) => format!("{text}\n").into_bytes(),
        Key::Raw(bytes) => bytes.clone(),
    }
}

/// Guid and creation txg of everything in the pool, as `zfs list` says.
pub fn guids(cenote: &Cenote, pool: &str) -> Result<BTreeMap<String, (String, u64)>> {
    let types = "filesystem,volume,snapshot,bookmark";
    let columns = "name,guid,createtxg";
    let list = cenote.ok(&format!("zfs list -Hp -r -t {types} -o {columns} {pool}"))?;
    let mut guids = BTreeMap::new();
    for line in list.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        ensure!(fields.len() == 3, "zfs list printed {line:?}");
        let createtxg = fields[2].parse().with_context(|| line.to_string())?;
        guids.insert(fields[0].to_string(), (fields[1].to_string(), createtxg));
    }
    Ok(guids)
}

/// Mounts `dataset` on a directory of the user's, and returns where.
pub fn mount(cenote: &Cenote, dataset: &str) -> Result<PathBuf> {
    let directory = cenote.subdirectory("mount")?;
    let at = directory.to_str().context("a path in UTF-8")?;
    cenote.run("cenote", &["mount", dataset, at])?.success()?;
    Ok(directory)
}

/// Unmounts what is mounted on `directory`.
///
/// Tests run side by side in one process. While another one starts a command, its child has a copy
/// of every open file for a moment, ours too: that is when the mount is busy without our doing.
pub fn unmount(cenote: &Cenote, directory: &Path) -> Result<()> {
    let at = directory.to_str().context("a path in UTF-8")?;
    for _ in 0..BUSY_TRIES {
        let outcome = cenote.run("cenote", &["unmount", at])?;
        if outcome.code == Some(0) || !outcome.stderr.contains("busy") {
            outcome.success()?;
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("{at} stays busy")
}

/// Size and sha256 of a volume or a snapshot of one, as `cenote dump` writes it with `options`.
pub fn volume(cenote: &Cenote, name: &str, options: &[String]) -> Result<(u64, String)> {
    let mut command: Vec<&str> = vec!["dump", "--quiet"];
    command.extend(options.iter().map(String::as_str));
    command.extend([name, "-"]);
    let outcome = cenote.run("cenote", &command)?.success()?;
    let sum = mounted::hex(&Sha256::digest(&outcome.stdout));
    Ok((outcome.stdout.len() as u64, sum))
}

/// Whether the user is root; prints a notice if not.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip!("only root may do this");
    }
    is_root
}

/// Whether this machine allows mounts; prints a notice if not.
pub fn can_mount() -> bool {
    let device = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if let Err(error) = &device {
        skip!("/dev/fuse cannot be opened: {error}");
    }
    device.is_ok()
}
