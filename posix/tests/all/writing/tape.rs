//! What changes a file system says to its log, repeated in another one: both are the same then.
//!
//! An operation, its record and its replay are separate code. If one of them does something that
//! the others do not, a crash loses it, or it is wrong after a replay.

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
use cenote_posix::{
    Changer, FLAG_IMMUTABLE, FLAG_PROJECT_INHERIT, FileKind, FileSystem, PosixError, Timestamp,
};
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
        ref other => panic!("no operation makes such a record: {other:?}"),
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
        let hidden = now.xattr_directory.map(|hidden| of_hidden(fs, hidden));
        let known = (now.uid, now.gid, now.links, now.size, now.parent);
        let text = format!(
            "{} {:o} {known:?} {:x} {} {:?} {list:?} {:?} {hidden:?} {contents:?}",
            file.id(),
            now.mode,
            now.flags,
            now.project,
            now.created,
            now.xattrs,
        );
        facts.insert(found.path, text);
    }
    facts
}

/// What is in a hidden directory, and what it is counted for.
fn of_hidden(fs: &Arc<FileSystem>, id: ObjectId) -> Vec<String> {
    let directory = fs.znode(id).expect("there");
    let entries = fs.read_directory(&directory, 0).expect("readable").skip(2);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.expect("readable");
            let file = fs.znode(entry.target.object).expect("there");
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let contents = contents(fs, file.id());
            let now = file.attributes();
            let known = (now.uid, now.gid, now.links, now.project, now.flags);
            format!("{name} {} {:o} {known:?} {contents:?}", file.id(), now.mode)
        })
        .collect();
    files.sort();
    let now = directory.attributes();
    files.push(format!(
        "{id} {:o} {} {} {:x}",
        now.mode, now.size, now.project, now.flags
    ));
    files
}

fn repeat_and_compare(world: &World, tape: &Tape) {
    let other = World::new();
    let records = tape.records.lock().clone();
    for record in &records {
        match other.fs.repeat(record) {
            // What was done to a file without a name, which a replay passes over.
            Err(PosixError::NoSuchZnode { .. }) if record.is_out_of_order() => {}
            repeated => repeated.unwrap_or_else(|error| panic!("{record:?}: {error}")),
        }
    }
    let (wanted, found) = (facts(&world.fs), facts(&other.fs));
    assert_eq!(
        wanted.keys().collect::<Vec<_>>(),
        found.keys().collect::<Vec<_>>()
    );
    for (path, wanted) in &wanted {
        let found = &found[path];
        let same = wanted.bytes().zip(found.bytes());
        let same = same.take_while(|(one, other)| one == other).count();
        let from = same.saturating_sub(60);
        assert!(
            wanted == found,
            "{}: {wanted:.60}… at {same}:\n{:.300}\n{:.300}",
            String::from_utf8_lossy(path),
            &wanted[from..],
            &found[from..]
        );
    }
    check(&other.fs);
}

/// A list of POSIX that stands for a mode, and says more unless it is minimal.
fn posix_list(mode: u64, is_minimal: bool) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let mut entry = |tag: u16, bits: u64, id: u32| {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(u16::try_from(bits & 7).expect("three bits").to_le_bytes());
        bytes.extend(id.to_le_bytes());
    };
    entry(0x01, mode >> 6, u32::MAX);
    if !is_minimal {
        entry(0x02, 6, 1001);
    }
    entry(0x04, mode >> 3, u32::MAX);
    if !is_minimal {
        entry(0x10, mode >> 3, u32::MAX);
    }
    entry(0x20, mode, u32::MAX);
    bytes
}

/// A list of POSIX.
fn change_posix_list(fs: &FileSystem, one: ObjectId, random: &mut Random) {
    let modes = [0o700, 0o644, 0o070, 0o007];
    let index = usize::try_from(random.below(4)).expect("small");
    let list = posix_list(modes[index], random.below(3) == 0);
    let list_name = match random.below(3) {
        0 => &b"system.posix_acl_default"[..],
        _ => b"system.posix_acl_access",
    };
    let how = match random.below(2) {
        0 => SetXattr::Any,
        _ => SetXattr::ByStranger,
    };
    match random.below(4) {
        0 => drop(fs.remove_xattr(one, list_name)),
        _ => drop(fs.set_xattr(one, list_name, &list, how)),
    }
}

