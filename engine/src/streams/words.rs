//! OpenZFS's words for why a stream is not received (format/4 9).

use cenote_control::model::ControlError;
use cenote_dataset::SpaceRefusal;
use cenote_dsl::DatasetName;
use cenote_dsl::DslError;
use cenote_pool::SyncError;
use cenote_stream::{Problem, StreamError};

/// What a stream wants, for the beginning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// It cannot even be said.
    Unknown,
    New,
    Increment,
    Resume,
}

impl Wants {
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "cannot receive",
            Self::New => "cannot receive new filesystem stream",
            Self::Increment => "cannot receive incremental stream",
            Self::Resume => "cannot receive resume stream",
        }
    }

    /// A refusal of this.
    pub fn refused(self, reason: impl Into<String>) -> ControlError {
        ControlError::StreamRefused {
            what: self.text().to_owned(),
            reason: reason.into(),
        }
    }
}

pub(super) fn no_match(dataset: &DatasetName) -> String {
    format!("most recent snapshot of {dataset} does not\nmatch incremental source")
}

pub(super) fn modified(dataset: &DatasetName) -> String {
    format!("destination {dataset} has been modified\nsince most recent snapshot")
}

pub(super) fn no_room(dataset: &DatasetName, refusal: SpaceRefusal) -> String {
    match refusal {
        SpaceRefusal::Quota => format!("destination {dataset} space quota exceeded."),
        SpaceRefusal::NoSpace => "out of space".to_owned(),
        SpaceRefusal::Unknown => format!(
            "cannot tell how much space {dataset} has left: metadata of the pool cannot be read.\n             See 'zpool status -v {}'.",
            dataset.pool()
        ),
    }
}

pub(super) fn partial(dataset: &DatasetName) -> String {
    format!("destination {dataset} contains partially-complete state from \"zfs receive -s\".")
}

/// Why a stream itself is not received.
pub(super) fn of_stream(wants: Wants, dataset: &DatasetName, error: &StreamError) -> ControlError {
    let at = |words: &str| format!("{words}\n{}", with_causes(error));
    wants.refused(match error {
        StreamError::NotAStream => return Wants::Unknown.refused(NO_MAGIC),
        StreamError::Cut { .. } => at("incomplete stream"),
        StreamError::Read { .. } => at("failed to read from stream"),
        StreamError::Checksum { .. } => at("checksum mismatch"),
        StreamError::Full { refusal, .. } => no_room(dataset, *refusal),
        StreamError::Closed { .. } => at("destination is busy"),
        StreamError::Grammar {
            problem: Problem::Features(bits),
            ..
        } => {
            return Wants::Unknown.refused(format!(
                "stream has unsupported feature, feature flags = {bits:x} \
                 (unknown flags = {bits:x})"
            ));
        }
        StreamError::Cancelled { .. } => "interrupted".to_owned(),
        _ => at("invalid backup stream"),
    })
}

pub(super) const NO_MAGIC: &str = "invalid stream (bad magic number)";

/// An error with all that led to it.
fn with_causes(error: &StreamError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Why the pool does not take what a stream brings, to `dataset`.
pub(super) fn of_change(wants: Wants, dataset: &DatasetName, error: SyncError) -> ControlError {
    match error {
        SyncError::Dsl(error) => of_dsl(wants, dataset, &error),
        SyncError::Stopped { .. } => ControlError::Suspended {
            pool: dataset.pool().to_owned(),
        },
        error => wants.refused(error.to_string()),
    }
}

pub(super) fn of_dsl(wants: Wants, dataset: &DatasetName, error: &DslError) -> ControlError {
    wants.refused(match error {
        DslError::DatasetExists { name } if name.as_str().contains('@') => {
            return ControlError::StreamRefused {
                what: format!("cannot restore to {name}"),
                reason: "destination already exists".to_owned(),
            };
        }
        DslError::DatasetExists { name } => {
            format!("destination '{name}' exists\nmust specify -F to overwrite it")
        }
        DslError::Modified { .. } => modified(dataset),
        DslError::MoreRecent { .. } => no_match(dataset),
        DslError::Busy { .. } | DslError::Held { .. } => "dataset is busy".to_owned(),
        DslError::KeyRequired { .. } => "inherited key must be loaded".to_owned(),
        DslError::FeatureDisabled { .. } => TOO_OLD.to_owned(),
        DslError::NoSpaceFor { .. } => "out of space".to_owned(),
        DslError::ParentNotFilesystem { .. } => "invalid parent dataset".to_owned(),
        error => error.to_string(),
    })
}

pub(super) const TOO_OLD: &str = "pool must be upgraded to receive this stream.";
