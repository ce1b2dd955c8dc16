//! Pools with a dataset whose object set is unreadable, opened for writing.
//!
//! One object set block with all copies damaged made a whole pool read-only: the import must claim
//! the intent logs of all heads, and the log's header is in that block. So the dataset could not
//! even be destroyed. And if the block was damaged later, the destroyed dataset left its log's
//! blocks allocated forever, even if the block became readable again.
//!
//! After an export the maps know all blocks of all logs, so nothing is lost. After a crash the
//! import requires `-m`, because data in the log may be lost. A log skipped that way is discarded
//! when it becomes readable, since its blocks may have been overwritten meanwhile.

use crate::common::{self, Bench};
use cenote_base::{ObjectId, RealEnv};
use cenote_dsl::DatasetName;
use cenote_dsl::write::DestroyDataset;
use cenote_ondisk::label::DATA_OFFSET;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportError, ImportOptions, Pool};
use cenote_tests::referee::judge;
use cenote_vdev::AllocationClass;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DATASET: &str = "gold_dirtyzil/data";
const PATIENCE: Duration = Duration::from_secs(120);

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn import(dir: &Path, options: ImportOptions) -> Result<Pool, ImportError> {
    let options = ImportOptions {
        force: true,
        ..options
    };
    let candidates = common::candidates(dir);
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

fn plain() -> ImportOptions {
    common::options()
}

fn without_logs() -> ImportOptions {
    ImportOptions {
        missing_logs: true,
        ..common::options()
    }
}

/// The object set block of a dataset, which can be damaged and repaired.
struct Block {
    device: PathBuf,
    places: Vec<u64>,
}

impl Block {
    fn of(pool: &Pool, name: &str, device: PathBuf) -> Self {
        let dataset = pool.dsl().dataset(&named(name)).expect("it is there");
        let root = dataset.phys().block_pointer;
        let places = root.dvas().map(|dva| DATA_OFFSET + dva.offset()).collect();
        Self { device, places }
    }

    /// Damages all copies; done twice, it repairs them.
    fn damage(&self) {
        let file: File = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.device)
            .expect("a copy");
        for offset in &self.places {
            let mut bytes = [0; 512];
            file.read_exact_at(&mut bytes, *offset).expect("within");
            bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
            file.write_all_at(&bytes, *offset).expect("within");
        }
    }
}

fn named(name: &str) -> DatasetName {
    DatasetName::parse(name).expect("a name")
}

fn head_of(pool: &Pool, name: &str) -> ObjectId {
    pool.dsl().dataset(&named(name)).expect("it is there").id()
}

fn check(pool: &Pool) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert_eq!(report.space, Vec::<String>::new());
    assert!(report.damaged.is_empty(), "{:?}", report.damaged);
}

/// Waits until nothing is to be freed any more.
fn freed(pool: &Pool) {
    let begun = Instant::now();
    let mut round = 0;
    while pool.dsl().is_freeing().expect("readable") {
        assert!(begun.elapsed() < PATIENCE, "it is not freed");
        common::change(pool, round).expect("written");
        round += 1;
    }
    // What is freed is known to the maps some groups later.
    for round in 0..4 {
        common::change(pool, round).expect("written");
    }
}

/// A pool that OpenZFS left with logs after a crash, and the block of the dataset with the most.
fn crashed() -> Option<(tempfile::TempDir, Block)> {
    let (dir, golden) = common::golden("dirty-zil")?;
    let options = ImportOptions {
        read_only: true,
        ..common::options()
    };
    let pool = import(dir.path(), options).expect("whole");
    let device = dir.path().join(&golden.manifest.devices[0]);
    let block = Block::of(&pool, DATASET, device);
    Some((dir, block))
}

