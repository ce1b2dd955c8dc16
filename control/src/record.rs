//! What a daemon has imported and mounted, kept on disk in case it dies.
//!
//! A daemon that is killed cannot report it. Its pools are then imported nowhere, its mounts fail
//! with "Transport endpoint is not connected", and the message "no pools are imported" would
//! mislead. So each daemon keeps a record: a file of its own in the state directory, which lists
//! its pools with all that an import needs, and its mounts. The file is removed when the last pool
//! is exported and when the daemon ends in order. A record of a process that no longer runs shows
//! that its daemon died, what it had, and since when: the file is touched every [`TOUCH_PERIOD`].
//!
//! A daemon that starts reads the record of the one before. What that had and this one has not
//! imported yet is kept in the new record as a [`Loss`] until it is imported or forgotten.
//!
//! A state directory may be full, or not be writable. Then the record is written beside the socket
//! ([`beside_socket`]), and found there until the other one can be written again; meanwhile the
//! daemon reports this. If a record exists and cannot be read, it is unknown whether a daemon died:
//! that is a [`Loss`] too, with the reason and without pools.
//!
//! Mounts change more often than pools, and only a daemon of the same boot needs them. So a record
//! in which nothing but mounts changed may be written beside the file without waiting for the disk
//! ([`DaemonRecord::store_recent`]): that survives the daemon, though not a crash of the machine.
//! Loading a record takes the newer of the two.
//!
//! The record also says which pools are missing on purpose (`stopped`), and why others are
//! (`failed`).
//!
//! *Invariant: the file is replaced as a whole (`rename`), so a reader sees one state or another.*
//!
//! Deliberately absent: keys.

use cenote_base::rt;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::model::{HttpOptions, HttpSite, ImportOptions, MountOptions, NbdListen};
use crate::regular;

/// How often a daemon that lives touches its record.
pub const TOUCH_PERIOD: Duration = Duration::from_secs(10);

/// The longest record: a hundred thousand mounts.
const SIZE_MAX: u64 = 64 << 20;

/// A daemon that lived less long than this may have died of its pools.
const SHORT_LIFE: u64 = 600;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedMount {
    /// The dataset or snapshot.
    pub dataset: String,
    /// Where it is.
    pub place: String,
    /// Whether that is the place that its properties name.
    pub own_place: bool,
    /// How it was mounted.
    #[serde(default)]
    pub options: MountOptions,
}

/// A volume or snapshot that a command served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedExport {
    /// Its name.
    pub dataset: String,
    /// Whether clients could only read.
    pub read_only: bool,
    /// Where it was served.
    pub listen: NbdListen,
}

/// A site that a command served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSite {
    /// What, and under which name.
    pub site: HttpSite,
    /// Where and how.
    pub options: HttpOptions,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPool {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The paths and addresses of its devices.
    pub devices: Vec<String>,
    /// Where in each device the pool begins, in bytes.
    #[serde(default)]
    pub offset: u64,
    /// How to import it so that it is as it was; without mounts.
    pub options: ImportOptions,
    /// Whether it is to be imported when the machine starts.
    pub lasting: bool,
    /// Its mounts, parents first.
    pub mounts: Vec<RecordedMount>,
    /// Whether mounts came or went since: there may be others than these.
    #[serde(default)]
    pub mounts_changed: bool,
    /// Volumes that commands served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<RecordedExport>,
    /// Sites that commands served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<RecordedSite>,
}

impl RecordedPool {
    /// Whether nothing but mounts distinguishes two records of a pool.
    fn is_same_but_for_mounts(&self, other: &Self) -> bool {
        self.name == other.name
            && self.guid == other.guid
            && self.devices == other.devices
            && self.offset == other.offset
            && self.options == other.options
            && self.lasting == other.lasting
            && self.exports == other.exports
            && self.sites == other.sites
    }
}

/// Whether nothing but mounts distinguishes two lists of pools.
pub fn are_same_but_for_mounts(some: &[RecordedPool], others: &[RecordedPool]) -> bool {
    let mut pairs = some.iter().zip(others);
    some.len() == others.len() && pairs.all(|(one, other)| one.is_same_but_for_mounts(other))
}

