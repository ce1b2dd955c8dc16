//! Blocks of removed vdevs: found through the mapping of where their space was copied to.
//!
//! Source: format/1c 6. A mapping is a sorted list of segments; a block may span several of them
//! (a *split block*) and a segment may lead to a vdev that was removed later. What is left in
//! the end are segments on disks and mirrors. Only the whole block has a checksum, so when it is
//! wrong, the copies of all segments are tried in all combinations.
//!
//! A segment was written when it was copied, which is after the block's birth: that group says
//! which leaves missed it (`copied`).

use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::indirect_mapping::{IndirectEntry, IndirectMapping};
use crate::io_context::IoContext;
use crate::leaf::{Fitness, Place};
use crate::request::{Blame, FaultKind, Faults, Request};
use crate::shape::Shape;
use crate::tree::{Layout, Slot, Top};
use cenote_base::{SECTOR_SIZE, Txg, VdevId};
use cenote_ondisk::Dva;
use std::ops::Range;
use std::sync::Arc;

/// Look-ups for one block: twice the sectors of the largest block leaves room for chains.
const STEPS_MAX: usize = 1 << 16;

/// Combinations of copies tried for a split block, as OpenZFS tries.
const COMBINATIONS_MAX: usize = 4096;

/// A piece of a block on a vdev that still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Position of the top-level vdev.
    pub top: usize,
    /// Byte of its space.
    pub offset: u64,
    pub length: usize,
    /// Where in the block it belongs.
    pub block_offset: usize,
    /// The group in which it was written there: the block's birth, or the last copying after that.
    pub written: Txg,
}

/// A segment's distinct contents and which leaf gave each.
struct Variants {
    segment: Segment,
    copies: Vec<(usize, Fitness, Vec<u8>)>,
    /// The copies with distinct contents.
    distinct: Vec<usize>,
}

impl Shape {
    /// Follows mappings until all pieces of a block are on vdevs that still exist.
    pub(crate) fn segments(&self, request: &Request<'_>) -> Result<Vec<Segment>, VdevError> {
        let dva = request.dva;
        let mut found = Vec::with_capacity(1);
        // The last piece on the stack is the next one of the block.
        let mut stack = vec![Segment {
            top: dva.vdev().0 as usize,
            offset: dva.offset(),
            length: request.size,
            block_offset: 0,
            written: request.birth,
        }];
        let mut steps = 0;
        while let Some(mut piece) = stack.pop() {
            steps += 1;
            if steps > STEPS_MAX {
                return Err(VdevError::MappingLoop { dva });
            }
            let vdev = VdevId(piece.top as u64);
            let top = &self.tree.tops[piece.top];
            let Layout::Indirect(mapping) = &top.layout else {
                self.check_segment(dva, top, &piece)?;
                found.push(piece);
                continue;
            };
            let mapping = mapping.read().clone();
            let entry = mapping
                .as_ref()
                .and_then(|mapping| mapping.find(piece.offset));
            let Some(entry) = entry else {
                let offset = piece.offset;
                return Err(VdevError::Unmapped { dva, vdev, offset });
            };
            let skip = piece.offset - entry.source;
            let room = entry.target.asize() - skip;
            let length = piece
                .length
                .min(usize::try_from(room).unwrap_or(usize::MAX));
            let target = Segment {
                top: self.target_position(dva, entry.target.vdev())?,
                offset: entry.target.offset().saturating_add(skip),
                length,
                block_offset: piece.block_offset,
                written: piece.written.max(entry.copied_in),
            };
            if length < piece.length {
                piece.offset += length as u64;
                piece.block_offset += length;
                piece.length -= length;
                stack.push(piece);
            }
            stack.push(target);
        }
        found.sort_by_key(|segment| segment.block_offset);
        Ok(found)
    }

    fn target_position(&self, dva: Dva, vdev: VdevId) -> Result<usize, VdevError> {
        let position = usize::try_from(vdev.0).unwrap_or(usize::MAX);
        if position < self.tree.tops.len() {
            return Ok(position);
        }
        let vdevs = self.tree.tops.len();
        Err(VdevError::NoSuchVdev { dva, vdevs })
    }

