//! The text, compared with that of OpenZFS's own program.

use super::*;
use cenote_tests::streams;
use std::path::Path;
use std::process::{Command, Stdio};

/// What OpenZFS's program prints; `None` with a notice when it is not installed.
fn reference(flags: &str, path: &Path) -> Option<Vec<u8>> {
    let mut command = Command::new("zstream");
    command
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .arg("dump");
    if !flags.is_empty() {
        command.arg(flags);
    }
    match command.arg(path).stderr(Stdio::null()).output() {
        Ok(output) => Some(output.stdout),
        Err(_) => {
            cenote_tests::missing!("zstream is not installed");
            None
        }
    }
}

fn ours(flags: &str, bytes: &[u8]) -> (Vec<u8>, Result<(), StreamError>) {
    let options = Options {
        records: !flags.is_empty(),
        payloads: flags.contains('d'),
        ignores_checksums: flags.contains('C'),
    };
    let mut text = Vec::new();
    let result = dump(bytes, options, &mut text);
    (text, result)
}

/// Fails with the first line that differs.
fn compare(text: &[u8], expected: &[u8], what: &str) {
    if text == expected {
        return;
    }
    let lines = text.split(|byte| *byte == b'\n');
    let mut pairs = lines.zip(expected.split(|byte| *byte == b'\n')).enumerate();
    let difference = pairs.find(|(_, (ours, theirs))| ours != theirs);
    let (line, (ours, theirs)) = difference.unwrap_or((0, (b"shorter", b"or longer")));
    let text = String::from_utf8_lossy;
    panic!(
        "{what}: line {line}\nours   {:?}\ntheirs {:?}",
        text(ours),
        text(theirs)
    );
}

#[test]
fn the_text_is_that_of_the_reference() {
    for (name, path) in streams::streams().expect("streams unpack") {
        let bytes = std::fs::read(&path).expect("readable");
        for flags in ["", "-v", "-d"] {
            // Payloads are compared of what is quick to print; of a cut one the reference prints
            // what its buffer held before.
            if flags == "-d" && (bytes.len() > 500_000 || name == "resume-part1") {
                continue;
            }
            let Some(expected) = reference(flags, &path) else {
                return;
            };
            let (text, result) = ours(flags, &bytes);
            compare(&text, &expected, &format!("{name} {flags}"));
            assert_eq!(result.is_ok(), name != "resume-part1", "{name}: {result:?}");
        }
    }
}

#[test]
fn the_text_of_broken_streams_goes_as_far_as_that_of_the_reference() {
    let Some(path) = streams::stream("zvol-incremental").expect("unpacks") else {
        return;
    };
    let stream = std::fs::read(path).expect("readable");
    let directory = tempfile::tempdir().expect("a directory");
    let broken = directory.path().join("broken");
    let cuts = [312, 400, 1000, 5000, 20_000].map(|length| stream[..length].to_vec());
    let damages = [700, 3000, 36_000, 36_400].map(|at| {
        let mut bytes = stream.clone();
        bytes[at] ^= 4;
        bytes
    });
    for bytes in cuts.iter().chain(&damages) {
        std::fs::write(&broken, bytes).expect("writable");
        for flags in ["", "-v", "-C"] {
            let Some(expected) = reference(flags, &broken) else {
                return;
            };
            let (text, _) = ours(if flags == "-C" { "C" } else { flags }, bytes);
            if flags != "-C" {
                compare(&text, &expected, &format!("{} bytes {flags}", bytes.len()));
            }
        }
        assert!(ours("", bytes).1.is_err(), "it is broken");
    }
}
