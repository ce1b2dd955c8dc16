//! Attributes: modes, owners, times, extended attributes, lists, quotas.

use super::{World, check, errno, settings};
use cenote_dmu::{NewObject, TxCost};
use cenote_ondisk::ObjectType;
use cenote_posix::write::{
    AccessTimes, FormatParams, NewFile, SetAttributes, SetXattr, WriteOptions, WriteSettings,
    XattrStorage,
};
use cenote_posix::{
    AccountKind, Changer, FileKind, FileSystem, POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT, Timestamp,
};
use std::collections::BTreeMap;

#[test]
fn attributes_are_kept() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let file = world.file(root, "f");
    world.write(file, 0, &[1; 100]);
    let time = |seconds| {
        Some(Timestamp {
            seconds,
            nanoseconds: 999_999_999,
        })
    };
    let set = SetAttributes {
        mode: Some(0o6711),
        uid: Some(1000),
        gid: Some(4_000_000_000),
        size: Some(50),
        accessed: time(-5),
        modified: time(1 << 40),
        ..SetAttributes::default()
    };
    fs.set_attributes(file, &set).expect("sets");
    let again = world.reopened();
    for fs in [fs, &again] {
        let znode = fs.znode(file).expect("exists");
        let attributes = znode.attributes();
        assert_eq!(attributes.mode, 0o106_711);
        assert_eq!((attributes.uid.0, attributes.gid.0), (1000, 4_000_000_000));
        assert_eq!(attributes.size, 50);
        assert_eq!(Some(attributes.accessed), time(-5));
        assert_eq!(Some(attributes.modified), time(1 << 40));
        assert!(attributes.changed.seconds > 1_600_000_000);
        let acl = fs.acl_text(&znode).expect("valid");
        assert_eq!(acl.len(), 3, "{acl:?}");
    }
    let options = WriteOptions {
        changer: Changer::Outsider,
        ..WriteOptions::default()
    };
    fs.write(file, 0, b"x", options).expect("writes");
    assert_eq!(fs.znode(file).expect("exists").attributes().mode, 0o100_711);
    check(&world.reopened());
}

#[test]
fn flags_forbid() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let file = world.file(root, "f");
    let flags = |flags| SetAttributes {
        flags: Some(flags),
        ..SetAttributes::default()
    };
    let immutable = 0x10_0000_0000;
    fs.set_attributes(file, &flags(immutable)).expect("sets");
    assert_eq!(errno(fs.write(file, 0, b"x", WriteOptions::default())), 1);
    assert_eq!(errno(fs.unlink(root, b"f")), 1);
    assert_eq!(errno(fs.set_xattr(file, b"user.a", b"", SetXattr::Any)), 1);
    let mode = SetAttributes {
        mode: Some(0),
        ..SetAttributes::default()
    };
    assert_eq!(errno(fs.set_attributes(file, &mode)), 1);
    fs.set_attributes(file, &flags(0x40_0000_0000))
        .expect("sets");
    let append = WriteOptions {
        append: true,
        ..WriteOptions::default()
    };
    fs.write(file, 0, b"more", append).expect("appends");
    assert_eq!(errno(fs.write(file, 0, b"x", WriteOptions::default())), 1);
    assert_eq!(errno(fs.truncate(file, 0)), 1);
    fs.set_attributes(file, &flags(0)).expect("sets");
    fs.unlink(root, b"f").expect("removes");
}

