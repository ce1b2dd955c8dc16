//! `zstream`: the command of OpenZFS that looks into send streams and changes them.
//!
//! Its words, its output and its messages are OpenZFS's; so are exit codes, except that a stream
//! which is damaged or cut gives 1 where OpenZFS's program says 0, since scripts cannot tell
//! otherwise. It needs neither a pool nor a daemon.

mod change;
mod dump;
mod ends;
mod page;
mod token;

pub use ends::chain;

use cenote_words::command::Other;
use ends::Stop;
use std::ffi::OsString;
use std::process::ExitCode;

/// The name by which the program is called for this.
pub const NAME: &str = "zstream";
/// An old name of `zstream dump`.
pub const DUMP_NAME: &str = "zstreamdump";

/// What describes it.
pub const OTHER: Other = Other {
    name: NAME,
    alias: DUMP_NAME,
    topics: &TOPICS,
    page: page::page,
};

/// What a wrong command line and `help` print.
const USAGE: &str = "\
usage: zstream command args ...
Available commands are:

\tzstream dump [-vCd] FILE
\t... | zstream dump [-vCd]

\tzstream decompress [-v] [OBJECT,OFFSET[,TYPE]] ...

\tzstream recompress [ -l level] TYPE

\tzstream token resume_token

\tzstream redup [-v] FILE | ...
";

/// The commands, and what they do.
const TOPICS: [(&str, &str); 5] = [
    (
        "dump",
        "Print the records of a stream. -v: all of them; -d: data, too; -C: check nothing.",
    ),
    (
        "decompress",
        "Decompress blocks of a stream: those named, or with -v saying which.",
    ),
    (
        "recompress",
        "Compress the blocks of a stream anew. -l: the level.",
    ),
    ("token", "Print what a resume token says."),
    (
        "redup",
        "Write a stream with deduplicated records as one without.",
    ),
];

/// The commands, as a wrong word may mean them.
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
