//! Encrypted datasets made, filled, locked, opened again and judged by OpenZFS.

use super::{ask, engine};
use crate::Engine;
use cenote_control::model::{
    Change, ControlError, ExportHow, ImportOptions, ImportPick, KeyRefusal, NewDataset, NewPool,
    NewVdev, NewVdevKind, NewVdevRole, Pair, Request, Response, Search, Secret,
};
use cenote_dsl::DatasetName;
use cenote_dsl::property::PropertyValue;
use cenote_posix::write::{NewFile, WriteOptions};
use cenote_posix::{FileKind, FileSystem};
use cenote_tests::referee;
use std::path::Path;
use std::process::Command;

const POOL: &str = "sealed";
const SUITES: [&str; 6] = [
    "aes-128-ccm",
    "aes-192-ccm",
    "aes-256-ccm",
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
];
/// Formats with a key of each, and another one.
const KEYS: [(&str, &str, &str); 3] = [
    ("passphrase", "correct horse", "battery staple"),
    (
        "hex",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
    ),
    (
        "raw",
        "0123456789abcdef0123456789ABCDEF",
        "fedcba9876543210FEDCBA9876543210",
    ),
];
const FILES: u64 = 60;

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text.as_bytes().to_vec()))
}

fn pairs(list: &[(&str, &str)]) -> Vec<Pair> {
    let owned = list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
    owned.collect()
}

fn change(engine: &Engine, change: Change) -> Result<Response, ControlError> {
    let command = "a test".to_owned();
    let (response, _) = ask(engine, Request::Change { change, command })?;
    if let Response::Failures { failures, .. } = &response
        && let Some((_, error)) = failures.first()
    {
        return Err(error.clone());
    }
    Ok(response)
}

fn new_dataset(name: &str, properties: &[(&str, &str)], key: Option<Secret>) -> NewDataset {
    NewDataset {
        name: name.to_owned(),
        properties: pairs(properties),
        unmounted: true,
        key,
        ..NewDataset::default()
    }
}

fn create(
    engine: &Engine,
    name: &str,
    properties: &[(&str, &str)],
    key: Option<Secret>,
) -> Result<Response, ControlError> {
    let new = new_dataset(name, properties, key);
    change(engine, Change::CreateDataset(Box::new(new)))
}

fn change_key(
    engine: &Engine,
    name: &str,
    properties: &[(&str, &str)],
    key: Option<Secret>,
) -> Result<Response, ControlError> {
    let dataset = name.to_owned();
    let properties = pairs(properties);
    change(
        engine,
        Change::ChangeKey {
            dataset,
            properties,
            key,
        },
    )
}

fn load(engine: &Engine, name: &str, key: &str) -> Result<(), ControlError> {
    let request = Request::LoadKey {
        dataset: name.to_owned(),
        key: Secret::new(key.as_bytes().to_vec()),
        dry_run: false,
    };
    ask(engine, request).map(|_| ())
}

fn unload(engine: &Engine, name: &str) -> Result<(), ControlError> {
    let dataset = name.to_owned();
    ask(engine, Request::UnloadKey { dataset }).map(|_| ())
}

/// A pool on one file, whose datasets are mounted nowhere.
fn make_pool(engine: &Engine, dir: &Path, properties: &[(&str, &str)], key: Option<Secret>) {
    let path = dir.join(format!("{POOL}.img"));
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(256 << 20).expect("room");
    let mut dataset_properties = pairs(&[("mountpoint", "none")]);
    dataset_properties.extend(pairs(properties));
    let pool = NewPool {
        name: POOL.to_owned(),
        vdevs: vec![NewVdev {
            role: NewVdevRole::Normal,
            kind: NewVdevKind::Disk,
            devices: vec![path.to_string_lossy().into_owned()],
        }],
        dataset_properties,
        key,
        ..NewPool::default()
    };
    change(engine, Change::CreatePool(Box::new(pool))).expect("made");
}

fn export(engine: &Engine) {
    let pool = POOL.to_owned();
    let request = Request::Export {
        pool,
        how: ExportHow::default(),
    };
    ask(engine, request).expect("nothing uses it");
}

fn import(engine: &Engine, dir: &Path) {
    let request = Request::Import {
        search: Search {
            paths: vec![dir.to_string_lossy().into_owned()],
            ..Search::default()
        },
        pick: ImportPick::All,
        options: ImportOptions {
            no_mount: true,
            ..ImportOptions::default()
        },
    };
    match ask(engine, request).expect("it can be asked") {
        (Response::Imported { failures, .. }, _) if failures.is_empty() => {}
        other => panic!("{other:?}"),
    }
}