/// Sets and removes attributes of all sizes, compared with a map.
fn churn_xattrs(storage: XattrStorage) {
    let settings = WriteSettings {
        xattrs: storage,
        ..settings()
    };
    let world = World::with(&FormatParams::default(), settings);
    let (fs, file) = (&world.fs, world.file(world.root(), "f"));
    let mut random = crate::pool::Random::new(5);
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for step in 0..300 {
        let name = format!("user.name{}", random.below(12)).into_bytes();
        if random.below(3) == 0 {
            let expected = if model.remove(&name).is_some() { 0 } else { 61 };
            assert_eq!(errno(fs.remove_xattr(file, &name)), expected);
        } else {
            let size = [0, 10, 100, 2000, 20_000, 40_000][random.below(6) as usize];
            let value = vec![step as u8; size];
            fs.set_xattr(file, &name, &value, SetXattr::Any)
                .expect("sets");
            model.insert(name, value);
        }
        let again = (step % 50 == 49).then(|| world.reopened());
        for fs in [Some(fs), again.as_ref()].into_iter().flatten() {
            let znode = fs.znode(file).expect("exists");
            let mut names = fs.xattr_names(&znode).expect("valid");
            names.sort();
            assert!(names.iter().eq(model.keys()), "step {step}");
            for (name, value) in &model {
                let found = fs.xattr(&znode, name).expect("valid");
                assert!(found.as_ref() == Some(value), "step {step}");
            }
        }
    }
    check(&world.reopened());
    fs.unlink(world.root(), b"f").expect("removes");
    let again = world.reopened();
    check(&again);
    assert!(again.delete_queue().expect("valid").is_empty());
}

#[test]
fn extended_attributes_among_the_others() {
    churn_xattrs(XattrStorage::SystemAttributes);
}

#[test]
fn extended_attributes_as_files() {
    churn_xattrs(XattrStorage::Directory);
}

#[test]
fn extended_attributes_must_or_must_not_be_there() {
    let world = World::new();
    let (fs, file) = (&world.fs, world.file(world.root(), "f"));
    let set = |how| errno(fs.set_xattr(file, b"user.a", b"1", how));
    assert_eq!(set(SetXattr::Replace), 61);
    assert_eq!(set(SetXattr::Create), 0);
    assert_eq!(set(SetXattr::Create), 17);
    assert_eq!(set(SetXattr::Replace), 0);
    let too_large = fs.set_xattr(file, b"user.b", &[0; 65_537], SetXattr::Any);
    assert_eq!(errno(too_large), 7);
    let off = WriteSettings {
        xattrs: XattrStorage::Off,
        ..settings()
    };
    fs.set_write_settings(off).expect("writable");
    assert_eq!(set(SetXattr::Any), 95);
}

fn list(entries: &[(u16, u16)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, bits) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend(u32::MAX.to_le_bytes());
    }
    bytes
}

#[test]
fn posix_lists_are_inherited_and_follow_the_mode() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let directory = world.directory(root, "d");
    let default = list(&[(1, 7), (2, 6), (4, 5), (0x10, 7), (0x20, 5)]);
    let set = |id, name, value: &[u8]| fs.set_xattr(id, name, value, SetXattr::Any);
    set(directory, POSIX_ACL_DEFAULT, &default).expect("sets");
    let mut new = NewFile::new(FileKind::Regular, 0o666);
    new.umask = 0o777;
    let file = world.make(directory, "f", &new);
    let znode = fs.znode(file).expect("exists");
    assert_eq!(
        znode.attributes().mode,
        0o100_664,
        "the umask does not count"
    );
    let access = fs.require_xattr(&znode, POSIX_ACL_ACCESS).expect("there");
    assert_eq!(
        access,
        list(&[(1, 6), (2, 6), (4, 5), (0x10, 6), (0x20, 4)])
    );
    let inner = world.directory(directory, "inner");
    let znode = fs.znode(inner).expect("exists");
    assert_eq!(
        fs.require_xattr(&znode, POSIX_ACL_DEFAULT).expect("there"),
        default
    );
    let mode = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    fs.set_attributes(file, &mode).expect("sets");
    let znode = fs.znode(file).expect("exists");
    let access = fs.require_xattr(&znode, POSIX_ACL_ACCESS).expect("there");
    assert_eq!(
        access,
        list(&[(1, 6), (2, 6), (4, 5), (0x10, 0), (0x20, 0)])
    );
    let minimal = list(&[(1, 7), (4, 5), (0x20, 1)]);
    set(file, POSIX_ACL_ACCESS, &minimal).expect("sets");
    let again = world.reopened();
    let znode = again.znode(file).expect("exists");
    assert_eq!(znode.attributes().mode, 0o100_751);
    assert_eq!(again.xattr(&znode, POSIX_ACL_ACCESS).expect("valid"), None);
    assert_eq!(errno(set(file, POSIX_ACL_ACCESS, b"junk")), 22);
    check(&again);
}

