//! `cargo xtask dashboard`: a browser goes through all pages of the dashboard.

#![forbid(unsafe_code)]

use anyhow::{Result, bail, ensure};
use cenote_tests::dashboard::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

fn main() -> ExitCode {
    words::end("dashboard", run().map(|()| true))
}

fn run() -> Result<()> {
    let mut options = Options::default();
    let mut words = Words::of_process();
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--pictures" => options.pictures = Some(words.value()?),
            _ => bail!("'{argument}' is not understood"),
        }
    }
    let has_run = dashboard::run(&options)?;
    ensure!(
        has_run,
        "there is no chromedriver: 'apt install chromium-driver' brings one"
    );
    Ok(())
}
