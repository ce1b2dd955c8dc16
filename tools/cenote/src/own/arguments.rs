//! Options of our own commands.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use lexopt::Arg;
use thiserror::Error;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its letter.
    pub short: Option<char>,
    /// Its name.
    pub long: &'static str,
    /// What its value is called; none means that it takes none.
    pub value: Option<&'static str>,
    /// What it does.
    pub help: &'static str,
}

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
    /// The left column of a help text.
    pub fn left(&self) -> String {
        let short = self.short.map_or("    ".to_owned(), |c| format!("-{c}, "));
        let value = self
            .value
            .map_or(String::new(), |value| format!(" {value}"));
        format!("{short}--{}{value}", self.long)
    }
}

/// Options of commands that open pools themselves.
pub const POOL_FLAGS: &[Flag] = &[
    option(
        Some('d'),
        "device",
        "PATH",
        "look for the pool in this file, device or directory (may be repeated)",
    ),
    option(
        None,
        "offset",
        "BYTES",
        "the pool begins so far into each file or device",
    ),
    option(
        Some('k'),
        "key",
        "DATASET=LOCATION",
        "an encryption key: 'prompt', 'stdin' or file:///PATH (may be repeated)",
    ),
    option(
        None,
        "txg",
        "NUMBER",
        "open the pool as of this transaction group",
    ),
    flag(None, "replay", "replay the intent log in memory first"),
];

/// Options of every command.
pub const COMMON_FLAGS: &[Flag] = &[
    flag(Some('j'), "json", "print JSON"),
    flag(None, "help", "print this help"),
];

/// The command line cannot be read.
#[derive(Debug, Error)]
pub enum ArgumentError {
    /// An option that the command does not have, or without its value.
    #[error("{0}")]
    Syntax(#[from] lexopt::Error),
    /// A value that does not do.
    #[error("--{name}: {reason}")]
    Value {
        /// The option.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// A key and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    /// The encryption root.
    pub dataset: String,
    /// `prompt`, `stdin` or `file:///PATH`.
    pub location: String,
}

/// A command line taken apart.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    given: Vec<(&'static str, OsString)>,
    /// Everything that is no option.
    pub operands: Vec<OsString>,
    /// `--device`.
    pub devices: Vec<PathBuf>,
    /// `--offset`, in bytes.
    pub offset: u64,
    /// `--key`.
    pub keys: Vec<KeySource>,
    /// `--txg`.
    pub txg: Option<u64>,
    /// `--memory`, in bytes.
    pub memory: Option<u64>,
}

impl Arguments {
    /// Reads a command line of a command with these options, and those for pools if it opens some.
    pub fn parse(
        flags: &'static [Flag],
        opens_pools: bool,
        words: Vec<OsString>,
    ) -> Result<Self, ArgumentError> {
        let mut known: Vec<&Flag> = flags.iter().chain(COMMON_FLAGS).collect();
        if opens_pools {
            known.extend(POOL_FLAGS);
        }
        let mut parser = lexopt::Parser::from_args(words);
        let mut parsed = Arguments::default();
        while let Some(argument) = parser.next()? {
            let found = match &argument {
                Arg::Value(word) => {
                    parsed.operands.push(word.clone());
                    continue;
                }
                Arg::Short(letter) => known.iter().find(|flag| flag.short == Some(*letter)),
                Arg::Long(name) => known.iter().find(|flag| flag.long == *name),
            };
            let Some(flag) = found else {
                return Err(argument.unexpected().into());
            };
            let value = match flag.value {
                Some(_) => parser.value()?,
                None => OsString::new(),
            };
            parsed.given.push((flag.long, value));
        }
        parsed.read_values()?;
        Ok(parsed)
    }

    fn read_values(&mut self) -> Result<(), ArgumentError> {
        for (name, value) in &self.given {
            let bad = |reason: &str| ArgumentError::Value {
                name,
                reason: reason.to_owned(),
            };
            match *name {
                "device" => self.devices.push(PathBuf::from(value)),
                "offset" => {
                    let size = value.to_str().and_then(size);
                    self.offset = size.ok_or_else(|| bad("not a size"))?;
                }
                "memory" => {
                    let size = value.to_str().and_then(size);
                    self.memory = Some(size.ok_or_else(|| bad("not a size"))?);
                }
                "txg" => {
                    let number = value.to_str().and_then(|word| word.parse().ok());
                    self.txg = Some(number.ok_or_else(|| bad("not a number"))?);
                }
                "key" => {
                    let pair = value.to_str().and_then(|word| word.split_once('='));
                    let (dataset, location) =
                        pair.ok_or_else(|| bad("must be DATASET=LOCATION"))?;
                    self.keys.push(KeySource {
                        dataset: dataset.to_owned(),
                        location: location.to_owned(),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether an option was given.
    pub fn has(&self, long: &str) -> bool {
        self.given.iter().any(|(name, _)| *name == long)
    }

    /// All values of an option, in order.
    pub fn all(&self, long: &str) -> Vec<&OsStr> {
        let found = self.given.iter().filter(|(name, _)| *name == long);
        found.map(|(_, value)| value.as_os_str()).collect()
    }

    /// The last value of an option.
    pub fn last(&self, long: &str) -> Option<&OsStr> {
        let found = self.given.iter().rev().find(|(name, _)| *name == long);
        found.map(|(_, value)| value.as_os_str())
    }
}

/// Reads a size: `4096`, `512M`, `1.5G`, `2GiB`; base 1024.
pub fn size(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = word[digits.len()..].to_ascii_uppercase();
    let unit = unit
        .strip_suffix("IB")
        .or(unit.strip_suffix('B'))
        .unwrap_or(&unit);
    let index = match unit {
        "" => 0,
        letter => "KMGTPE".find(letter).filter(|_| letter.len() == 1)? + 1,
    };
    let unit = 1u64 << (10 * index);
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let value: f64 = digits.parse().ok()?;
    let bytes = value * unit as f64;
    (bytes.is_finite() && (0.0..1.8e19).contains(&bytes)).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, ArgumentError> {
        Arguments::parse(&[], true, words.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_mix_with_operands() {
        let line = ["-d", "/a", "tank:/x", "--device=/b", "--json"];
        let parsed = parse(&line).expect("valid");
        assert_eq!(parsed.devices, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(parsed.operands, ["tank:/x"]);
        assert!(parsed.has("json"));
        let parsed = parse(&["--key", "tank/e=file:///k"]).expect("valid");
        assert_eq!(parsed.keys[0].location, "file:///k");
    }

    #[test]
    fn wrong_options_and_values_are_named() {
        let text = |words: &[&str]| parse(words).expect_err("wrong").to_string();
        assert!(text(&["--nosuch"]).contains("--nosuch"));
        assert_eq!(text(&["--txg", "x"]), "--txg: not a number");
        assert_eq!(text(&["--key", "x"]), "--key: must be DATASET=LOCATION");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("1.5k"), Some(1536));
        assert_eq!(size("2GiB"), Some(2 << 30));
        assert_eq!(size("16E"), None);
        assert_eq!(size("x"), None);
        assert_eq!(size("5Q"), None);
    }
}
