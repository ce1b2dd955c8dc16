//! Runs of pages for the contents of blocks.
//!
//! Blocks come and go by the thousand each second. Memory from the C library comes with fresh
//! pages, and a page fault for every 4 KiB costs more than reading them from a fast disk. Here
//! memory is mapped in chunks of 2 MiB, the size of a huge page, which the kernel is asked to use.
//! Runs of pages are cut out of chunks and returned to them. The run returned last is reused first:
//! it may still be in a CPU's cache.
//!
//! ```text
//! chunk   |#####..###########....|      512 pages, one bit each: free or not
//! lists   [1] [2..3] [4..7] ... [512]   chunks by the length of their longest free run
//! ```
//!
//! Fresh chunks are filled with pages at once, huge ones or small ones ([`crate::huge_pages`]).
//!
//! Invariants: a chunk is in the list of its longest free run, and in none when it is full; no
//! page is in two runs. A chunk that is free as a whole goes back to the kernel, but for a few.
//! A run longer than half a chunk is a mapping of its own.

#![allow(
    unsafe_code,
    reason = "aligned memory on huge pages is not to be had from a vector"
)]

use crate::fresh_pages;
use crate::huge_pages::{self, HUGE};
use cenote_base::rt::process::Instant;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a chunk: one huge page.
const CHUNK: usize = HUGE;
const CHUNK_PAGES: usize = CHUNK / PAGE;
/// Longer runs have a mapping of their own.
const SHARED_PAGES_MAX: usize = CHUNK_PAGES / 2;
/// Chunks without any run of which some are always kept: 16 MiB.
const EMPTY_KEPT: usize = 8;
/// Of so many chunks in use one more is kept ready, up to [`READY_MAX`].
const READY_SHARE: usize = 8;
/// Chunks that are got ready at most: 32 MiB.
const READY_MAX: usize = 16;
/// Lists by the binary logarithm of the longest run: 1 to 512 pages.
const LISTS: usize = 10;
/// Chunks to check whose longest run may or may not be long enough.
const PROBES: usize = 8;
const WORDS: usize = CHUNK_PAGES / 64;

/// Memory of whole pages with a single owner.
pub(crate) struct PageRun {
    base: NonNull<u8>,
    pages: usize,
    home: Home,
}

/// Where a run goes back to.
#[derive(Clone, Copy)]
enum Home {
    Chunk { index: usize, first: usize },
    Mapping,
}

// SAFETY: a run owns its memory alone, as a vector does; nothing about it depends on a thread.
unsafe impl Send for PageRun {}
// SAFETY: a shared reference gives out shared references to plain bytes only.
unsafe impl Sync for PageRun {}

struct Chunk {
    base: NonNull<u8>,
    /// A bit for each page, set while it is free.
    free: [u64; WORDS],
    /// Pages of the longest free run.
    longest: usize,
    /// Where this chunk is in its list.
    position: usize,
    /// Since when it has been on small pages.
    small_since: Option<Instant>,
}

struct Arena {
    chunks: Vec<Option<Chunk>>,
    /// Free places in `chunks`.
    vacant: Vec<usize>,
    lists: [Vec<usize>; LISTS],
}

// SAFETY: the pointers in it are to mappings that it owns.
unsafe impl Send for Arena {}

static ARENA: Mutex<Arena, ranks::PageArena> = Mutex::new(Arena {
    chunks: Vec::new(),
    vacant: Vec::new(),
    lists: [const { Vec::new() }; LISTS],
});

fn arena() -> MutexGuard<'static, Arena> {
    // Nothing between a change and its counterpart can panic but a broken invariant.
    ARENA.lock()
}

/// Maps `length` bytes of zeros, a multiple of a chunk, at a multiple of a chunk; returns also
/// whether they are on small pages.
fn map(length: usize) -> Option<(NonNull<u8>, bool)> {
    assert!(length > 0 && length.is_multiple_of(CHUNK));
    let wide = length.checked_add(CHUNK)?;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new private mapping anywhere touches nothing that exists.
    let start = unsafe { rustix::mm::mmap_anonymous(null_mut(), wide, protection, flags) };
    let start = start.ok()?.cast::<u8>();
    let skip = start.align_offset(CHUNK);
    assert!(skip < CHUNK);
    // SAFETY: `skip` and `skip + length` are at most `wide`, within the mapping.
    let (base, end) = unsafe { (start.add(skip), start.add(skip + length)) };
    if skip > 0 {
        // SAFETY: this head of the mapping made above is ours and was never shared.
        unsafe { unmap(start, skip) };
    }
    // SAFETY: as for the head; the tail has at least the bytes that the head has not.
    unsafe { unmap(end, CHUNK - skip) };
    let base = NonNull::new(base)?;
    let is_small = huge_pages::populate(base, length);
    Some((base, is_small))
}

