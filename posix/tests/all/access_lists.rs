//! NFSv4 lists as `aclinherit` and `aclmode` have them: what OpenZFS makes of the same lists.

use crate::made;
use crate::pools::{self, Bench};
use cenote_base::{ObjectId, RealEnv};
use cenote_pool::{Pool, VdevShape};
use cenote_posix::write::{ListInheritance, ListMode, NewFile, SetAttributes, WriteSettings};
use cenote_posix::{Ace, FileKind, FileSystem, Who};
use cenote_tests::skip;
use cenote_vdev::AllocationClass;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// What OpenZFS 2.3 made of it all, a line for each file: see [`record`].
const RECORDED: &str = include_str!("../data/access_lists.txt");

/// Values of `aclinherit` and `aclmode` under which things are made.
const MAKING: [(&str, u64, &str, u64); 6] = [
    ("discard", 0, "discard", 0),
    ("noallow", 1, "discard", 0),
    ("restricted", 4, "discard", 0),
    ("restricted", 4, "groupmask", 2),
    ("passthrough", 3, "groupmask", 2),
    ("passthrough-x", 5, "discard", 0),
];
/// Values of `aclmode` under which modes are changed.
const CHANGING: [(&str, u64); 4] = [
    ("discard", 0),
    ("groupmask", 2),
    ("passthrough", 3),
    ("restricted", 4),
];
/// What is made in each directory.
const MADE: [(FileKind, u64); 8] = [
    (FileKind::Regular, 0o644),
    (FileKind::Regular, 0o4),
    (FileKind::Regular, 0o610),
    (FileKind::Regular, 0o770),
    (FileKind::Directory, 0o755),
    (FileKind::Directory, 0o24),
    (FileKind::Fifo, 0o600),
    (FileKind::Symlink, 0o777),
];
const CHANGED: [u64; 4] = [0o640, 0o751, 0o4, 0o4670];

/// An entry: `a` allows, `d` denies; of whom; its mask; its inheritance flags.
fn ace(kind: char, who: &str, mask: u32, inherit: &str) -> Ace {
    let mut flags = 0;
    for (letter, bit) in [('f', 1), ('d', 2), ('n', 4), ('i', 8)] {
        flags |= if inherit.contains(letter) { bit } else { 0 };
    }
    let (who, more) = match who {
        "owner@" => (Who::Owner, 0x1000),
        "group@" => (Who::OwningGroup, 0x2040),
        "everyone@" => (Who::Everyone, 0x4000),
        name => match name.split_once(':').expect("a kind") {
            ("user", id) => (Who::User(id.parse().expect("a number")), 0),
            (_, id) => (Who::Group(id.parse().expect("a number")), 0x40),
        },
    };
    Ace {
        ace_type: u16::from(kind == 'd'),
        flags: flags | more,
        mask,
        who,
    }
}

const FULL: u32 = 0x1F_01FF;
const READ: u32 = 0x12_00A9;
const WRITE: u32 = 0x1E_01BF;

fn base() -> [Ace; 3] {
    [
        ace('a', "owner@", 0x1E_01DF, ""),
        ace('a', "group@", 0x12_0089, ""),
        ace('a', "everyone@", 0x12_0089, ""),
    ]
}

/// Entries before the list of a mode.
fn with(mut aces: Vec<Ace>) -> Vec<Ace> {
    aces.extend(base());
    aces
}

