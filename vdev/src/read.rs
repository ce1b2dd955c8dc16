//! Reading one block: checking its address, and slots, where any source will do.
//!
//! The caller says how to recognise the right bytes. Nothing that it refused is ever returned,
//! and every leaf that gave other bytes than the ones accepted in the end is charged with a
//! checksum error, unless it was known to have missed the block's txg.

use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::io_context::IoContext;
use crate::leaf::{Fitness, Place};
use crate::request::{Blame, FaultKind, Faults, ReadOutcome, Request};
use crate::shape::Shape;
use crate::stripe::Stripe;
use crate::tree::{Layout, Slot, Top};
use cenote_base::{BLOCK_SIZE_MAX, Txg};
use cenote_ondisk::Dva;

/// The smallest piece of a damaged copy that is worth a read.
const SECTOR: usize = 512;

impl Shape {
    /// Reads the `size` stored bytes at `dva` of a block physically born in `birth`.
    ///
    /// All redundancy is used until `verify` accepts. The outcome lists the leaves that did not
    /// have the right bytes. Of a gang block, `size` is that of the header, whatever the address's
    /// own size says.
    pub fn read(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
        io: &IoContext,
    ) -> Result<ReadOutcome, VdevError> {
        self.read_request(&Request {
            dva,
            size,
            birth,
            verify,
            blame: Blame::Each,
            io,
        })
    }

    /// As [`Self::read`], of a block of an intent log. A power cut leaves such a block on some
    /// leaves and not on others, which is no fault of theirs. A checksum error is counted only when
    /// no leaf has a block that `is_known` to have been written.
    pub fn read_log_block(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
        is_known: bool,
        io: &IoContext,
    ) -> Result<ReadOutcome, VdevError> {
        let blame = match is_known {
            true => Blame::IfLost,
            false => Blame::Nobody,
        };
        self.read_request(&Request {
            dva,
            size,
            birth,
            verify,
            blame,
            io,
        })
    }

    pub(crate) fn read_request(&self, request: &Request<'_>) -> Result<ReadOutcome, VdevError> {
        let Request {
            dva, size, birth, ..
        } = *request;
        let top = self.locate(dva, size, birth)?;
        let mut faults = Faults::default();
        let result = match &top.layout {
            Layout::Slot(slot) => self.read_slot(slot, dva.offset(), request, &mut faults),
            Layout::Raidz { geometry, slots } => {
                let map = geometry.map(dva.offset(), size as u64, birth);
                Stripe::new(self, slots, &map, birth, request.io).read(request, &mut faults)
            }
            Layout::Draid { geometry, slots } => {
                let map = geometry.map(dva.offset(), size as u64);
                Stripe::new(self, slots, &map, birth, request.io).read(request, &mut faults)
            }
            Layout::Indirect(_) => self.read_indirect(request, &mut faults),
            Layout::Hole | Layout::Missing => unreachable!("locate refuses these"),
        };
        self.count(top, request, result.as_ref().err());
        result.map(|bytes| self.outcome(bytes, &faults))
    }

    /// Counts a read at the top-level vdev and the root, unless the leaf itself is on top.
    fn count(&self, top: &Top, request: &Request<'_>, error: Option<&VdevError>) {
        for node in [top.node, 0] {
            let Some(counters) = &self.tree.nodes[node].counters else {
                continue;
            };
            counters.read_operations.add(1);
            match error {
                None => counters.read_bytes.add(request.size as u64),
                Some(VdevError::Damaged { .. }) if request.blame == Blame::Nobody => {}
                Some(VdevError::Damaged { .. }) => counters.checksum_errors.add(1),
                Some(_) => counters.read_errors.add(1),
            }
        }
    }

