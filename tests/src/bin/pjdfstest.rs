//! `cargo xtask pjdfstest`: cases of POSIX on a mount.

#![forbid(unsafe_code)]

use cenote_tests::pjdfstest;
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

fn main() -> ExitCode {
    let patterns: Vec<String> = Words::of_process().collect();
    words::end("pjdfstest", pjdfstest::run(&patterns))
}
