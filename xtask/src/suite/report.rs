//! The results of the units: a line for each at its end, the output of those that fail, and the
//! slowest.

use anyhow::Result;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// How many of the slowest are shown.
const SHOWN: usize = 10;

/// The result of a unit.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: Result<ExitStatus>,
    /// How long it took.
    pub took: Duration,
}

/// The results of all units.
#[derive(Debug, Default)]
pub struct Report {
    passed: u64,
    units: Vec<(f64, String)>,
    tests: Vec<(f64, String)>,
    failed: Vec<String>,
}

impl Report {
    /// Adds a unit that has ended, and prints its result.
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
        let failed = output.lines().filter_map(failed_test);
        let failed: Vec<String> = failed.map(|test| format!("{name}: {test}")).collect();
        match failed.is_empty() {
            true => self.failed.push(name.to_owned()),
            false => self.failed.extend(failed),
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
        for failed in &self.failed {
            println!("failed: {failed}");
        }
        self.failed.is_empty()
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
