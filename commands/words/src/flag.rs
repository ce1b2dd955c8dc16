//! Options of commands: one table, from which command lines are parsed and help is printed.

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its letter.
    pub short: Option<char>,
    /// Its name; "" if it has only a letter.
    pub long: &'static str,
    /// The placeholder for its value; `None` if it takes none.
    pub value: Option<&'static str>,
    /// What it does; "" for an alternative spelling that help leaves out.
    pub help: &'static str,
    /// Whether the synopsis leaves it out, as OpenZFS's does with some.
    pub is_hidden: bool,
}

/// A table of options, each with its letter, name, value and help; `_` stands for none. `hidden`
/// marks those that the synopsis leaves out.
#[macro_export]
macro_rules! flags {
    (@maybe _) => { None };
    (@maybe $word:literal) => { Some($word) };
    (@is_hidden) => { false };
    (@is_hidden hidden) => { true };
    ($($short:tt $long:literal $value:tt $help:literal $($hidden:ident)?;)*) => {
        &[$($crate::flag::Flag {
            short: $crate::flags!(@maybe $short),
            long: $long,
            value: $crate::flags!(@maybe $value),
            help: $help,
            is_hidden: $crate::flags!(@is_hidden $($hidden)?),
        }),*]
    };
}
pub use crate::flags;

/// An option without a value.
pub const fn flag(short: Option<char>, long: &'static str, help: &'static str) -> Flag {
    Flag {
        short,
        long,
        value: None,
        help,
        is_hidden: false,
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
        is_hidden: false,
    }
}

impl Flag {
    /// The name by which a command of OpenZFS looks it up: its letter, if it has one.
    pub fn letter(&self) -> String {
        match self.short {
            Some(letter) => letter.to_string(),
            None => self.long.to_owned(),
        }
    }

    /// The name by which a command of ours looks it up: its long name, if it has one.
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

/// The option of commands that can print JSON.
pub const JSON: Flag = flag(Some('j'), "json", "print JSON");

/// The option that every command has.
pub const HELP: Flag = flag(None, "help", "print this help");

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
