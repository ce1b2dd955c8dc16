//! `cargo xtask boot`: a guest with systemd that has to come back by itself.

use anyhow::{Result, bail};
use cenote_tests::boot;
use cenote_tests::guest::Options;
use cenote_tests::words::{self, Words};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("boot", run(words).map(|()| true))
}

fn run(mut words: Words) -> Result<()> {
    let mut options = Options::default();
    let mut release = "bookworm".to_owned();
    let mut packages = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--accelerator" => options.accelerator = words.value()?,
            "--directory" => options.directory = words.value()?,
            "--packages" => packages = Some(words.value::<PathBuf>()?),
            _ => release = words.word()?,
        }
    }
    let Some(packages) = packages else {
        bail!("--packages DIRECTORY is missing; 'cargo xtask boot' makes the packages itself");
    };
    boot::run(&options, &release, &packages)
}