#[test]
fn quotas_hold() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let new = NewFile::new(FileKind::Regular, 0o644).owned_by(1000, 1000);
    let file = world.make(root, "f", &new);
    world.write(file, 0, &[1; 100_000]);
    world.reopened();
    let account = |kind| {
        let account = fs.account(kind, cenote_posix::Fuid(1000)).expect("valid");
        (account.used, account.objects_used)
    };
    let (used, objects) = account(AccountKind::User);
    assert!(used > 100_000 && objects == 1, "{used} {objects}");
    assert_eq!(account(AccountKind::Group), (used, 1));
    fs.set_quota(AccountKind::User, 1000, 50_000, false)
        .expect("sets");
    assert_eq!(errno(fs.write(file, 0, b"x", WriteOptions::default())), 122);
    assert_eq!(errno(fs.create(root, b"g", &new)), 122);
    fs.truncate(file, 0).expect("freeing is always allowed");
    world.reopened();
    world.make(root, "g", &new);
    fs.set_quota(AccountKind::User, 1000, 2, true)
        .expect("sets");
    world.reopened();
    assert_eq!(errno(fs.create(root, b"h", &new)), 122);
    // Files that are there may grow: there is no limit of bytes in sight.
    fs.set_quota(AccountKind::User, 1000, 0, false)
        .expect("sets");
    world.write(file, 0, b"more");
    let other = world.file(root, "of-root");
    let give = SetAttributes {
        uid: Some(1000),
        ..SetAttributes::default()
    };
    assert_eq!(errno(fs.set_attributes(other, &give)), 122, "one more file");
    fs.set_quota(AccountKind::User, 1000, 0, true)
        .expect("sets");
    world.make(root, "h", &new);
    let again = world.reopened();
    assert!(again.master().quotas(AccountKind::User).space.is_some());
    check(&again);
}

/// Files of no project have no limit, even if one was set for its number.
#[test]
fn quotas_of_groups_and_projects_hold() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let new = NewFile::new(FileKind::Regular, 0o644).owned_by(1000, 2000);
    let file = world.make(root, "f", &new);
    world.write(file, 0, &[1; 100_000]);
    let project = SetAttributes {
        project: Some(77),
        ..SetAttributes::default()
    };
    fs.set_attributes(file, &project).expect("sets");
    world.reopened();
    let write = || errno(fs.write(file, 0, b"x", WriteOptions::default()));
    for (kind, id) in [(AccountKind::Group, 2000), (AccountKind::Project, 77)] {
        fs.set_quota(kind, id, 50_000, false).expect("sets");
        assert_eq!(write(), 122, "{kind:?}");
        fs.set_quota(kind, id, 0, false).expect("sets");
        assert_eq!(write(), 0, "{kind:?}");
        fs.set_default_quota(kind, 50_000, false).expect("sets");
        assert_eq!(write(), 122, "{kind:?} without a limit of its own");
        fs.set_quota(kind, id, 500_000, false).expect("sets");
        assert_eq!(write(), 0, "{kind:?} with one");
        fs.set_quota(kind, id, 0, false).expect("sets");
        fs.set_default_quota(kind, 0, false).expect("sets");
        assert_eq!(write(), 0, "{kind:?}");
    }
    fs.set_quota(AccountKind::Project, 0, 1, false)
        .expect("sets");
    let free = world.file(root, "free");
    world.write(free, 0, &[1; 10_000]);
    world.reopened();
    world.write(free, 0, &[2; 10_000]);
    check(&world.reopened());
}

