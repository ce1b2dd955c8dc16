//! Pools that lost power with operations in their intent logs: replayed in memory, they must
//! show what the running system showed.

use crate::common;
use cenote_base::RealEnv;
use cenote_intent_log::{IntentLog, IntentLogError};
use cenote_posix::write::WriteSettings;
use cenote_posix::{DiffChange, FileSystem, ReplayOptions, SymlinkPolicy, Timestamp};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::manifest::Dataset;
use std::sync::Arc;

fn options(pool: &common::Pool) -> ReplayOptions {
    let seconds = pool.uberblock.timestamp.cast_signed();
    let synced_at = Timestamp {
        seconds,
        nanoseconds: 0,
    };
    ReplayOptions {
        last_synced: pool.uberblock.txg,
        synced_at,
        settings: WriteSettings::default(),
        env: Arc::new(RealEnv::new()),
    }
}

fn replayed(pool: &common::Pool, name: &str) -> Arc<FileSystem> {
    let opened = FileSystem::open_replayed(pool.object_set(name), &options(pool));
    let (file_system, report) = opened.expect("opens");
    assert!(report.stopped.is_none(), "{name}: {report:?}");
    assert!(report.applied > 0, "{name}: {report:?}");
    Arc::new(file_system)
}

#[test]
fn logs_are_replayed() {
    for kind in ["dirty-zil", "dirty-zil-slog"] {
        let Some(pool) = common::open(kind) else {
            return;
        };
        pool.load_keys();
        for (name, wanted) in &pool.golden.manifest.datasets {
            if wanted.entries.is_none() {
                continue;
            }
            let before = common::entries(&pool.file_system(name));
            let file_system = replayed(&pool, name);
            let found = common::entries(&file_system);
            assert!(before != found, "{name}: the log is needed");
            let found = Dataset {
                entries: Some(found),
                ..Dataset::default()
            };
            let mut tolerance = Tolerance::of(kind, &pool.golden.manifest);
            tolerance.hidden_xattrs.clear();
            let differences = compare::dataset(wanted, &found, &tolerance);
            assert!(
                differences.is_empty(),
                "{kind}: {name}:\n{}",
                differences.join("\n")
            );
        }
    }
}

#[test]
fn times_are_near_those_of_the_running_system() {
    let Some(pool) = common::open("dirty-zil") else {
        return;
    };
    let name = "gold_dirtyzil/data";
    let found = common::entries(&replayed(&pool, name));
    let wanted = pool.golden.manifest.datasets[name]
        .entries
        .as_ref()
        .expect("described");
    for (path, wanted) in wanted {
        let time = |entry: &cenote_tests::manifest::Entry| entry["mtime"].as_i64().expect("a time");
        let error = (time(wanted) - time(&found[path])).abs();
        assert!(error < 10_000_000_000, "{path}: {error} ns off");
    }
}

#[test]
fn names_of_the_log_are_in_listings_and_lookups() {
    let Some(pool) = common::open("dirty-zil") else {
        return;
    };
    let file_system = replayed(&pool, "gold_dirtyzil/data");
    let root = file_system.znode(file_system.root()).expect("is there");
    let whole: Vec<_> = file_system
        .read_directory(&root, 0)
        .expect("opens")
        .collect();
    let whole: Vec<_> = whole
        .into_iter()
        .map(|entry| entry.expect("readable"))
        .collect();
    assert_eq!(whole.len() as u64, root.attributes().size);
    let mut rest = whole.as_slice();
    while let Some((first, tail)) = rest.split_first() {
        let again = file_system
            .read_directory(&root, first.cookie)
            .expect("opens");
        let again: Vec<_> = again.map(|entry| entry.expect("readable")).collect();
        assert_eq!(again, tail);
        rest = tail;
    }
    let resolve = |path: &[u8]| file_system.resolve(path, SymlinkPolicy::FollowParents);
    assert!(resolve(b"links/moved").is_ok());
    assert_eq!(
        resolve(b"links/target").expect_err("was renamed").errno(),
        2
    );
    assert_eq!(resolve(b"tiny/r0001").expect_err("was removed").errno(), 2);
    let made = resolve(b"newdir/hard").expect("was linked");
    assert_eq!(
        file_system.path_of(made.id()).expect("has a path"),
        b"newdir/hard"
    );
}

