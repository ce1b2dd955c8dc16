//! Completion of command lines in bash, zsh and fish.
//!
//! The scripts for the shells know nothing of our commands. They pass the words up to the cursor to
//! `cenote complete`. Its answers come from the tables from which command lines are parsed, so the
//! two cannot differ. An answer is one line per candidate, some with a tab and a description;
//! `:files` and `:directories` ask the shell to complete file names.
//!
//! The daemon provides names of pools, datasets and devices, if it is running. Completion starts no
//! daemon, opens no device, and has a time limit too short to notice. Errors print nothing, because
//! messages would appear in the middle of the user's command line.

mod known;
mod line;
pub mod operands;

use std::ffi::OsString;

use crate::command::{Arguments, Command, Other, POOL_FLAGS, Run, Table};
use crate::context::{Context, Outcome, usage};
use crate::flag::{Flag, HELP, flags};
use crate::manual;
use crate::program::Program;
use crate::texts::question;
use crate::topic::Topic;
use known::{Candidates, answer};
use line::{Line, Wanted};

/// The word by which scripts call the command.
pub const WORD: &str = "complete";

/// The command.
pub const COMMAND: Command = Command {
    name: "completions",
    summary: "Print a script that makes a shell complete our command lines",
    synopsis: "bash|zsh|fish [NAME]...",
    about: "The script is for the commands NAME; without NAME for cenote, zpool, zfs, zstream,\n\
            zdb, zed and zinject.\n\
            \n\
            \x20 source <(cenote completions bash)\n\
            \x20 source <(cenote completions zsh)\n\
            \x20 cenote completions fish | source",
    flags: flags! {},
    run: Run::Describing(print),
};

/// The commands whose lines are completed.
const NAMES: [&str; 7] = ["cenote", "zpool", "zfs", "zstream", "zdb", "zed", "zinject"];

const BASH: &str = include_str!("bash.sh");
const ZSH: &str = include_str!("zsh.sh");
const FISH: &str = include_str!("fish.fish");

fn print(_: &Table, arguments: &Arguments, context: &mut Context) -> Outcome {
    let mut words = Vec::new();
    for word in &arguments.operands {
        words.push(word.to_string_lossy().into_owned());
    }
    let Some((shell, names)) = words.split_first() else {
        return usage("");
    };
    if let Some(wrong) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        let question = question(wrong, NAMES);
        return usage(format!("'{wrong}' is none of our commands{question}"));
    }
    let names = match names {
        [] => NAMES.join(" "),
        names => names.join(" "),
    };
    let script = match shell.as_str() {
        "bash" => BASH,
        "zsh" => ZSH,
        "fish" => FISH,
        other => {
            let question = question(other, ["bash", "zsh", "fish"]);
            return usage(format!("there is no script for '{other}'{question}"));
        }
    };
    context.print(&script.replace("@NAMES@", &names));
    Ok(0)
}

/// `cenote complete [--] PROGRAM WORD... CURRENT`: prints candidates for the last word.
pub fn complete(table: &Table, arguments: &[OsString], context: &mut Context) -> u8 {
    let words = arguments.iter().map(|word| word.to_string_lossy());
    let mut words: Vec<String> = words.map(|word| word.into_owned()).collect();
    if words.first().is_some_and(|word| word == "--") {
        words.remove(0);
    }
    for line in candidates(table, &words, context) {
        context.line(&line);
    }
    0
}

/// The program of a command line: by its path, or the first word after `cenote`.
fn program(words: &[String]) -> Option<(&str, &[String])> {
    let (path, rest) = words.split_first()?;
    let name = path.rsplit('/').next().unwrap_or(path);
    match rest.split_first() {
        Some((word, rest)) if name == "cenote" && !rest.is_empty() && NAMES.contains(&&**word) => {
            Some((word, rest))
        }
        _ => Some((name, rest)),
    }
}

fn candidates(table: &Table, words: &[String], context: &mut Context) -> Vec<String> {
    let Some((name, rest)) = program(words) else {
        return Vec::new();
    };
    let Some((current, before)) = rest.split_last() else {
        return Vec::new();
    };
    let mut programs = table.programs.iter();
    let mut others = table.others.iter();
    let found = match programs.find(|program| program.name == name) {
        Some(program) => of_program(program, before, current, context),
        None if name == "cenote" => of_cenote(table, before, current, context),
        None => match others.find(|other| other.name == name) {
            Some(other) => of_other(other, before, current),
            None => Vec::new(),
        },
    };
    // A name with a control character cannot be typed, and must not reach a terminal.
    let is_plain = |line: &String| line.chars().all(|c| c == '\t' || !c.is_control());
    let fits = |line: &String| {
        is_plain(line) && (line.starts_with(':') || line.starts_with(current.as_str()))
    };
    found.into_iter().filter(fits).collect()
}

