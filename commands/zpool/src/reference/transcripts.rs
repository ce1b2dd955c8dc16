//! The format of transcripts: `$ command`, standard output indented by two spaces, `! ` standard
//! error, `? ` the exit code unless it is 0. `! ...` matches any rest of standard error; `<end>`
//! marks trailing spaces.

use super::run_words;
use super::world::Canned;
use cenote_words::testing::Ran;

struct Expected<'a> {
    command: &'a str,
    ran: Ran,
    /// Standard error may continue after these lines.
    open_ended: bool,
}

fn parse(text: &str) -> Vec<Expected<'_>> {
    let mut all: Vec<Expected<'_>> = Vec::new();
    for line in text.lines() {
        let line = line.strip_suffix("<end>").unwrap_or(line);
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Expected {
                command,
                ran: Ran {
                    code: 0,
                    out: String::new(),
                    err: String::new(),
                },
                open_ended: false,
            });
            continue;
        }
        let last = all.last_mut().expect("a transcript begins with a command");
        if line == "! ..." {
            last.open_ended = true;
        } else if let Some(line) = line.strip_prefix("! ") {
            last.ran.err.push_str(line);
            last.ran.err.push('\n');
        } else if let Some(code) = line.strip_prefix("? ") {
            last.ran.code = code.parse().expect("an exit code");
        } else {
            last.ran
                .out
                .push_str(line.strip_prefix("  ").unwrap_or(line));
            last.ran.out.push('\n');
        }
    }
    all
}

/// Splits at spaces; `""` is an empty word.
fn words(command: &str) -> Vec<&str> {
    let word = |word| if word == "\"\"" { "" } else { word };
    command.split(' ').map(word).collect()
}

fn difference(what: &str, theirs: &impl std::fmt::Debug, ours: &impl std::fmt::Debug) -> String {
    let (theirs, ours) = (format!("{theirs:?}"), format!("{ours:?}"));
    if theirs == ours {
        return String::new();
    }
    format!("  {what}: OpenZFS {theirs}\n  {what}: we      {ours}\n")
}

/// The first lines that differ.
fn line_differences(theirs: &str, ours: &str) -> String {
    let count = theirs.lines().count().max(ours.lines().count());
    let line = |text: &str, index| text.lines().nth(index).map(str::to_owned);
    let pairs = (0..count).map(|index| (index + 1, line(theirs, index), line(ours, index)));
    let differing = pairs.filter(|(_, theirs, ours)| theirs != ours);
    let texts = differing.map(|(number, a, b)| difference(&format!("line {number}"), &a, &b));
    texts.take(4).collect()
}

pub fn check(transcript: &str, world: &Canned) {
    let mut differences = String::new();
    let expected = parse(transcript);
    let count = expected.len();
    for expected in expected {
        let mut ran = run_words(&words(expected.command), world.clone());
        if expected.open_ended && ran.err.starts_with(&expected.ran.err) {
            ran.err.clone_from(&expected.ran.err);
        }
        if ran != expected.ran {
            differences.push_str(&format!("\n$ {}\n", expected.command));
            differences.push_str(&difference("code", &expected.ran.code, &ran.code));
            differences.push_str(&line_differences(&expected.ran.out, &ran.out));
            differences.push_str(&line_differences(&expected.ran.err, &ran.err));
        }
    }
    assert!(
        differences.is_empty(),
        "of {count} commands differ: {differences}"
    );
}

#[test]
fn zpool_prints_what_openzfs_prints() {
    check(
        include_str!("../../tests/reference/zpool.txt"),
        &Canned::tank(),
    );
}

#[test]
fn zfs_prints_what_openzfs_prints() {
    check(
        include_str!("../../tests/reference/zfs.txt"),
        &Canned::tank(),
    );
}

#[test]
fn without_pools_there_is_little_to_say() {
    check(
        include_str!("../../tests/reference/no-pools.txt"),
        &Canned::empty(),
    );
}

#[test]
fn whatever_would_write_says_that_the_pool_is_read_only() {
    check(
        include_str!("../../tests/reference/read-only.txt"),
        &Canned::read_only_tank(),
    );
}
