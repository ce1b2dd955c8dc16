//! `cargo xtask bench volume [--directory DIR] [--mib N] [--seconds N] [--block-size SIZE]
//! [--only TEXT]`.

use cenote_bench::volume::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench volume [--directory DIR] [--mib N] [--seconds N] [--block-size SIZE] [--only TEXT]
a volume served by the daemon, beside nbdkit and qemu-nbd on a raw file; fio over unix sockets";

fn parse(mut arguments: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        directory: cenote_bench::workspace_root().join("target/bench"),
        mebibytes: 256,
        seconds: 3,
        block_size: "16k".to_owned(),
        only: String::new(),
    };
    while let Some(word) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|_| USAGE.to_owned());
        match word.as_str() {
            "--directory" => options.directory = value.into(),
            "--mib" => options.mebibytes = number()?,
            "--seconds" => options.seconds = number()?,
            "--block-size" => options.block_size = value,
            "--only" => options.only = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(arguments: IntoIter<String>) -> ExitCode {
    cenote_bench::run(|| parse(arguments), volume::run)
}
