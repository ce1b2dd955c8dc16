//! `cargo xtask bench snapshots [PART...]`.

use cenote_bench::snapshots::{self, Options};
use std::process::ExitCode;
use std::vec::IntoIter;

const USAGE: &str = "\
usage: bench snapshots [PART...] [--files N] [--datasets N] [--snapshots N] [--of-one N]
                       [--rounds N] [--json FILE]
parts: files tree one";

fn parse(mut words: IntoIter<String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        files: 1_000_000,
        datasets: 1000,
        snapshots: 10_000,
        of_one: 1000,
        rounds: 15,
        json: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| USAGE.to_owned());
        let number = |value: String| {
            let number = value.parse::<u64>().ok();
            number.filter(|n| *n > 0).ok_or_else(|| USAGE.to_owned())
        };
        match word.as_str() {
            "--files" => options.files = number(value()?)?,
            "--datasets" => options.datasets = number(value()?)?,
            "--snapshots" => options.snapshots = number(value()?)?,
            "--of-one" => options.of_one = number(value()?)?.max(2),
            "--rounds" => options.rounds = number(value()?)?,
            "--json" => options.json = Some(value()?.into()),
            "files" | "tree" | "one" => options.parts.push(word),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

/// Measures what the words of the command line say.
pub fn main(words: IntoIter<String>) -> ExitCode {
    cenote_bench::run(
        || parse(words),
        |options| snapshots::run(options).map(|()| true),
    )
}
