//! Pools that lost power with operations in their intent logs, opened for writing: the logs are
//! replayed to disk, also when the power fails again in the middle of that.

use crate::common;
use crate::pools;
use cenote_base::RealEnv;
use cenote_dataset::Access;
use cenote_device::{Opener, SystemOpener};
use cenote_dmu::txg::ThrottleLimits;
use cenote_dsl::write::DestroyDataset;
use cenote_dsl::{Dataset, DatasetName, DatasetType};
use cenote_intent_log::IntentLog;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportOptions, Pool, assemble};
use cenote_posix::write::WriteSettings;
use cenote_posix::{FileSystem, Timestamp};
use cenote_sim::Random;
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::manifest;
use cenote_tests::mounted::hex;
use cenote_tests::referee::judge;
use cenote_vdev::scan;
use cenote_volume::Volume;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn import(paths: &[PathBuf], opener: Arc<dyn Opener>, dirty_max: Option<u64>) -> Pool {
    let candidates = assemble(scan(paths, opener.as_ref()));
    let mut options = ImportOptions {
        force: true,
        opener,
        ..pools::options()
    };
    options.throttle = dirty_max.map(|bytes| ThrottleLimits {
        dirty_bytes_max: bytes,
        ..ThrottleLimits::of_memory(1 << 30)
    });
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new())).expect("imports")
}

fn dataset(pool: &Pool, name: &str) -> Dataset {
    let name = DatasetName::parse(name).expect("a name");
    pool.dsl().dataset(&name).expect("is there")
}

fn load_keys(pool: &Pool, golden: &Golden) {
    for (name, key) in &golden.manifest.keys {
        let material = match key {
            manifest::Key::Passphrase(text) | manifest::Key::Hex(text) => text.clone().into_bytes(),
            manifest::Key::Raw(bytes) => bytes.clone(),
        };
        let dataset = dataset(pool, name);
        let loaded = pool.dsl().load_key(dataset.directory(), &material, false);
        loaded.expect("the key is right");
    }
}

/// Replays a dataset's log and destroys it; records that were applied.
fn replay(pool: &Pool, dataset: &Dataset) -> u64 {
    let gate = pool.gate().expect("writable");
    let access = Access {
        dsl: Arc::clone(pool.dsl()),
        gate: Arc::clone(gate),
        env: Arc::new(RealEnv::new()),
        blocks: Some(Arc::clone(pool.block_writer().expect("writable"))),
        damage: None,
    };
    let open = access.open(dataset).expect("opens");
    let Some(log) = open.log().expect("readable") else {
        return 0;
    };
    assert!(log.is_claimed(), "the import claims it");
    let applied = match dataset.dataset_type().expect("known") {
        DatasetType::Volume => {
            let outcome = Volume::replay_log(&open, &log).expect("replays");
            assert!(outcome.stopped.is_none(), "{outcome:?}");
            outcome.applied
        }
        DatasetType::Filesystem => {
            let seconds = pool.opened_uberblock().timestamp.cast_signed();
            let since = Timestamp::from_stored((seconds, 0));
            let settings = WriteSettings::default();
            let report = FileSystem::replay_log(&open, &log, settings, since).expect("replays");
            assert!(report.stopped.is_none(), "{report:?}");
            report.applied
        }
    };
    open.destroy_log(&log).expect("is open");
    open.end().expect("written");
    applied
}

fn replay_all(pool: &Pool, golden: &Golden) -> u64 {
    let names = golden.manifest.datasets.keys();
    let names = names.filter(|name| !name.contains('@'));
    names.map(|name| replay(pool, &dataset(pool, name))).sum()
}