/// Does something with the files of a dataset, and closes it.
fn with_files<R>(
    engine: &Engine,
    name: &str,
    act: impl FnOnce(&FileSystem) -> R,
) -> Result<R, ControlError> {
    let name = DatasetName::parse(name).expect("a name");
    let (imported, dataset) = engine.context.registry.dataset(&name)?;
    let files = imported.open_head(&dataset)?;
    let result = act(&files);
    drop(files);
    let closed = imported.close_head(dataset.id());
    closed.expect("written");
    Ok(result)
}

fn file_name(number: u64) -> String {
    format!("file number {number} with a name that is not short at all")
}

/// Files from empty to several blocks, some of which compress.
fn content(seed: u64, number: u64) -> Vec<u8> {
    let mut state = seed * 1_000_003 + number + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    match number {
        0 => Vec::new(),
        1 => (0..40_000).flat_map(|_| next()).collect(),
        2 => vec![b'x'; 700_000],
        _ => (0..number * 20).flat_map(|_| next()).collect(),
    }
}

fn fill(files: &FileSystem, seed: u64) {
    for number in 0..FILES {
        let new = NewFile::new(FileKind::Regular, 0o644).owned_by(number % 3, 7);
        let name = file_name(number);
        let made = files.create(files.root(), name.as_bytes(), &new);
        let file = made.expect("made").id();
        let data = content(seed, number);
        let written = files.write(file, 0, &data, WriteOptions::default());
        written.expect("written");
    }
}

fn compare(files: &FileSystem, seed: u64) {
    let root = files.znode(files.root()).expect("there");
    for number in 0..FILES {
        let name = file_name(number);
        let file = files.lookup_znode(&root, name.as_bytes()).expect("there");
        let expected = content(seed, number);
        let mut data = vec![0; expected.len() + 1];
        let length = files.read(&file, 0, &mut data).expect("readable");
        assert!(data[..length] == expected, "{name}");
    }
}

fn check(dir: &Path) {
    referee::judge(dir, POOL);
}