/// An attribute, in a list or in a hidden directory.
fn change_xattr(fs: &FileSystem, one: ObjectId, random: &mut Random) {
    let name = format!("user.x{}", random.below(4)).into_bytes();
    let lengths = [1, 300, 20_000, 34_000, 60_000];
    let length = lengths[usize::try_from(random.below(5)).expect("small")];
    let value = vec![u8::try_from(random.below(256)).expect("small"); length];
    match random.below(4) {
        0 => drop(fs.remove_xattr(one, &name)),
        _ => drop(fs.set_xattr(one, &name, &value, SetXattr::Any)),
    }
}

/// Flags, project and time of creation.
fn change_flags(fs: &FileSystem, one: ObjectId, random: &mut Random) {
    let flags = [0x80 << 32, 0x8 << 32, FLAG_PROJECT_INHERIT, 0x2 << 32];
    let flags = flags.map(|flag| flag * random.below(2));
    let set = SetAttributes {
        flags: Some(flags.iter().sum()),
        project: (random.below(2) == 0).then(|| random.below(5)),
        created: (random.below(2) == 0).then(|| Timestamp::from_stored((66, 4))),
        ..SetAttributes::default()
    };
    drop(fs.set_attributes(one, &set));
}

/// Mode, owner and a time.
fn change_attributes(fs: &FileSystem, one: ObjectId, random: &mut Random) {
    let set = SetAttributes {
        mode: (random.below(2) == 0).then(|| random.below(0o10000)),
        uid: (random.below(2) == 0).then(|| random.below(5)),
        modified: Some(Timestamp::from_stored((77, 5))),
        ..SetAttributes::default()
    };
    drop(fs.set_attributes(one, &set));
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
    match random.below(16) {
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
                changer: match random.below(2) {
                    0 => Changer::Outsider,
                    _ => Changer::Privileged,
                },
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
        11 => change_posix_list(fs, one, random),
        12 => change_xattr(fs, one, random),
        13 => change_flags(fs, one, random),
        _ => change_attributes(fs, one, random),
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
    // All users below may read, and one may write.
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
    // Changes without a record are reported as unlogged.
    let unlogged = || *tape.unlogged.lock();
    fs.set_xattr(file, b"user.empty", b"", SetXattr::Any)
        .expect("set");
    assert!(unlogged() > 0, "a record without a value removes");
    let before = unlogged();
    let new = NewFile::new(FileKind::Regular, 0o600);
    let unnamed = fs.create_unnamed(top, &new).expect("made").id();
    world.write(unnamed, 0, &[9; 40_001]);
    fs.link(unnamed, top, b"named").expect("linked");
    assert!(unlogged() > before, "a name and its contents are one");
}

/// `fsync` waited for the whole transaction group after a POSIX list, a large attribute or chattr,
/// in every file of the dataset: none of these had records.
#[test]
fn lists_large_attributes_and_flags_have_records() {
    let (world, tape) = taped();
    let fs = &world.fs;
    let top = world.directory(world.root(), "top");
    let file = world.file(top, "file");
    // The setgid bit and an NFSv4 list that said more go with the list.
    let mode = SetAttributes {
        mode: Some(0o2770),
        ..SetAttributes::default()
    };
    fs.set_attributes(file, &mode).expect("set");
    let ace = |who, mask| Ace {
        ace_type: 0,
        flags: 0,
        mask,
        who,
    };
    let list = [ace(Who::User(7), 0x7), ace(Who::Group(8), 0x1)];
    fs.set_access_list(file, &list).expect("set");
    let access = b"system.posix_acl_access";
    let list = posix_list(0o640, false);
    fs.set_xattr(file, access, &list, SetXattr::ByStranger)
        .expect("set");
    let list = posix_list(0o750, false);
    fs.set_xattr(top, b"system.posix_acl_default", &list, SetXattr::Any)
        .expect("set");
    let inner = world.directory(top, "inner");
    world.file(inner, "inherits");
    // Larger than a record may be, longer than before, shorter, and gone.
    for length in [60_000, 64 << 10, 33_000] {
        let value = vec![7; length];
        fs.set_xattr(file, b"user.large", &value, SetXattr::Any)
            .expect("in a file of its own");
    }
    fs.set_xattr(file, b"user.gone", &[8; 60_000], SetXattr::Any)
        .expect("in a file of its own");
    fs.remove_xattr(file, b"user.gone").expect("removed");
    let flags = SetAttributes {
        flags: Some(FLAG_IMMUTABLE),
        ..SetAttributes::default()
    };
    fs.set_attributes(top, &flags).expect("set");
    assert_eq!(*tape.unlogged.lock(), 0);
    repeat_and_compare(&world, &tape);
}
