//! What differs between two descriptions of the same datasets.
//!
//! The rules are those by which the golden pools themselves were checked with OpenZFS: every key
//! of every entry is compared, except the keys that a [`Tolerance`] names.

use crate::manifest::{self, Dataset, Datasets, Entries, Manifest};
use std::collections::BTreeSet;

/// What may differ.
#[derive(Clone, Debug, Default)]
pub struct Tolerance {
    /// Paths that may be anything (patterns). With any of them, times of directories that hold
    /// such files, and their link counts, are not compared: `.` is left out.
    pub ignore: Vec<String>,
    /// Keys of entries that are not compared.
    pub loose: Vec<String>,
    /// Prefixes of extended attributes that are not compared.
    pub hidden_xattrs: Vec<String>,
}

impl Tolerance {
    /// The tolerance of a kind of pool: files that were being written at a power cut, and times
    /// that replaying an intent log changes.
    pub fn of(kind: &str, manifest: &Manifest) -> Self {
        let mut tolerance = Self {
            ignore: manifest.ignore.clone(),
            ..Self::default()
        };
        if kind.starts_with("dirty-zil") {
            tolerance.loose.push("mtime".into());
        }
        if !rustix::process::geteuid().is_root() {
            // The kernel shows these only to root.
            tolerance.hidden_xattrs.push("trusted.".into());
        }
        tolerance
    }
}

/// The differences, one line each; empty when all is as it should be.
pub fn datasets(wanted: &Datasets, found: &Datasets, tolerance: &Tolerance) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, want) in wanted.iter().filter(|(_, want)| !want.is_skipped) {
        match found.get(name) {
            None => differences.push(format!("{name}: missing")),
            Some(have) => differences.extend(
                dataset(want, have, tolerance)
                    .into_iter()
                    .map(|difference| format!("{name}: {difference}")),
            ),
        }
    }
    differences
}

/// The differences of one dataset. What `have` does not know at all is not compared.
pub fn dataset(want: &Dataset, have: &Dataset, tolerance: &Tolerance) -> Vec<String> {
    let mut differences = Vec::new();
    if let (Some(want), Some(have)) = (&want.guid, &have.guid)
        && want != have
    {
        differences.push(format!("guid is {have}, wanted {want}"));
    }
    if let (Some(want), Some(have)) = (want.createtxg, have.createtxg)
        && want != have
    {
        differences.push(format!("createtxg is {have}, wanted {want}"));
    }
    if let (Some(want), Some(have)) = (&want.volume, &have.volume)
        && want != have
    {
        differences.push(format!("volume is {have:?}, wanted {want:?}"));
    }
    match (&want.entries, &have.entries) {
        (Some(want), Some(have)) => differences.extend(entries(want, have, tolerance)),
        (Some(_), None) => differences.push("its files are missing".into()),
        (None, _) => {}
    }
    differences
}

/// The differences of two sets of files.
pub fn entries(want: &Entries, have: &Entries, tolerance: &Tolerance) -> Vec<String> {
    let mut differences = Vec::new();
    let paths: BTreeSet<&String> = want.keys().chain(have.keys()).collect();
    for path in paths {
        let patterns = &tolerance.ignore;
        let is_ignored = patterns
            .iter()
            .any(|pattern| manifest::matches(pattern, path));
        if is_ignored || (path == "." && !patterns.is_empty()) {
            continue;
        }
        match (want.get(path), have.get(path)) {
            (Some(want), Some(have)) => {
                differences.extend(entry(path, want, have, tolerance));
            }
            (Some(_), None) => differences.push(format!("{path:?} is missing")),
            (None, _) => differences.push(format!("{path:?} is extra")),
        }
    }
    differences
}

fn entry(
    path: &str,
    want: &manifest::Entry,
    have: &manifest::Entry,
    tolerance: &Tolerance,
) -> Vec<String> {
    let keys: BTreeSet<&String> = want.keys().chain(have.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        if tolerance.loose.contains(key) {
            continue;
        }
        let mut sides = [want.get(key).cloned(), have.get(key).cloned()];
        if key == "xattrs" {
            sides
                .iter_mut()
                .for_each(|side| hide_xattrs(side, tolerance));
        }
        let [want, have] = sides;
        if want != have {
            differences.push(format!(
                "{path:?}: {key} is {}, wanted {}",
                shown(&have),
                shown(&want)
            ));
        }
    }
    differences
}

fn hide_xattrs(xattrs: &mut Option<serde_json::Value>, tolerance: &Tolerance) {
    if let Some(serde_json::Value::Object(object)) = xattrs {
        let hidden = &tolerance.hidden_xattrs;
        object.retain(|name, _| !hidden.iter().any(|prefix| name.starts_with(prefix)));
        if object.is_empty() {
            *xattrs = None;
        }
    }
}

/// A value for a message, not longer than a line.
fn shown(value: &Option<serde_json::Value>) -> String {
    match value {
        None => "not there".into(),
        Some(value) => {
            let text = value.to_string();
            match text.char_indices().nth(300) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::parse_dataset;
    use serde_json::json;

    fn differences(want: serde_json::Value, have: serde_json::Value, loose: &[&str]) -> usize {
        let wrap = |entry| parse_dataset(&json!({"entries": {"a": entry}})).expect("a dataset");
        let tolerance = Tolerance {
            loose: loose.iter().map(|key| key.to_string()).collect(),
            hidden_xattrs: vec!["trusted.".into()],
            ..Tolerance::default()
        };
        dataset(&wrap(want), &wrap(have), &tolerance).len()
    }

    #[test]
    fn every_key_counts() {
        let entry = json!({"type": "file", "size": 3});
        assert_eq!(differences(entry.clone(), entry.clone(), &[]), 0);
        assert_eq!(
            differences(entry.clone(), json!({"type": "file", "size": 4}), &[]),
            1
        );
        assert_eq!(differences(entry.clone(), json!({"type": "file"}), &[]), 1);
        assert_eq!(differences(entry, json!({"type": "file"}), &["size"]), 0);
    }

    #[test]
    fn hidden_attributes_do_not_count() {
        let want = json!({"xattrs": {"trusted.a": 1, "user.b": 2}});
        assert_eq!(
            differences(want.clone(), json!({"xattrs": {"user.b": 2}}), &[]),
            0
        );
        assert_eq!(
            differences(want, json!({"xattrs": {"trusted.a": 1}}), &[]),
            1
        );
    }
}
