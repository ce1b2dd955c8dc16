//! Why a program ends early.

use super::value::{Exhausted, Value};

/// The end of a program that it cannot prevent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The limit on instructions is reached.
    Instructions,
    /// The limit on memory is reached.
    Memory,
    /// The client has disconnected.
    Cancelled,
    /// The program has to be run again where changes can be checked.
    NeedsGroup,
    /// The pool's metadata cannot be read.
    Fatal(String),
}

/// What ends an operation.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of the program, with any value.
    Raised {
        value: Value,
        /// Where it happened, once it is known that no coroutine catches it.
        trace: Option<String>,
    },
    /// The program ends.
    Stopped(Stop),
}

impl Fault {
    pub fn raised(value: Value) -> Self {
        Self::Raised { value, trace: None }
    }
}

impl From<Exhausted> for Fault {
    fn from(_: Exhausted) -> Self {
        Self::Stopped(Stop::Memory)
    }
}
