//! `cargo xtask bench sync [PART...] [--seconds N] [--rounds N] [--json FILE]`.

use cenote_bench::sync::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench sync [PART...] [--directory DIR] [--seconds N] [--rounds N] [--json FILE]
parts: appends database import";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench/sync"),
        seconds: 4,
        rounds: 1,
        json: None,
    };
    while let Some(word) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| USAGE.to_owned());
        let number = |text: String| match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(USAGE.to_owned()),
        };
        match word.as_str() {
            "--directory" => options.directory = value()?.into(),
            "--json" => options.json = Some(value()?.into()),
            "--seconds" => options.seconds = number(value()?)?,
            "--rounds" => {
                options.rounds = usize::try_from(number(value()?)?).map_err(|_| USAGE)?;
            }
            option if option.starts_with('-') => return Err(USAGE.to_owned()),
            part => options.parts.push(part.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), sync::run)
}
