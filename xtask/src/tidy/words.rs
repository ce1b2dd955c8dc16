//! Words that do not belong: calls that panic on input, unfinished work, private paths.

use super::problem::{Problem, TextFile};
use super::source::Source;

/// Columns of a line of source, in characters.
const LINE_WIDTH_MAX: usize = 100;

/// Where `unsafe` is allowed: each of them has a portable twin that tests compare, apart from the
/// two system calls of the FUSE transport that have no safe wrapper.
const UNSAFE_PLACES: [&str; 4] = [
    "codec/src/",
    "device/src/",
    "frontends/fuse/src/transport/calls.rs",
    "frontends/fuse/src/transport/ring",
];

/// Calls that stand for unfinished work.
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

/// Checks that hold for every text file.
pub(super) fn check_text(file: &TextFile, problems: &mut Vec<Problem>) {
    let is_source = [".rs", ".sh"].iter().any(|end| file.path.ends_with(end));
    for (index, line) in file.text.lines().enumerate() {
        let number = index + 1;
        if is_source && line.chars().count() > LINE_WIDTH_MAX {
            let message = format!("the line is wider than {LINE_WIDTH_MAX} columns");
            problems.push(file.problem(number, message));
        }
        if line.ends_with([' ', '\t']) {
            problems.push(file.problem(number, "the line ends in white space"));
        }
        if let Some(path) = private_path(line) {
            let message =
                format!("'{path}' is a path of one machine; say it relative to something");
            problems.push(file.problem(number, message));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        problems.push(file.problem(0, "the last line has no end"));
    }
}

/// A path into a home or work directory.
fn private_path(line: &str) -> Option<&str> {
    let starts = line.match_indices('/').filter(|(at, _)| {
        let before = line[..*at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "\"'`(=:".contains(c))
    });
    for (at, _) in starts {
        let length = line[at..].find(|c: char| c.is_whitespace() || "\"'`),;".contains(c));
        let path = &line[at..at + length.unwrap_or(line.len() - at)];
        let mut parts = path.split('/').skip(1);
        let first = parts.next().unwrap_or("");
        let deeper = parts.next().is_some_and(|part| !part.is_empty());
        let private = ["home", "root", "Users", "work", "farm"].contains(&first);
        if private && deeper && !path.contains(['$', '<', '{']) {
            return Some(path);
        }
    }
    None
}

/// Checks of Rust source.
pub(super) fn check_rust(file: &TextFile, source: &Source, problems: &mut Vec<Problem>) {
    check_unwrap(file, source, problems);
    check_unsafe(file, source, problems);
    for call in UNFINISHED {
        for (at, _) in source.code.match_indices(call) {
            problems.push(file.problem(source.line_of(at), format!("{call} is unfinished work")));
        }
    }
    for mark in ["FIX", "XX", "HA"].iter().zip(["ME", "X", "CK"]) {
        let mark = format!("{}{}", mark.0, mark.1);
        for (at, _) in file.text.match_indices(&mark) {
            let message = format!("{mark}: mend it, or say in a sentence what is missing and why");
            problems.push(file.problem(source.line_of(at), message));
        }
    }
    let says_what_it_is = file.text.trim_start().starts_with("//!");
    let needs_to = !file.path.ends_with("/tests.rs") && !file.text.trim().is_empty();
    if needs_to && !says_what_it_is {
        problems.push(file.problem(1, "a module opens with its theory: a `//!` comment"));
    }
}

/// No `unwrap` outside tests: input gets an error, our own invariants an `expect` with the reason.
fn check_unwrap(file: &TextFile, source: &Source, problems: &mut Vec<Problem>) {
    let parts: Vec<&str> = file.path.split('/').collect();
    let is_test_file = ["tests", "benches", "tests.rs"]
        .iter()
        .any(|part| parts.contains(part));
    for (at, _) in source.code.match_indices(".unwrap()") {
        let line = source.line_of(at);
        if !is_test_file && !source.is_test(at) && !source.is_allowed("unwrap", line) {
            let message = ".unwrap(): return an error, or `expect` with why it holds";
            problems.push(file.problem(line, message));
        }
    }
}

/// `unsafe` only where it is allowed, and with its justification.
fn check_unsafe(file: &TextFile, source: &Source, problems: &mut Vec<Problem>) {
    let allowed = UNSAFE_PLACES
        .iter()
        .any(|place| file.path.starts_with(place));
    let lines: Vec<&str> = file.text.lines().collect();
    for at in source.words("unsafe") {
        let line = source.line_of(at);
        if !allowed {
            let message = "unsafe: only codec, device and the FUSE ring may";
            problems.push(file.problem(line, message));
            continue;
        }
        let is_block = source.code[at + "unsafe".len()..]
            .trim_start()
            .starts_with('{');
        if is_block && !is_justified(&lines, line) {
            problems
                .push(file.problem(line, "an unsafe block says why it is sound: // SAFETY: ..."));
        }
    }
}

/// Whether the comment just above `line`, or above the statement it continues, has a `SAFETY:`.
fn is_justified(lines: &[&str], line: usize) -> bool {
    let reach = line.saturating_sub(8)..line;
    lines[reach].iter().any(|text| text.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let file = TextFile {
            path: path.into(),
            text: format!("//! Theory.\n{text}\n"),
        };
        let mut problems = Vec::new();
        check_text(&file, &mut problems);
        check_rust(&file, &Source::new(&file.text), &mut problems);
        problems
            .into_iter()
            .map(|problem| problem.message)
            .collect()
    }

    #[test]
    fn unwrap_is_for_tests() {
        assert_eq!(messages("io/src/a.rs", "fn a() { b().unwrap(); }").len(), 1);
        assert!(messages("io/tests/a.rs", "fn a() { b().unwrap(); }").is_empty());
        let inside = "#[cfg(test)]\nmod tests {\n    fn a() { b().unwrap(); }\n}";
        assert!(messages("io/src/a.rs", inside).is_empty());
        assert!(messages("io/src/a.rs", "/// `.unwrap()` is bad\nfn a() {}").is_empty());
    }

    #[test]
    fn unsafe_has_its_places_and_reasons() {
        let bare = "fn a() { unsafe { b() } }";
        assert_eq!(messages("io/src/a.rs", bare).len(), 1);
        assert_eq!(messages("codec/src/a.rs", bare).len(), 1);
        let justified = "fn a() {\n    // SAFETY: b has no preconditions.\n    unsafe { b() }\n}";
        assert!(messages("codec/src/a.rs", justified).is_empty());
        assert!(messages("io/src/a.rs", "#![forbid(unsafe_code)]").is_empty());
    }

    #[test]
    fn unfinished_work_and_private_paths_are_found() {
        let unfinished = ["to", "do!()"].concat();
        assert_eq!(
            messages("a.rs", &format!("fn a() {{ {unfinished} }}")).len(),
            1
        );
        let path = ["// see /ho", "me/me/notes"].concat();
        assert_eq!(messages("a.rs", &path).len(), 1);
        assert!(messages("a.rs", "// under /home and http://host/root/x").is_empty());
    }
}
