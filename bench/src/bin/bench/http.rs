//! `cargo xtask bench http [--directory DIR] [--files N] [--mib N] [--seconds N] [--idle N]
//! [--only TEXT]`.

use cenote_bench::http::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench http [--directory DIR] [--files N] [--mib N] [--seconds N] [--idle N] [--only TEXT]
sites served by the daemon, beside nginx on XFS and btrfs; wrk and curl; as root";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        directory: cenote_bench::workspace_root().join("target/bench"),
        files: 10_000,
        mebibytes: 512,
        seconds: 5,
        idle: 10_000,
        only: String::new(),
    };
    while let Some(word) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        let number = || match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(USAGE.to_owned()),
        };
        match word.as_str() {
            "--directory" => options.directory = value.into(),
            "--files" => options.files = number()?,
            "--mib" => options.mebibytes = number()?,
            "--seconds" => options.seconds = number()?,
            "--idle" => options.idle = number()?,
            "--only" => options.only = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), http::run)
}
