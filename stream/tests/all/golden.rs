//! What is sent, compared byte for byte with what OpenZFS sent of the same snapshots.

use crate::pools;
use cenote_dsl::DatasetName;
use cenote_ondisk::stream::Record;
use cenote_pool::Pool;
use cenote_stream::send::package::{PackageOptions, send_package};
use cenote_stream::send::{Base, Options, Resume, Snapshot, send};
use cenote_stream::{Checks, Reader};
use cenote_tests::streams;

const PLAIN: Options = Options {
    large_blocks: false,
    embedded: false,
    compressed: false,
    raw: false,
};

/// The stream of `name` since `base`, which is a snapshot or bookmark.
fn stream_of(pool: &Pool, name: &str, base: Option<&str>, options: Options) -> Vec<u8> {
    let target = pools::dataset(pool, name);
    let base = base.map(|base| match base.contains('#') {
        true => {
            let name = DatasetName::parse(base).expect("a name");
            Base::bookmark(&pool.dsl().bookmark(&name).expect("there"), &target).expect("no list")
        }
        false => Base::snapshot(&pools::dataset(pool, base), &target).expect("readable"),
    });
    let snapshot = Snapshot::of(&target).expect("readable");
    let mut bytes = Vec::new();
    send(&snapshot, base.as_ref(), options, None, &mut bytes).expect("it is sent");
    bytes
}

/// The records of a stream, for people, with their payloads' lengths.
fn records(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let checks = Checks::default();
    let mut reader = Reader::with_checks(bytes, checks);
    let mut records = Vec::new();
    while let Some(item) = reader.next_item().expect("a good stream") {
        let mut record = item.header.record.clone();
        if let Record::End(end) = &mut record {
            end.checksum = [0; 4];
        }
        records.push((format!("{record:?}"), item.payload.to_vec()));
    }
    records
}

/// OpenZFS 2.3 sends a spill block that is within its pointer as if it were data far behind the
/// object's end, and the receiver's object is broken. We send a SPILL.
fn drop_embedded_spills(ours: &mut Vec<(String, Vec<u8>)>, theirs: &mut Vec<(String, Vec<u8>)>) {
    let is_wrong =
        |text: &str| text.starts_with("WriteEmbedded") && text.contains("offset: 184467440737095");
    let wrong = theirs
        .iter()
        .enumerate()
        .filter(|(_, (text, _))| is_wrong(text));
    let wrong: Vec<usize> = wrong.map(|(index, _)| index).collect();
    for index in wrong.into_iter().rev() {
        theirs.remove(index);
        let (text, _) = ours.remove(index);
        assert!(text.starts_with("Spill"), "{text}");
    }
}

/// The first record that differs.
fn compare(name: &str, ours: &[u8], theirs: &[u8]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let (mut ours, mut theirs) = (records(ours), records(theirs));
    drop_embedded_spills(&mut ours, &mut theirs);
    if ours == theirs {
        return None;
    }
    let mut pairs = ours.iter().zip(&theirs).enumerate();
    let difference = pairs.find(|(_, (ours, theirs))| ours != theirs);
    Some(match difference {
        Some((index, (a, b))) => format!(
            "{name}: record {index}\nours   {}\ntheirs {}\npayloads {} and {} bytes, same: {}",
            a.0,
            b.0,
            a.1.len(),
            b.1.len(),
            a.1 == b.1,
        ),
        None => format!("{name}: {} records, not {}", ours.len(), theirs.len()),
    })
}

