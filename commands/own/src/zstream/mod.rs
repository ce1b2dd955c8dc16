//! `zstream`: OpenZFS's command to examine and change send streams.
//!
//! Its command line, output and messages are OpenZFS's, and so are exit codes, with one exception.
//! A damaged or truncated stream gives 1 where OpenZFS gives 0, because scripts could not notice it
//! otherwise. It needs neither a pool nor a daemon.

mod change;
mod described;
mod dump;
mod ends;
mod token;

pub use described::{DUMP_NAME, NAME, OTHER};
pub use ends::chain;

use cenote_words::program::CommandLine;
use described::{TOPICS, usage};
use ends::{Outcome, Stop};
use std::ffi::OsString;
use std::process::ExitCode;

/// The commands, for suggestions.
fn known() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|topic| topic.name).chain(["help"])
}

/// Runs the command that the first of `words` names.
pub fn run(words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut options = words.iter().take_while(|word| *word != "--");
    let is_asked = options.any(|word| matches!(word.as_str(), "--help" | "-h" | "-?"));
    if is_asked || words.first().is_some_and(|word| word == "help") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let result = match words.split_first() {
        None => Err(Stop::Usage(String::new())),
        Some((name, words)) => match TOPICS.iter().find(|topic| topic.name == name) {
            Some(topic) => dispatch(&CommandLine { topic, words }),
            None => Err(Stop::Usage(
                cenote_base::did_you_mean(name, known()).unwrap_or_default(),
            )),
        },
    };
    let (text, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Stop::OutputClosed) => return ExitCode::SUCCESS,
        Err(Stop::Failed(message)) => (format!("{message}\n"), 1),
        Err(Stop::Usage(message)) if message.is_empty() => (usage(), 1),
        Err(Stop::Usage(message)) => (format!("{message}\n{}", usage()), 1),
    };
    eprint!("{}", cenote_words::format::harmless::harmless(&text));
    ExitCode::from(code)
}

fn dispatch(line: &CommandLine<'_>) -> Outcome {
    match line.name() {
        "dump" => dump::run(line),
        "token" => token::run(line.words),
        "redup" => change::redup(line),
        "recompress" => change::recompress(line),
        _ => change::decompress(line),
    }
}
