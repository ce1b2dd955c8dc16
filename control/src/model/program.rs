//! Channel programs.

use serde::{Deserialize, Serialize};

use super::bytes::RawName;

/// A program to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The pool that it may see and change.
    pub pool: String,
    /// Its text.
    pub source: RawName,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Instructions that it may use.
    pub instructions: u64,
    /// Bytes of memory that it may use.
    pub memory: u64,
    /// It changes nothing.
    pub is_read_only: bool,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramOutcome {
    /// It has a result, or none.
    Returned(Option<ProgramValue>),
    /// It failed: why, and where. What it changed before is changed.
    Failed(String),
}

/// A value that a program returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramValue {
    /// Nothing.
    Nil,
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(i64),
    /// Any bytes.
    Text(RawName),
    /// Values by names, in order.
    Table(Vec<(RawName, ProgramValue)>),
}
