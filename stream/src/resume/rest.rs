//! What a receiver still needs of a stream that is all there.

use crate::error::StreamError;
use crate::reader::{Item, Reader};
use crate::writer::Writer;
use cenote_base::Guid;
use cenote_ondisk::stream::{
    Begin, ByteOrder, Feature, HeaderKind, Record, ResumeToken, TO_THE_END, record_flags,
};
use std::io::{Read, Write};

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Goes,
    Stays,
    /// It and everything after it goes.
    IsReached,
}

/// Writes the streams of `source` to `sink`; those that a token is for only from where it says.
///
/// # Errors
/// If `source` is no stream, breaks off, or its numbers are big-endian and a token is for it; or
/// `sink` takes no more.
pub fn rest(
    source: impl Read,
    tokens: &[ResumeToken],
    sink: impl Write,
) -> Result<u64, StreamError> {
    let mut reader = Reader::new(source);
    let mut writer = Writer::new(sink, ByteOrder::Little);
    let mut going_on: Option<&ResumeToken> = None;
    let mut range: Option<Record> = None;
    while let Some(item) = reader.next_item()? {
        let place = item.header.place;
        if item.order == ByteOrder::Big {
            return Err(StreamError::NotTheRest { place });
        }
        let record = &item.header.record;
        if let Record::Begin(begin) = record {
            going_on = token_for(tokens, begin);
            if let Some(token) = going_on {
                let (begin, payload) = resuming(begin, token, &item)?;
                writer.record(&begin, &payload)?;
                continue;
            }
        }
        let Some(token) = going_on else {
            writer.record(record, item.payload)?;
            continue;
        };
        match fate(record, token) {
            Fate::Stays if matches!(record, Record::ObjectRange(_)) => {
                range = Some(record.clone());
            }
            Fate::Stays => {}
            fate => {
                if let Some(range) = range.take() {
                    writer.record(&range, &[])?;
                }
                writer.record(record, item.payload)?;
                if fate == Fate::IsReached {
                    going_on = None;
                }
            }
        }
    }
    let bytes = writer.offset();
    writer.finish()?;
    Ok(bytes)
}

fn token_for<'a>(tokens: &'a [ResumeToken], begin: &Begin) -> Option<&'a ResumeToken> {
    let is_for = |token: &&ResumeToken| {
        let from = token.from_guid.unwrap_or(Guid(0));
        (token.to_guid, from) == (begin.to_guid, begin.from_guid)
    };
    let is_stream = begin.header_kind == HeaderKind::Substream;
    tokens.iter().find(|token| is_stream && is_for(token))
}

/// BEGIN of a stream that resumes at the token's position.
fn resuming(
    begin: &Begin,
    token: &ResumeToken,
    item: &Item<'_>,
) -> Result<(Record, Vec<u8>), StreamError> {
    let place = item.header.place;
    let wrong = |source| StreamError::Record { place, source };
    let mut list = Begin::list(item.payload).map_err(wrong)?;
    list.set_u64("resume_object", token.object.0);
    list.set_u64("resume_offset", token.offset);
    let payload = list.encode_native();
    let begin = Begin {
        payload_length: u32::try_from(payload.len()).unwrap_or(u32::MAX),
        features: begin.features.with(Feature::Resuming),
        ..begin.clone()
    };
    Ok((Record::Begin(Box::new(begin)), payload))
}

/// What happens to a record before the position at which the receiver resumes.
fn fate(record: &Record, token: &ResumeToken) -> Fate {
    let at = |object, offset| match (object, offset) < (token.object, token.offset) {
        true => Fate::Stays,
        false => Fate::IsReached,
    };
    match record {
        Record::Object(it) if it.object == token.object => Fate::Goes,
        Record::Object(it) => at(it.object, 0),
        Record::ObjectRange(_) => Fate::Stays,
        Record::Free(it) if it.length == TO_THE_END && it.object == token.object => Fate::Goes,
        Record::Free(it) => at(it.object, it.offset),
        Record::Redact(it) => at(it.object, it.offset),
        Record::Write(it) => at(it.object, it.offset),
        Record::WriteEmbedded(it) => at(it.object, it.offset),
        Record::WriteByReference(it) => at(it.object, it.offset),
        Record::Spill(it) if it.flags & record_flags::SPILL_UNMODIFIED != 0 => {
            match it.object < token.object {
                true => Fate::Stays,
                false => Fate::Goes,
            }
        }
        // It stands behind the blocks of its object.
        Record::Spill(it) => at(it.object, u64::MAX),
        Record::FreeObjects(it) => match it.first < token.object {
            true => Fate::Stays,
            false => Fate::IsReached,
        },
        Record::Begin(_) | Record::End(_) => Fate::IsReached,
    }
}
