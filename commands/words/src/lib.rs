//! What all commands share, in any program.
//!
//! A command parses its line with a table of options ([`flag`], [`getopt`]). It asks the daemon and
//! prints through a [`context::Context`], and formats sizes, dates, tables and JSON with
//! [`format`]. Help ([`help`], [`program`]), manual pages ([`manual`]) and shell completion
//! ([`completion`]) are generated from the same tables. The binary passes a [`command::Table`] of
//! all commands, so this crate names no command.
//!
//! Output that two programs share is here, too: the rows of a pool's vdevs ([`vdev_rows`]), its
//! stores ([`stores`]), the names of its features, lists and ranges of snapshots ([`ranges`]).
//!
//! Deliberately absent: pools, and the connection to the daemon. A context has a
//! [`context::Daemon`]; tests give it canned answers ([`testing`]).

#![forbid(unsafe_code)]

pub mod command;
mod command_line;
pub mod completion;
pub mod context;
mod features;
pub mod flag;
pub mod format;
pub mod getopt;
pub mod help;
pub mod key_file;
pub mod manual;
pub mod missing;
pub mod program;
pub mod progress;
pub mod prompt;
pub mod ranges;
pub mod secrecy;
pub mod stores;
pub mod suggest;
pub mod testing;
pub mod texts;
pub mod topic;
pub mod vdev_rows;
pub mod version;

pub use command_line::command_line;
pub use features::FEATURES;
