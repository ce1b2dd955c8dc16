//! Why sites are not served over HTTP, or not withdrawn.

use crate::model::shell_word;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a site is not served or withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpRefusal {
    /// The program that runs has no server.
    #[error("this daemon has no HTTP server")]
    NoServer,
    /// Only file systems and their snapshots have files.
    #[error("'{dataset}' is a volume; only file systems and their snapshots have files to serve")]
    NotFiles {
        /// The dataset.
        dataset: String,
    },
    /// Parts of it were left out when it was received.
    #[error("'{dataset}' is redacted: some of its files cannot be read")]
    Redacted {
        /// The dataset.
        dataset: String,
    },
    /// The newest snapshot of a snapshot.
    #[error("'{dataset}' is a snapshot; '--snapshot' takes a file system")]
    SnapshotOfSnapshot {
        /// The snapshot.
        dataset: String,
    },
    /// It cannot listen there.
    #[error("cannot listen on {address}: {reason}")]
    NotListening {
        /// The address.
        address: String,
        /// The system's reason.
        reason: String,
    },
    /// An option is no good.
    #[error("{option}: {reason}")]
    BadOption {
        /// The option's name with its dashes.
        option: String,
        /// Why.
        reason: String,
    },
    /// A server there was started with other options.
    #[error(
        "the server on {address} was started with other options; use the same, another address, \
         or 'cenote http stop {address}' first"
    )]
    OtherOptions {
        /// The address.
        address: String,
    },
    /// Another site has the same host and path.
    #[error(
        "'{first}' and '{second}' would both be at {place}; give one of them another place with \
         '--site HOST/PATH=DATASET'"
    )]
    SamePlace {
        /// The host and path.
        place: String,
        /// One dataset.
        first: String,
        /// The other.
        second: String,
    },
    /// This daemon has no dashboard.
    #[error("this daemon has no dashboard")]
    NoDashboard,
    /// It is on another port.
    #[error(
        "the dashboard is served on {address} already; run 'cenote daemon dashboard off' first"
    )]
    DashboardElsewhere {
        /// The address.
        address: String,
    },
    /// Nothing of that name is served.
    #[error("'{target}' is not served; 'cenote http status' lists what is")]
    NotServed {
        /// The name or address.
        target: String,
    },
    /// Clients read files of it.
    #[error(
        "{count} {} from '{dataset}' {} under way; wait until nothing is sent, or run \
         'cenote http stop --grace 0 {}'",
        if *count == 1 { "download" } else { "downloads" },
        if *count == 1 { "is" } else { "are" },
        shell_word(dataset)
    )]
    InUse {
        /// The dataset or snapshot.
        dataset: String,
        /// How many.
        count: usize,
    },
}