/// Gives pages back to the kernel.
///
/// # Safety
/// The range must be mapped by [`map`], in whole pages, and never be used again.
unsafe fn unmap(start: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    let result = unsafe { rustix::mm::munmap(start.cast::<c_void>(), length) };
    // It fails only when splitting a mapping would exceed their number; the memory is then lost.
    debug_assert!(result.is_ok());
}

/// The words of a bit map with `count` bits from `first` on set.
fn masks(first: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = first + count;
    (first / 64..end.div_ceil(64)).map(move |word| {
        let low = first.saturating_sub(word * 64).min(64);
        let high = (end - word * 64).min(64);
        let ones = u64::MAX >> (64 - (high - low));
        (word, ones << low)
    })
}

impl Chunk {
    fn new() -> Option<Self> {
        let (base, is_small) = map(CHUNK)?;
        Some(Self {
            base,
            free: [u64::MAX; WORDS],
            longest: CHUNK_PAGES,
            position: 0,
            small_since: is_small.then(Instant::now),
        })
    }

    /// Calls `each` with the first page and length of every free run, until it returns false.
    fn runs(&self, mut each: impl FnMut(usize, usize) -> bool) {
        let (mut start, mut length) = (0, 0);
        for (index, word) in self.free.iter().enumerate() {
            let mut at = 0;
            while at < 64 {
                let rest = word >> at;
                let ones = (rest.trailing_ones() as usize).min(64 - at);
                if length == 0 {
                    start = index * 64 + at;
                }
                length += ones;
                at += ones;
                if at == 64 {
                    break;
                }
                if length > 0 && !each(start, length) {
                    return;
                }
                length = 0;
                at += ((word >> at).trailing_zeros() as usize).min(64 - at);
            }
        }
        if length > 0 {
            each(start, length);
        }
    }

    /// The first page of the shortest free run that has `pages`.
    fn find(&self, pages: usize) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        self.runs(|start, length| {
            if length >= pages && best.is_none_or(|(shortest, _)| length < shortest) {
                best = Some((length, start));
            }
            best.is_none_or(|(shortest, _)| shortest > pages)
        });
        best.map(|(_, start)| start)
    }

    fn mark(&mut self, first: usize, pages: usize, free: bool) {
        for (word, mask) in masks(first, pages) {
            let expected = if free { 0 } else { mask };
            assert_eq!(
                self.free[word] & mask,
                expected,
                "a page is in one run only"
            );
            self.free[word] ^= mask;
        }
        let mut longest = 0;
        self.runs(|_, length| {
            longest = longest.max(length);
            true
        });
        self.longest = longest;
    }

    fn list(&self) -> Option<usize> {
        self.longest.checked_ilog2().map(|list| list as usize)
    }
}

impl Arena {
    fn chunk(&mut self, index: usize) -> &mut Chunk {
        self.chunks[index]
            .as_mut()
            .expect("a listed or used chunk exists")
    }

    fn leave_list(&mut self, index: usize) {
        let chunk = self.chunk(index);
        let (list, position) = (chunk.list(), chunk.position);
        let Some(list) = list else { return };
        let left = self.lists[list].swap_remove(position);
        assert_eq!(left, index);
        if let Some(moved) = self.lists[list].get(position).copied() {
            self.chunk(moved).position = position;
        }
    }

    fn enter_list(&mut self, index: usize) {
        let Some(list) = self.chunk(index).list() else {
            return;
        };
        self.chunk(index).position = self.lists[list].len();
        self.lists[list].push(index);
    }

    /// Chunks that are free as a whole.
    fn empty(&self) -> usize {
        self.lists[LISTS - 1].len()
    }

    /// How many of those to keep ready for callers that take more.
    fn enough(&self) -> usize {
        let used = self.chunks.len() - self.vacant.len() - self.empty();
        (used / READY_SHARE).min(READY_MAX)
    }

    /// Asks for fresh chunks after one was taken.
    fn replace_taken(&self) {
        let (empty, enough) = (self.empty(), self.enough());
        if empty < enough {
            fresh_pages::get_ready(empty < enough.div_ceil(2), fill);
        }
    }

