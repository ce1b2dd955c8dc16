//! Reading ahead of readers that go forward.
//!
//! A *stream* is a reader expected at some block of some object. When it comes, the distance
//! read ahead doubles, up to a limit; when it does not, the stream is forgotten in time. The
//! reads are jobs for the cache's workers: they fill the cache and bother nobody if they fail.
//!
//! Jobs come one by one, as the reader moves on: a burst of them would take the processors from
//! the reader, and leave them idle until the next.
//!
//! An object that is larger than the cache of decoded blocks gains nothing from it: at its second
//! reading the blocks wanted next are always those just dropped. So its decoded copies are given
//! up behind the reader, and the memory that they were in, still warm, takes the next ones.

use crate::object::Object;
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{BlockId, Bookmark, ObjectId, settings};
use cenote_cache::Retention;
use cenote_io::IoClass;
use std::ops::Range;

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
struct Advance {
    /// Blocks to read ahead, both ends included.
    ahead: Option<(u64, u64)>,
    /// Blocks that the reader has left behind.
    behind: Range<u64>,
}

/// Blocks of one job: about a megabyte, small enough to share out, large enough to be worth it.
fn blocks_per_job(block_size: u64) -> u64 {
    (JOB_BYTES / block_size).max(1)
}

/// The readers of one object set, most lately seen last.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Mutex<Vec<Stream>, ranks::PrefetchStreams>,
}

impl Streams {
    /// Notes a read of `first..=last` and reads ahead if it continues a stream.
    pub(crate) fn read_ahead(&self, object: &Object, first: BlockId, last: BlockId) {
        let is_off = settings::PREFETCH_DISABLE.is_on() || !object.is_read_ahead();
        if object.dnode().block_id_max.0 == 0 || is_off {
            return;
        }
        let advance = self.advance(object, first.0, last.0);
        give_up(object, advance.behind);
        let Some((from, to)) = advance.ahead else {
            return;
        };
        let io = object.set().io().with_class(IoClass::AsyncRead);
        let fetch = |from: u64, to: u64| {
            let object = object.for_io(&io);
            move || {
                // An error here will meet the reader itself, if it ever comes so far.
                if let Ok(pointers) = object.data_pointers(BlockId(from), BlockId(to)) {
                    object.fetch(&pointers, from);
                }
            }
        };
        let step = blocks_per_job(object.dnode().data_block_size);
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

    /// Notes a read and says what is to be done about it.
    fn advance(&self, object: &Object, first: u64, last: u64) -> Advance {
        let size = object.dnode().data_block_size;
        let mut streams = self.streams.lock();
        // A read may begin inside the block that the one before ended in.
        let continues =
            |s: &Stream| s.object == object.id() && (s.next == first || s.next == first + 1);
        let Some(position) = streams.iter().position(continues) else {
            let streams_max = usize::try_from(settings::FETCH_STREAMS_MAX.get());
            let surplus = (streams.len() + 1).saturating_sub(streams_max.unwrap_or(usize::MAX));
            streams.drain(..surplus);
            let (next, distance) = (last + 1, settings::FETCH_DISTANCE_MIN.get() / 2);
            streams.push(Stream {
                object: object.id(),
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
            .min(decoded_limit(object) / CACHE_SHARE);
        if last + 1 > stream.next {
            stream.distance = (stream.distance * 2).min(limit);
        }
        stream.next = last + 1;
        stream.ahead = stream.ahead.max(last + 1);
        let target = (last + stream.distance / size).min(object.dnode().block_id_max.0);
        // A whole job at a time, not block by block, but for short distances and the object's end.
        let is_end = target == object.dnode().block_id_max.0;
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
        Advance { ahead, behind }
    }
}

/// Reads small objects of one object set into the cache, all at once and neighbours in one request.
///
/// What cannot be read is left to whoever asks for it, who is told why.
pub fn fetch_whole(objects: &[Object]) {
    let Some(set) = objects.first().map(Object::set) else {
        return;
    };
    let cache = set.cache().for_io(&set.io().with_class(IoClass::AsyncRead));
    for retention in [Retention::Keep, Retention::Pass] {
        let own = objects.iter().filter(|own| own.retention(0) == retention);
        let blocks = own.filter_map(|object| {
            let last = object.dnode().block_id_max;
            let pointers = object.data_pointers(BlockId(0), last).ok()?;
            let place = |id| Bookmark::data(set.id(), object.id(), BlockId(id));
            let blocks = pointers.into_iter().zip(0..);
            Some(
                blocks
                    .map(move |(pointer, id)| (pointer, place(id)))
                    .collect::<Vec<_>>(),
            )
        });
        let blocks: Vec<_> = blocks.flatten().collect();
        let keys = set.keys().map(AsRef::as_ref);
        cache.fetch(&blocks, keys, retention);
    }
}

/// Bytes that the cache has for decoded blocks of an object's contents.
fn decoded_limit(object: &Object) -> u64 {
    let retention = object.retention(0);
    object.set().cache().decoded_limit(retention)
}

/// Gives up the decoded copies of blocks of an object that is too large for them.
fn give_up(object: &Object, blocks: Range<u64>) {
    let dnode = object.dnode();
    let blocks_all = dnode.block_id_max.0.saturating_add(1);
    let size = blocks_all.saturating_mul(dnode.data_block_size);
    let cache = object.set().cache();
    if blocks.is_empty() || size <= decoded_limit(object) {
        return;
    }
    let (first, last) = (BlockId(blocks.start), BlockId(blocks.end - 1));
    // The indirect blocks are cached: the same pointers were wanted a moment ago.
    let pointers = object.data_pointers(first, last).unwrap_or_default();
    for pointer in pointers.iter().filter(|pointer| !pointer.is_hole()) {
        cache.give_up_decoded(pointer);
    }
}
