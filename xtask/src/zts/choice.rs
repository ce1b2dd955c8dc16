//! Which tests are run.

use super::head::Head;
use super::options::Options;
use super::results::{Outcome, Record, Results, group_of};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// What a lane and the setup of a group take, in seconds.
const GROUP_SECONDS: f32 = 3.0;

/// The tests of `known` that the options ask for, those of the slowest group first.
pub(super) fn choose(
    options: &Options,
    known: &[String],
    results: &Results,
    required: &BTreeSet<String>,
    head: &Head,
) -> Result<Vec<String>> {
    let mut chosen: Vec<&String> = known
        .iter()
        .filter(|test| is_meant(test, &options.words, results))
        .collect();
    for word in &options.words {
        let is_used = chosen.iter().any(|test| is_named(test, word));
        ensure!(is_used, "there is no group or test '{word}'");
    }
    if options.is_required {
        chosen.retain(|test| required.contains(*test));
    }
    if options.is_failed {
        let is_failed = |record: &Record| record.outcome != Outcome::Pass;
        chosen.retain(|test| results.get(test).is_none_or(is_failed));
    }
    if let Some(since) = &options.since {
        let mut ages = Ages::new(since)?;
        chosen.retain(|test| {
            let commit = results.get(test).map_or("", |record| &record.commit);
            ages.is_older(commit)
        });
    }
    if let Some(minutes) = options.minutes {
        let lanes = u16::try_from(options.lanes).context("-j")?;
        let minutes = u16::try_from(minutes).context("--minutes")?;
        let budget = f32::from(minutes) * 60.0 * f32::from(lanes);
        chosen = part(&chosen, results, budget, &head.commit);
    }
    // Whatever takes longest begins first, so that lanes end at about the same time.
    let times = times(&chosen, results);
    chosen.sort_by(|one, other| times[group_of(other)].total_cmp(&times[group_of(one)]));
    Ok(chosen.into_iter().cloned().collect())
}

/// Whether a word names the test, its group or a group above that.
fn is_named(test: &str, word: &str) -> bool {
    let rest = test.strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the test is meant. One that is left out must be named itself.
fn is_meant(test: &str, words: &[String], results: &Results) -> bool {
    let is_left_out = |record: &Record| record.outcome == Outcome::LeftOut;
    if results.get(test).is_some_and(is_left_out) {
        return words.iter().any(|word| word == test);
    }
    words.is_empty() || words.iter().any(|word| is_named(test, word))
}

fn seconds(test: &str, results: &Results) -> f32 {
    results.get(test).map_or(0.0, |record| record.seconds)
}

/// What the chosen tests of each group took last time.
fn times<'a>(tests: &[&'a String], results: &Results) -> BTreeMap<&'a str, f32> {
    let mut times = BTreeMap::new();
    for test in tests {
        *times.entry(group_of(test)).or_default() += seconds(test, results);
    }
    times
}

/// Tests that take `budget` seconds together, from a place that `commit` decides.
fn part<'a>(tests: &[&'a String], results: &Results, budget: f32, commit: &str) -> Vec<&'a String> {
    let Some(count) = u64::try_from(tests.len()).ok().filter(|count| *count > 0) else {
        return Vec::new();
    };
    // A commit's name is as good as random.
    let number = commit
        .get(..8)
        .and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let start = usize::try_from(number.unwrap_or(0) % count).expect("below a length");
    let (mut left, mut group, mut chosen) = (budget, "", Vec::new());
    for test in tests.iter().cycle().skip(start).take(tests.len()) {
        left -= seconds(test, results);
        if group != group_of(test) {
            group = group_of(test);
            left -= GROUP_SECONDS;
        }
        if left < 0.0 {
            break;
        }
        chosen.push(*test);
    }
    chosen
}

/// Which commits do not have a certain commit among their ancestors.
struct Ages<'a> {
    since: &'a str,
    known: BTreeMap<String, bool>,
}

impl<'a> Ages<'a> {
    fn new(since: &'a str) -> Result<Self> {
        let found = workspace::git()
            .args([
                "rev-parse",
                "--quiet",
                "--verify",
                &format!("{since}^{{commit}}"),
            ])
            .output()?;
        ensure!(found.status.success(), "there is no commit '{since}'");
        let known = BTreeMap::new();
        Ok(Self { since, known })
    }

    /// Whether a result of `commit` is older; one of a commit that is not here counts as older.
    fn is_older(&mut self, commit: &str) -> bool {
        let commit = commit.trim_end_matches('+');
        if let Some(known) = self.known.get(commit) {
            return *known;
        }
        let is_newer = !commit.is_empty()
            && workspace::git()
                .args(["merge-base", "--is-ancestor", self.since, commit])
                .output()
                .is_ok_and(|output| output.status.success());
        self.known.insert(commit.to_owned(), !is_newer);
        !is_newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] = ["a/x/1", "a/x/2", "a/y/3", "b/4", "b/5"];

    fn results() -> Results {
        let mut results = Results::default();
        for (test, outcome, seconds) in [
            ("a/x/1", Outcome::Pass, 4.0),
            ("a/x/2", Outcome::Fail, 1.0),
            ("a/y/3", Outcome::Pass, 30.0),
            ("b/4", Outcome::LeftOut, 0.0),
        ] {
            let record = Record {
                outcome,
                class: None,
                reason: String::new(),
                seconds,
                commit: String::new(),
            };
            results.record(test, record);
        }
        results
    }

    fn chosen(options: &Options, commit: &str) -> Vec<String> {
        let known = KNOWN.map(str::to_owned);
        let required = ["a/x/1", "a/y/3", "b/5"].map(str::to_owned).into();
        let head = Head {
            commit: commit.to_owned(),
            is_changed: false,
        };
        choose(options, &known, &results(), &required, &head).unwrap()
    }

    #[test]
    fn words_name_groups_and_tests() {
        let named = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let options = Options {
                words,
                ..Options::default()
            };
            chosen(&options, "0")
        };
        // The slowest group is first.
        assert_eq!(named(&["a"]), ["a/y/3", "a/x/1", "a/x/2"]);
        assert_eq!(named(&["a/x/2", "b"]), ["a/x/2", "b/5"]);
        assert_eq!(named(&["b/4"]), ["b/4"]);
        assert_eq!(named(&[]), ["a/y/3", "a/x/1", "a/x/2", "b/5"]);
    }

    #[test]
    fn tests_that_did_not_pass_are_chosen() {
        let options = Options {
            is_failed: true,
            ..Options::default()
        };
        assert_eq!(chosen(&options, "0"), ["a/x/2", "b/5"]);
    }

    #[test]
    fn a_commit_decides_which_part_is_run() {
        let options = Options {
            is_required: true,
            minutes: Some(1),
            ..Options::default()
        };
        // Of a/x/1 (4 s), a/y/3 (30 s) and b/5 all fit into a minute.
        assert_eq!(chosen(&options, "00000001").len(), 3);
        let known = ["a/x/1", "a/y/3", "b/5"].map(str::to_owned);
        let tests: Vec<&String> = known.iter().collect();
        let part = |commit: &str| part(&tests, &results(), 10.0, commit);
        assert_eq!(part("00000000"), ["a/x/1"]);
        assert_eq!(part("00000001"), [""; 0]);
        assert_eq!(part("00000002"), ["b/5", "a/x/1"]);
    }
}