    /// A chunk with a free run of `pages`.
    fn chunk_with(&mut self, pages: usize) -> Option<usize> {
        let maybe = pages.ilog2() as usize;
        for index in self.lists[maybe].iter().rev().take(PROBES) {
            let chunk = self.chunks[*index].as_ref();
            if chunk.is_some_and(|chunk| chunk.longest >= pages) {
                return Some(*index);
            }
        }
        let surely = self.lists[maybe + 1..].iter().find_map(|list| list.last());
        surely.copied()
    }

    /// Adds a chunk that is free as a whole.
    fn add(&mut self, chunk: Chunk) -> usize {
        let index = match self.vacant.pop() {
            Some(index) => {
                self.chunks[index] = Some(chunk);
                index
            }
            None => {
                self.chunks.push(Some(chunk));
                self.chunks.len() - 1
            }
        };
        self.enter_list(index);
        index
    }

    /// Cuts a run out of a chunk that has one so long.
    fn cut(&mut self, index: usize, pages: usize) -> PageRun {
        self.leave_list(index);
        let chunk = self.chunk(index);
        let first = chunk.find(pages).expect("its longest run is long enough");
        chunk.mark(first, pages, false);
        // SAFETY: `first + pages` is at most the chunk's pages.
        let base = unsafe { chunk.base.add(first * PAGE) };
        self.enter_list(index);
        let home = Home::Chunk { index, first };
        PageRun { base, pages, home }
    }

    fn give_back(&mut self, index: usize, first: usize, pages: usize) {
        self.leave_list(index);
        let chunk = self.chunk(index);
        chunk.mark(first, pages, true);
        let (base, longest) = (chunk.base, chunk.longest);
        if longest == CHUNK_PAGES && self.empty() >= EMPTY_KEPT.max(self.enough()) {
            self.chunks[index] = None;
            self.vacant.push(index);
            // SAFETY: a chunk that is free as a whole has no run, and now no entry either.
            unsafe { unmap(base.as_ptr(), CHUNK) };
            return;
        }
        self.enter_list(index);
    }
}

/// The addresses of chunks that have been on small pages for a while and are in use, and whether
/// there are younger ones.
fn old_small_chunks() -> (Vec<usize>, bool) {
    let (mut old, mut has_younger) = (Vec::new(), false);
    let mut known = arena();
    let used = known.chunks.iter_mut().flatten();
    for chunk in used.filter(|chunk| chunk.longest < CHUNK_PAGES) {
        match chunk.small_since {
            Some(since) if since.elapsed() >= huge_pages::AGE => {
                chunk.small_since = None;
                old.push(chunk.base.addr().get());
            }
            Some(_) => has_younger = true,
            None => {}
        }
    }
    (old, has_younger)
}

fn fresh_chunk() -> Option<Chunk> {
    let started = Instant::now();
    let chunk = Chunk::new()?;
    fresh_pages::note_made(started.elapsed());
    if chunk.small_since.is_some() {
        huge_pages::collapse_later(old_small_chunks);
    }
    Some(chunk)
}

/// Adds a chunk that is free as a whole, unless there are enough; whether it did.
fn fill() -> bool {
    let has_enough = {
        let known = arena();
        known.empty() >= known.enough()
    };
    if has_enough {
        return false;
    }
    let Some(chunk) = fresh_chunk() else {
        return false;
    };
    arena().add(chunk);
    true
}

impl PageRun {
    /// At least `bytes` bytes with unspecified contents; `None` when the system has no more.
    pub(crate) fn take(bytes: usize) -> Option<Self> {
        let pages = bytes.div_ceil(PAGE).max(1);
        if pages <= SHARED_PAGES_MAX {
            let mut known = arena();
            if let Some(index) = known.chunk_with(pages) {
                let is_new = known.chunk(index).longest == CHUNK_PAGES;
                let run = known.cut(index, pages);
                if is_new {
                    known.replace_taken();
                }
                return Some(run);
            }
            drop(known);
            let chunk = fresh_chunk()?;
            let mut known = arena();
            let index = known.add(chunk);
            let run = known.cut(index, pages);
            known.replace_taken();
            return Some(run);
        }
        let length = bytes.checked_next_multiple_of(CHUNK)?;
        let (base, _) = map(length)?;
        let (pages, home) = (length / PAGE, Home::Mapping);
        Some(Self { base, pages, home })
    }

    fn length(&self) -> usize {
        self.pages * PAGE
    }
}

