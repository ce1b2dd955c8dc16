//! Changes that fail half way: nothing of them stays.
//!
//! A directory of names that differ only in case lost most of them: its table could not become a
//! fat one, which was found after the old form was given up, and that was written to disk. Here
//! each operation fails at its first step that can fail, at its second, and so on until none is
//! left to fail. Afterwards everything is as before the operation, in memory and on disk, or as
//! after it.

use super::{World, check, errno, settings};
use cenote_base::ObjectId;
use cenote_posix::write::{
    FallocateMode, FormatParams, NewFile, RenameMode, SetAttributes, SetXattr, WriteOptions,
    WriteSettings, XattrStorage,
};
use cenote_posix::{
    AccountKind, Ace, CaseSensitivity, FileKind, FileSystem, NameRules, PosixError, Who,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What is in a file system: by path, with the numbers of objects and the times or without.
type Facts = BTreeMap<String, String>;

/// Bytes, as facts have them.
fn digest(bytes: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    (bytes.len(), hasher.finish())
}

fn facts(fs: &Arc<FileSystem>, is_exact: bool) -> Facts {
    let mut facts = Facts::new();
    let mut seen: BTreeMap<ObjectId, String> = BTreeMap::new();
    for found in fs.walk(fs.root()).expect("begins") {
        let found = found.expect("readable");
        let path = String::from_utf8_lossy(&found.path).into_owned();
        let (file, now) = (&found.znode, found.znode.attributes());
        if let Some(text) = seen.get(&file.id()) {
            facts.insert(path, text.clone());
            continue;
        }
        let contents = match file.kind() {
            FileKind::Regular => digest(&super::contents(fs, file.id())),
            _ => (0, 0),
        };
        let names = fs.xattr_names(file).expect("readable");
        let value = |name: Vec<u8>| {
            let value = fs.xattr(file, &name).expect("readable");
            (name, value.map(|value| digest(&value)))
        };
        let attributes: BTreeMap<_, _> = names.into_iter().map(value).collect();
        let exact = is_exact.then(|| (file.id(), now.parent, now.modified, now.changed));
        let text = format!(
            "{:o} {:?} {:x} {} {:?} {attributes:?} {contents:?} {exact:?}",
            now.mode,
            (now.uid, now.gid, now.links, now.size),
            now.flags,
            now.project,
            fs.acl(file).expect("readable"),
        );
        seen.insert(file.id(), text.clone());
        facts.insert(path, text);
    }
    if is_exact {
        let objects = fs.set().objects(ObjectId(1));
        let objects: BTreeSet<_> = objects.map(|found| found.expect("valid").0).collect();
        let queue = fs.delete_queue().expect("readable");
        facts.insert("objects".to_owned(), format!("{objects:?} {queue:?}"));
    }
    facts
}

/// The files in each world before its operation.
struct Scene {
    world: World,
    top: ObjectId,
    other: ObjectId,
    wide: ObjectId,
    file: ObjectId,
    unnamed: ObjectId,
    gone: ObjectId,
}

fn list(bytes: &[u8]) -> Vec<u8> {
    let mut list = vec![2, 0, 0, 0];
    for entry in bytes.chunks(3) {
        list.extend([entry[0], 0, entry[1], 0, 255, 255, 255, 255]);
        if entry[2] != 255 {
            let at = list.len() - 4;
            list[at..].copy_from_slice(&[entry[2], 0, 0, 0]);
        }
    }
    list
}

impl Scene {
    fn new(version: u64, xattrs: XattrStorage, long_names: u32) -> Self {
        let params = FormatParams {
            version,
            projects: version == 5,
            ..FormatParams::default()
        };
        let settings = WriteSettings {
            xattrs,
            ..settings()
        };
        let world = World::with(&params, settings);
        let top = world.directory(world.root(), "top");
        let other = world.directory(world.root(), "other");
        let file = world.file(top, "file");
        world.write(file, 0, &[7; 40_000]);
        let fs = Arc::clone(&world.fs);
        let set = |id, name: &[u8], length| {
            let value = vec![5; length];
            fs.set_xattr(id, name, &value, SetXattr::Any).expect("sets");
        };
        set(file, b"user.small", 10);
        set(file, b"user.large", 50_000);
        for name in ["a", "b", "c"] {
            let made = world.file(other, name);
            world.write(made, 0, b"contents");
            set(made, b"user.large", 40_000);
        }
        world.directory(other, "empty");
        // The table of names is full to a sector in one directory, and to a leaf in the other.
        for number in 0..7 {
            world.file(top, &format!("{number}"));
        }
        let wide = world.directory(world.root(), "wide");
        for number in 0..long_names {
            let name = format!("{number:0>60}");
            world.fs.link(file, wide, name.as_bytes()).expect("links");
        }
        let new = NewFile::new(FileKind::Regular, 0o600);
        let unnamed = fs.create_unnamed(top, &new).expect("makes").id();
        let gone = world.file(top, "gone");
        fs.hold(gone).expect("holds");
        fs.unlink(top, b"gone").expect("removes");
        drop(world.reopened());
        Self {
            world,
            top,
            other,
            wide,
            file,
            unnamed,
            gone,
        }
    }
}

type Operation = (
    &'static str,
    fn(&Scene, &FileSystem) -> Result<(), PosixError>,
);

fn set(scene: &Scene, set: SetAttributes) -> Result<(), PosixError> {
    let changed = scene.world.fs.set_attributes(scene.file, &set);
    changed.map(drop)
}

const NAMES: &[Operation] = &[
    ("create", |s, fs| {
        let new = NewFile::new(FileKind::Regular, 0o644);
        fs.create(s.top, b"new", &new).map(drop)
    }),
    ("create with a long name", |s, fs| {
        let new = NewFile::new(FileKind::Directory, 0o755);
        fs.create(s.other, &[b'n'; 200], &new).map(drop)
    }),
    ("create in a table that splits", |s, fs| {
        // The name that splits it when it is the next one.
        let names = fs.znode(s.wide)?.attributes().size - 2;
        let name = format!("{names:0>60}");
        fs.link(s.file, s.wide, name.as_bytes()).map(drop)
    }),
    ("symlink", |s, fs| {
        let mut new = NewFile::new(FileKind::Symlink, 0o777);
        new.target = vec![b't'; 1000];
        fs.create(s.top, b"link", &new).map(drop)
    }),
    ("unnamed", |s, fs| {
        let new = NewFile::new(FileKind::Regular, 0o644);
        fs.create_unnamed(s.top, &new).map(drop)
    }),
    ("link", |s, fs| fs.link(s.file, s.other, b"more").map(drop)),
    ("name the unnamed", |s, fs| {
        fs.link(s.unnamed, s.other, b"named").map(drop)
    }),
    ("unlink", |s, fs| fs.unlink(s.top, b"3").map(drop)),
    ("unlink with attributes", |s, fs| {
        fs.unlink(s.other, b"b").map(drop)
    }),
    ("rmdir", |s, fs| fs.rmdir(s.other, b"empty").map(drop)),
    ("release", |s, fs| fs.release(s.gone)),
    ("rename", |s, fs| {
        let moved = fs.rename((s.top, b"file"), (s.top, b"8"), RenameMode::NoReplace);
        moved.map(drop)
    }),
    ("rename over another", |s, fs| {
        let moved = fs.rename((s.top, b"file"), (s.other, b"a"), RenameMode::Replace);
        moved.map(drop)
    }),
    ("rename a directory", |s, fs| {
        let moved = fs.rename(
            (fs.root(), b"top"),
            (s.other, b"empty"),
            RenameMode::Replace,
        );
        moved.map(drop)
    }),
    ("exchange", |s, fs| {
        let moved = fs.rename((s.top, b"5"), (s.other, b"empty"), RenameMode::Exchange);
        moved.map(drop)
    }),
    ("whiteout", |s, fs| {
        let moved = fs.rename((s.top, b"5"), (s.other, b"c"), RenameMode::Whiteout);
        moved.map(drop)
    }),
];

const ATTRIBUTES: &[Operation] = &[
    ("chmod", |s, _| {
        let mode = Some(0o4711);
        set(
            s,
            SetAttributes {
                mode,
                ..SetAttributes::default()
            },
        )
    }),
    ("chown and truncate", |s, _| {
        let (uid, gid, size) = (Some(5), Some(6), Some(100));
        set(
            s,
            SetAttributes {
                uid,
                gid,
                size,
                ..SetAttributes::default()
            },
        )
    }),
    ("small attribute", |s, fs| {
        fs.set_xattr(s.file, b"user.next", b"value", SetXattr::Any)
    }),
    ("spilled attribute", |s, fs| {
        fs.set_xattr(s.file, b"user.next", &[1; 3000], SetXattr::Any)
    }),
    ("large attribute", |s, fs| {
        fs.set_xattr(s.file, b"user.next", &[1; 60_000], SetXattr::Any)
    }),
    ("first large attribute", |s, fs| {
        fs.set_xattr(s.unnamed, b"user.next", &[1; 60_000], SetXattr::Any)
    }),
    ("attribute that becomes large", |s, fs| {
        fs.set_xattr(s.file, b"user.small", &[1; 60_000], SetXattr::Any)
    }),
    ("attribute that becomes small", |s, fs| {
        fs.set_xattr(s.file, b"user.large", b"value", SetXattr::Any)
    }),
    ("remove an attribute", |s, fs| {
        fs.remove_xattr(s.file, b"user.large")
    }),
    ("access list", |s, fs| {
        let list = list(&[1, 6, 255, 2, 4, 9, 4, 0, 255, 16, 4, 255, 32, 0, 255]);
        fs.set_xattr(s.file, b"system.posix_acl_access", &list, SetXattr::Any)
    }),
    ("default list, inherited", |s, fs| {
        let list = list(&[1, 6, 255, 2, 4, 9, 4, 0, 255, 16, 4, 255, 32, 0, 255]);
        fs.set_xattr(s.top, b"system.posix_acl_default", &list, SetXattr::Any)
    }),
    ("list of NFSv4", |s, fs| {
        let ace = |id| Ace {
            who: Who::User(id),
            ..fs.acl(&fs.znode(s.file).expect("exists")).expect("valid")[0]
        };
        let aces: Vec<_> = (1..30).map(ace).collect();
        fs.set_access_list(s.file, &aces).map(drop)
    }),
    ("write", |s, fs| {
        let data = [9; 20_000];
        let written = fs.write(s.file, 10_000, &data, WriteOptions::default());
        written.map(drop)
    }),
    ("write behind the end", |s, fs| {
        let written = fs.write(s.file, 70_000, &[9; 100], WriteOptions::default());
        written.map(drop)
    }),
    ("first write", |s, fs| {
        let written = fs.write(s.unnamed, 0, &[9; 30_000], WriteOptions::default());
        written.map(drop)
    }),
    ("truncate", |s, fs| fs.truncate(s.file, 20_001)),
    ("extend", |s, fs| fs.truncate(s.file, 200_000)),
    ("punch", |s, fs| {
        fs.fallocate(s.file, 10_000, 25_000, FallocateMode::PunchHole)
    }),
    ("quota", |_, fs| {
        fs.set_quota(AccountKind::User, 7, 1 << 30, false)
    }),
    ("default quota", |_, fs| {
        fs.set_default_quota(AccountKind::Group, 1 << 30, true)
    }),
    ("upgrade", |_, fs| fs.upgrade(5)),
];

fn assert_same(found: &Facts, expected: &Facts, place: &str) {
    let paths: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    for path in paths {
        let short = |fact: Option<&String>| fact.map(|fact| fact[..fact.len().min(600)].to_owned());
        let (found, expected) = (found.get(path), expected.get(path));
        let is_same = found == expected;
        let (found, expected) = (short(found), short(expected));
        assert!(is_same, "{place}: {path}: {found:?}, not {expected:?}");
    }
}

/// Lets an operation fail at each of its steps.
fn fail_everywhere(make: impl Fn() -> Scene, (what, operation): &Operation) {
    let mut scene = make();
    let wanted = {
        operation(&scene, &scene.world.fs).expect(what);
        let wanted = facts(&scene.world.fs, false);
        scene = make();
        wanted
    };
    let as_it_is = |scene: &Scene| (facts(&scene.world.fs, true), facts(&scene.world.fs, false));
    let mut before = as_it_is(&scene);
    for steps in 0.. {
        let fs = Arc::clone(&scene.world.fs);
        fs.set().fail_after(steps);
        let result = operation(&scene, &fs);
        let is_through = fs.set().fail_after(u64::MAX) > 0;
        let place = format!("{what}, {steps} steps, {result:?}");
        match &result {
            Err(_) => assert_same(&facts(&fs, true), &before.0, &place),
            Ok(()) => assert_same(&facts(&fs, false), &wanted, &place),
        }
        if result.is_ok() || steps % 5 == 0 {
            let on_disk = scene.world.reopened();
            let expected = if result.is_ok() { &wanted } else { &before.1 };
            let place = format!("{place}, on disk");
            assert_same(&facts(&on_disk, false), expected, &place);
            check(&on_disk);
        }
        match result.is_ok() {
            true if is_through => break,
            true => {
                scene = make();
                // At another time.
                before = as_it_is(&scene);
            }
            false => {}
        }
        assert!(steps < 5000, "{place}: no end");
    }
}

/// With how many long names in a directory the next one splits its table.
fn names_until_split(version: u64, xattrs: XattrStorage) -> u32 {
    let scene = Scene::new(version, xattrs, 60);
    let blocks = || {
        let table = scene.world.set.object(scene.wide).expect("exists");
        table.dnode().block_id_max
    };
    let before = blocks();
    let mut names = 60..;
    let split = names.find(|number| {
        let name = format!("{number:0>60}");
        let fs = &scene.world.fs;
        fs.link(scene.file, scene.wide, name.as_bytes())
            .expect("links");
        blocks() != before
    });
    split.expect("it ends")
}

fn fail_all(version: u64, xattrs: XattrStorage, operations: &[Operation]) {
    let names = names_until_split(version, xattrs);
    for operation in operations {
        fail_everywhere(|| Scene::new(version, xattrs, names), operation);
    }
}

#[test]
fn names_change_as_a_whole() {
    fail_all(5, XattrStorage::SystemAttributes, NAMES);
}

#[test]
fn attributes_and_contents_change_as_a_whole() {
    fail_all(5, XattrStorage::SystemAttributes, ATTRIBUTES);
}

#[test]
fn legacy_files_change_as_a_whole() {
    fail_all(4, XattrStorage::Directory, NAMES);
    fail_all(4, XattrStorage::Directory, ATTRIBUTES);
}

/// Names of 12 bytes with the same hash that fit into a leaf of 16 KiB: it has 638 chunks, and an
/// entry takes three.
const OF_ONE_HASH: u32 = 638 / 3;

#[test]
fn names_of_one_hash_fill_one_leaf() {
    let params = FormatParams {
        names: NameRules {
            case: CaseSensitivity::Mixed,
            ..NameRules::default()
        },
        ..FormatParams::default()
    };
    let world = World::with(&params, settings());
    let (top, other) = (
        world.directory(world.root(), "top"),
        world.directory(world.root(), "other"),
    );
    let name = |number: u32| -> Vec<u8> {
        let upper = |bit: u32| match number >> bit & 1 {
            0 => b'a' + bit as u8,
            _ => b'A' + bit as u8,
        };
        (0..12).map(upper).collect()
    };
    let file = world.file(other, "file");
    for number in 0..OF_ONE_HASH {
        world.fs.link(file, top, &name(number)).expect("has room");
    }
    let before = facts(&world.fs, true);
    let (fs, last) = (&world.fs, name(OF_ONE_HASH));
    let new = NewFile::new(FileKind::Regular, 0o644);
    assert_eq!(errno(fs.create(top, &last, &new)), 28);
    let new = NewFile::new(FileKind::Directory, 0o755);
    assert_eq!(errno(fs.create(top, &last, &new)), 28);
    assert_eq!(errno(fs.link(file, top, &last)), 28);
    let renamed = fs.rename((other, b"file"), (top, &last), RenameMode::Replace);
    assert_eq!(errno(renamed), 28);
    let unnamed = NewFile::new(FileKind::Regular, 0o644);
    let unnamed = fs.create_unnamed(top, &unnamed).expect("makes").id();
    assert_eq!(errno(fs.link(unnamed, top, &last)), 28);
    fs.release(unnamed).expect("frees");
    assert!(facts(fs, true) == before);
    let on_disk = world.reopened();
    assert!(facts(&on_disk, true) == before);
    check(&on_disk);
    // Names with another hash have room, and room comes back with a name that goes.
    fs.link(file, top, b"another").expect("has room");
    fs.unlink(top, &name(7)).expect("removes");
    fs.link(file, top, &last).expect("has room");
    check(&world.reopened());
}
