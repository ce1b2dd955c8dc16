//! Why a request was refused: a kind, and the names it is about.
//!
//! Display gives the reason alone, in OpenZFS's words where it has some, so that a client can put
//! its context before it (`cannot open 'tank': no such pool`). Advice of several lines (how to
//! force, what to rename) is the client's.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::condition::FeatureName;
use super::diagnosis::Diagnosis;
use super::import::OlderState;
use super::refusal::{Refusal, StreamAct, StreamRefusal};

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameFault {
    /// Longer than 255 bytes.
    #[error("name is too long")]
    TooLong,
    /// It begins with `/`.
    #[error("leading slash in name")]
    LeadingSlash,
    /// `a//b`, `a@`, an empty name.
    #[error("empty component or misplaced '@' or '#' delimiter in name")]
    EmptyComponent,
    /// It ends with `/`.
    #[error("trailing slash in name")]
    TrailingSlash,
    /// A character that names cannot have.
    #[error("invalid character {} in name", quoted(*.0))]
    Character(char),
    /// Two `@` or `#`.
    #[error("multiple '@' and/or '#' delimiters in name")]
    Delimiters,
    /// The pool's name begins with a digit or sign.
    #[error("pool doesn't begin with a letter")]
    NoLetter,
    /// A word that vdev specifications use.
    #[error("name is reserved")]
    Reserved,
    /// A component `.`.
    #[error("self reference, '.' is found in name")]
    SelfReference,
    /// A component `..`.
    #[error("parent reference, '..' is found in name")]
    ParentReference,
    /// A snapshot was expected.
    #[error("missing '@' delimiter in snapshot name")]
    NoSnapshot,
    /// A snapshot was not expected.
    #[error("snapshot delimiter '@' is not expected here")]
    SnapshotUnexpected,
    /// A bookmark was not expected.
    #[error("bookmark delimiter '#' is not expected here")]
    BookmarkUnexpected,
    /// More than 50 levels.
    #[error("maximum name nesting depth exceeded")]
    TooDeep,
}

/// A character as OpenZFS writes it: the sign of temporary names stands alone.
fn quoted(character: char) -> String {
    match character {
        '%' => "%".to_owned(),
        other => format!("'{other}'"),
    }
}

/// A log vdev of which too many devices are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingLog {
    /// Its name: `mirror-1`, or the device's path.
    pub name: String,
    /// The devices below it that are missing, by path or guid.
    pub devices: Vec<String>,
}

