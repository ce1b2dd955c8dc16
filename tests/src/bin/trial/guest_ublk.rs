//! `cargo xtask guest-ublk`: a guest whose kernel has volumes of its own pool as disks.

use cenote_tests::guest::Options;
use cenote_tests::guest_ublk;
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// The command.
const NAME: &str = "guest-ublk";

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    let ended = Options::parse(NAME, words).and_then(|options| guest_ublk::run(&options));
    words::end(NAME, ended.map(|()| true))
}
