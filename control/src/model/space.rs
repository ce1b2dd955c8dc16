//! Per-user accounting, holds, and what snapshots take.

use serde::{Deserialize, Serialize};

/// Whom an account is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// Users.
    User,
    /// Groups.
    Group,
    /// Projects.
    Project,
}

/// The owner of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountOwner {
    /// A POSIX user or group id, or a project id.
    Id(u64),
    /// A security identifier: `S-1-5-…-1000`.
    Sid(String),
}

/// One account. Sizes in bytes; objects are counts; a quota of 0 means none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceAccount {
    /// Whose.
    pub owner: AccountOwner,
    /// Bytes used.
    pub used: u64,
    /// The limit.
    pub quota: u64,
    /// Objects owned; `None` if they are not counted.
    pub objects_used: Option<u64>,
    /// Their limit.
    pub objects_quota: u64,
}

/// One user hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The snapshot.
    pub snapshot: String,
    /// The tag.
    pub tag: String,
    /// When it was made, seconds.
    pub time: u64,
}

/// What keeps a snapshot from being destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptBy {
    /// Holds (`zfs hold`).
    Holds,
    /// Datasets began as it.
    Clones,
    /// It is the system's own.
    System,
}

/// What a snapshot takes, and what goes with it. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSpace {
    /// Its whole name.
    pub name: String,
    /// When it was made, in seconds.
    pub created: u64,
    /// Its transaction group, which is the order in which snapshots were made.
    pub create_txg: u64,
    /// What only it refers to.
    pub used: u64,
    /// What it refers to.
    pub referenced: u64,
    /// What destroying it together with those of its dataset that come before it in the answer
    /// gives back, in addition to what those give back.
    pub frees: u64,
    /// Why it stays; then the space that it shares with others is not freed either.
    pub kept_by: Option<KeptBy>,
}
