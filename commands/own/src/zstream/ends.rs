//! Shared code of the commands: options, input and output, and errors.

use cenote_stream::StreamError;
use cenote_words::getopt::OptionError;
use std::error::Error;
use std::io::{self, IsTerminal, Write};

/// Why a command ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Print this, if not empty, then the usage.
    Usage(String),
    /// Print this.
    Failed(String),
    /// The reader of our output has closed it.
    OutputClosed,
}

pub(super) type Outcome = Result<(), Stop>;

impl From<OptionError> for Stop {
    fn from(error: OptionError) -> Self {
        Stop::Usage(error.to_string())
    }
}

/// Standard input, unless it is a terminal.
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

/// Standard output, unless it is a terminal: streams are binary.
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

/// The message for a stream that cannot be read or written.
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

/// An error with its sources.
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

/// Flushes buffered output.
pub(super) fn finish(mut output: impl Write) -> Outcome {
    let flushed = output.flush();
    flushed.map_err(|source| stop(&StreamError::Write { offset: 0, source }))
}