/// Reads cost no transaction, show at once, and are on disk after a sync.
#[test]
fn reads_are_noted_by_the_rules() {
    let with = |access_times| WriteSettings {
        access_times,
        ..settings()
    };
    let world = World::with(&FormatParams::default(), with(AccessTimes::Strict));
    let (fs, root) = (&world.fs, world.root());
    let file = world.file(root, "f");
    let read = |fs: &FileSystem| fs.stat(&fs.znode(file).expect("exists")).accessed;
    let note = || fs.note_read(&fs.znode(file).expect("exists"));
    let stored = read(fs);
    let before = world.gate.dirty_bytes();
    note();
    let noted = read(fs);
    assert!(noted > stored && world.gate.dirty_bytes() == before);
    assert_eq!(read(&world.reopened()), stored, "not on disk yet");
    fs.store_access_times().expect("stores");
    assert_eq!(read(&world.reopened()), noted);
    // A change takes a mark along, unless it sets the time itself.
    note();
    let noted = read(fs);
    world.write(file, 0, b"x");
    assert_eq!(read(&world.reopened()), noted);
    note();
    let early = cenote_posix::Timestamp {
        seconds: 5,
        nanoseconds: 0,
    };
    let set = SetAttributes::accessed(early);
    fs.set_attributes(file, &set).expect("sets");
    assert_eq!(read(fs), early);
    for (rule, counts) in [
        (AccessTimes::Off, false),
        (AccessTimes::Relative, true),
        (AccessTimes::Relative, false),
    ] {
        fs.set_write_settings(with(rule)).expect("writable");
        let before = read(fs);
        note();
        assert_eq!(read(fs) > before, counts, "{rule:?}");
    }
    // The number of a file that is gone may be another's.
    fs.unlink(root, b"f").expect("removes");
    fs.store_access_times().expect("stores");
    check(&world.reopened());
}

/// File systems that were upgraded have files with the fixed structure of before.
#[test]
fn legacy_znodes_are_changed_in_place() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let mut bonus = vec![0; 264];
    let mut put = |at: usize, word: u64| bonus[at..at + 8].copy_from_slice(&word.to_le_bytes());
    for (at, word) in [(64, 4), (72, 0o100_600), (88, root.0), (96, 1), (120, 4)] {
        put(at, word);
    }
    bonus[188] = 1;
    let tx = world.gate.begin(TxCost::default()).expect("begins");
    let new = NewObject::new(ObjectType::PLAIN_FILE, 512).with_bonus(ObjectType::ZNODE, bonus);
    let file = world.set.allocate(&tx, new).expect("allocates").id();
    let zap = world.set.zap(root).expect("opens");
    zap.insert_u64(&tx, "old", 8 << 60 | file.0).expect("new");
    drop(tx);
    world.file(root, "counts the entry");
    world.write(file, 0, &[5; 3000]);
    let set = SetAttributes {
        mode: Some(0o640),
        uid: Some(7),
        ..SetAttributes::default()
    };
    fs.set_attributes(file, &set).expect("sets");
    fs.set_xattr(file, b"user.a", b"1", SetXattr::Any)
        .expect("sets");
    let project = SetAttributes {
        project: Some(1),
        ..SetAttributes::default()
    };
    assert_eq!(errno(fs.set_attributes(file, &project)), 95);
    let again = world.reopened();
    let znode = again.znode(file).expect("exists");
    let attributes = znode.attributes();
    assert_eq!((attributes.mode, attributes.uid.0), (0o100_640, 7));
    assert_eq!(attributes.size, 3000);
    assert_eq!(again.acl_text(&znode).expect("valid").len(), 3);
    assert_eq!(again.require_xattr(&znode, b"user.a").expect("there"), b"1");
    let dnode = znode.object().expect("on disk").dnode();
    assert_eq!(dnode.bonus_type, ObjectType::ZNODE);
}
