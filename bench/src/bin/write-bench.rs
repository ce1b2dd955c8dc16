//! `cargo xtask bench write [PART...] [--size MIB] [--rounds N] [--json FILE]`.

use cenote_bench::write::{self, Options};
use std::process::ExitCode;

const USAGE: &str = "\
usage: bench write [PART...] [--directory DIR] [--size MIB] [--rounds N] [--files N] [--json FILE]
parts: sequential incompressible readback files overwrite million pipeline";

fn parse() -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        directory: cenote_bench::workspace_root().join("target/bench/write"),
        mebibytes: 512,
        rounds: 3,
        files: 1_000_000,
        json: None,
    };
    let mut arguments = std::env::args_os().skip(1);
    while let Some(word) = arguments.next() {
        let word = word.to_str().ok_or(USAGE)?.to_owned();
        let mut value = || arguments.next().ok_or_else(|| USAGE.to_owned());
        let number = |value: std::ffi::OsString| {
            let number = value.to_str().and_then(|value| value.parse::<usize>().ok());
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

fn main() -> ExitCode {
    cenote_bench::run(parse, write::run)
}
