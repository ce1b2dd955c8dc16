//! `zts`: OpenZFS's own test suite, with `cenote` as `zpool` and `zfs`.
//!
//! `tests/peer/zts/run` runs tests; this decides which, and keeps what came of them: each test has
//! a line in `results.tsv` with its last result, the commit it was seen at and, if it did not pass,
//! a class and a reason ([`results`]). The table in `docs/compatibility.md` is made from these
//! lines ([`table`]).
//!
//! Tests in `required.txt` must pass. A change runs as many of them as fit into some minutes, from
//! a place that its commit decides, so that all of them are run every few changes ([`choice`]).
//! Only a required test that fails makes the command fail, and only if it fails again when it runs
//! alone: tests have time limits, and machines are busy.

mod choice;
mod head;
mod options;
mod results;
mod table;

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use head::Head;
use options::Options;
use results::{Outcome, Record, Results, group_of};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// If more required tests fail than this, it is not because the machine was busy.
const UNSTEADY_MAX: usize = 5;

/// How many lines of a log are printed where a required test fails.
const LOG_LINES: usize = 25;

/// A line of the runner: a test that has ended.
struct Ended {
    test: String,
    outcome: Outcome,
    seconds: f32,
    log: PathBuf,
    reason: String,
}

/// Runs tests and records their results; whether all required ones passed.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let path = options.output.clone().unwrap_or_else(results_path);
    let results = match path.exists() {
        true => Results::read(&path)?,
        false => Results::read(&results_path())?,
    };
    if options.is_table {
        return write_table(&results).map(|()| true);
    }
    let known = listed()?;
    if options.is_groups {
        print_groups(&known, &results);
        return Ok(true);
    }
    let required = required()?;
    let head = Head::read()?;
    let chosen = choice::choose(&options, &known, &results, &required, &head)?;
    if chosen.is_empty() {
        println!("zts: no test is to be run");
        return Ok(true);
    }
    let program = program()?;
    let runner = |lanes: usize| {
        let mut runner = Command::new(directory().join("run"));
        runner.env("CENOTE", &program);
        runner.args(["-j", &lanes.to_string()]);
        runner.args(["-t", &options.seconds.to_string()]);
        runner
    };
    let mut session = Session {
        results,
        path,
        required,
        head: head.stamp(),
        failed: Vec::new(),
        ended: BTreeMap::new(),
    };
    session.drive(runner(options.lanes).args(&chosen))?;
    let failed: Vec<Ended> = std::mem::take(&mut session.failed);
    if !failed.is_empty() && failed.len() <= UNSTEADY_MAX {
        println!("zts: required tests that failed, again:");
        session.drive(runner(1).args(failed.iter().map(|ended| &ended.test)))?;
    } else {
        session.failed = failed;
    }
    session.report(chosen.len())
}

/// The runner and its files.
fn directory() -> PathBuf {
    workspace::root().join("tests/peer/zts")
}

fn results_path() -> PathBuf {
    directory().join("results.tsv")
}

