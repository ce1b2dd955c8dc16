//! All blocks compressed in another way, or not at all.
//!
//! Blocks that would not become smaller by an eighth stay as they are when expanded, as when they
//! are stored (format/2a 4). Sizes are rounded up to sectors: a receiver stores a block as it
//! comes. BEGIN tells of what blocks now may be, since receivers refuse what it does not tell.

use super::{compression, expand, refuse, rewrite};
use crate::error::{Refusal, StreamError};
use cenote_base::SECTOR_SIZE;
use cenote_codec::compress::{self, Compression};
use cenote_ondisk::CompressionKind;
use cenote_ondisk::stream::{Begin, Feature, HeaderKind, Record, Write as WriteRecord};
use std::io::{Read, Write};

/// What blocks are compressed with; `None` for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The function.
    pub kind: Option<Compression>,
    /// A zstd level; other functions ignore it.
    pub level: i32,
}

/// Writes the stream from `source` to `sink` with its WRITE records compressed by `target`.
///
/// # Errors
/// If the stream is raw, damaged or cut, a block does not expand, or `sink` takes no more.
pub fn recompress(source: impl Read, sink: impl Write, target: Target) -> Result<(), StreamError> {
    let mut is_raw = false;
    rewrite(source, sink, |item| match &item.header.record {
        Record::Begin(begin) => {
            is_raw = begin.features.has(Feature::Raw);
            Ok((Record::Begin(Box::new(announce(begin, target))), None))
        }
        Record::Write(_) if is_raw => refuse(item, Refusal::Raw),
        Record::Write(write) => {
            let expanded = match (write.compression, compression(write.compression)) {
                (0, _) => None,
                (_, Some(kind)) => match expand(kind, write, item.payload) {
                    Some(block) => Some(block),
                    None => return refuse(item, Refusal::Block),
                },
                (_, None) => return refuse(item, Refusal::Block),
            };
            let block = expanded.as_deref().unwrap_or(item.payload);
            let (record, squeezed) = squeeze(write, block, target);
            Ok((Record::Write(record), squeezed.or(expanded)))
        }
        record => Ok((record.clone(), None)),
    })
}

/// BEGIN with the features that `target` needs.
fn announce(begin: &Begin, target: Target) -> Begin {
    let mut begin = begin.clone();
    if let (Some(kind), HeaderKind::Substream) = (target.kind, begin.header_kind) {
        let features = begin.features.with(Feature::Compressed);
        begin.features = match kind {
            Compression::Lz4 => features.with(Feature::Lz4),
            Compression::Zstd => features.with(Feature::Zstd),
            _ => features,
        };
    }
    begin
}

/// The record for `block`, and its payload where that is shorter than the block.
fn squeeze(write: &WriteRecord, block: &[u8], target: Target) -> (WriteRecord, Option<Vec<u8>>) {
    let plain = WriteRecord {
        compression: 0,
        compressed_size: 0,
        ..*write
    };
    let Some(kind) = target.kind else {
        return (plain, None);
    };
    let mut out = vec![0; block.len()];
    let capacity = block.len() - block.len() / 8;
    let Some(length) = compress::compress(kind, target.level, block, capacity, &mut out) else {
        return (plain, None);
    };
    let padded = length.next_multiple_of(SECTOR_SIZE as usize);
    if padded >= block.len() {
        return (plain, None);
    }
    // An encoder may have left something behind what it wrote.
    out[length..].fill(0);
    out.truncate(padded);
    let record = WriteRecord {
        compression: number(kind),
        compressed_size: padded as u64,
        ..*write
    };
    (record, Some(out))
}

fn number(kind: Compression) -> u8 {
    match kind {
        Compression::Lzjb => CompressionKind::Lzjb,
        Compression::Gzip(level) => CompressionKind::Gzip(level),
        Compression::Zle => CompressionKind::Zle,
        Compression::Lz4 => CompressionKind::Lz4,
        Compression::Zstd => CompressionKind::Zstd,
    }
    .number()
}
