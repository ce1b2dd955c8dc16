//! A commit of one file makes changes of others durable, too: each must be in a state that existed.
//!
//! A commit includes all changes of names, but only the requested objects. What belongs to a change
//! of names has to come with it.

use crate::logged::{bytes, facts, replay};
use crate::made;
use crate::pools;
use crate::power_cut::{create, import, plain};
use cenote_base::ObjectId;
use cenote_base::rt::World;
use cenote_pool::{Pool, VdevShape};
use cenote_posix::write::{NewFile, RenameMode, SetXattr, WriteOptions};
use cenote_posix::{FileKind, FileSystem, Znode};
use cenote_sim::{Disks, Random};
use std::sync::Arc;

/// Owner rwx, user 1001 r-x, group r-x, mask rwx, other ---.
const LIST: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 233, 3, 0, 0, 4, 0, 5, 0, 255, 255,
    255, 255, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

struct Fixture {
    disks: Arc<Disks>,
    pool: Pool,
    fs: Arc<FileSystem>,
    top: ObjectId,
    other: ObjectId,
}

impl Fixture {
    /// A file system whose log has begun, with a directory that has a default list.
    fn new() -> Self {
        let disks = pools::disks(1, 96 << 20);
        let pool = create(&disks, &plain(VdevShape::Single, 1));
        let fs = made::open(&pool);
        let new = NewFile::new(FileKind::Directory, 0o755);
        let top = fs.create(fs.root(), b"top", &new).expect("makes").id();
        let name = b"system.posix_acl_default";
        fs.set_xattr(top, name, &LIST, SetXattr::Any).expect("sets");
        let new = NewFile::new(FileKind::Regular, 0o666);
        let other = fs.create(top, b"other", &new).expect("makes").id();
        for _ in 0..3 {
            write(&fs, other, 0, 1, 10);
            fs.fsync_all().expect("durable");
            pool.sync().expect("written");
        }
        disks.record();
        Self {
            disks,
            pool,
            fs,
            top,
            other,
        }
    }

    fn make(&self, name: &[u8]) -> ObjectId {
        let new = NewFile::new(FileKind::Regular, 0o666);
        self.fs.create(self.top, name, &new).expect("makes").id()
    }

    fn rename(&self, from: &[u8], to: &[u8], mode: RenameMode) {
        let (from, to) = ((self.top, from), (self.top, to));
        self.fs.rename(from, to, mode).expect("renames");
    }

    /// Makes the other file durable, by the log or by a group, and cuts the power: what is there
    /// afterwards.
    fn cut(self, is_logged: bool) -> (Pool, Arc<FileSystem>) {
        let synced = self.pool.synced_txg();
        write(&self.fs, self.other, 0, 2, 20);
        self.fs.fsync(self.other).expect("durable");
        let record = self.disks.take_record();
        let mut random = Random::new(1);
        let cut = Arc::new(self.disks.after(&record, record.len(), 0, &mut random));
        let pool = import(&cut, false);
        let by_group = pool.opened_uberblock().txg > synced;
        assert_eq!(by_group, !is_logged);
        if is_logged {
            assert!(replay(&pool) > 0);
        }
        let fs = made::open(&pool);
        (pool, fs)
    }
}

fn write(fs: &FileSystem, file: ObjectId, offset: u64, seed: u8, length: usize) {
    let data = bytes(seed, length);
    fs.write(file, offset, &data, WriteOptions::default())
        .expect("writes");
}

fn file(fs: &FileSystem, name: &[u8]) -> Arc<Znode> {
    let root = fs.znode(fs.root()).expect("exists");
    let top = fs.lookup_znode(&root, b"top").expect("exists");
    fs.lookup_znode(&top, name).expect("exists")
}

fn contents(fs: &FileSystem, name: &[u8]) -> Vec<u8> {
    let file = file(fs, name);
    let size = usize::try_from(file.attributes().size).expect("small");
    let mut contents = vec![0xEE; size];
    fs.read(&file, 0, &mut contents).expect("readable");
    contents
}

