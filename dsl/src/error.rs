//! What can go wrong between a dataset's name and its contents.

use crate::key_material::KeyMaterialError;
use crate::name::{DatasetName, NameError};
use cenote_base::{ObjectId, ObjsetId};
use cenote_dmu::DmuError;
use cenote_intent_log::IntentLogError;
use cenote_ondisk::DecodeError;

/// A request about datasets cannot be fulfilled; every variant names the dataset or object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DslError {
    /// An object of the pool's metadata, or of a dataset, cannot be read.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// The name is not allowed.
    #[error("'{text}': {source}")]
    BadName {
        /// The name as given or found.
        text: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// There is no such dataset, snapshot or bookmark.
    #[error("'{name}': dataset does not exist")]
    NoSuchDataset {
        /// What was looked for.
        name: DatasetName,
    },
    /// The object is no dataset, or none that a name leads to.
    #[error("object {object} is not a dataset of this pool")]
    NotADataset {
        /// The object.
        object: ObjectId,
    },
    /// Objects that must form a tree or a chain do not.
    #[error("object {object} of the pool's metadata: {problem}")]
    BadStructure {
        /// The object where it shows.
        object: ObjectId,
        /// What is wrong.
        problem: &'static str,
    },
    /// The object directory lacks what every pool has.
    #[error("the object directory has no entry '{key}'")]
    MissingEntry {
        /// The key.
        key: &'static str,
    },
    /// The dataset is not encrypted.
    #[error("'{name}' is not encrypted.")]
    NotEncrypted {
        /// The dataset.
        name: DatasetName,
    },
    /// The dataset's keys are those of an ancestor.
    #[error("Keys must be loaded for encryption root of '{name}' ({root}).")]
    NotEncryptionRoot {
        /// The dataset.
        name: DatasetName,
        /// The encryption root.
        root: DatasetName,
    },
    /// The key is loaded already.
    #[error("Key already loaded for '{name}'.")]
    KeyLoaded {
        /// The encryption root.
        name: DatasetName,
    },
    /// The key is not loaded.
    #[error("Key already unloaded for '{name}'.")]
    KeyNotLoaded {
        /// The encryption root.
        name: DatasetName,
    },
    /// The key does not open the dataset's keys.
    #[error("Incorrect key provided for '{name}'.")]
    WrongKey {
        /// The encryption root.
        name: DatasetName,
    },
    /// The bytes are no key of the dataset's format.
    #[error("{source}")]
    BadKeyMaterial {
        /// The encryption root.
        name: DatasetName,
        /// What is wrong.
        source: KeyMaterialError,
    },
    /// There is a dataset of this name already.
    #[error("'{name}': dataset already exists")]
    DatasetExists {
        /// The name.
        name: DatasetName,
    },
    /// The dataset above the new one is not there, or is no file system.
    #[error("'{name}': parent does not exist")]
    NoParent {
        /// The new dataset.
        name: DatasetName,
    },
    /// Only file systems have datasets below them.
    #[error("parent is not a filesystem")]
    ParentNotFilesystem {
        /// The new dataset.
        name: DatasetName,
    },
    /// A pool's root dataset stays where it is.
    #[error("'{name}' is the root dataset of its pool")]
    RootDataset {
        /// The dataset.
        name: DatasetName,
    },
    /// A dataset cannot move below itself.
    #[error("'{name}': new dataset name is a descendant of current dataset name")]
    IntoItself {
        /// The new name.
        name: DatasetName,
    },
    /// The dataset could not have its key from its encryption root any more.
    #[error("{problem}")]
    LeavesEncryptionRoot {
        /// The dataset.
        name: DatasetName,
        /// Why, and what to do.
        problem: &'static str,
    },
    /// The dataset has children.
    #[error("'{name}' has children")]
    HasChildren {
        /// The dataset.
        name: DatasetName,
    },
    /// The dataset has snapshots.
    #[error("'{name}' has snapshots")]
    HasSnapshots {
        /// The dataset.
        name: DatasetName,
    },
    /// A dataset's intent log cannot be read.
    #[error(transparent)]
    IntentLog(#[from] IntentLogError),
    /// The dataset is in use.
    #[error("'{name}': dataset is busy")]
    Busy {
        /// The dataset.
        name: DatasetName,
    },
    /// A limit or reservation does not fit what there is.
    #[error("'{name}': {property} does not fit: the limit is {available} bytes")]
    NoRoom {
        /// The dataset.
        name: DatasetName,
        /// The property.
        property: String,
        /// What is available, or the least that is possible.
        available: u64,
    },
    /// There is no space for what would move below another dataset.
    #[error("'{name}': out of space")]
    NoSpaceFor {
        /// The new name.
        name: DatasetName,
    },
    /// A dataset would refer to more than its `refquota` allows.
    #[error("'{name}': quota exceeded: {referenced} bytes, and refquota is {quota}")]
    AboveRefquota {
        /// The dataset.
        name: DatasetName,
        /// What it would refer to.
        referenced: u64,
        /// The limit.
        quota: u64,
    },
    /// A limit on the number of file systems or snapshots is reached.
    #[error("{property} is reached")]
    LimitReached {
        /// The property that sets the limit.
        property: &'static str,
    },
    /// The change builds on what this very transaction group makes: it is for the next one.
    #[error("'{name}' was changed a moment ago")]
    NextGroup {
        /// The dataset.
        name: DatasetName,
    },
    /// What the change builds on is of a group that the pool has not come to.
    #[error(
        "'{name}' names a transaction group that the pool has not come to: its metadata is damaged"
    )]
    NeverDue {
        /// The dataset.
        name: DatasetName,
    },
    /// The name is none of a snapshot.
    #[error("'{name}' is not a snapshot")]
    NotASnapshot {
        /// The name.
        name: DatasetName,
    },
    /// One command makes two snapshots of the same dataset.
    #[error("'{name}': multiple snapshots of same fs not allowed")]
    SnapshotsOfSame {
        /// The second snapshot.
        name: DatasetName,
    },
    /// The snapshot has a user hold.
    #[error("'{name}': it's being held. Run 'zfs holds -r {name}' to see holders.")]
    Held {
        /// The snapshot.
        name: DatasetName,
    },
    /// The snapshot has clones.
    #[error("'{name}': snapshot is cloned")]
    HasClones {
        /// The snapshot.
        name: DatasetName,
    },
    /// The snapshot has a hold with this tag.
    #[error("'{name}': tag already exists on this dataset")]
    TagExists {
        /// The snapshot.
        name: DatasetName,
    },
    /// The snapshot has no hold with this tag.
    #[error("'{name}': no such tag on this dataset")]
    NoSuchTag {
        /// The snapshot.
        name: DatasetName,
    },
    /// The tag is the empty string.
    #[error("'{name}': tag is empty")]
    EmptyTag {
        /// The snapshot.
        name: DatasetName,
    },
    /// The tag has too many bytes.
    #[error("'{name}': tag too long")]
    TagTooLong {
        /// The snapshot.
        name: DatasetName,
    },
    /// Only clones can be promoted.
    #[error("'{name}': not a cloned filesystem")]
    NotAClone {
        /// The dataset.
        name: DatasetName,
    },
    /// A clone has snapshots with names that its origin's have, too.
    #[error("conflicting snapshot '{}' from parent '{origin}'", names.join("', '"))]
    ConflictingSnapshots {
        /// What is behind the `@`.
        names: Vec<String>,
        /// The dataset that it was cloned from.
        origin: DatasetName,
    },
    /// What a dataset is rolled back to is not its newest snapshot, or bookmarks are newer.
    #[error("'{name}': more recent snapshots or bookmarks exist")]
    MoreRecent {
        /// The snapshot.
        name: DatasetName,
    },
    /// A dataset has changes that its newest snapshot has not.
    #[error("'{name}': modified since most recent snapshot")]
    Modified {
        /// The dataset.
        name: DatasetName,
    },
    /// There is a bookmark of this name already.
    #[error("'{name}': bookmark exists")]
    BookmarkExists {
        /// The bookmark.
        name: DatasetName,
    },
    /// A bookmark is to be made of what the dataset did not grow out of.
    #[error("'{name}': source is not an ancestor of the new bookmark's dataset")]
    NotAnAncestor {
        /// The new bookmark.
        name: DatasetName,
    },
    /// The name is none of a bookmark.
    #[error("'{name}' is not a bookmark")]
    NotABookmark {
        /// The name.
        name: DatasetName,
    },
    /// A name below would become too long.
    #[error("'{name}': name is too long")]
    NameTooLong {
        /// The name.
        name: DatasetName,
    },
    /// A removed vdev's blocks were remapped by a command that OpenZFS had for a while.
    #[error("'{name}' has a list of remapped blocks, which is not kept up to date here")]
    Remapped {
        /// The dataset.
        name: DatasetName,
    },
    /// The pool lacks a feature that the change needs.
    #[error(
        "the feature '{feature}' is not enabled; 'zpool set feature@{feature}=enabled' does it"
    )]
    FeatureDisabled {
        /// The feature's name.
        feature: String,
    },
    /// The list of damaged blocks has the form of before `head_errlog`, and is not empty.
    #[error(
        "the feature 'head_errlog' cannot be enabled while 'zpool status -v' lists damaged files: \
         the list has the older form. Repair or remove them, and scrub the pool"
    )]
    OldErrorLog,
    /// The pool has a checkpoint, and may have one only.
    #[error("checkpoint exists")]
    CheckpointExists,
    /// An intent log that waits for its replay would not be part of the checkpoint.
    #[error(
        "an intent log that waits for its replay has a block of transaction group {birth}, and the \
         pool is at {txg}; mount the dataset, so that the log is replayed, and try again"
    )]
    LogFromLater {
        /// The group of the block.
        birth: u64,
        /// The last group of the pool.
        txg: u64,
    },
    /// The pool has no checkpoint.
    #[error("checkpoint does not exist")]
    NoCheckpoint,
    /// What the last checkpoint kept is being freed.
    #[error("currently discarding checkpoint")]
    DiscardingCheckpoint,
    /// The system has no random numbers.
    #[error("no random numbers: {source}")]
    Randomness {
        /// Why.
        source: std::io::Error,
    },
    /// What fills a new dataset failed.
    #[error("the new dataset cannot be filled: {reason}")]
    Format {
        /// Why.
        reason: String,
    },
    /// The dataset's keys can neither be opened nor be made: the user's key is missing.
    #[error("encryption root's key is not loaded or provided")]
    KeyRequired {
        /// The dataset.
        name: DatasetName,
    },
    /// The dataset's keys cannot be wrapped like that.
    #[error("{problem}")]
    KeyRefused {
        /// The dataset.
        name: DatasetName,
        /// Why, as a sentence.
        problem: &'static str,
    },
    /// Something below the encryption root is in use.
    #[error("'{name}' is busy.")]
    KeyBusy {
        /// The encryption root.
        name: DatasetName,
    },
}

impl DslError {
    /// An error about the contents of an object of the pool's metadata.
    pub(crate) fn decode(object: ObjectId, source: DecodeError) -> Self {
        Self::Dmu(DmuError::Decode {
            objset: ObjsetId::MOS,
            object,
            source,
        })
    }

    pub(crate) fn structure(object: ObjectId, problem: &'static str) -> Self {
        Self::BadStructure { object, problem }
    }

    /// Whether the pool's data is damaged, as opposed to absent, locked or misnamed.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Dmu(error) => error.is_damage() || matches!(error, DmuError::NoSuchObject { .. }),
            Self::NotADataset { .. }
            | Self::BadStructure { .. }
            | Self::MissingEntry { .. }
            | Self::NeverDue { .. } => true,
            _ => false,
        }
    }

    /// Whether the operation failed because the dataset's key is not loaded.
    pub fn is_key_not_loaded(&self) -> bool {
        matches!(self, Self::Dmu(error) if error.is_key_not_loaded())
    }
}