/// Why a request was refused.
///
/// How it is written in a frame is in `error_form`.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "error", rename_all = "snake_case")]
pub enum ControlError {
    /// A case of one subject.
    #[error("{0}")]
    #[serde(skip)]
    Refused(Refusal),
    /// No imported pool has this name.
    #[error("no such pool")]
    NoSuchPool {
        /// The name.
        pool: String,
    },
    /// No device of the pool has this name.
    #[error("couldn't find device \"{device}\" in pool \"{pool}\"")]
    NoSuchDevice {
        /// The device.
        device: String,
        /// The pool.
        pool: String,
    },
    /// No dataset or snapshot has this name.
    #[error("dataset does not exist")]
    NoSuchDataset {
        /// The name.
        dataset: String,
    },
    /// No bookmark has this name.
    #[error("no such pool or dataset")]
    NoSuchBookmark {
        /// The name.
        bookmark: String,
    },
    /// The name cannot be one.
    #[error("{fault}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// It is of the wrong kind for this.
    #[error("operation not applicable to datasets of this type")]
    WrongKind {
        /// The dataset.
        dataset: String,
    },
    /// The name is taken.
    #[error("{} already exists", if name.contains(['/', '@']) { "dataset" } else { "pool" })]
    Exists {
        /// The name.
        name: String,
    },
    /// The pool is imported read-only.
    #[error("pool is read-only")]
    PoolReadOnly {
        /// The pool.
        pool: String,
    },
    /// Something uses the pool.
    #[error("pool is busy")]
    PoolBusy {
        /// The pool.
        pool: String,
    },
    /// One command makes two snapshots of it.
    #[error("multiple snapshots of same fs not allowed")]
    SnapshotsOfSame {
        /// The second snapshot.
        snapshot: String,
    },
    /// A change of a snapshot, clone or bookmark is not possible.
    #[error("{reason}")]
    SnapshotRefused {
        /// What it is about.
        name: String,
        /// Why: `tag already exists on this dataset`.
        reason: String,
    },
    /// A stream is not received, or not sent, in the words of a daemon that knows no cases.
    #[error("{what}: {reason}")]
    StreamRefused {
        /// What cannot be done: `cannot receive incremental stream`.
        what: String,
        /// Why not, in OpenZFS's words.
        reason: String,
    },
    /// The snapshot is what clones began as.
    #[error("snapshot is cloned")]
    SnapshotCloned {
        /// The snapshot.
        snapshot: String,
    },
    /// Something uses the dataset.
    #[error("dataset is busy")]
    DatasetBusy {
        /// The dataset.
        dataset: String,
    },
    /// Files are open below the mount point.
    #[error("pool or dataset is busy")]
    MountBusy {
        /// The mount point.
        path: String,
    },
    /// It is gone here, and another mount namespace still has it.
    #[error("{}", elsewhere(process.as_ref()))]
    MountedElsewhere {
        /// The dataset.
        dataset: String,
        /// A process there, its program, and where it has it; `None` if that cannot be seen.
        process: Option<(u32, String, String)>,
    },
    /// It is mounted already.
    #[error("filesystem already mounted")]
    AlreadyMounted {
        /// The dataset.
        dataset: String,
    },
    /// It is not mounted.
    #[error("not currently mounted")]
    NotMounted {
        /// The dataset or path.
        target: String,
    },
    /// Its mountpoint property is `legacy`.
    #[error("legacy mountpoint")]
    LegacyMountpoint {
        /// The dataset.
        dataset: String,
    },
    /// Its mountpoint property is `none`.
    #[error("no mountpoint set")]
    NoMountpoint {
        /// The dataset.
        dataset: String,
    },
    /// Its canmount property is `off`.
    #[error("'canmount' property is set to 'off'")]
    CanMountOff {
        /// The dataset.
        dataset: String,
    },
    /// Where a file system is to be mounted cannot be read.
    #[error(
        "its properties cannot be read, so its mount point is unknown: {reason}; 'zpool scrub' \
         repairs them if another copy is intact"
    )]
    PropertiesUnreadable {
        /// The dataset.
        dataset: String,
        /// Why.
        reason: String,
    },
    /// The directory has files and overlay is off.
    #[error("directory is not empty")]
    DirectoryNotEmpty {
        /// The directory.
        path: String,
    },
    /// The mount point cannot be made.
    #[error("failed to create mountpoint: {reason}")]
    MountpointFailed {
        /// The directory.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The system does not unmount a mount.
    #[error("cannot unmount '{path}': {reason}")]
    UnmountFailed {
        /// The mount point.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The mount itself failed.
    #[error("{reason}")]
    MountFailed {
        /// The dataset.
        dataset: String,
        /// The system's reason.
        reason: String,
    },
    /// The dataset is only partly received.
    #[error(
        "Contains partially-completed state from \"zfs receive -s\", \
         which can be resumed with \"zfs send -t\""
    )]
    PartlyReceived {
        /// The dataset.
        dataset: String,
    },
    /// The dataset is redacted.
    #[error("Dataset is not complete, was created by receiving a redacted zfs send stream.")]
    Redacted {
        /// The dataset.
        dataset: String,
    },
    /// Its key is not loaded.
    #[error("encryption key not loaded")]
    KeyNotLoaded {
        /// The dataset.
        dataset: String,
    },
    /// Its key is loaded already.
    #[error("Key already loaded for '{dataset}'.")]
    KeyLoaded {
        /// The encryption root.
        dataset: String,
    },
    /// Its key is not loaded, so it cannot be unloaded.
    #[error("Key already unloaded for '{dataset}'.")]
    KeyUnloaded {
        /// The encryption root.
        dataset: String,
    },
    /// The key does not fit.
    #[error("Incorrect key provided for '{dataset}'.")]
    KeyIncorrect {
        /// The encryption root.
        dataset: String,
    },
    /// The key cannot be one of its format.
    #[error("{reason}")]
    KeyMalformed {
        /// The encryption root.
        dataset: String,
        /// What is wrong: `Raw key too short (expected 32).`
        reason: String,
    },
    /// The dataset uses its key.
    #[error("'{dataset}' is busy.")]
    KeyBusy {
        /// The encryption root.
        dataset: String,
    },
    /// It is not encrypted.
    #[error("'{dataset}' is not encrypted.")]
    NotEncrypted {
        /// The dataset.
        dataset: String,
    },
    /// It takes its key from another dataset.
    #[error("Keys must be loaded for encryption root of '{dataset}' ({root}).")]
    NotEncryptionRoot {
        /// The dataset.
        dataset: String,
        /// Its encryption root.
        root: String,
    },
    /// The client has no permission.
    #[error("permission denied")]
    PermissionDenied,
    /// The daemon serves as many clients as it may.
    #[error("the daemon serves too many clients")]
    TooManyClients,
    /// The pool waits after I/O failures.
    #[error("pool I/O is currently suspended")]
    Suspended {
        /// The pool.
        pool: String,
    },
    /// Nothing to import has this name or guid.
    #[error("no such pool available")]
    NoSuchCandidate {
        /// The name or guid.
        pool: String,
    },
    /// Several pools to import have this name.
    #[error("more than one matching pool")]
    AmbiguousPool {
        /// The name.
        pool: String,
    },
    /// An imported pool has this name.
    #[error("a pool with that name already exists")]
    PoolNameTaken {
        /// The name.
        pool: String,
    },
    /// Another host may be using it.
    #[error("pool was previously in use from another system.")]
    ForeignHost {
        /// The pool.
        pool: String,
        /// That host's name.
        hostname: String,
        /// That host's id.
        hostid: u64,
        /// When it last wrote, seconds.
        timestamp: u64,
    },
    /// Several hosts may use it, and this one has no id.
    #[error("pool has the multihost property on and the system's hostid is not set")]
    HostIdRequired {
        /// The pool.
        pool: String,
    },
    /// Another host is using it: the activity check saw writes.
    #[error("pool is imported on host '{hostname}' (hostid={hostid:x}).")]
    ActiveElsewhere {
        /// The pool.
        pool: String,
        /// That host's name.
        hostname: String,
        /// That host's id.
        hostid: u64,
    },
    /// Too many devices are missing.
    #[error("one or more devices is currently unavailable")]
    DevicesUnavailable {
        /// The pool.
        pool: String,
        /// What is wrong with them.
        diagnoses: Vec<Diagnosis>,
    },
    /// Another process has a device of the pool.
    #[error("{path} is in use by another program, or mounted")]
    DeviceLocked {
        /// The pool.
        pool: String,
        /// The device.
        path: String,
    },
    /// Log devices are missing.
    #[error("one or more devices is currently unavailable")]
    LogMissing {
        /// The pool.
        pool: String,
        /// The logs that cannot be opened.
        logs: Vec<MissingLog>,
    },
    /// What a dataset's intent log holds cannot be found, and the pool was not exported.
    #[error("the object set of '{dataset}' cannot be read, and with it its intent log")]
    LogUnreadable {
        /// The pool.
        pool: String,
        /// The dataset.
        dataset: String,
        /// Why.
        reason: String,
    },
    /// The version is newer than the software.
    #[error("pool is formatted using an unsupported ZFS version")]
    UnsupportedVersion {
        /// The pool.
        pool: String,
        /// Its version.
        version: u64,
    },
    /// Features that the software does not have.
    #[error("unsupported version or feature")]
    UnsupportedFeatures {
        /// The pool.
        pool: String,
        /// Which.
        features: Vec<FeatureName>,
        /// Whether a read-only import would do.
        readonly_works: bool,
    },
    /// The pool's metadata cannot be read.
    #[error("I/O error")]
    PoolDamaged {
        /// The pool.
        pool: String,
        /// The block or object that failed, in words.
        place: String,
        /// Whether an older state can be.
        older: OlderState,
    },
    /// There is no checkpoint to rewind to.
    #[error("checkpoint does not exist")]
    NoCheckpoint {
        /// The pool.
        pool: String,
    },
    /// The pool can be read, and not written to.
    #[error("the pool can only be imported read-only: {reason}")]
    ReadOnlyOnly {
        /// The pool.
        pool: String,
        /// Why.
        reason: String,
    },
    /// A read failed permanently.
    #[error("I/O error: {place}")]
    Io {
        /// The block, object or path, in words.
        place: String,
    },
    /// The snapshots are not of one file system's line.
    #[error("Not an earlier snapshot from the same fs")]
    NotEarlier {
        /// The snapshot.
        snapshot: String,
    },
    /// A property that does not exist.
    #[error("invalid property '{property}'")]
    NoSuchProperty {
        /// Its name.
        property: String,
    },
    /// An option's value does not do.
    #[error("{reason}")]
    BadValue {
        /// The option or property.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Devices cannot become part of a pool.
    #[error("{}", devices.join("\n"))]
    DevicesRefused {
        /// A line about each.
        devices: Vec<String>,
        /// They were refused in spite of force.
        is_forced: bool,
    },
    /// A pool that is imported somewhere has the device.
    #[error("{path} is a member (ACTIVE) of pool \"{pool}\"")]
    DeviceInUse {
        /// The device.
        path: String,
        /// The pool, by its labels.
        pool: String,
    },
    /// There is no such file or device.
    #[error("cannot resolve path '{path}'")]
    NoSuchPath {
        /// Where it should be.
        path: String,
    },
    /// The dataset above is not there.
    #[error("parent does not exist")]
    NoParent {
        /// The new dataset.
        dataset: String,
    },
    /// The dataset above is a volume.
    #[error("parent is not a filesystem")]
    ParentNotFilesystem {
        /// The new dataset.
        dataset: String,
    },
    /// A dataset is to be moved below itself.
    #[error("New dataset name cannot be a descendant of current dataset name")]
    IntoItself {
        /// Its new name.
        dataset: String,
    },
    /// Other datasets or snapshots depend on it.
    #[error("{what}")]
    HasDependents {
        /// The dataset.
        dataset: String,
        /// `filesystem has children`, …
        what: String,
    },
    /// There is no space.
    #[error("out of space")]
    NoSpace {
        /// Where.
        dataset: String,
    },
    /// A dataset would refer to more than its `refquota` allows.
    #[error("quota exceeded: {referenced} bytes are more than refquota allows ({quota} bytes)")]
    AboveRefquota {
        /// The dataset.
        dataset: String,
        /// What it would refer to.
        referenced: u64,
        /// The limit.
        quota: u64,
    },
    /// A directory in the way.
    #[error("mountpoint '{path}' exists and is not empty")]
    MountpointInUse {
        /// The directory.
        path: String,
    },
    /// A file or device where a directory should be.
    #[error("mountpoint '{path}' is not a directory")]
    MountpointNotDirectory {
        /// The file.
        path: String,
    },
    /// The daemon does not do this.
    #[error("{what} is not supported")]
    Unsupported {
        /// What.
        what: String,
    },
    /// No daemon answers on the socket. Made by clients, never sent.
    #[error("cannot reach the Cenote daemon: {reason}")]
    Unreachable {
        /// Why not.
        reason: String,
    },
    /// The daemon died with pools imported. Made by clients, never sent.
    #[error("{text}")]
    DaemonDied {
        /// What is known of it, and what to do: some lines.
        text: String,
    },
    /// The client gave up.
    #[error("interrupted")]
    Interrupted,
    /// One of our own invariants does not hold.
    #[error("internal error: {detail}")]
    Internal {
        /// Which.
        detail: String,
    },
}

