//! From the errors of the layers below to refusals that name what they are about.
//!
//! Neither side's types are ours, so these are functions: `of_dsl` where something is read,
//! `of_change` and `of_sync` where a change is refused, `of_files` for what is in a dataset.

use cenote_control::model::{ControlError, DeviceRefusal, NameFault};
use cenote_dataset::DatasetError;
use cenote_dsl::{DatasetName, DslError, NameError};
use cenote_pool::{CreateError, SyncError};
use cenote_posix::PosixError;
use cenote_volume::VolumeError;

/// The fault of a name, as clients know it.
pub fn name_fault(error: NameError) -> NameFault {
    match error {
        NameError::TooLong => NameFault::TooLong,
        NameError::LeadingSlash => NameFault::LeadingSlash,
        NameError::EmptyComponent => NameFault::EmptyComponent,
        NameError::TrailingSlash => NameFault::TrailingSlash,
        NameError::InvalidCharacter(character) => NameFault::Character(character),
        NameError::MultipleDelimiters => NameFault::Delimiters,
        NameError::NoLetter => NameFault::NoLetter,
        NameError::Reserved => NameFault::Reserved,
        NameError::SelfReference => NameFault::SelfReference,
        NameError::ParentReference => NameFault::ParentReference,
        NameError::NoSnapshot => NameFault::NoSnapshot,
        NameError::SnapshotUnexpected => NameFault::SnapshotUnexpected,
        NameError::BookmarkUnexpected => NameFault::BookmarkUnexpected,
        NameError::NestingTooDeep => NameFault::TooDeep,
    }
}

/// A name that a client gave.
pub fn parse_name(text: &str) -> Result<DatasetName, ControlError> {
    DatasetName::parse(text).map_err(|error| ControlError::BadName {
        name: text.to_owned(),
        fault: name_fault(error),
    })
}

/// What a dataset or the pool's metadata refused.
pub fn of_dsl(error: DslError) -> ControlError {
    let text = |name: &DatasetName| name.as_str().to_owned();
    match &error {
        DslError::BadName { text, source } => ControlError::BadName {
            name: text.clone(),
            fault: name_fault(*source),
        },
        DslError::NoSuchDataset { name } => match name.kind() {
            cenote_dsl::NameKind::Bookmark => ControlError::NoSuchBookmark {
                bookmark: text(name),
            },
            _ => ControlError::NoSuchDataset {
                dataset: text(name),
            },
        },
        DslError::NotEncrypted { name } => ControlError::NotEncrypted {
            dataset: text(name),
        },
        DslError::NotEncryptionRoot { name, root } => ControlError::NotEncryptionRoot {
            dataset: text(name),
            root: text(root),
        },
        DslError::KeyLoaded { name } => ControlError::KeyLoaded {
            dataset: text(name),
        },
        DslError::KeyNotLoaded { name } => ControlError::KeyUnloaded {
            dataset: text(name),
        },
        DslError::KeyRequired { name } => ControlError::KeyNotLoaded {
            dataset: text(name),
        },
        DslError::WrongKey { name } => ControlError::KeyIncorrect {
            dataset: text(name),
        },
        DslError::BadKeyMaterial { name, source } => ControlError::KeyMalformed {
            dataset: text(name),
            reason: source.to_string(),
        },
        DslError::KeyBusy { name } => ControlError::KeyBusy {
            dataset: text(name),
        },
        _ => ControlError::Io {
            place: error.to_string(),
        },
    }
}

/// A dataset's files cannot be opened or read.
pub fn of_files(dataset: &str, error: &PosixError) -> ControlError {
    match error {
        PosixError::KeyNotLoaded { .. } => ControlError::KeyNotLoaded {
            dataset: dataset.to_owned(),
        },
        PosixError::NotFileSystem { .. } => ControlError::WrongKind {
            dataset: dataset.to_owned(),
        },
        _ => ControlError::Io {
            place: error.to_string(),
        },
    }
}

/// What a volume refused.
pub fn of_volume(error: VolumeError) -> ControlError {
    match error {
        VolumeError::Dmu(error) | VolumeError::Dataset(DatasetError::Dmu(error)) => {
            of_change(error.into())
        }
        error => ControlError::Io {
            place: error.to_string(),
        },
    }
}

/// Why a pool did not take a change, in the clients' terms.
pub fn of_sync(pool: &str, error: SyncError) -> ControlError {
    let pool = pool.to_owned();
    match error {
        SyncError::Dsl(error) => of_change(error),
        SyncError::Stopped { .. } => ControlError::Suspended { pool },
        error => ControlError::Io {
            place: error.to_string(),
        },
    }
}

