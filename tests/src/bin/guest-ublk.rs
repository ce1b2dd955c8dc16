//! `cargo xtask guest-ublk`: a guest whose kernel has volumes of its own pool as disks.

#![forbid(unsafe_code)]

use cenote_tests::guest::Options;
use cenote_tests::{guest_ublk, words};
use std::process::ExitCode;

/// The command.
const NAME: &str = "guest-ublk";

fn main() -> ExitCode {
    let ended = Options::of_process(NAME).and_then(|options| guest_ublk::run(&options));
    words::end(NAME, ended.map(|()| true))
}
