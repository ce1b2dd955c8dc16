//! `cargo xtask guest-volume`: a guest boots from a clone of a volume that the daemon serves.

use cenote_tests::guest::Options;
use cenote_tests::guest_volume;
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// The command.
const NAME: &str = "guest-volume";

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    let ended = Options::parse(NAME, words).and_then(|options| guest_volume::run(&options));
    words::end(NAME, ended.map(|()| true))
}
