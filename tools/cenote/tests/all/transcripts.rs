//! The output of commands that read pools themselves, byte for byte.
//!
//! Each file `direct/KIND.txt` is a session on the pool of that kind: a line `$ COMMAND`, its
//! output, and `? CODE` unless it exited with 0. `UPDATE_TRANSCRIPTS=1` rewrites them; review the
//! difference before committing it.

use crate::support::{TestPool, stderr, stdout};
use std::fmt::Write;
use std::path::PathBuf;

fn path(kind: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/direct/{kind}.txt"))
}

/// Runs the commands of a session and records the results.
fn replay(kind: &str, session: &str) -> String {
    let pool = TestPool::new(kind);
    let mut text = String::new();
    let mut before_first = true;
    for line in session.lines() {
        let Some(command) = line.strip_prefix("$ cenote ") else {
            if before_first {
                writeln!(text, "{line}").expect("to a string");
            }
            continue;
        };
        before_first = false;
        let words: Vec<&str> = command.split(' ').collect();
        let output = pool.run(&words);
        writeln!(text, "$ cenote {command}").expect("to a string");
        text.push_str(&stdout(&output));
        text.push_str(&stderr(&output));
        if output.status.code() != Some(0) {
            writeln!(text, "? {}", output.status.code().unwrap_or(-1)).expect("to a string");
        }
        text.push('\n');
    }
    text
}

fn check(kind: &str) {
    let path = path(kind);
    let wanted = std::fs::read_to_string(&path).expect("a transcript");
    let found = replay(kind, &wanted);
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, found).expect("writable");
        return;
    }
    for (number, (want, have)) in wanted.lines().zip(found.lines()).enumerate() {
        assert_eq!(have, want, "{}:{}", path.display(), number + 1);
    }
    assert_eq!(
        found.lines().count(),
        wanted.lines().count(),
        "{}",
        path.display()
    );
}

#[test]
fn files() {
    check("raidz1-3");
}

#[test]
fn volumes() {
    check("zvol");
}

#[test]
fn keys_and_logs() {
    check("dirty-zil");
}

#[test]
fn folded_names() {
    check("names-folding");
}
