//! Which features the property `compatibility` asks for: all, none, or those that each of some
//! sets has (zpool-features(7), "Compatibility feature sets").
//!
//! A set is a file of an administrator's or of an OpenZFS installation, or one of those that are
//! known by their names without any file. The caller reads the files.

use crate::feature_sets::feature_set;
use crate::features::{Feature, by_name, default_features};
use std::path::Path;

/// Where files with sets are: an administrator's before those of an installation.
const DIRECTORIES: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// Bytes of a file.
pub const FILE_SIZE_MAX: u64 = 16 << 10;

/// Reads a text file of at most [`FILE_SIZE_MAX`] bytes: `None` if it is not there, and of what is
/// there `None` if it is no such file.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<Option<String>>;

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

/// The features that a value of `compatibility` asks for; the usual ones if it is empty.
///
/// # Errors
/// If a set cannot be had.
pub fn compatibility(
    text: &str,
    read_file: ReadFile<'_>,
) -> Result<Compatibility, CompatibilityError> {
    in_directories(text, &DIRECTORIES.map(Path::new), read_file)
}

fn in_directories(
    text: &str,
    directories: &[&Path; 2],
    read_file: ReadFile<'_>,
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
        let Some(set) = set(name, directories, read_file) else {
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

fn set(name: &str, directories: &[&Path; 2], read_file: ReadFile<'_>) -> Option<Set> {
    if name.starts_with('/') {
        return parse(&read_file(Path::new(name))??, false);
    }
    // A name is one of a file, not a way to one.
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let [local, distributed] = directories.map(|directory: &Path| directory.join(name));
    for (path, is_distributed) in [(local, false), (distributed, true)] {
        if let Some(text) = read_file(&path) {
            return parse(&text?, is_distributed);
        }
    }
    Some(Set {
        features: feature_set(name)?,
        unknown: Vec::new(),
        is_distributed: true,
    })
}

/// A file: names between white space and commas, and remarks behind `#`; its last line is whole.
fn parse(text: &str, is_distributed: bool) -> Option<Set> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    #[test]
    fn sets_are_known_with_and_without_their_files() {
        let directories = [Path::new("/local"), Path::new("/distributed")];
        let files = RefCell::new(HashMap::new());
        let read_file = |path: &Path| files.borrow().get(path).cloned();
        let read = |text: &str| in_directories(text, &directories, &read_file);
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
        let put = |place: &str, name: &str, text: &str| {
            let text = Some(text.to_owned()).filter(|text| text != "unreadable");
            files.borrow_mut().insert(Path::new(place).join(name), text);
        };
        put("/distributed", "mine", "lz4_compress future_thing\n");
        let found = read("mine").expect("readable");
        assert_eq!((found.features.len(), found.unknown.len()), (1, 1));
        put("/local", "mine", "bookmarks, async_destroy # both\n");
        assert_eq!(names("mine"), ["async_destroy", "bookmarks"]);
        put("/local", "mine", "bookmarks typo\n");
        let invalid = CompatibilityError::Invalid("typo".to_owned());
        assert_eq!(read("mine").expect_err("a typo"), invalid);
        put("/local", "cut", "bookmarks");
        put("/local", "empty", "");
        put("/local", "fifo", "unreadable");
        for (wrong, named) in [
            ("nosuch", "nosuch"),
            ("cut,zol-0.7,empty,fifo", "cut empty fifo"),
            ("../mine", "../mine"),
            ("/nosuch/set", "/nosuch/set"),
        ] {
            let error = CompatibilityError::Unreadable(named.to_owned());
            assert_eq!(read(wrong).expect_err("no set"), error);
        }
    }
}
