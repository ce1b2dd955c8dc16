//! `cargo xtask bench write [--directory DIR] [--data FILE] [--size MIB] [LAYOUT|COMPRESSION...]`.

use cenote_bench::write::{self, Layout, Options};
use std::process::ExitCode;

const USAGE: &str = "\
usage: bench write [--directory DIR] [--data FILE] [--size MIB] [LAYOUT|COMPRESSION...]
layouts: single raidz2:6   compressions: off lz4 zstd-N noise-off noise-zstd-N";

fn parse() -> Result<Options, String> {
    let mut options = Options {
        directory: cenote_bench::workspace_root().join("target/bench/write"),
        data: None,
        mebibytes: 1024,
        layouts: Vec::new(),
        compressions: Vec::new(),
    };
    let mut arguments = std::env::args_os().skip(1);
    while let Some(word) = arguments.next() {
        match word.to_str().ok_or(USAGE)? {
            "--directory" => options.directory = arguments.next().ok_or(USAGE)?.into(),
            "--data" => options.data = Some(arguments.next().ok_or(USAGE)?.into()),
            "--size" => {
                let size = arguments.next().ok_or(USAGE)?;
                let size = size.to_str().and_then(|size| size.parse().ok());
                options.mebibytes = size.ok_or(USAGE)?;
            }
            option if option.starts_with('-') => return Err(USAGE.to_owned()),
            word => match Layout::ALL.iter().find(|layout| layout.name() == word) {
                Some(layout) => options.layouts.push(*layout),
                None => options.compressions.push(word.to_owned()),
            },
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match write::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
