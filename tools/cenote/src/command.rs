//! A command of ours: its name, its options, what it does; help is made from it.
//!
//! An option stands in one table, from which its command line is read and its help is made. What
//! runs a command differs ([`Run`]): those that ask the daemon print through a context, those that
//! open a pool themselves do not.

use std::ffi::OsString;

use thiserror::Error;

use crate::context::{Context, Outcome, Stop};
use crate::getopt::{Known, OptionError, Parsed};
use crate::reading::failure::{Exit, Failure};

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its letter.
    pub short: Option<char>,
    /// Its name; "" if it has only a letter.
    pub long: &'static str,
    /// What its value is called; none means that it takes none.
    pub value: Option<&'static str>,
    /// What it does; "" for another spelling that help leaves out.
    pub help: &'static str,
}

/// A table of options, each with its letter, name, value and help; `_` stands for none.
macro_rules! flags {
    (@maybe _) => { None };
    (@maybe $word:literal) => { Some($word) };
    ($($short:tt $long:literal $value:tt $help:literal;)*) => {
        &[$($crate::command::Flag {
            short: $crate::command::flags!(@maybe $short),
            long: $long,
            value: $crate::command::flags!(@maybe $value),
            help: $help,
        }),*]
    };
}
pub(crate) use flags;

/// An option without a value.
pub const fn flag(short: Option<char>, long: &'static str, help: &'static str) -> Flag {
    Flag {
        short,
        long,
        value: None,
        help,
    }
}

/// An option with a value.
pub const fn option(
    short: Option<char>,
    long: &'static str,
    value: &'static str,
    help: &'static str,
) -> Flag {
    Flag {
        short,
        long,
        value: Some(value),
        help,
    }
}

impl Flag {
    /// What a command asks for.
    pub fn name(&self) -> String {
        match (self.long, self.short) {
            ("", Some(letter)) => letter.to_string(),
            (long, _) => long.to_owned(),
        }
    }

    /// Whether a word is this option, without a value attached.
    pub fn is(&self, word: &str) -> bool {
        match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(name), _) => !name.is_empty() && name == self.long,
            (None, Some(letter)) => self.short.is_some_and(|short| letter == short.to_string()),
            (None, None) => false,
        }
    }

    /// The left column of a help text.
    fn left(&self) -> String {
        let short = self.short.map_or("    ".to_owned(), |c| format!("-{c}, "));
        let value = self
            .value
            .map_or(String::new(), |value| format!(" {value}"));
        format!("{short}--{}{value}", self.long)
    }
}

/// The option of commands that can answer in JSON.
pub const JSON: Flag = flag(Some('j'), "json", "print JSON");

/// The option of every command.
pub const HELP: Flag = flag(None, "help", "print this help");

/// What runs a command that asks the daemon.
pub type Asking = fn(&Arguments, &mut Context) -> Outcome;

/// What runs a command that gets the words behind its name.
pub type Reading = fn(Vec<OsString>) -> Result<Exit, Failure>;

/// What runs a command that is about all commands.
pub type Describing = fn(&[&'static Command], &Arguments, &mut Context) -> Outcome;

/// The exit codes of commands that open a pool or other files.
pub const EXIT_CODES: [(&str, &str); 4] = [
    ("0", "everything was done and nothing is wrong"),
    (
        "1",
        "something could not be done, or damage was found; standard error says what",
    ),
    ("2", "the command line is wrong; nothing was done"),
    ("3", "a signal stopped the command; run it again to resume"),
];

/// What runs a command.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// It asks the daemon.
    Asking(Asking),
    /// It opens a pool, and has the options for that.
    Reading(Reading),
    /// It opens other files.
    Alone(Reading),
    /// It is about all commands, which it gets.
    Describing(Describing),
}

/// One command.
#[derive(Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What follows the name in a command line.
    pub synopsis: &'static str,
    /// More about it, or "".
    pub about: &'static str,
    /// Its options.
    pub flags: &'static [Flag],
    /// Runs it.
    pub run: Run,
}

impl Command {
    /// What `cenote help` and `--help` print.
    pub fn help(&self) -> String {
        let (name, synopsis, summary) = (self.name, self.synopsis, self.summary);
        let mut text = format!("usage: cenote {name} {synopsis}\n\n{summary}.\n");
        if !self.about.is_empty() {
            text.push_str(&format!("\n{}\n", self.about));
        }
        text.push_str("\nOptions:\n");
        text.push_str(&rows(self.flags.iter().chain([&HELP])));
        text
    }
}