/// A candidate with its description; shells show one line of it.
fn row(name: &str, text: &str) -> String {
    let text = text.split(['\n', '\t']).next().unwrap_or_default();
    format!("{name}\t{text}")
}

fn of_other(other: &Other, before: &[String], current: &str) -> Vec<String> {
    if let [only] = other.topics
        && only.name == other.name
    {
        return of_small(only, before, current);
    }
    let Some((name, before)) = before.split_first() else {
        let topics = other.topics.iter();
        return topics
            .map(|topic| row(topic.name, &topic.sentences()))
            .collect();
    };
    let Some(topic) = other.topics.iter().find(|topic| topic.name == name) else {
        return Vec::new();
    };
    of_small(topic, before, current)
}

fn of_small(topic: &Topic, before: &[String], current: &str) -> Vec<String> {
    match Line::read(topic.flags, before, current).wanted {
        Wanted::Options => options(topic.flags),
        Wanted::Operand if topic.synopsis.iter().any(|line| line.contains("FILE")) => {
            vec![known::FILES.to_owned()]
        }
        Wanted::Value(_) | Wanted::Operand => Vec::new(),
    }
}

fn of_program(
    program: &Program,
    before: &[String],
    current: &str,
    context: &mut Context,
) -> Vec<String> {
    let of_topics = || {
        let own = program.topics().map(|topic| row(topic.name, topic.summary));
        let named = program.aliases.iter().filter_map(|(alias, name)| {
            let topic = program.topic(name)?;
            Some(row(alias, topic.summary))
        });
        own.chain(named).collect::<Vec<String>>()
    };
    let Some((command, before)) = before.split_first() else {
        let mut all = of_topics();
        all.push(row("help", "Explain a command"));
        return all;
    };
    if command == "help" {
        return of_topics();
    }
    let Some(topic) = program.topic(command) else {
        return Vec::new();
    };
    let line = Line::read(topic.flags, before, current);
    let wanted = match &line.wanted {
        Wanted::Options => return options(topic.flags),
        Wanted::Value(flag) => operands::of_value(program.name, topic.name, flag),
        Wanted::Operand => operands::of_synopsis(program.name, topic, line.operands.len()),
    };
    let candidates = Candidates {
        current: line.current(),
        operands: &line.operands,
    };
    answer(&wanted, &candidates, context)
        .into_iter()
        .map(|found| line.whole(&found))
        .collect()
}

fn of_cenote(
    table: &Table,
    before: &[String],
    current: &str,
    context: &mut Context,
) -> Vec<String> {
    let of_commands = || {
        let own = table.own.iter();
        let rows = own.map(|command| row(command.name, command.summary));
        rows.collect::<Vec<String>>()
    };
    let Some((name, before)) = before.split_first() else {
        let mut all = of_commands();
        all.extend(["help", "zpool", "zfs", "zstream", "zdb", "zed", "zinject"].map(str::to_owned));
        return all;
    };
    if name == "help" {
        return of_commands();
    }
    let Some(command) = table.own.iter().find(|command| command.name == name) else {
        return Vec::new();
    };
    let mut flags = command.flags.to_vec();
    if let Run::Reading(_) = command.run {
        flags.extend_from_slice(POOL_FLAGS);
    }
    flags.push(HELP);
    let line = Line::read(&flags, before, current);
    let wanted = match &line.wanted {
        Wanted::Options => return options(&flags),
        Wanted::Value(flag) => operands::of_value("cenote", name, flag),
        Wanted::Operand if name == "man" => {
            let pages = manual::pages(table);
            return pages.into_iter().map(|page| page.name).collect();
        }
        Wanted::Operand => operands::of_command(name, command.synopsis, &line.operands),
    };
    let candidates = Candidates {
        current: line.current(),
        operands: &line.operands,
    };
    answer(&wanted, &candidates, context)
        .into_iter()
        .map(|found| line.whole(&found))
        .collect()
}

fn options(flags: &[Flag]) -> Vec<String> {
    let mut rows = Vec::new();
    for flag in flags.iter().filter(|flag| !flag.help.is_empty()) {
        rows.extend(
            flag.short
                .map(|letter| row(&format!("-{letter}"), flag.help)),
        );
        if !flag.long.is_empty() {
            rows.push(row(&format!("--{}", flag.long), flag.help));
        }
    }
    rows
}
