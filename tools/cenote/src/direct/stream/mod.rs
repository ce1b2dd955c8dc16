//! `cenote stream`: what send streams are, and whether they are whole.
//!
//! A stream is a file, or comes through standard input. No pool is opened.

mod describe;

use super::failure::{Exit, Failure, complain};
use super::inspect::node::Members;
use super::line::{CommandLine, Word};
use super::output::{Output, escaped};
use cenote_stream::inspect::{Ending, Summary, inspect};
use cenote_stream::{Checks, StreamError};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// What is to be done with a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Inspect,
    Verify,
}

/// Runs the command.
pub fn run(line: &mut CommandLine) -> Result<Exit, Failure> {
    let mut is_json = false;
    let mut operands = Vec::new();
    while let Some(word) = line.next()? {
        match word {
            Word::Operand(text) => operands.push(text),
            Word::Option(option) => match option.as_str() {
                "-j" | "--json" => is_json = true,
                _ => return Err(line.unknown(&option)),
            },
        }
    }
    let Some((action, files)) = operands.split_first() else {
        return Err(line.wrong("say what to do: inspect or verify"));
    };
    let action = match action.to_str() {
        Some("inspect") => Action::Inspect,
        Some("verify") => Action::Verify,
        _ => return Err(line.wrong("say what to do: inspect or verify")),
    };
    if files.is_empty() {
        return Err(line.wrong("give a file with a stream, or - for standard input"));
    }
    let mut output = Output::new();
    let mut exit = Exit::Good;
    for file in files {
        match look(action, file, is_json, &mut output) {
            Ok(true) => {}
            Ok(false) => exit = Exit::Problems,
            Err(Failure::Output(error)) => return Err(Failure::Output(error)),
            Err(failure) => {
                output.flush()?;
                failure.report();
                exit = Exit::Problems;
            }
        }
    }
    output.flush()?;
    Ok(exit)
}

/// Looks at one stream; whether it is whole.
fn look(
    action: Action,
    file: &OsString,
    is_json: bool,
    output: &mut Output,
) -> Result<bool, Failure> {
    let failed = |source: StreamError| Failure::Stream {
        file: name(file),
        source: Box::new(source),
    };
    let summary = match file == OsStr::new("-") {
        true => inspect(io::stdin().lock(), Checks::default()),
        false => {
            let opened = File::open(file).map_err(Failure::file(file, "cannot open"))?;
            inspect(opened, Checks::default())
        }
    }
    .map_err(failed)?;
    let is_whole = summary.is_whole();
    match action {
        Action::Inspect => {
            let node = describe::summary(&name(file), &summary);
            match is_json {
                true => output.json_pretty(&node.json())?,
                false => output.text(&node.text())?,
            }
        }
        Action::Verify if is_json => {
            let mut members = Members::new();
            describe::ending(&mut members, &name(file), &summary);
            output.json(&super::inspect::node::Node::from(members).json())?;
        }
        Action::Verify if is_whole => output.line(&format!(
            "{}: whole and right: {} streams, {} records, {} bytes",
            name(file),
            summary.streams.len() as u64 + summary.streams_left_out,
            describe::records(&summary),
            summary.bytes,
        ))?,
        Action::Verify => {}
    }
    if let Ending::Broken { error, .. } = &summary.ending {
        output.flush()?;
        complain(&format!("{}: {}", name(file), crate::zstream::chain(error)));
        tell_resume(action, &summary);
    }
    Ok(is_whole)
}

/// How to get the rest of a stream that broke off.
fn tell_resume(action: Action, summary: &Summary) {
    if let (Action::Verify, Some(token)) = (action, describe::token(&summary.ending)) {
        complain(&format!(
            "what follows the last good record: zfs send -t {token}"
        ));
    }
}

/// The name of a file, for people.
fn name(file: &OsStr) -> String {
    match file == OsStr::new("-") {
        true => "standard input".to_owned(),
        false => escaped(file.as_bytes()),
    }
}
