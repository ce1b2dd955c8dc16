//! A subcommand of a program with OpenZFS's command line, and what the user typed after its name.

use crate::flag::Flag;
use crate::getopt::{self, OptionError, Parsed};

/// A subcommand. Command lines are parsed from this table; help, manual pages and completions are
/// made of it.
///
/// OpenZFS arranges the options of a synopsis by hand, so the lines are here as it prints them. A
/// test compares them with the options ([`crate::testing::faults_of_synopsis`]).
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: &'static str,
    /// The lines of its synopsis. One that begins with a space continues the one before.
    pub synopsis: &'static [&'static str],
    /// What it does, in a few words.
    pub summary: &'static str,
    /// More about it, or "".
    pub about: &'static str,
    /// Its options; those without a help text are accepted but not listed.
    pub flags: &'static [Flag],
}

/// A subcommand, for tables.
pub const fn topic(
    name: &'static str,
    synopsis: &'static [&'static str],
    summary: &'static str,
    about: &'static str,
    flags: &'static [Flag],
) -> Topic {
    Topic {
        name,
        synopsis,
        summary,
        about,
        flags,
    }
}

impl Topic {
    /// The usage of a program without subcommands: its forms.
    pub fn usage(&self) -> String {
        let mut text = "usage:\n".to_owned();
        for line in self.synopsis {
            let more = if line.starts_with(' ') { "    " } else { "" };
            text.push_str(&format!("\t{more}{line}\n"));
        }
        text
    }

    /// What it does and its options, in one paragraph.
    pub fn sentences(&self) -> String {
        let told = self.flags.iter().filter(|flag| !flag.help.is_empty());
        let told = told.map(|flag| format!("-{}: {}", flag.letter(), flag.help));
        let told: Vec<String> = told.collect();
        match told.is_empty() {
            true => format!("{}.", self.summary),
            false => format!("{}. {}.", self.summary, told.join("; ")),
        }
    }
}

/// Whether the words after a subcommand's name ask for its help. `-?` and `-h` do not: as in
/// OpenZFS, a subcommand has these options only if its synopsis shows them.
pub fn is_help_asked(words: &[String]) -> bool {
    let mut options = words.iter().take_while(|word| *word != "--");
    options.any(|word| word == "--help")
}

/// What the user typed: a subcommand and the words after its name.
#[derive(Clone, Copy, Debug)]
pub struct CommandLine<'a> {
    /// The subcommand.
    pub topic: &'static Topic,
    /// The words after its name.
    pub words: &'a [String],
}

impl CommandLine<'_> {
    /// The subcommand's name.
    pub fn name(&self) -> &'static str {
        self.topic.name
    }

    /// The options and operands.
    pub fn parse(&self) -> Result<Parsed, OptionError> {
        getopt::parse(self.topic.flags, self.words)
    }
}
