//! Reading many blocks at once: for scans and prefetch.
//!
//! Blocks that are near each other on a leaf are read in one request, gaps included, because a
//! request costs a disk as much as some tens of KiB. Only healthy leaves are asked and nothing
//! is verified: a block that is not to be had this way, or that the caller finds wrong, takes
//! the careful path of [`Self::read`]. The callers' threads do the work; each calls with its own
//! batch.

use crate::geometry::Map;
use crate::io_context::IoContext;
use crate::leaf::{Fitness, Place};
use crate::request::{Blame, Request};
use crate::shape::Shape;
use crate::tree::{Layout, Slot};
use cenote_base::{Txg, settings};
use cenote_device::{AlignedBuf, BlockBuffer, DIRECT_ALIGNMENT};
use cenote_ondisk::Dva;
use cenote_ondisk::label::DATA_OFFSET;
use std::io::IoSliceMut;

/// Extents on a leaf that are this near are read at once.
fn gap_max() -> u64 {
    settings::READ_GAP_LIMIT.get()
}

/// Bytes of one request at most, unless a single extent has more: by default 4 MiB with what
/// widening adds, which is the largest buffer that is kept for reuse.
fn chunk_max() -> u64 {
    (4 * settings::AGGREGATION_LIMIT.get()).saturating_sub(2 * DIRECT_ALIGNMENT as u64)
}

/// Bytes that are fetched at once where each request is dear: no more than such devices keep.
const FETCH_MAX: usize = 16 << 20;
/// Smaller extents are copied out of a larger buffer: that costs less than a piece of a transfer.
const IN_PLACE_MIN: usize = 16 << 10;
/// Bytes between the extents of one request that are read although no block needs them: on a raidz
/// leaf the parity of a few rows. Copying the extents would cost more.
const GAPS_MAX: u64 = 1 << 20;
/// Pieces of memory that the kernel fills at once.
const SLICES_MAX: usize = 1024;
/// Neighbouring 4 MiB of a mirror are read from the same child, so that they can be merged.
const MIRROR_SHIFT: u32 = 22;

/// One block of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRead {
    /// Where the copy is.
    pub dva: Dva,
    /// Stored bytes.
    pub size: usize,
    /// Physical birth.
    pub birth: Txg,
}

/// A piece of a block on a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub leaf: usize,
    pub place: Place,
    pub length: usize,
    /// The block's position in the batch.
    pub read: usize,
    /// Where in the block the piece belongs.
    pub block_offset: usize,
}

impl Extent {
    pub fn end(&self) -> u64 {
        self.place.offset.saturating_add(self.length as u64)
    }
}

impl Shape {
    /// Whether a device is in an object store: there each request takes long, and many at once
    /// take no longer.
    pub fn is_in_store(&self) -> bool {
        self.tree.leaves.iter().any(crate::leaf::Leaf::is_in_store)
    }

    /// Says to all devices that what they have is to be verified.
    pub fn begin_verification(&self) {
        for leaf in &self.tree.leaves {
            leaf.begin_verification();
        }
    }

    /// Reads the blocks without verifying them; `None` where a healthy leaf did not give one.
    pub fn read_batch(&self, reads: &[BatchRead], io: &IoContext) -> Vec<Option<BlockBuffer>> {
        self.read_batch_telling(reads, io, &mut |_| {})
    }

    /// As [`Self::read_batch`]; `failed` is called with the number of each block, once or more
    /// often, that a leaf should have given and could not read.
    pub fn read_batch_telling(
        &self,
        reads: &[BatchRead],
        io: &IoContext,
        failed: &mut dyn FnMut(usize),
    ) -> Vec<Option<BlockBuffer>> {
        let mut blocks: Vec<Option<BlockBuffer>> = vec![None; reads.len()];
        let mut extents = Vec::with_capacity(reads.len());
        for (index, read) in reads.iter().enumerate() {
            let before = extents.len();
            if self.plan(index, read, &mut extents).is_none() {
                extents.truncate(before);
            }
        }
        extents.sort_unstable_by_key(|extent| {
            (extent.leaf, extent.place.in_scratch, extent.place.offset)
        });
        let mut has_failed = vec![false; reads.len()];
        let mut rest = extents.as_slice();
        let mut fetched = 0;
        while !rest.is_empty() {
            let (chunk, after) = self.next_chunk(rest, &mut fetched, io);
            rest = after;
            let is_read = match goes_in_place(chunk) {
                true => self.read_in_place(chunk, reads, io, &mut blocks),
                false => self.read_chunk(chunk, reads, io, &mut blocks),
            };
            if is_read.is_none() {
                for extent in chunk {
                    has_failed[extent.read] = true;
                    failed(extent.read);
                }
            }
        }
        for (block, has_failed) in blocks.iter_mut().zip(has_failed) {
            if has_failed {
                *block = None;
            }
        }
        self.count_batch(reads, &blocks);
        blocks
    }