/// Lists of directories in which things are made.
fn parents() -> Vec<(&'static str, Vec<Ace>)> {
    let mut parents = vec![
        ("trivial", with(vec![])),
        (
            "classes",
            vec![
                ace('a', "owner@", FULL, "fd"),
                ace('a', "group@", READ, "fd"),
                ace('a', "user:1000", WRITE, "fd"),
                ace('a', "group:10", FULL, "fd"),
                ace('a', "everyone@", READ, "fd"),
            ],
        ),
        (
            "files",
            with(vec![
                ace('d', "group:20", 0x6, "f"),
                ace('a', "user:1000", 0xD_003F, "f"),
                ace('a', "group@", 0x23, "f"),
            ]),
        ),
        (
            "directories",
            with(vec![
                ace('a', "user:1000", WRITE, "dn"),
                ace('a', "group:10", READ, "d"),
                ace('d', "user:1001", 0x1, "fdn"),
            ]),
        ),
        (
            "only",
            with(vec![
                ace('a', "user:1000", FULL, "fdi"),
                ace('a', "owner@", FULL, "fdi"),
                ace('d', "everyone@", 0x2, "di"),
            ]),
        ),
        (
            "named",
            with(vec![
                ace('a', "user:1000", READ, "fd"),
                ace('d', "user:1002", 0x20, "fd"),
                ace('d', "group:30", 0x4, "fn"),
            ]),
        ),
    ];
    parents.extend(classes());
    parents
}

/// The same, of entries about classes alone.
fn classes() -> Vec<(&'static str, Vec<Ace>)> {
    vec![
        (
            "owning",
            vec![
                ace('a', "owner@", FULL, "fd"),
                ace('a', "group@", READ, "fd"),
                ace('a', "everyone@", READ, "fd"),
            ],
        ),
        (
            "classes-only",
            vec![
                ace('a', "owner@", 0x1E_01BF, "fd"),
                ace('a', "everyone@", READ, "fd"),
            ],
        ),
        (
            "writing",
            with(vec![ace('a', "everyone@", 0x12_0188, "fd")]),
        ),
        ("hiding", with(vec![ace('d', "everyone@", 0x80, "fd")])),
        ("children", with(vec![ace('a', "group@", 0x12_00C9, "fd")])),
        ("removing", with(vec![ace('d', "group@", 0x1_0000, "fd")])),
        (
            "denying",
            with(vec![
                ace('d', "everyone@", 0x4_0000, "fd"),
                ace('d', "group:30", 0x20, ""),
            ]),
        ),
    ]
}

/// Lists of files whose mode is changed.
fn lists() -> Vec<(&'static str, Vec<Ace>)> {
    let mut named = vec![
        ace('a', "user:1000", WRITE, ""),
        ace('a', "group:10", FULL, ""),
        ace('d', "group:20", 0x6, ""),
    ];
    named.extend(base());
    let (_, classes) = parents().remove(1);
    let mut split = vec![
        ace('d', "owner@", 0x20, ""),
        ace('a', "everyone@", 0x1, "fd"),
        ace('d', "everyone@", 0x2, "fdi"),
    ];
    split.extend(base());
    vec![
        ("named", named),
        ("classes", classes),
        ("split", split),
        ("trivial", base().to_vec()),
    ]
}

fn new_pool(bench: &mut Bench) -> Pool {
    let vdev = bench.vdev(VdevShape::Single, AllocationClass::Normal, 1);
    let mut request = bench.request(vec![vdev]);
    request.format = made::empty();
    let env = Arc::new(RealEnv::new());
    cenote_pool::create(request, &pools::options(), env).expect("created")
}

fn make(fs: &FileSystem, parent: ObjectId, name: &str, kind: FileKind, mode: u64) -> ObjectId {
    let mut new = NewFile::new(kind, mode);
    if kind == FileKind::Symlink {
        new.target = b"target".to_vec();
    }
    fs.create(parent, name.as_bytes(), &new)
        .expect("makes")
        .id()
}

/// Directories and files with their lists, before anything is done with them.
fn prepare(fs: &FileSystem) {
    for (name, list) in parents() {
        let id = make(fs, fs.root(), name, FileKind::Directory, 0o755);
        fs.set_access_list(id, &list).expect("sets");
    }
    for (change, _) in changes() {
        let id = make(fs, fs.root(), &change.name, change.kind, 0o600);
        fs.set_access_list(id, &change.list).expect("sets");
    }
}

/// Something that is made: in which directory, under which name.
struct Making {
    parent: &'static str,
    name: String,
    kind: FileKind,
    mode: u64,
}

