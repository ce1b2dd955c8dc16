//! Sites without a server: their trees, tags, and what may happen to datasets below them.

use super::pools::{ask, change, pool};
use crate::sites::offer::Offer;
use crate::sites::site::Site;
use bytes::Bytes;
use cenote_base::ObjectId;
use cenote_base::rt::Random;
use cenote_control::model::{Change, HttpSite, HttpState, NewDataset, Request, SnapshotChange};
use cenote_dsl::DatasetName;
use cenote_engine::Engine;
use cenote_engine::Imported;
use cenote_http::{File, Found, Purpose, Sites, Tree, TreeError};
use cenote_posix::write::{FallocateMode, NewFile, SetAttributes, WriteOptions};
use cenote_posix::{FileKind, FileSystem, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;

const DATASET: &str = "heads/one";

fn site_of(engine: &Engine, state: HttpState) -> (Arc<Offer>, Arc<dyn Tree>) {
    let asked = HttpSite {
        path: "/".to_owned(),
        dataset: DATASET.to_owned(),
        state,
        ..HttpSite::default()
    };
    let site = Site::commanded(engine.registry(), &asked).expect("a file system");
    let offer = Offer::new(engine.registry());
    offer.add(&[Arc::new(site)]);
    offer.follow();
    let found = offer.site("any", &[]).expect("for any host");
    assert_eq!(found.prefix, 0);
    (offer, found.tree)
}

fn head(engine: &Engine) -> (Arc<Imported>, Arc<FileSystem>) {
    let name = DatasetName::parse(DATASET).expect("a name");
    let (imported, dataset) = engine.registry().dataset(&name).expect("it is there");
    let files = imported.open_head(&dataset).expect("open");
    (imported, files)
}

fn snapshot(engine: &Engine, name: &str) {
    let create = SnapshotChange::Create {
        names: vec![format!("{DATASET}@{name}")],
        recursive: false,
        properties: Vec::new(),
    };
    change(engine, Change::Snapshots(create));
}

fn destroy(engine: &Engine, name: &str) -> Result<(), String> {
    let destroy = SnapshotChange::Destroy {
        names: vec![format!("{DATASET}@{name}")],
        defer: false,
    };
    let (change, command) = (Change::Snapshots(destroy), "a test".to_owned());
    let answer = ask(engine, Request::Change { change, command });
    match format!("{answer:?}") {
        said if said.contains("InUse") => Err(said),
        _ => Ok(()),
    }
}

fn rename(engine: &Engine, from: &str, to: &str) {
    let rename = SnapshotChange::Rename {
        from: format!("{DATASET}@{from}"),
        to: to.to_owned(),
        recursive: false,
    };
    change(engine, Change::Snapshots(rename));
}

fn path(name: &str) -> Vec<Vec<u8>> {
    let parts = name.split('/').filter(|part| !part.is_empty());
    parts.map(|part| part.as_bytes().to_vec()).collect()
}

fn file(site: &Arc<dyn Tree>, name: &str) -> Result<Arc<dyn File>, TreeError> {
    match site.find(&path(name)).found? {
        Found::File(file) => Ok(file),
        Found::Directory { .. } => panic!("'{name}' is a directory"),
    }
}

fn joined(pieces: &[Bytes]) -> Vec<u8> {
    pieces.concat()
}

fn read(file: &Arc<dyn File>) -> Vec<u8> {
    joined(&file.read(0, 1 << 20, Purpose::Keep).expect("readable"))
}

fn make(files: &FileSystem, parent: ObjectId, name: &[u8], kind: FileKind, mode: u64) -> ObjectId {
    let new = NewFile::new(kind, mode);
    files.create(parent, name, &new).expect("made").id()
}

fn write(files: &FileSystem, id: ObjectId, offset: u64, bytes: &[u8]) {
    files
        .write(id, offset, bytes, WriteOptions::default())
        .expect("written");
}

/// Two answers with one tag must have the same bytes, or a client joins halves of two files. Times
/// and sizes do not tell: rsync sets both to what they were.
#[test]
fn one_tag_never_stands_for_two_contents() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let (_offer, live) = site_of(&engine, HttpState::Named);
    let latest = HttpState::Latest {
        pattern: "*".to_owned(),
    };
    let (snapshots, newest) = site_of(&engine, latest);
    let (imported, files) = head(&engine);
    let id = make(&files, files.root(), b"file", FileKind::Regular, 0o644);
    let mut random = Random::new(7);
    let mut known: HashMap<String, Vec<u8>> = HashMap::new();
    let (mut settled, mut again) = (0, 0);
    for round in 0..300_u64 {
        match random.below(6) {
            // Contents that were there before come back, too.
            0 | 1 => {
                let bytes = vec![u8::try_from(random.below(3)).expect("small"); 700];
                write(&files, id, 350 * random.below(400), &bytes);
            }
            2 => files
                .truncate(id, 1000 * random.below(150))
                .expect("truncated"),
            3 => {
                let set = SetAttributes {
                    modified: Some(Timestamp::from_stored((1, 0))),
                    ..SetAttributes::default()
                };
                files.set_attributes(id, &set).expect("set");
            }
            4 => imported.pool.sync().map(drop).expect("synced"),
            _ => {
                snapshot(&engine, &format!("s{round}"));
                snapshots.follow();
            }
        }
        for site in [&live, &newest] {
            let Ok(found) = file(site, "file") else {
                assert!(known.len() < 200, "there is a snapshot by now");
                continue;
            };
            let bytes = read(&found);
            assert_eq!(bytes.len() as u64, found.size());
            if let Some(before) = known.get(&found.entity_tag()) {
                assert!(*before == bytes, "round {round}: one tag, two contents");
                again += 1;
            }
            settled +=
                usize::from(file(site, "file").expect("there").entity_tag() == found.entity_tag());
            known.insert(found.entity_tag(), bytes);
        }
    }
    assert!(again > 50 && settled > 200, "tags last: {again}, {settled}");
    // What is on disk has the same tag in the head and in a snapshot of it.
    imported.pool.sync().map(drop).expect("synced");
    snapshot(&engine, "last");
    snapshots.follow();
    let tags = [&live, &newest].map(|site| file(site, "file").expect("there").entity_tag());
    assert_eq!(tags[0], tags[1]);
}

