//! `zstream dump`: prints the contents of a stream.

use super::ends::{Outcome, Stop, finish, input, stop};
use cenote_stream::dump::{Options, dump};
use cenote_words::program::CommandLine;
use std::fs::File;
use std::io::{self, BufWriter, Read};

/// Runs the command.
pub(super) fn run(line: &CommandLine<'_>) -> Outcome {
    let parsed = line.parse()?;
    let options = Options {
        records: parsed.has("v") || parsed.has("d"),
        payloads: parsed.has("d"),
        ignores_checksums: parsed.has("C"),
    };
    match parsed.operands.first() {
        None => print(input()?, options),
        Some(path) => match File::open(path) {
            Ok(file) => print(file, options),
            Err(error) => {
                let reason = system_words(&error);
                Err(Stop::Failed(format!(
                    "Error while opening file '{path}': {reason}"
                )))
            }
        },
    }
}

fn print(source: impl Read, options: Options) -> Outcome {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let result = dump(source, options, &mut out);
    finish(out)?;
    result.map_err(|error| stop(&error))
}

/// The system's words for an error, without its number.
pub(super) fn system_words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