/// A pool that should be imported, and whose import failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedImport {
    /// The pool's guid.
    pub guid: u64,
    /// When it was last tried, in seconds since 1970.
    pub tried: u64,
    /// Why it failed.
    pub reason: String,
    /// Whether a later attempt may succeed: devices were missing.
    #[serde(default)]
    pub may_come: bool,
}

/// What a daemon that died had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The daemon's process.
    pub pid: u32,
    /// Which start of the machine it belonged to.
    pub boot: String,
    /// When it was last seen alive, in seconds since 1970.
    pub seen: u64,
    /// How many daemons in a row died within minutes of their start.
    #[serde(default)]
    pub short_lives: u32,
    /// Its pools that have not been imported since.
    pub pools: Vec<RecordedPool>,
    /// Why it is unknown whether it had others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Dead mounts that are in no record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead_mounts: Vec<String>,
    /// It did not die: it was stopped for a restart, and the next daemon takes over its pools and
    /// mounts.
    #[serde(default)]
    pub is_restart: bool,
}

impl Loss {
    /// What is to be said where a record cannot be read.
    pub fn unknown(reason: String) -> Self {
        Self {
            pid: 0,
            boot: boot_id(),
            seen: 0,
            short_lives: 0,
            pools: Vec::new(),
            unknown: Some(reason),
            dead_mounts: Vec::new(),
            is_restart: false,
        }
    }

    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.unknown.is_none() && self.dead_mounts.is_empty()
    }
}

/// A record that is there and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {source}", path.display())]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

/// What a daemon has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    /// The socket that it listens on.
    pub socket: String,
    /// Its process.
    pub pid: u32,
    /// When that process started, in ticks since the machine did.
    pub start_ticks: u64,
    /// Which start of the machine that was.
    pub boot: String,
    /// When it started, in seconds since 1970.
    pub started: u64,
    /// When this was written, in seconds since 1970.
    pub seen: u64,
    /// Its pools.
    pub pools: Vec<RecordedPool>,
    /// How many daemons in a row before it died within minutes of their start.
    #[serde(default)]
    pub short_lives: u32,
    /// What a daemon before it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Loss>,
    /// It was stopped, so that another one continues with what it had.
    #[serde(default)]
    pub is_restart: bool,
    /// Pools that come back with the next `resume`, and that it let go when it was stopped: until
    /// the machine starts again they are missing on purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<RecordedPool>,
    /// Pools that should be imported, and why they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedImport>,
    /// Counts writes, so that the newer of two files can be found.
    #[serde(default)]
    pub revision: u64,
}

/// The record of the daemon that listens on `socket`.
pub fn record_path(state_directory: &Path, socket: &Path) -> PathBuf {
    let bytes = socket.as_os_str().as_encoded_bytes();
    let mut name = String::new();
    for byte in bytes {
        match byte {
            b'/' => name.push('-'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' => name.push(char::from(*byte)),
            byte => name.push_str(&format!("%{byte:02x}")),
        }
    }
    // A socket's path has at most 107 bytes, of which this keeps 80 even where all are escaped.
    name.truncate(240);
    state_directory.join("daemons").join(format!("{name}.json"))
}

/// Where a daemon keeps its record while the state directory takes none.
pub fn beside_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".record");
    PathBuf::from(path)
}

/// Whether an error in opening a record means that there is none.
///
/// A directory that we may not enter, and that is not ours, has none of our daemon's.
fn is_absence(path: &Path, error: &std::io::Error) -> bool {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        ErrorKind::PermissionDenied => {
            let found = path
                .ancestors()
                .find_map(|path| path.symlink_metadata().ok());
            let ours = rustix::process::geteuid().as_raw();
            let is_there = path.symlink_metadata().is_ok();
            !is_there && found.is_none_or(|found| found.uid() != ours)
        }
        _ => false,
    }
}

