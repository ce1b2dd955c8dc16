//! Receiving: the records of a stream applied to a head that is open for writing.
//!
//! Source: format/4 7.3. Each record is a change of one object, in a transaction of its own, so
//! that a stream of any length needs no more memory than may be dirty at once. Nothing here makes
//! a dataset or a snapshot: a stream goes into a head that is marked as inconsistent
//! (`dsl::write::BeginReceive`), and only when END was met is that made a snapshot. A record whose
//! payload was changed on its way is noticed at the record behind it, which is early enough.
//!
//! A sender tells what it has, not what to do: an OBJECT may be what is there already, the object
//! with other attributes, or another object under the same number. [`object`] decides which, and
//! what of the old contents stays; wrong is worse than slow here, so whatever cannot be the same
//! object is freed first.
//!
//! Blocks that are whole are written without reading what they replace. Where another stream may go
//! on with this one, the head is told with each record how far it came ([`Target::resumed`]), which
//! is stored with the record's group.
//!
//! Blocks of raw streams are written as they come ([`raw`]): nobody here needs their keys.

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
