//! File systems in whole pools that are changed here and judged by OpenZFS.

use crate::made;
use crate::pools::{self, Bench};
use cenote_base::{ObjectId, RealEnv};
use cenote_dataset::Access;
use cenote_pool::{ImportOptions, Pool, VdevShape};
use cenote_posix::write::{
    FallocateMode, NewFile, RenameMode, SetAttributes, SetXattr, WriteOptions, WriteSettings,
};
use cenote_posix::{FileKind, FileSystem};
use cenote_tests::referee::judge_golden;
use cenote_tests::test_each_golden_pool;
use cenote_vdev::AllocationClass;
use std::path::Path;
use std::sync::Arc;

const LONG_NAMES: &str = "org.zfsonlinux:longname";

fn open(pool: &Pool) -> Arc<FileSystem> {
    let dataset = pool.dsl().dataset(pool.dsl().pool_name()).expect("exists");
    let gate = pool.gate().expect("writable");
    let access = Access {
        dsl: Arc::clone(pool.dsl()),
        gate: Arc::clone(gate),
        env: Arc::new(RealEnv::new()),
        blocks: Some(Arc::clone(pool.block_writer().expect("writable"))),
        damage: None,
    };
    let settings = WriteSettings {
        posix_acls: true,
        long_names: pool.dsl().features().get(LONG_NAMES).is_some(),
        ..WriteSettings::default()
    };
    let open = Arc::new(access.open(&dataset).expect("opens"));
    let fs = FileSystem::open_writable(open, settings).expect("opens");
    fs.drain_delete_queue().expect("drains");
    Arc::new(fs)
}

/// A bit of everything, in a directory of its own; half of it is removed again.
fn work(fs: &FileSystem, pool: &Pool) {
    let root = fs.root();
    let directory = NewFile::new(FileKind::Directory, 0o755).owned_by(1000, 100);
    let top = fs.create(root, b"cenote", &directory).expect("makes").id();
    let many = fs.create(top, b"many", &directory).expect("makes").id();
    let new = NewFile::new(FileKind::Regular, 0o644).owned_by(1000, 100);
    let mut files: Vec<ObjectId> = Vec::new();
    for i in 0..3000_u64 {
        let name = format!("a file with quite a long name {i}");
        let file = fs.create(many, name.as_bytes(), &new).expect("makes").id();
        files.push(file);
        if i % 10 == 0 {
            let data: Vec<u8> = (0..i * 37).map(|byte| (byte % 251) as u8).collect();
            let written = fs.write(file, i % 700, &data, WriteOptions::default());
            written.expect("writes");
        }
        if i % 1000 == 999 {
            pool.sync().expect("syncs");
        }
    }
    if fs.write_settings().expect("writable").long_names {
        for length in [256, 1000, 1023] {
            let name = vec![b'l'; length];
            fs.create(top, &name, &new).expect("makes");
        }
    }
    let mut link = NewFile::new(FileKind::Symlink, 0o777);
    link.target = vec![b'x'; 600];
    fs.create(top, b"link", &link).expect("makes");
    let big = fs.create(top, b"big", &new).expect("makes").id();
    let data: Vec<u8> = (0..5_000_000_u32).map(|i| (i ^ (i >> 7)) as u8).collect();
    fs.write(big, 1_000_000, &data, WriteOptions::default())
        .expect("writes");
    let far = 1 << 40;
    fs.write(big, far, b"far away", WriteOptions::default())
        .expect("writes");
    for size in [10, 300, 5000, 40_000] {
        let name = format!("user.of {size}");
        let value = vec![size as u8; size];
        fs.set_xattr(big, name.as_bytes(), &value, SetXattr::Any)
            .expect("sets");
        fs.set_xattr(files[size % 100], name.as_bytes(), &value, SetXattr::Any)
            .expect("sets");
    }
    pool.sync().expect("syncs");
    fs.truncate(big, 3_000_000).expect("truncates");
    fs.fallocate(big, 1_500_000, 700_000, FallocateMode::PunchHole)
        .expect("punches");
    for i in (0..3000_u64).step_by(2) {
        let name = format!("a file with quite a long name {i}");
        fs.unlink(many, name.as_bytes()).expect("removes");
    }
    fs.rename((top, b"many"), (root, b"moved"), RenameMode::Replace)
        .expect("renames");
    fs.link(big, root, b"another name").expect("links");
    let set = SetAttributes {
        mode: Some(0o600),
        uid: Some(2000),
        ..SetAttributes::default()
    };
    fs.set_attributes(big, &set).expect("sets");
    let open = fs.create(top, b"open", &new).expect("makes").id();
    fs.write(open, 0, &[1; 100_000], WriteOptions::default())
        .expect("writes");
    fs.hold(open).expect("holds");
    fs.unlink(top, b"open").expect("removes");
    pool.sync().expect("syncs");
}

fn new_pool(bench: &mut Bench, shape: VdevShape, count: usize) -> Pool {
    let vdev = bench.vdev(shape, AllocationClass::Normal, count);
    let mut request = bench.request(vec![vdev]);
    request.format = made::empty();
    let env = Arc::new(RealEnv::new());
    cenote_pool::create(request, &pools::options(), env).expect("created")
}

#[test]
fn new_pools() {
    for (name, shape, count) in [
        ("single", VdevShape::Single, 1),
        ("raidz", VdevShape::Raidz { parity: 1 }, 4),
    ] {
        eprintln!("{name}");
        let mut bench = Bench::new(name);
        let pool = new_pool(&mut bench, shape, count);
        let fs = open(&pool);
        work(&fs, &pool);
        drop(fs);
        pool.export().expect("exports");
        drop(pool);
        bench.check();
        keep(bench.dir.path());
    }
}

/// Keeps the devices for inspection if `KEEP_POOL` names a directory.
fn keep(dir: &Path) {
    let Some(to) = std::env::var_os("KEEP_POOL") else {
        return;
    };
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        let to = Path::new(&to).join(entry.file_name());
        std::fs::copy(entry.path(), to).expect("copied");
    }
}

/// Pools of OpenZFS that are changed in their root file systems.
fn golden_pool(kind: &str) {
    let Some((dir, golden)) = pools::golden(kind) else {
        return;
    };
    let candidates = pools::candidates(dir.path());
    let options = ImportOptions {
        force: true,
        ..pools::options()
    };
    let env = Arc::new(RealEnv::new());
    let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
    let fs = open(&pool);
    work(&fs, &pool);
    drop(fs);
    pool.export().expect("exports");
    drop(pool);
    judge_golden(dir.path(), &golden);
}

test_each_golden_pool!(golden_pool);
