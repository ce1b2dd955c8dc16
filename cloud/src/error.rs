//! What can go wrong with a device in an object store.

use crate::format::{CommitNumber, FormatError, Uuid};
use crate::local::PlaceError;
use crate::log::PayloadError;
use crate::store::StoreError;
use crate::store::s3::BucketError;
use cenote_device::DeviceError;
use std::io;
use std::path::Path;

/// The device did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloudError {
    /// The store did not do what was asked.
    #[error("{store}: {source}")]
    Store {
        /// The store.
        store: String,
        /// Its answer.
        source: StoreError,
    },
    /// A store is not described well enough to be reached.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The store does not keep names that are taken, so two writers could not be kept apart.
    #[error(
        "{store}: puts on the condition that a name is free overwrite it there; \
         such a store cannot hold a device"
    )]
    NoConditions {
        /// The store, and what its software calls itself.
        store: String,
    },
    /// There is no device.
    #[error("{store}: there is no device")]
    NoDevice {
        /// The store and prefix.
        store: String,
    },
    /// There is a device already.
    #[error("{store}: there is a device already, {uuid}")]
    Exists {
        /// The store and prefix.
        store: String,
        /// Which.
        uuid: Uuid,
    },
    /// There is no device, and there are objects of one.
    #[error(
        "{store}: there are objects of a device whose identity is lost, the first is {key}; \
         if nothing of them is needed, -f removes them"
    )]
    Remains {
        /// The store and prefix.
        store: String,
        /// The first of the objects.
        key: String,
    },
    /// An object is not what it has to be.
    #[error("{key} {source}")]
    Format {
        /// The object's name.
        key: String,
        /// What is wrong with it.
        source: FormatError,
    },
    /// An object is damaged: it has another length than it should, or cannot be read.
    #[error("{store}: object {key} is damaged: {what}")]
    Damaged {
        /// The store.
        store: String,
        /// The object's name.
        key: String,
        /// What is wrong with it.
        what: String,
    },
    /// An object that is needed is not there.
    #[error("{key} is missing")]
    Missing {
        /// Its name.
        key: String,
    },
    /// What was opened for reading is so old that parts of it were removed.
    #[error(
        "opened for reading as of commit {0}, of which parts are removed by now: \
         opened again, it is newer"
    )]
    Passed(CommitNumber),
    /// Commits do not follow each other.
    #[error("commit {0} does not follow the one before it")]
    Chain(CommitNumber),
    /// The device changed again and again while it was opened.
    #[error("others write to the device faster than it can be opened")]
    Restless,
    /// The device was not released by its last writer.
    #[error(
        "in use by host '{host}' since it wrote commit {commit}, or that host crashed; \
         -f takes it over"
    )]
    Held {
        /// The host.
        host: String,
        /// Its last commit.
        commit: CommitNumber,
    },
    /// The store has an older state than this machine has seen.
    #[error(
        "the store has commit {found}, and this machine put commit {known}: the store was set back \
         or has lost objects; -f continues from commit {found} and sets the local log aside"
    )]
    SetBack {
        /// The newest commit in the store.
        found: CommitNumber,
        /// The newest that this machine knows of.
        known: CommitNumber,
    },
    /// Another host took the device over.
    #[error("taken over by host '{host}' with commit {commit}")]
    Fenced {
        /// The host.
        host: String,
        /// The commit that is in our way.
        commit: CommitNumber,
    },
    /// A data object of our own name holds something else: this machine exists twice.
    #[error("{key} holds something else than what is written: a copy of this machine is running")]
    Cloned {
        /// The object's name.
        key: String,
    },
    /// The local side failed.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A file of the local side failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The log failed.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(io::Error),
    /// A size that no device has.
    #[error("{0} bytes are no size for a device: a multiple of 512, below 2^63")]
    Size(u64),
    /// The local log is too small.
    #[error("a log of {0} bytes is too small")]
    LogSize(u64),
    /// The device was opened for reading only.
    #[error("opened read-only")]
    ReadOnly,
    /// The thread that uploads ended with a panic.
    #[error(
        "an internal error (a panic) ended the upload: {0}; what is in the local log is uploaded \
         when the pool is exported with -f and imported again"
    )]
    Panicked(String),
    /// The device is closed.
    #[error("closed")]
    Closed,
}

impl CloudError {
    /// The object that is damaged or missing, if that is what is wrong.
    pub fn damaged_object(&self) -> Option<(&str, String)> {
        match self {
            Self::Damaged { key, what, .. } => Some((key, what.clone())),
            Self::Format { key, source } => Some((key, source.to_string())),
            Self::Missing { key } => Some((key, "it is missing".to_owned())),
            _ => None,
        }
    }

    /// The failure of an opener that was asked for the device of this name.
    pub fn on_opening(self, path: &Path) -> DeviceError {
        if let Self::Place(PlaceError::InUse { .. }) = &self {
            return DeviceError::InUse { path: path.into() };
        }
        let kind = match &self {
            Self::NoDevice { .. } => io::ErrorKind::NotFound,
            Self::Held { .. } => io::ErrorKind::ResourceBusy,
            _ => io::ErrorKind::Other,
        };
        DeviceError::Open {
            path: path.into(),
            source: io::Error::new(kind, self),
        }
    }
}

/// The outcome of what can go wrong here.
pub type Result<T> = std::result::Result<T, CloudError>;
