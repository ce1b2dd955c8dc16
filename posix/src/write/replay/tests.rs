use super::LogReplay;
use super::memory::ReplayOptions;
use crate::write::WriteSettings;
use crate::{FileKind, FileSystem, Fuid, PosixError, SymlinkPolicy, Timestamp};
use cenote_base::{BlockId, ObjectId, RealEnv, Txg};
use cenote_dataset::RecordFailure;
use cenote_ondisk::acl::{self, Ace, FLAG_EVERYONE, FLAG_OWNER, Who};
use cenote_ondisk::intent_log::record::{
    AclBody, Create, NewObject, Record, RecordBody, SetAttributes, Whiteout, WriteData,
    record_type as of,
};
use std::collections::BTreeMap;
use std::sync::Arc;

#[path = "../../../tests/all/common/mod.rs"]
mod common;

const DATASET: &str = "gold_singledefault/dirxattr";

fn record(record_type: u64, body: RecordBody<'_>) -> Record<'_> {
    Record {
        record_type,
        case_insensitive: false,
        txg: Txg(100),
        sequence: 1,
        body,
    }
}

fn create<'a>(directory: ObjectId, object: u64, mode: u64, name: &'a [u8]) -> Create<'a> {
    Create {
        directory,
        new: NewObject {
            object: ObjectId(object),
            dnode_slots: 1,
        },
        mode,
        uid: 1000,
        gid: 100,
        generation: 100,
        crtime: (1_800_000_000, 5),
        device: 0,
        attributes: None,
        acl: None,
        domains: &[],
        name,
        target: None,
    }
}

fn options() -> ReplayOptions {
    ReplayOptions {
        last_synced: Txg(99),
        synced_at: Timestamp::default(),
        settings: WriteSettings::default(),
        env: Arc::new(RealEnv::new()),
    }
}