#[test]
fn summaries_need_no_keys() {
    let Some(pool) = common::open("dirty-zil") else {
        return;
    };
    let summary = |name: &str| {
        let log = IntentLog::open(&pool.object_set(name))
            .expect("readable")
            .expect("is there");
        log.summary(pool.uberblock.txg).expect("readable")
    };
    // As zdb -i counts them.
    let wanted = [
        ("TX_CREATE", 15),
        ("TX_LINK", 1),
        ("TX_MKDIR", 1),
        ("TX_REMOVE", 1),
        ("TX_RENAME", 1),
        ("TX_SETATTR", 2),
        ("TX_SETSAXATTR", 2),
        ("TX_SYMLINK", 1),
        ("TX_WRITE", 17),
    ];
    let data = summary("gold_dirtyzil/data");
    assert_eq!(data.records.into_iter().collect::<Vec<_>>(), wanted);
    let locked = summary("gold_dirtyzil/enc");
    assert!(
        locked.replayable > 0 && locked.records["TX_WRITE"] > 0,
        "{locked:?}"
    );
    // Without the key there is no replay.
    let refused = FileSystem::open_replayed(pool.object_set("gold_dirtyzil/enc"), &options(&pool));
    assert_eq!(refused.expect_err("no key").errno(), 13);
    let log = IntentLog::open(&pool.object_set("gold_dirtyzil/enc")).expect("readable");
    let block = log
        .expect("is there")
        .chain()
        .next()
        .expect("one")
        .expect("valid");
    assert!(matches!(
        block.records(),
        Err(IntentLogError::KeyNotLoaded { .. })
    ));
}

#[test]
fn differences_lead_from_one_state_to_the_next() {
    let Some(pool) = common::open("dirty-zil") else {
        return;
    };
    let name = "gold_dirtyzil/data";
    let (before, after) = (pool.file_system(name), replayed(&pool, name));
    // The log is not in any tree, so nothing can differ.
    let diff = FileSystem::diff(&before, &after, pool.uberblock.txg);
    let changes: Vec<DiffChange> = diff
        .map(|record| record.expect("readable").change)
        .collect();
    assert_eq!(changes, []);
}

#[test]
fn a_crash_in_the_middle_of_writes() {
    let Some(pool) = common::open("dirty-crash") else {
        return;
    };
    for (name, wanted) in &pool.golden.manifest.datasets {
        let opened = FileSystem::open_replayed(pool.object_set(name), &options(&pool));
        let (file_system, report) = opened.expect("opens");
        assert!(report.stopped.is_none(), "{name}: {report:?}");
        let found = common::entries(&Arc::new(file_system));
        let found = Dataset {
            entries: Some(found),
            ..Dataset::default()
        };
        let mut tolerance = Tolerance::of("dirty-crash", &pool.golden.manifest);
        tolerance.hidden_xattrs.clear();
        let differences = compare::dataset(wanted, &found, &tolerance);
        assert!(
            differences.is_empty(),
            "{name}:\n{}",
            differences.join("\n")
        );
    }
}

#[test]
fn blocks_that_records_point_to_are_found_without_keys() {
    let Some(pool) = common::open("dirty-zil") else {
        return;
    };
    // The large writes of this dataset, with logbias=throughput, went to blocks of the pool.
    let log = IntentLog::open(&pool.object_set("gold_dirtyzil/log2")).expect("readable");
    let blocks = log.expect("is there").chain();
    let pointers = blocks.flat_map(|block| {
        let block = block.expect("valid");
        block.written_blocks().collect::<Vec<_>>()
    });
    let bytes: u64 = pointers.map(|pointer| pointer.logical_size()).sum();
    assert!(bytes >= 150_000, "{bytes} bytes");
    let log = IntentLog::open(&pool.object_set("gold_dirtyzil/enc")).expect("readable");
    for block in log.expect("is there").chain() {
        for pointer in block.expect("valid").written_blocks() {
            assert!(pointer.check().is_ok() && pointer.uses_crypt());
        }
    }
}