impl<R: Into<Refusal>> From<R> for ControlError {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal.into())
    }
}

impl ControlError {
    /// A refusal to do this with a stream.
    pub fn stream(act: StreamAct, why: StreamRefusal) -> Self {
        Self::Refused(Refusal::Stream { act, why })
    }

    /// Whether a stream is not received or sent.
    pub fn is_of_stream(&self) -> bool {
        let is_case = matches!(self, Self::Refused(Refusal::Stream { .. }));
        is_case || matches!(self, Self::StreamRefused { .. })
    }

    /// The option or property that is to blame; none if the error is of another kind.
    pub fn wrong_option(&self) -> Option<&str> {
        match self {
            Self::BadValue { name, .. } => Some(name),
            Self::Refused(Refusal::Stream { .. }) => None,
            Self::Refused(refusal) => Some(refusal.property()),
            _ => None,
        }
    }
}

/// Where else something is mounted, and what to do about it.
fn elsewhere(process: Option<&(u32, String, String)>) -> String {
    let Some((pid, program, path)) = process else {
        return "it is still mounted in another mount namespace, a container or a service; \
                unmount it there, or use '-f'"
            .to_owned();
    };
    format!(
        "it is still mounted in the mount namespace of process {pid} ({program}); \
         'nsenter -t {pid} -m umount {path}' unmounts it there, '-f' ends it"
    )
}
