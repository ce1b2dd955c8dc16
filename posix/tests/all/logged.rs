//! Logs of real pools: synced changes survive a power cut, with every kind of sync.
//!
//! Each operation here once waited for its group, for it had no record. Now the log has all of
//! them: a cut comes right after the promise, and everything is as it was, by our replay; OpenZFS
//! finds the pool sound before and after it.

use crate::made;
use crate::pools;
use crate::power_cut::{Layout, Silent, create, files, import, plain};
use cenote_base::rt::World;
use cenote_base::{ObjectId, RealEnv};
use cenote_dataset::Access;
use cenote_pool::verify::{VerifyOptions, verify};
use cenote_pool::{Pool, VdevShape};
use cenote_posix::write::{
    CopySource, NewFile, RenameMode, SetAttributes, SetXattr, WriteOptions, WriteSettings,
};
use cenote_posix::{FLAG_NO_DUMP, FileKind, FileSystem, Timestamp};
use cenote_sim::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All of a file but some of its times: by path.
pub fn facts(fs: &Arc<FileSystem>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for found in fs.walk(fs.root()).expect("begins") {
        let found = found.expect("readable");
        let (file, now) = (&found.znode, found.znode.attributes());
        let mut contents = Vec::new();
        if file.kind() == FileKind::Regular {
            contents = vec![0xEE; usize::try_from(now.size).expect("small")];
            fs.read(file, 0, &mut contents).expect("readable");
        }
        let names = fs.xattr_names(file).expect("readable");
        let attributes = names.into_iter().map(|name| {
            let value = fs.xattr(file, &name).expect("readable");
            (name, value)
        });
        let attributes: BTreeMap<_, _> = attributes.collect();
        let text = format!(
            "{} {:o} {:?} {:x} {} {:?} {:?} {attributes:?} {contents:?}",
            file.id(),
            now.mode,
            (now.uid, now.gid, now.links, now.size, now.parent),
            now.flags,
            now.project,
            now.created,
            fs.acl(file).expect("readable"),
        );
        facts.insert(String::from_utf8(found.path).expect("as made"), text);
    }
    facts
}

fn write(fs: &FileSystem, file: ObjectId, data: &[u8]) {
    fs.write(file, 0, data, WriteOptions::default())
        .expect("writes");
}

pub fn bytes(seed: u8, length: usize) -> Vec<u8> {
    let byte = |index: usize| (index.wrapping_mul(31) >> 3) as u8 ^ seed;
    (0..length).map(byte).collect()
}

/// What had no records.
fn change(fs: &FileSystem, top: ObjectId) {
    let new = NewFile::new(FileKind::Regular, 0o644).owned_by(1000, 100);
    let one = fs.create(top, b"one", &new).expect("makes").id();
    let list = [
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 233, 3, 0, 0, 4, 0, 0, 0, 255, 255,
        255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
    ];
    fs.set_xattr(one, b"system.posix_acl_access", &list, SetXattr::Any)
        .expect("sets");
    fs.set_xattr(one, b"user.large", &bytes(3, 50_000), SetXattr::Any)
        .expect("sets");
    let source = fs.znode(top).expect("exists");
    let source = fs.lookup(&source, b"source").expect("readable");
    let source = source.expect("was made").object;
    // Whole blocks of a new file, the end among them; a part of an old one; blocks of itself.
    for (target, name, range, at) in [
        (None, b"clone".as_slice(), (0, 1_000_000), 0),
        (None, b"front", (131_072, 262_144), 0),
        (Some(one), b"", (0, 393_216), 524_288),
    ] {
        let target = target.unwrap_or_else(|| fs.create(top, name, &new).expect("makes").id());
        let (offset, length) = range;
        let from = CopySource {
            files: fs,
            id: source,
            offset,
        };
        let copied = fs.copy_range(from, target, at, length, &|| false);
        assert_eq!(copied.expect("shares"), length);
    }
    let set = SetAttributes {
        flags: Some(FLAG_NO_DUMP),
        created: Some(Timestamp::from_stored((7, 8))),
        ..SetAttributes::default()
    };
    fs.set_attributes(one, &set).expect("sets");
    fs.rename((top, b"source"), (top, b"kept"), RenameMode::Replace)
        .expect("renames");
}