/// All that is made under the `row`th rule.
fn made(row: usize) -> Vec<Making> {
    let mut all = Vec::new();
    for (parent, _) in parents() {
        for (kind, mode) in MADE {
            let name = format!("{row}.{}.{mode:o}", letter(kind));
            all.push(Making {
                parent,
                name,
                kind,
                mode,
            });
        }
    }
    all
}

/// Something whose mode is changed.
struct Change {
    name: String,
    kind: FileKind,
    list: Vec<Ace>,
    mode: u64,
}

/// All changes, each with the number of its rule.
fn changes() -> Vec<(Change, usize)> {
    let mut all = Vec::new();
    for (row, (rule, _)) in CHANGING.into_iter().enumerate() {
        for (list_name, list) in lists() {
            for mode in CHANGED {
                for kind in [FileKind::Regular, FileKind::Directory] {
                    let name = format!("{rule}.{list_name}.{}.{mode:o}", letter(kind));
                    let list = list.clone();
                    all.push((
                        Change {
                            name,
                            kind,
                            list,
                            mode,
                        },
                        row,
                    ));
                }
            }
        }
    }
    all
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        _ => 'f',
    }
}

/// All files with their modes, the flags that are about lists, and their lists, a line each.
fn describe(fs: &FileSystem) -> String {
    const LIST_FLAGS: u64 = 0x147;
    let mut text = String::new();
    let mut waiting = vec![(fs.root(), String::new())];
    while let Some((id, path)) = waiting.pop() {
        let directory = fs.znode(id).expect("readable");
        let entries = fs.read_directory(&directory, 0).expect("readable");
        for entry in entries.skip(2) {
            let entry = entry.expect("readable");
            let name = String::from_utf8(entry.name).expect("plain");
            let path = format!("{path}{name}");
            let file = fs.znode(entry.target.object).expect("readable");
            let (mode, flags) = (file.attributes().mode & 0o7777, file.attributes().flags);
            write!(text, "{path} {mode:o} {:x}", flags & LIST_FLAGS).expect("grows");
            for ace in fs.acl(&file).expect("readable") {
                let who = match ace.who {
                    Who::Owner => "owner".to_owned(),
                    Who::OwningGroup => "group".to_owned(),
                    Who::Everyone => "everyone".to_owned(),
                    Who::User(id) => format!("u{id}"),
                    Who::Group(id) => format!("g{id}"),
                };
                let (kind, flags, mask) = (ace.ace_type, ace.flags & 0x8f, ace.mask);
                write!(text, " {kind}:{who}:{mask:x}:{flags:x}").expect("grows");
            }
            text.push('\n');
            if file.kind() == FileKind::Directory {
                waiting.push((file.id(), format!("{path}/")));
            }
        }
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

#[test]
fn lists_are_inherited_and_changed_as_by_openzfs() {
    let mut bench = Bench::new("acl");
    let pool = new_pool(&mut bench);
    let fs = made::open(&pool);
    prepare(&fs);
    for (row, (_, inheritance, _, list_mode)) in MAKING.into_iter().enumerate() {
        fs.set_write_settings(WriteSettings {
            list_inheritance: ListInheritance::from_number(inheritance),
            list_mode: ListMode::from_number(list_mode),
            ..WriteSettings::default()
        })
        .expect("writable");
        for making in made(row) {
            let parent = fs.znode(fs.root()).expect("readable");
            let parent = fs
                .lookup(&parent, making.parent.as_bytes())
                .expect("readable");
            let parent = parent.expect("made").object;
            make(&fs, parent, &making.name, making.kind, making.mode);
        }
    }
    for (change, row) in changes() {
        let (rule, list_mode) = CHANGING[row];
        fs.set_write_settings(WriteSettings {
            list_mode: ListMode::from_number(list_mode),
            ..WriteSettings::default()
        })
        .expect("writable");
        let root = fs.znode(fs.root()).expect("readable");
        let id = fs.lookup(&root, change.name.as_bytes()).expect("readable");
        let set = SetAttributes {
            mode: Some(change.mode),
            ..SetAttributes::default()
        };
        let id = id.expect("made").object;
        let is_trivial = fs.znode(id).expect("readable").attributes().flags & 0x4 != 0;
        let changed = fs.set_attributes(id, &set);
        let is_refused = rule == "restricted" && !is_trivial;
        assert_eq!(changed.is_err(), is_refused, "{}: {changed:?}", change.name);
    }
    let found = describe(&fs);
    drop(fs);
    pool.export().expect("exports");
    drop(pool);
    bench.check();
    let recorded: BTreeSet<&str> = RECORDED.lines().collect();
    let found: BTreeSet<&str> = found.lines().collect();
    let only = |of: &BTreeSet<&str>, other| -> Vec<String> {
        let lines = of.difference(other);
        lines.map(|line| (*line).to_owned()).collect()
    };
    assert_eq!(only(&found, &recorded), only(&recorded, &found));
}

/// What OpenZFS is to do, for Python.
fn script() -> String {
    let mut text = "import os, stat, subprocess\n\
                    def sh(*words): subprocess.run(words, check=True)\n\
                    sh('zpool', 'import', '-f', '-d', '/mnt/share', 'acl')\n\
                    sh('zfs', 'set', 'mountpoint=/acl', 'acl')\n\
                    os.umask(0)\n"
        .to_owned();
    for (row, (inheritance, _, list_mode, _)) in MAKING.into_iter().enumerate() {
        let rules = format!("'aclinherit={inheritance}', 'aclmode={list_mode}'");
        writeln!(text, "sh('zfs', 'set', {rules}, 'acl')").expect("grows");
        for making in made(row) {
            let (path, mode) = (
                format!("/acl/{}/{}", making.parent, making.name),
                making.mode,
            );
            let line = match making.kind {
                FileKind::Directory => format!("os.mkdir('{path}', {mode})"),
                FileKind::Symlink => format!("os.symlink('target', '{path}')"),
                FileKind::Fifo => format!("os.mkfifo('{path}', {mode})"),
                _ => format!("os.close(os.open('{path}', os.O_CREAT | os.O_WRONLY, {mode}))"),
            };
            writeln!(text, "{line}").expect("grows");
        }
    }
    for (row, (rule, _)) in CHANGING.into_iter().enumerate() {
        writeln!(text, "sh('zfs', 'set', 'aclmode={rule}', 'acl')").expect("grows");
        for (change, _) in changes().into_iter().filter(|(_, of)| *of == row) {
            let call = format!("os.chmod('/acl/{}', {})", change.name, change.mode);
            writeln!(text, "try: {call}\nexcept OSError as e: print(e)").expect("grows");
        }
    }
    text.push_str("sh('zpool', 'export', 'acl')\n");
    text
}

/// Has OpenZFS do the same and records that, where `CENOTE_VM` names a program that runs a command
/// on a machine with OpenZFS, as `PROGRAM run --share DIR -- COMMAND`.
#[test]
fn record() {
    let Some(program) = std::env::var_os("CENOTE_VM") else {
        skip!("no machine with OpenZFS's kernel module is named");
        return;
    };
    let mut bench = Bench::new("acl");
    let pool = new_pool(&mut bench);
    let fs = made::open(&pool);
    prepare(&fs);
    drop(fs);
    pool.export().expect("exports");
    drop(pool);
    let dir = bench.dir.path();
    std::fs::write(dir.join("script.py"), script()).expect("written");
    let mut command = Command::new(program);
    command.args(["run", "--share"]).arg(dir);
    command.args(["--", "python3 /mnt/share/script.py"]);
    assert!(command.status().expect("runs").success());
    let candidates = pools::candidates(dir);
    let env = Arc::new(RealEnv::new());
    let options = cenote_pool::ImportOptions {
        force: true,
        ..pools::options()
    };
    let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
    let text = describe(&made::open(&pool));
    pool.export().expect("exports");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/access_lists.txt");
    std::fs::write(path, text).expect("written");
}
