//! Receiving a stream: the request, and the progress that is reported.

use serde::{Deserialize, Serialize};

use super::secret::Secret;
use super::value::Pair;

/// Which part of the sender's name becomes part of the name here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveNaming {
    /// What is below the dataset that was sent.
    #[default]
    Below,
    /// All but the pool (`-d`).
    WithoutPool,
    /// The last component of the dataset that was sent, and what is below it (`-e`).
    LastComponent,
}

/// How a stream is received; it comes through the descriptor beside the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receive {
    /// The dataset or snapshot to receive into.
    pub target: String,
    /// What of the sender's names is kept.
    #[serde(default)]
    pub naming: ReceiveNaming,
    /// Go back to the snapshot that the stream builds upon (`-F`).
    #[serde(default)]
    pub force: bool,
    /// Keep the received part of an interrupted stream (`-s`).
    #[serde(default)]
    pub resumable: bool,
    /// Only say what would be done (`-n`).
    #[serde(default)]
    pub dry_run: bool,
    /// Do not mount (`-u`).
    #[serde(default)]
    pub unmounted: bool,
    /// Unmount although busy (`-M`).
    #[serde(default)]
    pub force_unmount: bool,
    /// Do not set the holds of the stream (`-h`).
    #[serde(default)]
    pub without_holds: bool,
    /// Repair damaged blocks of an existing snapshot (`-c`).
    #[serde(default)]
    pub corrective: bool,
    /// Receive as a clone of this snapshot (`-o origin=`).
    #[serde(default)]
    pub origin: Option<String>,
    /// Properties set instead of those of the stream (`-o`).
    #[serde(default)]
    pub properties: Vec<Pair>,
    /// Properties of the stream that are not to be in effect (`-x`).
    #[serde(default)]
    pub excluded: Vec<String>,
    /// The key of a new encryption root, if the properties make the dataset one.
    #[serde(default)]
    pub key: Option<Secret>,
}

/// Something that happened while a stream is received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveNote {
    /// A snapshot begins.
    Begin {
        /// `full`, `incremental` or `corrective incremental`.
        kind: String,
        /// The sender's name of the snapshot.
        from: String,
        /// The name that it gets here.
        to: String,
    },
    /// A snapshot is there.
    End {
        /// Bytes of its stream.
        bytes: u64,
        /// The time that it took, in nanoseconds.
        nanoseconds: u64,
    },
    /// A line for verbose output.
    Detail(String),
    /// What went wrong beside the stream itself.
    Complaint(String),
    /// What was received is there and not mounted: for people, and a failure of the command.
    NotMounted(String),
}
