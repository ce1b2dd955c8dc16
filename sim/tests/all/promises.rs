//! Histories after which file systems lost data promised by `fsync`.
//!
//! xfstests collects them: each was a bug of some file system of Linux, found by users who lost
//! files, and later by enumeration. Here they are written for [`cenote_sim::judge_history`], which
//! cuts the power after the last operation. Names must be as after the last `fsync` of anything,
//! contents as after the last one of the file. The numbers are those of xfstests' generic group.
//!
//! Each history begins with the file `foo` (5,000 bytes) and the directory `A` with the file `bar`
//! (3,000 bytes), all of it on disk.

use cenote_sim::{Layout, judge_history};

fn keeps(histories: &[&str]) {
    let layouts = [
        Layout::plain(),
        Layout::plain().with_log(),
        Layout::plain().encrypted(),
    ];
    for history in histories {
        // Two seeds replay in memory and for good, or one of them twice.
        for (seed, layout) in (1..5).zip(layouts.iter().cycle()) {
            if let Err(error) = judge_history(history, layout, seed) {
                panic!("{layout:?}: {error:#}");
            }
        }
    }
}

/// The check must find the loss where data must be lost; otherwise it proves nothing.
#[test]
fn histories_on_disks_that_lie_are_found_out() {
    let history = "append foo 100; fsync foo";
    let error = judge_history(history, &Layout::plain().lying(), 1).expect_err("lost");
    assert!(format!("{error:#}").contains("promised"), "{error:#}");
}

/// A directory lost entries, and could not be removed afterwards (034, 039, 059, 073).
#[test]
fn of_directories_that_shrink() {
    keeps(&[
        "unlink A/bar; fsync A",
        "link A/bar A/two; group; unlink A/two; fsync A/bar",
        "link foo A/foo; group; unlink A/foo; fsync foo",
        "unlink A/bar; rmdir A; fsync .",
        "mkdir A/B; create A/B/x; group; unlink A/B/x; rmdir A/B; fsync A",
    ]);
}

/// A file had many names, some of which came or went before it was synced (040, 041, 056, 090, 104,
/// 106, 107, 498).
#[test]
fn of_files_with_several_names() {
    keeps(&[
        "link foo bar; append foo 4000; fsync foo",
        "group; link foo bar; link foo A/foo; unlink bar; fsync foo",
        "link foo bar; link foo baz; group; unlink bar; unlink foo; fsync baz",
        "link foo bar; group; unlink foo; link bar A/foo; fsync bar",
        "create A/x; link A/x x; fsync A/x; append A/x 100; link x y; fsync y",
        "link A/bar bar; fsync bar; unlink A/bar; fsync bar; append bar 10; fsync bar",
    ]);
}

/// "Write a new file, rename it over the old one": the file was empty then, or neither existed
/// (311, 322, 341, 342, 343, 376, 510, 526, 527, 535).
#[test]
fn of_renamed_files() {
    keeps(&[
        "create new; append new 9000; fsync new; rename new foo; fsync .",
        "create new; append new 9000; rename new foo; fsync foo",
        "rename foo bar; create foo; append foo 100; fsync foo",
        "rename foo bar; create foo; fsync .",
        "rename foo A/foo; create foo; append foo 700; fsync foo",
        "rename A/bar bar; rename foo A/bar; fsync bar",
        "rename foo bar; fsync bar; rename bar baz; fsync baz",
        "append foo 100; rename foo bar; fsync bar",
        "create x; append x 50; rename foo old; rename x foo; unlink old; fsync foo",
    ]);
}

/// A directory was moved and another took its name (335, 336, 341, 348, 479, 546, 547, 557).
#[test]
fn of_moved_directories() {
    keeps(&[
        "rename A B; fsync B",
        "rename A B; mkdir A; create A/x; append A/x 20; fsync A/x",
        "mkdir C; rename A C/A; fsync C",
        "mkdir C; rename A/bar C/bar; fsync A",
        "mkdir C; rename A/bar C/bar; create A/bar; append A/bar 5; fsync C/bar",
        "mkdir A/B; create A/B/x; rename A/B B; fsync B; unlink B/x; fsync B",
        "rename A B; rename B C; rename C A; fsync A",
    ]);
}

/// Two names changed places (588, 690).
#[test]
fn of_exchanged_names() {
    keeps(&[
        "exchange foo A/bar; fsync foo",
        "append foo 100; exchange foo A/bar; fsync A/bar",
        "mkdir B; create B/x; exchange A B; fsync .",
        "exchange foo A/bar; exchange foo A/bar; append foo 3; fsync foo",
        "exchange foo A; fsync .",
    ]);
}

/// The end of a file moved back and forth (101, 321, 325, 393, 475, 489, 552).
#[test]
fn of_truncated_files() {
    keeps(&[
        "truncate foo 2000; truncate foo 5000; fsync foo",
        "truncate foo 0; append foo 100; fsync foo",
        "truncate foo 2500; rename foo bar; fsync bar",
        "append foo 70000; truncate foo 4096; append foo 4096; fsync foo",
        "truncate foo 300000; fsync foo; truncate foo 10; fsync foo",
        "write foo 100000 5000; fsync foo; truncate foo 50000; truncate foo 120000; fsync foo",
    ]);
}

/// Holes and room behind the end (056, 059, 177, 456, 457, 483, 487, 512, 640).
#[test]
fn of_holes() {
    keeps(&[
        "write foo 0 150000; group; punch foo 10000 90000; fsync foo",
        "punch foo 0 5000; fsync foo; append foo 10; fsync foo",
        "allocate foo 100000 200000; fsync foo",
        "zero foo 3000 10000; fsync foo",
        "write foo 0 140000; punch foo 4096 131072; write foo 8192 100; fsync foo",
        "allocate foo 5000 3000; append foo 100; zero foo 100 100; fsync foo",
    ]);
}

/// Attributes that came, changed and went (066, 070, 481, 489, 502, 509, 695).
#[test]
fn of_attributes() {
    keeps(&[
        "setxattr foo 20; fsync foo; rmxattr foo; fsync foo",
        "setxattr foo 20; group; setxattr foo 2000; fsync foo",
        "setxattr foo 100; chmod foo 600; append foo 10; fsync foo",
        "setxattr A 100; chmod A 700; fsync A",
        "chmod foo 600; link foo bar; fsync bar",
        "create x; setxattr x 900; rename x y; fsync y",
    ]);
}

/// Files without a name, symbolic links, copies (034, 348, 509, 520, 703, 771).
#[test]
fn of_other_files() {
    keeps(&[
        "unnamed x 5000; fsync x",
        "unnamed A/x 200; unlink A/bar; fsync .",
        "unnamed x 70000; rename x foo; fsync foo",
        "symlink A/link foo; fsync A",
        "symlink link foo; rename link A/link; fsync .",
        "group; copy foo A/bar; fsync A/bar",
        "write foo 0 140000; group; copy foo A/bar; write foo 0 100; fsync A/bar",
    ]);
}
