//! Corrective receive: repairing lost blocks of a snapshot from a stream of it.
//!
//! Source: format/4 7.5, `-c`. The stream only repairs blocks: each WRITE first checks whether the
//! block of the snapshot is readable. If no copy of it is left, the record's data is converted to
//! its stored form. If this has the checksum of the block pointer, it is written to the block's
//! place. So a wrong or corrupted stream changes nothing.
//!
//! Raw and compressed streams have blocks in their stored form, which can be used as they are.
//! Uncompressed data is compressed with the function of the pointer. The level is unknown, so all
//! are tried; the result is the same only with the same encoder. Data of an encrypted block is not
//! encrypted here: a raw stream repairs it, without a key.

use super::data::compression_of;
use crate::error::StreamError;
use crate::reader::Reader;
use cenote_base::{BlockId, Bookmark, Level};
use cenote_codec::compress::{self, Compression};
use cenote_dmu::{DmuError, ObjectSet};
use cenote_io::IoError;
use cenote_ondisk::stream::{Begin, Feature, RECORD_SIZE, Record, Write};
use cenote_ondisk::{BlockPointer, CompressionKind};
use std::io::Read;
use std::sync::Arc;

/// Levels of zstd that are tried; the ones in common use come first.
const ZSTD_LEVELS: [i32; 21] = [
    3, 1, 2, 6, 9, 19, 4, 5, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, -1, -10,
];

/// The repairs that a stream made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrected {
    /// Bytes of the stream.
    pub bytes: u64,
    /// Blocks of which no copy could be read.
    pub damaged: u64,
    /// Those of them that can be read again.
    pub healed: u64,
}

/// Reads the records behind `begin` up to END, and has what is damaged of `set` written again.
///
/// # Errors
/// If the stream is damaged or cut, or `is_cancelled` returns true.
pub fn correct<R: Read>(
    reader: &mut Reader<R>,
    begin: &Begin,
    set: &Arc<ObjectSet>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Corrected, StreamError> {
    let start = reader
        .offset()
        .saturating_sub(RECORD_SIZE as u64 + u64::from(begin.payload_length));
    let is_raw = begin.features.has(Feature::Raw);
    let mut corrected = Corrected::default();
    while let Some(item) = reader.next_item()? {
        let place = item.header.place;
        match &item.header.record {
            Record::End(_) => break,
            _ if is_cancelled() => return Err(StreamError::Cancelled { place }),
            Record::Write(write) => {
                let healed = heal(set, write, item.payload, is_raw);
                let healed = healed.map_err(|source| StreamError::Apply {
                    place,
                    record: "WRITE",
                    source: Box::new(source),
                })?;
                corrected.damaged += u64::from(healed.is_some());
                corrected.healed += u64::from(healed == Some(true));
            }
            _ => {}
        }
    }
    corrected.bytes = reader.offset().saturating_sub(start);
    Ok(corrected)
}

/// Heals a block; `None` if there was no need, false if there was and these bytes are not its.
fn heal(
    set: &Arc<ObjectSet>,
    write: &Write,
    payload: &[u8],
    is_raw: bool,
) -> Result<Option<bool>, DmuError> {
    let Ok(object) = set.object(write.object) else {
        // There may have been such a block, but which one is unknown.
        return Ok(None);
    };
    let size = object.block_size();
    if write.logical_size != size || !write.offset.is_multiple_of(size) {
        return Ok(None);
    }
    let block = BlockId(write.offset / size);
    let Ok(pointer) = object.block_pointer(0, block) else {
        return Ok(None);
    };
    if pointer.is_hole() || pointer.is_embedded() || pointer.is_redacted() {
        return Ok(None);
    }
    let bookmark = Bookmark {
        objset: set.id(),
        object: write.object,
        level: Level(0),
        block,
    };
    let pipeline = set.cache().pipeline();
    match pipeline.read_stored(&pointer, bookmark, set.io()) {
        Ok(_) => return Ok(None),
        Err(IoError::Unreadable { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    if pointer.uses_crypt() && !is_raw {
        return Ok(Some(false));
    }
    for stored in candidates(&pointer, write, payload) {
        if pipeline.restore(&pointer, bookmark, &stored, set.io())? {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

/// What may be the bytes that the block was stored as, one after another.
fn candidates<'a>(
    pointer: &'a BlockPointer,
    write: &Write,
    payload: &'a [u8],
) -> Box<dyn Iterator<Item = Vec<u8>> + 'a> {
    let size = usize::try_from(pointer.physical_size()).unwrap_or(0);
    let kind = pointer.compression();
    let sent = match write.compression {
        0 => Some(CompressionKind::Off),
        number => CompressionKind::from_number(number),
    };
    if sent == kind {
        return Box::new(padded(payload.to_vec(), size).into_iter());
    }
    let contents = match sent {
        Some(CompressionKind::Off) => payload.to_vec(),
        sent => match expanded(sent.and_then(compression_of), payload, write.logical_size) {
            Some(contents) => contents,
            None => return Box::new(std::iter::empty()),
        },
    };
    let Some(kind) = kind.and_then(compression_of) else {
        return Box::new(padded(contents, size).into_iter());
    };
    let levels: &[i32] = match kind {
        Compression::Zstd => &ZSTD_LEVELS,
        _ => &[0],
    };
    Box::new(levels.iter().filter_map(move |level| {
        let mut out = vec![0; size];
        let length = compress::compress(kind, *level, &contents, size, &mut out)?;
        out[length..].fill(0);
        Some(out)
    }))
}

fn expanded(kind: Option<Compression>, payload: &[u8], size: u64) -> Option<Vec<u8>> {
    let mut contents = vec![0; usize::try_from(size).ok()?];
    compress::decompress(kind?, payload, &mut contents).ok()?;
    Some(contents)
}

/// The bytes with zeros behind them, `size` in all; `None` if they are more.
fn padded(mut bytes: Vec<u8>, size: usize) -> Option<Vec<u8>> {
    let fits = bytes.len() <= size;
    bytes.resize(size, 0);
    fits.then_some(bytes)
}
