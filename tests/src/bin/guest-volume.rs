//! `cargo xtask guest-volume`: a guest boots from a clone of a volume that the daemon serves.

#![forbid(unsafe_code)]

use cenote_tests::guest::Options;
use cenote_tests::{guest_volume, words};
use std::process::ExitCode;

/// The command.
const NAME: &str = "guest-volume";

fn main() -> ExitCode {
    let ended = Options::of_process(NAME).and_then(|options| guest_volume::run(&options));
    words::end(NAME, ended.map(|()| true))
}
