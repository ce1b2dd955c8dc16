//! One door to threads, locks, clocks and messages: `base::rt`.
//!
//! A thread that the simulated scheduler does not know, or a lock that the order of locks does not
//! have, makes a run that no seed repeats. So the product's crates take all of it from `base::rt`,
//! and each lock that they declare has a rank of its table. Tests may do as they like.

use super::problem::{Problem, TextFile};
use super::source::Source;

/// Packages that stand outside: the programs, and what developers run.
const OUTSIDE: [&str; 11] = [
    "base/src/rt/",
    "bench/",
    "commands/",
    "frontends/fuse/src/bin/",
    "frontends/http/src/bin/",
    "frontends/nbd/src/bin/",
    "frontends/ublk/src/bin/",
    "fuzz/",
    "sim/src/bin/",
    "tools/",
    "xtask/",
];

/// Items of the standard library that crates must take from `base::rt`, by their path.
const NAMES: [&str; 8] = [
    "std::thread",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::mpsc",
    "std::time::Instant",
    "SystemTime::now",
    "eprintln!",
];

/// Where something is kept for each thread. It must be no more than a cache or a place to count,
/// so that a call does the same on any thread.
const THREADS_OWN: [&str; 4] = [
    // Which part of a counter a thread adds to.
    "base/src/metrics/counter.rs",
    // Memory and tables of compressors, used again.
    "codec/src/compress/",
    // Secrets beside the text that serde reads or writes: it hands types nothing else.
    "control/src/model/secret.rs",
    // Whether a reading is within another: both are repeated as one.
    "dsl/src/moment.rs",
];

pub(super) fn check(file: &TextFile, source: &Source, problems: &mut Vec<Problem>) {
    let is_outside = OUTSIDE.iter().any(|place| file.path.starts_with(place));
    let is_test_file =
        file.path.split('/').any(|part| part == "tests") || file.path.ends_with("tests.rs");
    if is_outside || is_test_file || file.path.starts_with("tests/") {
        return;
    }
    let mut find = |name: &str, message: String| {
        for (at, _) in source.code.match_indices(name) {
            let line = source.line_of(at);
            if !source.is_test(at) && !source.is_allowed("door", line) {
                problems.push(file.problem(line, message.clone()));
            }
        }
    };
    for name in NAMES {
        find(
            name,
            format!("{name}: threads, locks, clocks and messages come from base::rt"),
        );
    }
    if !THREADS_OWN.iter().any(|place| file.path.starts_with(place)) {
        find(
            "thread_local!",
            "thread_local!: what a call is for is an argument, or in the handle that reads"
                .to_owned(),
        );
    }
    find(
        "Unranked",
        "a lock has a rank of the table in base/src/rt/ranks.rs".to_owned(),
    );
    for (at, group) in groups(&source.code) {
        let line = source.line_of(at);
        for item in group.split(',').map(str::trim) {
            let name = item.split("::").next().unwrap_or(item);
            let is_there = NAMES
                .iter()
                .any(|known| known.ends_with(&format!("::{name}")));
            if is_there
                && !name.is_empty()
                && !source.is_test(at)
                && !source.is_allowed("door", line)
            {
                let message = format!("{name} comes from base::rt");
                problems.push(file.problem(line, message));
            }
        }
    }
}

/// The lists in `use std::sync::{…}` and `use std::time::{…}`.
fn groups(code: &str) -> impl Iterator<Item = (usize, &str)> {
    ["use std::sync::{", "use std::time::{"]
        .into_iter()
        .flat_map(move |start| {
            code.match_indices(start).filter_map(move |(at, _)| {
                let list = &code[at + start.len()..];
                Some((at, &list[..list.find('}')?]))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        let file = TextFile {
            path: path.into(),
            text: text.to_owned(),
        };
        let mut problems = Vec::new();
        check(&file, &Source::new(text), &mut problems);
        problems.len()
    }

    #[test]
    fn the_standard_librarys_are_found_however_they_come_in() {
        let paths = "fn f() { std::thread::yield_now(); }";
        assert_eq!(problems("pool/src/a.rs", paths), 1);
        let group = "use std::sync::{Arc, Mutex, mpsc};\nuse std::time::{Duration, Instant};";
        assert_eq!(problems("pool/src/a.rs", group), 3);
        assert_eq!(problems("pool/src/a.rs", "use std::sync::{Arc, Weak};"), 0);
        assert_eq!(
            problems("pool/src/a.rs", "a: Mutex<u8, ranks::Unranked>"),
            1
        );
        assert_eq!(
            problems("pool/src/a.rs", "// std::thread\nlet a = \"eprintln!\";"),
            0
        );
    }

    #[test]
    fn what_a_call_is_for_is_not_kept_by_the_thread() {
        let text = "thread_local! { static CLASS: Cell<u8> = Cell::new(0); }";
        assert_eq!(problems("vdev/src/queue.rs", text), 1);
        assert_eq!(problems("codec/src/compress/zstd.rs", text), 0);
        assert_eq!(problems("base/src/rt/world.rs", text), 0);
    }

    #[test]
    fn tests_and_tools_are_free() {
        let text = "use std::sync::Mutex;";
        assert_eq!(problems("tools/cenote/src/a.rs", text), 0);
        assert_eq!(problems("pool/tests/all/a.rs", text), 0);
        assert_eq!(problems("base/src/rt/mutex.rs", text), 0);
        let inner = "#[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}\n";
        assert_eq!(problems("pool/src/a.rs", inner), 0);
    }
}
