//! What the commands share: options, their input and output, and how they end.

use cenote_stream::StreamError;
use cenote_words::getopt::{Grammar, Parsed};
use std::error::Error;
use std::io::{self, IsTerminal, Write};

/// Why a command ends without having done what it should.
#[derive(Debug)]
pub(super) enum Stop {
    /// Say this, if anything, then how the command is used.
    Usage(String),
    /// Say this.
    Failed(String),
    /// Nobody reads our output any more, who had enough of it.
    OutputClosed,
}

pub(super) type Outcome = Result<(), Stop>;

/// Takes options apart.
pub(super) fn parse(letters: &'static str, words: &[String]) -> Result<Parsed, Stop> {
    let parsed = Grammar::letters(letters).parse(words);
    parsed.map_err(|error| Stop::Usage(error.to_string()))
}

/// Standard input, unless somebody sits there who is about to type.
pub(super) fn input() -> Result<io::StdinLock<'static>, Stop> {
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
pub(super) fn output() -> Result<io::BufWriter<io::StdoutLock<'static>>, Stop> {
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
pub(super) fn stop(error: &StreamError) -> Stop {
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
pub(super) fn finish(mut output: impl Write) -> Outcome {
    let flushed = output.flush();
    flushed.map_err(|source| stop(&StreamError::Write { offset: 0, source }))
}
