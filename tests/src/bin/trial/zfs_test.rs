//! `cargo xtask zfs-test`: groups of OpenZFS's test suite on our programs.

use anyhow::Result;
use cenote_tests::words::{self, Words};
use cenote_tests::zfs_test::{self, Options};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end(
        "zfs-test",
        arguments(words).and_then(|options| zfs_test::run(&options)),
    )
}

fn arguments(mut words: Words) -> Result<Options> {
    let mut options = Options {
        package: "/usr/share/zfs".into(),
        words: Vec::new(),
        timeout: 300,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--package" => options.package = words.value()?,
            "--timeout" => options.timeout = words.value()?,
            _ => options.words.push(words.word()?),
        }
    }
    Ok(options)
}
