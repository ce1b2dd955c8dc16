//! `cargo xtask bench cloud [PART...] [--directory DIR] [--fast] [--idle S] [--files N]
//! [--json FILE]`.

use cenote_bench::cloud::{self, Options, PARTS, Profile};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench cloud [PART...] [--directory DIR] [--fast] [--idle S] [--files N] [--json FILE]
parts: device pool rivals";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench"),
        profile: Profile::Slow,
        idle: 60,
        files: 14_046,
        json: None,
    };
    while let Some(word) = arguments.next() {
        let mut number = || -> Result<u64, String> {
            let number = arguments.next().and_then(|text| text.parse().ok());
            number.ok_or(USAGE.to_owned())
        };
        match word.as_str() {
            "--fast" => options.profile = Profile::Fast,
            "--idle" => options.idle = number()?,
            "--files" => options.files = number()?,
            "--directory" => options.directory = arguments.next().ok_or(USAGE)?.into(),
            "--json" => options.json = Some(arguments.next().ok_or(USAGE)?.into()),
            part if PARTS.contains(&part) => options.parts.push(word),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), cloud::run)
}
