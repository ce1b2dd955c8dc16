//! The rest of a stream, as if it had never been cut.

use super::cut::Cut;
use crate::error::StreamError;
use crate::reader::{Item, Reader};
use crate::writer::Writer;
use cenote_ondisk::stream::{Begin, BeginPayload, Record, TO_THE_END, record_flags};
use std::io::{Read, Write};

/// Writes what belongs behind the bytes of `cut` that stay: `rest` is the stream that its token
/// asks for. Returns the bytes of all together.
///
/// # Errors
/// If `rest` is another stream or breaks off, or `sink` takes no more.
pub fn join(cut: &Cut, rest: impl Read, sink: impl Write) -> Result<u64, StreamError> {
    let mut reader = Reader::new(rest);
    let mut writer = Writer::going_on(sink, cut.order, (cut.sum, cut.bytes));
    let mut is_begun = false;
    while let Some(item) = reader.next_item()? {
        if !is_begun {
            match stands_before(cut, &item) {
                Some(true) => continue,
                Some(false) => is_begun = true,
                None => {
                    let place = item.header.place;
                    return Err(StreamError::NotTheRest { place });
                }
            }
        }
        writer.record(&item.header.record, item.payload)?;
    }
    let bytes = writer.offset();
    writer.finish()?;
    Ok(bytes)
}

/// Whether a record is only there so that the rest is a stream; `None` if it cannot be.
fn stands_before(cut: &Cut, item: &Item<'_>) -> Option<bool> {
    let (object, offset) = (cut.token.object, cut.token.offset);
    match &item.header.record {
        Record::Begin(begin) => {
            let list = Begin::list(item.payload).ok()?;
            let payload = BeginPayload::from_list(&list).ok()?;
            let is_next = begin.to_guid == cut.token.to_guid
                && payload.resume == Some((object, offset))
                && item.order == cut.order;
            is_next.then_some(true)
        }
        Record::Object(it) if it.object == object => Some(true),
        Record::ObjectRange(_) => Some(true),
        Record::Free(it) if it.object == object && it.length == TO_THE_END => Some(true),
        Record::Spill(it) if it.flags & record_flags::SPILL_UNMODIFIED != 0 => Some(true),
        Record::Write(it) if (it.object, it.offset) == (object, offset) => Some(false),
        Record::WriteEmbedded(it) if (it.object, it.offset) == (object, offset) => Some(false),
        // Slots before the object that have no objects, in the same block of dnodes.
        Record::FreeObjects(it) if it.first < object => Some(true),
        _ => None,
    }
}
