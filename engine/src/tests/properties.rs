//! Every property that can be set is obeyed, kept with a reason, or refused.
//!
//! Regression: `zfs set sharenfs=on` exited with 0 and shared nothing. To prevent this for all
//! properties, this test looks for code that reads them. A property that is accepted must have a
//! reader. A property that is documented as without effect must have none.

use cenote_control::model::properties::{
    DATASET, Effect, POOL, VDEV, dataset_effect, pool_effect, vdev_effect,
};
use cenote_dsl::Property;
use std::fs;
use std::path::{Path, PathBuf};

/// Where properties are obeyed.
const PLACES: [&str; 17] = [
    "engine/src",
    "registry/src",
    "dsl/src",
    "pool/src",
    "posix/src",
    "volume/src",
    "vdev/src",
    "stream/src",
    "frontends/files/src",
    "commands/connect/src",
    "commands/own/src",
    "commands/watch/src",
    "commands/words/src",
    "commands/zfs/src",
    "commands/zpool/src",
    "daemon/src",
    "tools/cenote/src",
];

/// Files that only list, parse or show properties, and obey none of them.
const LISTS: [&str; 12] = [
    "commands/words/src/manual",
    "dsl/src/property",
    "engine/src/tests",
    "engine/src/pools/settings.rs",
    "engine/src/pools/properties.rs",
    "engine/src/devices/settings.rs",
    "engine/src/devices/properties.rs",
    "engine/src/datasets/properties.rs",
    "engine/src/streams/properties.rs",
    "commands/zfs/src/zfs/writes.rs",
    "commands/zpool/src/reference",
    "registry/src/values.rs",
];

/// Text for people: showing it is its only effect.
const FOR_PEOPLE: [&str; 1] = ["comment"];

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory)
        .expect("a directory of sources")
        .flatten()
    {
        let path = entry.path();
        match path.is_dir() {
            true => files_below(&path, found),
            false => found.push(path),
        }
    }
}

/// The sources that may obey a property, without comments.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for place in PLACES {
        files_below(&root.join(place), &mut files);
    }
    files.retain(|file| !LISTS.iter().any(|list| file.starts_with(root.join(list))));
    let text = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        (file, lines.collect::<Vec<_>>().join("\n"))
    };
    files.into_iter().map(text).collect()
}

/// The files that name one of these.
fn readers<'a>(sources: &'a [(PathBuf, String)], words: &[String]) -> Vec<&'a Path> {
    let names_it = |text: &str| words.iter().any(|word| text.contains(word));
    let found = sources.iter().filter(|(_, text)| names_it(text));
    found.map(|(file, _)| file.as_path()).collect()
}

fn judge(name: &str, effect: Effect, readers: &[&Path], faults: &mut Vec<String>) {
    match effect {
        Effect::Obeyed if readers.is_empty() => {
            faults.push(format!("'{name}' can be set, and nothing reads it"));
        }
        Effect::Refused(_) if !readers.is_empty() => {
            faults.push(format!("'{name}' is refused, and {readers:?} read it"));
        }
        _ => {}
    }
}

#[test]
fn every_property_that_can_be_set_has_a_reader_or_a_reason() {
    let sources = sources();
    let mut faults = Vec::new();
    for info in DATASET.iter().filter(|info| info.editable) {
        let mut words = vec![format!("\"{}\"", info.name)];
        if let Some(property) = Property::by_name(info.name) {
            words.push(format!("Property::{property:?}"));
        }
        let readers = readers(&sources, &words);
        judge(info.name, dataset_effect(info.name), &readers, &mut faults);
    }
    let is_for_people = |name: &str| FOR_PEOPLE.contains(&name);
    let pool = POOL.iter().filter(|info| info.editable);
    for info in pool.filter(|info| !is_for_people(info.name)) {
        let words = [format!("\"{}\"", info.name)];
        let readers = readers(&sources, &words);
        judge(info.name, pool_effect(info.name), &readers, &mut faults);
    }
    let vdev = VDEV.iter().filter(|info| info.editable);
    for info in vdev.filter(|info| !is_for_people(info.name)) {
        let mut words = vec![format!("\"{}\"", info.name)];
        if info.name == "path" {
            // It is not stored beside the vdev, but changes the vdev itself.
            words.push("VdevSetting::Path".to_owned());
        }
        let readers = readers(&sources, &words);
        judge(info.name, vdev_effect(info.name), &readers, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_not_obeyed_says_why() {
    let reasons = [
        dataset_effect("sharenfs"),
        dataset_effect("secondarycache"),
        pool_effect("delegation"),
        vdev_effect("failfast"),
    ];
    for effect in reasons {
        let (Effect::Kept(reason) | Effect::Refused(reason)) = effect else {
            panic!("{effect:?}");
        };
        assert!(reason.len() > 10, "{reason}");
    }
    assert_eq!(dataset_effect("compression"), Effect::Obeyed);
    assert_eq!(dataset_effect("user:property"), Effect::Obeyed);
}
