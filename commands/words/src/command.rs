//! A command of ours: its name, its options and what it does. Its help is made from this table.
//!
//! Commands that ask the daemon print through a context; commands that open a pool themselves print
//! directly ([`Run`]). The binary has a [`Table`] of all commands.

use std::ffi::OsString;

use thiserror::Error;

use crate::context::{Context, Outcome, Stop};
pub use crate::flag::{Flag, HELP, JSON, flag, flags, option, rows};
use crate::getopt::{OptionError, Parsed};
use crate::manual::page::Page;
use crate::program::Program;
use crate::topic::Topic;

/// Runs a command that asks the daemon.
pub type Asking = fn(&Arguments, &mut Context) -> Outcome;

/// Runs a command that parses its own arguments.
pub type Reading = fn(Vec<OsString>) -> Exit;

/// Runs a command that describes other commands.
pub type Describing = fn(&Table, &Arguments, &mut Context) -> Outcome;

/// How a command that prints its own messages ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done, nothing is wrong.
    Good,
    /// Something could not be done, or damage was found.
    Problems,
    /// The command line is wrong; nothing was done.
    Usage,
    /// A signal stopped it; it can be resumed.
    Interrupted,
}

impl Exit {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Problems => 1,
            Self::Usage => 2,
            Self::Interrupted => 3,
        }
    }
}

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

/// The options of every command that opens a pool.
pub const POOL_FLAGS: &[Flag] = flags! {
    'd' "device" "PATH" "look here: a device, a file, a directory of these, or a store\n\
        (s3://BUCKET/PREFIX, file:///DIRECTORY) as of its newest commit;\n\
        may be repeated. Without -d: the devices of the pool as the\n\
        daemon has it, the list in $CENOTE_DEVICES (separated by ':'),\n\
        or /dev/disk/by-id, /dev and the current directory.";
    _ "offset" "BYTES" "the pool's part begins so far into each device, as in an image of\n\
        something larger; partitions are found without";
    _ "key" "[ROOT=]FROM" "key of the encryption root ROOT, or of whichever is needed; FROM is\n\
        a file, 'prompt', or '-' for standard input; may be repeated";
    _ "replay" _ "show files as after the replay of the intent log, which is done in\n\
        memory (also: -o cenote:replay=memory)";
    'o' "" "NAME=VALUE" "";
    'm' "missing-log" _ "open the pool although a log device is missing";
    'T' "txg" "N" "open the state of txg N, or the newest one before it";
    'F' "rewind" _ "if the newest state cannot be read, try the ones just before it";
    'X' "extreme-rewind" _ "... and then any older one";
    _ "checkpoint" _ "open the pool as of its checkpoint (--rewind-to-checkpoint)";
    _ "rewind-to-checkpoint" _ "";
    _ "memory" "SIZE" "limit for caches and buffers; default 128M";
};

/// How to run a command.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// The command asks the daemon.
    Asking(Asking),
    /// The command opens a pool, and has the options for that.
    Reading(Reading),
    /// The command opens other files.
    Alone(Reading),
    /// The command describes all commands; it receives their table.
    Describing(Describing),
}

/// All commands, for help, manual pages and completion.
#[derive(Clone, Copy)]
pub struct Table {
    /// Our own, which `cenote` runs.
    pub own: &'static [&'static Command],
    /// Programs with subcommands.
    pub programs: &'static [&'static Program],
    /// Small programs; links with their names run the binary.
    pub others: &'static [&'static Other],
}

/// A small program that brings its own description.
#[derive(Debug)]
pub struct Other {
    /// Its name.
    pub name: &'static str,
    /// Another name for the program or a part of it, or "".
    pub alias: &'static str,
    /// Its subcommands, and what they do. One that is called like the program is the program.
    pub topics: &'static [Topic],
    /// Its manual page.
    pub page: fn() -> Page,
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
    /// The names of the options of one form of the command line, such as `start`: those whose help
    /// begins with its verb, as in `start: …`.
    pub fn names_of(&self, form: &str) -> Vec<&'static str> {
        let is_of = |flag: &&Flag| {
            let rest = flag.help.strip_prefix(form);
            rest.is_some_and(|rest| rest.starts_with(':'))
        };
        self.flags
            .iter()
            .filter(is_of)
            .map(|flag| flag.long)
            .collect()
    }

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

/// Why a command line cannot be parsed.
#[derive(Debug, Error)]
pub enum ArgumentError {
    /// The command has no such option, or the option's value is missing.
    #[error("{0}")]
    Syntax(#[from] OptionError),
    /// An invalid value.
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

/// A parsed command line: options by their long names.
pub type Arguments = Parsed<OsString>;

impl Arguments {
    /// Parses the arguments of a command with these options.
    pub fn parse<'a>(
        flags: impl IntoIterator<Item = &'a Flag>,
        words: &[OsString],
    ) -> Result<Self, OptionError> {
        let flags: Vec<&Flag> = flags.into_iter().chain([&HELP]).collect();
        Parsed::read(&flags, Flag::name, words, str::to_owned)
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

    /// In `cenote find POOL/DATASET -size +8k` the dataset was taken for an option without a
    /// letter, and the condition for its value.
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
