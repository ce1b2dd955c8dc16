//! Reading ahead of readers that go forward ([`Streams`](crate::streams::Streams)).
//!
//! The reads are jobs for the cache's workers: they fill the cache, and failures have no effect.
//!
//! Jobs come one by one, as the reader moves on: a burst of them would take the processors from
//! the reader, and leave them idle until the next.
//!
//! An object that is larger than the cache of decoded blocks gains nothing from it: at its second
//! reading the blocks wanted next are always those just dropped. So its decoded copies are given
//! up behind the reader, and the memory that they were in, still warm, takes the next ones.

use crate::object::Object;
use crate::streams::blocks_per_job;
use cenote_base::{BlockId, Bookmark, settings};
use cenote_cache::Retention;
use cenote_io::IoClass;
use std::ops::Range;

impl Object {
    /// Notes a read of `first..=last` and reads ahead if it continues a stream.
    pub(crate) fn read_ahead(&self, first: BlockId, last: BlockId) {
        let is_off = settings::PREFETCH_DISABLE.is_on() || !self.is_read_ahead();
        if self.dnode().block_id_max.0 == 0 || is_off {
            return;
        }
        let limit = decoded_limit(self);
        let streams = &self.set().streams;
        let advance = streams.advance((self.id(), self.dnode()), limit, first.0..=last.0);
        let counts = self.set().cache().read_ahead();
        match advance.is_continued {
            true => counts.continued.add(1),
            false => counts.begun.add(1),
        }
        give_up(self, advance.behind);
        let Some((from, to)) = advance.ahead else {
            return;
        };
        let io = self.set().io().with_class(IoClass::AsyncRead);
        let fetch = |from: u64, to: u64| {
            let object = self.for_io(&io);
            move || {
                // An error here will meet the reader itself, if it ever comes so far.
                if let Ok(pointers) = object.data_pointers(BlockId(from), BlockId(to)) {
                    let read = object.fetch(&pointers, from);
                    object.set().cache().read_ahead().blocks.add(read);
                }
            }
        };
        let step = blocks_per_job(self.dnode().data_block_size);
        let mut from = from;
        while from <= to {
            let end = to.min(from + step - 1);
            if self
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
}

/// Reads small objects of one object set into the cache, all at once and neighbours in one request.
///
/// Blocks that cannot be read are left to the caller that needs them, which gets the error.
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
