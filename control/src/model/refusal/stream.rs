//! Why a stream is not sent or received (format/4 9).

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// What cannot be done with a stream.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamAct {
    /// To receive it; what it is cannot be said.
    #[error("cannot receive")]
    Receive,
    /// To receive a dataset.
    #[error("cannot receive new filesystem stream")]
    ReceiveNew,
    /// To receive an increment.
    #[error("cannot receive incremental stream")]
    ReceiveIncrement,
    /// To receive the rest of one that was cut.
    #[error("cannot receive resume stream")]
    ReceiveResume,
    /// To receive into a snapshot that is there.
    #[error("cannot restore to {snapshot}")]
    Restore {
        /// The snapshot.
        snapshot: String,
    },
    /// To find the parent of what is to be received.
    #[error("cannot open '{dataset}'")]
    Open {
        /// The parent.
        dataset: String,
    },
    /// To send the requested stream.
    #[error("cannot send '{target}'")]
    Send {
        /// The dataset or snapshot.
        target: String,
    },
    /// To send a snapshot of a package.
    #[error("cannot send {snapshot}")]
    SendOne {
        /// The snapshot.
        snapshot: String,
    },
    /// To send the rest that a resume token names.
    #[error("cannot resume send")]
    ResumeSend,
    /// To destroy what was received in part.
    #[error("")]
    Abort,
}

/// What is wrong with a stream itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFault {
    /// It ends too early.
    #[error("incomplete stream")]
    Incomplete,
    /// It cannot be read.
    #[error("failed to read from stream")]
    Unread,
    /// Its checksum is wrong.
    #[error("checksum mismatch")]
    Checksum,
    /// It makes no sense.
    #[error("invalid backup stream")]
    Invalid,
    /// What it goes into was closed meanwhile.
    #[error("destination is busy")]
    Busy,
}

