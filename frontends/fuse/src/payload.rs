//! Answers in bulk: data of a read, and directory listings.
//!
//! A [`Payload`] is a list of borrowed pieces that one `writev` hands to the kernel, which copies
//! them straight into the reader's pages. Cached blocks enter it as shared references, holes as
//! references to a block of zeros, and only what has no lasting home is copied to the worker's
//! scratch buffer. A worker reuses one payload for all its requests.
//!
//! Invariants: the sum of the pieces never exceeds the limit; the scratch buffer is as long as the
//! limit, hence it has room whenever the limit has; at most [`SEGMENTS_MAX`] pieces exist, after
//! which further pieces are copied, so that `writev` never meets its limit of 1024.

use crate::protocol::reply;
use crate::values::{Entry, FileKind};
use std::fmt;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that several owners may hold, such as a block in a cache.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Pieces per answer; the kernel's limit for one `writev` is 1024, one is the header's.
const SEGMENTS_MAX: usize = 512;

/// Pieces up to this size are copied even if they could be lent. The kernel looks up and pins each
/// page that it copies from, which for one it has not seen lately costs as much as copying some
/// hundred bytes to scratch memory that it has just seen.
const COPY_SIZE_MAX: usize = 1024;

/// Holes are sent as references to this block. 64 KiB keep it in the second-level cache.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

enum Segment {
    Scratch(Range<usize>),
    Shared(SharedBytes, Range<usize>),
    Static(&'static [u8]),
}

/// The bytes of an answer, gathered without copying where possible.
pub struct Payload {
    segments: Vec<Segment>,
    scratch: Vec<u8>,
    scratch_used: usize,
    length: usize,
    limit: usize,
    overflowed: bool,
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Payload")
            .field("length", &self.length)
            .field("limit", &self.limit)
            .field("segments", &self.segments.len())
            .finish()
    }
}

impl Payload {
    /// An empty payload that can hold `capacity` bytes. The memory is touched only when used.
    pub fn new(capacity: usize) -> Self {
        Payload {
            segments: Vec::with_capacity(16),
            scratch: vec![0; capacity],
            scratch_used: 0,
            length: 0,
            limit: capacity,
            overflowed: false,
        }
    }

    /// Drops all pieces and admits up to `limit` bytes, or the capacity if that is less.
    pub fn reset(&mut self, limit: usize) {
        self.segments.clear();
        self.scratch_used = 0;
        self.length = 0;
        self.limit = limit.min(self.scratch.len());
        self.overflowed = false;
    }

    /// Bytes gathered so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was gathered yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that still fit; what exceeds it is left out, and [`overflowed`](Self::overflowed)
    /// remembers that.
    pub fn remaining(&self) -> usize {
        self.limit - self.length
    }

    /// Whether something was cut off because it did not fit.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// How many of `wanted` bytes are taken.
    fn admit(&mut self, wanted: usize) -> usize {
        self.overflowed |= wanted > self.remaining();
        wanted.min(self.remaining())
    }

    /// Appends `range` of `owner`'s bytes without copying them. A range beyond the end is cut.
    pub fn push_shared(&mut self, owner: SharedBytes, range: Range<usize>) {
        let available = (*owner).as_ref().len();
        let start = range.start.min(available);
        let end = range.end.min(available).max(start);
        let end = start + self.admit(end - start);
        if start == end {
            return;
        }
        if end - start <= COPY_SIZE_MAX || self.segments.len() >= SEGMENTS_MAX {
            self.copy_in(&(*owner).as_ref()[start..end]);
            return;
        }
        self.length += end - start;
        self.segments.push(Segment::Shared(owner, start..end));
    }

    /// Appends bytes that live for ever.
    pub fn push_static(&mut self, bytes: &'static [u8]) {
        let bytes = &bytes[..self.admit(bytes.len())];
        if bytes.is_empty() {
            return;
        }
        if self.segments.len() >= SEGMENTS_MAX {
            self.copy_in(bytes);
            return;
        }
        self.length += bytes.len();
        self.segments.push(Segment::Static(bytes));
    }

