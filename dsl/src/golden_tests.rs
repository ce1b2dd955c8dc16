//! What `zfs get all` said of every dataset while OpenZFS had the pool, compared with what is
//! read from it here.
//!
//! The text is of the time before the export, so what changes afterwards or exists only in a
//! running system may differ: whether it was mounted, and the space that the last transaction
//! groups freed.

use crate::property::{PropertyReport, PropertySource, PropertyValue, UNLIMITED};
use crate::testing;
use crate::{Dataset, DatasetName, Directory, Dsl, DslError, KeyStatus};
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

/// Properties of heads that changed after the text was written: pending changes were synced and
/// deleted files were freed. The properties of snapshots did not change.
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

/// What `keystatus` says of a dataset.
fn key_status(dsl: &Arc<Dsl>, name: &str) -> KeyStatus {
    let name = DatasetName::parse(name).expect("a good name");
    let directory = dsl.directory(&name).expect("readable").expect("there");
    dsl.key_status(&directory).expect("readable")
}

#[test]
fn keys_are_loaded_at_their_root_and_leave_no_trace() {
    let Some((dsl, _)) = testing::open("encryption") else {
        return;
    };
    let pool = dsl.pool_name().as_str().to_owned();
    let (root, child) = (format!("{pool}/gcm"), format!("{pool}/gcm/child"));
    let directory = |name: &str| {
        let name = DatasetName::parse(name).expect("a good name");
        dsl.directory(&name).expect("readable").expect("there")
    };
    let load = |name: &str, key: &[u8], dry_run| dsl.load_key(&directory(name), key, dry_run);
    let key = b"correct horse basil";

    assert_eq!(key_status(&dsl, &pool), KeyStatus::None);
    assert_eq!(key_status(&dsl, &child), KeyStatus::Unavailable);
    assert!(matches!(
        load(&pool, key, false),
        Err(DslError::NotEncrypted { .. })
    ));
    let error = load(&child, key, false).expect_err("the child is no root");
    assert!(
        matches!(error, DslError::NotEncryptionRoot { root: found, .. } if *found.as_str() == root)
    );
    assert!(matches!(
        load(&root, b"wrong horse", false),
        Err(DslError::WrongKey { .. })
    ));
    assert!(matches!(
        load(&root, b"short", false),
        Err(DslError::BadKeyMaterial { .. })
    ));
    load(&root, key, true).expect("the right key");
    assert_eq!(
        key_status(&dsl, &child),
        KeyStatus::Unavailable,
        "it was only a check"
    );

    load(&root, b"correct horse basil\n", false).expect("the right key");
    assert!(matches!(
        load(&root, key, false),
        Err(DslError::KeyLoaded { .. })
    ));
    assert_eq!(key_status(&dsl, &child), KeyStatus::Available);
    let own = format!("{pool}/gcm/own");
    assert_eq!(
        key_status(&dsl, &own),
        KeyStatus::Unavailable,
        "it has its own root"
    );

    let head = dsl.dataset(directory(&child).name()).expect("there");
    let set = head.object_set().expect("readable");
    assert!(set.keys().is_some());
    let unload = || dsl.unload_key(&directory(&root));
    assert!(matches!(unload(), Err(DslError::KeyBusy { .. })));
    drop(set);
    unload().expect("nothing uses it");
    assert!(matches!(unload(), Err(DslError::KeyNotLoaded { .. })));
    assert_eq!(key_status(&dsl, &child), KeyStatus::Unavailable);
    assert!(head.object_set().expect("still opens").keys().is_none());
}

#[test]
fn sizes_since_snapshots_add_up() {
    let Some((dsl, _)) = testing::open("snapshots-clones") else {
        return;
    };
    let name = format!("{}/kept", dsl.pool_name());
    let head = dsl
        .dataset(&DatasetName::parse(&name).expect("good"))
        .expect("there");
    let snapshots = head.listed_snapshots().expect("readable");
    assert_eq!(snapshots.len(), 4);
    let last = head.open_snapshot(&snapshots[3]).expect("opens");
    let since = head.written_since(&last).expect("readable");
    assert_eq!(since, Some(head.written().expect("readable")));
    let mut before = 0;
    for entry in snapshots.iter().rev() {
        let snapshot = head.open_snapshot(entry).expect("opens");
        let written = head
            .written_since(&snapshot)
            .expect("readable")
            .expect("on the chain");
        assert!(written >= before, "more is written since an older snapshot");
        before = written;
    }
    let root = dsl.dataset(dsl.pool_name()).expect("there");
    assert_eq!(
        root.written_since(&last).expect("readable"),
        None,
        "another chain"
    );
}
