//! `cargo xtask guest-ublk`: a guest whose kernel has volumes of its own pool as disks.

#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use cenote_tests::guest::Options;
use cenote_tests::guest_ublk;
use cenote_tests::words;
use std::process::ExitCode;

fn main() -> ExitCode {
    words::end("guest-ublk", run().map(|()| true))
}

fn run() -> Result<()> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(word) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match word.as_str() {
            "--accelerator" if ["kvm", "tcg"].contains(&value.as_str()) => {
                options.accelerator = value;
            }
            "--directory" if !value.is_empty() => options.directory = value.into(),
            _ => bail!("usage: cargo xtask guest-ublk [--accelerator kvm|tcg] [--directory DIR]"),
        }
    }
    guest_ublk::run(&options)
}
