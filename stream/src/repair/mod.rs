//! Changing a stream in a file: other compression, or no references within the stream.
//!
//! All changes copy a stream with new checksums. They are made for streams whose pool is lost or
//! out of reach; otherwise it is simpler to send again.
//!
//! Streams are longer than memory, so damage is found when part of the copy is already written.
//! That part has no END, so no receiver takes it for complete.

mod decompress;
mod recompress;
mod redup;

pub use decompress::{Done, Selection, decompress};
pub use recompress::{Target, recompress};
pub use redup::{Redup, redup};

use crate::error::{Refusal, StreamError};
use crate::reader::{Checks, Item, Reader};
use crate::writer::Writer;
use cenote_codec::compress::{self, Compression};
use cenote_ondisk::CompressionKind;
use cenote_ondisk::stream::{Record, Write as WriteRecord};
use std::io::{Read, Write};

/// A change to one record: the record to write, and its payload unless it is the one that was
/// read.
type Changed = (Record, Option<Vec<u8>>);

/// Writes the stream from `source` to `sink`, each record as `change` wants it.
fn rewrite<W: Write>(
    source: impl Read,
    sink: W,
    mut change: impl FnMut(&Item) -> Result<Changed, StreamError>,
) -> Result<(), StreamError> {
    // A receiver would refuse the streams that these changes repair.
    let checks = Checks {
        contents: false,
        ..Checks::default()
    };
    let mut reader = Reader::with_checks(source, checks);
    let mut writer: Option<Writer<&mut W>> = None;
    let mut sink = sink;
    while let Some(header) = reader.next_header()?.cloned() {
        let order = reader.byte_order();
        let payload = reader.read_payload()?;
        let item = Item {
            header: &header,
            payload,
            order,
        };
        let (record, changed) = change(&item)?;
        let payload = changed.as_deref().unwrap_or(payload);
        let mut at = match writer.take() {
            Some(writer) => writer,
            None => Writer::new(&mut sink, order),
        };
        at.record(&record, payload)?;
        writer = Some(at);
    }
    match writer {
        Some(writer) => writer.finish().map(drop),
        None => Ok(()),
    }
}

/// The function of this number in a record, if it is one that shortens.
fn compression(number: u8) -> Option<Compression> {
    Some(match CompressionKind::from_number(number)? {
        CompressionKind::Lzjb => Compression::Lzjb,
        CompressionKind::Gzip(level) => Compression::Gzip(level),
        CompressionKind::Zle => Compression::Zle,
        CompressionKind::Lz4 => Compression::Lz4,
        CompressionKind::Zstd => Compression::Zstd,
        _ => return None,
    })
}

/// `payload` expanded to the block's logical size; `None` if it is no stream of that kind.
///
/// The record's sizes were bounded when its payload was read, except for this one.
fn expand(kind: Compression, write: &WriteRecord, payload: &[u8]) -> Option<Vec<u8>> {
    let size = write.logical_size;
    if size > cenote_base::BLOCK_SIZE_MAX {
        return None;
    }
    let mut block = vec![0; usize::try_from(size).ok()?];
    compress::decompress(kind, payload, &mut block).ok()?;
    Some(block)
}

fn refuse<T>(item: &Item, refusal: Refusal) -> Result<T, StreamError> {
    let place = item.header.place;
    Err(StreamError::Refused { place, refusal })
}

#[cfg(test)]
mod tests;
