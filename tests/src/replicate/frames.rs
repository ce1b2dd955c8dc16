//! A stream in its records, which can be changed and put together again.

use anyhow::{Context, Result};
use cenote_codec::Endian;
use cenote_codec::checksum::Fletcher4;
use cenote_ondisk::stream::{ByteOrder, CHECKSUM_OFFSET, RECORD_SIZE, Record, kind};

/// Where an END has the sum of all that is before it.
const END_SUM: std::ops::Range<usize> = 8..40;

/// A record: its header as bytes, and what is behind it.
#[derive(Clone, Debug)]
pub struct Frame {
    pub header: [u8; RECORD_SIZE],
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn kind(&self) -> u32 {
        Record::kind_of(&self.header, ByteOrder::Little)
    }
}

/// Takes a stream that is whole apart.
pub fn split(stream: &[u8]) -> Result<Vec<Frame>> {
    let mut frames = Vec::new();
    let mut rest = stream;
    while let Some((header, behind)) = rest.split_first_chunk::<RECORD_SIZE>() {
        let (record, _) = Record::decode(header, ByteOrder::Little)?;
        let length = record.payload_length()?;
        let payload = behind.get(..length).context("the stream is cut")?;
        frames.push(Frame {
            header: *header,
            payload: payload.to_vec(),
        });
        rest = &behind[length..];
    }
    Ok(frames)
}

/// Puts records together; with `sums` so that all checksums are right.
///
/// Of packages the END of the header and the last one have other sums than that of a stream
/// (format/4 5).
pub fn join(frames: &[Frame], sums: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut sum = Fletcher4::new();
    let (mut is_open, mut is_header) = (false, false);
    for frame in frames {
        let mut header = frame.header;
        let number = frame.kind();
        if number == kind::BEGIN {
            sum = Fletcher4::new();
            is_open = true;
            is_header = header[16] & 3 == 2;
            sum.update(&header, Endian::Little);
        } else {
            if sums && is_open && number == kind::END {
                put(&mut header[END_SUM], sum.words());
            }
            sum.update(&header[..CHECKSUM_OFFSET], Endian::Little);
            if sums && is_open && !is_header {
                put(&mut header[CHECKSUM_OFFSET..], sum.words());
            }
            sum.update(&header[CHECKSUM_OFFSET..], Endian::Little);
            is_open &= number != kind::END;
        }
        sum.update(&frame.payload, Endian::Little);
        stream.extend(header);
        stream.extend(&frame.payload);
    }
    stream
}

fn put(bytes: &mut [u8], words: [u64; 4]) {
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}
