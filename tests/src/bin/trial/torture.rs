//! `cargo xtask torture`: the daemon is killed under load, and nothing acknowledged is lost.

use anyhow::Result;
use cenote_tests::torture::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end(
        "torture",
        arguments(words).and_then(|options| torture::run(&options)),
    )
}

fn arguments(mut words: Words) -> Result<Options> {
    let mut options = Options {
        seed: 1,
        kills: 10,
        session: 10,
        judge: 5,
        foreign: 0,
        loads: Vec::new(),
        json: None,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--kills" => options.kills = words.value()?,
            "--session" => options.session = words.value::<u64>()?.max(1),
            "--judge" => options.judge = words.value()?,
            "--foreign" => options.foreign = words.value()?,
            "--load" => options.loads.push(words.value()?),
            "--json" => options.json = Some(words.value()?),
            _ => options.seed = words.seed()?,
        }
    }
    Ok(options)
}
