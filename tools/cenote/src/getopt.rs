//! Options as getopt reads them: combined letters, `-oname`, options after operands, `--`.
//!
//! The error texts are part of the contract: replication tools probe for options by matching
//! `invalid option` in the first line (cli/contract.md 1).

use thiserror::Error;

/// The command line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// No such option.
    #[error("invalid option '{0}'")]
    Invalid(String),
    /// No such option, but one that is spelled nearly so.
    #[error("invalid option '{0}'\n{1}")]
    InvalidNear(String, String),
    /// The option needs an argument.
    #[error("missing argument for '{0}' option")]
    MissingArgument(String),
}

/// The options of a command: letters, `:` after those that take an argument, and long names with
/// the letter or name they stand for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grammar {
    /// Like getopt's: `Hpo:`.
    pub letters: &'static str,
    /// Long name, what it is reported as, whether it takes an argument.
    pub long: &'static [(&'static str, &'static str, bool)],
}

/// A command line taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Options in order: letter or long name, and argument.
    pub options: Vec<(String, String)>,
    /// Everything else, in order.
    pub operands: Vec<String>,
}

impl Parsed {
    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option == name)
    }

    /// The last argument of an option.
    pub fn last(&self, name: &str) -> Option<&str> {
        let given = |(option, _): &&(String, String)| option == name;
        let found = self.options.iter().rev().find(given);
        found.map(|(_, argument)| argument.as_str())
    }

    /// All arguments of an option, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let given = move |(option, _): &&(String, String)| option == name;
        let found = self.options.iter().filter(given);
        found.map(|(_, argument)| argument.as_str())
    }
}

impl Grammar {
    /// Only letters.
    pub const fn letters(letters: &'static str) -> Self {
        Grammar { letters, long: &[] }
    }

    /// Takes a command line apart.
    pub fn parse(&self, arguments: &[String]) -> Result<Parsed, OptionError> {
        let mut parsed = Parsed::default();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                parsed.operands.extend(rest.cloned());
                break;
            }
            if let Some(long) = word.strip_prefix("--") {
                self.parse_long(long, &mut rest, &mut parsed)?;
            } else if word.len() > 1 && word.starts_with('-') {
                self.parse_letters(&word[1..], &mut rest, &mut parsed)?;
            } else {
                parsed.operands.push(word.clone());
            }
        }
        Ok(parsed)
    }

    fn parse_letters<'a>(
        &self,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        parsed: &mut Parsed,
    ) -> Result<(), OptionError> {
        for (index, letter) in letters.char_indices() {
            let name = letter.to_string();
            let place = self.letters.find(letter).filter(|_| letter != ':');
            let Some(place) = place else {
                return Err(OptionError::Invalid(name));
            };
            if !self.letters[place + letter.len_utf8()..].starts_with(':') {
                parsed.options.push((name, String::new()));
                continue;
            }
            let attached = &letters[index + letter.len_utf8()..];
            let argument = if attached.is_empty() {
                let missing = || OptionError::MissingArgument(name.clone());
                rest.next().ok_or_else(missing)?.clone()
            } else {
                attached.to_owned()
            };
            parsed.options.push((name, argument));
            break;
        }
        Ok(())
    }

    fn parse_long<'a>(
        &self,
        word: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        parsed: &mut Parsed,
    ) -> Result<(), OptionError> {
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        let invalid = || {
            let known: Vec<String> = self
                .long
                .iter()
                .map(|(long, ..)| format!("--{long}"))
                .collect();
            let known = known.iter().map(String::as_str);
            match cenote_base::did_you_mean(&format!("--{name}"), known) {
                Some(question) => OptionError::InvalidNear(name.to_owned(), question),
                None => OptionError::Invalid(name.to_owned()),
            }
        };
        let exact = self.long.iter().find(|(long, ..)| *long == name);
        let mut like = self.long.iter().filter(|(long, ..)| long.starts_with(name));
        let (found, reported, takes) = match (exact, like.next(), like.next()) {
            (Some(option), ..) | (None, Some(option), None) => option,
            _ => return Err(invalid()),
        };
        let argument = match (takes, attached) {
            (false, Some(_)) => return Err(invalid()),
            (false, None) => String::new(),
            (true, Some(value)) => value,
            (true, None) => {
                let missing = || OptionError::MissingArgument((*found).to_owned());
                rest.next().ok_or_else(missing)?.clone()
            }
        };
        parsed.options.push(((*reported).to_owned(), argument));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Grammar = Grammar {
        letters: "Hpo:d:r",
        long: &[
            ("json", "j", false),
            ("json-int", "json-int", false),
            ("key", "k", true),
        ],
    };

    fn parse(line: &str) -> Result<Parsed, OptionError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        LIST.parse(&words)
    }

    #[test]
    fn letters_combine_and_mix_with_operands() {
        let parsed = parse("-Hpo name tank -d0 -oused a").expect("valid");
        assert_eq!(parsed.operands, ["tank", "a"]);
        assert!(parsed.has("H") && parsed.has("p") && !parsed.has("r"));
        assert_eq!(parsed.last("o"), Some("used"));
        assert_eq!(parsed.all("o").collect::<Vec<_>>(), ["name", "used"]);
        assert_eq!(parsed.last("d"), Some("0"));
    }

    #[test]
    fn two_dashes_end_the_options() {
        let parsed = parse("-H -- -p -").expect("valid");
        assert_eq!(parsed.operands, ["-p", "-"]);
        assert!(!parsed.has("p"));
    }

    #[test]
    fn long_names_may_be_cut_and_carry_arguments() {
        assert!(parse("--json").expect("exact").has("j"));
        assert!(parse("--json-").expect("unique").has("json-int"));
        assert_eq!(parse("--key=a=b").expect("valid").last("k"), Some("a=b"));
        assert_eq!(parse("--key v").expect("valid").last("k"), Some("v"));
        assert!(parse("--nosuch").is_err());
        assert!(parse("--json=1").is_err());
    }

    #[test]
    fn errors_name_the_option() {
        let text = |line| parse(line).expect_err("invalid").to_string();
        assert_eq!(text("-HQ"), "invalid option 'Q'");
        assert_eq!(text("-o"), "missing argument for 'o' option");
        assert_eq!(text("-:"), "invalid option ':'");
    }
}
