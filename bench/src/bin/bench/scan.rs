//! `cargo xtask bench scan [PART...] [--directory DIR] [--size MIB]`.

use cenote_bench::scan::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench scan [PART...] [--directory DIR] [--size MIB]
parts: scrub resilver readers";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench"),
        mebibytes: 1024,
    };
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--directory" => options.directory = arguments.next().ok_or(USAGE)?.into(),
            "--size" => {
                let size = arguments.next().and_then(|text| text.parse().ok());
                options.mebibytes = size.ok_or(USAGE)?;
            }
            option if option.starts_with('-') => return Err(USAGE.to_owned()),
            part => options.parts.push(part.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), scan::run)
}
