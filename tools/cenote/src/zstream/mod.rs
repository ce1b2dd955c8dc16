//! `zstream`: the command of OpenZFS that looks into send streams and changes them.
//!
//! Its words, its output and its messages are OpenZFS's; so are exit codes, except that a stream
//! which is damaged or cut gives 1 where OpenZFS's program says 0, since scripts cannot tell
//! otherwise. It needs neither a pool nor a daemon.

mod change;
mod dump;
mod token;

use crate::getopt::{Grammar, Parsed};
use cenote_stream::StreamError;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// The name by which the program is called for this.
pub const NAME: &str = "zstream";
/// An old name of `zstream dump`.
pub const DUMP_NAME: &str = "zstreamdump";

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

/// The commands, as a wrong word may mean them.
const COMMANDS: [&str; 6] = ["dump", "token", "redup", "recompress", "decompress", "help"];

/// Why a command ends without having done what it should.
#[derive(Debug)]
enum Stop {
    /// Say this, if anything, then how the command is used.
    Usage(String),
    /// Say this.
    Failed(String),
    /// Nobody reads our output any more, who had enough of it.
    OutputClosed,
}

type Outcome = Result<(), Stop>;

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
                cenote_base::did_you_mean(wrong, COMMANDS).unwrap_or_default(),
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
    eprint!("{}", crate::texts::harmless(&text));
    ExitCode::from(code)
}

/// Takes options apart.
fn parse(letters: &'static str, words: &[String]) -> Result<Parsed, Stop> {
    let parsed = Grammar::letters(letters).parse(words);
    parsed.map_err(|error| Stop::Usage(error.to_string()))
}

/// Standard input, unless somebody sits there who is about to type.
fn input() -> Result<io::StdinLock<'static>, Stop> {
    let input = io::stdin().lock();
    match input.is_terminal() {
        false => Ok(input),
        true => Err(Stop::Failed(
            "Error: The send stream is a binary format and can not be read from a\n\
             terminal.  Standard input must be redirected."
                .to_owned(),
        )),
    }
}

/// Standard output, for bytes that no terminal understands.
fn output() -> Result<io::BufWriter<io::StdoutLock<'static>>, Stop> {
    let output = io::stdout().lock();
    match output.is_terminal() {
        false => Ok(io::BufWriter::with_capacity(256 << 10, output)),
        true => Err(Stop::Failed(
            "Error: Stream can not be written to a terminal.\n\
             You must redirect standard output."
                .to_owned(),
        )),
    }
}

/// What is said of a stream that cannot be read or written.
fn stop(error: &StreamError) -> Stop {
    match error {
        StreamError::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
            Stop::OutputClosed
        }
        StreamError::NotAStream => Stop::Failed("Invalid stream (bad magic number)".to_owned()),
        StreamError::Checksum { .. } => Stop::Failed("invalid checksum".to_owned()),
        error => Stop::Failed(format!("zstream: {}", chain(error))),
    }
}

/// An error with what is behind it.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

/// Writes out what is buffered.
fn finish(mut output: impl Write) -> Outcome {
    let flushed = output.flush();
    flushed.map_err(|source| stop(&StreamError::Write { offset: 0, source }))
}