/// Applies records to a golden file system in memory; the outcome.
fn replay(base: FileSystem, apply: impl FnOnce(&LogReplay<'_>)) -> Arc<FileSystem> {
    let options = options();
    let done = FileSystem::in_memory(base.set(), &options, |replay| {
        apply(replay);
        Ok(())
    });
    let (files, ()) = done.expect("opens");
    assert!(!files.is_writable(), "it takes no changes any more");
    Arc::new(files)
}

fn base() -> Option<FileSystem> {
    let pool = common::open("single-default")?;
    Some(FileSystem::open(pool.object_set(DATASET)).expect("opens"))
}

fn id_of(file_system: &FileSystem, path: &[u8]) -> ObjectId {
    file_system
        .resolve(path, SymlinkPolicy::FollowParents)
        .expect("is there")
        .id()
}

fn make(replay: &LogReplay<'_>, create: Create<'_>) {
    let record_type = match FileKind::from_mode(create.mode) {
        Some(FileKind::Directory) => of::MKDIR,
        Some(FileKind::Symlink) => of::SYMLINK,
        _ => of::CREATE,
    };
    replay
        .apply(&record(record_type, RecordBody::Create(create)))
        .expect("applies");
}

fn rename<'a>(from: (ObjectId, &'a [u8]), to: (ObjectId, &'a [u8])) -> RecordBody<'a> {
    let (source_directory, source) = from;
    let (target_directory, target) = to;
    RecordBody::Rename {
        source_directory,
        target_directory,
        source,
        target,
        whiteout: None,
    }
}

fn contents(file_system: &FileSystem, path: &[u8]) -> Vec<u8> {
    let file = file_system
        .resolve(path, SymlinkPolicy::Refuse)
        .expect("is there");
    let mut bytes = vec![0; file.attributes().size as usize];
    let count = file_system.read(&file, 0, &mut bytes).expect("readable");
    assert_eq!(count, bytes.len());
    bytes
}

#[test]
fn directories_move_and_files_replace_each_other() {
    let Some(base) = base() else { return };
    let (root, tiny) = (base.root(), id_of(&base, b"tiny"));
    let root_before = base.znode(root).expect("is there").attributes().clone();
    let file_system = replay(base, |replay| {
        make(replay, create(root, 9001, 0o040_755, b"new"));
        make(replay, create(ObjectId(9001), 9002, 0o100_644, b"file"));
        let moves = rename((root, b"new"), (tiny, b"moved"));
        replay.apply(&record(of::RENAME, moves)).expect("applies");
        let over = rename((ObjectId(9001), b"file"), (tiny, b"r0100"));
        replay.apply(&record(of::RENAME, over)).expect("applies");
    });
    let root_after = file_system
        .znode(root)
        .expect("is there")
        .attributes()
        .clone();
    assert_eq!(
        (root_after.size, root_after.links),
        (root_before.size, root_before.links)
    );
    assert_eq!(root_after.modified.seconds, 1_800_000_000);
    let moved = file_system.znode(ObjectId(9001)).expect("is there");
    assert_eq!(
        (moved.attributes().size, moved.attributes().parent),
        (2, tiny)
    );
    assert_eq!(
        file_system.path_of(ObjectId(9002)).expect("has a path"),
        b"tiny/r0100"
    );
    assert!(contents(&file_system, b"tiny/r0100").is_empty());
}

#[test]
fn exchanges_and_whiteouts() {
    let Some(base) = base() else { return };
    let (root, tiny, deep) = (base.root(), id_of(&base, b"tiny"), id_of(&base, b"deep"));
    let file = id_of(&base, b"tiny/r0100");
    let file_system = replay(base, |replay| {
        let swap = rename((tiny, b"r0100"), (root, b"deep"));
        replay
            .apply(&record(of::RENAME_EXCHANGE, swap))
            .expect("applies");
        let whiteout = Whiteout {
            new: NewObject {
                object: ObjectId(9009),
                dnode_slots: 1,
            },
            mode: 0o020_000,
            uid: 0,
            gid: 0,
            generation: 100,
            crtime: (1_800_000_000, 0),
            device: 0,
        };
        let mut body = rename((tiny, b"r0112"), (tiny, b"elsewhere"));
        let RecordBody::Rename { whiteout: slot, .. } = &mut body else {
            unreachable!()
        };
        *slot = Some(whiteout);
        replay
            .apply(&record(of::RENAME_WHITEOUT, body))
            .expect("applies");
    });
    assert_eq!(id_of(&file_system, b"deep"), file);
    assert_eq!(id_of(&file_system, b"tiny/r0100"), deep);
    let moved = file_system.znode(deep).expect("is there");
    assert_eq!(moved.attributes().parent, tiny);
    let left = file_system
        .resolve(b"tiny/r0112", SymlinkPolicy::Refuse)
        .expect("is there");
    assert_eq!(left.kind(), FileKind::CharDevice);
    assert!(
        file_system
            .resolve(b"tiny/elsewhere", SymlinkPolicy::Refuse)
            .is_ok()
    );
}

#[test]
fn attributes_in_directories_and_lists() {
    let Some(base) = base() else { return };
    let file = id_of(&base, b"tiny/r0100");
    let other = id_of(&base, b"tiny/r0112");
    let file_system = replay(base, |replay| {
        let directory = ObjectId(9001);
        let body = create(file, 9001, 0o041_777, b"");
        replay
            .apply(&record(of::MKXATTR, RecordBody::Create(body)))
            .expect("applies");
        make(replay, create(directory, 9002, 0o100_644, b"user.note"));
        let data = WriteData::Immediate(b"value");
        let (offset, length, object) = (0, 5, ObjectId(9002));
        let write = RecordBody::Write {
            object,
            offset,
            length,
            data,
        };
        replay.apply(&record(of::WRITE, write)).expect("applies");
        for (name, value) in [
            ("user.a", Some("1")),
            ("user.b", Some("2")),
            ("user.a", None),
        ] {
            let (name, value) = (name.as_bytes(), value.map(str::as_bytes));
            let set = RecordBody::SetXattr {
                object: other,
                name,
                value,
            };
            replay.apply(&record(of::SETSAXATTR, set)).expect("applies");
        }
    });
    let znode = file_system.znode(file).expect("is there");
    assert_eq!(
        file_system.xattr_names(&znode).expect("readable"),
        [b"user.note"]
    );
    let value = file_system.xattr(&znode, b"user.note").expect("readable");
    assert_eq!(value.as_deref(), Some(b"value".as_slice()));
    assert_eq!(
        file_system.path_of(ObjectId(9002)).unwrap(),
        b"tiny/r0100/<xattrdir>/user.note"
    );
    let other = file_system.znode(other).expect("is there");
    assert_eq!(
        file_system.xattr_names(&other).expect("readable"),
        [b"user.b"]
    );
}

#[test]
fn blocks_of_the_pool_become_contents() {
    let Some(base) = base() else { return };
    let source = base
        .resolve(b"rec/random", SymlinkPolicy::Refuse)
        .expect("is there");
    let object = source.object().expect("stored").clone();
    let size = object.dnode().data_block_size;
    let pointer = object.block_pointer(0, BlockId(0)).expect("readable");
    let mut wanted = vec![0; size as usize];
    object.read(0, &mut wanted).expect("readable");
    let root = base.root();
    let file_system = replay(base, |replay| {
        make(replay, create(root, 9001, 0o100_644, b"indirect"));
        make(replay, create(root, 9002, 0o100_644, b"clone"));
        // A write of ten bytes within a block: the whole block comes along, the end does not.
        let data = WriteData::Indirect(pointer);
        let (object, offset, length) = (ObjectId(9001), 5, 10);
        let write = RecordBody::Write {
            object,
            offset,
            length,
            data,
        };
        replay.apply(&record(of::WRITE, write)).expect("applies");
        let data = WriteData::SizeOnly;
        let (offset, length) = (15, 85);
        let grow = RecordBody::Write {
            object,
            offset,
            length,
            data,
        };
        replay.apply(&record(of::WRITE2, grow)).expect("applies");
        let pointers = &pointer.encode();
        let (object, offset, length) = (ObjectId(9002), size, size - 7);
        let clone = RecordBody::CloneRange {
            object,
            offset,
            length,
            block_size: size,
            pointers,
        };
        replay
            .apply(&record(of::CLONE_RANGE, clone))
            .expect("applies");
    });
    assert_eq!(contents(&file_system, b"indirect"), wanted[..100]);
    let clone = contents(&file_system, b"clone");
    assert_eq!(clone.len() as u64, 2 * size - 7);
    assert!(clone[..size as usize].iter().all(|byte| *byte == 0));
    assert_eq!(clone[size as usize..], wanted[..size as usize - 7]);
}

#[test]
fn attributes_and_lists_are_set() {
    let Some(base) = base() else { return };
    let file = id_of(&base, b"tiny/r0100");
    let file_system = replay(base, |replay| {
        let set = SetAttributes {
            object: file,
            mask: 1 | 2 | 8 | 32 | 64,
            mode: 0o104_711,
            uid: 77,
            gid: 5,
            size: 200,
            atime: (1, 2),
            mtime: (3, 4),
            attributes: None,
            domains: &[],
        };
        replay
            .apply(&record(of::SETATTR, RecordBody::SetAttributes(set)))
            .expect("applies");
        let ace = |mask, flags, who| Ace {
            ace_type: 0,
            flags,
            mask,
            who,
        };
        let aces = [
            ace(7, FLAG_OWNER, Who::Owner),
            ace(1, FLAG_EVERYONE, Who::Everyone),
        ];
        let entries = acl::encode(&aces);
        let acl = AclBody {
            count: 2,
            flags: 0,
            entries: &entries,
            ids: &[],
        };
        let body = RecordBody::Acl {
            object: file,
            acl,
            is_old: false,
            domains: &[],
        };
        replay.apply(&record(of::ACL, body)).expect("applies");
    });
    let znode = file_system.znode(file).expect("is there");
    let attributes = znode.attributes();
    assert_eq!(
        attributes.permissions(),
        0o4644,
        "the list left the upper bits alone"
    );
    assert_eq!((attributes.uid.0, attributes.size), (77, 200));
    assert_eq!(
        attributes.modified,
        Timestamp {
            seconds: 3,
            nanoseconds: 4
        }
    );
    assert_ne!(attributes.gid.0, 5, "was not asked for");
    assert_eq!(file_system.acl(&znode).expect("decodes").len(), 2);
    let grown = contents(&file_system, b"tiny/r0100");
    assert!(grown[100..].iter().all(|byte| *byte == 0) && grown[..100].iter().any(|b| *b != 0));
}

#[test]
fn a_directory_that_is_reached_twice_is_named_by_both_paths() {
    let Some(base) = base() else { return };
    let (root, tiny, deep) = (base.root(), id_of(&base, b"tiny"), id_of(&base, b"deep"));
    let file_system = replay(base, |replay| {
        let (files, kind) = (replay.files, FileKind::Directory);
        let directory = files.znode(deep).expect("is there");
        let tx = replay.begin(0).expect("begins");
        for (name, object) in [(b"again".as_slice(), tiny), (b"loop", root)] {
            let added = files.add_entry(&tx, &directory, name, object, kind);
            added.expect("has room");
        }
        tx.keep();
    });
    let mut twice = Vec::new();
    for found in file_system.walk(root).expect("begins") {
        match found {
            Ok(_) => {}
            Err(PosixError::DirectoryTwice { first, second, .. }) => twice.push((first, second)),
            Err(error) => panic!("{error}"),
        }
    }
    twice.sort();
    assert_eq!(twice.len(), 2, "{twice:?}");
    assert_eq!(twice[0], (b"".to_vec(), b"deep/loop".to_vec()));
    // Which of the two comes first is the listing's affair.
    let paths = [b"deep/again".to_vec(), b"tiny".to_vec()];
    assert!(paths.contains(&twice[1].0) && paths.contains(&twice[1].1));
    assert_ne!(twice[1].0, twice[1].1);
}

#[test]
fn nonsense_is_refused() {
    let Some(base) = base() else { return };
    let (root, tiny) = (base.root(), id_of(&base, b"tiny"));
    replay(base, |replay| {
        let remove = RecordBody::Remove {
            directory: root,
            name: b"tiny",
        };
        let refused = replay
            .apply(&record(of::RMDIR, remove))
            .expect_err("not empty");
        assert!(matches!(refused, PosixError::Replay { .. }));
        let link = RecordBody::Link {
            directory: root,
            object: tiny,
            name: b"loop",
        };
        assert!(
            replay.apply(&record(of::LINK, link)).is_err(),
            "a directory with two names"
        );
        let (offset, length, data) = (u64::MAX, 5, WriteData::Immediate(b"value"));
        let write = RecordBody::Write {
            object: tiny,
            offset,
            length,
            data,
        };
        assert!(
            replay.apply(&record(of::WRITE, write)).is_err(),
            "a directory has no contents"
        );
        let truncate = RecordBody::Truncate {
            object: ObjectId(1),
            offset: 0,
            length: 0,
        };
        let gone = replay
            .apply(&record(of::TRUNCATE, truncate))
            .expect_err("no file");
        assert!(matches!(gone, PosixError::NoSuchZnode { .. }));
    });
}

/// An overlay once kept what small records wrote; blocks take more. A log whose outcome is larger
/// than memory must neither take the machine down nor be shown in part.
#[test]
fn a_log_that_does_not_fit_in_memory_is_refused() {
    let Some(base) = base() else { return };
    let budget = Arc::clone(base.set().cache().pipeline().memory());
    let (root, block) = (base.root(), vec![7; 128 << 10]);
    let rest = budget.limit() - budget.leased() - (8 << 20);
    let rest = budget.lease(rest).expect("is free");
    let done = FileSystem::in_memory(base.set(), &options(), |replay| {
        make(replay, create(root, 9001, 0o100_644, b"large"));
        for number in 0..200 {
            let write = RecordBody::Write {
                object: ObjectId(9001),
                offset: number << 17,
                length: block.len() as u64,
                data: WriteData::Immediate(&block),
            };
            let applied = replay.apply_in_memory(&record(of::WRITE, write));
            match applied {
                Ok(()) => {}
                Err(RecordFailure::Failed(error)) => return Err(error),
                Err(other) => panic!("{other:?}"),
            }
        }
        Ok(())
    });
    let refused = done.expect_err("25 MB in 8 MiB");
    assert!(matches!(refused, PosixError::ReplayMemory(_)), "{refused}");
    assert_eq!(refused.errno(), 12);
    let left = budget.limit() - budget.leased();
    assert!(left > 4 << 20, "{left} bytes are left: all is given back");
    drop(rest);
}

/// Records may name accounts of domains that the table on disk does not have: a replay on disk
/// cannot add them, but a replay in memory shows them.
#[test]
fn domains_of_records_are_shown() {
    let Some(base) = base() else { return };
    let root = base.root();
    let owner = Fuid(5 << 32 | 500);
    let file_system = replay(base, |replay| {
        let mut new = create(root, 9001, 0o100_644, b"of-a-domain");
        new.uid = owner.0;
        new.domains = b"S-1-5-21-1-2-3\0";
        make(replay, new);
    });
    let file = file_system.znode(ObjectId(9001)).expect("is there");
    assert_eq!(file.attributes().uid, owner);
    let shown = file_system.domains().owner(owner).to_string();
    assert_eq!(shown, "S-1-5-21-1-2-3-500");
}

/// What a file is in the model: contents and number of names.
#[derive(Clone, Debug, Default, PartialEq)]
struct ModelFile {
    contents: Vec<u8>,
    links: u64,
}

/// One directory as maps in memory.
#[derive(Default)]
struct Model {
    names: BTreeMap<Vec<u8>, u64>,
    files: BTreeMap<u64, ModelFile>,
}

impl Model {
    const DIRECTORY: ObjectId = ObjectId(9000);

    fn file(&mut self, object: u64) -> &mut ModelFile {
        self.files.entry(object).or_default()
    }

    /// Does one random thing here and in the replay.
    fn step(&mut self, replay: &LogReplay<'_>, new_object: u64, next: &mut impl FnMut(u64) -> u64) {
        let directory = Self::DIRECTORY;
        let name = format!("name-{}", next(12)).into_bytes();
        let other = format!("name-{}", next(12)).into_bytes();
        let Some(object) = self.names.get(&name).copied() else {
            make(replay, create(directory, new_object, 0o100_644, &name));
            self.names.insert(name, new_object);
            self.file(new_object).links = 1;
            return;
        };
        match next(7) {
            0 => {
                let body = RecordBody::Remove {
                    directory,
                    name: &name,
                };
                replay.apply(&record(of::REMOVE, body)).expect("applies");
                self.names.remove(&name);
                self.file(object).links -= 1;
            }
            1 => {
                let body = rename((directory, &name), (directory, &other));
                replay.apply(&record(of::RENAME, body)).expect("applies");
                if self.names.get(&other) != Some(&object) {
                    self.names.remove(&name);
                    if let Some(victim) = self.names.insert(other, object) {
                        self.file(victim).links -= 1;
                    }
                }
            }
            2 if !self.names.contains_key(&other) => {
                let linked = ObjectId(object);
                let body = RecordBody::Link {
                    directory,
                    object: linked,
                    name: &other,
                };
                replay.apply(&record(of::LINK, body)).expect("applies");
                self.names.insert(other, object);
                self.file(object).links += 1;
            }
            3 => truncate_both(replay, self.file(object), object, next(200), next(3) * 30),
            _ => {
                let bytes = vec![next(255) as u8 + 1; next(60) as usize];
                write_both(replay, self.file(object), object, next(200), &bytes);
            }
        }
    }
}

/// Random operations on one directory, against maps in memory.
#[test]
fn random_operations_behave_like_a_model() {
    let Some(base) = base() else { return };
    let root = base.root();
    let mut model = Model::default();
    let file_system = replay(base, |replay| {
        make(
            replay,
            create(root, Model::DIRECTORY.0, 0o040_755, b"model"),
        );
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        for step in 0..600 {
            model.step(replay, 10_000 + step, &mut next);
        }
    });
    check_model(&file_system, &model);
}

fn write_both(
    replay: &LogReplay<'_>,
    file: &mut ModelFile,
    object: u64,
    offset: u64,
    bytes: &[u8],
) {
    let (object, length, data) = (
        ObjectId(object),
        bytes.len() as u64,
        WriteData::Immediate(bytes),
    );
    let body = RecordBody::Write {
        object,
        offset,
        length,
        data,
    };
    replay.apply(&record(of::WRITE, body)).expect("applies");
    let end = (offset + length) as usize;
    file.contents.resize(file.contents.len().max(end), 0);
    file.contents[offset as usize..end].copy_from_slice(bytes);
}

fn truncate_both(
    replay: &LogReplay<'_>,
    file: &mut ModelFile,
    object: u64,
    offset: u64,
    length: u64,
) {
    let body = RecordBody::Truncate {
        object: ObjectId(object),
        offset,
        length,
    };
    replay.apply(&record(of::TRUNCATE, body)).expect("applies");
    let contents = &mut file.contents;
    let (start, end) = (offset as usize, (offset + length) as usize);
    if length == 0 || start > contents.len() {
        contents.resize(end, 0);
    } else {
        contents.resize(contents.len().max(end), 0);
        contents[start..end].fill(0);
    }
}

fn check_model(file_system: &Arc<FileSystem>, model: &Model) {
    let (names, files) = (&model.names, &model.files);
    let znode = file_system.znode(Model::DIRECTORY).expect("is there");
    assert_eq!(znode.attributes().size, names.len() as u64 + 2);
    let listed: BTreeMap<Vec<u8>, u64> = file_system
        .read_directory(&znode, 0)
        .expect("opens")
        .skip(2)
        .map(|entry| entry.expect("readable"))
        .map(|entry| (entry.name, entry.target.object.0))
        .collect();
    assert_eq!(listed, *names);
    for (name, object) in names {
        let file = file_system.lookup_znode(&znode, name).expect("is there");
        assert_eq!(file.id(), ObjectId(*object));
        assert_eq!(file.attributes().links, files[object].links);
        let mut path = b"model/".to_vec();
        path.extend(name);
        assert_eq!(contents(file_system, &path), files[object].contents);
    }
    for (object, _) in files.iter().filter(|(_, file)| file.links == 0) {
        let gone = file_system.znode(ObjectId(*object)).expect_err("was freed");
        assert!(matches!(gone, PosixError::NoSuchZnode { .. }));
    }
}
