//! Where a stream that was cut can be resumed.

use crate::error::StreamError;
use crate::reader::Reader;
use cenote_base::ObjectId;
use cenote_codec::checksum::Fletcher4;
use cenote_ondisk::stream::{Begin, BeginPayload, ByteOrder, Record, ResumeToken};
use std::io::Read;

/// A stream that breaks off.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Bytes that stay.
    pub bytes: u64,
    /// What asks for the rest.
    pub token: ResumeToken,
    /// The order of its numbers.
    pub(super) order: ByteOrder,
    /// The checksum of what stays.
    pub(super) sum: Fletcher4,
}

/// What a file is.
#[derive(Clone, Debug)]
pub enum Found {
    /// A whole stream or package.
    Whole,
    /// A cut stream that can be resumed.
    Cut(Box<Cut>),
    /// The beginning of a stream that has no block yet, of a package, or of nothing.
    Beginning,
}

/// Reads as much of a stream as there is, and returns how to resume it.
///
/// # Errors
/// If it cannot be read, or is not a stream.
pub fn cut(source: impl Read) -> Result<Found, StreamError> {
    let mut reader = Reader::new(source);
    let mut begin: Option<(Begin, BeginPayload)> = None;
    let mut start = 0;
    let mut last: Option<(u64, Fletcher4, (ObjectId, u64))> = None;
    loop {
        let before = reader.sum();
        let header = match reader.next_header() {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(Found::Whole),
            Err(error @ (StreamError::Read { .. } | StreamError::NotAStream)) => return Err(error),
            // It is cut, or damaged: then what comes before the damage stays.
            Err(_) => break,
        };
        let offset = header.place.offset;
        match &header.record {
            Record::Begin(it) => {
                let it = Begin::clone(it);
                let Ok(payload) = reader.read_payload() else {
                    break;
                };
                let list = Begin::list(payload).and_then(|list| BeginPayload::from_list(&list));
                begin = list.ok().map(|payload| (it, payload));
                start = reader.offset();
                last = None;
            }
            Record::Write(write) => last = Some((offset, before, (write.object, write.offset))),
            Record::WriteEmbedded(write) => {
                last = Some((offset, before, (write.object, write.offset)));
            }
            _ => {}
        }
        if reader.read_payload().is_err() {
            break;
        }
    }
    let (Some((begin, payload)), Some((bytes, sum, place))) = (begin, last) else {
        return Ok(Found::Beginning);
    };
    if reader.is_packaged() {
        return Ok(Found::Beginning);
    }
    let token = ResumeToken {
        object: place.0,
        offset: place.1,
        bytes: bytes.saturating_sub(start),
        redact_snapshots: payload.redact_snapshots,
        bookmark_redact_snapshots: payload.redact_from_snapshots,
        ..ResumeToken::of_begin(&begin)
    };
    let order = reader.byte_order();
    Ok(Found::Cut(Box::new(Cut {
        bytes,
        token,
        order,
        sum,
    })))
}