/// Why a change of datasets is not possible, in the clients' terms.
pub(crate) fn of_change(error: DslError) -> ControlError {
    if let Some((name, reason)) = of_snapshot_change(&error) {
        return ControlError::SnapshotRefused { name, reason };
    }
    let text = |name: &DatasetName| name.as_str().to_owned();
    match &error {
        DslError::DatasetExists { name } => ControlError::Exists { name: text(name) },
        DslError::NoParent { name } => ControlError::NoParent {
            dataset: text(name),
        },
        DslError::HasChildren { name } => ControlError::HasDependents {
            dataset: text(name),
            what: "filesystem has children".to_owned(),
        },
        DslError::HasSnapshots { name } => ControlError::HasDependents {
            dataset: text(name),
            what: "filesystem has children".to_owned(),
        },
        DslError::Busy { name } | DslError::Held { name } => ControlError::DatasetBusy {
            dataset: text(name),
        },
        DslError::HasClones { name } => ControlError::SnapshotCloned {
            snapshot: text(name),
        },
        DslError::SnapshotsOfSame { name } => ControlError::SnapshotsOfSame {
            snapshot: text(name),
        },
        DslError::NoSpaceFor { name } => ControlError::NoSpace {
            dataset: text(name),
        },
        DslError::AboveRefquota { .. } => above_refquota(error),
        DslError::NoRoom { property, .. } => ControlError::BadValue {
            name: property.clone(),
            reason: match property.contains("quota") {
                true => "size is less than current used or reserved space".to_owned(),
                false => "size is greater than available space".to_owned(),
            },
        },
        DslError::IntoItself { name } => ControlError::IntoItself {
            dataset: text(name),
        },
        DslError::ParentNotFilesystem { name } => ControlError::ParentNotFilesystem {
            dataset: text(name),
        },
        DslError::RootDataset { .. }
        | DslError::LeavesEncryptionRoot { .. }
        | DslError::IntentLog(_)
        | DslError::KeyRequired { .. }
        | DslError::KeyRefused { .. }
        | DslError::LimitReached { .. }
        | DslError::FeatureDisabled { .. }
        | DslError::OldErrorLog
        | DslError::CheckpointExists
        | DslError::LogFromLater { .. }
        | DslError::NoCheckpoint
        | DslError::DiscardingCheckpoint
        | DslError::Format { .. } => ControlError::BadValue {
            name: String::new(),
            reason: error.to_string(),
        },
        _ => of_dsl(error),
    }
}

fn above_refquota(error: DslError) -> ControlError {
    match error {
        DslError::AboveRefquota {
            name,
            referenced,
            quota,
        } => ControlError::AboveRefquota {
            dataset: name.as_str().to_owned(),
            referenced,
            quota,
        },
        error => of_dsl(error),
    }
}

/// What a change of snapshots, clones or bookmarks is refused for, in OpenZFS's words: about which
/// name, and why.
fn of_snapshot_change(error: &DslError) -> Option<(String, String)> {
    let full = error.to_string();
    let name = match error {
        DslError::ConflictingSnapshots { .. } => return Some((String::new(), full)),
        DslError::TagExists { name }
        | DslError::NoSuchTag { name }
        | DslError::TagTooLong { name }
        | DslError::NotAClone { name }
        | DslError::MoreRecent { name }
        | DslError::BookmarkExists { name }
        | DslError::NotAnAncestor { name }
        | DslError::NameTooLong { name }
        | DslError::NotASnapshot { name }
        | DslError::NotABookmark { name } => name,
        _ => return None,
    };
    let reason = full.strip_prefix(&format!("'{name}': ")).unwrap_or(&full);
    Some((name.as_str().to_owned(), reason.to_owned()))
}

/// Why devices cannot become a pool, or part of one.
pub fn of_create(error: CreateError) -> ControlError {
    match error {
        CreateError::Dsl(error) => of_change(error),
        error @ CreateError::AshiftMismatch => ControlError::BadValue {
            name: String::new(),
            reason: format!(
                "{error}\nuse '-o ashift=N' with that of the pool's vdevs, or \
                 '--allow-ashift-mismatch'"
            ),
        },
        error => ControlError::BadValue {
            name: String::new(),
            reason: error.to_string(),
        },
    }
}

/// Why a pool does not change its devices.
pub fn unchanged(reason: impl ToString) -> ControlError {
    let reason = reason.to_string();
    DeviceRefusal::Unchanged { reason }.into()
}

/// What is there in a device's place and is not the pool's.
pub fn outsider(outsider: impl ToString) -> ControlError {
    let what = outsider.to_string();
    DeviceRefusal::Outsider { what }.into()
}
