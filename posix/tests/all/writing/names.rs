//! Names: making, linking, removing, renaming, and objects without any.

use super::{World, check, contents, errno, settings};
use cenote_base::ObjectId;
use cenote_posix::write::{FormatParams, NewFile, RenameMode, SetAttributes};
use cenote_posix::{CaseSensitivity, DeviceNumber, FileKind, NameRules, PosixError};

#[test]
fn a_new_file_system_is_what_openzfs_makes() {
    let world = World::new();
    let fs = world.reopened();
    assert_eq!(fs.root(), ObjectId(34));
    let root = fs.znode(fs.root()).expect("exists");
    let attributes = root.attributes();
    assert_eq!(attributes.mode, 0o040_755);
    assert_eq!((attributes.size, attributes.links), (2, 2));
    assert_eq!(attributes.parent, fs.root());
    assert_eq!(
        attributes.flags,
        0x8408_0000_0144 & !0x8_0000_0000 | 0x8_0000_0000
    );
    let acl = fs.acl_text(&root).expect("valid");
    assert_eq!(acl[0], "owner@:rwxpD-aARWcCos:-------:allow");
    let object = root.object().expect("on disk");
    assert_eq!(object.dnode().bonus.len(), 176);
    assert_eq!(fs.master().version, 5);
    check(&fs);
}

#[test]
fn every_kind_of_file() {
    let world = World::new();
    let root = world.root();
    let file = world.file(root, "file");
    let directory = world.directory(root, "directory");
    let mut link = NewFile::new(FileKind::Symlink, 0o777);
    link.target = vec![b't'; 3000];
    world.make(directory, "link", &link);
    let mut device = NewFile::new(FileKind::CharDevice, 0o600).owned_by(1, 5);
    device.device = DeviceNumber { major: 4, minor: 7 };
    world.make(directory, "device", &device);
    world.make(directory, "fifo", &NewFile::new(FileKind::Fifo, 0o600));
    let long = "n".repeat(255);
    world.file(directory, &long);
    let new = NewFile::new(FileKind::Regular, 0o644);
    for (name, expected) in [
        (b"".as_slice(), 22),
        (b".", 22),
        (b"a/b", 22),
        (&[b'n'; 256], 36),
        (b"fifo", 17),
    ] {
        assert_eq!(errno(world.fs.create(directory, name, &new)), expected);
    }
    assert_eq!(errno(world.fs.create(file, b"x", &new)), 20);
    let fs = world.reopened();
    check(&fs);
    let directory = fs.znode(directory).expect("exists");
    let find = |name: &str| {
        let target = fs.lookup(&directory, name.as_bytes()).expect("valid");
        fs.znode(target.expect("found").object).expect("exists")
    };
    assert_eq!(fs.read_link(&find("link")).expect("a link"), link.target);
    let found = find("device");
    assert_eq!(found.attributes().device, device.device);
    assert_eq!((found.attributes().uid.0, found.attributes().gid.0), (1, 5));
    assert_eq!(find("fifo").kind(), FileKind::Fifo);
    assert_eq!(find(&long).attributes().mode, 0o100_644);
}

#[test]
fn links_and_removal() {
    let world = World::new();
    let root = world.root();
    let (fs, directory) = (&world.fs, world.directory(root, "d"));
    let file = world.file(root, "a");
    world.write(file, 0, b"contents");
    fs.link(file, directory, b"b").expect("links");
    assert_eq!(fs.znode(file).expect("exists").attributes().links, 2);
    assert_eq!(errno(fs.link(file, root, b"a")), 17);
    assert_eq!(errno(fs.link(directory, root, b"x")), 1);
    assert_eq!(errno(fs.rmdir(root, b"d")), 39);
    assert_eq!(errno(fs.rmdir(root, b"a")), 20);
    assert_eq!(errno(fs.unlink(root, b"d")), 21);
    assert_eq!(errno(fs.unlink(root, b"nothing")), 2);
    fs.unlink(root, b"a").expect("removes");
    assert_eq!(contents(fs, file), b"contents");
    check(&world.reopened());
    fs.unlink(directory, b"b").expect("removes");
    assert_eq!(errno(fs.znode(file)), 116);
    fs.rmdir(root, b"d").expect("removes");
    assert_eq!(
        errno(fs.create(directory, b"x", &NewFile::new(FileKind::Regular, 0))),
        116
    );
    let fs = world.reopened();
    check(&fs);
    let root = fs.znode(root).expect("exists");
    assert_eq!((root.attributes().size, root.attributes().links), (2, 2));
}

