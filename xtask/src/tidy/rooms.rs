//! Rooms: a package must be small enough to be read in a day, and compiled while its developer
//! waits.
//!
//! The rule is younger than the code. Packages that were larger at that time have limits of their
//! own, which may only fall.

use super::layers::Package;
use super::problem::{Problem, TextFile};
use std::collections::BTreeMap;

/// Lines of Rust in a package, tests included.
const LINES_MAX: usize = 15_000;

/// Packages that are larger, and how many lines they may have.
const LARGER: [(&str, usize); 9] = [
    ("cloud", 19_800),
    ("dmu", 15_400),
    ("dsl", 17_600),
    ("engine", 22_300),
    ("ondisk", 19_700),
    ("pool", 35_100),
    ("posix", 19_400),
    ("tests", 38_900),
    ("vdev", 15_500),
];

/// If a package has this many lines less than its limit, the limit must be lowered.
const SLACK_MAX: usize = 1_000;

/// Checks the size of each package.
pub(super) fn check(packages: &[Package], files: &[TextFile], problems: &mut Vec<Problem>) {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let directories = packages.iter().map(|package| package.directory.as_str());
        let own = directories.filter(|directory| is_below(&file.path, directory));
        // A package may stand within the directory of another one.
        if let Some(own) = own.max_by_key(|directory| directory.len()) {
            *lines.entry(own).or_default() += file.text.lines().count();
        }
    }
    for (directory, lines) in lines {
        let larger = LARGER.iter().find(|(larger, _)| *larger == directory);
        problems.extend(judge(directory, lines, larger.map(|(_, limit)| *limit)));
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// What is wrong with a package of so many lines, which may have a limit of its own.
fn judge(directory: &str, lines: usize, own: Option<usize>) -> Option<Problem> {
    let limit = own.unwrap_or(LINES_MAX);
    let message = if lines > limit {
        format!("{lines} lines of Rust, more than {limit}: it wants a second package")
    } else if own.is_some() && lines <= LINES_MAX {
        format!("{lines} lines: strike it off the list in xtask/src/tidy/rooms.rs")
    } else if own.is_some() && lines + SLACK_MAX < limit {
        format!("{lines} lines: lower its limit in xtask/src/tidy/rooms.rs to that")
    } else {
        return None;
    };
    Some(Problem {
        path: format!("{directory}/Cargo.toml"),
        line: 0,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(lines: usize, own: Option<usize>) -> String {
        let found = judge("pool", lines, own);
        found.map_or(String::new(), |problem| problem.message)
    }

    #[test]
    fn a_package_is_as_large_as_a_room_and_limits_only_fall() {
        assert_eq!(message(15_000, None), "");
        assert!(message(15_001, None).contains("wants a second package"));
        assert_eq!(message(20_000, Some(20_000)), "");
        assert_eq!(message(19_000, Some(20_000)), "");
        assert!(message(20_001, Some(20_000)).contains("more than 20000"));
        assert!(message(18_999, Some(20_000)).contains("lower its limit"));
        assert!(message(15_000, Some(15_900)).contains("strike it off"));
    }

    #[test]
    fn lines_are_those_of_the_innermost_package() {
        let package = |directory: &str| Package {
            directory: directory.into(),
            name: directory.into(),
            dependencies: Vec::new(),
        };
        let file = |path: &str, lines: usize| TextFile {
            path: path.into(),
            text: "\n".repeat(lines),
        };
        let packages = [package("a"), package("a/b"), package("ab")];
        let files = [
            file("a/x.rs", 10_000),
            file("a/b/y.rs", 10_000),
            file("ab/z.rs", 10_000),
            file("a/c.md", 10_000),
            file("a/b/src/w.rs", 5_001),
        ];
        let mut problems = Vec::new();
        check(&packages, &files, &mut problems);
        let paths: Vec<&str> = problems.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["a/b/Cargo.toml"]);
    }
}
