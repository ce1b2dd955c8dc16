//! Reading ahead of readers that go forward.
//!
//! A *stream* is a reader expected at some block of some object. When it comes, the distance
//! read ahead doubles, up to a limit; when it does not, the stream is forgotten in time. The
//! reads are jobs for the cache's workers: they fill the cache and bother nobody if they fail.

use crate::object::Object;
use cenote_base::{BlockId, ObjectId};
use std::sync::{Mutex, PoisonError};

/// Streams remembered per object set.
const STREAMS_MAX: usize = 16;
/// A stream starts with this much ahead, in bytes.
const AHEAD_BYTES_MIN: u64 = 256 << 10;
/// And ends with this much: enough to keep a disk's queue full for some milliseconds.
const AHEAD_BYTES_MAX: u64 = 16 << 20;
/// Never more than a quarter of the decoded cache, or reading ahead would push out itself.
const CACHE_SHARE: u64 = 4;

#[derive(Debug)]
struct Stream {
    object: ObjectId,
    /// The block that the reader should ask for next.
    next: u64,
    /// The first block not yet read ahead.
    ahead: u64,
    /// Bytes to stay ahead.
    distance: u64,
}

/// The readers of one object set, most lately seen last.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Mutex<Vec<Stream>>,
}

impl Streams {
    /// Notes a read of `first..=last` and reads ahead if it continues a stream.
    pub(crate) fn read_ahead(&self, object: &Object, first: BlockId, last: BlockId) {
        if object.dnode().block_id_max.0 == 0 {
            return;
        }
        let Some((from, to)) = self.advance(object, first.0, last.0) else {
            return;
        };
        let fetch = |from: u64, to: u64| {
            let object = object.clone();
            move || {
                // An error here will meet the reader itself, if it ever comes so far.
                if let Ok(pointers) = object.data_pointers(BlockId(from), BlockId(to)) {
                    object.fetch(&pointers, from);
                }
            }
        };
        // About a megabyte a job: small enough to share out, large enough to be worth it.
        let step = (1 << 20) / object.dnode().data_block_size.min(1 << 20);
        let mut from = from;
        while from <= to {
            let end = to.min(from + step - 1);
            if object
                .set()
                .cache()
                .workers()
                .offer(fetch(from, end))
                .is_err()
            {
                return;
            }
            from = end + 1;
        }
    }

    /// The blocks to read ahead now, if any.
    fn advance(&self, object: &Object, first: u64, last: u64) -> Option<(u64, u64)> {
        let size = object.dnode().data_block_size;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        // A read may begin inside the block that the one before ended in.
        let continues =
            |s: &Stream| s.object == object.id() && (s.next == first || s.next == first + 1);
        let Some(position) = streams.iter().position(continues) else {
            if streams.len() == STREAMS_MAX {
                streams.remove(0);
            }
            let (next, distance) = (last + 1, AHEAD_BYTES_MIN / 2);
            streams.push(Stream {
                object: object.id(),
                next,
                ahead: last + 1,
                distance,
            });
            return None;
        };
        let mut stream = streams.remove(position);
        let limit = AHEAD_BYTES_MAX.min(object.set().cache().decoded_limit() / CACHE_SHARE);
        if last + 1 > stream.next {
            stream.distance = (stream.distance * 2).min(limit);
        }
        stream.next = last + 1;
        stream.ahead = stream.ahead.max(last + 1);
        let target = (last + stream.distance / size).min(object.dnode().block_id_max.0);
        // Top up when half of the distance is used, not block by block.
        let due = stream.ahead <= last + 1 + stream.distance / size / 2;
        let range = (due && target >= stream.ahead).then_some((stream.ahead, target));
        if let Some((_, to)) = range {
            stream.ahead = to + 1;
        }
        streams.push(stream);
        range
    }
}
