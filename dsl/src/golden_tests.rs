//! What `zfs get all` said of every dataset while OpenZFS had the pool, compared with what is
//! read from it here.
//!
//! The text is of the time before the export, so what changes afterwards or exists only in a
//! running system may differ: whether it was mounted, and the space that the last transaction
//! groups freed.

use crate::property::{PropertyReport, PropertySource, PropertyValue, UNLIMITED};
use crate::testing;
use crate::{Dataset, DatasetName, Directory, Dsl, DslError};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::Key;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the dataset, then of the property: value and source as printed.
type Printed = BTreeMap<String, BTreeMap<String, (String, String)>>;

/// The lines of `zfs get -Hp all`.
fn printed(golden: &Golden) -> Printed {
    let text = std::fs::read(golden.directory.join("zfs-get.txt")).expect("it is there");
    let text = String::from_utf8_lossy(&text);
    let mut printed = Printed::new();
    let mut within = false;
    for line in text.lines() {
        if line.starts_with("# ") {
            within = line.starts_with("# zfs get");
            continue;
        }
        if let (true, [name, property, value, source]) =
            (within, &line.split('\t').collect::<Vec<_>>()[..])
        {
            let row = ((*value).to_owned(), (*source).to_owned());
            printed
                .entry((*name).to_owned())
                .or_default()
                .insert((*property).to_owned(), row);
        }
    }
    printed
}

/// As `-p` prints it.
fn as_printed(report: &PropertyReport) -> (String, String) {
    let limit = matches!(
        report.name.as_str(),
        "filesystem_limit" | "snapshot_limit" | "filesystem_count" | "snapshot_count"
    );
    let value = match &report.value {
        PropertyValue::None => "-".to_owned(),
        PropertyValue::Number(number) if report.name.ends_with("compressratio") => {
            format!("{}.{:02}", number / 100, number % 100)
        }
        PropertyValue::Number(UNLIMITED) if limit => "none".to_owned(),
        PropertyValue::Number(number) => number.to_string(),
        PropertyValue::Text(text) => text.clone(),
    };
    let source = match &report.source {
        PropertySource::None => "-".to_owned(),
        PropertySource::Default => "default".to_owned(),
        PropertySource::Local => "local".to_owned(),
        PropertySource::Temporary => "temporary".to_owned(),
        PropertySource::Received => "received".to_owned(),
        PropertySource::Inherited(from) => format!("inherited from {from}"),
    };
    (value, source)
}

fn load_keys(dsl: &Arc<Dsl>, golden: &Golden) {
    for (name, key) in &golden.manifest.keys {
        let name = DatasetName::parse(name).expect("a good name");
        let directory = dsl.directory(&name).expect("readable").expect("there");
        let material = match key {
            Key::Passphrase(text) | Key::Hex(text) => text.clone().into_bytes(),
            Key::Raw(bytes) => bytes.clone(),
        };
        dsl.load_key(&directory, &material, false)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// All heads and snapshots, and the names of all bookmarks.
fn everything(dsl: &Arc<Dsl>) -> Result<(Vec<Dataset>, Vec<crate::Bookmark>), DslError> {
    let mut datasets = Vec::new();
    let mut bookmarks = Vec::new();
    let mut directories: Vec<Arc<Directory>> = vec![dsl.root()?];
    while let Some(directory) = directories.pop() {
        for child in directory.listed_children()? {
            directories.push(directory.open_child(&child)?);
        }
        let Some(head) = directory.head()? else {
            continue;
        };
        for entry in head.listed_snapshots()? {
            datasets.push(head.open_snapshot(&entry)?);
        }
        bookmarks.extend(head.bookmarks()?);
        datasets.push(head);
    }
    Ok((datasets, bookmarks))
}

/// Figures of heads that went on to change after the text was written: what was pending was
/// synced, and what was deleted was freed. Those of snapshots stand still.
const MOVING: [&str; 13] = [
    "used",
    "available",
    "referenced",
    "compressratio",
    "refcompressratio",
    "usedbydataset",
    "usedbychildren",
    "usedbysnapshots",
    "usedbyrefreservation",
    "written",
    "logicalused",
    "logicalreferenced",
    "mounted",
];

fn may_differ(kind: &str, dataset: &Dataset, property: &str) -> bool {
    let crashed = kind.starts_with("dirty-");
    let moving = match dataset.is_snapshot() {
        // What the head no longer has is then the snapshot's alone.
        true => property == "used",
        false => MOVING.contains(&property),
    };
    // Pools without extensible datasets keep this time in memory only.
    let in_memory = property == "snapshots_changed"
        && !dataset
            .dsl()
            .features()
            .is_active("com.delphix:extensible_dataset");
    crashed || moving || in_memory || property == "receive_resume_token"
}

fn differences(kind: &str, dataset: &Dataset, printed: &Printed) -> Vec<String> {
    let name = dataset.name().as_str();
    let mut problems = Vec::new();
    let Some(rows) = printed.get(name) else {
        return vec![format!("{name}: not printed")];
    };
    let mut rows = rows.clone();
    let reports = match dataset.all_properties() {
        Ok(reports) => reports,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    for report in reports {
        let ours = as_printed(&report);
        let theirs = rows.remove(&report.name);
        if theirs.as_ref() != Some(&ours) && !may_differ(kind, dataset, &report.name) {
            problems.push(format!(
                "{name} {}: {ours:?}, printed {theirs:?}",
                report.name
            ));
        }
    }
    for (property, row) in rows {
        if !may_differ(kind, dataset, &property) {
            problems.push(format!("{name} {property}: nothing, printed {row:?}"));
        }
    }
    problems
}

#[test]
fn properties_are_those_that_openzfs_printed() {
    let mut problems = Vec::new();
    for kind in testing::kinds() {
        let Some((dsl, golden)) = testing::open(&kind) else {
            continue;
        };
        load_keys(&dsl, &golden);
        let printed = printed(&golden);
        let (datasets, bookmarks) = everything(&dsl).expect("readable");
        for dataset in &datasets {
            let found = differences(&kind, dataset, &printed);
            problems.extend(found.into_iter().map(|line| format!("{kind}: {line}")));
        }
        let names = datasets.iter().map(Dataset::name);
        let names = names.chain(bookmarks.iter().map(|bookmark| &bookmark.name));
        let names: std::collections::HashSet<_> = names.map(DatasetName::as_str).collect();
        for name in printed.keys().filter(|name| !names.contains(name.as_str())) {
            problems.push(format!("{kind}: {name} was not found"));
        }
    }
    // The moving figures that nothing moved must be equal, and those are most.
    assert!(
        problems.is_empty(),
        "{} differences:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[test]
fn the_books_of_openzfs_are_in_order() {
    let mut problems = Vec::new();
    for kind in testing::kinds() {
        let Some((dsl, _)) = testing::open(&kind) else {
            continue;
        };
        for problem in crate::check(&dsl) {
            problems.push(format!("{kind}: {problem}"));
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}
