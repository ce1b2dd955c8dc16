//! Cenote's own commands, which read a pool's devices themselves: no daemon, no mount.
//!
//! Each command opens the pool read-only, does one thing, and ends. What it cannot read it says
//! with the file's path and goes on where that makes sense; the exit code then is 1.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | everything was done and nothing is wrong |
//! | 1 | something could not be done, or damage was found |
//! | 2 | the command line is wrong; nothing was done |
//! | 3 | a signal stopped the command; run again, it goes on |

mod cat;
mod content;
mod cp;
mod datasets;
mod diagnosis;
mod du;
mod dump;
mod entry;
mod failure;
mod find;
mod find_condition;
mod help;
mod inspect;
mod keys;
mod line;
mod ls;
mod manifest;
mod opener;
mod options;
mod output;
pub mod progress;
mod session;
mod show;
mod spec;
mod stat;
mod stop;
mod stream;
mod tree;
mod verify;

pub use help::text as help;
pub use spec::Spec;

use failure::{Exit, Failure};
use line::CommandLine;
use std::ffi::OsString;
use std::process::ExitCode;

/// A command: its name and what it does with its command line.
type Command = (&'static str, fn(&mut CommandLine) -> Result<Exit, Failure>);

/// All commands, in the order of the overview.
const COMMANDS: &[Command] = &[
    ("ls", ls::run),
    ("tree", tree::run),
    ("cat", cat::run),
    ("cp", cp::run),
    ("stat", stat::run),
    ("find", find::run),
    ("du", du::run),
    ("dump", dump::run),
    ("manifest", manifest::run),
    ("verify", verify::run),
    ("inspect", inspect::run),
    ("stream", stream::run),
];

/// Whether `word` is one of the commands here.
pub fn knows(word: &str) -> bool {
    COMMANDS.iter().any(|(name, _)| *name == word)
}

/// Runs the command that the first of `words` names; the others are its arguments.
pub fn run(mut words: Vec<OsString>) -> ExitCode {
    let name = match words.is_empty() {
        true => String::new(),
        false => words.remove(0).to_string_lossy().into_owned(),
    };
    let Some((name, command)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
        failure::complain(&format!("there is no command '{name}'; try 'cenote help'"));
        return Exit::Usage.into();
    };
    let mut line = CommandLine::new(name, words);
    match command(&mut line) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report();
            failure.exit().into()
        }
    }
}
