//! Plain English: words that make a sentence be read twice, counted in comments and strings.
//!
//! "Somebody who is told goes on anew" names no actor: a reader has to find out whether a thread,
//! a machine or a person is meant. The rule is younger than the code, so each crate has a number
//! of such words in `english_left.txt`. A crate may have fewer, never more, and the number follows.

use super::layers::Package;
use super::problem::{Problem, TextFile};
use super::source::Source;
use std::collections::BTreeMap;

/// Single words.
const WORDS: [&str; 6] = ["whoever", "somebody", "nobody", "anybody", "who", "anew"];

/// Pairs of words.
const PAIRS: [(&str, &str); 10] = [
    ("is", "told"),
    ("are", "told"),
    ("be", "told"),
    ("was", "told"),
    ("were", "told"),
    ("go", "on"),
    ("goes", "on"),
    ("going", "on"),
    ("went", "on"),
    ("gone", "on"),
];

/// Crates and how many of these words they have, a line for each.
const LEFT: &str = include_str!("english_left.txt");

/// How many of these words the crates have, by their directories.
#[derive(Default)]
pub(super) struct Count {
    by_crate: BTreeMap<String, usize>,
}

impl Count {
    /// Counts the words in `file`, a file of Rust.
    pub fn add(&mut self, file: &TextFile, source: &Source, packages: &[Package]) {
        let directories = packages.iter().map(|package| package.directory.as_str());
        let home = directories
            .filter(|directory| file.path.starts_with(&format!("{directory}/")))
            .max_by_key(|directory| directory.len());
        let Some(home) = home else { return };
        // The list of words has them all.
        if file.path != "xtask/src/tidy/english.rs" {
            *self.by_crate.entry(home.to_owned()).or_default() += count(&file.text, source);
        }
    }

    /// Compares with the numbers that may be left.
    pub fn check(&self, problems: &mut Vec<Problem>) {
        self.compare(LEFT, problems);
    }

    fn compare(&self, left: &str, problems: &mut Vec<Problem>) {
        let mut left: BTreeMap<&str, usize> = left
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
            .collect();
        for (name, &found) in &self.by_crate {
            let allowed = left.remove(name.as_str()).unwrap_or(0);
            let message = match found.cmp(&allowed) {
                std::cmp::Ordering::Equal => continue,
                std::cmp::Ordering::Greater => format!(
                    "{found} words of {WORDS:?} or pairs like 'is told' and 'goes on' in comments \
                     and strings, {allowed} before: name the actor, and say it plainly"
                ),
                std::cmp::Ordering::Less => format!(
                    "only {found} unclear words are left: lower the number {allowed} in \
                     xtask/src/tidy/english_left.txt"
                ),
            };
            problems.push(problem(name, message));
        }
        for name in left.into_keys() {
            problems.push(problem(
                name,
                "is no crate: strike it off english_left.txt".into(),
            ));
        }
    }
}

fn problem(name: &str, message: String) -> Problem {
    Problem {
        path: name.to_owned(),
        line: 0,
        message,
    }
}

/// The words outside of code, that is in comments and strings.
fn count(text: &str, source: &Source) -> usize {
    let code = source.code.as_bytes();
    let mut before = "";
    let mut found = 0;
    for (at, word) in words(text) {
        let lower = word.to_ascii_lowercase();
        let is_unclear = WORDS.contains(&lower.as_str())
            || PAIRS
                .iter()
                .any(|pair| before.eq_ignore_ascii_case(pair.0) && lower == pair.1);
        // What is no code was replaced by spaces.
        if is_unclear && code[at] == b' ' {
            found += 1;
        }
        before = word;
    }
    found
}

/// The words of a text with their offsets. What an identifier is made of is one word.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c| !is_part(c))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unclear(text: &str) -> usize {
        count(text, &Source::new(text))
    }

    #[test]
    fn words_count_in_comments_and_strings_only() {
        assert_eq!(unclear("// Whoever is\n// told goes on anew.\n"), 4);
        assert_eq!(unclear("let who = \"nobody\"; let go = on;\n"), 1);
        assert_eq!(
            unclear("// who_is is not a word, and whole is another.\n"),
            0
        );
    }

    #[test]
    fn numbers_only_shrink() {
        let messages = |found: usize, left: &str| {
            let mut count = Count::default();
            count.by_crate.insert("pool".into(), found);
            let mut problems = Vec::new();
            count.compare(left, &mut problems);
            problems
                .iter()
                .map(|problem| problem.message.clone())
                .collect::<Vec<_>>()
        };
        assert!(messages(3, "pool 3\n").is_empty());
        assert!(messages(4, "pool 3\n")[0].starts_with("4 words"));
        assert!(messages(2, "pool 3\n")[0].starts_with("only 2"));
        assert!(messages(0, "odd 1\npool 0\n")[0].starts_with("is no crate"));
    }
}
