//! `cargo xtask bench read [PART...] [--directory DIR] [--files-image FILE]`.

use cenote_bench::read::{self, Options};
use std::process::ExitCode;

const USAGE: &str = "\
usage: bench read [PART...] [--directory DIR] [--files-image FILE]
parts: verify checksums raidz stream random listing memory";

fn parse() -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench"),
        files_image: None,
    };
    let mut arguments = std::env::args_os().skip(1);
    while let Some(word) = arguments.next() {
        match word.to_str().ok_or(USAGE)? {
            "--directory" => options.directory = arguments.next().ok_or(USAGE)?.into(),
            "--files-image" => options.files_image = Some(arguments.next().ok_or(USAGE)?.into()),
            option if option.starts_with('-') => return Err(USAGE.to_owned()),
            part => options.parts.push(part.to_owned()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    cenote_bench::run(parse, read::run)
}
