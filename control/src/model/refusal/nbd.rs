//! Why volumes are not served as network block devices, or not withdrawn.

use crate::model::shell_word;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a volume is not served or withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NbdRefusal {
    /// The program that runs has no server.
    #[error("this daemon has no NBD server")]
    NoServer,
    /// Only volumes and their snapshots can be served.
    #[error("'{dataset}' is a file system; only volumes and their snapshots can be served")]
    NotVolume {
        /// The dataset.
        dataset: String,
    },
    /// It cannot listen there.
    #[error("cannot listen on {address}: {reason}")]
    NotListening {
        /// The address, or the path of the socket.
        address: String,
        /// The system's reason.
        reason: String,
    },
    /// The certificates are not there, or no good.
    #[error("cannot use the certificates in '{directory}': {reason}")]
    Certificates {
        /// The directory.
        directory: String,
        /// Why.
        reason: String,
    },
    /// A server there was started with other options.
    #[error(
        "the server on {address} was started with other options; use the same, another address, \
         or 'cenote nbd stop {address}' first"
    )]
    OtherOptions {
        /// The address.
        address: String,
    },
    /// Nothing of that name is served.
    #[error("'{target}' is not served; 'cenote nbd status' lists what is")]
    NotServed {
        /// The name or address.
        target: String,
    },
    /// It is served because of a property.
    #[error(
        "'{dataset}' is served by its property; run 'zfs set cenote:nbd=off {}'",
        shell_word(dataset)
    )]
    ByProperty {
        /// The volume or snapshot.
        dataset: String,
    },
    /// Clients are connected.
    #[error(
        "{count} {} of '{target}' {} connected; disconnect them, or use -f",
        if *count == 1 { "client" } else { "clients" },
        if *count == 1 { "is" } else { "are" }
    )]
    InUse {
        /// The name or address.
        target: String,
        /// How many.
        count: usize,
    },
}
