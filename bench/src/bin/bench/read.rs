//! `cargo xtask bench read [PART...] [--directory DIR] [--files-image FILE]`.

use cenote_bench::read::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench read [PART...] [--directory DIR] [--files-image FILE]
parts: verify checksums raidz stream random listing memory";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench"),
        files_image: None,
    };
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--directory" => options.directory = arguments.next().ok_or(USAGE)?.into(),
            "--files-image" => options.files_image = Some(arguments.next().ok_or(USAGE)?.into()),
            option if option.starts_with('-') => return Err(USAGE.to_owned()),
            part => options.parts.push(part.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), read::run)
}
