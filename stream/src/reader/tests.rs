//! Streams of OpenZFS, whole, swapped, cut and damaged.

use super::*;
use crate::Writer;
use cenote_tests::streams;

fn golden() -> Vec<(String, Vec<u8>)> {
    let streams = streams::streams().expect("streams unpack");
    let read = |path| std::fs::read(path).expect("readable");
    streams
        .into_iter()
        .map(|(name, path)| (name, read(path)))
        .collect()
}

/// Reads to the end; how many records there were.
fn read_all(bytes: &[u8]) -> Result<u64, StreamError> {
    let mut reader = Reader::new(bytes);
    while reader.next_item()?.is_some() {}
    assert_eq!(reader.offset(), bytes.len() as u64);
    Ok(reader.place.record)
}

/// The stream again, through a reader and a writer, in another byte order.
fn rewrite(bytes: &[u8], order: ByteOrder) -> Vec<u8> {
    let mut reader = Reader::new(bytes);
    let mut writer = Writer::new(Vec::new(), order);
    while let Some(item) = reader.next_item().expect("a good stream") {
        let written = writer.record(&item.header.record, item.payload);
        written.expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything")
}

#[test]
fn streams_of_the_reference_are_right_and_come_out_again() {
    for (name, stream) in golden().iter().filter(|(name, _)| name != "resume-part1") {
        let records = read_all(stream).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(records > 10, "{name}: {records}");
        assert!(
            rewrite(stream, ByteOrder::Little) == *stream,
            "{name} differs"
        );
        let swapped = rewrite(stream, ByteOrder::Big);
        assert_eq!(read_all(&swapped).expect("swapped"), records, "{name}");
        assert!(
            rewrite(&swapped, ByteOrder::Little) == *stream,
            "{name} differs"
        );
    }
}

#[test]
fn a_cut_is_told_wherever_it_is() {
    for (name, stream) in golden().iter().filter(|(_, stream)| stream.len() < 100_000) {
        for length in (0..stream.len()).step_by(997) {
            let error = read_all(&stream[..length]).expect_err("it is cut");
            let is_right = match length {
                0..RECORD_SIZE => matches!(error, StreamError::NotAStream),
                _ => matches!(error, StreamError::Cut { .. }),
            };
            assert!(is_right, "{name} cut at {length}: {error:?}");
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let Some(path) = streams::stream("zvol-incremental").expect("unpacks") else {
        return;
    };
    let stream = std::fs::read(path).expect("readable");
    for at in (0..stream.len()).step_by(61) {
        let mut damaged = stream.clone();
        damaged[at] ^= 1 << (at % 8);
        let error = read_all(&damaged).expect_err("it is damaged");
        let place = match error {
            StreamError::Checksum { place, .. } | StreamError::Record { place, .. } => place,
            StreamError::NotAStream if at < 16 => continue,
            StreamError::Grammar { .. } | StreamError::Cut { .. } => continue,
            error => panic!("byte {at}: {error:?}"),
        };
        assert!(
            place.offset <= at as u64 + (RECORD_SIZE as u64) + (16 << 10),
            "byte {at}"
        );
    }
}

#[test]
fn records_out_of_place_are_refused() {
    let Some(path) = streams::stream("zvol-incremental").expect("unpacks") else {
        return;
    };
    let stream = std::fs::read(path).expect("readable");
    let twice = [&stream[..], &stream[..]].concat();
    assert!(read_all(&twice).is_ok(), "one after another");
    let inner = [&stream[..RECORD_SIZE], &stream[..]].concat();
    assert!(matches!(read_all(&inner), Err(StreamError::Grammar { .. })));
    let tail = &stream[stream.len() - RECORD_SIZE..];
    assert!(matches!(read_all(tail), Err(StreamError::NotAStream)));
    let two_ends = [&stream[..], tail].concat();
    assert!(matches!(
        read_all(&two_ends),
        Err(StreamError::Grammar { .. })
    ));
}
