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

pub use spec::Spec;

use failure::Exit;
use line::Command;
use std::ffi::OsString;
use std::process::ExitCode;

/// Commands that open a pool, in the order of the overview.
const OF_POOLS: [&Command; 11] = [
    &ls::COMMAND,
    &tree::COMMAND,
    &cat::COMMAND,
    &cp::COMMAND,
    &stat::COMMAND,
    &find::COMMAND,
    &du::COMMAND,
    &manifest::COMMAND,
    &dump::COMMAND,
    &verify::COMMAND,
    &inspect::COMMAND,
];

/// Commands that open files.
const OF_FILES: [&Command; 1] = [&stream::COMMAND];

fn commands() -> impl Iterator<Item = &'static Command> {
    OF_POOLS.into_iter().chain(OF_FILES)
}

fn find_command(name: &str) -> Option<&'static Command> {
    commands().find(|command| command.name == name)
}

/// The names of all commands here, and what they do.
pub fn summaries() -> impl Iterator<Item = (&'static str, &'static str)> {
    commands().map(|command| (command.name, command.summary))
}

/// Whether `word` is one of the commands here.
pub fn knows(word: &str) -> bool {
    find_command(word).is_some()
}

/// Whether a command here has an option `-h`.
pub fn takes_h(name: &str) -> bool {
    find_command(name).is_some_and(|command| command.flags.iter().any(|flag| flag.is("-h")))
}

/// The help of a command; `None` if it is not one of these.
pub fn help(name: &str) -> Option<String> {
    let opens_pool = OF_POOLS.iter().any(|command| command.name == name);
    find_command(name).map(|command| help::text(command, opens_pool))
}

/// Runs the command that the first of `words` names; the others are its arguments.
pub fn run(mut words: Vec<OsString>) -> ExitCode {
    let name = match words.is_empty() {
        true => String::new(),
        false => words.remove(0).to_string_lossy().into_owned(),
    };
    let Some(command) = find_command(&name) else {
        failure::complain(&format!("there is no command '{name}'; try 'cenote help'"));
        return Exit::Usage.into();
    };
    match (command.run)(words) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report();
            failure.exit().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Flag;

    #[test]
    fn every_command_explains_itself() {
        for (name, summary) in summaries() {
            let text = help(name).expect("each command has a text");
            assert!(
                text.starts_with(&format!("usage: cenote {name} ")),
                "{name}"
            );
            assert!(text.contains(summary), "{name}");
            assert!(
                text.lines().all(|line| line.chars().count() <= 94),
                "{text}"
            );
            assert_eq!(
                text.contains("--extreme-rewind"),
                name != "stream",
                "{name}"
            );
            assert!(!text.contains("--max-depth "), "{text}");
        }
        assert_eq!(help("nosuch"), None);
        assert!(takes_h("du") && !takes_h("ls") && !takes_h("nosuch"));
    }

    #[test]
    fn no_option_is_declared_twice() {
        for command in commands() {
            let flags = command.flags.iter().chain(options::POOL_FLAGS);
            let all: Vec<&Flag> = flags.collect();
            for (index, flag) in all.iter().enumerate() {
                let is_twice = |other: &&Flag| {
                    let same_letter = other.short.is_some() && other.short == flag.short;
                    other.name() == flag.name() || same_letter
                };
                let name = flag.name();
                assert!(
                    !all[..index].iter().any(is_twice),
                    "{} {name}",
                    command.name
                );
            }
        }
    }

    /// An option that only its table knows does nothing.
    #[test]
    fn every_option_is_asked_for() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/direct");
        let source = |name: &str| {
            let read = |file: String| std::fs::read_to_string(root.join(file));
            let text = read(format!("{name}.rs")).or_else(|_| read(format!("{name}/mod.rs")));
            let text = text.expect("a source");
            text.split("#[cfg(test)]")
                .next()
                .map(str::to_owned)
                .expect("code")
        };
        let tables = commands().map(|command| (command.name, command.flags));
        for (file, flags) in tables.chain([("options", options::POOL_FLAGS)]) {
            let code = source(file);
            for flag in flags {
                let name = flag.name();
                let is_style = matches!(name.as_str(), "json" | "quiet");
                let is_read = code.lines().any(|line| {
                    let line = line.trim_start();
                    let is_row = line.starts_with(['\'', '_']);
                    !is_row && line.contains(&format!("\"{name}\""))
                });
                let is_asked = is_read || (is_style && code.contains("line.style()"));
                assert!(is_asked, "{file}: --{name}");
            }
        }
    }
}