/// A file was made in a directory with a default list, and another file synced. After a crash it
/// was there without the list, and its mode let the whole group in. So was a whiteout, in any case.
#[test]
fn new_files_have_their_inherited_lists() {
    World::simulated(1).run(|| {
        let fixture = Fixture::new();
        fixture.make(b"made");
        let new = NewFile::new(FileKind::Directory, 0o777);
        let made = fixture.fs.create(fixture.top, b"below", &new);
        made.expect("makes");
        fixture.make(b"moved");
        fixture.rename(b"moved", b"away", RenameMode::Whiteout);
        let wanted = facts(&fixture.fs);
        let (_pool, fs) = fixture.cut(true);
        let found = facts(&fs);
        for path in ["top/made", "top/below", "top/moved", "top/away"] {
            let (wanted, found) = (&wanted[path], &found[path]);
            assert!(wanted == found, "{path}:\n{wanted:.500}\n{found:.500}");
        }
    });
}

/// A file was written, renamed and partly overwritten, and another file synced. The log read the
/// first write only then, with bytes of the second, of which it had no record: the file was as
/// long as before and had contents of both.
#[test]
fn what_a_rename_took_along_is_not_mixed_with_later_writes() {
    World::simulated(2).run(|| {
        for (offset, is_hit) in [(30_000, true), (60_000, false)] {
            let fixture = Fixture::new();
            let file = fixture.make(b"new");
            write(&fixture.fs, file, 0, 5, 60_000);
            fixture.rename(b"new", b"name", RenameMode::Replace);
            let before = contents(&fixture.fs, b"name");
            write(&fixture.fs, file, offset, 6, 60_000);
            let after = contents(&fixture.fs, b"name");
            // Only what is overwritten waits for its group.
            let (_pool, fs) = fixture.cut(!is_hit);
            let found = contents(&fs, b"name");
            assert!(found == before || found == after, "{offset}");
        }
    });
}

/// The times of a truncation had whole seconds after a replay, and were before times that other
/// files had earlier.
#[test]
fn a_truncated_file_has_its_times() {
    World::simulated(3).run(|| {
        let fixture = Fixture::new();
        let times = |fs: &FileSystem, name: &[u8]| {
            let file = file(fs, name);
            (file.attributes().modified, file.attributes().changed)
        };
        for (name, size) in [(b"shorter".as_slice(), 10), (b"longer", 10_000)] {
            let file = fixture.make(name);
            write(&fixture.fs, file, 0, 7, 1000);
            fixture.fs.truncate(file, size).expect("truncates");
            fixture.fs.fsync(file).expect("durable");
        }
        let names = [b"shorter".as_slice(), b"longer"];
        let wanted = names.map(|name| times(&fixture.fs, name));
        let (_pool, fs) = fixture.cut(true);
        assert_eq!(names.map(|name| times(&fs, name)), wanted);
    });
}

/// An extended attribute was in a file of its own, and got a value that is short enough for the
/// list. The log had the removal of that file among the changes of names, but the list only when
/// the attribute's owner was synced: after a crash there was no value at all.
#[test]
fn an_attribute_that_moves_is_never_without_a_value() {
    World::simulated(4).run(|| {
        for (before, after) in [(40_000, 10), (10, 40_000)] {
            let fixture = Fixture::new();
            let (fs, name) = (&fixture.fs, b"user.moving");
            let owner = fixture.make(b"owner");
            let set = |length| {
                let value = bytes(8, length);
                fs.set_xattr(owner, name, &value, SetXattr::Any)
                    .expect("sets");
                value
            };
            let old = set(before);
            fs.fsync(owner).expect("durable");
            let new = set(after);
            let (_pool, fs) = fixture.cut(true);
            let found = fs.xattr(&file(&fs, b"owner"), name).expect("readable");
            let found = found.expect("it has a value");
            assert!(found == old || found == new, "{} bytes", found.len());
            let names = fs.xattr_names(&file(&fs, b"owner")).expect("readable");
            let count = names.iter().filter(|found| found.as_slice() == name);
            assert_eq!(count.count(), 1);
        }
    });
}