#[test]
fn a_log_that_was_passed_over_is_freed_with_its_dataset() {
    let Some((dir, block)) = crashed() else {
        return;
    };
    block.damage();
    let refused = import(dir.path(), plain()).expect_err("its log may hold something");
    let text = refused.to_string();
    assert!(text.contains(DATASET), "{text}");
    assert!(text.contains("import with -m"), "{text}");
    let pool = import(dir.path(), without_logs()).expect("in words");
    let head = head_of(&pool, DATASET);
    assert_eq!(pool.unreadable_heads().len(), 1);
    assert_eq!(pool.unreadable_heads()[0].0, head);
    let name = named(DATASET);
    pool.run_task(DestroyDataset { name }).expect("destroyed");
    common::change(&pool, 0).expect("written");
    assert!(pool.dsl().is_freeing().expect("readable"), "it stalls");
    assert_eq!(pool.dsl().unfreed_logs().expect("readable").len(), 1);
    pool.export().expect("written");
    drop(pool);
    block.damage();
    // It can be read again: all is freed, and the log with it.
    let pool = import(dir.path(), plain()).expect("whole");
    freed(&pool);
    assert!(pool.dsl().unfreed_logs().expect("readable").is_empty());
    check(&pool);
    pool.export().expect("written");
    drop(pool);
    judge(dir.path(), "gold_dirtyzil");
}

#[test]
fn a_log_that_was_passed_over_is_discarded_later() {
    let Some((dir, block)) = crashed() else {
        return;
    };
    block.damage();
    let pool = import(dir.path(), without_logs()).expect("in words");
    let head = head_of(&pool, DATASET);
    for round in 0..40 {
        common::change(&pool, round).expect("written");
    }
    pool.export().expect("written");
    drop(pool);
    // The note stays, with or without `-m`.
    let pool = import(dir.path(), plain()).expect("it was said before");
    assert!(
        pool.dsl()
            .unclaimed_logs()
            .expect("readable")
            .contains_key(&head)
    );
    pool.export().expect("written");
    drop(pool);
    block.damage();
    let pool = import(dir.path(), plain()).expect("whole");
    assert_eq!(pool.discarded_logs(), [head]);
    assert!(pool.dsl().unclaimed_logs().expect("readable").is_empty());
    for round in 0..4 {
        common::change(&pool, round).expect("written");
    }
    check(&pool);
    pool.export().expect("written");
    drop(pool);
    judge(dir.path(), "gold_dirtyzil");
}

#[test]
fn a_log_that_was_claimed_is_freed_when_its_dataset_can_be_read() {
    let Some((dir, _)) = crashed() else {
        return;
    };
    let pool = import(dir.path(), plain()).expect("whole");
    common::change(&pool, 0).expect("written");
    let device = std::fs::read_dir(dir.path()).expect("a directory");
    let device = device.flatten().map(|entry| entry.path());
    let device = device
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "img"));
    let block = Block::of(&pool, DATASET, device.expect("a device"));
    pool.export().expect("written");
    drop(pool);
    block.damage();
    // It was exported: nothing is lost, so `-m` is not needed.
    let pool = import(dir.path(), plain()).expect("the others are whole");
    let name = named(DATASET);
    pool.run_task(DestroyDataset { name }).expect("destroyed");
    pool.export().expect("written");
    drop(pool);
    block.damage();
    let pool = import(dir.path(), plain()).expect("whole");
    freed(&pool);
    check(&pool);
    pool.export().expect("written");
    drop(pool);
    judge(dir.path(), "gold_dirtyzil");
}

#[test]
fn a_pool_is_written_to_around_a_damaged_dataset() {
    let mut bench = Bench::new("tank");
    let vdev = bench.vdev(cenote_pool::VdevShape::Single, AllocationClass::Normal, 1);
    let device = vdev.leaves[0].path.clone();
    let pool = bench.create(vec![vdev]);
    let block = Block::of(&pool, "tank", device);
    pool.export().expect("written");
    drop(pool);
    block.damage();
    let pool = import(bench.dir.path(), plain()).expect("its tables are whole");
    assert_eq!(pool.unreadable_heads()[0].0, head_of(&pool, "tank"));
    for round in 0..4 {
        common::change(&pool, round).expect("written");
    }
    pool.export().expect("written");
    drop(pool);
    block.damage();
    bench.check();
}