/// Which start of the machine this is; empty if the system does not say.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// When a process started, in ticks since the machine did; `None` if it has ended.
///
/// A process that was killed and not yet waited for has ended, too.
pub fn start_ticks(pid: u32) -> Option<u64> {
    look_at(pid).map(|process| process.start_ticks)
}

/// What `/proc/PID/stat` says of a process that has not ended yet.
struct Process {
    start_ticks: u64,
    /// It was killed or is ending: the process exists until its memory and files are released, but
    /// does nothing any more.
    is_ending: bool,
}

fn look_at(pid: u32) -> Option<Process> {
    process_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// proc_pid_stat(5).
fn process_of(stat: &str) -> Option<Process> {
    /// Flags of the kernel's `include/linux/sched.h`: ends, and was killed by a signal.
    const PF_EXITING: u64 = 0x4;
    const PF_SIGNALED: u64 = 0x400;
    // The second field is the program's name in parentheses, which may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let is_zombie = matches!(*fields.first()?, "Z" | "X");
    // The first thread may have ended while others still have files open.
    if is_zombie && number(20)? <= 1 {
        return None;
    }
    Some(Process {
        start_ticks: number(22)?,
        is_ending: is_zombie || number(9)? & (PF_EXITING | PF_SIGNALED) != 0,
    })
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

impl DaemonRecord {
    /// An empty record of this process, which starts `now`.
    pub fn of_this_process(socket: &Path, now: u64) -> Self {
        let pid = std::process::id();
        Self {
            socket: socket.to_string_lossy().into_owned(),
            pid,
            start_ticks: start_ticks(pid).unwrap_or_default(),
            boot: boot_id(),
            started: now,
            seen: now,
            pools: Vec::new(),
            short_lives: 0,
            lost: None,
            is_restart: false,
            stopped: Vec::new(),
            failed: Vec::new(),
            revision: 0,
        }
    }

    /// Whether its daemon runs.
    pub fn is_alive(&self) -> bool {
        self.boot == boot_id() && start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// Whether its daemon has not ended yet, but does nothing any more: it will have died soon.
    pub fn is_ending(&self) -> bool {
        self.is_alive() && look_at(self.pid).is_some_and(|process| process.is_ending)
    }

    /// Whether there is nothing to keep on disk.
    pub fn is_empty(&self) -> bool {
        let says_why = !self.stopped.is_empty() || !self.failed.is_empty();
        self.pools.is_empty() && self.lost.is_none() && !says_why
    }

    /// What its daemon had, which runs no more; `None` if it had nothing.
    pub fn into_loss(self) -> Option<Loss> {
        let before = self.lost.as_ref().map_or(0, |lost| lost.short_lives);
        let earlier = self.lost.as_ref();
        let unknown = earlier.and_then(|lost| lost.unknown.clone());
        let dead_mounts = earlier.map_or(Vec::new(), |lost| lost.dead_mounts.clone());
        // Also where all that was lost has been imported again.
        let before = before.max(self.short_lives);
        let is_short = self.seen.saturating_sub(self.started) < SHORT_LIFE;
        let short_lives = match (self.is_restart, is_short) {
            (true, _) => before,
            (false, true) => before + 1,
            (false, false) => 0,
        };
        let mut pools = self.pools;
        for pool in self.lost.into_iter().flat_map(|lost| lost.pools) {
            if pools.iter().all(|own| own.guid != pool.guid) {
                pools.push(pool);
            }
        }
        let loss = Loss {
            pid: self.pid,
            boot: self.boot,
            seen: self.seen,
            short_lives,
            pools,
            unknown,
            dead_mounts,
            is_restart: self.is_restart,
        };
        Some(loss).filter(|loss| !loss.is_empty())
    }

    /// The record of the daemon on `socket`, from either place; `None` if there is none.
    ///
    /// # Errors
    /// There is one that cannot be read.
    pub fn find(
        file: Option<&Path>,
        socket: &Path,
        may_own: Option<u32>,
    ) -> Result<Option<Self>, Unreadable> {
        let beside = beside_socket(socket);
        // While there is one beside the socket, it is the newer.
        let mut unreadable = None;
        for path in [Some(beside.as_path()), file].into_iter().flatten() {
            match Self::load(path, may_own) {
                Ok(None) => {}
                Ok(found) if unreadable.is_none() => return Ok(found),
                Ok(_) => break,
                Err(source) => {
                    let path = path.to_owned();
                    unreadable.get_or_insert(Unreadable { path, source });
                }
            }
        }
        unreadable.map_or(Ok(None), Err)
    }

    /// Reads a record; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not one, or belongs to another user than ourselves, root and the
    /// one that `may_own` names.
    pub fn load(path: &Path, may_own: Option<u32>) -> std::io::Result<Option<Self>> {
        let Some(record) = Self::load_one(path, may_own)? else {
            return Ok(None);
        };
        // It was not written for another start of the machine, which may have left half of it.
        let is_newer = |recent: &Self| {
            recent.boot == boot_id()
                && (recent.pid, recent.start_ticks) == (record.pid, record.start_ticks)
                && recent.revision > record.revision
        };
        let recent = Self::load_one(&recent_path(path), may_own);
        match recent.ok().flatten().filter(is_newer) {
            Some(mut recent) => {
                recent.seen = recent.seen.max(record.seen);
                Ok(Some(recent))
            }
            None => Ok(Some(record)),
        }
    }

    fn load_one(path: &Path, may_own: Option<u32>) -> std::io::Result<Option<Self>> {
        let file = match regular::open(path) {
            Err(error) if is_absence(path, &error) => return Ok(None),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        if !has_trusted_owner(&metadata) && Some(metadata.uid()) != may_own {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let mut bytes = Vec::new();
        file.take(SIZE_MAX).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Err(std::io::Error::new(ErrorKind::InvalidData, "it is empty"));
        }
        let mut record: Self = serde_json::from_slice(&bytes)?;
        record.seen = record.seen.max(metadata.modified().map_or(0, seconds));
        Ok(Some(record))
    }

    /// Writes it so that it outlives a crash of the machine.
    ///
    /// # Errors
    /// The system's; what was there stays then.
    pub fn store(&self, path: &Path) -> std::io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)?;
        self.replace(path, true)?;
        File::open(directory)?.sync_all()?;
        // An error is harmless: its revision is older, so loading ignores it.
        let _ = fs::remove_file(recent_path(path));
        Ok(())
    }

    /// Writes it so that it outlives this process; for a record that is stored, and in which only
    /// mounts changed since. Its revision is to be higher.
    ///
    /// # Errors
    /// The system's; what was there stays then.
    pub fn store_recent(&self, path: &Path) -> std::io::Result<()> {
        self.replace(&recent_path(path), false)
    }

    fn replace(&self, path: &Path, is_durable: bool) -> std::io::Result<()> {
        replace_file(path, &serde_json::to_vec(self)?, is_durable)
    }
}

/// Whether a file belongs to ourselves or root.
pub(crate) fn has_trusted_owner(metadata: &Metadata) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    [0, ours].contains(&metadata.uid())
}

/// Puts a file of our own in the place of another, in one step.
pub(crate) fn replace_file(path: &Path, bytes: &[u8], is_durable: bool) -> std::io::Result<()> {
    let new = path.with_extension("new");
    // What another process left there half written; it never holds this name open for long.
    let _ = fs::remove_file(&new);
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&new)?;
    file.write_all(bytes)?;
    if is_durable {
        file.sync_all()?;
    }
    fs::rename(&new, path)
}

