//! Per-user accounting and holds.

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
    /// Objects owned.
    pub objects_used: u64,
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
