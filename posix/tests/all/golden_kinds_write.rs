//! Pools of OpenZFS of uncommon kinds, whose files are changed, and judged by OpenZFS: of the last
//! version before features, and with a removed vdev that blocks are freed of.

use crate::pools;
use cenote_base::{ObjectId, RealEnv};
use cenote_dataset::Access;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportOptions, Pool};
use cenote_posix::write::{NewFile, WriteOptions, WriteSettings};
use cenote_posix::{FileKind, FileSystem};
use cenote_tests::golden::Golden;
use cenote_tests::referee::judge;
use std::sync::Arc;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Changes every file of the file systems, removes some, and makes new ones.
fn work(pool: &Pool, names: &[&String]) {
    for name in names {
        let name = cenote_dsl::DatasetName::parse(name).expect("a name");
        let dataset = pool.dsl().dataset(&name).expect("is there");
        let gate = pool.gate().expect("writable");
        let access = Access {
            dsl: Arc::clone(pool.dsl()),
            gate: Arc::clone(gate),
            env: Arc::new(RealEnv::new()),
            blocks: Some(Arc::clone(pool.block_writer().expect("writable"))),
            damage: None,
        };
        let open = Arc::new(access.open(&dataset).expect("opens"));
        let files = FileSystem::open_writable(open, WriteSettings::default()).expect("opens");
        let files = Arc::new(files);
        let found: Vec<_> = files.walk(files.root()).expect("begins").collect();
        let regular = found.into_iter().map(|found| found.expect("readable"));
        let regular = regular.filter(|found| found.znode.kind() == FileKind::Regular);
        for (index, found) in regular.enumerate() {
            let id = found.znode.id();
            match index % 3 {
                0 => files.truncate(id, 0).expect("truncates"),
                1 => drop(files.write(id, 0, &[7; 9000], WriteOptions::default())),
                _ => {}
            }
        }
        let root = files.root();
        for number in 0..200 {
            let new = NewFile::new(FileKind::Regular, 0o644);
            let made = files.create(root, format!("new {number}").as_bytes(), &new);
            let data = vec![number as u8; 300 * number];
            let id = made.expect("makes").id();
            files
                .write(id, 0, &data, WriteOptions::default())
                .expect("writes");
        }
        pool.sync().expect("written");
        drop(files);
        pool.dsl().close_head(dataset.id());
    }
}

fn changed(kind: &str, look: impl Fn(&Pool)) {
    let Some(golden) = Golden::find(kind).expect("readable") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    golden.copy_to(directory.path()).expect("copied");
    let candidates = pools::candidates(directory.path());
    let options = ImportOptions {
        force: true,
        ..pools::options()
    };
    let pool = cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()));
    let pool = pool.expect("imports");
    let datasets = golden.manifest.datasets.iter();
    let heads = datasets.filter(|(name, dataset)| !name.contains('@') && dataset.entries.is_some());
    let names: Vec<&String> = heads.map(|(name, _)| name).collect();
    assert!(!names.is_empty(), "{kind} has files");
    work(&pool, &names);
    look(&pool);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{kind}: {report:?}");
    pool.export().expect("exports");
    drop(pool);
    judge(directory.path(), &golden.manifest.pool);
}

#[test]
fn version_28() {
    changed("version28", |pool| {
        assert_eq!(pool.uberblock().version, 28, "nothing upgrades it");
    });
}

#[test]
fn removed_vdevs() {
    changed("device-removal", |pool| {
        let tree = pool.vdev_tree();
        let tops = tree.children.iter();
        let removed = tops.filter(|top| top.indirect_object.is_some());
        let zaps: Vec<ObjectId> = removed.filter_map(|top| top.top_zap).collect();
        assert!(!zaps.is_empty(), "a vdev was removed");
        let is_noted = zaps.iter().any(|zap| {
            let zap = pool.mos().zap(*zap).expect("readable");
            let map = zap.lookup_u64("com.delphix:indirect_obsolete_sm");
            map.expect("readable").is_some()
        });
        assert!(is_noted, "what is freed of it is noted");
    });
}
