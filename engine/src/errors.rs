//! From the engine's errors to refusals that name what they are about.

use cenote_control::model::{ControlError, NameFault};
use cenote_dsl::{DatasetName, DslError, NameError};
use cenote_posix::PosixError;

/// The fault of a name, as clients know it.
pub(super) fn name_fault(error: NameError) -> NameFault {
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
pub(super) fn parse_name(text: &str) -> Result<DatasetName, ControlError> {
    DatasetName::parse(text).map_err(|error| ControlError::BadName {
        name: text.to_owned(),
        fault: name_fault(error),
    })
}

/// What a dataset or the pool's metadata refused.
pub(crate) fn of_dsl(error: DslError) -> ControlError {
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
pub(super) fn of_files(dataset: &str, error: &PosixError) -> ControlError {
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
