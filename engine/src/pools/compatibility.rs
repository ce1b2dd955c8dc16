//! Which features the property `compatibility` allows: all, none, or those in each of some sets
//! (zpool-features(7), "Compatibility feature sets").
//!
//! A set is a file of an administrator's or of an OpenZFS installation, or one that is built in.

use cenote_control::model::ControlError;
use cenote_ondisk::feature_sets::feature_set;
use cenote_ondisk::features::{Feature, by_name};
use cenote_pool::default_features;
use std::path::{Path, PathBuf};

/// Where files with sets are: an administrator's before those of an installation.
const DIRECTORIES: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// Bytes of a file.
const FILE_SIZE_MAX: u64 = 16 << 10;

/// What a list of sets comes to.
#[derive(Clone, Debug, Default)]
pub struct Compatibility {
    /// The features, in their order.
    pub features: Vec<&'static Feature>,
    /// Names in an installation's files that are of no feature known here.
    pub unknown: Vec<String>,
}

/// A list of sets comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompatibilityError {
    /// There are no such sets, or their files are none.
    #[error("could not read/parse feature file(s): {0}")]
    Unreadable(String),
    /// An administrator's file has names that are of no feature.
    #[error("invalid feature name(s) in local compatibility files: {0}")]
    Invalid(String),
}

/// One set, and what in it is unknown.
struct Set {
    features: Vec<&'static Feature>,
    unknown: Vec<String>,
    /// Whether it came with an installation, which may be newer than this software.
    is_distributed: bool,
}

/// The features that a value of `compatibility` allows; the default ones if it is empty.
///
/// # Errors
/// If a set cannot be had.
pub fn compatibility(text: &str) -> Result<Compatibility, CompatibilityError> {
    in_directories(text, &DIRECTORIES.map(Path::new))
}

fn in_directories(
    text: &str,
    directories: &[&Path; 2],
) -> Result<Compatibility, CompatibilityError> {
    let mut wanted = Compatibility {
        features: default_features(),
        unknown: Vec::new(),
    };
    match text {
        "" | "off" => return Ok(wanted),
        "legacy" => return Ok(Compatibility::default()),
        _ => {}
    }
    let (mut unreadable, mut invalid) = (Vec::new(), Vec::new());
    for name in text.split(',') {
        let Some(set) = set(name, directories) else {
            unreadable.push(name);
            continue;
        };
        let has = |feature: &&'static Feature| set.features.contains(feature);
        wanted.features.retain(has);
        match set.is_distributed {
            true => wanted.unknown.extend(set.unknown),
            false => invalid.extend(set.unknown),
        }
    }
    match (unreadable.is_empty(), invalid.is_empty()) {
        (false, _) => Err(CompatibilityError::Unreadable(unreadable.join(" "))),
        (true, false) => Err(CompatibilityError::Invalid(invalid.join(" "))),
        (true, true) => Ok(wanted),
    }
}

fn set(name: &str, directories: &[&Path; 2]) -> Option<Set> {
    if name.starts_with('/') {
        return read(Path::new(name), false);
    }
    // A name is one of a file, not a way to one.
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let [local, distributed] = directories.map(|directory: &Path| directory.join(name));
    for (path, is_distributed) in [(local, false), (distributed, true)] {
        if path.exists() {
            return read(&path, is_distributed);
        }
    }
    Some(Set {
        features: feature_set(name)?,
        unknown: Vec::new(),
        is_distributed: true,
    })
}

/// A file: names between white space and commas, and remarks behind `#`; its last line is whole.
fn read(path: &Path, is_distributed: bool) -> Option<Set> {
    let size = std::fs::metadata(path).ok()?.len();
    if !path.is_file() || !(1..=FILE_SIZE_MAX).contains(&size) {
        return None;
    }
    let text = std::fs::read_to_string(PathBuf::from(path)).ok()?;
    if !text.ends_with('\n') {
        return None;
    }
    let mut set = Set {
        features: Vec::new(),
        unknown: Vec::new(),
        is_distributed,
    };
    let lines = text.lines().filter_map(|line| line.split('#').next());
    let words = lines.flat_map(|line| line.split([' ', '\t', '\r', ',']));
    for word in words.filter(|word| !word.is_empty()) {
        match by_name(word) {
            Some(feature) => set.features.push(feature),
            None => set.unknown.push(word.to_owned()),
        }
    }
    Some(set)
}

/// The features that pools with this `compatibility` property are to have.
pub(crate) fn wanted_features(sets: Option<&str>) -> Result<Vec<&'static Feature>, ControlError> {
    let wanted = compatibility(sets.unwrap_or_default());
    let wanted = wanted.map_err(|error| ControlError::BadValue {
        name: "compatibility".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(wanted.features)
}

/// Features that came after the release whose commands are spoken here: they are shown where a
/// pool has them and not missed where it has not.
pub(crate) const LATER_FEATURES: [&str; 4] = [
    "com.klarasystems:dynamic_gang_header",
    "com.truenas:block_cloning_endian",
    "com.truenas:physical_rewrite",
    "com.seagate:draid_failure_domains",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn sets_are_known_with_and_without_their_files() {
        let (local, distributed) = (tempfile::tempdir(), tempfile::tempdir());
        let (local, distributed) = (local.expect("a place"), distributed.expect("a place"));
        let directories = [local.path(), distributed.path()];
        let read = |text: &str| in_directories(text, &directories);
        let names = |text: &str| -> Vec<&str> {
            let features = read(text).expect("readable").features;
            features.iter().map(|feature| feature.name).collect()
        };
        assert_eq!(names("off"), names(""));
        assert!(names("legacy").is_empty());
        assert!(names("openzfs-2.1-linux").contains(&"draid"));
        assert!(!names("openzfs-2.1-linux").contains(&"blake3"));
        assert_eq!(
            names("zol-0.6.4,openzfs-2.3,grub2-2.06"),
            names("grub2-2.06,zol-0.6.4")
        );
        let put = |place: &Path, name: &str, text: &str| {
            fs::write(place.join(name), text).expect("written");
        };
        put(distributed.path(), "mine", "lz4_compress future_thing\n");
        let found = read("mine").expect("readable");
        assert_eq!((found.features.len(), found.unknown.len()), (1, 1));
        put(local.path(), "mine", "bookmarks, async_destroy # both\n");
        assert_eq!(names("mine"), ["async_destroy", "bookmarks"]);
        put(local.path(), "mine", "bookmarks typo\n");
        let invalid = CompatibilityError::Invalid("typo".to_owned());
        assert_eq!(read("mine").expect_err("a typo"), invalid);
        put(local.path(), "cut", "bookmarks");
        put(local.path(), "empty", "");
        for (wrong, named) in [
            ("nosuch", "nosuch"),
            ("cut,zol-0.7,empty", "cut empty"),
            ("../mine", "../mine"),
            ("/nosuch/set", "/nosuch/set"),
        ] {
            let error = CompatibilityError::Unreadable(named.to_owned());
            assert_eq!(read(wrong).expect_err("no set"), error);
        }
    }
}