/// The tests that must pass: a line for each, `#` begins a comment.
fn required() -> Result<BTreeSet<String>> {
    let path = directory().join("required.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text.lines().map(str::trim);
    let tests = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(tests.map(str::to_owned).collect())
}

/// All tests of the suite's run files, in their order. The runner installs what it needs.
fn listed() -> Result<Vec<String>> {
    let output = Command::new(directory().join("run"))
        .arg("--list")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run tests/peer/zts/run")?;
    ensure!(output.status.success(), "the suite cannot be prepared");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn print_groups(known: &[String], results: &Results) {
    let mut groups: Vec<(&str, usize, usize)> = Vec::new();
    for test in known {
        let group = group_of(test);
        if groups.last().is_none_or(|last| last.0 != group) {
            groups.push((group, 0, 0));
        }
        let last = groups.last_mut().expect("one was added");
        last.1 += 1;
        let is_passed = |record: &Record| record.outcome == Outcome::Pass;
        last.2 += usize::from(results.get(test).is_some_and(is_passed));
    }
    for (group, tests, passed) in groups {
        println!("{passed:>4} of {tests:>3} pass  {group}");
    }
}

/// The program under test: `CENOTE_BIN`, or a release build of this tree.
fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("CENOTE_BIN") {
        return Ok(program.into());
    }
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--locked", "--package", "cenote"]);
    build.args(["--message-format", "json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "cenote does not build");
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().map(serde_json::from_str::<serde_json::Value>);
    let mut programs = messages.filter_map(|message| {
        let message = message.ok()?;
        let path = message["executable"].as_str()?.to_owned();
        (message["target"]["name"] == "cenote").then_some(path)
    });
    let program = programs.next_back();
    Ok(program.context("Cargo names no program cenote")?.into())
}

/// A run of the runner, and what came of it.
struct Session {
    results: Results,
    /// Where results are kept; written after each test, so that a run can be stopped.
    path: PathBuf,
    required: BTreeSet<String>,
    head: String,
    /// Required tests that did not pass.
    failed: Vec<Ended>,
    /// How each test ended, the last time it was run.
    ended: BTreeMap<String, Outcome>,
}

impl Session {
    fn drive(&mut self, runner: &mut Command) -> Result<()> {
        let mut child = runner.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().expect("it is a pipe");
        for line in BufReader::new(output).lines() {
            let ended = Ended::read(&line?)?;
            self.take(ended)?;
        }
        ensure!(child.wait()?.success(), "the runner failed");
        Ok(())
    }

    fn take(&mut self, ended: Ended) -> Result<()> {
        println!(
            "{:<7} {} [{:.1} s] {}",
            ended.outcome.word(),
            ended.test,
            ended.seconds,
            ended.reason
        );
        self.ended.insert(ended.test.clone(), ended.outcome);
        let record = Record {
            outcome: ended.outcome,
            class: None,
            reason: ended.reason.clone(),
            seconds: ended.seconds,
            commit: self.head.clone(),
        };
        self.results.record(&ended.test, record);
        self.results.write(&self.path)?;
        if self.required.contains(&ended.test) && ended.outcome != Outcome::Pass {
            self.failed.push(ended);
        }
        Ok(())
    }

    fn report(&self, chosen: usize) -> Result<bool> {
        for ended in &self.failed {
            println!("\n== {} must pass; the end of its log:", ended.test);
            println!("{}", end_of(&ended.log));
        }
        let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
        for outcome in self.ended.values() {
            *counts.entry(*outcome).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(outcome, count)| format!("{count} {}", outcome.word()))
            .collect();
        println!("\nzts: {}", counts.join(", "));
        let ended = self.ended.len();
        ensure!(ended == chosen, "{ended} of {chosen} tests were run");
        let unclear: Vec<&str> = self.results.unclassified().collect();
        if !unclear.is_empty() {
            let tests = unclear.join(" ");
            println!("zts: no class and reason in results.tsv: {tests}");
        }
        Ok(self.failed.is_empty())
    }
}

impl Ended {
    /// Reads TEST, RESULT, SECONDS, LOG and REASON between tabs.
    fn read(line: &str) -> Result<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[test, outcome, seconds, log, reason] = columns.as_slice() else {
            bail!("the runner printed '{line}'");
        };
        Ok(Self {
            test: test.to_owned(),
            outcome: outcome.parse()?,
            seconds: seconds.parse()?,
            log: log.into(),
            reason: reason.to_owned(),
        })
    }
}

/// The last lines of a test's log.
fn end_of(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Puts the table into the document.
fn write_table(results: &Results) -> Result<()> {
    let path = workspace::root().join(table::DOCUMENT);
    let text = std::fs::read_to_string(&path)?;
    std::fs::write(&path, table::replace(&text, &table::of(results))?)?;
    println!("{}: the table is written", table::DOCUMENT);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_results_agree() {
        let results = Results::read(&results_path()).unwrap();
        let path = workspace::root().join(table::DOCUMENT);
        let text = std::fs::read_to_string(path).unwrap();
        let again = table::replace(&text, &table::of(&results)).unwrap();
        assert!(text == again, "write the table: cargo xtask zts --table");
    }

    #[test]
    fn each_test_that_does_not_pass_has_a_class_and_a_reason() {
        let results = Results::read(&results_path()).unwrap();
        let without: Vec<&str> = results.unclassified().collect();
        assert_eq!(without, [""; 0]);
    }

    #[test]
    fn required_tests_passed_last_time() {
        let results = Results::read(&results_path()).unwrap();
        let required = required().unwrap();
        assert!(!required.is_empty());
        for test in required {
            let record = results.get(&test);
            let outcome = record.map(|record| record.outcome);
            assert_eq!(outcome, Some(Outcome::Pass), "{test}");
        }
    }

    #[test]
    fn lines_of_the_runner_are_read() {
        let ended = Ended::read("a/b/c\tFAIL\t1.5\t/log\tERROR: x").unwrap();
        assert_eq!(
            (ended.test.as_str(), ended.outcome),
            ("a/b/c", Outcome::Fail)
        );
        assert_eq!((group_of(&ended.test), ended.seconds), ("a/b", 1.5));
        assert!(Ended::read("a/b/c\tFAIL").is_err());
        assert!(Ended::read("a/b/c\tGOOD\t1\t/log\t").is_err());
    }
}
