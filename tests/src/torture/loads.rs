//! The loads that there are.

use super::fio::Fio;
use super::load::Load;
use super::mail::Mail;
use super::postgresql::Postgresql;
use super::sqlite::Sqlite;
use super::untar::Untar;
use crate::postgresql;
use crate::random::Random;
use crate::skip;
use anyhow::{Result, ensure};
use std::path::Path;

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
