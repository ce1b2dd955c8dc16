//! Dependencies: each has an entry in `docs/dependencies.md`, and each entry a dependency.

use super::layers::Package;
use super::problem::{Problem, TextFile};
use std::collections::BTreeMap;

const DOCUMENT: &str = "docs/dependencies.md";

/// Checks the document against the packages' dependencies from outside.
pub(super) fn check(packages: &[Package], files: &[TextFile], problems: &mut Vec<Problem>) {
    let mut users: BTreeMap<&str, &str> = BTreeMap::new();
    for package in packages {
        for dependency in package.dependencies.iter().filter(|d| d.is_external) {
            users.insert(&dependency.name, &package.directory);
        }
    }
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        problems.push(Problem {
            path: DOCUMENT.into(),
            line: 0,
            message: "is missing".into(),
        });
        return;
    };
    let entries = entries(&document.text);
    for (name, directory) in &users {
        if !entries.contains_key(name) {
            let message = format!("{name}, which {directory} uses, has no entry");
            problems.push(document.problem(0, message));
        }
    }
    for (name, line) in entries {
        if !users.contains_key(name) {
            let message = format!("nothing uses {name} any more");
            problems.push(document.problem(line, message));
        }
    }
}

/// The first cell of each table row that names a crate in backquotes, and its line.
fn entries(text: &str) -> BTreeMap<&str, usize> {
    let rows = text.lines().enumerate().filter_map(|(index, line)| {
        let name = line.strip_prefix("| `")?.split_once('`')?.0;
        Some((name, index + 1))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::super::layers::Dependency;
    use super::*;

    #[test]
    fn both_sides_are_compared() {
        let packages = [Package {
            directory: "io".into(),
            name: "cenote-io".into(),
            dependencies: ["thiserror", "libc"]
                .map(|name| Dependency {
                    name: name.into(),
                    is_external: true,
                    is_development: false,
                })
                .into(),
        }];
        let files = [TextFile {
            path: DOCUMENT.into(),
            text: "| `thiserror` | errors |\n| `gone` | nothing |\n".into(),
        }];
        let mut problems = Vec::new();
        check(&packages, &files, &mut problems);
        let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        let expected = [
            "libc, which io uses, has no entry",
            "nothing uses gone any more",
        ];
        assert_eq!(messages, expected);
    }
}
