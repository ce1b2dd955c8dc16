//! The words of the command line.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// What is asked for.
#[derive(Debug)]
pub(super) struct Options {
    /// Groups and tests; without any all are meant.
    pub words: Vec<String>,
    /// Only tests whose last result is older than this commit.
    pub since: Option<String>,
    /// Only tests that did not pass last time.
    pub is_failed: bool,
    /// Only tests that must pass.
    pub is_required: bool,
    /// As many of them as take so many minutes.
    pub minutes: Option<u32>,
    /// How many lanes run side by side.
    pub lanes: usize,
    /// The time limit of a test.
    pub seconds: u32,
    /// Where results go instead of the repository's file.
    pub output: Option<PathBuf>,
    /// Lists groups and runs nothing.
    pub is_groups: bool,
    /// Writes the table and runs nothing.
    pub is_table: bool,
}

impl Options {
    /// Reads the command line.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                let value = rest.next();
                value.with_context(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--since" => options.since = Some(value()?.clone()),
                "--failed" => options.is_failed = true,
                "--required" => options.is_required = true,
                "--minutes" => options.minutes = Some(value()?.parse().context("--minutes")?),
                "-j" => options.lanes = value()?.parse().context("-j")?,
                "-t" => options.seconds = value()?.parse().context("-t")?,
                "--output" => options.output = Some(value()?.into()),
                "--groups" => options.is_groups = true,
                "--table" => options.is_table = true,
                word if word.starts_with('-') => bail!("unknown option {word}"),
                word => options.words.push(word.trim_end_matches('/').to_owned()),
            }
        }
        if options.lanes == 0 {
            bail!("-j needs a number above 0");
        }
        Ok(options)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            since: None,
            is_failed: false,
            is_required: false,
            minutes: None,
            lanes: 1,
            seconds: 100,
            output: None,
            is_groups: false,
            is_table: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        Options::parse(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn words_are_understood() {
        let options = parse(&["rsend/", "-j", "2", "--since", "c0ffee", "--failed"]).unwrap();
        assert_eq!(
            (options.words, options.lanes),
            (vec!["rsend".to_owned()], 2)
        );
        assert_eq!(options.since.as_deref(), Some("c0ffee"));
        assert!(options.is_failed);
        for wrong in [&["-j"][..], &["-j", "0"], &["-t", "long"], &["--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
