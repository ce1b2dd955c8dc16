//! Reading a command line: words that may be any bytes, options in any order.

use super::failure::Failure;
use crate::getopt::{Token, Words};
use std::ffi::OsString;

/// A word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// An option with its dashes: `-l`, `--json`.
    Option(String),
    /// Anything else.
    Operand(OsString),
}

/// The words behind a command's name.
#[derive(Debug)]
pub struct CommandLine {
    command: &'static str,
    words: Words<OsString>,
}

impl CommandLine {
    /// The command line of `command`.
    pub fn new(command: &'static str, words: Vec<OsString>) -> Self {
        let words = Words::new(words);
        Self { command, words }
    }

    /// The command's name.
    pub fn command(&self) -> &'static str {
        self.command
    }

    /// The next word.
    pub fn next(&mut self) -> Result<Option<Word>, Failure> {
        let command = self.command;
        let token = self.words.next().map_err(|error| usage(command, error))?;
        Ok(token.map(|token| match token {
            Token::Letter(letter) => Word::Option(format!("-{letter}")),
            Token::Long(name) => Word::Option(format!("--{name}")),
            Token::Operand(word) => Word::Operand(word),
        }))
    }

    /// All words that were not read yet, as they are.
    pub fn rest(&mut self) -> Vec<OsString> {
        self.words.rest()
    }

    /// The argument of the option that was read last.
    pub fn value(&mut self) -> Result<OsString, Failure> {
        let command = self.command;
        self.words.value().map_err(|error| usage(command, error))
    }

    /// The argument as text.
    pub fn text(&mut self) -> Result<String, Failure> {
        let value = self.value()?;
        value
            .into_string()
            .map_err(|value| self.wrong(format!("'{}' is not UTF-8", value.to_string_lossy())))
    }

    /// The argument as a number.
    pub fn number(&mut self) -> Result<u64, Failure> {
        let text = self.text()?;
        text.parse()
            .map_err(|_| self.wrong(format!("'{text}' is not a number")))
    }

    /// The argument as a size in bytes: a number, perhaps with K, M, G, T or P behind it.
    pub fn size(&mut self) -> Result<u64, Failure> {
        let text = self.text()?;
        cenote_base::parse_size(&text).map_err(|_| {
            self.wrong(format!(
                "'{text}' is not a size; give bytes, or K, M, G behind a number"
            ))
        })
    }

    /// The command line is wrong.
    pub fn wrong(&self, problem: impl Into<String>) -> Failure {
        usage(self.command, problem.into())
    }

    /// There is no such option.
    pub fn unknown(&self, option: &str) -> Failure {
        self.wrong(format!("there is no option {option}"))
    }
}

fn usage(command: &'static str, problem: impl ToString) -> Failure {
    Failure::Usage {
        command,
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_operands_mix() {
        let words = ["-lR", "a", "--memory=5", "--", "-x"].map(OsString::from);
        let mut line = CommandLine::new("ls", words.into());
        let mut seen = Vec::new();
        while let Some(word) = line.next().expect("a word") {
            if word == Word::Option("--memory".into()) {
                assert_eq!(line.number().expect("a number"), 5);
            }
            seen.push(word);
        }
        let option = |text: &str| Word::Option(text.into());
        let operand = |text: &str| Word::Operand(text.into());
        let wanted = [
            option("-l"),
            option("-R"),
            operand("a"),
            option("--memory"),
            operand("-x"),
        ];
        assert_eq!(seen, wanted);
    }
}
