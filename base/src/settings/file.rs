//! Files with `options zfs NAME=VALUE ...` lines, as in `/etc/modprobe.d`; of the module `spl` only
//! `spl_hostid` is taken.
//!
//! Lines that are about other modules, or are no options (`alias`, `softdep`, ...), are left
//! alone: the file may be the kernel module's. `#` begins a comment line, a backslash at the end
//! of a line joins the next one to it, and `-` and `_` in the module's name are the same.

use super::{Assignment, SettingError};

/// The longest file that is read, in bytes.
const FILE_LENGTH_MAX: usize = 1 << 20;

/// The parser stops after so many faults: finding near names is expensive.
const FAULTS_MAX: usize = 100;

/// A line of a settings file that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A value cannot be set.
    #[error("line {line}: {source}")]
    Setting {
        /// Counted from 1.
        line: usize,
        /// Why.
        source: SettingError,
    },
    /// A word has no `=`.
    #[error("line {line}: '{word}' is not NAME=VALUE")]
    NoValue {
        /// Counted from 1.
        line: usize,
        /// The word.
        word: String,
    },
    /// A file that is about something else.
    #[error("{FAULTS_MAX} faults are enough: the rest was not read")]
    TooMany,
    /// The file is too long to have been written by hand.
    #[error("the file has more than {FILE_LENGTH_MAX} bytes")]
    TooLong,
}

impl FileError {
    /// Whether all that is wrong is a name that is not known.
    pub fn is_unknown_name(&self) -> bool {
        matches!(
            self,
            Self::Setting {
                source: SettingError::Unknown { .. },
                ..
            }
        )
    }
}

/// Parses a file of settings, in its order: each assignment, or the error in it.
pub fn parse_file(text: &str) -> Vec<Result<Assignment, FileError>> {
    if text.len() > FILE_LENGTH_MAX {
        return vec![Err(FileError::TooLong)];
    }
    let mut found = Vec::new();
    let mut joined = String::new();
    let mut first = 1;
    for (index, line) in text.lines().enumerate() {
        if too_many(&found) {
            found.push(Err(FileError::TooMany));
            return found;
        }
        if joined.is_empty() {
            first = index + 1;
        }
        match line.strip_suffix('\\') {
            Some(part) => {
                joined.push_str(part);
                joined.push(' ');
            }
            None => {
                joined.push_str(line);
                parse_line(&joined, first, &mut found);
                joined.clear();
            }
        }
    }
    parse_line(&joined, first, &mut found);
    if too_many(&found) {
        found.push(Err(FileError::TooMany));
    }
    found
}

fn too_many(found: &[Result<Assignment, FileError>]) -> bool {
    found.len() >= FAULTS_MAX && found.iter().filter(|parsed| parsed.is_err()).count() >= FAULTS_MAX
}

fn parse_line(text: &str, line: usize, found: &mut Vec<Result<Assignment, FileError>>) {
    let mut words = text.split_whitespace();
    let of_spl = match (words.next(), words.next()) {
        (Some("options"), Some("zfs")) => false,
        (Some("options"), Some("spl")) => true,
        _ => return,
    };
    for word in words {
        // Of that module this is the only one that has a meaning here.
        if of_spl && !word.starts_with("spl_hostid=") {
            continue;
        }
        if word.starts_with('#') || too_many(found) {
            return;
        }
        let parsed = match word.split_once('=') {
            Some((name, value)) => {
                let value = value.trim_matches('"');
                Assignment::new(name, value).map_err(|source| FileError::Setting { line, source })
            }
            None => Err(FileError::NoValue {
                line,
                word: word.chars().take(super::VALUE_LENGTH_MAX).collect(),
            }),
        };
        found.push(parsed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_are_left_alone() {
        let text = "# ARC\noptions zfs zfs_txg_timeout=7 zfs_arc_max=0x40000000\n\
                    options spl spl_taskq_thread_dynamic=0 spl_hostid=1\nsoftdep zfs pre: x\n\n\
                    options zfs \\\n  l2arc_headroom=8 # big\n";
        let found = parse_file(text);
        let names: Vec<_> = found.iter().flatten().map(Assignment::name).collect();
        assert_eq!(
            names,
            [
                "zfs_txg_timeout",
                "zfs_arc_max",
                "spl_hostid",
                "l2arc_headroom"
            ]
        );
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn faults_are_told_with_their_line() {
        let text = "\noptions zfs zfs_txg_timout=5\noptions zfs\\\n zfs_arc_max\n\
                    options zfs zfs_txg_timeout=0";
        let faults: Vec<_> = parse_file(text)
            .into_iter()
            .filter_map(Result::err)
            .collect();
        let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "line 2: there is no setting 'zfs_txg_timout'; did you mean 'zfs_txg_timeout'?",
                "line 3: 'zfs_arc_max' is not NAME=VALUE",
                "line 5: zfs_txg_timeout: 0 is not between 1 and 4294967295",
            ]
        );
        assert_eq!(parse_file(&"x".repeat(2 << 20)).len(), 1);
        let many = parse_file(&"options zfs x=1\n".repeat(5000));
        assert_eq!(many.len(), FAULTS_MAX + 1, "and a word about the rest");
    }
}