    /// Appends `count` zero bytes.
    pub fn push_zeros(&mut self, count: usize) {
        let mut left = self.admit(count);
        while left > 0 {
            let piece = left.min(ZEROS.len());
            self.push_static(&ZEROS[..piece]);
            left -= piece;
        }
    }

    /// Appends a copy of `bytes`.
    pub fn push_copy(&mut self, bytes: &[u8]) {
        let count = self.admit(bytes.len());
        self.copy_in(&bytes[..count]);
    }

    /// Lets `fill` write up to `size` bytes in place and appends as many as it says it wrote.
    ///
    /// The buffer's old content is arbitrary.
    pub fn push_filled<E>(
        &mut self,
        size: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let start = self.scratch_used;
        let room = size.min(self.remaining());
        let written = fill(&mut self.scratch[start..start + room])?;
        assert!(written <= room, "more bytes written than there was room");
        self.extend_scratch(written);
        Ok(())
    }

    fn copy_in(&mut self, bytes: &[u8]) {
        let start = self.scratch_used;
        self.scratch[start..start + bytes.len()].copy_from_slice(bytes);
        self.extend_scratch(bytes.len());
    }

    /// Makes the next `count` bytes of scratch part of the answer.
    fn extend_scratch(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let start = self.scratch_used;
        self.scratch_used += count;
        self.length += count;
        assert!(self.length <= self.limit, "the payload outgrew its limit");
        match self.segments.last_mut() {
            Some(Segment::Scratch(range)) if range.end == start => range.end += count,
            _ => self.segments.push(Segment::Scratch(start..start + count)),
        }
    }

    /// Number of pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.segments.len()
    }

    /// The pieces in order, appended to `slices`.
    pub(crate) fn gather<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        slices.extend(
            self.segments
                .iter()
                .map(|segment| IoSlice::new(self.bytes_of(segment))),
        );
    }

    /// The only piece, when there is at most one: the common case needs no list.
    pub(crate) fn single(&self) -> Option<&[u8]> {
        match self.segments.as_slice() {
            [] => Some(&[]),
            [segment] => Some(self.bytes_of(segment)),
            _ => None,
        }
    }

    fn bytes_of<'a>(&'a self, segment: &'a Segment) -> &'a [u8] {
        match segment {
            Segment::Scratch(range) => &self.scratch[range.clone()],
            Segment::Shared(owner, range) => &(**owner).as_ref()[range.clone()],
            Segment::Static(bytes) => bytes,
        }
    }

    /// A copy of everything, for tests and for callers that need one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.length);
        for segment in &self.segments {
            whole.extend_from_slice(self.bytes_of(segment));
        }
        whole
    }
}

/// A directory listing under construction, encoded in place.
#[derive(Debug)]
pub struct DirectoryReply<'a> {
    buffer: &'a mut [u8],
    used: usize,
    with_attributes: bool,
}

impl<'a> DirectoryReply<'a> {
    /// A listing that must fit in `buffer`; `with_attributes` selects readdirplus.
    pub fn new(buffer: &'a mut [u8], with_attributes: bool) -> Self {
        DirectoryReply {
            buffer,
            used: 0,
            with_attributes,
        }
    }

    /// Whether [`add_entry`](Self::add_entry) is wanted, so that attributes are worth loading.
    pub fn wants_attributes(&self) -> bool {
        self.with_attributes
    }

    /// Bytes used so far.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no entry was added yet.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// About how many entries with names of `name_length` bytes still fit: the batch to load.
    pub fn capacity_hint(&self, name_length: usize) -> usize {
        let each = reply::directory_entry_size(name_length, self.with_attributes);
        (self.buffer.len() - self.used) / each
    }

    /// Adds a name with its type only. `next` is the cookie at which the following entry starts.
    /// Returns false, having added nothing, when the reply is full.
    pub fn add_name(&mut self, name: &[u8], ino: u64, kind: FileKind, next: u64) -> bool {
        self.append(name, ino, kind, next, None)
    }

    /// Adds a name with its file's attributes, which the kernel remembers as if looked up.
    /// Returns false, having added nothing, when the reply is full.
    pub fn add_entry(&mut self, name: &[u8], entry: &Entry, next: u64) -> bool {
        self.append(name, entry.attr.ino, entry.attr.kind, next, Some(entry))
    }

