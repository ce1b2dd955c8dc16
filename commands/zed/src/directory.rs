//! Which zedlets run for an event (zed(8), CONFIGURATION).
//!
//! The directory is read for each event, so changes count from the next one on. A zedlet belongs to
//! root or to the user of this process, and other users may not write it. The same holds for the
//! directory. Otherwise another user could decide what runs as root. A file that is refused is
//! reported once, until it has been accepted.

use crate::tell::Tell;
use crate::variables::subclass;
use log::Level;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The prefix of names that match each event.
const ALL: &str = "all";

/// Write permission for others than the owner.
const OTHERS_WRITE: u32 = 0o022;

/// Execute permission of the owner.
const OWNER_EXECUTES: u32 = 0o100;

/// What else may run the zedlets of the same directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Other daemons, for events of their own pools.
    Daemons,
    /// Nothing.
    Nothing,
}

/// A directory of zedlets.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    sharing: Sharing,
    /// The user that zedlets may belong to, besides root.
    user: u32,
    /// The open directory, with its lock.
    held: Option<File>,
    /// What was reported, by the file's name; the directory's is empty.
    told: BTreeMap<String, String>,
}

/// Why the zedlets of a directory cannot be run.
#[derive(Debug)]
enum Unfit {
    /// It is not there.
    Absent,
    /// For this reason.
    Because(String),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Absent,
            _ => Self::Because(error.to_string()),
        }
    }
}

impl Directory {
    /// This directory, which need not be there.
    pub fn new(path: PathBuf, sharing: Sharing) -> Self {
        Self {
            path,
            sharing,
            user: rustix::process::geteuid().as_raw(),
            held: None,
            told: BTreeMap::new(),
        }
    }

    /// The paths of the zedlets for events of this class, by name.
    pub fn zedlets(&mut self, class: &str, tell: Tell) -> Vec<PathBuf> {
        match self.hold().and_then(|()| self.names(class)) {
            Ok(names) => {
                self.told.remove("");
                let is_fit = |name: &String| self.is_fit(name, tell);
                let mut names = names;
                names.retain(is_fit);
                names.iter().map(|name| self.path.join(name)).collect()
            }
            Err(Unfit::Absent) => Vec::new(),
            Err(Unfit::Because(reason)) => {
                self.complain("", reason, tell);
                Vec::new()
            }
        }
    }

    /// Locks the directory, for as long as this value lives.
    ///
    /// # Errors
    /// In words: it is not there, others may write it, or another process has it.
    pub fn lock(&mut self) -> Result<(), String> {
        self.hold().map_err(|unfit| match unfit {
            Unfit::Absent => "no such directory".to_owned(),
            Unfit::Because(reason) => reason,
        })
    }

