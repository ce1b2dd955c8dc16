//! `cargo xtask pjdfstest`: cases of POSIX on a mount.

use cenote_tests::pjdfstest;
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    let patterns: Vec<String> = words.collect();
    words::end("pjdfstest", pjdfstest::run(&patterns))
}
