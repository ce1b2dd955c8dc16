//! What all loads have in common, and which there are.

use super::fio::Fio;
use super::mail::Mail;
use super::postgresql::Postgresql;
use super::sqlite::Sqlite;
use super::untar::Untar;
use crate::postgresql;
use crate::random::Random;
use crate::skip;
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

    /// Starts to work; it goes on until the file system fails.
    fn start(&mut self, root: &Path) -> Result<()>;

    /// Waits for its end, after the daemon was killed.
    fn stop(&mut self) -> Result<()>;

    /// Compares what is there with the ledger, and how much of the ledger that was.
    fn check(&mut self, root: &Path) -> Result<u64>;
}

const NAMES: [&str; 7] = [
    "mail",
    "untar",
    "fio",
    "sqlite-wal",
    "sqlite-delete",
    "sqlite-persist",
    "postgresql",
];

/// Refuses names of loads that there are not.
pub(super) fn check_names(names: &[String]) -> Result<()> {
    for name in names {
        ensure!(
            NAMES.contains(&name.as_str()),
            "there is no load '{name}'; there are: {}",
            NAMES.join(", ")
        );
    }
    Ok(())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).exists())
}

/// These loads, or all that can run here; `scratch` is outside of the pool.
pub(super) fn loads(
    names: &[String],
    random: &mut Random,
    scratch: &Path,
) -> Result<Vec<Box<dyn Load>>> {
    let mut loads: Vec<Box<dyn Load>> = Vec::new();
    for name in NAMES {
        let seed = random.next_u64();
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let program = match name {
            "fio" => "fio",
            "untar" => "tar",
            "mail" => "true",
            "postgresql" => "setpriv",
            _ => "sqlite3",
        };
        if !is_installed(program) {
            skip!("{program} is not here for the load {name}");
            continue;
        }
        match name {
            "mail" => loads.push(Box::new(Mail::new(seed))),
            "untar" => loads.push(Box::new(Untar::new(scratch, seed)?)),
            "fio" => loads.push(Box::new(Fio::new(scratch, seed)?)),
            "sqlite-wal" => loads.push(Box::new(Sqlite::new(name, "wal", "full"))),
            // Only this one syncs the directory after the journal was removed from it.
            "sqlite-delete" => loads.push(Box::new(Sqlite::new(name, "delete", "extra"))),
            "sqlite-persist" => loads.push(Box::new(Sqlite::new(name, "persist", "full"))),
            _ => match postgresql::programs() {
                Some(programs) => loads.push(Box::new(Postgresql::new(programs))),
                None => skip!("PostgreSQL is not installed, or this is not root"),
            },
        }
    }
    Ok(loads)
}

/// Runs a program that has to succeed.
pub(super) fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A directory for one load, outside of the pool.
pub(super) fn private(scratch: &Path, name: &str) -> Result<PathBuf> {
    let path = scratch.join(name);
    std::fs::create_dir_all(&path)?;
    Ok(path)
}