    fn append(
        &mut self,
        name: &[u8],
        ino: u64,
        kind: FileKind,
        next: u64,
        entry: Option<&Entry>,
    ) -> bool {
        let size = reply::directory_entry_size(name.len(), self.with_attributes);
        let Some(space) = self.buffer[self.used..].get_mut(..size) else {
            return false;
        };
        let entry = self.with_attributes.then_some(entry);
        reply::encode_directory_entry(space, name, ino, kind, next, entry);
        self.used += size;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(bytes: &[u8]) -> SharedBytes {
        Arc::new(bytes.to_vec())
    }

    #[test]
    fn pieces_keep_their_order() {
        let mut payload = Payload::new(100);
        payload.push_copy(b"ab");
        payload.push_shared(shared(b"0123456789"), 3..6);
        payload.push_zeros(2);
        payload.push_copy(b"cd");
        payload.push_static(b"ef");
        assert_eq!(payload.to_vec(), b"ab345\0\0cdef");
        assert_eq!(payload.len(), 11);
        assert_eq!(payload.single(), None);
    }

    #[test]
    fn the_limit_cuts() {
        let mut payload = Payload::new(100);
        payload.reset(5);
        payload.push_copy(b"abc");
        payload.push_shared(shared(b"0123456789"), 8..400);
        payload.push_zeros(9);
        payload.push_static(b"zz");
        assert_eq!(payload.to_vec(), b"abc89");
        assert_eq!(payload.remaining(), 0);
        assert!(payload.overflowed());
        payload.reset(1000);
        assert!(!payload.overflowed());
        assert_eq!(payload.remaining(), 100);
    }

    #[test]
    fn adjacent_copies_merge() {
        let mut payload = Payload::new(100);
        payload.push_copy(b"abc");
        payload.push_copy(b"def");
        assert_eq!(payload.single(), Some(&b"abcdef"[..]));
    }

    #[test]
    fn small_pieces_are_copied() {
        let mut payload = Payload::new(20_000);
        let owner = shared(&[7; COPY_SIZE_MAX + 1]);
        payload.push_shared(owner.clone(), 0..COPY_SIZE_MAX);
        payload.push_shared(owner.clone(), 0..2);
        assert_eq!(payload.pieces(), 1);
        payload.push_shared(owner, 0..COPY_SIZE_MAX + 1);
        assert_eq!(payload.pieces(), 2, "a larger one is lent");
        assert_eq!(payload.to_vec(), [7; 2 * COPY_SIZE_MAX + 3]);
    }

    #[test]
    fn pieces_beyond_what_one_call_takes_are_copied() {
        let size = COPY_SIZE_MAX + 1;
        let mut payload = Payload::new(600 * size);
        let owner = shared(&vec![3; size]);
        for _ in 0..600 {
            payload.push_shared(owner.clone(), 0..size);
        }
        let mut slices = Vec::new();
        payload.gather(&mut slices);
        assert_eq!(slices.len(), SEGMENTS_MAX + 1);
        assert_eq!(payload.to_vec(), [3].repeat(600 * size));
    }

    #[test]
    fn filling_in_place() {
        let mut payload = Payload::new(8);
        payload.push_copy(b"abc");
        let outcome: Result<(), ()> = payload.push_filled(100, |space| {
            assert_eq!(space.len(), 5);
            space[..2].copy_from_slice(b"de");
            Ok(2)
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!(payload.push_filled(1, |_| Err(7)), Err(7));
        assert_eq!(payload.to_vec(), b"abcde");
    }

    #[test]
    fn a_full_listing_refuses() {
        let mut buffer = [0; 64];
        let mut reply = DirectoryReply::new(&mut buffer, false);
        assert_eq!(reply.capacity_hint(1), 2);
        assert!(reply.add_name(b"a", 5, FileKind::Regular, 1));
        assert!(reply.add_name(b"b", 6, FileKind::Regular, 2));
        assert!(!reply.add_name(b"c", 7, FileKind::Regular, 3));
        assert_eq!(reply.len(), 64);
    }
}
