//! Decompressing chosen blocks, whatever the stream says about their compression.
//!
//! OpenZFS once stored and sent compressed blocks as if they were uncompressed. A receiver cannot
//! detect that. A user who sees the damage in a file can specify the blocks.

use super::{expand, refuse, rewrite};
use crate::error::{Place, Refusal, StreamError};
use cenote_base::ObjectId;
use cenote_codec::compress::Compression;
use cenote_ondisk::stream::{Record, Write as WriteRecord};
use std::io::{Read, Write};

/// Blocks to expand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The object.
    pub object: ObjectId,
    /// Bytes from its start.
    pub offset: u64,
    /// The compression of its blocks; `None` if they are not compressed, and only the record says
    /// so.
    pub kind: Option<Compression>,
}

/// What was done with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is expanded.
    Decompressed,
    /// The record says now that it is not compressed.
    Reset,
    /// It is as it was: it does not expand.
    Failed,
}

/// Writes the stream from `source` to `sink` with the blocks of `selections` decompressed, and
/// calls
/// `told` for each of them.
///
/// # Errors
/// If the stream is damaged or cut, or a block is to be called uncompressed that has not the size
/// for it, or `sink` takes no more.
pub fn decompress(
    source: impl Read,
    sink: impl Write,
    selections: &[Selection],
    mut told: impl FnMut(Place, &Selection, Done),
) -> Result<(), StreamError> {
    rewrite(source, sink, |item| {
        let Record::Write(write) = &item.header.record else {
            return Ok((item.header.record.clone(), None));
        };
        let is_chosen =
            |chosen: &&Selection| (chosen.object, chosen.offset) == (write.object, write.offset);
        let Some(chosen) = selections.iter().rev().find(is_chosen) else {
            return Ok((item.header.record.clone(), None));
        };
        let place = item.header.place;
        let plain = WriteRecord {
            compression: 0,
            compressed_size: 0,
            ..*write
        };
        let Some(kind) = chosen.kind else {
            if item.payload.len() as u64 != write.logical_size {
                return refuse(item, Refusal::Size);
            }
            told(place, chosen, Done::Reset);
            return Ok((Record::Write(plain), None));
        };
        match expand(kind, write, item.payload) {
            Some(block) => {
                told(place, chosen, Done::Decompressed);
                Ok((Record::Write(plain), Some(block)))
            }
            None => {
                told(place, chosen, Done::Failed);
                Ok((Record::Write(*write), None))
            }
        }
    })
}
