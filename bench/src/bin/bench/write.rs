//! `cargo xtask bench write [PART...] [--size MIB] [--rounds N] [--json FILE]`.

use cenote_bench::write::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench write [PART...] [--directory DIR] [--size MIB] [--rounds N] [--files N] [--json FILE]
parts: sequential incompressible readback files overwrite million pipeline";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench/write"),
        mebibytes: 512,
        rounds: 3,
        files: 1_000_000,
        json: None,
    };
    while let Some(word) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| USAGE.to_owned());
        let number = |value: String| {
            let number = value.parse::<usize>().ok();
            number.filter(|n| *n > 0).ok_or_else(|| USAGE.to_owned())
        };
        match word.as_str() {
            "--directory" => options.directory = value()?.into(),
            "--json" => options.json = Some(value()?.into()),
            "--size" => options.mebibytes = number(value()?)?,
            "--rounds" => options.rounds = number(value()?)?,
            "--files" => options.files = number(value()?)? as u64,
            option if option.starts_with('-') => return Err(USAGE.to_owned()),
            part => options.parts.push(part.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), write::run)
}