/// Replays the log to disk; returns the number of its records.
pub fn replay(pool: &Pool) -> u64 {
    // The key, if there is one.
    drop(files(pool, false));
    let dataset = pool.dsl().dataset(pool.dsl().pool_name()).expect("exists");
    let access = Access {
        dsl: Arc::clone(pool.dsl()),
        gate: Arc::clone(pool.gate().expect("writable")),
        env: Arc::new(RealEnv::new()),
        blocks: Some(Arc::clone(pool.block_writer().expect("writable"))),
        damage: None,
    };
    let open = access.open(&dataset).expect("opens");
    let log = open.log().expect("readable").expect("a log is left");
    assert!(log.is_claimed(), "the import claims it");
    let since = Timestamp::from_stored((0, 0));
    let report = FileSystem::replay_log(&open, &log, WriteSettings::default(), since);
    let report = report.expect("replays");
    assert!(report.stopped.is_none(), "{report:?}");
    open.destroy_log(&log).expect("is open");
    open.end().expect("written");
    report.applied
}

fn judge(disks: &cenote_sim::Disks) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    disks.save(dir.path()).expect("room");
    cenote_tests::referee::judge(dir.path(), "world");
}

fn check(pool: &Pool, what: &str) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(
        report.complete && report.problems == 0,
        "{what}: {report:?}"
    );
}

fn promised(layout: &Layout) {
    let disks = pools::disks(1, 96 << 20);
    let pool = create(&disks, layout);
    let fs = files(&pool, true);
    let new = NewFile::new(FileKind::Directory, 0o755);
    let top = fs.create(fs.root(), b"top", &new).expect("makes").id();
    let new = NewFile::new(FileKind::Regular, 0o600);
    let source = fs.create(top, b"source", &new).expect("makes").id();
    write(&fs, source, &bytes(1, 1_000_000));
    fs.sync().expect("written");
    // The first commit begins the log, whose header comes with a group.
    for name in [b"a", b"b", b"c"] {
        fs.create(top, name, &new).expect("makes");
        fs.fsync_all().expect("durable");
        pool.sync().expect("written");
    }
    let figures = || {
        let head = fs.dataset().expect("writable").head().cloned();
        let head = head.expect("of a pool");
        head.log().expect("it is logged").figures()
    };
    let before = figures();
    disks.record();
    change(&fs, top);
    fs.fsync_all().expect("durable");
    let record = disks.take_record();
    let after = figures();
    assert_eq!(after.by_group, before.by_group, "everything has a record");
    assert_eq!(after.commits, before.commits + 1);
    let wanted = facts(&fs);
    let cut = Arc::new(disks.after(&record, record.len(), 0, &mut Random::new(1)));
    if let Some(to) = std::env::var_os("KEEP_POOL") {
        cut.save(std::path::Path::new(&to)).expect("room");
    }
    judge(&cut);
    let pool = import(&cut, false);
    check(&pool, "claimed");
    assert!(replay(&pool) > 4);
    check(&pool, "replayed");
    let fs = made::open(&pool);
    fs.drain_delete_queue().expect("drains");
    let found = facts(&fs);
    assert_eq!(
        wanted.keys().collect::<Vec<_>>(),
        found.keys().collect::<Vec<_>>()
    );
    for (path, wanted) in &wanted {
        let found = &found[path];
        assert!(wanted == found, "{path}:\n{wanted:.500}\n{found:.500}");
    }
    fs.dataset().expect("writable").end().expect("written");
    drop(fs);
    pool.export().expect("exports");
    drop(pool);
    judge(&cut);
}

#[test]
fn records_of_all_kinds() {
    let layout = plain(VdevShape::Single, 1);
    World::simulated(1).run(|| promised(&layout));
}

#[test]
fn records_of_all_kinds_encrypted() {
    let layout = Layout {
        encrypted: true,
        ..plain(VdevShape::Single, 1)
    };
    World::simulated(2).run(|| promised(&layout));
}