/// A stream of the reference, and how it was made: snapshot, base, options.
type Case = (&'static str, &'static str, Option<&'static str>, Options);

fn check_all(cases: &[Case]) {
    let Some((pool, _)) = pools::golden(streams::KIND) else {
        return;
    };
    let check = |case: &Case| check(&pool, case);
    let differences: Vec<String> = cases.iter().filter_map(check).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn check(pool: &Pool, (name, snapshot, base, options): &Case) -> Option<String> {
    let path = streams::stream(name).expect("unpacks").expect("there");
    let theirs = std::fs::read(path).expect("readable");
    let snapshot = format!("gold_streams/{snapshot}");
    let base = base.map(|base| format!("gold_streams/{base}"));
    let ours = stream_of(pool, &snapshot, base.as_deref(), *options);
    compare(name, &ours, &theirs)
}

#[test]
fn full_streams_are_those_of_the_reference() {
    let large = Options {
        large_blocks: true,
        ..PLAIN
    };
    check_all(&[
        ("full", "fs@a", None, PLAIN),
        ("large-dnode", "dn@a", None, PLAIN),
        ("zvol", "vol@a", None, PLAIN),
        ("large-blocks", "large@a", None, large),
        ("split-large", "large@a", None, PLAIN),
    ]);
}

#[test]
fn increments_are_those_of_the_reference() {
    check_all(&[
        ("incremental-i", "fs@b", Some("fs@a"), PLAIN),
        ("incremental-from-bookmark", "fs@c", Some("fs#a"), PLAIN),
        ("zvol-incremental", "vol@b", Some("vol@a"), PLAIN),
    ]);
}

#[test]
fn stored_blocks_are_those_of_the_reference() {
    let compressed = Options {
        compressed: true,
        ..PLAIN
    };
    let embedded = Options {
        embedded: true,
        ..PLAIN
    };
    let all = Options {
        large_blocks: true,
        embedded: true,
        compressed: true,
        raw: false,
    };
    check_all(&[
        ("compressed", "fs@b", None, compressed),
        ("embedded", "fs@b", None, embedded),
        ("compressed-embedded-large", "large@a", None, all),
    ]);
}

#[test]
fn raw_streams_are_those_of_the_reference() {
    let raw = Options { raw: true, ..PLAIN };
    check_all(&[
        ("raw-encrypted", "enc@a", None, raw),
        ("raw-encrypted-incremental", "enc@b", Some("enc@a"), raw),
        ("zvol-raw", "vol@b", None, raw),
        ("raw-clear", "fs@c", None, raw),
    ]);
}

#[test]
fn decrypted_streams_are_those_of_the_reference() {
    let Some((pool, golden)) = pools::golden(streams::KIND) else {
        return;
    };
    pools::load_keys(&pool, &golden);
    let difference = check(&pool, &("decrypted", "enc@a", None, PLAIN));
    assert_eq!(difference, None);
    // What is decrypted in the cache does not get into a raw stream.
    let raw = Options { raw: true, ..PLAIN };
    let difference = check(&pool, &("raw-encrypted", "enc@a", None, raw));
    assert_eq!(difference, None);
}

#[test]
fn a_resumed_stream_is_that_of_the_reference() {
    let Some((pool, _)) = pools::golden(streams::KIND) else {
        return;
    };
    let target = pools::dataset(&pool, "gold_streams/fs@a");
    let snapshot = Snapshot::of(&target).expect("readable");
    let mut ours = Vec::new();
    let resume: Resume = (cenote_base::ObjectId(0x81), 0x6_0000);
    send(&snapshot, None, PLAIN, Some(resume), &mut ours).expect("it is sent");
    let path = streams::stream("resume-part2")
        .expect("unpacks")
        .expect("there");
    let theirs = std::fs::read(path).expect("readable");
    assert_eq!(compare("resume-part2", &ours, &theirs), None);
}

#[test]
fn packages_are_those_of_the_reference() {
    let Some((pool, _)) = pools::golden(streams::KIND) else {
        return;
    };
    let plain = PackageOptions::default();
    let tree = PackageOptions {
        recursive: true,
        ..plain.clone()
    };
    let between = PackageOptions {
        intermediates: true,
        ..plain.clone()
    };
    let properties = PackageOptions {
        properties: true,
        ..plain.clone()
    };
    let tree_between = PackageOptions {
        intermediates: true,
        ..tree.clone()
    };
    let holds = PackageOptions {
        holds: true,
        ..plain.clone()
    };
    let cases = [
        ("props", "repl@3", None, properties),
        ("replication", "repl@3", None, tree),
        (
            "replication-incremental",
            "repl@3",
            Some("repl@1"),
            tree_between,
        ),
        ("incremental-I", "fs@c", Some("fs@a"), between),
        ("holds", "fs@b", None, holds),
    ];
    let open = |name: &str| pools::dataset(&pool, &format!("gold_streams/{name}"));
    let mut differences = Vec::new();
    for (name, target, base, options) in cases {
        let path = streams::stream(name).expect("unpacks").expect("there");
        let theirs = std::fs::read(path).expect("readable");
        let (target, base) = (open(target), base.map(open));
        let mut ours = Vec::new();
        send_package(&target, base.as_ref(), &options, &mut ours).expect("it is sent");
        differences.extend(compare(name, &ours, &theirs));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
