//! Where a daemon keeps its files: the record of its pools, its log, its cache file.
//!
//! The paths depend on the daemon's environment, and clients may have a different one: a service
//! and a login differ. So the daemon writes its paths to a file beside its socket, and clients read
//! that first.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cenote_control::protocol::note_path;
use cenote_control::record::record_path;
use cenote_control::regular;
use serde::{Deserialize, Serialize};

/// The cache file of root, as in OpenZFS.
const MACHINE_CACHE_FILE: &str = "/etc/zfs/zpool.cache";
/// The directory of root's log.
const MACHINE_LOGS: &str = "/var/log/cenote";
/// The maximum size of a note.
const NOTE_SIZE_MAX: u64 = 1 << 16;

/// The paths of a daemon's files; `None` for files that it does not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The record of its imported pools.
    pub record: Option<PathBuf>,
    /// Its log.
    pub log: Option<PathBuf>,
    /// Which pools to import when the machine boots.
    pub cache_file: Option<PathBuf>,
    /// The user that owns the files, if not this one.
    #[serde(skip)]
    pub owner: Option<u32>,
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

impl Places {
    /// The paths of a daemon on `socket` that has our environment.
    pub fn of_process(socket: &Path) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        Self::new(socket, is_root, &variable_of_process)
    }

    fn new(socket: &Path, is_root: bool, variable: Variable<'_>) -> Self {
        let state = state_directory(is_root, variable);
        let is_own = variable("CENOTE_STATE").is_none() && is_root;
        let within = |name: &str| state.as_ref().map(|state| state.join(name));
        Self {
            record: state.as_ref().map(|state| record_path(state, socket)),
            log: match is_own {
                true => Some(Path::new(MACHINE_LOGS).join("daemon.log")),
                false => within("daemon.log"),
            },
            cache_file: match is_own {
                true => Some(PathBuf::from(MACHINE_CACHE_FILE)),
                false => within("zpool.cache"),
            },
            owner: None,
        }
    }

    /// The paths that the daemon of a socket noted; without a note, those for our environment.
    pub fn of_socket(socket: &Path) -> Self {
        Self::noted(socket).unwrap_or_else(|| Self::of_process(socket))
    }

    /// The paths that the daemon of a socket noted.
    pub fn noted(socket: &Path) -> Option<Self> {
        let path = note_path(socket);
        let metadata = path.metadata().ok()?;
        let ours = rustix::process::geteuid().as_raw();
        let owner = metadata.uid();
        // Other users' notes are accepted, because clients only display the paths. Root acts on
        // them, so it accepts only its own.
        if ours == 0 && owner != 0 {
            return None;
        }
        let places: Self =
            serde_json::from_slice(&regular::read(&path, NOTE_SIZE_MAX).ok()?).ok()?;
        let owner = Some(owner).filter(|owner| *owner != ours);
        Some(Self { owner, ..places })
    }

    /// The text of the file beside the socket, for clients.
    pub fn note(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A variable that names a directory or file.
///
/// A relative `$CENOTE_STATE` starts at our working directory; an empty one means none.
fn variable_of_process(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).map(PathBuf::from)?;
    match name == "CENOTE_STATE" && !value.as_os_str().is_empty() {
        true => Some(std::path::absolute(&value).unwrap_or(value)),
        false => Some(value),
    }
}

/// [`state_directory`] with the environment of this process.
pub fn state_directory_of_process() -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    state_directory(is_root, &variable_of_process)
}

/// The directory of the daemon's persistent files: `$CENOTE_STATE`, which may be empty for none,
/// else the directory of the user or of root.
///
/// Root has the same directory in a login and in a service: only a login has `XDG_STATE_HOME`. An
/// empty or relative `XDG_STATE_HOME` counts as unset.
fn state_directory(is_root: bool, variable: Variable<'_>) -> Option<PathBuf> {
    let home = variable("XDG_STATE_HOME").filter(|home| home.is_absolute());
    let given = match (variable("CENOTE_STATE"), home) {
        (Some(given), _) => given,
        (None, _) if is_root => PathBuf::from("/var/lib/cenote"),
        (None, Some(home)) => home.join("cenote"),
        (None, None) => variable("HOME")?.join(".local/state/cenote"),
    };
    given.is_absolute().then_some(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(is_root: bool, set: &[(&str, &str)]) -> Places {
        Places::new(Path::new("/run/s"), is_root, &|name| {
            let mut found = set.iter().filter(|(key, _)| *key == name);
            found.next().map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn tests_and_users_are_kept_apart_from_the_machine() {
        let path = |text: &str| Some(PathBuf::from(text));
        let root = places(true, &[]);
        assert_eq!(root.cache_file, path("/etc/zfs/zpool.cache"));
        assert_eq!(root.log, path("/var/log/cenote/daemon.log"));
        assert_eq!(root.record, path("/var/lib/cenote/daemons/-run-s.json"));
        let user = places(false, &[("HOME", "/h")]);
        assert_eq!(user.cache_file, path("/h/.local/state/cenote/zpool.cache"));
        assert_eq!(user.log, path("/h/.local/state/cenote/daemon.log"));
        let user = places(false, &[("XDG_STATE_HOME", "/x")]);
        assert_eq!(user.cache_file, path("/x/cenote/zpool.cache"));
        for unset in ["", "x"] {
            let user = places(false, &[("HOME", "/h"), ("XDG_STATE_HOME", unset)]);
            assert_eq!(user.log, path("/h/.local/state/cenote/daemon.log"));
        }
        // Previously, a login of root had a different record than the service.
        assert_eq!(places(true, &[("XDG_STATE_HOME", "/x")]), root);
        let test = places(true, &[("CENOTE_STATE", "/t")]);
        assert_eq!(test.cache_file, path("/t/zpool.cache"));
        assert_eq!(test.log, path("/t/daemon.log"));
        assert_eq!(places(true, &[("CENOTE_STATE", "")]), Places::default());
    }
}
