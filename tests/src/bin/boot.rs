//! `cargo xtask boot`: a guest with systemd that has to come back by itself.

#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use cenote_tests::boot;
use cenote_tests::guest::Options;
use cenote_tests::words::{self, Words};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    words::end("boot", run().map(|()| true))
}

fn run() -> Result<()> {
    let mut options = Options::default();
    let mut release = "bookworm".to_owned();
    let mut packages = None;
    let mut words = Words::of_process();
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
