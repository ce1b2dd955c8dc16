//! Compares our output with OpenZFS's, byte by byte.
//!
//! `tests/reference/*.txt` are transcripts of the zpool and zfs programs of OpenZFS 2.3.2. They ran
//! on canned answers about a small invented pool (`tank`: a mirror of two files, a log, a cache, a
//! spare; five file systems, two snapshots, a bookmark). [`world::Canned`] gives our commands the
//! same pool, and every line and exit code must match. Two details follow the programs' output on
//! the real kernel module instead: imported pools have no `load_info`, and spares are of the class
//! `spare`. The pools of `tests/data/pools` add real properties of real pools.

mod completion;
mod golden;
mod help;
mod options;
mod states;
mod suggestions;
mod transcripts;
mod world;

pub use world::Canned;

use cenote_words::context::Daemon;
use cenote_words::testing::{Ran, ran};
use cenote_zfs_commands::zfs;

/// Runs a command line (`zfs list -H`) against `daemon`.
fn run(command: &str, daemon: impl Daemon + 'static) -> Ran {
    let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    run_words(&words, daemon)
}

/// Runs a command given by its words.
fn run_words(words: &[&str], daemon: impl Daemon + 'static) -> Ran {
    let arguments: Vec<String> = words[1..].iter().map(|&word| word.to_owned()).collect();
    ran(daemon, |context| match words[0] {
        "zpool" => crate::run(&arguments, context),
        "zfs" => zfs::run(&arguments, context),
        other => panic!("{other} is not under test here"),
    })
}