/// Compares every dataset with the manifest.
fn compare_all(pool: &Pool, golden: &Golden) {
    for (name, wanted) in &golden.manifest.datasets {
        let set = dataset(pool, name).object_set().expect("readable");
        assert!(IntentLog::open(&set).expect("readable").is_none(), "{name}");
        if let Some((size, sha256)) = &wanted.volume {
            let volume = Volume::open(set).expect("opens");
            let mut bytes = vec![0; usize::try_from(*size).expect("small")];
            volume.read(0, &mut bytes).expect("readable");
            assert_eq!(hex(&Sha256::digest(&bytes)), *sha256, "{name}");
        } else if wanted.entries.is_some() {
            let files = Arc::new(FileSystem::open(set).expect("opens"));
            let found = manifest::Dataset {
                entries: Some(common::entries(&files)),
                ..manifest::Dataset::default()
            };
            let mut tolerance = Tolerance::of(&golden.kind, &golden.manifest);
            tolerance.hidden_xattrs.clear();
            let differences = compare::dataset(wanted, &found, &tolerance);
            assert!(
                differences.is_empty(),
                "{name}:\n{}",
                differences.join("\n")
            );
        }
    }
}

fn verified(pool: &Pool, what: &str) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{what}: {report:?}");
}

#[test]
fn logs_are_replayed_for_good() {
    for kind in ["dirty-zil", "dirty-zil-slog"] {
        let Some(golden) = Golden::find(kind).expect("readable") else {
            return;
        };
        let directory = tempfile::tempdir().expect("a directory");
        golden.copy_to(directory.path()).expect("copied");
        let place = [directory.path().to_owned()];
        // Claimed, and not replayed: the pool may be exported like that.
        let pool = import(&place, Arc::new(SystemOpener::default()), None);
        verified(&pool, kind);
        pool.export().expect("exports");
        drop(pool);
        judge(directory.path(), &golden.manifest.pool);
        let pool = import(&place, Arc::new(SystemOpener::default()), None);
        load_keys(&pool, &golden);
        assert!(
            replay_all(&pool, &golden) > 0,
            "there is something to replay"
        );
        compare_all(&pool, &golden);
        verified(&pool, kind);
        pool.export().expect("exports");
        drop(pool);
        judge(directory.path(), &golden.manifest.pool);
    }
}

#[test]
fn datasets_with_logs_can_be_destroyed() {
    let Some(golden) = Golden::find("dirty-zil").expect("readable") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    golden.copy_to(directory.path()).expect("copied");
    let place = [directory.path().to_owned()];
    let pool = import(&place, Arc::new(SystemOpener::default()), None);
    for name in ["data", "log2", "vol", "enc"] {
        let name = DatasetName::parse(&format!("gold_dirtyzil/{name}")).expect("a name");
        pool.run_task(DestroyDataset { name }).expect("destroys");
    }
    while pool.dsl().is_freeing().expect("readable") {
        pool.sync().expect("written");
    }
    verified(&pool, "destroyed");
    pool.export().expect("exports");
    drop(pool);
    judge(directory.path(), &golden.manifest.pool);
}

#[test]
fn a_replay_goes_on_after_a_power_cut() {
    let Some(golden) = Golden::find("dirty-zil").expect("readable") else {
        return;
    };
    let devices = golden.devices().expect("unpacked");
    let read = |name: &String| std::fs::read(devices.join(name)).expect("readable");
    let images = golden.device_names().into_iter().map(|name| read(&name));
    let world = pools::disks_of(images);
    world.record();
    // So few dirty bytes are allowed that the replay takes many groups.
    let opener = Arc::clone(&world) as Arc<dyn Opener>;
    let pool = import(&world.paths(), opener, Some(256 << 10));
    load_keys(&pool, &golden);
    let all = replay_all(&pool, &golden);
    pool.close().expect("written");
    drop(pool);
    let log = world.take_record();
    eprintln!("{all} records, {} operations", log.len());
    let mut random = Random::new(7);
    let mut partial = 0;
    for cut in 1..12 {
        let at = log.len() * cut / 12;
        let keep = [0, 50, 100][cut % 3];
        let image = Arc::new(world.after(&log, at, keep, &mut random));
        let opener = Arc::clone(&image) as Arc<dyn Opener>;
        let pool = import(&image.paths(), opener, None);
        load_keys(&pool, &golden);
        let rest = replay_all(&pool, &golden);
        partial += u64::from(rest > 0 && rest < all);
        eprintln!("cut at {at}: {rest} records were left");
        compare_all(&pool, &golden);
        verified(&pool, &format!("cut at {at}, {keep} % kept"));
        pool.close().expect("written");
    }
    assert!(partial >= 3, "the cuts fall into the replay");
}
