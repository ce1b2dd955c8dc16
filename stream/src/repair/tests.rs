//! Changed streams, compared with what OpenZFS's own program makes of the same ones.

use super::*;
use cenote_base::ObjectId;
use cenote_ondisk::stream::{Feature, WriteByReference};
use cenote_tests::streams;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

fn stream(name: &str) -> Option<Vec<u8>> {
    let path = streams::stream(name).expect("unpacks")?;
    Some(std::fs::read(path).expect("readable"))
}

/// What OpenZFS's program makes of `input`; `None` with a notice when it is not installed.
fn reference(arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("input");
    std::fs::write(&path, input).expect("writable");
    let mut command = Command::new("zstream");
    command
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(arguments);
    if arguments[0] == "redup" {
        command.arg(&path);
    }
    let input = File::open(&path).expect("readable");
    match command.stdin(input).stderr(Stdio::null()).output() {
        Ok(output) => Some(output.stdout),
        Err(_) => {
            eprintln!("skipped: zstream is not installed");
            None
        }
    }
}

fn recompressed(input: &[u8], kind: Option<Compression>) -> Result<Vec<u8>, StreamError> {
    let mut out = Vec::new();
    recompress(input, &mut out, Target { kind, level: 3 })?;
    Ok(out)
}

/// Blocks by object and offset, and bytes of all payloads of WRITE.
type Blocks = HashMap<(u64, u64), Vec<u8>>;

fn blocks(stream: &[u8]) -> Blocks {
    let mut reader = Reader::new(stream);
    let mut blocks = HashMap::new();
    while let Some(item) = reader.next_item().expect("a good stream") {
        if let Record::Write(write) = &item.header.record {
            let place = (write.object.0, write.offset);
            blocks.insert(place, item.payload.to_vec());
        }
    }
    blocks
}

#[test]
fn blocks_survive_every_function() {
    let Some(plain) = stream("large-dnode") else {
        return;
    };
    let expected = blocks(&plain);
    let kinds = [
        Compression::Lzjb,
        Compression::Gzip(6),
        Compression::Zle,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for kind in kinds {
        let squeezed = recompressed(&plain, Some(kind)).expect("not raw");
        if kind != Compression::Zle {
            assert!(
                squeezed.len() < plain.len() * 3 / 4,
                "{kind:?}: {}",
                squeezed.len()
            );
        }
        let back = recompressed(&squeezed, None).expect("not raw");
        assert!(blocks(&back) == expected, "{kind:?}");
        let Some(theirs) = reference(&["recompress", "off"], &squeezed) else {
            continue;
        };
        assert!(
            blocks(&theirs) == expected,
            "{kind:?}, as the reference expands it"
        );
    }
}

#[test]
fn compressed_streams_of_the_reference_expand() {
    let (Some(plain), Some(squeezed)) = (stream("full"), stream("compressed")) else {
        return;
    };
    let ours = recompressed(&squeezed, None).expect("not raw");
    let expanded = blocks(&ours);
    assert!(expanded.len() > 100 && plain.len() > squeezed.len());
    if let Some(theirs) = reference(&["recompress", "off"], &squeezed) {
        assert!(ours == theirs, "the same to the last byte");
    }
}

#[test]
fn raw_streams_are_refused() {
    let Some(raw) = stream("raw-encrypted") else {
        return;
    };
    let error = recompressed(&raw, None).expect_err("it is raw");
    assert!(
        matches!(
            error,
            StreamError::Refused {
                refusal: Refusal::Raw,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn chosen_blocks_are_expanded() {
    let Some(squeezed) = stream("compressed") else {
        return;
    };
    let choose = |object, kind| Selection {
        object: ObjectId(object),
        offset: 0,
        kind,
    };
    let selections = [
        choose(28, Some(Compression::Lz4)),
        choose(63, Some(Compression::Gzip(6))),
        choose(2, None),
    ];
    let (mut ours, mut done) = (Vec::new(), Vec::new());
    decompress(
        &squeezed[..],
        &mut ours,
        &selections,
        |_, chosen, result| {
            done.push((chosen.object.0, result));
        },
    )
    .expect("a good stream");
    assert_eq!(
        done,
        [
            (2, Done::Reset),
            (28, Done::Decompressed),
            (63, Done::Failed)
        ]
    );
    let arguments = ["decompress", "28,0,lz4", "63,0,gzip", "2,0,off"];
    if let Some(theirs) = reference(&arguments, &squeezed) {
        assert!(ours == theirs, "the same to the last byte");
    }
    let result = decompress(&squeezed[..], &mut ours, &[choose(28, None)], |_, _, _| {});
    assert!(matches!(
        result,
        Err(StreamError::Refused {
            refusal: Refusal::Size,
            ..
        })
    ));
}

/// The stream with references for blocks that came before, as old senders made them.
fn deduplicated(stream: &[u8]) -> (Vec<u8>, u64) {
    let mut seen: HashMap<Vec<u8>, cenote_ondisk::stream::Write> = HashMap::new();
    let mut references = 0;
    let mut out = Vec::new();
    rewrite(stream, &mut out, |item| match &item.header.record {
        Record::Begin(begin) => {
            let mut begin = begin.clone();
            begin.features = begin.features.with(Feature::Dedup);
            Ok((Record::Begin(begin), None))
        }
        Record::Write(write) => {
            let Some(first) = seen.get(item.payload) else {
                seen.insert(item.payload.to_vec(), *write);
                return Ok((Record::Write(*write), None));
            };
            references += 1;
            let reference = WriteByReference {
                object: write.object,
                offset: write.offset,
                length: write.logical_size,
                to_guid: write.to_guid,
                reference_guid: first.to_guid,
                reference_object: first.object,
                reference_offset: first.offset,
                checksum: write.checksum,
                flags: write.flags,
                key: write.key,
            };
            Ok((Record::WriteByReference(reference), Some(Vec::new())))
        }
        record => Ok((record.clone(), None)),
    })
    .expect("a good stream");
    (out, references)
}

fn redupped(path: &Path) -> Result<(Vec<u8>, Redup), StreamError> {
    let mut out = Vec::new();
    let file = File::open(path).expect("readable");
    redup(&file, &mut out).map(|done| (out, done))
}

#[test]
fn references_become_blocks_again() {
    let Some(plain) = stream("full") else {
        return;
    };
    let (short, references) = deduplicated(&plain);
    assert!(references > 5 && short.len() < plain.len());
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("deduplicated");
    std::fs::write(&path, &short).expect("writable");
    let (ours, done) = redupped(&path).expect("all blocks are there");
    assert_eq!(done.references, references);
    assert!(blocks(&ours) == blocks(&plain));
    if let Some(theirs) = reference(&["redup"], &short) {
        assert!(ours == theirs, "the same to the last byte");
    }
    // A stream whose blocks are elsewhere.
    let mut dropped = Vec::new();
    rewrite(&short[..], &mut dropped, |item| match &item.header.record {
        Record::Write(write) => {
            let other = WriteRecord {
                offset: write.offset + (1 << 40),
                ..*write
            };
            Ok((Record::Write(other), None))
        }
        record => Ok((record.clone(), None)),
    })
    .expect("a good stream");
    std::fs::write(&path, &dropped).expect("writable");
    let result = redupped(&path);
    assert!(matches!(
        result,
        Err(StreamError::Refused {
            refusal: Refusal::Reference,
            ..
        })
    ));
}