    fn check_segment(&self, dva: Dva, top: &Top, piece: &Segment) -> Result<(), VdevError> {
        let kind = match top.layout {
            Layout::Slot(_) => None,
            Layout::Hole => Some("a hole"),
            Layout::Missing => Some("missing"),
            _ => Some("no place for the space of a removed vdev"),
        };
        if let Some(kind) = kind {
            return Err(VdevError::NoSpace { dva, kind });
        }
        let end = piece.offset.checked_add(piece.length as u64);
        if end.is_none_or(|end| end > top.asize) {
            let (size, asize) = (piece.length, top.asize);
            return Err(VdevError::OutOfRange { dva, size, asize });
        }
        Ok(())
    }

    pub(crate) fn segment_slot(&self, segment: &Segment) -> &Slot {
        match &self.tree.tops[segment.top].layout {
            Layout::Slot(slot) => slot,
            _ => unreachable!("check_segment accepts slots only"),
        }
    }

    /// Reads a block of a removed vdev, and notes the leaves that lacked their part of it.
    pub(crate) fn read_indirect(
        &self,
        request: &Request<'_>,
        faults: &mut Faults,
    ) -> Result<Vec<u8>, VdevError> {
        let segments = self.segments(request)?;
        if let [segment] = segments.as_slice() {
            let slot = self.segment_slot(segment);
            let birth = segment.written;
            let request = Request { birth, ..*request };
            return self.read_slot(slot, segment.offset, &request, faults);
        }
        let mut failures = LeafFailures::default();
        let first = self.read_first_copies(&segments, request, &mut failures, faults);
        if let Some(block) = first
            && (request.verify)(&block)
        {
            return Ok(block);
        }
        self.read_all_copies(&segments, request, failures, faults)
    }

    /// The block from the best copy of each segment; `None` if a segment has none.
    fn read_first_copies(
        &self,
        segments: &[Segment],
        request: &Request<'_>,
        failures: &mut LeafFailures,
        faults: &mut Faults,
    ) -> Option<Vec<u8>> {
        let mut block = vec![0; request.size];
        for segment in segments {
            let slot = self.segment_slot(segment);
            let buffer = &mut block[segment.block_offset..][..segment.length];
            let candidates = self.balanced(slot, segment.offset, segment.length, segment.written);
            let place = Place::at(segment.offset);
            let read = candidates.iter().find(|candidate| {
                let result = self.tree.leaves[candidate.leaf].read_into(place, buffer, request.io);
                result
                    .map_err(|problem| {
                        faults.note_unread(candidate.leaf, candidate.fitness);
                        self.note(failures, candidate.leaf, problem);
                    })
                    .is_ok()
            });
            read?;
            for candidate in &candidates {
                if candidate.fitness == Fitness::Stale {
                    faults.note(candidate.leaf, FaultKind::Stale);
                }
            }
        }
        Some(block)
    }

    fn variants(
        &self,
        segment: Segment,
        io: &IoContext,
        failures: &mut LeafFailures,
        faults: &mut Faults,
    ) -> Variants {
        let slot = self.segment_slot(&segment);
        let mut variants = Variants {
            segment,
            copies: Vec::new(),
            distinct: Vec::new(),
        };
        for candidate in self.candidates(slot, segment.offset, segment.length, segment.written) {
            let leaf = &self.tree.leaves[candidate.leaf];
            match leaf.read_vec(Place::at(segment.offset), segment.length, io) {
                Ok(bytes) => {
                    let copies = &variants.copies;
                    let is_known = copies.iter().any(|(_, _, known)| *known == bytes);
                    if !is_known {
                        variants.distinct.push(copies.len());
                    }
                    let copy = (candidate.leaf, candidate.fitness, bytes);
                    variants.copies.push(copy);
                }
                Err(problem) => {
                    faults.note_unread(candidate.leaf, candidate.fitness);
                    self.note(failures, candidate.leaf, problem);
                }
            }
        }
        variants
    }