#[test]
fn renames() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let (a, b) = (world.directory(root, "a"), world.directory(root, "b"));
    let inner = world.directory(a, "inner");
    let (file, other) = (world.file(a, "file"), world.file(b, "other"));
    let rename = |from: (ObjectId, &str), to: (ObjectId, &str), mode| {
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        errno(fs.rename(from, to, mode))
    };
    use RenameMode::{Exchange, NoReplace, Replace, Whiteout};
    assert_eq!(rename((root, "a"), (inner, "loop"), Replace), 22);
    assert_eq!(rename((root, "a"), (a, "loop"), Replace), 22);
    assert_eq!(rename((a, "file"), (b, "other"), NoReplace), 17);
    assert_eq!(rename((a, "file"), (a, "inner"), Replace), 21);
    assert_eq!(rename((a, "inner"), (a, "file"), Replace), 20);
    assert_eq!(rename((root, "b"), (root, "a"), Replace), 39);
    assert_eq!(rename((a, "file"), (b, "other"), Replace), 0);
    assert_eq!(errno(fs.znode(other)), 116, "it was replaced");
    check(fs);
    assert_eq!(rename((a, "inner"), (b, "moved"), Replace), 0);
    assert_eq!(fs.znode(inner).expect("exists").attributes().parent, b);
    check(fs);
    assert_eq!(rename((b, "moved"), (root, "a"), Exchange), 0);
    assert_eq!(fs.znode(a).expect("exists").attributes().parent, b);
    check(fs);
    assert_eq!(rename((b, "other"), (root, "top"), Whiteout), 0);
    let directory = fs.znode(b).expect("exists");
    let whiteout = fs
        .lookup(&directory, b"other")
        .expect("valid")
        .expect("found");
    assert_eq!(whiteout.kind, Some(FileKind::CharDevice));
    fs.link(file, root, b"same").expect("links");
    assert_eq!(rename((root, "top"), (root, "same"), Replace), 0);
    assert_eq!(fs.znode(file).expect("exists").attributes().links, 2);
    check(&world.reopened());
}

#[test]
fn open_files_live_on_without_a_name() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let file = world.file(root, "a");
    world.write(file, 0, b"still here");
    fs.hold(file).expect("holds");
    fs.unlink(root, b"a").expect("removes");
    assert_eq!(contents(fs, file), b"still here");
    assert!(fs.is_in_delete_queue(file).expect("valid"));
    // After a crash it is still in the queue: the next writable mount frees it.
    let after_crash = world.reopened();
    check(&after_crash);
    assert_eq!(after_crash.delete_queue().expect("valid"), [file]);
    assert_eq!(fs.drain_delete_queue().expect("drains"), 1, "held: stays");
    assert_eq!(contents(fs, file), b"still here");
    fs.release(file).expect("releases");
    assert_eq!(errno(fs.znode(file)), 116);
    assert!(world.reopened().delete_queue().expect("valid").is_empty());
    // A file without a name gets one.
    let unnamed = fs
        .create_unnamed(root, &NewFile::new(FileKind::Regular, 0o600))
        .expect("makes");
    world.write(unnamed.id(), 0, b"x");
    fs.link(unnamed.id(), root, b"named").expect("links");
    assert_eq!(fs.drain_delete_queue().expect("drains"), 0, "it is named");
    fs.release(unnamed.id()).expect("releases");
    assert_eq!(
        fs.znode(unnamed.id()).expect("exists").attributes().links,
        1
    );
    let vanishing = fs
        .create_unnamed(root, &NewFile::new(FileKind::Regular, 0o600))
        .expect("makes");
    fs.release(vanishing.id()).expect("releases");
    assert_eq!(errno(fs.znode(vanishing.id())), 116);
    let fs = world.reopened();
    check(&fs);
    assert!(fs.delete_queue().expect("valid").is_empty());
}