/// Why a stream is not sent or received.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamRefusal {
    /// The stream is damaged, cut or wrong.
    #[error("{fault}{}", below(cause.as_deref()))]
    Broken {
        /// How.
        fault: StreamFault,
        /// Where, and what led to it.
        cause: Option<String>,
    },
    /// It is no stream.
    #[error("invalid stream (bad magic number)")]
    NotAStream,
    /// It does not name a snapshot.
    #[error("invalid stream (bad snapshot name)")]
    NotASnapshot,
    /// It has features that are not known here.
    #[error("stream has unsupported feature, feature flags = {bits:x} (unknown flags = {bits:x})")]
    UnknownFeatures {
        /// Their bits.
        bits: u64,
    },
    /// It refers to blocks that it had before.
    #[error(
        "stream has deprecated feature: dedup, try 'zstream redup [send in a file] \
         | zfs recv [...]'"
    )]
    Deduplicated,
    /// It was sent without large blocks, and what it builds upon with them.
    #[error("incremental send stream requires -L (--large-block), to match previous receive.")]
    NeedsLargeBlocks,
    /// It was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The pool is imported read-only.
    #[error("pool is read-only")]
    ReadOnlyPool,
    /// The pool lacks a feature.
    #[error("pool must be upgraded to receive this stream.")]
    PoolTooOld,
    /// The pool has no space.
    #[error("out of space")]
    NoSpace,
    /// A quota is reached.
    #[error("destination {dataset} space quota exceeded.")]
    QuotaReached {
        /// Where.
        dataset: String,
    },
    /// A snapshot is named for a stream of many.
    #[error("cannot specify snapshot name for multi-snapshot stream")]
    ManySnapshots,
    /// What is named is not there.
    #[error("specified fs ({dataset}) does not exist")]
    NoSuchTarget {
        /// The name.
        dataset: String,
    },
    /// What the stream goes into is not there.
    #[error("destination '{dataset}' does not exist")]
    NoDestination {
        /// The dataset.
        dataset: String,
    },
    /// What was received into is not there any more.
    #[error("dataset does not exist")]
    Gone,
    /// There is no parent for what is to be received.
    #[error("dataset does not exist\n{wanted}: unable to restore to destination")]
    NoParent {
        /// What was to be done.
        wanted: Box<StreamAct>,
    },
    /// The parent is a volume.
    #[error("parent '{parent}' is not a filesystem")]
    ParentNotFilesystem {
        /// The parent.
        parent: String,
    },
    /// The parent cannot be one.
    #[error("invalid parent dataset")]
    InvalidParent,
    /// The dataset is there.
    #[error("destination '{dataset}' exists\nmust specify -F to overwrite it")]
    Exists {
        /// The dataset.
        dataset: String,
    },
    /// The dataset is there, and not even force overwrites it.
    #[error("destination '{dataset}' exists")]
    ExistsForGood {
        /// The dataset.
        dataset: String,
    },
    /// The snapshot is there.
    #[error("destination already exists")]
    SnapshotExists,
    /// The dataset has snapshots.
    #[error(
        "destination has snapshots (eg. {dataset}@{snapshot})\nmust destroy them to overwrite it"
    )]
    HasSnapshots {
        /// The dataset.
        dataset: String,
        /// One of them.
        snapshot: String,
    },
    /// The dataset is a clone.
    #[error("destination '{dataset}' is a clone\nmust destroy it to overwrite it")]
    IsClone {
        /// The dataset.
        dataset: String,
    },
    /// Encryption would come or go.
    #[error(
        "zfs receive -F cannot be used to destroy an encrypted filesystem or overwrite an \
         unencrypted one with an encrypted one"
    )]
    OverEncrypted,
    /// A volume cannot be there.
    #[error("destination '{dataset}' is the root dataset or has children\nmust specify another")]
    RootOrParent {
        /// The dataset.
        dataset: String,
    },
    /// The newest snapshot is not what the stream builds upon.
    #[error("most recent snapshot of {dataset} does not\nmatch incremental source")]
    NoMatch {
        /// The dataset.
        dataset: String,
    },
    /// The dataset has changed.
    #[error("destination {dataset} has been modified\nsince most recent snapshot")]
    Modified {
        /// The dataset.
        dataset: String,
    },
    /// An earlier stream was interrupted and can be resumed.
    #[error("destination {dataset} contains partially-complete state from \"zfs receive -s\".")]
    PartlyReceived {
        /// The dataset.
        dataset: String,
    },
    /// Something uses the dataset.
    #[error("dataset is busy")]
    Busy,
    /// The parent's key is not loaded.
    #[error("inherited key must be loaded")]
    ParentKeyNotLoaded,
    /// Raw streams bring their keys.
    #[error("encryption property '{property}' cannot be set or excluded for raw streams.")]
    KeyOfRaw {
        /// The property.
        property: String,
    },
    /// An increment makes no key.
    #[error("encryption property '{property}' cannot be set for incremental streams.")]
    KeyOfIncrement {
        /// The property.
        property: String,
    },
    /// The stream's keys are of an unknown kind.
    #[error("stream uses crypto parameters not compatible with this pool")]
    UnknownCrypto,
    /// What the stream builds upon is not encrypted.
    #[error("cannot perform raw receive on top of existing unencrypted dataset")]
    OverUnencrypted,
    /// What the stream builds upon has another key.
    #[error("encryption key does not match existing key")]
    OtherKey,
    /// The stream's base has been encrypted again since.
    #[error("IV set guid mismatch. See the 'zfs receive' man page section")]
    OtherIvSet,
    /// The snapshot to begin as is not there.
    #[error("specified origin fs ({origin}) does not exist")]
    NoSuchOrigin {
        /// Its name.
        origin: String,
    },
    /// The snapshot that a clone began as is not here.
    #[error("local origin for clone {snapshot} does not exist")]
    NoLocalOrigin {
        /// The clone's snapshot.
        snapshot: String,
    },
    /// The snapshot to heal is not there.
    #[error("snapshot '{snapshot}' does not exist")]
    NoSnapshot {
        /// Its name.
        snapshot: String,
    },
    /// The stream is of another snapshot.
    #[error("'{snapshot}' is not the snapshot that the stream is of")]
    OtherSnapshot {
        /// The snapshot.
        snapshot: String,
    },
    /// Not all that is damaged was healed.
    #[error("corrective receive was not able to reconstruct the data needed for healing.")]
    NotHealed,
    /// It was interrupted, and can be resumed.
    #[error(
        "{reason}\nPartially received snapshot is saved.\n\
         A resuming stream can be generated on the sending system by running:\n    \
         zfs send -t {token}"
    )]
    Kept {
        /// Why it broke off.
        reason: String,
        /// The token to resume with.
        token: String,
    },
    /// Nothing was received in part.
    #[error("'{dataset}' does not have any resumable receive state")]
    NothingPartial {
        /// The dataset.
        dataset: String,
    },
    /// Nothing was received in part that could be destroyed.
    #[error("'{dataset}' does not have any resumable receive state to abort")]
    NothingToAbort {
        /// The dataset.
        dataset: String,
    },
    /// A chain cannot start from a bookmark.
    #[error("multiple snapshots cannot be sent from a bookmark")]
    FromBookmark,
    /// What the stream is to start from is not there.
    #[error("incremental source ({source_name}) does not exist")]
    NoSource {
        /// Its name.
        source_name: String,
    },
    /// What the stream is to start from is of another line.
    #[error("not an earlier snapshot from the same fs")]
    NotEarlier,
    /// A head that is in use cannot be sent.
    #[error("target is busy; if a filesystem, it must not be mounted")]
    TargetBusy,
    /// The key is not loaded.
    #[error("dataset key must be loaded")]
    KeyNotLoaded,
    /// The reader of the stream has ended.
    #[error("Broken pipe")]
    BrokenPipe,
    /// A signal came.
    #[error("signal received")]
    Signal,
    /// The snapshot of a token is gone.
    #[error("'{snapshot}' used in the initial send no longer exists")]
    TargetGone {
        /// Its name then.
        snapshot: String,
    },
    /// The file system or volume of a token has other contents now.
    #[error("'{dataset}' has changed since the initial send")]
    HeadChanged {
        /// Its name.
        dataset: String,
    },
    /// What the stream of a token starts from is gone.
    #[error("incremental source {guid:#x} no longer exists")]
    SourceGone {
        /// Its guid.
        guid: u64,
    },
    /// A layer below says why, in its own words.
    #[error("{reason}")]
    Other {
        /// The words.
        reason: String,
    },
}

/// A cause on a line of its own.
fn below(cause: Option<&str>) -> Below<'_> {
    Below(cause)
}

struct Below<'a>(Option<&'a str>);

impl fmt::Display for Below<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |cause| write!(f, "\n{cause}"))
    }
}
