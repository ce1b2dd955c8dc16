//! Parses the command line of a command: words of any bytes, options in any order.

use super::failure::Failure;
use super::spec::Spec;
use cenote_words::command::{Arguments, Command, Flag};
use cenote_words::getopt::OptionError;
use cenote_words::progress::Style;
use std::ffi::OsString;
use std::ops::Deref;

/// A parsed command line.
#[derive(Debug)]
pub struct CommandLine {
    command: &'static str,
    arguments: Arguments,
}

impl Deref for CommandLine {
    type Target = Arguments;

    fn deref(&self) -> &Arguments {
        &self.arguments
    }
}

impl CommandLine {
    /// Parses the command line of `command`, which has its own options and those in `shared`.
    pub fn read(command: &Command, shared: &[Flag], words: &[OsString]) -> Result<Self, Failure> {
        let flags = command.flags.iter().chain(shared);
        let is_known = |word: &str| flags.clone().any(|flag| flag.is(word));
        let problem = |error| match &error {
            OptionError::Invalid(word) if !is_known(word) => format!("there is no option {word}"),
            OptionError::InvalidNear(word, near) => format!("there is no option {word}\n{near}"),
            _ => error.to_string(),
        };
        let command = command.name;
        let arguments = Arguments::parse(flags.clone(), words);
        let arguments = arguments.map_err(|error| wrong(command, problem(error)))?;
        Ok(Self { command, arguments })
    }

    /// The places that the operands name; at least one is required.
    pub fn specs(&self, wanted: &str) -> Result<Vec<Spec>, Failure> {
        match self.operands.is_empty() {
            true => Err(self.wrong(wanted)),
            false => self.operands.iter().map(|word| Spec::parse(word)).collect(),
        }
    }

    /// Which of these options was given last.
    pub fn last_of<'a>(&'a self, names: &[&str]) -> Option<&'a str> {
        self.in_order(names).last().map(|(name, _)| name)
    }

    /// How to show progress.
    pub fn style(&self) -> Style {
        match self.last_of(&["json", "quiet"]) {
            None => Style::Auto,
            Some("json") => Style::Json,
            Some(_) => Style::Quiet,
        }
    }

    /// The argument of an option that takes a number.
    pub fn number(&self, names: &[&str]) -> Result<Option<u64>, Failure> {
        self.value(names, "not a number", |word| word.parse().ok())
    }

    /// The argument of an option that takes a size in bytes: a number, optionally followed by K, M,
    /// G, T or P.
    pub fn size(&self, name: &str) -> Result<Option<u64>, Failure> {
        let wanted = "not a size; give bytes, or K, M, G behind a number";
        self.value(&[name], wanted, |word| cenote_base::parse_size(word).ok())
    }

    fn value<T>(
        &self,
        names: &[&str],
        problem: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some((_, word)) = self.in_order(names).last() else {
            return Ok(None);
        };
        let wrong = || self.wrong(format!("'{}' is {problem}", word.to_string_lossy()));
        let value = word.to_str().and_then(read);
        value.map(Some).ok_or_else(wrong)
    }

    /// An error about the command line.
    pub fn wrong(&self, problem: impl Into<String>) -> Failure {
        wrong(self.command, problem)
    }
}

fn wrong(command: &'static str, problem: impl Into<String>) -> Failure {
    let problem = problem.into();
    Failure::Usage { command, problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::failure::Exit;
    use cenote_words::command::{Run, flags};

    const COMMAND: Command = Command {
        name: "ls",
        summary: "",
        synopsis: "",
        about: "",
        flags: flags! {
            'l' "long" _ "";
            'R' "" _ "";
            'j' "json" _ "";
            'q' "quiet" _ "";
            _ "memory" "SIZE" "";
            _ "depth" "N" "";
            _ "max-depth" "N" "";
        },
        run: Run::Alone(|_| Exit::Good),
    };

    fn read(words: &[&str]) -> Result<CommandLine, Failure> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        CommandLine::read(&COMMAND, &[], &words)
    }

    #[test]
    fn options_and_operands_mix() {
        let words = [
            "-lR",
            "a",
            "--memory=5K",
            "--max-depth",
            "2",
            "-jq",
            "--",
            "-x",
        ];
        let line = read(&words).expect("a good line");
        assert!(line.has("long") && line.has("R"));
        assert_eq!(line.operands, ["a", "-x"]);
        assert_eq!(line.size("memory").expect("a size"), Some(5 << 10));
        assert_eq!(
            line.number(&["depth", "max-depth"]).expect("a number"),
            Some(2)
        );
        assert_eq!(line.style(), Style::Quiet);
        assert_eq!(line.specs("").expect("names").len(), 2);
    }

    #[test]
    fn wrong_words_are_named() {
        let text = |line: Result<CommandLine, Failure>| {
            let text = line.expect_err("wrong").to_string();
            text.strip_suffix("\nTry 'cenote help ls'.")
                .map(str::to_owned)
        };
        let told = |words: &[&str]| text(read(words)).expect("a hint");
        assert_eq!(
            told(&["--frobnicate"]),
            "ls: there is no option --frobnicate"
        );
        assert_eq!(told(&["-x"]), "ls: there is no option -x");
        assert_eq!(
            told(&["--jsn"]),
            "ls: there is no option --jsn\ndid you mean '--json'?"
        );
        assert_eq!(told(&["--json=5"]), "ls: invalid option '--json'");
        let line = read(&["--depth", "x"]).expect("a good line");
        let wrong = line.number(&["depth"]).expect_err("no number").to_string();
        assert!(wrong.starts_with("ls: 'x' is not a number\n"), "{wrong}");
    }
}
