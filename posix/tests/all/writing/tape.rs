//! What changes a file system says to its log, repeated in another one: both are the same then.
//!
//! An operation, its record and its replay are written apart. Whatever one of them does and the
//! others do not is lost in a crash, or comes back wrong.

use super::{World, check, contents};
use crate::pool::Random;
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_dataset::LogSink;
use cenote_dmu::Transaction;
use cenote_ondisk::acl::{Ace, Who};
use cenote_ondisk::intent_log::record::{
    AclBody, Create, Record, RecordBody, SetAttributes as SetRecord, WriteData, record_type,
};
use cenote_posix::write::{
    FallocateMode, NewFile, RenameMode, SetAttributes, SetXattr, WriteOptions,
};
use cenote_posix::{FileKind, FileSystem, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

/// Keeps the records of one file system.
#[derive(Debug, Default)]
struct Tape {
    files: OnceLock<Weak<FileSystem>>,
    records: Mutex<Vec<Record<'static>>, ranks::Unranked>,
    unlogged: Mutex<u64, ranks::Unranked>,
}

/// Bytes for as long as the test runs.
fn keep(bytes: &[u8]) -> &'static [u8] {
    Box::leak(bytes.to_vec().into_boxed_slice())
}

fn keep_list(acl: AclBody<'_>) -> AclBody<'static> {
    AclBody {
        count: acl.count,
        flags: acl.flags,
        entries: keep(acl.entries),
        ids: keep(acl.ids),
    }
}

fn keep_create(create: &Create<'_>) -> Create<'static> {
    Create {
        directory: create.directory,
        new: create.new,
        mode: create.mode,
        uid: create.uid,
        gid: create.gid,
        generation: create.generation,
        crtime: create.crtime,
        device: create.device,
        attributes: create.attributes,
        acl: create.acl.map(keep_list),
        domains: keep(create.domains),
        name: keep(create.name),
        target: create.target.map(keep),
    }
}

// tidy: allow(long-function, one arm for each operation, so that none is forgotten)
fn keep_body(body: &RecordBody<'_>) -> RecordBody<'static> {
    match *body {
        RecordBody::Create(ref create) => RecordBody::Create(keep_create(create)),
        RecordBody::Remove { directory, name } => RecordBody::Remove {
            directory,
            name: keep(name),
        },
        RecordBody::Link {
            directory,
            object,
            name,
        } => RecordBody::Link {
            directory,
            object,
            name: keep(name),
        },
        RecordBody::Rename {
            source_directory,
            target_directory,
            source,
            target,
            whiteout,
        } => RecordBody::Rename {
            source_directory,
            target_directory,
            source: keep(source),
            target: keep(target),
            whiteout,
        },
        RecordBody::Write {
            object,
            offset,
            length,
            data: WriteData::Immediate(data),
        } => RecordBody::Write {
            object,
            offset,
            length,
            data: WriteData::Immediate(keep(data)),
        },
        RecordBody::Truncate {
            object,
            offset,
            length,
        } => RecordBody::Truncate {
            object,
            offset,
            length,
        },
        RecordBody::SetAttributes(ref set) => RecordBody::SetAttributes(SetRecord {
            object: set.object,
            mask: set.mask,
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            atime: set.atime,
            mtime: set.mtime,
            attributes: set.attributes,
            domains: &[],
        }),
        RecordBody::Acl { object, acl, .. } => RecordBody::Acl {
            object,
            acl: keep_list(acl),
            is_old: false,
            domains: &[],
        },
        RecordBody::SetXattr {
            object,
            name,
            value,
        } => RecordBody::SetXattr {
            object,
            name: keep(name),
            value: value.map(keep),
        },
        ref other => panic!("nobody makes such a record: {other:?}"),
    }
}

impl LogSink for Tape {
    fn append(&self, tx: &Transaction, record: &Record<'_>) {
        assert_eq!(record.txg, tx.txg());
        self.records.lock().push(Record {
            record_type: record.record_type,
            case_insensitive: record.case_insensitive,
            txg: record.txg,
            sequence: 0,
            body: keep_body(&record.body),
        });
    }

    fn append_write(&self, tx: &Transaction, object: ObjectId, offset: u64, length: u64) {
        let files = self.files.get().and_then(Weak::upgrade).expect("it writes");
        let file = files.znode(object).expect("it was written to");
        let mut data = vec![0; usize::try_from(length).expect("small")];
        let read = files.read(&file, offset, &mut data).expect("readable");
        assert_eq!(read, data.len());
        let data = WriteData::Immediate(&data);
        let body = RecordBody::Write {
            object,
            offset,
            length,
            data,
        };
        let record = Record {
            record_type: record_type::WRITE,
            case_insensitive: false,
            txg: tx.txg(),
            sequence: 0,
            body,
        };
        self.append(tx, &record);
    }

    fn append_unlogged(&self, _: &Transaction) {
        *self.unlogged.lock() += 1;
    }

    // All is in the order in which it was done.
    fn put_in_order(&self, _: ObjectId) {}

    fn forget(&self, _: ObjectId) {}
}

fn taped() -> (World, Arc<Tape>) {
    let world = World::new();
    let tape = Arc::new(Tape::default());
    tape.files.set(Arc::downgrade(&world.fs)).expect("once");
    let sink = Arc::clone(&tape) as Arc<dyn LogSink>;
    world.fs.dataset().expect("writable").set_log_sink(sink);
    (world, tape)
}

/// All of a file but its times: by path.
fn facts(fs: &Arc<FileSystem>) -> BTreeMap<Vec<u8>, String> {
    let mut facts = BTreeMap::new();
    for found in fs.walk(fs.root()).expect("begins") {
        let found = found.expect("readable");
        let (file, now) = (&found.znode, found.znode.attributes());
        let contents = match file.kind() {
            FileKind::Regular => contents(fs, file.id()),
            FileKind::Symlink => fs.read_link(file).expect("readable"),
            _ => Vec::new(),
        };
        let list = fs.acl(file).expect("readable");
        let known = (now.uid, now.gid, now.links, now.size, now.parent);
        let text = format!(
            "{} {:o} {known:?} {:x} {list:?} {:?} {contents:?}",
            file.id(),
            now.mode,
            now.flags,
            now.xattrs,
        );
        facts.insert(found.path, text);
    }
    facts
}

fn repeat_and_compare(world: &World, tape: &Tape) {
    let other = World::new();
    let records = tape.records.lock().clone();
    for record in &records {
        let repeated = other.fs.repeat(record);
        repeated.unwrap_or_else(|error| panic!("{record:?}: {error}"));
    }
    let (wanted, found) = (facts(&world.fs), facts(&other.fs));
    assert_eq!(
        wanted.keys().collect::<Vec<_>>(),
        found.keys().collect::<Vec<_>>()
    );
    for (path, wanted) in &wanted {
        assert!(
            *wanted == found[path],
            "{}:\n{:.400}\n{:.400}",
            String::from_utf8_lossy(path),
            wanted,
            found[path]
        );
    }
    check(&other.fs);
}

/// One random change; most of them are refused now and then, which leaves no record.
fn change(world: &World, known: &mut Vec<ObjectId>, random: &mut Random) {
    let fs = &world.fs;
    let any = |random: &mut Random| {
        let index = usize::try_from(random.below(known.len() as u64)).expect("small");
        known[index]
    };
    let name = |random: &mut Random| format!("n{}", random.below(12)).into_bytes();
    let (one, two) = (any(random), any(random));
    let (old, new) = (name(random), name(random));
    match random.below(12) {
        0..3 => {
            let kinds = [FileKind::Directory, FileKind::Regular, FileKind::Symlink];
            let kind = kinds[usize::try_from(random.below(3)).expect("small")];
            let mut file = NewFile::new(kind, 0o2751).owned_by(random.below(3), 7);
            if kind == FileKind::Symlink {
                file.target = b"where".to_vec();
            }
            if let Ok(made) = fs.create(one, &old, &file) {
                known.push(made.id());
            }
        }
        3 => drop(fs.unlink(one, &old)),
        4 => drop(fs.rmdir(one, &old)),
        5 => drop(fs.link(one, two, &new)),
        6 | 7 => {
            let modes = [
                RenameMode::Replace,
                RenameMode::NoReplace,
                RenameMode::Exchange,
                RenameMode::Whiteout,
            ];
            let mode = modes[usize::try_from(random.below(4)).expect("small")];
            drop(fs.rename((one, &old), (two, &new), mode));
        }
        8 => {
            let length = usize::try_from(random.below(50_000)).expect("small");
            let data = vec![u8::try_from(random.below(256)).expect("small"); length];
            let options = WriteOptions {
                kill_privileges: random.below(2) == 0,
                ..WriteOptions::default()
            };
            drop(fs.write(one, random.below(40_000), &data, options));
        }
        9 => drop(fs.truncate(one, random.below(60_000))),
        10 => {
            let modes = [
                FallocateMode::PunchHole,
                FallocateMode::ZeroRange { keep_size: false },
                FallocateMode::Allocate { keep_size: false },
            ];
            let mode = modes[usize::try_from(random.below(3)).expect("small")];
            let (offset, length) = (random.below(50_000), random.below(30_000) + 1);
            drop(fs.fallocate(one, offset, length, mode));
        }
        _ => {
            let set = SetAttributes {
                mode: (random.below(2) == 0).then(|| random.below(0o10000)),
                uid: (random.below(2) == 0).then(|| random.below(5)),
                modified: Some(Timestamp::from_stored((77, 5))),
                ..SetAttributes::default()
            };
            drop(fs.set_attributes(one, &set));
        }
    }
}

#[test]
fn records_repeat_what_was_done() {
    for seed in 1..4 {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let (world, tape) = taped();
        let mut known = vec![world.root()];
        for _ in 0..1500 {
            change(&world, &mut known, &mut random);
        }
        assert_eq!(*tape.unlogged.lock(), 0, "there is a record for everything");
        repeat_and_compare(&world, &tape);
    }
}

#[test]
fn records_have_lists_attributes_and_what_is_inherited() {
    let (world, tape) = taped();
    let fs = &world.fs;
    let top = world.directory(world.root(), "top");
    // Everybody below may read, and somebody write.
    let ace = |who, class: u16, mask| Ace {
        ace_type: 0,
        // For files and directories below; the class is in the flags, too.
        flags: 0x3 | class,
        mask,
        who,
    };
    let list = [
        ace(Who::User(1001), 0, 0x6),
        ace(Who::Owner, 0x1000, 0x1F_01FF),
        ace(Who::Everyone, 0x4000, 0x1),
    ];
    fs.set_access_list(top, &list).expect("set");
    let inner = world.directory(top, "inner");
    let file = world.file(inner, "file");
    for (name, value) in [(&b"user.one"[..], &b"1"[..]), (b"user.two", b"22")] {
        fs.set_xattr(file, name, value, SetXattr::Any).expect("set");
    }
    fs.remove_xattr(file, b"user.one").expect("removed");
    assert_eq!(*tape.unlogged.lock(), 0);
    repeat_and_compare(&world, &tape);
    // What no record tells is said.
    let unlogged = || *tape.unlogged.lock();
    let large = vec![7; 60 << 10];
    fs.set_xattr(file, b"user.large", &large, SetXattr::Any)
        .expect("in a file of its own");
    assert!(unlogged() > 0, "hidden directories have no records");
    let before = unlogged();
    let new = NewFile::new(FileKind::Regular, 0o600);
    let unnamed = fs.create_unnamed(top, &new).expect("made").id();
    fs.link(unnamed, top, b"named").expect("linked");
    assert!(unlogged() > before, "no record made the file");
}
