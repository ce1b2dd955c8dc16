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

use described::{TOPICS, USAGE};
use ends::Stop;
use std::ffi::OsString;
use std::process::ExitCode;

/// The commands, for suggestions.
fn known() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|(name, _)| *name).chain(["help"])
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
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let result = match words.split_first() {
        None => Err(Stop::Usage(String::new())),
        Some((command, rest)) => match command.as_str() {
            "dump" => dump::run(rest),
            "token" => token::run(rest),
            "redup" => change::redup(rest),
            "recompress" => change::recompress(rest),
            "decompress" => change::decompress(rest),
            wrong => Err(Stop::Usage(
                cenote_base::did_you_mean(wrong, known()).unwrap_or_default(),
            )),
        },
    };
    let (text, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Stop::OutputClosed) => return ExitCode::SUCCESS,
        Err(Stop::Failed(message)) => (format!("{message}\n"), 1),
        Err(Stop::Usage(message)) if message.is_empty() => (USAGE.to_owned(), 1),
        Err(Stop::Usage(message)) => (format!("{message}\n{USAGE}"), 1),
    };
    eprint!("{}", cenote_words::format::harmless::harmless(&text));
    ExitCode::from(code)
}
