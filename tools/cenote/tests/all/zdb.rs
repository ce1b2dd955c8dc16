//! `zdb` against what OpenZFS's prints of the golden pools (`zdb.txt` of each), line by line, and
//! its own answers on command lines and damage.

use crate::support::TestPool;
use cenote_tests::golden::{Golden, kinds};
use std::fs;
use std::process::{Command, Output};

fn zdb(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_cenote"), "zdb"]);
    // Pools of a daemon are none of this test's.
    command.env("CENOTE_SOCKET", "/nonexistent/socket");
    command.env_remove("CENOTE_DEVICES").env("TZ", "UTC");
    command.args(arguments).output().expect("zdb runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The parts of a transcript: options, and what was printed.
fn parts(transcript: &str) -> Vec<(&str, &str)> {
    let pieces = transcript.split("# zdb -e -p DIR ").skip(1);
    let part = |piece| -> Option<(&str, &str)> {
        let (head, output) = str::split_once(piece, '\n')?;
        // Notes on parts that were not made.
        let output = output.split("\n# zdb").next()?;
        Some((head.split_once(" POOL")?.0, output))
    };
    pieces.filter_map(part).collect()
}

/// What both print. Ours has no class for embedded logs; theirs leaves the log of space maps out of
/// the class's sum. Metaslabs, which theirs prints before the datasets, are not compared here.
fn compared(output: &str, options: &str) -> Vec<String> {
    let from = match options.starts_with("-d") {
        true => output.find("Dataset mos").unwrap_or(0),
        false => 0,
    };
    let is_shown = |line: &&str| {
        let own = [
            "class:",
            "indirect vdev id",
            "class ",
            "loading ",
            "verifying vdev",
            "Verified device_removal",
            "Verified indirect_refcount",
        ];
        !own.iter().any(|word| line.contains(word))
    };
    let mut lines: Vec<String> = Vec::new();
    let mut is_share = false;
    // A transcript that was cut ends with this line.
    for line in output[from..].lines().take_while(|line| *line != "...") {
        // How OpenZFS rounds these shares is not known.
        is_share = line.contains("Blocks n/10 full") || is_share && line.starts_with("\t\t\t");
        if is_shown(&line) && !is_share {
            lines.push(line.to_owned());
        }
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn first_difference(ours: &[String], theirs: &[String]) -> Option<String> {
    let index = (0..theirs.len()).find(|index| ours.get(*index) != theirs.get(*index))?;
    Some(format!(
        "line {index}\n  ours:   {:?}\n  theirs: {:?}",
        ours.get(index),
        theirs.get(index)
    ))
}

#[test]
fn agrees_with_openzfs_on_every_golden_pool() {
    let mut differences = Vec::new();
    for kind in kinds() {
        let golden = Golden::find(&kind).expect("a manifest").expect("a pool");
        let transcript = std::fs::read_to_string(golden.directory.join("zdb.txt"));
        let Ok(transcript) = transcript else { continue };
        let devices = golden.devices().expect("devices");
        let parts = parts(&transcript);
        assert!(parts.len() >= 2, "{kind}: a transcript");
        for (options, theirs) in parts {
            let mut words = vec!["-e", "-p", devices.to_str().expect("a path")];
            words.extend(options.split_whitespace());
            words.push(&golden.manifest.pool);
            let output = zdb(&words);
            let theirs = theirs.trim_end_matches('\n');
            let theirs = compared(theirs, options);
            let ours = compared(&text(&output.stdout), options);
            if let Some(difference) = first_difference(&ours, &theirs) {
                let complaints = text(&output.stderr);
                differences.push(format!("{kind} {options}: {difference}\n{complaints}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn files_come_out_as_they_are() {
    let pool = TestPool::new("single-default");
    let name = pool.manifest.pool.clone();
    let devices = pool.directory().join("devices");
    let devices = devices.to_str().expect("a path");
    let dataset = format!("{name}/data");
    let open = ["-e", "-p", devices];
    let found = zdb(&[&open[..], &["-O", &dataset, "new-cedar"]].concat());
    assert!(found.status.success(), "{}", text(&found.stderr));
    assert!(
        text(&found.stdout).contains("      5646    1   128K"),
        "{}",
        text(&found.stdout)
    );
    let copied = zdb(&[&open[..], &["-r", &dataset, "new-cedar", devices]].concat());
    assert!(copied.status.success(), "{}", text(&copied.stderr));
    let place = format!("{dataset}:/new-cedar");
    let expected = pool.cenote("cat", &[&place]).stdout;
    let copy = fs::read(pool.directory().join("devices/new-cedar")).expect("a copy");
    assert!(copy == expected && !copy.is_empty());
    let absent = zdb(&[&open[..], &["-O", &dataset, "nonesuch"]].concat());
    assert_eq!(absent.status.code(), Some(1));
    let message = format!("failed to lookup dataset={dataset} path=/nonesuch");
    assert!(
        text(&absent.stderr).contains(&message),
        "{}",
        text(&absent.stderr)
    );
}

#[test]
fn damage_and_wrong_words_have_their_exit_codes() {
    let pool = TestPool::new("single-default");
    let name = pool.manifest.pool.clone();
    let device = pool.device(0);
    let path = device.to_str().expect("a path");
    assert_eq!(zdb(&["-l", path]).status.code(), Some(0));
    for (words, part) in [
        (vec!["-m", name.as_str()], "option '-m'"),
        (vec!["--nosuch", name.as_str()], "invalid option '--nosuch'"),
        (vec!["-d"], "give a pool or dataset"),
        (vec!["-q", name.as_str()], "'-q' has no effect here"),
        (vec!["-bL", "-p", ".", name.as_str()], "-p goes with -e"),
    ] {
        let output = zdb(&words);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        assert!(
            message.contains(part) && message.contains("usage:"),
            "{words:?}: {message}"
        );
    }
    let absent = zdb(&["-d", &name]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(
        text(&absent.stderr).contains("it is not imported"),
        "{}",
        text(&absent.stderr)
    );
    // The nvlist of label 0 no longer has its checksum; label 1 is not even a list.
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&device)
        .expect("a device");
    std::os::unix::fs::FileExt::write_all_at(&file, b"X", 16_384 + 200).expect("writable");
    let blank = [0xff; 4096];
    std::os::unix::fs::FileExt::write_all_at(&file, &blank, (256 + 16) << 10).expect("writable");
    let output = zdb(&["-l", path]);
    let labels = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{labels}");
    assert_eq!(labels.matches("(Bad label cksum)").count(), 1, "{labels}");
    assert!(labels.contains("failed to unpack label 1\n"), "{labels}");
    assert!(labels.contains("    labels = 2 3 \n"), "{labels}");
    let none = pool.directory().join("blank");
    fs::write(&none, vec![0; 4 << 20]).expect("a file");
    let output = zdb(&["-l", none.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(2));
}
