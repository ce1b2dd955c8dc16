//! Reads settings from files when the daemon starts.
//!
//! By default the daemon reads OpenZFS's module options, and then its own file. The first file
//! belongs to another program, so errors in it are reported and ignored. In our own files, a wrong
//! value prevents the start; an unknown name is only reported.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cenote_base::settings::{self, Assignment};
use cenote_control::regular;

/// The options of OpenZFS's kernel module.
const MODULE_FILE: &str = "/etc/modprobe.d/zfs.conf";
/// Our own file.
const OWN_FILE: &str = "/etc/cenote/settings.conf";
/// The variable that names other files, separated by colons.
const VARIABLE: &str = "CENOTE_SETTINGS";

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    path: PathBuf,
    /// Whether it must exist.
    is_wanted: bool,
    /// Whether it is our own, so that wrong values are errors.
    is_ours: bool,
}

/// The files to read: those `given`, otherwise those of the `variable`, otherwise the default ones.
fn sources(given: Vec<&OsStr>, variable: Option<OsString>) -> Vec<Source> {
    let source = |path: PathBuf, is_wanted, is_ours| Source {
        path,
        is_wanted,
        is_ours,
    };
    if !given.is_empty() {
        let paths = given.into_iter().map(PathBuf::from);
        return paths.map(|path| source(path, true, true)).collect();
    }
    if let Some(list) = variable {
        let paths = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty());
        return paths.map(|path| source(path, true, true)).collect();
    }
    vec![
        source(PathBuf::from(MODULE_FILE), false, false),
        source(PathBuf::from(OWN_FILE), false, true),
    ]
}

/// Applies the settings in the files. Returns a line for each that was ignored or has no effect.
///
/// A line about our first file that is unreadable or has an error; nothing of that file was
/// applied.
pub fn load(given: Vec<&OsStr>) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    for source in sources(given, std::env::var_os(VARIABLE)) {
        let text = match read(&source.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !source.is_wanted => continue,
            Err(error) => return Err(format!("{}: {error}", source.path.display())),
        };
        notes.extend(apply(&source, &text)?);
    }
    Ok(notes)
}

/// The maximum size of a file.
const SIZE_MAX: u64 = 1 << 20;

/// The text of a file. Invalid UTF-8 is replaced; it is only possible in a wrong value.
fn read(path: &Path) -> std::io::Result<String> {
    let bytes = regular::read(path, SIZE_MAX)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn apply(source: &Source, text: &str) -> Result<Vec<String>, String> {
    let place = source.path.display();
    let (mut notes, mut assignments): (Vec<String>, Vec<Assignment>) = Default::default();
    for parsed in settings::parse_file(text) {
        match parsed {
            Ok(assignment) => assignments.push(assignment),
            // The name may be of a newer OpenZFS, or misspelled. Neither should leave the machine
            // without its pools.
            Err(error) if source.is_ours && !error.is_unknown_name() => {
                return Err(format!("{place}: {error}"));
            }
            Err(error) => notes.push(format!("{place}: {error}")),
        }
    }
    for assignment in assignments {
        if let Some(reason) = assignment.note() {
            notes.push(format!(
                "{place}: {} has no effect: {reason}",
                assignment.name()
            ));
        }
        assignment.apply();
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(is_ours: bool) -> Source {
        Source {
            path: PathBuf::from("/f"),
            is_wanted: true,
            is_ours,
        }
    }

    #[test]
    fn files_given_come_before_the_variable_and_that_before_the_usual_ones() {
        let paths = |given: Vec<&OsStr>, variable: Option<&str>| -> Vec<PathBuf> {
            let found = sources(given, variable.map(OsString::from));
            found.into_iter().map(|source| source.path).collect()
        };
        let given = OsStr::new("/a");
        assert_eq!(paths(vec![given], Some("/b")), [PathBuf::from("/a")]);
        assert_eq!(
            paths(vec![], Some("/b:/c")),
            ["/b", "/c"].map(PathBuf::from)
        );
        assert_eq!(paths(vec![], Some("")), Vec::<PathBuf>::new());
        assert_eq!(
            paths(vec![], None),
            [MODULE_FILE, OWN_FILE].map(PathBuf::from)
        );
    }

    #[test]
    fn faults_end_the_start_only_in_our_own_files() {
        let text = "options zfs zfs_txg_timeout=0 l2arc_headroom=8";
        let refused = apply(&source(true), text).expect_err("it is ours");
        assert!(
            refused.starts_with("/f: line 1: zfs_txg_timeout: 0 is not between"),
            "{refused}"
        );
        let notes = apply(&source(false), text).expect("it is another's");
        assert_eq!(notes.len(), 2);
        assert!(
            notes[1].starts_with("/f: l2arc_headroom has no effect: "),
            "{notes:?}"
        );
    }

    /// Previously, a single unknown name prevented the daemon from starting, and so the import of
    /// all pools.
    #[test]
    fn an_unknown_name_is_told_and_left_out_everywhere() {
        let text = "options zfs zfs_of_tomorrow=1 zfs_dmu_offset_next_sync=0 l2arc_headroom=8";
        for is_ours in [true, false] {
            let notes = apply(&source(is_ours), text).expect("the daemon starts");
            assert_eq!(notes.len(), 3, "{notes:?}");
            let unknown = "/f: line 1: there is no setting 'zfs_of_tomorrow'";
            assert!(notes[0].starts_with(unknown), "{notes:?}");
            let known = "/f: zfs_dmu_offset_next_sync has no effect: ";
            assert!(notes[1].starts_with(known), "{notes:?}");
        }
    }
}
