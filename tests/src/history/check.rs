//! What can be compared: the list of everything, contents, and sums.

use super::model::{Files, Model, Set};
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The columns of a listing.
const COLUMNS: [&str; 12] = [
    "name",
    "origin",
    "used",
    "referenced",
    "usedbysnapshots",
    "usedbydataset",
    "usedbychildren",
    "usedbyrefreservation",
    "userrefs",
    "defer_destroy",
    "quota",
    "written",
];

/// One line of a listing, by column.
pub type Row = BTreeMap<&'static str, String>;

/// Everything in the pool, by name.
pub fn list(site: &Site, pool: &str) -> Result<BTreeMap<String, Row>> {
    let columns = COLUMNS.join(",");
    let text = site.ok(&format!("zfs list -Hp -t all -r -o {columns} {pool}"))?;
    let row = |line: &str| -> Row {
        let cells = line.split('\t').map(str::to_owned);
        COLUMNS.into_iter().zip(cells).collect()
    };
    let rows = text.lines().map(row);
    Ok(rows.map(|row| (row["name"].clone(), row)).collect())
}

/// A number of a row; what does not apply to it counts 0.
pub fn number(row: &Row, column: &str) -> u64 {
    row.get(column)
        .and_then(|cell| cell.parse().ok())
        .unwrap_or(0)
}

/// The names that a listing must have.
fn names(model: &Model) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, set) in &model.sets {
        names.insert(name.clone());
        names.extend(set.snaps.iter().map(|snap| format!("{name}@{}", snap.name)));
        names.extend(set.marks.keys().map(|mark| format!("{name}#{mark}")));
    }
    names
}

/// Compares a listing with the model: names, origins, holds, what waits to be destroyed, quotas.
pub fn listing(model: &Model, rows: &BTreeMap<String, Row>) -> Result<()> {
    let (have, want) = (rows.keys().cloned().collect(), names(model));
    let missing: Vec<_> = want.difference(&have).collect();
    let extra: Vec<_> = have.difference(&want).collect();
    ensure!(
        missing.is_empty() && extra.is_empty(),
        "not listed: {missing:?}; listed although not there: {extra:?}"
    );
    for (name, set) in &model.sets {
        let row = &rows[name];
        let origin = match set.origin {
            None => "-".to_owned(),
            Some(id) => {
                let (of, snap) = model.find(id).context("an origin")?;
                format!("{of}@{}", snap.name)
            }
        };
        ensure!(
            row["origin"] == origin,
            "origin of {name}: {}, not {origin}",
            row["origin"]
        );
        let quota = set.quota << 20;
        ensure!(
            number(row, "quota") == quota,
            "quota of {name}: {}",
            row["quota"]
        );
        for snap in &set.snaps {
            let full = format!("{name}@{}", snap.name);
            let row = &rows[&full];
            let holds = number(row, "userrefs");
            ensure!(holds == snap.tags.len() as u64, "{full} has {holds} holds");
            let waits = row["defer_destroy"] == "on";
            ensure!(waits == snap.is_deferred, "{full}: defer_destroy {waits}");
        }
    }
    Ok(())
}

/// What a pool that is at rest must say of space, whatever its blocks take.
pub fn sums(model: &Model, rows: &BTreeMap<String, Row>) -> Result<()> {
    for (name, set) in &model.sets {
        let row = &rows[name];
        let parts = ["dataset", "snapshots", "children", "refreservation"];
        let parts = parts.map(|part| number(row, &format!("usedby{part}")));
        let (used, sum) = (number(row, "used"), parts.iter().sum::<u64>());
        // The root has the pool's own blocks below it, which no dataset is listed for.
        ensure!(used == sum, "{name}: {used} used, and its parts are {sum}");
        let is_child = |child: &&String| {
            let own = child.strip_prefix(name.as_str());
            let own = own.and_then(|rest| rest.strip_prefix('/'));
            own.is_some_and(|own| !own.contains('/'))
        };
        let children = model.sets.keys().filter(is_child);
        let below: u64 = children.map(|child| number(&rows[child], "used")).sum();
        let told = number(row, "usedbychildren");
        let is_root = !name.contains('/');
        ensure!(
            told == below || (is_root && told > below),
            "{name}: {told} used by children, which say {below}"
        );
        let referenced = number(row, "referenced");
        ensure!(
            set.origin.is_some() || number(row, "usedbydataset") <= referenced,
            "{name}: more used than referred to"
        );
        if let Some(newest) = set.snaps.last() {
            let snap = number(&rows[&format!("{name}@{}", newest.name)], "referenced");
            let written = number(row, "written");
            ensure!(
                written <= referenced && referenced <= snap + written,
                "{name}: {written} written since {snap} were, and now {referenced} are"
            );
        }
    }
    Ok(())
}

/// Compares the files of all file systems and their snapshots.
pub fn contents(site: &Site, model: &Model) -> Result<()> {
    for (name, set) in &model.sets {
        if !set.is_volume {
            set_contents(&site.path(name), set).with_context(|| name.clone())?;
        }
    }
    Ok(())
}

fn set_contents(root: &Path, set: &Set) -> Result<()> {
    compare(root, &set.files)?;
    for snap in &set.snaps {
        let place = root.join(".zfs/snapshot").join(&snap.name);
        compare(&place, &snap.files).with_context(|| format!("@{}", snap.name))?;
    }
    Ok(())
}

fn compare(place: &Path, files: &Files) -> Result<()> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(place).with_context(|| place.display().to_string())? {
        let entry = entry?;
        // Directories are where other file systems are mounted.
        if entry.file_type()?.is_file() {
            found.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    let wanted: BTreeSet<String> = files.keys().cloned().collect();
    ensure!(found == wanted, "{found:?} are there, not {wanted:?}");
    for (name, bytes) in files {
        let read = fs::read(place.join(name)).with_context(|| name.clone())?;
        let differs = read.iter().zip(bytes.iter()).position(|(a, b)| a != b);
        ensure!(
            read.len() == bytes.len() && differs.is_none(),
            "{name}: {} bytes, not {}; they differ at {differs:?}",
            read.len(),
            bytes.len()
        );
    }
    Ok(())
}