    /// Splits sorted extents behind those that are read at once. Of `fetched` more it is known that
    /// their device has fetched them.
    pub(crate) fn next_chunk<'a>(
        &self,
        extents: &'a [Extent],
        fetched: &mut usize,
        io: &IoContext,
    ) -> (&'a [Extent], &'a [Extent]) {
        if *fetched == 0 {
            *fetched = self.fetch_next(extents, io);
        }
        let gap_max = match self.tree.leaves[extents[0].leaf].is_in_store() {
            true => 0,
            false => gap_max(),
        };
        let count = chunk_length(extents, gap_max);
        *fetched = fetched.saturating_sub(count);
        extents.split_at(count)
    }

    /// Has what comes next fetched at once where each request is dear. Says of how many extents
    /// that is so; the next time is behind them.
    fn fetch_next(&self, extents: &[Extent], io: &IoContext) -> usize {
        let leaf = &self.tree.leaves[extents[0].leaf];
        if !leaf.is_in_store() {
            return 1;
        }
        let mut bytes = 0;
        let own = extents.iter().take_while(|extent| {
            let is_next = extent.leaf == extents[0].leaf && (bytes == 0 || bytes < FETCH_MAX);
            bytes += extent.length;
            is_next
        });
        let own: Vec<&Extent> = own.collect();
        if own.len() > 1 {
            let parts = own.iter().map(|extent| (extent.place, extent.length));
            leaf.prefetch(parts, io);
        }
        own.len()
    }

    fn count_batch(&self, reads: &[BatchRead], blocks: &[Option<BlockBuffer>]) {
        for (read, block) in reads.iter().zip(blocks) {
            let (Some(block), Some(top)) = (block, self.top(read.dva.vdev())) else {
                continue;
            };
            for node in [top.node, 0] {
                if let Some(counters) = &self.tree.nodes[node].counters {
                    counters.read_operations.add(1);
                    counters.read_bytes.add(block.len() as u64);
                }
            }
        }
    }

    /// Adds the extents of one block; `None` if it needs more than healthy leaves.
    fn plan(&self, index: usize, read: &BatchRead, extents: &mut Vec<Extent>) -> Option<()> {
        let top = self.locate(read.dva, read.size, read.birth).ok()?;
        let (offset, birth) = (read.dva.offset(), read.birth);
        let whole = |leaf, offset, length, block_offset| Extent {
            leaf,
            place: Place::at(offset),
            length,
            read: index,
            block_offset,
        };
        match &top.layout {
            Layout::Slot(slot) => {
                let leaf = self.healthy(slot, offset, read.size, birth)?;
                extents.push(whole(leaf, offset, read.size, 0));
            }
            Layout::Raidz { geometry, slots } => {
                let map = geometry.map(offset, read.size as u64, birth);
                self.plan_columns(index, read, &map, slots, extents)?;
            }
            Layout::Draid { geometry, slots } => {
                let map = geometry.map(offset, read.size as u64);
                self.plan_columns(index, read, &map, slots, extents)?;
            }
            Layout::Indirect(_) => {
                let request = Request {
                    dva: read.dva,
                    size: read.size,
                    birth,
                    verify: &|_| false,
                    blame: Blame::Each,
                    io: &IoContext::USER,
                };
                for segment in self.segments(&request).ok()? {
                    let Layout::Slot(slot) = &self.tree.tops[segment.top].layout else {
                        return None;
                    };
                    let (offset, length) = (segment.offset, segment.length);
                    let leaf = self.healthy(slot, offset, length, segment.written)?;
                    extents.push(whole(leaf, offset, length, segment.block_offset));
                }
            }
            Layout::Hole | Layout::Missing => return None,
        }
        Some(())
    }

    fn plan_columns(
        &self,
        index: usize,
        read: &BatchRead,
        map: &Map,
        slots: &[Slot],
        extents: &mut Vec<Extent>,
    ) -> Option<()> {
        for column in map.data_columns() {
            // The padding at the end of the last column belongs to no block.
            let start = column.block_range().start;
            let length = (column.length as usize).min(read.size.saturating_sub(start));
            if length == 0 {
                continue;
            }
            let slot = &slots[column.child];
            extents.push(Extent {
                leaf: self.healthy(slot, column.offset, length, read.birth)?,
                place: Place {
                    offset: column.offset,
                    in_scratch: column.in_scratch,
                },
                length,
                read: index,
                block_offset: start,
            });
        }
        Some(())
    }

    /// A leaf of the slot that should have the bytes.
    fn healthy(&self, slot: &Slot, offset: u64, length: usize, birth: Txg) -> Option<usize> {
        let mut found = self.candidates(slot, offset, length, birth);
        found.retain(|candidate| candidate.fitness == Fitness::Good);
        let count = found.len();
        let choice = ((offset >> MIRROR_SHIFT) as usize).checked_rem(count)?;
        Some(found[choice].leaf)
    }

    /// Reads neighbouring extents of one leaf at once, each into its block.
    fn read_in_place(
        &self,
        chunk: &[Extent],
        reads: &[BatchRead],
        io: &IoContext,
        blocks: &mut [Option<BlockBuffer>],
    ) -> Option<()> {
        let mut gaps = AlignedBuf::take(usize::try_from(gaps_of(chunk)).ok()?);
        // Each gap needs memory for itself, though its bytes are never used.
        let mut gap_rest: &mut [u8] = &mut gaps;
        let mut taken: Vec<BlockBuffer> = chunk
            .iter()
            .map(|extent| {
                let block = blocks[extent.read].take();
                block.unwrap_or_else(|| BlockBuffer::take(reads[extent.read].size))
            })
            .collect();
        let mut slices = Vec::with_capacity(2 * chunk.len());
        let mut at = chunk[0].place.offset;
        for (extent, block) in chunk.iter().zip(&mut taken) {
            let gap = usize::try_from(extent.place.offset - at).ok()?;
            if gap > 0 {
                let (skipped, rest) = std::mem::take(&mut gap_rest).split_at_mut_checked(gap)?;
                slices.push(IoSliceMut::new(skipped));
                gap_rest = rest;
            }
            let range = extent.block_offset..extent.block_offset + extent.length;
            slices.push(IoSliceMut::new(&mut block[range]));
            at = extent.end();
        }
        let leaf = &self.tree.leaves[chunk[0].leaf];
        let result = leaf.read_vectored(chunk[0].place, &mut slices, io);
        drop(slices);
        for (extent, block) in chunk.iter().zip(taken) {
            blocks[extent.read] = Some(block);
        }
        result.ok()
    }

    /// Reads neighbouring extents of one leaf at once and hands out copies of the pieces.
    fn read_chunk(
        &self,
        chunk: &[Extent],
        reads: &[BatchRead],
        io: &IoContext,
        blocks: &mut [Option<BlockBuffer>],
    ) -> Option<()> {
        let leaf = &self.tree.leaves[chunk[0].leaf];
        let alignment = DIRECT_ALIGNMENT as u64;
        let start = chunk[0].place.offset / alignment * alignment;
        let end = chunk.iter().map(Extent::end).max()?;
        // Widened to what direct I/O takes without a copy, but not beyond the device.
        let device_end = leaf.device.as_ref()?.size().checked_sub(DATA_OFFSET)?;
        let wide_end = end
            .checked_next_multiple_of(alignment)?
            .min(device_end.max(end));
        let mut buffer = AlignedBuf::take(usize::try_from(wide_end - start).ok()?);
        let place = Place {
            offset: start,
            ..chunk[0].place
        };
        match chunk.len() {
            1 => leaf.read_into(place, &mut buffer, io).ok()?,
            _ => leaf.read_joined(place, &mut buffer, io).ok()?,
        }
        for extent in chunk {
            let from = (extent.place.offset - start) as usize;
            let bytes = &buffer[from..from + extent.length];
            let size = reads[extent.read].size;
            if extent.length == size {
                blocks[extent.read] = Some(BlockBuffer::copy_of(bytes));
                continue;
            }
            let block = blocks[extent.read].get_or_insert_with(|| BlockBuffer::take(size));
            block[extent.block_offset..][..extent.length].copy_from_slice(bytes);
        }
        Some(())
    }
}

