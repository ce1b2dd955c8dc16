//! `cargo xtask dashboard`: a browser goes through all pages of the dashboard.

use anyhow::{Result, bail, ensure};
use cenote_tests::dashboard::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("dashboard", run(words).map(|()| true))
}

fn run(mut words: Words) -> Result<()> {
    let mut options = Options::default();
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
