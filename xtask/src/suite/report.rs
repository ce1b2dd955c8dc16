//! What came of the units: a line for each at its end, the output of those that fail, and the
//! slowest.

use anyhow::Result;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// How many of the slowest are shown.
const SHOWN: usize = 10;

/// What came of a unit.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: Result<ExitStatus>,
    /// How long it took.
    pub took: Duration,
}

/// A unit that failed.
#[derive(Debug)]
pub struct Failure {
    /// The unit's name.
    pub name: String,
    /// Which of its tests failed; none if it is no test program, or ended before it could say.
    pub tests: Vec<String>,
}

/// What came of all of them.
#[derive(Debug, Default)]
pub struct Report {
    passed: u64,
    units: Vec<(f64, String)>,
    tests: Vec<(f64, String)>,
    failed: Vec<Failure>,
    unsteady: Vec<Failure>,
}

impl Report {
    /// Takes up a unit that has ended, and prints what came of it.
    pub fn add(&mut self, name: &str, log: &Path, outcome: Outcome) {
        let seconds = outcome.took.as_secs_f64();
        let bytes = std::fs::read(log).unwrap_or_default();
        let output = String::from_utf8_lossy(&bytes);
        self.passed += output.lines().filter_map(count_passed).sum::<u64>();
        self.tests.extend(output.lines().filter_map(|line| {
            let (test, seconds) = timed(line)?;
            Some((seconds, format!("{name}: {test}")))
        }));
        self.units.push((seconds, name.to_owned()));
        let is_well = matches!(&outcome.status, Ok(status) if status.success());
        if is_well {
            println!("ok      {seconds:7.1} s  {name}");
            for line in output.lines().filter(|line| count_passed(line).is_some()) {
                println!("{line}");
            }
            return;
        }
        println!("{output}");
        match outcome.status {
            Ok(status) => println!("FAILED  {seconds:7.1} s  {name}: {status}"),
            Err(error) => println!("FAILED  {seconds:7.1} s  {name}: {error:#}"),
        }
        let tests = output.lines().filter_map(failed_test);
        self.failed.push(Failure {
            name: name.to_owned(),
            tests: tests.map(str::to_owned).collect(),
        });
    }

    /// Gives up the failures of tests, which may be tried again.
    pub fn take_failed_tests(&mut self) -> Vec<Failure> {
        let failed = std::mem::take(&mut self.failed);
        let (tests, others) = failed.into_iter().partition(|one| !one.tests.is_empty());
        self.failed = others;
        tests
    }

    /// Takes failures back: they stand.
    pub fn keep(&mut self, failed: Vec<Failure>) {
        self.failed.extend(failed);
    }

    /// Takes up the second attempt of tests that failed.
    pub fn add_again(&mut self, failure: Failure, log: &Path, outcome: Outcome) {
        let output = std::fs::read(log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let passed: u64 = output.lines().filter_map(count_passed).sum();
        let all = u64::try_from(failure.tests.len()).unwrap_or(u64::MAX);
        let is_well = matches!(&outcome.status, Ok(status) if status.success());
        // A program that finds none of its tests succeeds, too.
        match is_well && passed == all {
            true => {
                self.passed += passed;
                self.unsteady.push(failure);
            }
            false => {
                println!("\n{} once more:\n{output}", failure.name);
                self.failed.push(failure);
            }
        }
    }

    /// Prints the end; whether all is well.
    pub fn end(mut self) -> bool {
        for (title, slowest) in [("programs", &mut self.units), ("tests", &mut self.tests)] {
            slowest.sort_by(|one, other| other.0.total_cmp(&one.0));
            println!("\nthe slowest {title}:");
            for (seconds, name) in slowest.iter().take(SHOWN) {
                println!("  {seconds:7.1} s  {name}");
            }
        }
        println!("\n{} tests passed", self.passed);
        print_failures(
            "unsteady (failed beside others, passed alone)",
            &self.unsteady,
        );
        print_failures("failed", &self.failed);
        self.failed.is_empty()
    }
}

fn print_failures(title: &str, failures: &[Failure]) {
    for Failure { name, tests } in failures {
        match tests.as_slice() {
            [] => println!("{title}: {name}"),
            tests => tests
                .iter()
                .for_each(|test| println!("{title}: {name}: {test}")),
        }
    }
}

/// A test and its seconds, from a line like `test name ... ok <1.234s>`.
fn timed(line: &str) -> Option<(&str, f64)> {
    let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, time) = rest.rsplit_once('<')?;
    Some((test, time.strip_suffix("s>")?.parse().ok()?))
}

/// How many tests passed, from a line like `test result: ok. 3 passed; 0 failed; …`.
fn count_passed(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("test result: ")?;
    let before = counts.split_once(" passed;")?.0;
    before.rsplit(' ').next()?.parse().ok()
}

/// A test that failed.
fn failed_test(line: &str) -> Option<&str> {
    let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    rest.starts_with("FAILED").then_some(test)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn outcome(code: i32) -> Outcome {
        Outcome {
            status: Ok(ExitStatus::from_raw(code << 8)),
            took: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_test_that_fails_twice_fails_and_one_that_fails_once_is_named() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let log = |text: &str| {
            let path = directory.path().join("log");
            std::fs::write(&path, text).map(|()| path)
        };
        let first = "test a ... FAILED <1.0s>\ntest result: FAILED. 0 passed; 1 failed;\n";
        let failing = || -> Result<(Report, Vec<Failure>)> {
            let mut report = Report::default();
            report.add("pool all", &log(first)?, outcome(101));
            let failed = report.take_failed_tests();
            assert_eq!(failed[0].tests, ["a"]);
            Ok((report, failed))
        };
        // Another of its tests, or none at all, is no second attempt.
        for (text, code, is_well) in [
            (
                "test a ... ok\ntest result: ok. 1 passed; 0 failed;\n",
                0,
                true,
            ),
            ("test result: ok. 0 passed; 0 failed;\n", 0, false),
            (first, 101, false),
        ] {
            let (mut report, mut failed) = failing()?;
            report.add_again(failed.remove(0), &log(text)?, outcome(code));
            assert_eq!(report.end(), is_well, "{text}");
        }
        // What names no test is not tried again.
        let mut report = Report::default();
        report.add("lints", &log("warning: odd\n")?, outcome(1));
        assert!(report.take_failed_tests().is_empty());
        assert!(!report.end());
        Ok(())
    }

    #[test]
    fn lines_of_test_programs_are_understood() {
        let line = "test a::b ... ok <12.345s>";
        assert_eq!(timed(line), Some(("a::b", 12.345)));
        assert_eq!(timed("test a::b ... ok"), None);
        assert_eq!(failed_test("test a::b ... FAILED <0.001s>"), Some("a::b"));
        assert_eq!(failed_test(line), None);
        let line = "test result: FAILED. 7 passed; 1 failed; 0 ignored";
        assert_eq!(count_passed(line), Some(7));
        assert_eq!(count_passed("test result: odd"), None);
    }
}