    /// The top-level vdev of an address, if it can hold `size` bytes there.
    pub(crate) fn locate(&self, dva: Dva, size: usize, birth: Txg) -> Result<&Top, VdevError> {
        let Some(top) = self.top(dva.vdev()) else {
            let vdevs = self.tree.tops.len();
            return Err(VdevError::NoSuchVdev { dva, vdevs });
        };
        if size == 0 || size as u64 > BLOCK_SIZE_MAX {
            return Err(VdevError::BadSize { dva, size });
        }
        match top.layout {
            Layout::Hole => {
                return Err(VdevError::NoSpace {
                    dva,
                    kind: "a hole",
                });
            }
            Layout::Missing => {
                let kind = "missing";
                return Err(VdevError::NoSpace { dva, kind });
            }
            _ => {}
        }
        let end = dva
            .offset()
            .checked_add(top.block_asize(size as u64, birth));
        if end.is_none_or(|end| end > top.asize) {
            let asize = top.asize;
            return Err(VdevError::OutOfRange { dva, size, asize });
        }
        let unit = top.alignment();
        if !dva.offset().is_multiple_of(unit) {
            return Err(VdevError::Misaligned { dva, unit });
        }
        Ok(top)
    }

    /// Reads a block from the first source of a slot that has it, and notes those that did not.
    pub(crate) fn read_slot(
        &self,
        slot: &Slot,
        offset: u64,
        request: &Request<'_>,
        faults: &mut Faults,
    ) -> Result<Vec<u8>, VdevError> {
        let (dva, size) = (request.dva, request.size);
        let mut failures = LeafFailures::default();
        let (mut any_bytes, mut any_error) = (false, false);
        let candidates = self.balanced(slot, offset, size, request.birth);
        for candidate in &candidates {
            let leaf = &self.tree.leaves[candidate.leaf];
            match leaf.read_vec(Place::at(offset), size, request.io) {
                Ok(bytes) if (request.verify)(&bytes) => {
                    if request.blame == Blame::Each {
                        self.charge(&faults.to_charge());
                    }
                    for other in &candidates {
                        // It is not read while others have the block, but it lacks the block all
                        // the same.
                        if other.fitness == Fitness::Stale && other.leaf != candidate.leaf {
                            faults.note(other.leaf, FaultKind::Stale);
                        }
                    }
                    return Ok(bytes);
                }
                Ok(_) => {
                    any_bytes = true;
                    self.note(&mut failures, candidate.leaf, LeafProblem::WrongBytes);
                    faults.note_wrong(candidate.leaf, candidate.fitness);
                }
                Err(problem) => {
                    any_error = true;
                    self.note(&mut failures, candidate.leaf, problem);
                    faults.note_unread(candidate.leaf, candidate.fitness);
                }
            }
        }
        if request.blame != Blame::Nobody {
            self.charge(&faults.to_charge());
        }
        if any_error
            && let Some(block) = self.read_pieces(slot, offset, request)
            && (request.verify)(&block)
        {
            return Ok(block);
        }
        self.note_closed(&mut failures, slot);
        Err(match any_bytes {
            true => VdevError::Damaged {
                dva,
                size,
                failures,
            },
            false => VdevError::Unreadable {
                dva,
                size,
                failures,
            },
        })
    }

    /// Reads a block piecewise when every source has unreadable sectors: each piece from a leaf
    /// that can read it.
    ///
    /// `None` when there is only one source, or a sector that no leaf can read.
    fn read_pieces(&self, slot: &Slot, offset: u64, request: &Request<'_>) -> Option<Vec<u8>> {
        let candidates = self.candidates(slot, offset, request.size, request.birth);
        if candidates.len() < 2 {
            return None;
        }
        let mut block = vec![0; request.size];
        let half = request.size / 2 / SECTOR * SECTOR;
        let mut pieces = vec![0..half, half..request.size];
        while let Some(piece) = pieces.pop() {
            let place = Place::at(offset.checked_add(piece.start as u64)?);
            let buffer = &mut block[piece.clone()];
            let is_read = candidates.iter().any(|candidate| {
                let leaf = &self.tree.leaves[candidate.leaf];
                leaf.read_into(place, buffer, request.io).is_ok()
            });
            if is_read {
                continue;
            }
            let half = piece.start + piece.len() / 2 / SECTOR * SECTOR;
            if half == piece.start {
                return None;
            }
            pieces.extend([piece.start..half, half..piece.end]);
        }
        Some(block)
    }
}
