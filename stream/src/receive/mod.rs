//! Receiving: the records of a stream applied to a head that is open for writing.
//!
//! Source: format/4 7.3. Each record changes one object in a transaction of its own, so a stream of
//! any length needs no more memory than the limit of dirty data. Nothing here creates a dataset or
//! a snapshot: a stream goes into a head that is marked as inconsistent
//! (`dsl::write::BeginReceive`). It becomes a snapshot only at END. A payload that was changed
//! in transit is detected at the next record, which is early enough.
//!
//! A sender describes its state, not the changes: an OBJECT may be one that exists already, one
//! with other attributes, or another one with the same number. [`object`] decides which, and what
//! to keep of the old contents. A wrong guess is worse than a slow receive, so an object is freed
//! first unless it can be the same one.
//!
//! Full blocks are written without reading the old ones. If the stream can be resumed, each record
//! also stores in the head how much was received ([`Target::resumed`]), with the record's group.
//!
//! Blocks of raw streams are written as they arrive ([`raw`]): no keys are needed here.

mod apply;
pub mod correct;
mod data;
mod object;
mod raw;
mod target;

pub use target::Target;

use crate::error::{Place, StreamError};
use crate::reader::Reader;
use apply::Applier;
use cenote_ondisk::stream::{Begin, RECORD_SIZE, Record};
use std::io::Read;

/// What a stream brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the stream, BEGIN and its payload among them.
    pub bytes: u64,
}

/// Applies the records behind `begin`, which `reader` has just given, up to the stream's END.
///
/// # Errors
/// If the stream is damaged, cut, or asks for what cannot be; if the head cannot be read or
/// written, or has no room. What came before the record that the error names is applied.
pub fn receive<R: Read>(
    reader: &mut Reader<R>,
    begin: &Begin,
    target: &Target<'_>,
) -> Result<Received, StreamError> {
    let start = reader
        .offset()
        .saturating_sub(RECORD_SIZE as u64 + u64::from(begin.payload_length));
    let mut applier = Applier::new(target, begin);
    loop {
        let Some(item) = reader.next_item()? else {
            let missing = crate::error::Missing::Record;
            let place = Place::default();
            return Err(StreamError::Cut { place, missing });
        };
        if let Record::End(_) = item.header.record {
            applier.finish(item.header.place)?;
            break;
        }
        if (target.is_cancelled)() {
            let place = item.header.place;
            return Err(StreamError::Cancelled { place });
        }
        // As OpenZFS counts: with the record, and without the first.
        let end = item.header.place.offset + item.payload.len() as u64;
        applier.apply(&item, end.saturating_sub(start))?;
    }
    Ok(Received {
        bytes: reader.offset().saturating_sub(start),
    })
}

/// Reads over the records of a stream up to its END.
///
/// # Errors
/// If the stream is damaged or cut.
pub fn skip<R: Read>(reader: &mut Reader<R>) -> Result<Received, StreamError> {
    let start = reader.offset();
    while let Some(item) = reader.next_item()? {
        if let Record::End(_) = item.header.record {
            break;
        }
    }
    Ok(Received {
        bytes: reader.offset().saturating_sub(start) + RECORD_SIZE as u64,
    })
}
