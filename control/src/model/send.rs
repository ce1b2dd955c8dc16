//! Sending a snapshot as a stream: the request, and the progress that is reported.

use serde::{Deserialize, Serialize};

/// What is sent, and how; it goes to the descriptor beside the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    /// The snapshot, or a file system or volume as it is; empty with a token.
    pub target: String,
    /// What the receiver has: a snapshot or a bookmark, by its full name.
    #[serde(default)]
    pub from: Option<String>,
    /// Every snapshot in between, too (`-I`).
    #[serde(default)]
    pub intermediates: bool,
    /// Everything below the dataset, with properties (`-R`).
    #[serde(default)]
    pub recursive: bool,
    /// With `recursive`, leave out what does not have the snapshot (`-s`).
    #[serde(default)]
    pub skips_missing: bool,
    /// With `recursive`, leave these datasets out, and what is below them (`-X`).
    #[serde(default)]
    pub excluded: Vec<String>,
    /// Properties (`-p`).
    #[serde(default)]
    pub properties: bool,
    /// Of the properties what was received (`-b`).
    #[serde(default)]
    pub received_only: bool,
    /// Holds (`-h`).
    #[serde(default)]
    pub holds: bool,
    /// Blocks above 128 KiB as they are (`-L`).
    #[serde(default)]
    pub large_blocks: bool,
    /// Blocks that are in their pointers as they are (`-e`).
    #[serde(default)]
    pub embedded: bool,
    /// Blocks compressed as they are (`-c`).
    #[serde(default)]
    pub compressed: bool,
    /// Encrypted blocks as they are (`-w`).
    #[serde(default)]
    pub raw: bool,
    /// Properties of encrypted datasets may go beside contents that are not encrypted (`-U`).
    #[serde(default)]
    pub decrypted: bool,
    /// Leave out what a redaction bookmark of the target's dataset lists (`--redact`). Its name,
    /// with or without the dataset.
    #[serde(default)]
    pub redact: Option<String>,
    /// The token of a receive that was cut; says all of the above (`-t`).
    #[serde(default)]
    pub token: Option<String>,
    /// What was received of a snapshot so far (`-S`).
    #[serde(default)]
    pub saved: bool,
    /// Only say what would be sent (`-n`).
    #[serde(default)]
    pub dry_run: bool,
    /// First report the contents and estimated size of the stream (`-v`, `-P`).
    #[serde(default)]
    pub estimates: bool,
}

/// Which blocks of a snapshot none of some later snapshots has, kept as a bookmark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redact {
    /// The snapshot.
    pub snapshot: String,
    /// The bookmark's name, without the dataset.
    pub bookmark: String,
    /// The redaction snapshots, which grew out of it.
    pub by: Vec<String>,
}

/// A progress report of a send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendNote {
    /// A stream that is part of it.
    Stream {
        /// What it starts from: in a package a short name.
        from: Option<String>,
        /// The snapshot.
        to: String,
        /// Bytes, estimated.
        bytes: u64,
    },
    /// All streams together; nothing comes after it when nothing is sent.
    Total {
        /// Bytes, estimated.
        bytes: u64,
    },
    /// A dataset that is left out (`-s`).
    Skipped {
        /// The dataset.
        dataset: String,
        /// The snapshot that it lacks: a short name.
        snapshot: String,
    },
    /// How far it is.
    Progress {
        /// The snapshot whose stream is being sent.
        snapshot: String,
        /// Bytes of its stream so far.
        bytes: u64,
    },
}
