//! Run files: which tests a group has.
//!
//! They are lists of sections, `[tests/functional/GROUP]` or `[tests/functional/GROUP:Linux]`,
//! each with `tests = ['ONE', 'TWO']` over one or more lines. From those of the package another is
//! made with the groups that are wanted.

use super::known::LEFT_OUT;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const GROUPS_BELOW: &str = "tests/functional/";

/// A group and its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub name: String,
    pub tests: Vec<String>,
}

/// The groups in the text of a run file.
fn groups(text: &str) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut is_in_list = false;
    for line in text.lines() {
        if let Some(section) = line.strip_prefix('[')
            && let Some((section, _)) = section.split_once(']')
            && !is_in_list
        {
            let name = section.strip_prefix(GROUPS_BELOW).unwrap_or(section);
            let name = name.split(':').next().unwrap_or(name).to_owned();
            let tests = Vec::new();
            groups.push(Group { name, tests });
            continue;
        }
        is_in_list |= line.starts_with("tests =");
        if is_in_list && let Some(group) = groups.last_mut() {
            let quoted = line.split('\'').skip(1).step_by(2);
            group.tests.extend(quoted.map(str::to_owned));
            is_in_list = !line.trim_end().ends_with(']');
        }
    }
    groups
}

/// The groups of the package that are meant, without what is left out. Words are groups or single
/// tests; without any all of `known` are meant.
pub(super) fn choose(package: &Path, known: &[&str], words: &[String]) -> Result<Vec<Group>> {
    let mut chosen = Vec::new();
    for file in ["runfiles/common.run", "runfiles/linux.run"] {
        let text = fs::read_to_string(package.join(file)).with_context(|| file.to_owned())?;
        for mut group in groups(&text) {
            let is_meant = |word: &String| *word == group.name;
            let is_whole = match words.is_empty() {
                true => known.contains(&group.name.as_str()),
                false => words.iter().any(is_meant),
            };
            group.tests.retain(|test| match words.contains(test) {
                true => true,
                false => is_whole && !LEFT_OUT.iter().any(|(left_out, _)| left_out == test),
            });
            if !group.tests.is_empty() {
                chosen.push(group);
            }
        }
    }
    Ok(chosen)
}

/// A run file with these groups.
pub(super) fn text(groups: &[Group], timeout: u32) -> String {
    let mut text = format!(
        "[DEFAULT]\npre = setup\npre_user = root\nuser = root\npost = cleanup\npost_user = root\n\
         failsafe_user = root\nfailsafe = callbacks/zfs_failsafe\nquiet = False\n\
         timeout = {timeout}\ntags = ['functional']\n"
    );
    for group in groups {
        let tests = format!("{:?}", group.tests).replace('"', "'");
        let name = &group.name;
        writeln!(text, "\n[{GROUPS_BELOW}{name}]\ntests = {tests}").expect("text grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Group, groups, text};

    #[test]
    fn groups_are_read_and_written() {
        let file = "[DEFAULT]\ntags = ['functional']\n\n[tests/functional/a/b:Linux]\n\
                    tests = [ 'one', 'two',\n    'three']\ntags = ['functional', 'a']\n\n\
                    [tests/functional/c]\ntests = ['four']\n";
        let group = |name: &str, tests: &[&str]| Group {
            name: name.to_owned(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        };
        let found = groups(file);
        let wanted = [
            group("a/b", &["one", "two", "three"]),
            group("c", &["four"]),
        ];
        assert_eq!(found[1..], wanted);
        let again = groups(&text(&wanted, 10));
        assert_eq!(again[1..], wanted);
    }
}