    /// Tries the copies of all segments in all combinations, up to a limit.
    fn read_all_copies(
        &self,
        segments: &[Segment],
        request: &Request<'_>,
        mut failures: LeafFailures,
        faults: &mut Faults,
    ) -> Result<Vec<u8>, VdevError> {
        let (dva, size) = (request.dva, request.size);
        let all: Vec<_> = segments
            .iter()
            .map(|segment| self.variants(*segment, request.io, &mut failures, faults))
            .collect();
        if all.iter().any(|variants| variants.copies.is_empty()) {
            return Err(VdevError::Unreadable {
                dva,
                size,
                failures,
            });
        }
        let mut choice = vec![0; all.len()];
        let mut block = vec![0; size];
        for _ in 0..COMBINATIONS_MAX {
            for (variants, choice) in all.iter().zip(&choice) {
                let (_, _, bytes) = &variants.copies[variants.distinct[*choice]];
                block[variants.segment.block_offset..][..bytes.len()].copy_from_slice(bytes);
            }
            if (request.verify)(&block) {
                self.note_wrong_copies(&all, &block, (request.blame, faults));
                return Ok(block);
            }
            if !advance(&mut choice, &all) {
                break;
            }
        }
        for variants in all.iter().filter(|variants| variants.distinct.len() > 1) {
            for (leaf, _, _) in &variants.copies {
                self.note(&mut failures, *leaf, LeafProblem::WrongBytes);
            }
        }
        Err(VdevError::Damaged {
            dva,
            size,
            failures,
        })
    }

    fn note_wrong_copies(
        &self,
        all: &[Variants],
        block: &[u8],
        (blame, faults): (Blame, &mut Faults),
    ) {
        let mut wrong = Faults::default();
        for variants in all {
            let right = &block[variants.segment.block_offset..][..variants.segment.length];
            for (leaf, fitness, bytes) in &variants.copies {
                if bytes != right {
                    wrong.note_wrong(*leaf, *fitness);
                }
            }
        }
        if blame == Blame::Each {
            self.charge(&wrong.to_charge());
        }
        faults.extend(wrong);
    }

    /// Where a range of a removed vdev's space was copied to, by one step of its mapping, in
    /// order; `None` if the vdev was not removed.
    pub fn mapped(
        &self,
        vdev: VdevId,
        range: Range<u64>,
    ) -> Result<Option<Vec<IndirectEntry>>, VdevError> {
        let position = usize::try_from(vdev.0).unwrap_or(usize::MAX);
        let top = self.tree.tops.get(position);
        let Some(Layout::Indirect(mapping)) = top.map(|top| &top.layout) else {
            return Ok(None);
        };
        let mapping = mapping.read();
        let mut found = Vec::with_capacity(1);
        let mut at = range.start;
        while at < range.end {
            let entry = mapping.as_ref().and_then(|mapping| mapping.find(at));
            let Some(entry) = entry else {
                let problem = "space in use has no mapping";
                return Err(VdevError::BadMapping { vdev, problem });
            };
            let skip = at - entry.source;
            let length = (entry.target.asize() - skip).min(range.end - at);
            let (target, offset) = (entry.target.vdev(), entry.target.offset());
            found.push(IndirectEntry {
                source: at,
                target: Dva::new(target, offset.saturating_add(skip), length),
                copied_in: entry.copied_in,
            });
            at += length;
        }
        Ok(Some(found))
    }

    /// Gives a removed vdev the mapping of its space, from the MOS, in any order of vdevs.
    pub fn set_indirect_mapping(
        &self,
        vdev: VdevId,
        entries: Vec<IndirectEntry>,
    ) -> Result<(), VdevError> {
        let bad = |problem| VdevError::BadMapping { vdev, problem };
        let position = usize::try_from(vdev.0).unwrap_or(usize::MAX);
        let top = self.tree.tops.get(position).ok_or(bad("no such vdev"))?;
        let Layout::Indirect(place) = &top.layout else {
            return Err(bad("not removed, so it has no mapping"));
        };
        let is_aligned = |entry: &IndirectEntry| entry.source.is_multiple_of(SECTOR_SIZE);
        if !entries.iter().all(is_aligned) {
            return Err(bad("a segment begins within a sector"));
        }
        let mapping = IndirectMapping::new(entries).ok_or(bad("segments are out of order"))?;
        let mut place = place.write();
        *place = Some(Arc::new(mapping));
        Ok(())
    }
}

/// The next choice of copies, like counting; false after the last.
fn advance(choice: &mut [usize], all: &[Variants]) -> bool {
    for (digit, variants) in choice.iter_mut().zip(all) {
        *digit += 1;
        if *digit < variants.distinct.len() {
            return true;
        }
        *digit = 0;
    }
    false
}
