//! `cenote cp`: compares copies with what OpenZFS saw; interrupts, misleads and damages them.

use crate::support::{TestPool, stderr, stdout};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::manifest::Entries;
use cenote_tests::mounted;
use std::path::Path;
use std::time::Duration;

/// No common file system stores attribute values longer than this.
const XATTR_MAX: u64 = 2000;

/// Inode numbers may differ in a copy.
fn tolerance() -> Tolerance {
    let mut tolerance = Tolerance::default();
    tolerance.loose.push("ino".into());
    if !rustix::process::geteuid().is_root() {
        tolerance
            .loose
            .extend(["uid".into(), "gid".into(), "mode".into()]);
        tolerance.hidden_xattrs.push("trusted.".into());
    }
    tolerance
}

/// Removes attributes that are too large for the target, and nodes that need root.
fn comparable(mut entries: Entries) -> Entries {
    let is_root = rustix::process::geteuid().is_root();
    entries.retain(|_, entry| is_root || !["char", "block"].iter().any(|k| entry["type"] == *k));
    for entry in entries.values_mut() {
        let Some(serde_json::Value::Object(xattrs)) = entry.get_mut("xattrs") else {
            continue;
        };
        xattrs.retain(|_, value| {
            value["len"]
                .as_u64()
                .is_none_or(|length| length <= XATTR_MAX)
        });
        if xattrs.is_empty() {
            entry.remove("xattrs");
        }
    }
    entries
}

fn assert_copied(pool: &TestPool, dataset: &str, target: &Path) {
    let wanted = pool.manifest.datasets[dataset]
        .entries
        .clone()
        .expect("a file system");
    let found = mounted::walk(target).expect("a tree");
    let differences = compare::entries(&comparable(wanted), &comparable(found), &tolerance());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn copies_are_as_their_originals() {
    for (kind, dataset) in [
        ("raidz1-3", "gold_raidz13/data"),
        ("raidz1-3", "gold_raidz13/data@one"),
        ("block-cloning", "gold_blockcloning/data"),
        ("names-folding", "gold_namesfolding/formd"),
        ("quotas", "gold_quotas/users"),
    ] {
        let pool = TestPool::new(kind);
        let place = format!("{dataset}:/");
        let output = pool.cenote("cp", &["-a", "-q", &place, "copy"]);
        // The largest attributes exceed the limits of most file systems.
        let complaints = stderr(&output);
        let others = complaints
            .lines()
            .filter(|line| !line.contains("extended attribute"));
        let others: Vec<&str> = others
            .filter(|line| !line.contains("problems in all"))
            .collect();
        assert!(
            others.is_empty() || !rustix::process::geteuid().is_root(),
            "{others:?}"
        );
        assert_copied(&pool, dataset, &pool.directory().join("copy"));
    }
}

/// A copy that is stopped at any moment and run again is the same as an uninterrupted one.
#[test]
fn an_interrupted_copy_goes_on() {
    let pool = TestPool::new("raidz1-3");
    let words = [
        "cp",
        "-d",
        "devices",
        "-a",
        "-q",
        "gold_raidz13/data:/",
        "copy",
    ];
    let mut interrupted = 0;
    for attempt in 0..20 {
        let mut child = pool.command(&words).spawn().expect("cenote runs");
        std::thread::sleep(Duration::from_millis(2 * attempt));
        let process = rustix::process::Pid::from_child(&child);
        // It may have ended already.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::INT);
        let status = child.wait().expect("it ends");
        interrupted += u32::from(status.code() == Some(3));
    }
    let output = pool.run(&words);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        stderr(&output)
    );
    assert_copied(&pool, "gold_raidz13/data", &pool.directory().join("copy"));
    eprintln!("{interrupted} runs of 20 were interrupted on the way");
}

/// A link in the target must not lead outside of it.
#[test]
fn links_in_the_target_are_not_followed() {
    let pool = TestPool::new("raidz1-3");
    let (outside, target) = (
        pool.directory().join("outside"),
        pool.directory().join("copy"),
    );
    std::fs::create_dir(&outside).expect("a directory");
    std::fs::create_dir(&target).expect("a directory");
    std::os::unix::fs::symlink(&outside, target.join("acl")).expect("a link");
    std::os::unix::fs::symlink(outside.join("file"), target.join("new-grove")).expect("a link");
    let output = pool.cenote("cp", &["-a", "-q", "gold_raidz13/data:/", "copy"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = format!(
        "{}",
        target.join("acl").file_name().expect("a name").display()
    );
    assert!(stderr(&output).contains(&complaint), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(&outside).expect("a directory").count(), 0);
    let copied = target
        .join("new-grove")
        .symlink_metadata()
        .expect("the file");
    assert!(copied.is_file(), "the file takes the link's place");
}

#[test]
fn a_single_file_goes_where_it_is_told() {
    let pool = TestPool::new("raidz1-3");
    let source = "gold_raidz13/data:/new-grove";
    assert!(pool.cenote("cp", &[source, "renamed"]).status.success());
    std::fs::create_dir(pool.directory().join("there")).expect("a directory");
    assert!(pool.cenote("cp", &[source, "there"]).status.success());
    let read = |name: &str| std::fs::read(pool.directory().join(name)).expect("the copy");
    assert_eq!(read("renamed"), read("there/new-grove"));
    assert_eq!(read("renamed"), pool.cenote("cat", &[source]).stdout);
    assert_eq!(
        pool.cenote("cp", &[source, "missing/"]).status.code(),
        Some(1)
    );
    let two = pool.cenote("cp", &[source, "gold_raidz13/data:/acl/f0", "renamed"]);
    assert_eq!(two.status.code(), Some(2));
}

#[test]
fn the_summary_is_json() {
    let pool = TestPool::new("raidz1-3");
    let output = pool.cenote("cp", &["-a", "--json", "gold_raidz13/data:/rec", "."]);
    let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(summary["complete"], true, "{summary}");
    assert!(summary["entries"].as_u64() > Some(5), "{summary}");
    for line in stderr(&output).lines() {
        let progress: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(progress["progress"]["done"].is_u64(), "{line}");
    }
}
