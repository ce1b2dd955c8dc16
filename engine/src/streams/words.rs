//! Why a stream is not received, by what the layers below say (format/4 9).

use cenote_control::model::{ControlError, StreamAct, StreamFault, StreamRefusal};
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
    pub fn act(self) -> StreamAct {
        match self {
            Self::Unknown => StreamAct::Receive,
            Self::New => StreamAct::ReceiveNew,
            Self::Increment => StreamAct::ReceiveIncrement,
            Self::Resume => StreamAct::ReceiveResume,
        }
    }

    /// A refusal of this.
    pub fn refused(self, why: StreamRefusal) -> ControlError {
        ControlError::stream(self.act(), why)
    }
}

fn text(name: &DatasetName) -> String {
    name.as_str().to_owned()
}

/// In the words of the layer below.
pub(super) fn other(error: impl ToString) -> StreamRefusal {
    let reason = error.to_string();
    StreamRefusal::Other { reason }
}

/// A stream that makes no sense.
pub(super) const INVALID: StreamRefusal = StreamRefusal::Broken {
    fault: StreamFault::Invalid,
    cause: None,
};

pub(super) fn no_match(dataset: &DatasetName) -> StreamRefusal {
    let dataset = text(dataset);
    StreamRefusal::NoMatch { dataset }
}

pub(super) fn modified(dataset: &DatasetName) -> StreamRefusal {
    let dataset = text(dataset);
    StreamRefusal::Modified { dataset }
}

pub(super) fn no_room(dataset: &DatasetName, refusal: SpaceRefusal) -> StreamRefusal {
    let dataset = text(dataset);
    match refusal {
        SpaceRefusal::Quota => StreamRefusal::QuotaReached { dataset },
        SpaceRefusal::NoSpace => StreamRefusal::NoSpace,
    }
}

/// Why a stream itself is not received.
pub(super) fn of_stream(wants: Wants, dataset: &DatasetName, error: &StreamError) -> ControlError {
    let broken = |fault| {
        let cause = Some(with_causes(error));
        StreamRefusal::Broken { fault, cause }
    };
    wants.refused(match error {
        StreamError::NotAStream => return Wants::Unknown.refused(StreamRefusal::NotAStream),
        StreamError::Cut { .. } => broken(StreamFault::Incomplete),
        StreamError::Read { .. } => broken(StreamFault::Unread),
        StreamError::Checksum { .. } => broken(StreamFault::Checksum),
        StreamError::Full { refusal, .. } => no_room(dataset, *refusal),
        StreamError::Closed { .. } => broken(StreamFault::Busy),
        StreamError::Grammar {
            problem: Problem::Features(bits),
            ..
        } => {
            let bits = *bits;
            return Wants::Unknown.refused(StreamRefusal::UnknownFeatures { bits });
        }
        StreamError::Cancelled { .. } => StreamRefusal::Interrupted,
        _ => broken(StreamFault::Invalid),
    })
}

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
        error => wants.refused(other(error)),
    }
}

pub(super) fn of_dsl(wants: Wants, dataset: &DatasetName, error: &DslError) -> ControlError {
    wants.refused(match error {
        DslError::DatasetExists { name } if name.as_str().contains('@') => {
            let snapshot = text(name);
            let act = StreamAct::Restore { snapshot };
            return ControlError::stream(act, StreamRefusal::SnapshotExists);
        }
        DslError::DatasetExists { name } => {
            let dataset = text(name);
            StreamRefusal::Exists { dataset }
        }
        DslError::Modified { .. } => modified(dataset),
        DslError::MoreRecent { .. } => no_match(dataset),
        DslError::Busy { .. } | DslError::Held { .. } => StreamRefusal::Busy,
        DslError::KeyRequired { .. } => StreamRefusal::ParentKeyNotLoaded,
        DslError::FeatureDisabled { .. } => StreamRefusal::PoolTooOld,
        DslError::NoSpaceFor { .. } => StreamRefusal::NoSpace,
        DslError::AboveRefquota { name, .. } => StreamRefusal::QuotaReached {
            dataset: text(name),
        },
        DslError::ParentNotFilesystem { .. } => StreamRefusal::InvalidParent,
        error => other(error),
    })
}