/// What `sha256sum` says of some bytes.
fn sha256(dir: &Path, data: &[u8]) -> String {
    let path = dir.join("bytes");
    std::fs::write(&path, data).expect("room");
    let output = Command::new("sha256sum").arg(&path).output();
    let output = output.expect("it runs");
    std::fs::remove_file(path).expect("there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text[..64].to_owned()
}

/// OpenZFS opens the dataset with the key that wraps its keys, and reads the same files.
fn compare_by_referee(dir: &Path, dataset: &str, key: &[u8], seed: u64) {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let dir_text = dir.to_string_lossy().into_owned();
    let arguments = ["ls", &dir_text, dataset, "-R", "--sha256", "--key", &key];
    let answer = referee::run(&arguments).expect("the referee runs");
    let Some(text) = answer.map(|text| text.expect("it opens the dataset")) else {
        return;
    };
    for number in [0, 1, 2, 3, FILES - 1] {
        let (name, hash) = (file_name(number), sha256(dir, &content(seed, number)));
        let line = text.lines().find(|line| line.contains(&name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        assert!(line.contains(&hash), "{hash}: {line}");
    }
}

/// The keys that are loaded, by encryption root.
fn loaded(engine: &Engine) -> Vec<(String, Vec<u8>)> {
    let imported = engine.context.registry.pool(POOL).expect("imported");
    let keys = imported.dsl().loaded_keys().expect("readable");
    let keys = keys.iter().map(|(root, key)| {
        let name = root.name().as_str().to_owned();
        (name, key.expose().to_vec())
    });
    keys.collect()
}

fn property(engine: &Engine, dataset: &str, property: &str) -> String {
    let name = DatasetName::parse(dataset).expect("a name");
    let (_, found) = engine.context.registry.dataset(&name).expect("there");
    let property = cenote_dsl::Property::by_name(property).expect("a property");
    let report = found.property(property).expect("readable");
    match report.map(|report| report.value) {
        Some(PropertyValue::Text(text)) => text,
        Some(PropertyValue::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

#[test]
fn datasets_of_all_suites_and_formats() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = engine();
    make_pool(&engine, dir.path(), &[], None);
    let plan: Vec<_> = SUITES.iter().zip(KEYS.iter().cycle()).zip(1..).collect();
    for ((suite, (format, key, _)), seed) in &plan {
        let name = format!("{POOL}/{suite}");
        let properties = [("encryption", **suite), ("keyformat", *format)];
        create(&engine, &name, &properties, secret(key)).expect("made");
        create(&engine, &format!("{name}/child"), &[], None).expect("made");
        with_files(&engine, &name, |files| fill(files, *seed)).expect("opened");
        let child = format!("{name}/child");
        with_files(&engine, &child, |files| fill(files, 100 + seed)).expect("opened");
        assert_eq!(property(&engine, &child, "encryptionroot"), name);
        assert_eq!(property(&engine, &child, "encryption"), **suite);
        assert_eq!(property(&engine, &name, "keylocation"), "prompt");
    }
    let keys = loaded(&engine);
    assert_eq!(keys.len(), SUITES.len());
    export(&engine);
    check(dir.path());
    for ((suite, _), seed) in &plan {
        let name = format!("{POOL}/{suite}");
        let key = keys.iter().find(|(root, _)| *root == name);
        let key = &key.expect("it was loaded").1;
        compare_by_referee(dir.path(), &name, key, *seed);
    }
    import(&engine, dir.path());
    for ((suite, (_, key, other)), seed) in &plan {
        let name = format!("{POOL}/{suite}");
        let locked = with_files(&engine, &name, |_| ());
        assert!(matches!(locked, Err(ControlError::KeyNotLoaded { .. })));
        let wrong = load(&engine, &name, other);
        assert!(matches!(wrong, Err(ControlError::KeyIncorrect { .. })));
        load(&engine, &name, key).expect("the right one");
        with_files(&engine, &name, |files| compare(files, *seed)).expect("opened");
        let child = format!("{name}/child");
        with_files(&engine, &child, |files| compare(files, 100 + seed)).expect("opened");
    }
    export(&engine);
    check(dir.path());
}

#[test]
fn keys_are_changed_inherited_and_unloaded() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = engine();
    let sealed = [("encryption", "on"), ("keyformat", "hex")];
    make_pool(&engine, dir.path(), &sealed, secret(KEYS[1].1));
    let (top, child, below) = ("sealed/top", "sealed/top/child", "sealed/top/child/below");
    for (name, seed) in [(top, 1), (child, 2), (below, 3)] {
        create(&engine, name, &[], None).expect("made");
        with_files(&engine, name, |files| fill(files, seed)).expect("opened");
        assert_eq!(property(&engine, name, "encryptionroot"), POOL);
    }
    create(&engine, "sealed/clear", &[("encryption", "off")], None).expect("made");
    assert_eq!(property(&engine, "sealed/clear", "encryption"), "off");
    // A root of its own, then another key for it.
    let refused = change_key(&engine, child, &[], secret(KEYS[2].1));
    let no_format = ControlError::from(KeyRefusal::NoFormat);
    assert_eq!(refused.expect_err("a root needs a format"), no_format);
    let raw = [("keyformat", "raw"), ("keylocation", "file:///key")];
    change_key(&engine, child, &raw, secret(KEYS[2].1)).expect("a root");
    assert_eq!(property(&engine, below, "encryptionroot"), child);
    assert_eq!(property(&engine, child, "keylocation"), "file:///key");
    change_key(&engine, child, &[], secret(KEYS[2].2)).expect("another key");
    // The pool's key changes; that of the child does not.
    change_key(&engine, POOL, &[], secret(KEYS[1].2)).expect("another key");
    let name = DatasetName::parse(below).expect("a name");
    let (imported, dataset) = engine.context.registry.dataset(&name).expect("there");
    let files = imported.open_head(&dataset).expect("opened");
    let busy = unload(&engine, child);
    assert!(matches!(busy, Err(ControlError::KeyBusy { .. })));
    // What stays open behind a mount that is gone is closed.
    drop((files, imported, dataset));
    unload(&engine, child).expect("nothing uses it");
    export(&engine);
    check(dir.path());
    import(&engine, dir.path());
    assert!(load(&engine, POOL, KEYS[1].1).is_err(), "the old one");
    load(&engine, POOL, KEYS[1].2).expect("the new one");
    assert_eq!(property(&engine, child, "keystatus"), "unavailable");
    let needs_key = create(&engine, "sealed/top/child/new", &[], None);
    assert!(matches!(needs_key, Err(ControlError::BadValue { .. })));
    assert!(load(&engine, child, KEYS[2].1).is_err(), "the old one");
    load(&engine, child, KEYS[2].2).expect("the new one");
    change_key(&engine, child, &[], None).expect("inherited");
    assert_eq!(property(&engine, below, "encryptionroot"), POOL);
    assert_eq!(property(&engine, child, "keylocation"), "none");
    export(&engine);
    check(dir.path());
    import(&engine, dir.path());
    load(&engine, POOL, KEYS[1].2).expect("the only one");
    for (name, seed) in [(top, 1), (child, 2), (below, 3)] {
        with_files(&engine, name, |files| compare(files, seed)).expect("opened");
        let destroy = Change::DestroyDataset {
            clones: false,
            dataset: name.to_owned(),
            recursive: true,
            force: false,
            dry_run: false,
        };
        if name == below {
            change(&engine, destroy).expect("destroyed");
        }
    }
    export(&engine);
    check(dir.path());
}
