//! Where a daemon has its files: the record of its pools, its log, its cache file.
//!
//! They follow from the environment of the daemon, which a client may not share: a service has
//! another one than a login. So the daemon says in a file beside its socket where they are, and
//! clients look there first.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cenote_control::protocol::note_path;
use cenote_control::record::record_path;
use cenote_control::regular;
use serde::{Deserialize, Serialize};

/// The cache file that root's OpenZFS has.
const MACHINE_CACHE_FILE: &str = "/etc/zfs/zpool.cache";
/// The directory of root's log.
const MACHINE_LOGS: &str = "/var/log/cenote";
/// The longest note.
const NOTE_SIZE_MAX: u64 = 1 << 16;

/// Where a daemon has its files; what is not set, it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// What it has imported.
    pub record: Option<PathBuf>,
    /// Its messages.
    pub log: Option<PathBuf>,
    /// Which pools are to be imported when the machine starts.
    pub cache_file: Option<PathBuf>,
    /// Whose they are, if not ours.
    #[serde(skip)]
    pub owner: Option<u32>,
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

impl Places {
    /// The places of a daemon on `socket` with our environment.
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

    /// Where the daemon of a socket said that they are; if none did, where one of ours would have
    /// them.
    pub fn of_socket(socket: &Path) -> Self {
        Self::noted(socket).unwrap_or_else(|| Self::of_process(socket))
    }

    /// Where the daemon of a socket said that they are.
    pub fn noted(socket: &Path) -> Option<Self> {
        let path = note_path(socket);
        let metadata = path.metadata().ok()?;
        let ours = rustix::process::geteuid().as_raw();
        let owner = metadata.uid();
        // What another user says is believed where it is only shown; root acts on what it reads.
        if ours == 0 && owner != 0 {
            return None;
        }
        let places: Self =
            serde_json::from_slice(&regular::read(&path, NOTE_SIZE_MAX).ok()?).ok()?;
        let owner = Some(owner).filter(|owner| *owner != ours);
        Some(Self { owner, ..places })
    }

    /// What clients are to read in the file beside the socket.
    pub fn note(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A variable that names a place.
///
/// A relative `$CENOTE_STATE` begins where we are; an empty one stands for nowhere.
fn variable_of_process(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).map(PathBuf::from)?;
    match name == "CENOTE_STATE" && !value.as_os_str().is_empty() {
        true => Some(std::path::absolute(&value).unwrap_or(value)),
        false => Some(value),
    }
}

/// As [`state_directory`], by this process's environment.
pub fn state_directory_of_process() -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    state_directory(is_root, &variable_of_process)
}

/// Where a daemon keeps what outlives it: `$CENOTE_STATE`, which may be empty for nowhere, else the
/// user's place or that of root.
///
/// Root has one place, whether it logged in or a service does its work: only a login has
/// `XDG_STATE_HOME`. One that is empty or relative counts as unset.
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
        // A login of root used to have another record than the service.
        assert_eq!(places(true, &[("XDG_STATE_HOME", "/x")]), root);
        let test = places(true, &[("CENOTE_STATE", "/t")]);
        assert_eq!(test.cache_file, path("/t/zpool.cache"));
        assert_eq!(test.log, path("/t/daemon.log"));
        assert_eq!(places(true, &[("CENOTE_STATE", "")]), Places::default());
    }
}
