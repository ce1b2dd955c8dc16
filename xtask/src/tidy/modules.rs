//! Dead files: source that no `mod` reaches, so that nothing compiles or tests it.

use super::problem::{Problem, TextFile};
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Checks that every Rust file is a crate's root or the module of a file that is reached.
pub(super) fn check(files: &[TextFile], problems: &mut Vec<Problem>) {
    let sources: BTreeMap<&str, &TextFile> = files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file.path.as_str(), file))
        .collect();
    let mut pending: Vec<String> = sources
        .keys()
        .filter(|path| is_root(path))
        .map(|path| path.to_string())
        .collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    while let Some(path) = pending.pop() {
        if let Some(file) = sources.get(path.as_str())
            && reached.insert(path)
        {
            pending.extend(children(file));
        }
    }
    for (path, file) in &sources {
        if !reached.contains(*path) {
            problems.push(file.problem(0, dead_message(path)));
        }
    }
}

/// The message about a file that no `mod` reaches.
fn dead_message(path: &str) -> &'static str {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        [.., "tests", _] => "a crate's tests are one program: make this a module of tests/all",
        _ => "no `mod` leads here: nothing compiles this file",
    }
}

/// Whether the file is a crate root that Cargo finds, and may be one.
///
/// Cargo would make a program of each file in `tests`. Linking costs more than most tests do, so
/// that a crate has one, whose modules are the files in `tests/all`. Tests that disturb all other
/// tests have a directory, and so a program, of their own.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts[..],
        [.., "src", "lib.rs" | "main.rs"]
            | [.., "build.rs"]
            | [.., "src", "bin", _]
            | [.., "src", "bin", _, "main.rs"]
            | [.., "fuzz_targets", _]
            | [.., "tests", _, "main.rs"]
            | [.., "benches" | "examples", _]
    )
}

/// The files that may hold the modules that `file` declares.
fn children(file: &TextFile) -> Vec<String> {
    let source = Source::new(&file.text);
    let (directory, name) = match file.path.rsplit_once('/') {
        Some((directory, name)) => (directory, name),
        None => ("", file.path.as_str()),
    };
    let stem = name.trim_end_matches(".rs");
    let owns_directory = ["lib", "main", "mod"].contains(&stem) || is_root(&file.path);
    let below = match owns_directory {
        true => directory.to_string(),
        false => format!("{directory}/{stem}"),
    };
    let mut children = Vec::new();
    for at in source.words("mod") {
        let rest = &source.code[at + 3..];
        let Some(end) = rest.find([';', '{']) else {
            continue;
        };
        let module = rest[..end].trim();
        if rest[end..].starts_with(';') && !module.is_empty() {
            children.push(format!("{below}/{module}.rs"));
            children.push(format!("{below}/{module}/mod.rs"));
            children.extend(path_attribute(&file.text[..at]).map(|path| join(directory, path)));
        }
    }
    children
}

/// The path of a `#[path = "..."]` that ends `before`, apart from a visibility.
fn path_attribute(before: &str) -> Option<&str> {
    let (_, rest) = before.rsplit_once("#[path = \"")?;
    let (path, after) = rest.split_once("\"]")?;
    (!after.contains([';', '{', '}'])).then_some(path)
}

/// `path` from `directory`, with `..` resolved.
fn join(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TextFile> = files
            .iter()
            .map(|(path, text)| TextFile {
                path: path.to_string(),
                text: text.to_string(),
            })
            .collect();
        let mut problems = Vec::new();
        check(&files, &mut problems);
        problems.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn modules_are_followed() {
        let files = [
            ("io/src/lib.rs", "mod a; pub(crate) mod b; mod inline { }"),
            ("io/src/a.rs", "mod deep;"),
            ("io/src/a/deep.rs", ""),
            ("io/src/b/mod.rs", "#[path = \"odd_name.rs\"]\nmod c;"),
            ("io/src/b/odd_name.rs", ""),
            ("io/src/dead.rs", ""),
            ("io/tests/all/main.rs", "mod common; mod suite;"),
            ("io/tests/all/suite.rs", ""),
            ("io/tests/all/common/mod.rs", ""),
            ("io/tests/alone.rs", ""),
        ];
        assert_eq!(dead(&files), ["io/src/dead.rs", "io/tests/alone.rs"]);
    }
}
