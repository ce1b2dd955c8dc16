//! Why `zdb` ends before everything is printed.

use cenote_own_commands::reading::failure::Failure;
use cenote_words::getopt::OptionError;
use std::io;

/// The exit code if something could not be read.
pub const UNREADABLE: u8 = 1;
/// The exit code of a wrong command line.
pub const USAGE: u8 = 2;

/// Why `zdb` ends early.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// Something cannot be opened or read.
    #[error("{0}")]
    Failed(String),
    /// Standard output cannot be written any more.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl From<OptionError> for Problem {
    fn from(error: OptionError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Output(error) => Self::Output(error),
            failure => Self::Failed(failure.to_string()),
        }
    }
}

/// An error of a lower layer about `what`.
pub fn failed<E: std::error::Error>(what: impl Into<String>) -> impl FnOnce(E) -> Problem {
    let what = what.into();
    move |error| Problem::Failed(format!("{what}: {error}"))
}
