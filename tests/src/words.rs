//! Command lines of the developers' programs: options by name, most with a value, and words.

use anyhow::{Context, Error, Result, anyhow};
use std::error::Error as StdError;
use std::process::ExitCode;
use std::str::FromStr;

/// The words of a command line that were not looked at yet.
#[derive(Debug)]
pub struct Words {
    rest: std::vec::IntoIter<String>,
    /// The word looked at last, for messages.
    last: String,
}

impl Words {
    /// These words.
    pub fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self {
            rest: words.into_iter().collect::<Vec<_>>().into_iter(),
            last: String::new(),
        }
    }

    /// The value of the option looked at last.
    ///
    /// # Errors
    /// If there is none, or it is of another kind.
    pub fn value<T>(&mut self) -> Result<T>
    where
        T: FromStr,
        T::Err: StdError + Send + Sync + 'static,
    {
        let option = &self.last;
        let value = self.rest.next();
        let value = value.with_context(|| format!("{option} needs a value"))?;
        value.parse().with_context(|| format!("{option} {value}"))
    }

    /// What the word looked at last is when it is no option: a number.
    ///
    /// # Errors
    /// If it looks like an option, or is no number.
    pub fn seed(&self) -> Result<u64> {
        self.word()?.parse().context("a seed is a number")
    }

    /// The word looked at last, which is no option that the program knows.
    ///
    /// # Errors
    /// If it looks like an option.
    pub fn word(&self) -> Result<String> {
        match self.last.starts_with('-') {
            true => Err(self.unknown()),
            false => Ok(self.last.clone()),
        }
    }

    fn unknown(&self) -> Error {
        anyhow!("unknown option {}", self.last)
    }
}

impl Iterator for Words {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.last = self.rest.next()?;
        Some(self.last.clone())
    }
}

/// Ends the program `name`: well if `outcome` is true, and with the error on standard error if
/// there is one.
pub fn end(name: &str, outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Words {
        Words::new(line.split(' ').map(String::from))
    }

    #[test]
    fn options_have_values_and_faults_have_names() {
        let mut line = words("--rounds 7 12 --seed x --last");
        assert_eq!(line.next().as_deref(), Some("--rounds"));
        assert_eq!(line.value::<u64>().expect("a number"), 7);
        line.next();
        assert_eq!(line.seed().expect("a number"), 12);
        line.next();
        let text = format!("{:#}", line.value::<u64>().expect_err("no number"));
        assert!(text.starts_with("--seed x: "), "{text}");
        line.next();
        let text = line.value::<String>().expect_err("nothing").to_string();
        assert_eq!(text, "--last needs a value");
        let text = line.word().expect_err("an option").to_string();
        assert_eq!(text, "unknown option --last");
        assert_eq!(line.next(), None);
    }
}
