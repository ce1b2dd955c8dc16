//! The progress of a stream's receiver, and the token with which it would request the rest.
//!
//! OpenZFS's receiver applies a record when it has read the header of the next one. It notes the
//! object, and the offset of the last block, and counts the bytes behind BEGIN's header
//! (format/4 6).

use crate::error::Missing;
use crate::reader::Item;
use cenote_base::ObjectId;
use cenote_ondisk::stream::{Begin, BeginPayload, HeaderKind, RECORD_SIZE, Record, ResumeToken};

/// What a receiver would have noted.
#[derive(Clone, Copy, Debug)]
struct Noted {
    object: ObjectId,
    offset: u64,
    bytes: u64,
}

/// The stream under way.
#[derive(Debug, Default)]
pub(super) struct Progress {
    stream: Option<(Begin, BeginPayload)>,
    /// Where its records begin, behind BEGIN's header.
    start: u64,
    /// As of the last whole record, and as of the one before it.
    noted: [Option<Noted>; 2],
}

impl Progress {
    /// Advances past a complete record.
    pub(super) fn pass(&mut self, item: &Item) {
        let header = item.header;
        let end = header.place.offset + (RECORD_SIZE + item.payload.len()) as u64;
        match &header.record {
            Record::Begin(begin) if begin.header_kind == HeaderKind::Substream => {
                self.start = header.place.offset + RECORD_SIZE as u64;
                let list = Begin::list(item.payload);
                let payload = list.and_then(|list| BeginPayload::from_list(&list));
                self.stream = payload.ok().map(|payload| ((**begin).clone(), payload));
                let (object, offset) = match &self.stream {
                    Some((_, payload)) => payload.resume.unwrap_or((ObjectId(1), 0)),
                    None => return,
                };
                let noted = Noted {
                    object,
                    offset,
                    bytes: 0,
                };
                self.noted = [Some(noted); 2];
                return;
            }
            Record::Begin(_) | Record::End(_) => {
                self.stream = None;
                return;
            }
            _ => {}
        }
        let [Some(last), _] = self.noted else {
            return;
        };
        let (object, offset) = match &header.record {
            Record::Object(object) => (object.object, 0),
            Record::Write(write) => (write.object, write.offset),
            Record::WriteEmbedded(write) => (write.object, write.offset),
            _ => (last.object, last.offset),
        };
        let noted = Noted {
            object,
            offset,
            bytes: end - self.start,
        };
        self.noted = [Some(noted), Some(last)];
    }

    /// The token of a stream that is cut off so; `None` between streams.
    pub(super) fn token(&self, missing: Missing) -> Option<ResumeToken> {
        let (begin, payload) = self.stream.as_ref()?;
        let [last, before] = self.noted;
        let noted = match missing {
            Missing::Payload(_) => last?,
            Missing::Record | Missing::Header(_) => before?,
        };
        Some(ResumeToken {
            object: noted.object,
            offset: noted.offset,
            bytes: noted.bytes,
            redact_snapshots: payload.redact_snapshots.clone(),
            bookmark_redact_snapshots: payload.redact_from_snapshots.clone(),
            ..ResumeToken::of_begin(begin)
        })
    }
}