/// Answers are cached, but not after they become wrong.
#[test]
fn what_is_remembered_of_a_head_is_what_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let (_offer, site) = site_of(&engine, HttpState::Named);
    let (imported, files) = head(&engine);
    let a = make(&files, files.root(), b"a", FileKind::Directory, 0o755);
    let one = make(&files, a, b"one", FileKind::Regular, 0o644);
    write(&files, one, 0, b"one");
    imported.pool.sync().map(drop).expect("synced");
    assert_eq!(read(&file(&site, "a/one").expect("there")), b"one");
    let at_hand = |name: &str| site.find_cached(&path(name)).map(|resolved| resolved.found);
    match at_hand("a/one") {
        Some(Ok(Found::File(file))) => assert_eq!(joined(&file.read_cached(0, 100)), b"one"),
        other => panic!("{other:?}"),
    }
    assert_eq!(file(&site, "a/two").err(), Some(TreeError::NotFound));
    assert!(
        matches!(at_hand("a/two"), Some(Err(TreeError::NotFound))),
        "absence, too"
    );
    let two = make(&files, a, b"two", FileKind::Regular, 0o644);
    write(&files, two, 0, b"two");
    assert!(at_hand("a/two").is_none(), "the cached absence is outdated");
    assert!(file(&site, "a/two").is_ok());
    files.unlink(a, b"one").expect("removed");
    assert!(at_hand("a/one").is_none());
    assert_eq!(file(&site, "a/one").err(), Some(TreeError::NotFound));
    let two = file(&site, "a/two").expect("there");
    let forbid = SetAttributes {
        mode: Some(0o700),
        ..SetAttributes::default()
    };
    files.set_attributes(a, &forbid).expect("set");
    assert!(at_hand("a/two").is_none());
    assert_eq!(file(&site, "a/two").err(), Some(TreeError::Forbidden));
    assert!(
        two.read(0, 10, Purpose::Keep).is_ok(),
        "a file that is open stays readable"
    );
    files.unlink(a, b"two").expect("removed");
    assert_eq!(
        two.read(0, 10, Purpose::Keep).err(),
        Some(TreeError::Changed)
    );
}

/// Regression: when a head was written to during a download, the client got bytes of both versions
/// under the tag of the first, so it kept a file that never existed. Bytes that are appended to a
/// file do not affect a download.
#[test]
fn a_download_is_of_one_version_or_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let (_offer, site) = site_of(&engine, HttpState::Named);
    let (imported, files) = head(&engine);
    for is_on_disk in [true, false] {
        for (what, act, stays) in ACTS {
            let id = make(&files, files.root(), b"file", FileKind::Regular, 0o644);
            write(&files, id, 0, &vec![1; 1_000_000]);
            if is_on_disk {
                imported.pool.sync().map(drop).expect("synced");
            }
            let found = file(&site, "file").expect("there");
            let mut bytes = joined(&found.read(0, 500_000, Purpose::Keep).expect("readable"));
            act(&files, id);
            let rest = found.read(500_000, 1 << 20, Purpose::Keep);
            assert_eq!(rest.is_ok(), stays, "{what}, {is_on_disk}");
            let at_hand = found.read_cached(0, 1000);
            assert!(stays || at_hand.is_empty(), "{what}, {is_on_disk}");
            if let Ok(rest) = rest {
                bytes.extend(joined(&rest));
                assert!(bytes == vec![1; 1_000_000], "{what}, {is_on_disk}");
            }
            let _ = files.unlink(files.root(), b"file");
            imported.pool.sync().map(drop).expect("synced");
        }
    }
}

type Act = fn(&FileSystem, ObjectId);

