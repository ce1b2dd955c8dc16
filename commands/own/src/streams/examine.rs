//! `cenote stream`: describes send streams, and checks that they are complete.
//!
//! A stream is a file or standard input. No pool is opened.

use super::describe;
use crate::pools::inspect::node::Members;
use crate::reading::failure::{Exit, Failure, complain, ended};
use crate::reading::line::CommandLine;
use crate::reading::output::{Output, escaped};
use cenote_stream::inspect::{Ending, Summary, inspect};
use cenote_stream::{Checks, StreamError};
use cenote_words::command::{Command, Run, flags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// The command.
pub const COMMAND: Command = Command {
    name: "stream",
    summary: "Look into send streams and check them",
    synopsis: "inspect|verify [OPTION]... FILE...",
    about: "\
Reads send streams to their ends and checks everything that is in them: each record's
checksum, and that receivers take it. A stream comes from a file, or as - from standard input.

  inspect  say what it is: snapshots, features, properties of a package, records, and
           whether it is whole or where it breaks off
  verify   say only whether it is whole; of one that is not, how to ask for the rest",
    flags: flags! {
        'j' "json" _ "as JSON";
    },
    run: Run::Alone(|words| ended(run(words))),
};

/// What to do with a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Inspect,
    Verify,
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let line = CommandLine::read(&COMMAND, &[], &words)?;
    let is_json = line.has("json");
    let Some((action, files)) = line.operands.split_first() else {
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
    for file in files {
        let ended = look(action, file, is_json, &mut output);
        output.survive(ended)?;
    }
    output.finish()
}

/// Examines one stream.
fn look(
    action: Action,
    file: &OsString,
    is_json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
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
            output.json(&crate::pools::inspect::node::Node::from(members).json())?;
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
        output.complain(&format!("{}: {}", name(file), crate::zstream::chain(error)));
        tell_resume(action, &summary);
    }
    Ok(())
}

/// Prints how to get the rest of an incomplete stream.
fn tell_resume(action: Action, summary: &Summary) {
    if let (Action::Verify, Some(token)) = (action, describe::token(&summary.ending)) {
        complain(&format!(
            "what follows the last good record: zfs send -t {token}"
        ));
    }
}

/// The name of a file, for messages.
fn name(file: &OsStr) -> String {
    match file == OsStr::new("-") {
        true => "standard input".to_owned(),
        false => escaped(file.as_bytes()),
    }
}