impl Drop for PageRun {
    fn drop(&mut self) {
        match self.home {
            Home::Chunk { index, first } => arena().give_back(index, first, self.pages),
            // SAFETY: the mapping is this run's alone, and the run is at its end.
            Home::Mapping => unsafe { unmap(self.base.as_ptr(), self.length()) },
        }
    }
}

impl Deref for PageRun {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the run's pages are mapped, readable and initialized (the kernel's zeros, or
        // what an earlier run left), and have no other owner until it is dropped.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.length()) }
    }
}

impl DerefMut for PageRun {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.length()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_exactly_their_pages() {
        for (first, count) in [(0, 1), (0, 64), (63, 2), (1, 511), (0, 512), (100, 300)] {
            let mut bits = [0_u64; WORDS];
            for (word, mask) in masks(first, count) {
                bits[word] |= mask;
            }
            for page in 0..CHUNK_PAGES {
                let is_set = bits[page / 64] >> (page % 64) & 1 == 1;
                assert_eq!(
                    is_set,
                    (first..first + count).contains(&page),
                    "{first} {page}"
                );
            }
        }
    }

    #[test]
    fn the_shortest_run_that_fits_is_found() {
        let mut chunk = Chunk::new().expect("2 MiB");
        chunk.mark(0, 10, false);
        chunk.mark(15, 45, false);
        chunk.mark(66, 400, false);
        // Free now: 10..15, 60..66, 466..512.
        let (mut runs, mut all) = (Vec::new(), true);
        chunk.runs(|start, length| {
            runs.push((start, length));
            all
        });
        assert_eq!(runs, [(10, 5), (60, 6), (466, 46)]);
        assert_eq!(chunk.longest, 46);
        assert_eq!(chunk.find(5), Some(10));
        assert_eq!(chunk.find(6), Some(60));
        assert_eq!(chunk.find(7), Some(466));
        assert_eq!(chunk.find(47), None);
        all = false;
        runs.clear();
        chunk.runs(|start, length| {
            runs.push((start, length));
            all
        });
        assert_eq!(runs, [(10, 5)]);
        // SAFETY: the test's own chunk, which no run was cut from.
        unsafe { unmap(chunk.base.as_ptr(), CHUNK) };
    }

    /// Runs of many sizes that live for random times, against vectors as their twins.
    #[test]
    fn runs_never_overlap() {
        let mut state = 7_u64;
        let mut random = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut live: Vec<(PageRun, Vec<u8>)> = Vec::new();
        for round in 0..3000 {
            if live.len() > 40 || (random(3) == 0 && !live.is_empty()) {
                let (run, twin) = live.swap_remove(random(live.len()));
                assert!(run[..twin.len()] == twin[..]);
                continue;
            }
            let size = match random(20) {
                0 => 1 + random(5 << 20),
                _ => 1 + random(200 << 10),
            };
            let mut run = PageRun::take(size).expect("memory");
            assert!(run.len() >= size);
            assert_eq!(run.as_ptr().align_offset(PAGE), 0);
            // Checking the borders finds overlaps as well as checking all bytes would.
            let mark = [round as u8; 64];
            let twin = {
                let mut twin = run[..size.min(8192)].to_vec();
                let count = twin.len().min(64);
                twin[..count].copy_from_slice(&mark[..count]);
                twin
            };
            run[..twin.len()].copy_from_slice(&twin);
            let length = run.len();
            run[length - 1] = round as u8;
            live.push((run, twin));
        }
    }

    /// A caller that takes much memory finds more of it ready without waiting.
    #[test]
    fn fresh_chunks_are_got_ready() {
        let take = || PageRun::take(1 << 20).expect("memory");
        let mut runs: Vec<_> = (0..200).map(|_| take()).collect();
        let deadline = Instant::now() + std::time::Duration::from_secs(60);
        while arena().empty() < READY_MAX {
            assert!(Instant::now() < deadline, "nothing was got ready");
            std::thread::sleep(std::time::Duration::from_millis(1));
            // Another test may have returned memory to the kernel, which is not replaced by
            // itself.
            runs.push(take());
        }
    }

    #[test]
    fn empty_chunks_leave() {
        let runs: Vec<_> = (0..200)
            .map(|_| PageRun::take(1 << 20).expect("memory"))
            .collect();
        drop(runs);
        // Other tests may hold runs meanwhile, but not a hundred MiB of empty chunks; and a chunk
        // may be got ready just when enough came back.
        assert!(arena().empty() <= READY_MAX + 1);
    }
}
