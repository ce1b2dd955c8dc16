//! Readers that go forward, and how far to read ahead of each.
//!
//! A *stream* is a reader expected at some block of some object. When it comes, the distance
//! read ahead doubles, up to a limit; when it does not, the stream is forgotten in time.

use cenote_base::rt::{Mutex, ranks};
use cenote_base::{ObjectId, settings};
use cenote_ondisk::Dnode;
use std::ops::{Range, RangeInclusive};

/// Bytes that one job reads ahead.
const JOB_BYTES: u64 = 1 << 20;
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
    /// The first block whose decoded copy was not given up yet.
    kept: u64,
}

/// What a read of a stream leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Advance {
    /// Blocks to read ahead, both ends included.
    pub(crate) ahead: Option<(u64, u64)>,
    /// Blocks that the reader has left behind.
    pub(crate) behind: Range<u64>,
    /// Whether the read continued where another one had ended.
    pub(crate) is_continued: bool,
}

/// Blocks of one job: about a megabyte, small enough to share out, large enough to be worth it.
pub(crate) fn blocks_per_job(block_size: u64) -> u64 {
    (JOB_BYTES / block_size).max(1)
}

/// The readers of one object set, most lately seen last.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Mutex<Vec<Stream>, ranks::PrefetchStreams>,
}

impl Streams {
    /// Notes a read of an object and says what is to be done about it. The cache has room for
    /// `decoded_limit` bytes of decoded blocks.
    pub(crate) fn advance(
        &self,
        (id, dnode): (ObjectId, &Dnode),
        decoded_limit: u64,
        blocks: RangeInclusive<u64>,
    ) -> Advance {
        let (first, last) = blocks.into_inner();
        let size = dnode.data_block_size;
        let mut streams = self.streams.lock();
        // A read may begin inside the block that the one before ended in.
        let continues = |s: &Stream| s.object == id && (s.next == first || s.next == first + 1);
        let Some(position) = streams.iter().position(continues) else {
            let streams_max = usize::try_from(settings::FETCH_STREAMS_MAX.get());
            let surplus = (streams.len() + 1).saturating_sub(streams_max.unwrap_or(usize::MAX));
            streams.drain(..surplus);
            let (next, distance) = (last + 1, settings::FETCH_DISTANCE_MIN.get() / 2);
            streams.push(Stream {
                object: id,
                next,
                ahead: last + 1,
                distance,
                kept: first,
            });
            return Advance::default();
        };
        let mut stream = streams.remove(position);
        let limit = settings::FETCH_DISTANCE_MAX
            .get()
            .min(decoded_limit / CACHE_SHARE);
        if last + 1 > stream.next {
            stream.distance = (stream.distance * 2).min(limit);
        }
        stream.next = last + 1;
        stream.ahead = stream.ahead.max(last + 1);
        let target = (last + stream.distance / size).min(dnode.block_id_max.0);
        // A whole job at a time, not block by block, but for short distances and the object's end.
        let is_end = target == dnode.block_id_max.0;
        let step = blocks_per_job(size).min((stream.distance / size / 2).max(1));
        let is_due = target.saturating_add(1).saturating_sub(stream.ahead) >= step || is_end;
        let ahead = (is_due && target >= stream.ahead).then_some((stream.ahead, target));
        if let Some((_, to)) = ahead {
            stream.ahead = to + 1;
        }
        // The block that this read begins in may have been read in part by the one before.
        let behind = stream.kept..first.max(stream.kept);
        stream.kept = behind.end;
        streams.push(stream);
        Advance {
            ahead,
            behind,
            is_continued: true,
        }
    }
}
