//! What is known of each test: a line of `results.tsv`.
//!
//! The columns are test, result, class, reason, seconds and commit, between tabs; lines are in the
//! order of the tests' names. A class and a reason are written by people and stay while the test
//! does not pass; what a new failure said last stands in for its reason until then.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// The first line of the file.
const TITLE: &str = "# test\tresult\tclass\treason\tseconds\tcommit";

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// It passed.
    Pass,
    /// It failed.
    Fail,
    /// It reached its time limit.
    Killed,
    /// The setup of its group failed.
    Setup,
    /// It found that it cannot run here.
    Skip,
    /// The package does not have its script.
    Missing,
    /// The machine for it could not be made.
    Broken,
    /// It is not run, because it needs what its reason says.
    LeftOut,
    /// It was never run.
    NotRun,
}

const OUTCOMES: [(Outcome, &str); 9] = [
    (Outcome::Pass, "PASS"),
    (Outcome::Fail, "FAIL"),
    (Outcome::Killed, "KILLED"),
    (Outcome::Setup, "SETUP"),
    (Outcome::Skip, "SKIP"),
    (Outcome::Missing, "ABSENT"),
    (Outcome::Broken, "BROKEN"),
    (Outcome::LeftOut, "LEFT"),
    (Outcome::NotRun, "-"),
];

impl Outcome {
    /// Its word in the file and in the runner's lines.
    pub fn word(self) -> &'static str {
        let found = OUTCOMES.iter().find(|(outcome, _)| *outcome == self);
        found.expect("all are listed").1
    }

    /// Whether people say why a test ended so.
    fn wants_reason(self) -> bool {
        !matches!(self, Self::Pass | Self::NotRun)
    }
}

impl FromStr for Outcome {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        let found = OUTCOMES.iter().find(|(_, known)| *known == word);
        let (outcome, _) = found.with_context(|| format!("no result is called '{word}'"))?;
        Ok(*outcome)
    }
}

/// Whose fault it is that a test does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Cenote does something else than OpenZFS.
    Wrong,
    /// Cenote does not have what the test is about.
    Absent,
    /// This kernel, machine or runner cannot do what the test wants.
    Environment,
    /// The test itself is wrong, or OpenZFS lists it as failing.
    Test,
}

/// The classes by their words in the file, in the order of the table.
pub(super) const CLASSES: [(Class, &str); 4] = [
    (Class::Wrong, "wrong"),
    (Class::Absent, "absent"),
    (Class::Environment, "environment"),
    (Class::Test, "test"),
];

/// A test's last result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub outcome: Outcome,
    pub class: Option<Class>,
    pub reason: String,
    pub seconds: f32,
    /// The commit it was run at, with `+` if the tree had changes; empty if it was never run.
    pub commit: String,
}

/// The group of a test: all before its last slash.
pub(super) fn group_of(test: &str) -> &str {
    test.rsplit_once('/').map_or("", |(group, _)| group)
}

/// All tests by their names.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<String, Record>);

impl Results {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut results = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (test, record) = parse_line(line).with_context(|| format!("'{line}'"))?;
            let is_new = results.insert(test.to_owned(), record).is_none();
            ensure!(is_new, "there are two lines for {test}");
        }
        Ok(Self(results))
    }

    /// Writes the file at `path`, as a whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("new");
        std::fs::write(&new, self.text()).with_context(|| new.display().to_string())?;
        std::fs::rename(&new, path).with_context(|| path.display().to_string())
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for (test, record) in &self.0 {
            let class = CLASSES
                .iter()
                .find(|(class, _)| Some(*class) == record.class);
            let columns = [
                test.as_str(),
                record.outcome.word(),
                class.map_or("", |(_, word)| word),
                &record.reason,
                &format!("{:.1}", record.seconds),
                &record.commit,
            ];
            text.push_str(columns.join("\t").trim_end());
            text.push('\n');
        }
        text
    }

    /// What is known of a test.
    pub fn get(&self, test: &str) -> Option<&Record> {
        self.0.get(test)
    }

    /// All tests and what is known of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.0.iter().map(|(test, record)| (test.as_str(), record))
    }

    /// Takes a new result, with the class and reason that an earlier failure has.
    pub fn record(&mut self, test: &str, mut record: Record) {
        if record.outcome == Outcome::Pass {
            record.reason.clear();
        } else if let Some(known) = self.0.get(test)
            && known.class.is_some()
        {
            record.class = known.class;
            record.reason.clone_from(&known.reason);
        }
        self.0.insert(test.to_owned(), record);
    }

    /// Tests that do not pass and have no class or no reason.
    pub fn unclassified(&self) -> impl Iterator<Item = &str> {
        let unclear = self.iter().filter(|(_, record)| {
            let is_clear = record.class.is_some() && !record.reason.is_empty();
            record.outcome.wants_reason() && !is_clear
        });
        unclear.map(|(test, _)| test)
    }
}

fn parse_line(line: &str) -> Result<(&str, Record)> {
    let mut columns = line.split('\t');
    let mut next = || columns.next().unwrap_or("");
    let (test, outcome, class, reason) = (next(), next(), next(), next());
    let (seconds, commit) = (next(), next());
    ensure!(columns.next().is_none(), "it has more than six columns");
    let class = match class {
        "" => None,
        word => match CLASSES.iter().find(|(_, known)| *known == word) {
            Some((class, _)) => Some(*class),
            None => bail!("no class is called '{word}'"),
        },
    };
    let record = Record {
        outcome: outcome.parse()?,
        class,
        reason: reason.to_owned(),
        seconds: match seconds {
            "" => 0.0,
            number => number.parse()?,
        },
        commit: commit.to_owned(),
    };
    Ok((test, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# test\tresult\tclass\treason\tseconds\tcommit\n\
        a/one\tPASS\t\t\t0.5\tc0ffee\n\
        a/two\tFAIL\twrong\tit differs\t2.0\tc0ffee+\n\
        b/three\t-\t\t\t0.0\n";

    fn ended(outcome: Outcome, reason: &str) -> Record {
        Record {
            outcome,
            class: None,
            reason: reason.to_owned(),
            seconds: 1.0,
            commit: "feed".to_owned(),
        }
    }

    #[test]
    fn the_file_is_read_and_written() {
        assert_eq!(Results::parse(TEXT).unwrap().text(), TEXT);
        assert!(Results::parse("a/one\tGOOD").is_err());
        assert!(Results::parse("a/one\tFAIL\tblue").is_err());
        assert!(Results::parse("a/one\tPASS\na/one\tPASS").is_err());
    }

    #[test]
    fn a_reason_stays_while_a_test_fails() {
        let mut results = Results::parse(TEXT).unwrap();
        results.record("a/two", ended(Outcome::Killed, "time limit"));
        let record = results.get("a/two").unwrap();
        assert_eq!(
            (record.class, &*record.reason),
            (Some(Class::Wrong), "it differs")
        );
        results.record("a/two", ended(Outcome::Pass, ""));
        let record = results.get("a/two").unwrap();
        assert_eq!((record.class, &*record.reason), (None, ""));
        assert_eq!(results.unclassified().count(), 0);
        results.record("a/one", ended(Outcome::Fail, "ERROR: x"));
        assert_eq!(results.unclassified().collect::<Vec<_>>(), ["a/one"]);
        assert_eq!(results.get("a/one").unwrap().reason, "ERROR: x");
    }
}