    /// Checks the directory, and locks it, unless that was done.
    fn hold(&mut self) -> Result<(), Unfit> {
        let metadata = fs::metadata(&self.path)?;
        let reason = match metadata.is_dir() {
            true => unsafe_because(&metadata, self.user),
            false => Some("not a directory"),
        };
        if let Some(reason) = reason {
            self.held = None;
            return Err(Unfit::Because(reason.to_owned()));
        }
        let held = self.held.as_ref().and_then(|held| held.metadata().ok());
        // The path may lead to another directory than before.
        let id = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        if held.is_some_and(|held| id(&held) == id(&metadata)) {
            return Ok(());
        }
        self.held = None;
        let opened = File::open(&self.path)?;
        let how = match self.sharing {
            Sharing::Daemons => FlockOperation::NonBlockingLockShared,
            Sharing::Nothing => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(&opened, how) {
            Ok(()) => {
                self.held = Some(opened);
                Ok(())
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Unfit::Because(
                "another process runs the programs of this directory".to_owned(),
            )),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// The names of files that are meant for events of this class, sorted.
    fn names(&self, class: &str) -> Result<Vec<String>, Unfit> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string()
                && is_for(&name, class)
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether a file can be run; if it should perhaps be, but must not, that is reported.
    fn is_fit(&mut self, name: &str, tell: Tell) -> bool {
        let metadata = match fs::metadata(self.path.join(name)) {
            Ok(metadata) => metadata,
            Err(error) => {
                self.complain(name, error.to_string(), tell);
                return false;
            }
        };
        // Notes, and zedlets that are switched off.
        if !metadata.is_file() || metadata.mode() & OWNER_EXECUTES == 0 {
            return false;
        }
        if let Some(reason) = unsafe_because(&metadata, self.user) {
            self.complain(name, reason.to_owned(), tell);
            return false;
        }
        self.told.remove(name);
        true
    }

    fn complain(&mut self, name: &str, reason: String, tell: Tell) {
        if self.told.get(name) != Some(&reason) {
            let place = self.path.join(name);
            let place = place.display();
            tell(
                Level::Warn,
                &format!("zedlets: {place} is not used: {reason}"),
            );
            self.told.insert(name.to_owned(), reason);
        }
    }
}

/// Why another user could decide what is in a file.
fn unsafe_because(metadata: &Metadata, user: u32) -> Option<&'static str> {
    if metadata.uid() != 0 && metadata.uid() != user {
        return Some("it belongs to another user than root");
    }
    let others_write = metadata.mode() & OTHERS_WRITE != 0;
    others_write.then_some("other users than its owner may write it")
}

/// Whether a file of this name is meant for events of this class: the name begins with `all`, the
/// class or its last part, and no letter follows.
fn is_for(name: &str, class: &str) -> bool {
    let follows = |prefix: &&str| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphabetic()))
    };
    let prefixes = [ALL, class, subclass(class)];
    prefixes
        .iter()
        .filter(|prefix| !prefix.is_empty())
        .any(follows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::sync::Mutex;

    /// What was reported in this process, whose other tests report nothing.
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn tell(_: Level, text: &str) {
        TOLD.lock().expect("the list").push(text.to_owned());
    }

    fn told() -> Vec<String> {
        std::mem::take(&mut TOLD.lock().expect("the list"))
    }

    const SCRUB: &str = "sysevent.fs.zfs.scrub_finish";

    #[test]
    fn names_say_for_which_events_they_are() {
        let names = [
            ("all", true),
            ("all-syslog.sh", true),
            ("all2", true),
            ("allow.sh", false),
            ("scrub_finish-notify.sh", true),
            ("scrub_finish", true),
            ("scrub_finished.sh", false),
            ("scrub_start-notify.sh", false),
            ("scrub.sh", false),
            ("sysevent.fs.zfs.scrub_finish-x", true),
            ("sysevent.fs.zfs.x", false),
            (".all-hidden", false),
            ("", false),
        ];
        for (name, is_meant) in names {
            assert_eq!(is_for(name, SCRUB), is_meant, "{name}");
        }
        assert!(!is_for("-x", ""), "no class is no prefix");
    }

    fn file(place: &Path, mode: u32) {
        fs::write(place, "").expect("a file");
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).expect("its mode");
    }

    #[test]
    fn only_programs_that_other_users_cannot_write_are_run() {
        let parent = tempfile::tempdir().expect("a directory");
        let place = parent.path().join("zed.d");
        let mut directory = Directory::new(place.clone(), Sharing::Daemons);
        assert!(directory.zedlets(SCRUB, tell).is_empty());
        assert_eq!(told(), [""; 0], "an absent directory is no fault");
        fs::create_dir(&place).expect("a directory");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("its mode");
        file(&place.join("all-b.sh"), 0o755);
        file(&place.join("all-note.txt"), 0o644);
        file(&place.join("all-open.sh"), 0o775);
        file(&parent.path().join("installed.sh"), 0o700);
        symlink("../installed.sh", place.join("all-a.sh")).expect("a link");
        symlink("nowhere", place.join("all-dead.sh")).expect("a link");
        fs::create_dir(place.join("all-directory")).expect("a directory");
        let expected = ["all-a.sh", "all-b.sh"].map(|name| place.join(name));
        assert_eq!(directory.zedlets(SCRUB, tell), expected);
        let complaints = told();
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[1].contains("all-open.sh is not used: other users than its owner"));
        assert_eq!(directory.zedlets(SCRUB, tell), expected);
        assert_eq!(told(), [""; 0], "reported once");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(place.join("all-b.sh"), Some(1), None).expect("its owner");
            assert_eq!(directory.zedlets(SCRUB, tell), expected[..1]);
            assert!(told()[0].contains("all-b.sh is not used: it belongs to another user"));
        }
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("its mode");
        assert!(directory.zedlets(SCRUB, tell).is_empty());
        assert_eq!(told().len(), 1, "the directory is open to all");
    }

    /// Two processes with the same directory would run each zedlet twice.
    #[test]
    fn daemons_share_a_directory_and_others_do_not() {
        let place = tempfile::tempdir().expect("a directory");
        file(&place.path().join("all-a.sh"), 0o700);
        let new = |sharing| Directory::new(place.path().to_owned(), sharing);
        let (mut daemon, mut second) = (new(Sharing::Daemons), new(Sharing::Daemons));
        assert_eq!(daemon.lock(), Ok(()));
        assert_eq!(second.lock(), Ok(()));
        drop(second);
        let mut zed = new(Sharing::Nothing);
        let reason = zed.lock().expect_err("the daemon has it");
        assert!(reason.starts_with("another process runs"), "{reason}");
        drop(daemon);
        assert_eq!(zed.lock(), Ok(()));
        let mut late = new(Sharing::Daemons);
        assert!(late.lock().is_err());
        drop(zed);
        assert_eq!(
            late.zedlets(SCRUB, |_, _| ()).len(),
            1,
            "taken up by itself"
        );
    }
}
