//! The command line.

use crate::described::{FLAGS, refused};
use crate::problem::Problem;
use cenote_words::flag::Flag;
use cenote_words::getopt::{OptionError, Parsed};
use std::ffi::{OsStr, OsString};

/// The options whose letters count: the more, the more is printed.
const LEVELS: [&str; 8] = ["b", "c", "C", "d", "D", "i", "m", "u"];

/// What was asked for.
#[derive(Debug)]
pub struct Asked {
    parsed: Parsed<OsString>,
    /// Everything that is no option.
    pub operands: Vec<OsString>,
}

impl Asked {
    /// Understands a command line.
    ///
    /// # Errors
    /// An option that there is not.
    pub fn parse(words: &[OsString]) -> Result<Self, Problem> {
        let flags: Vec<&Flag> = FLAGS.iter().collect();
        let parsed = Parsed::read(&flags, Flag::letter, words, str::to_owned);
        let mut parsed = parsed.map_err(|error| match &error {
            OptionError::Invalid(option) => match refused(option) {
                Some(reason) => Problem::Usage(format!("option '{option}': {reason}")),
                None => error.into(),
            },
            _ => error.into(),
        })?;
        let operands = std::mem::take(&mut parsed.operands);
        Ok(Self { parsed, operands })
    }

    /// Whether an option was given.
    pub fn has(&self, letter: &str) -> bool {
        self.parsed.has(letter)
    }

    /// How often an option was given; `-v` adds to those that were.
    pub fn count(&self, letter: &str) -> usize {
        match self.parsed.in_order(&[letter]).count() {
            0 => 0,
            count => count + self.parsed.in_order(&["v"]).count(),
        }
    }

    /// The last argument of an option.
    pub fn last(&self, letter: &str) -> Option<&OsStr> {
        self.parsed.last(letter)
    }

    /// All arguments of an option.
    pub fn all(&self, letter: &str) -> Vec<OsString> {
        self.parsed.all(letter).map(OsStr::to_owned).collect()
    }

    /// A number that an option has as its argument.
    pub fn number(&self, letter: &str) -> Result<Option<u64>, Problem> {
        let Some(word) = self.last(letter) else {
            return Ok(None);
        };
        let word = word.to_string_lossy();
        let number = number(&word).map(Some);
        number.ok_or_else(|| Problem::Usage(format!("-{letter} {word}: not a number")))
    }

    /// Refuses the options that mean nothing here.
    pub fn only(&self, letters: &[&str]) -> Result<(), Problem> {
        Ok(self.parsed.only(letters)?)
    }

    /// How much of a part to print: once each if no part was named.
    pub fn level(&self, letter: &str) -> usize {
        debug_assert!(LEVELS.contains(&letter));
        let names_none = LEVELS.iter().all(|letter| !self.parsed.given(letter));
        let count = self.count(letter);
        match names_none && !["c", "i"].contains(&letter) {
            true => 1,
            false => count,
        }
    }

    /// An operand as text.
    pub fn operand(&self, index: usize, what: &str) -> Result<&str, Problem> {
        let word = self.operands.get(index);
        let word = word.ok_or_else(|| Problem::Usage(format!("give {what}")))?;
        let text = word.to_str();
        text.ok_or_else(|| Problem::Usage(format!("{}: not UTF-8", word.to_string_lossy())))
    }
}

/// A number in decimal, or after `0x` in hexadecimal.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