/// The forms of a command line in a synopsis: one a line, or divided by ` | `.
pub fn forms(command: &str, synopsis: &'static str) -> Vec<&'static str> {
    let own = format!("cenote {command} ");
    let lines = synopsis.lines().map(str::trim);
    let lines = lines.map(|line| line.strip_prefix(own.as_str()).unwrap_or(line));
    let forms = lines.flat_map(|line| line.split(" | "));
    let forms = forms.map(|form| form.trim_end_matches('|').trim());
    forms.filter(|form| !form.is_empty()).collect()
}

/// The words, in small letters, with which these forms begin: `status | copy FROM TO`.
pub fn verbs(forms: &[&str]) -> Vec<String> {
    let first = forms.iter().filter_map(|form| form.split(' ').next());
    let words = first.flat_map(|word| word.trim_matches(['[', ']', '<', '>']).split('|'));
    let is_verb = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
    let mut verbs: Vec<String> = words.filter(is_verb).map(str::to_owned).collect();
    verbs.dedup();
    verbs
}

/// The lines about options in a help text.
pub fn rows<'a>(flags: impl IntoIterator<Item = &'a Flag>) -> String {
    let shown = flags.into_iter().filter(|flag| !flag.help.is_empty());
    let rows: Vec<(String, &str)> = shown.map(|flag| (flag.left(), flag.help)).collect();
    let width = rows.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
    let indent = format!("\n{:1$}", "", width + 4);
    let line = |(left, help): &(String, &str)| {
        format!("  {left:<width$}  {}\n", help.replace('\n', &indent))
    };
    rows.iter().map(line).collect()
}

/// The command line cannot be read.
#[derive(Debug, Error)]
pub enum ArgumentError {
    /// An option that the command does not have, or without its value.
    #[error("{0}")]
    Syntax(#[from] OptionError),
    /// A value that does not do.
    #[error("--{name}: {reason}")]
    Value {
        /// The option.
        name: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
}

impl From<ArgumentError> for Stop {
    fn from(error: ArgumentError) -> Self {
        Stop::Usage(error.to_string())
    }
}

/// A command line of ours taken apart: options by their long names.
pub type Arguments = Parsed<OsString>;

impl Arguments {
    /// Reads a command line of a command with these options.
    pub fn parse<'a>(
        flags: impl IntoIterator<Item = &'a Flag>,
        words: &[OsString],
    ) -> Result<Self, OptionError> {
        let known = flags.into_iter().chain([&HELP]).map(|flag| Known {
            name: flag.name(),
            letter: flag.short,
            long: Some(flag.long).filter(|long| !long.is_empty()),
            takes: flag.value.is_some(),
        });
        let known: Vec<Known> = known.collect();
        Parsed::read(&known, words, str::to_owned)
    }

    /// The value of an option that takes a size.
    pub fn size(&self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        self.value(name, "not a size", |word| {
            cenote_base::parse_size(word).ok()
        })
    }

    /// The value of an option that takes a number.
    pub fn number(&self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        self.value(name, "not a number", |word| word.parse().ok())
    }

    fn value<T>(
        &self,
        name: &'static str,
        reason: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ArgumentError> {
        let Some(word) = self.last(name) else {
            return Ok(None);
        };
        let value = word.to_str().and_then(read);
        value.map(Some).ok_or(ArgumentError::Value { name, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        option(Some('d'), "device", "PATH", ""),
        JSON,
        option(None, "txg", "NUMBER", ""),
        option(None, "offset", "BYTES", ""),
    ];

    fn parse(words: &[&str]) -> Result<Arguments, OptionError> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Arguments::parse(FLAGS, &words)
    }

    /// `cenote find POOL/DATASET -size +8k` took the place for an option that has no letter, and
    /// the condition for its value.
    #[test]
    fn a_word_is_an_option_by_its_letter_or_name() {
        let of = |word: &str| FLAGS.iter().filter(|flag| flag.is(word)).count();
        assert_eq!((of("-d"), of("--device"), of("--txg")), (1, 1, 1));
        for word in ["tank/fs", "", "-", "--", "-size", "device", "d", "--d"] {
            assert_eq!(of(word), 0, "'{word}'");
        }
    }

    #[test]
    fn options_mix_with_operands() {
        let line = ["-d", "/a", "tank:/x", "--device=/b", "--json"];
        let parsed = parse(&line).expect("valid");
        assert_eq!(parsed.all("device").collect::<Vec<_>>(), ["/a", "/b"]);
        assert_eq!(parsed.operands, ["tank:/x"]);
        assert!(parsed.has("json"));
    }

    #[test]
    fn wrong_options_and_values_are_named() {
        let text = |words: &[&str]| parse(words).expect_err("wrong").to_string();
        assert_eq!(
            text(&["--devise"]),
            "invalid option '--devise'\ndid you mean '--device'?"
        );
        assert_eq!(text(&["-q"]), "invalid option '-q'");
        let parsed = parse(&["--txg", "x", "--offset=1.5k"]).expect("valid");
        let wrong = parsed.number("txg").expect_err("no number").to_string();
        assert_eq!(wrong, "--txg: not a number");
        assert_eq!(parsed.size("offset").expect("a size"), Some(1536));
    }
}
