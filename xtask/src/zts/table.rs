//! The table of results in the documents.

use super::results::{CLASSES, Outcome, Record, Results, group_of};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The document that has the table, from the root of the workspace.
pub(super) const DOCUMENT: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- zts: written by cargo xtask zts --table -->\n";
const END: &str = "<!-- end of zts -->\n";

/// How many tests of a group ended how.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: usize,
    /// In the order of [`CLASSES`].
    failed: [usize; CLASSES.len()],
    not_run: usize,
}

impl Count {
    fn add(&mut self, record: &Record) {
        match record.outcome {
            Outcome::Pass => self.passed += 1,
            Outcome::NotRun => self.not_run += 1,
            _ => {
                let place = |class| CLASSES.iter().position(|(known, _)| *known == class);
                if let Some(place) = record.class.and_then(place) {
                    self.failed[place] += 1;
                }
            }
        }
    }

    fn total(&self) -> usize {
        self.passed + self.failed.iter().sum::<usize>() + self.not_run
    }
}

/// The table of `results`, a line for each group that does not pass as a whole.
pub(super) fn of(results: &Results) -> String {
    let mut groups: BTreeMap<&str, Count> = BTreeMap::new();
    let mut all = Count::default();
    for (test, record) in results.iter() {
        groups.entry(group_of(test)).or_default().add(record);
        all.add(record);
    }
    let words = CLASSES.map(|(_, word)| word).join(" | ");
    let mut text = format!("| group | tests | pass | {words} | not run |\n");
    text.push_str("| --- |");
    text.push_str(&" ---: |".repeat(3 + CLASSES.len()));
    text.push('\n');
    write_line(&mut text, "**all**", &all);
    let mut whole = Vec::new();
    for (group, count) in &groups {
        match count.passed == count.total() {
            true => whole.push(format!("{group} ({})", count.total())),
            false => write_line(&mut text, group, count),
        }
    }
    writeln!(text, "\nAll tests pass in {}.", whole.join(", ")).expect("text grows");
    text
}

fn write_line(text: &mut String, name: &str, count: &Count) {
    let numbers = [count.total(), count.passed].into_iter();
    let numbers = numbers.chain(count.failed).chain([count.not_run]);
    let cells: Vec<String> = numbers
        .map(|number| match number {
            0 => String::new(),
            number => number.to_string(),
        })
        .collect();
    writeln!(text, "| {name} | {} |", cells.join(" | ")).expect("text grows");
}

/// The document `text` with `table` between its markers.
pub(super) fn replace(text: &str, table: &str) -> Result<String> {
    let missing = || format!("{DOCUMENT} has no place for the table of zts");
    let (before, rest) = text.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::results::Class;
    use super::*;

    #[test]
    fn the_table_counts_tests_by_group() {
        let mut results = Results::default();
        for (test, outcome, class) in [
            ("a/one", Outcome::Pass, None),
            ("a/two", Outcome::Fail, Some(Class::Absent)),
            ("b/three", Outcome::Pass, None),
            ("c/four", Outcome::NotRun, None),
        ] {
            let record = Record {
                outcome,
                class,
                reason: String::new(),
                seconds: 0.0,
                commit: String::new(),
            };
            results.record(test, record);
        }
        let lines = "| group | tests | pass | wrong | absent | environment | test | not run |\n\
                     | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
                     | **all** | 4 | 2 |  | 1 |  |  | 1 |\n\
                     | a | 2 | 1 |  | 1 |  |  |  |\n\
                     | c | 1 |  |  |  |  |  | 1 |\n\n\
                     All tests pass in b (1).\n";
        assert_eq!(of(&results), lines);
    }

    #[test]
    fn the_table_stands_between_its_markers() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let wanted = format!("before\n{BEGIN}\nnew\n\n{END}after\n");
        assert_eq!(replace(&text, "new\n").unwrap(), wanted);
        assert_eq!(replace(&wanted, "new\n").unwrap(), wanted);
        assert!(replace("no markers", "new").is_err());
    }
}
