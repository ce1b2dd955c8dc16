//! `cargo xtask bench send [PART...] [--directory DIR] [--size MIB] [--files N] [--rounds N]`.

use cenote_bench::send::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench send [PART...] [--directory DIR] [--size MIB] [--files N] [--rounds N]
parts: send receive";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench"),
        mebibytes: 1024,
        files: 100_000,
        rounds: 2,
    };
    while let Some(word) = arguments.next() {
        let mut number = || -> Result<usize, String> {
            let number = arguments.next().and_then(|text| text.parse().ok());
            number.filter(|number| *number > 0).ok_or(USAGE.to_owned())
        };
        match word.as_str() {
            "--size" => options.mebibytes = number()?,
            "--files" => options.files = number()? as u64,
            "--rounds" => options.rounds = number()?,
            "--directory" => options.directory = arguments.next().ok_or(USAGE)?.into(),
            "send" | "receive" => options.parts.push(word),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), send::run)
}