/// Bytes between the sorted extents of one leaf.
fn gaps_of(chunk: &[Extent]) -> u64 {
    let gap = |pair: &[Extent]| pair[1].place.offset.saturating_sub(pair[0].end());
    chunk.windows(2).map(gap).fold(0, u64::saturating_add)
}

/// Whether the sorted extents can be read without a buffer between device and blocks: they are
/// one, or large, of different blocks, do not overlap, and leave little between them.
fn goes_in_place(chunk: &[Extent]) -> bool {
    if chunk.len() == 1 {
        return true;
    }
    let large = |extent: &Extent| extent.length >= IN_PLACE_MIN;
    let apart = |pair: &[Extent]| pair[0].end() <= pair[1].place.offset;
    // Each extent may need two slices, itself and a gap.
    if chunk.len() > SLICES_MAX / 2 || !chunk.iter().all(large) || !chunk.windows(2).all(apart) {
        return false;
    }
    if gaps_of(chunk) > GAPS_MAX {
        return false;
    }
    let mut reads: Vec<usize> = chunk.iter().map(|extent| extent.read).collect();
    reads.sort_unstable();
    reads.windows(2).all(|pair| pair[0] != pair[1])
}

/// How many of the sorted extents, from the first on, are read at once.
fn chunk_length(extents: &[Extent], gap_max: u64) -> usize {
    let first = &extents[0];
    let mut end = first.end();
    let mut count = 1;
    for extent in &extents[1..] {
        let joins = extent.leaf == first.leaf
            && extent.place.in_scratch == first.place.in_scratch
            && extent.place.offset <= end.saturating_add(gap_max)
            && extent.end().saturating_sub(first.place.offset) <= chunk_max();
        if !joins {
            break;
        }
        end = end.max(extent.end());
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(leaf: usize, offset: u64, length: usize) -> Extent {
        Extent {
            leaf,
            place: Place::at(offset),
            length,
            read: 0,
            block_offset: 0,
        }
    }

    #[test]
    fn large_extents_of_different_blocks_go_in_place_with_little_between() {
        let of = |read, offset, length| Extent {
            read,
            ..extent(0, offset, length)
        };
        let size = IN_PLACE_MIN;
        let step = 2 * size as u64;
        let rows: Vec<Extent> = (0..8).map(|row| of(row, row as u64 * step, size)).collect();
        assert_eq!(gaps_of(&rows), 7 * size as u64);
        assert!(goes_in_place(&rows));
        assert!(goes_in_place(&rows[..1]));
        let far = [of(0, 0, size), of(1, size as u64 + GAPS_MAX + 1, size)];
        assert!(!goes_in_place(&far));
        let small = [of(0, 0, size), of(1, size as u64, size - 512)];
        assert!(!goes_in_place(&small));
        let same = [of(0, 0, size), of(0, step, size)];
        assert!(!goes_in_place(&same), "one block cannot be taken twice");
        let nested = [of(0, 0, size), of(1, 512, size)];
        assert!(!goes_in_place(&nested));
    }

    #[test]
    fn chunks_end_at_gaps_leaves_and_limits() {
        let near = [extent(0, 0, 4096), extent(0, 4096 + gap_max(), 4096)];
        assert_eq!(chunk_length(&near, gap_max()), 2);
        let far = [extent(0, 0, 4096), extent(0, 4097 + gap_max(), 4096)];
        assert_eq!(chunk_length(&far, gap_max()), 1);
        let other_leaf = [extent(0, 0, 4096), extent(1, 4096, 4096)];
        assert_eq!(chunk_length(&other_leaf, gap_max()), 1);
        let many: Vec<_> = (0..10).map(|i| extent(0, i << 20, 1 << 20)).collect();
        assert_eq!(chunk_length(&many, gap_max()), 3);
        let nested = [
            extent(0, 0, 1 << 20),
            extent(0, 512, 512),
            extent(0, 1 << 20, 1),
        ];
        assert_eq!(chunk_length(&nested, gap_max()), 3);
        assert_eq!(
            chunk_length(&[extent(0, 0, 16 << 20)], gap_max()),
            1,
            "a large extent stays whole"
        );
    }
}