#[test]
fn names_by_the_rules_of_the_dataset() {
    let names = NameRules {
        case: CaseSensitivity::Insensitive,
        normalization: 0x50,
        utf8_only: true,
    };
    let params = FormatParams {
        names,
        ..FormatParams::default()
    };
    let world = World::with(&params, settings());
    let (fs, root) = (&world.fs, world.root());
    let file = world.file(root, "Größe");
    let new = NewFile::new(FileKind::Regular, 0o644);
    assert_eq!(errno(fs.create(root, "GRÖßE".as_bytes(), &new)), 17);
    assert_eq!(errno(fs.create(root, "gro\u{308}ße".as_bytes(), &new)), 17);
    assert_eq!(errno(fs.create(root, b"\xff", &new)), 84);
    let directory = fs.znode(root).expect("exists");
    let found = fs.lookup_spelling(&directory, "GRÖßE".as_bytes());
    assert_eq!(found.expect("valid").expect("found").0, "Größe".as_bytes());
    let rename = |from: &str, to: &str| {
        let (from, to) = ((root, from.as_bytes()), (root, to.as_bytes()));
        fs.rename(from, to, RenameMode::Replace).expect("renames");
    };
    rename("größe", "GRÖSSE");
    rename("grösse", "Grösse");
    let fs2 = world.reopened();
    let directory = fs2.znode(root).expect("exists");
    let found = fs2.lookup_spelling(&directory, "gRÖSSE".as_bytes());
    let (spelling, target) = found.expect("valid").expect("found");
    assert_eq!(
        (spelling.as_slice(), target.object),
        ("Grösse".as_bytes(), file)
    );
    fs.unlink(root, "GRÖSSE".as_bytes()).expect("removes");
    check(&world.reopened());
}

#[test]
fn directories_pass_their_group_and_project_on() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let shared = NewFile::new(FileKind::Directory, 0o2775).owned_by(1, 100);
    let shared = world.make(root, "shared", &shared);
    let inherit = SetAttributes {
        flags: Some(0x4000_0000_0000),
        project: Some(77),
        ..SetAttributes::default()
    };
    fs.set_attributes(shared, &inherit).expect("sets");
    let inner = NewFile::new(FileKind::Directory, 0o755).owned_by(2, 2);
    let inner = world.make(shared, "inner", &inner);
    let attributes = fs.znode(inner).expect("exists").attributes().clone();
    assert_eq!(attributes.mode, 0o042_755);
    assert_eq!((attributes.uid.0, attributes.gid.0), (2, 100));
    assert_eq!(attributes.project, 77);
    let outside = world.file(root, "outside");
    let link = fs.link(outside, inner, b"x");
    assert!(matches!(link, Err(PosixError::OtherProject)));
    let moved = fs.rename((root, b"outside"), (inner, b"x"), RenameMode::Replace);
    assert_eq!(errno(moved), 18);
    let fs = world.reopened();
    check(&fs);
    assert_eq!(fs.znode(inner).expect("exists").attributes(), &attributes);
}

#[test]
fn many_entries_in_a_directory() {
    let world = World::new();
    let (fs, root) = (&world.fs, world.root());
    let directory = world.directory(root, "many");
    for i in 0..5000 {
        world.file(directory, &format!("file {i}"));
        if i % 1000 == 0 {
            world.reopened();
        }
    }
    let fs2 = world.reopened();
    check(&fs2);
    for i in 0..5000 {
        fs.unlink(directory, format!("file {i}").as_bytes())
            .expect("removes");
    }
    fs.rmdir(root, b"many").expect("removes");
    check(&world.reopened());
}