/// Where a record is whose mounts are newer than those of the file.
fn recent_path(path: &Path) -> PathBuf {
    let mut recent = path.as_os_str().to_owned();
    recent.push(".recent");
    PathBuf::from(recent)
}

/// Takes a record away.
///
/// # Errors
/// The system's, unless there is none.
pub fn remove(path: &Path) -> std::io::Result<()> {
    // Alone it says nothing.
    let _ = fs::remove_file(recent_path(path));
    match fs::remove_file(path) {
        Err(error) if !is_absence(path, &error) => Err(error),
        _ => Ok(()),
    }
}

/// Moves a record that cannot be read out of the way, where people can look at it.
///
/// # Errors
/// The system's.
pub fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Says that the daemon of a record lives.
///
/// # Errors
/// The system's.
pub fn touch(path: &Path) -> std::io::Result<()> {
    regular::open_with(File::options().append(true), path)?
        .set_modified(UNIX_EPOCH + rt::wall_clock())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, guid: u64) -> RecordedPool {
        RecordedPool {
            name: name.to_owned(),
            guid,
            devices: vec![format!("/d/{name}.img")],
            lasting: true,
            ..RecordedPool::default()
        }
    }

    /// A daemon that was killed used to be the same as none.
    #[test]
    fn a_record_outlives_its_daemon_and_says_what_it_had() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = record_path(directory.path(), Path::new("/run/a-b/s"));
        assert_eq!(DaemonRecord::load(&path, None).expect("none"), None);
        let mut record = DaemonRecord::of_this_process(Path::new("/run/a-b/s"), 1_000_000);
        record.pools.push(pool("tank", 7));
        record.store(&path).expect("stored");
        let found = DaemonRecord::load(&path, None)
            .expect("readable")
            .expect("there");
        assert!(found.is_alive(), "it is ours");
        assert!(found.seen > 1_700_000_000, "the file's time counts");
        let dead = DaemonRecord {
            start_ticks: 1,
            ..found.clone()
        };
        assert!(!dead.is_alive(), "another process with this number");
        let dead = DaemonRecord {
            boot: "before".to_owned(),
            ..found
        };
        assert!(!dead.is_alive(), "the machine was restarted");
        assert_eq!(dead.into_loss().expect("a loss").pools, [pool("tank", 7)]);
        remove(&path).expect("removed");
        remove(&path).expect("not there");
    }

    #[test]
    fn what_was_lost_before_stays_lost_and_deaths_in_a_row_are_counted() {
        let mut first = DaemonRecord::of_this_process(Path::new("/s"), 100);
        assert_eq!(first.clone().into_loss(), None, "it had nothing");
        first.pools.push(pool("tank", 7));
        let mut second = DaemonRecord::of_this_process(Path::new("/s"), 200);
        second.lost = first.into_loss();
        second.pools = vec![pool("renamed", 7), pool("other", 8)];
        let loss = second.clone().into_loss().expect("a loss");
        assert_eq!(loss.pools, [pool("renamed", 7), pool("other", 8)]);
        assert_eq!(loss.short_lives, 2);
        second.short_lives = 2;
        second.lost = None;
        assert_eq!(
            second.clone().into_loss().map(|loss| loss.short_lives),
            Some(3)
        );
        second.seen = second.started + SHORT_LIFE;
        assert_eq!(second.into_loss().map(|loss| loss.short_lives), Some(0));
    }

    /// A daemon that was stopped for a restart has not died, however young it was.
    #[test]
    fn a_restart_is_no_death() {
        let mut record = DaemonRecord::of_this_process(Path::new("/s"), 100);
        record.pools.push(pool("tank", 7));
        record.is_restart = true;
        let loss = record.into_loss().expect("it had a pool");
        assert!(loss.is_restart);
        assert_eq!((loss.pools.len(), loss.short_lives), (1, 0));
    }

    /// A killed daemon counted as alive between the end of its socket and the end of the process:
    /// its pools were not resumed.
    #[test]
    fn a_process_that_was_killed_is_ending_until_it_is_gone() {
        let stat = |state: &str, flags: u64, threads: u64| {
            process_of(&format!(
                "7 (a) b) {state} 1 7 7 0 -1 {flags} 1 0 0 0 5 6 0 0 20 0 {threads} 0 4242 1 2"
            ))
        };
        let runs = stat("S", 0x40_0000, 9).expect("there");
        assert!(runs.start_ticks == 4242 && !runs.is_ending);
        assert!(stat("D", 0x40_0004, 9).expect("there").is_ending);
        assert!(stat("R", 0x40_0400, 9).expect("there").is_ending);
        assert!(stat("Z", 0x40_0004, 3).expect("there").is_ending);
        assert!(stat("Z", 0x40_0004, 1).is_none());
        let own = look_at(std::process::id()).expect("there");
        assert!(!own.is_ending && own.start_ticks > 0);
    }

    #[test]
    fn sockets_have_records_of_their_own() {
        let state = Path::new("/s");
        let of = |socket: &str| record_path(state, Path::new(socket));
        assert_eq!(
            of("/run/cenote.sock"),
            Path::new("/s/daemons/-run-cenote.sock.json")
        );
        assert_ne!(of("/a/b"), of("/a-b"));
    }

    /// A record that could not be read counted as none: the death of the daemon was not reported.
    #[test]
    fn a_record_is_found_wherever_it_is_and_one_that_cannot_be_read_is_no_absence() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let (main, socket) = (at("state/r.json"), at("socket"));
        let find = || DaemonRecord::find(Some(&main), &socket, None);
        assert_eq!(find().expect("none"), None);
        fs::write(at("state"), "a file").expect("written");
        assert_eq!(find().expect("none can be there"), None);
        let mut record = DaemonRecord::of_this_process(&socket, 1);
        record.pools.push(pool("tank", 7));
        assert!(record.store(&main).is_err());
        let beside = beside_socket(&socket);
        record.store(&beside).expect("stored");
        let found = find().expect("readable").expect("there");
        assert_eq!(found.pools, record.pools);
        fs::write(&beside, "").expect("written");
        assert!(find().is_err(), "an empty one");
        fs::remove_file(at("state")).expect("removed");
        record.store(&main).expect("stored");
        assert!(find().is_err(), "what is beside the socket is newer");
        set_aside(&beside).expect("moved");
        assert!(find().expect("readable").is_some());
        fs::remove_file(&main).expect("removed");
        fs::create_dir(&main).expect("made");
        let error = find().expect_err("a directory").to_string();
        assert!(
            error.contains("r.json cannot be read: not a reg"),
            "{error}"
        );
    }

    #[test]
    fn half_a_record_is_an_error_and_no_panic() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("r.json");
        fs::write(&path, "{\"socket\": \"/s\"").expect("a file");
        assert!(DaemonRecord::load(&path, None).is_err());
    }

    /// Mounts were written down within a second: what a daemon mounted or renamed just before it
    /// was killed was not there again.
    #[test]
    fn newer_mounts_count_until_the_machine_starts_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = record_path(directory.path(), Path::new("/s"));
        let mut record = DaemonRecord::of_this_process(Path::new("/s"), 1);
        record.pools.push(pool("tank", 7));
        record.store(&path).expect("stored");
        let load = || {
            DaemonRecord::load(&path, None)
                .expect("read")
                .expect("there")
        };
        record.revision = 1;
        record.pools[0].mounts_changed = true;
        record.store_recent(&path).expect("stored");
        assert!(load().pools[0].mounts_changed);
        for change in [
            |record: &mut DaemonRecord| record.boot = "before".to_owned(),
            |record: &mut DaemonRecord| record.start_ticks += 1,
            |record: &mut DaemonRecord| record.revision = 0,
        ] {
            let mut other = record.clone();
            change(&mut other);
            other.store_recent(&path).expect("stored");
            assert!(!load().pools[0].mounts_changed, "{other:?}");
        }
        fs::write(recent_path(&path), "{").expect("written");
        assert!(!load().pools[0].mounts_changed, "half of one");
        record.store_recent(&path).expect("stored");
        record.revision = 2;
        record.store(&path).expect("stored");
        assert!(load().revision == 2 && !recent_path(&path).exists());
        assert!(are_same_but_for_mounts(&record.pools, &[pool("tank", 7)]));
        assert!(!are_same_but_for_mounts(&record.pools, &[pool("tank", 8)]));
    }
}
