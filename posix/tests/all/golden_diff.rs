//! Differences between states of golden datasets, compared with those between their manifests.

use crate::common;
use cenote_base::ObjectId;
use cenote_posix::{DiffChange, DiffRecord, FileSystem};
use cenote_tests::manifest::{Entries, Entry};
use std::collections::{BTreeMap, BTreeSet};

/// The paths and the description of each object.
fn by_object(entries: &Entries) -> BTreeMap<u64, (BTreeSet<String>, Entry)> {
    let mut objects = BTreeMap::new();
    for (path, entry) in entries.iter().filter(|(path, _)| *path != ".") {
        let object = entry["ino"].as_u64().expect("a number");
        let known = objects
            .entry(object)
            .or_insert_with(|| (BTreeSet::new(), entry.clone()));
        known.0.insert(path.clone());
    }
    objects
}

fn check(kind: &str, from: &str, to: &str) {
    let Some(pool) = common::open(kind) else {
        return;
    };
    let (before, after) = (pool.file_system(from), pool.file_system(to));
    let datasets = &pool.golden.manifest.datasets;
    let from_txg = datasets[from].createtxg.expect("a snapshot has one");
    let records: Vec<DiffRecord> = FileSystem::diff(&before, &after, cenote_base::Txg(from_txg))
        .map(|record| record.expect("readable"))
        .collect();
    let text = |path: &[u8]| String::from_utf8(path.to_vec()).expect("UTF-8");
    let old = by_object(datasets[from].entries.as_ref().expect("described"));
    let new = by_object(datasets[to].entries.as_ref().expect("described"));
    let find = |object: u64| -> Vec<&DiffRecord> {
        records
            .iter()
            .filter(|record| record.object == ObjectId(object))
            .collect()
    };
    for (object, (paths, entry)) in &old {
        let found = find(*object);
        match new.get(object) {
            None => {
                assert!(matches!(
                    found[..],
                    [DiffRecord {
                        change: DiffChange::Removed,
                        ..
                    }]
                ));
                assert!(paths.contains(&text(&found[0].path)));
            }
            Some((new_paths, new_entry)) if paths == new_paths && entry == new_entry => {
                let is_touch =
                    |record: &&DiffRecord| record.change == DiffChange::Modified { links: 0 };
                assert!(found.iter().all(is_touch), "{object}: {found:?}");
            }
            Some(_) => assert!(!found.is_empty(), "{paths:?} changed"),
        }
    }
    for (object, (paths, _)) in new.iter().filter(|(object, _)| !old.contains_key(object)) {
        let found = find(*object);
        assert!(matches!(
            found[..],
            [DiffRecord {
                change: DiffChange::Added,
                ..
            }]
        ));
        assert!(paths.contains(&text(&found[0].path)));
    }
    for record in &records {
        if let DiffChange::Renamed { to } = &record.change {
            assert!(old[&record.object.0].0.contains(&text(&record.path)));
            assert!(new[&record.object.0].0.contains(&text(to)));
        }
        assert!(record.object != after.root() || record.path.is_empty());
    }
    assert!(!records.is_empty());
}

#[test]
fn a_snapshot_and_what_came_after_it() {
    check(
        "single-default",
        "gold_singledefault/data@one",
        "gold_singledefault/data",
    );
    check(
        "version28",
        "gold_version28/data@one",
        "gold_version28/data",
    );
}

#[test]
fn two_snapshots_and_a_clone() {
    let promoted = "gold_snapshotsclones/promoted";
    check(
        "snapshots-clones",
        &format!("{promoted}@s1"),
        &format!("{promoted}@s2"),
    );
    check(
        "snapshots-clones",
        &format!("{promoted}@s2"),
        "gold_snapshotsclones/base",
    );
}

#[test]
fn a_state_does_not_differ_from_itself() {
    let Some(pool) = common::open("single-default") else {
        return;
    };
    let name = "gold_singledefault/data@one";
    let (one, other) = (pool.file_system(name), pool.file_system(name));
    // From the beginning of time: everything is compared.
    assert_eq!(
        FileSystem::diff(&one, &other, cenote_base::Txg(0)).count(),
        0
    );
}

/// The one has thousands of objects, the other three: where that has holes in its array of dnodes,
/// and where its tree does not reach, all is gone.
#[test]
fn what_lies_where_the_newer_state_has_nothing_is_gone() {
    let Some(pool) = common::open("single-default") else {
        return;
    };
    let datasets = &pool.golden.manifest.datasets;
    let objects_of = |name: &str| by_object(datasets[name].entries.as_ref().expect("described"));
    let (from, to) = ("gold_singledefault/data@one", "gold_singledefault");
    let (old, new) = (objects_of(from), objects_of(to));
    let kept = |object: &u64| new.contains_key(object);
    let expected: BTreeSet<u64> = old.keys().copied().filter(|id| !kept(id)).collect();
    assert!(expected.len() > 1000);
    let (before, after) = (pool.file_system(from), pool.file_system(to));
    for (one, other) in [(&before, &after), (&after, &before)] {
        let records = FileSystem::diff(one, other, cenote_base::Txg(0));
        let records: Vec<DiffRecord> = records.map(|record| record.expect("readable")).collect();
        let wanted = match std::ptr::eq(one, &before) {
            true => DiffChange::Removed,
            false => DiffChange::Added,
        };
        let found = records.iter().filter(|record| record.change == wanted);
        let found: BTreeSet<u64> = found.map(|record| record.object.0).collect();
        assert!(found.is_superset(&expected), "{wanted:?}");
        assert!(records.is_sorted_by_key(|record| record.object));
    }
}