/// Changes of a file that is being downloaded, and whether the download continues.
const ACTS: [(&str, Act, bool); 9] = [
    ("nothing", |_, _| (), true),
    (
        "a write before the end",
        |files, id| write(files, id, 700_000, b"new"),
        false,
    ),
    (
        "the same bytes",
        |files, id| write(files, id, 0, &[1]),
        false,
    ),
    (
        "an append",
        |files, id| write(files, id, 1_000_000, b"more"),
        true,
    ),
    (
        "a truncation",
        |files, id| files.truncate(id, 900_000).expect("done"),
        false,
    ),
    (
        "an end cut off and put back",
        |files, id| {
            files.truncate(id, 999_999).expect("done");
            files.truncate(id, 1_000_000).expect("done");
        },
        false,
    ),
    (
        "growth",
        |files, id| files.truncate(id, 2_000_000).expect("done"),
        true,
    ),
    (
        "a hole",
        |files, id| {
            let punch = FallocateMode::PunchHole;
            files.fallocate(id, 131_072, 131_072, punch).expect("done");
        },
        false,
    ),
    (
        "its removal",
        |files, _| drop(files.unlink(files.root(), b"file").expect("done")),
        false,
    ),
];

/// A client that receives slowly, or not at all, must not hold a dataset for ever. But a destroy
/// without force must not end a download.
#[test]
fn files_that_are_read_keep_their_snapshot() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let (imported, files) = head(&engine);
    let id = make(&files, files.root(), b"file", FileKind::Regular, 0o644);
    write(&files, id, 0, b"first");
    snapshot(&engine, "first");
    let latest = HttpState::Latest {
        pattern: "*".to_owned(),
    };
    let (offer, site) = site_of(&engine, latest);
    let first = file(&site, "file").expect("there");
    write(&files, id, 0, b"other");
    snapshot(&engine, "second");
    offer.follow();
    assert_eq!(read(&file(&site, "file").expect("there")), b"other");
    assert_eq!(read(&first), b"first", "the state that it began with");
    let busy = destroy(&engine, "first").expect_err("it is read");
    assert!(busy.contains("heads/one@first"), "{busy}");
    assert_eq!(read(&first), b"first", "and read on");
    // Under its new name: the old name no longer exists.
    rename(&engine, "first", "old");
    let busy = destroy(&engine, "old").expect_err("it is read");
    assert!(busy.contains("heads/one@old"), "{busy}");
    assert_eq!(imported.retired_tree("heads/one@first"), None);
    assert!(imported.retired_tree("heads/one@old").is_some());
    drop(first);
    destroy(&engine, "old").expect("no client reads it");
    // By force it ends, even for a client that reads it.
    let second = file(&site, "file").expect("there");
    let held = imported.hold_trees(true, |_| true).expect("by force");
    assert!(matches!(
        second.read(0, 5, Purpose::Keep),
        Err(TreeError::Unavailable(_))
    ));
    assert!(second.read_cached(0, 5).is_empty());
    drop(held);
    assert_eq!(read(&file(&site, "file").expect("again")), b"other");
    // Without its newest snapshot the site shows none.
    destroy(&engine, "second").expect("no client reads it");
    offer.follow();
    assert!(matches!(
        file(&site, "file"),
        Err(TreeError::Unavailable(_))
    ));
}

/// Regression: with `-r`, a file system below a directory that others may not enter was served.
/// Through a mount, others could not reach it.
#[test]
fn a_file_system_below_a_closed_directory_is_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let below = NewDataset {
        name: format!("{DATASET}/below"),
        unmounted: true,
        ..NewDataset::default()
    };
    change(&engine, Change::CreateDataset(Box::new(below)));
    let (_, above) = head(&engine);
    let name = DatasetName::parse(&format!("{DATASET}/below")).expect("a name");
    let (imported, dataset) = engine.registry().dataset(&name).expect("it is there");
    let inner = imported.open_head(&dataset).expect("open");
    make(&inner, inner.root(), b"file", FileKind::Regular, 0o644);
    imported.pool.sync().map(drop).expect("synced");
    let asked = HttpSite {
        path: "/pub".to_owned(),
        dataset: DATASET.to_owned(),
        recursive: true,
        ..HttpSite::default()
    };
    let site = Site::commanded(engine.registry(), &asked).expect("a file system");
    let offer = Offer::new(engine.registry());
    offer.add(&[Arc::new(site)]);
    offer.follow();
    let found = offer.site("any", &path("pub/below/file")).expect("there");
    assert_eq!(found.prefix, 2, "the one below answers");
    let site = found.tree;
    let at_hand = || {
        site.find_cached(&path("file"))
            .map(|resolved| resolved.found)
    };
    assert!(file(&site, "file").is_ok());
    assert!(matches!(at_hand(), Some(Ok(_))));
    for (mode, is_open) in [(0o700, false), (0o711, true)] {
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        above.set_attributes(above.root(), &set).expect("set");
        assert!(at_hand().is_none(), "the cached answer is outdated");
        assert_eq!(file(&site, "file").is_ok(), is_open);
        let listed = site.list(&[], &mut |_| true);
        assert_eq!(listed.is_ok(), is_open);
        match at_hand() {
            Some(Ok(_)) => assert!(is_open),
            Some(Err(fault)) => assert!(!is_open && fault == TreeError::Forbidden),
            None => panic!("it is known by now"),
        }
    }
}
