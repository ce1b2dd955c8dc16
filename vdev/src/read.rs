//! Reading one block: checking its address, and slots, where any source will do.
//!
//! The caller says how to recognise the right bytes. Nothing that it refused is ever returned,
//! and every leaf that gave other bytes than the ones accepted in the end is charged with a
//! checksum error, unless it was known to have missed the block's txg.

use crate::error::{LeafFailure, LeafFailures, LeafProblem, VdevError};
use crate::leaf::{Fitness, Leaf, Place};
use crate::shape::Shape;
use crate::stripe::Stripe;
use crate::tree::{Layout, Slot, Source, Top};
use cenote_base::{BLOCK_SIZE_MAX, Txg};
use cenote_ondisk::Dva;

/// Distributed spares that stand in for each other in a row.
const SPARE_HOPS_MAX: usize = 16;

/// Reads of nearby offsets go to the same source of a mirror: 1 MiB.
const BALANCE_SHIFT: u32 = 20;

/// The smallest piece of a damaged copy that is worth a read.
const SECTOR: usize = 512;

/// A block to be read.
pub(crate) struct Request<'a> {
    pub dva: Dva,
    /// Stored bytes.
    pub size: usize,
    /// Physical birth.
    pub birth: Txg,
    /// Whether bytes are the block's.
    pub verify: &'a dyn Fn(&[u8]) -> bool,
    /// Whether the block may never have been written, so that nobody is to blame for others.
    pub speculative: bool,
}

/// A leaf that may have the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub leaf: usize,
    pub fitness: Fitness,
}

impl Shape {
    /// Reads the `size` stored bytes at `dva` of a block physically born in `birth`.
    ///
    /// All redundancy is used until `verify` accepts. Of a gang block, `size` is that of the
    /// header, whatever the address's own size says.
    pub(crate) fn read(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, VdevError> {
        self.read_request(&Request {
            dva,
            size,
            birth,
            verify,
            speculative: false,
        })
    }

    /// As [`Self::read`], of a block that may never have been written: when nobody has the right
    /// bytes, no checksum error is counted. The ends of intent logs are found this way.
    pub(crate) fn read_speculative(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, VdevError> {
        self.read_request(&Request {
            dva,
            size,
            birth,
            verify,
            speculative: true,
        })
    }

    fn read_request(&self, request: &Request<'_>) -> Result<Vec<u8>, VdevError> {
        let Request {
            dva, size, birth, ..
        } = *request;
        let top = self.locate(dva, size, birth)?;
        let result = match &top.layout {
            Layout::Slot(slot) => self.read_slot(slot, dva.offset(), request),
            Layout::Raidz { geometry, slots } => {
                let map = geometry.map(dva.offset(), size as u64, birth);
                Stripe::new(self, slots, &map, birth).read(request)
            }
            Layout::Draid { geometry, slots } => {
                let map = geometry.map(dva.offset(), size as u64);
                Stripe::new(self, slots, &map, birth).read(request)
            }
            Layout::Indirect(_) => self.read_indirect(request),
            Layout::Hole | Layout::Missing => unreachable!("locate refuses these"),
        };
        self.count(top, request, &result);
        result
    }

    /// Counts a read at the top-level vdev and the root, unless the leaf itself is on top.
    fn count(&self, top: &Top, request: &Request<'_>, result: &Result<Vec<u8>, VdevError>) {
        for node in [top.node, 0] {
            let Some(counters) = &self.tree.nodes[node].counters else {
                continue;
            };
            counters.read_operations.add(1);
            match result {
                Ok(_) => counters.read_bytes.add(request.size as u64),
                Err(VdevError::Damaged { .. }) if request.speculative => {}
                Err(VdevError::Damaged { .. }) => counters.checksum_errors.add(1),
                Err(_) => counters.read_errors.add(1),
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

    /// The leaves that may hold `[offset, offset + length)` of a slot, the fittest first.
    pub(crate) fn candidates(
        &self,
        slot: &Slot,
        offset: u64,
        length: usize,
        birth: Txg,
    ) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::with_capacity(slot.sources.len());
        let mut add = |sources: &[Source], spares: &mut Vec<(usize, u64)>| {
            for source in sources {
                match *source {
                    Source::Leaf(leaf) => {
                        let fitness = self.tree.leaves[leaf].fitness(birth);
                        found.extend(fitness.map(|fitness| Candidate { leaf, fitness }));
                    }
                    Source::DistributedSpare { top, spare } => spares.push((top, spare)),
                }
            }
        };
        let mut spares = Vec::new();
        add(&slot.sources, &mut spares);
        for _ in 0..SPARE_HOPS_MAX {
            let Some((top, spare)) = spares.pop() else {
                break;
            };
            let Layout::Draid { geometry, slots } = &self.tree.tops[top].layout else {
                continue;
            };
            match geometry.spare_disk(spare, offset) {
                // A range never reaches into the next slice: blocks stay within a group.
                Some((disk, end)) if offset.saturating_add(length as u64) <= end => {
                    add(&slots[disk].sources, &mut spares);
                }
                _ => {}
            }
        }
        found.sort_by_key(|candidate| candidate.fitness);
        found
    }

    /// As [`Self::candidates`], equally fit ones by load and else so that each serves a share of
    /// the address space.
    pub(crate) fn balanced(
        &self,
        slot: &Slot,
        offset: u64,
        length: usize,
        birth: Txg,
    ) -> Vec<Candidate> {
        let mut found = self.candidates(slot, offset, length, birth);
        if found.len() > 1 {
            let count = found.len();
            let first = (offset >> BALANCE_SHIFT) as usize % count;
            found.rotate_left(first);
            found.sort_by_key(|candidate| {
                (candidate.fitness, self.tree.leaves[candidate.leaf].load())
            });
        }
        found
    }

    /// Adds a leaf's problem to a failed read's story.
    pub(crate) fn note(&self, failures: &mut LeafFailures, leaf: usize, problem: LeafProblem) {
        let node = &self.tree.nodes[self.tree.leaves[leaf].node];
        let path = node.path.as_ref();
        failures.push(LeafFailure {
            guid: node.guid,
            name: path.map_or_else(|| node.kind.to_string(), |path| path.display().to_string()),
            problem,
        });
    }

    /// Adds the leaves of a slot that have no device.
    pub(crate) fn note_closed(&self, failures: &mut LeafFailures, slot: &Slot) {
        for source in &slot.sources {
            if let Source::Leaf(leaf) = *source {
                let Leaf { state, aux, .. } = self.tree.leaves[leaf];
                if self.tree.leaves[leaf].device.is_none() {
                    self.note(failures, leaf, LeafProblem::NotOpen(state, aux));
                }
            }
        }
    }

    /// Reads a block from the first source of a slot that has it.
    pub(crate) fn read_slot(
        &self,
        slot: &Slot,
        offset: u64,
        request: &Request<'_>,
    ) -> Result<Vec<u8>, VdevError> {
        let (dva, size) = (request.dva, request.size);
        let mut failures = LeafFailures::default();
        let mut wrong = Vec::new();
        let (mut any_bytes, mut any_error) = (false, false);
        for candidate in self.balanced(slot, offset, size, request.birth) {
            let leaf = &self.tree.leaves[candidate.leaf];
            match leaf.read_vec(Place::at(offset), size) {
                Ok(bytes) if (request.verify)(&bytes) => {
                    self.charge(&wrong);
                    return Ok(bytes);
                }
                Ok(_) => {
                    any_bytes = true;
                    self.note(&mut failures, candidate.leaf, LeafProblem::WrongBytes);
                    if candidate.fitness <= Fitness::Failing {
                        wrong.push(candidate.leaf);
                    }
                }
                Err(problem) => {
                    any_error = true;
                    self.note(&mut failures, candidate.leaf, problem);
                }
            }
        }
        if !request.speculative {
            self.charge(&wrong);
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

    /// A block of which every source has unreadable sectors, each piece from whoever gives it.
    ///
    /// `None` when there is only one source, or a sector that nobody gives.
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
                leaf.read_into(place, buffer).is_ok()
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

    /// Counts a checksum error at each of these leaves.
    pub(crate) fn charge(&self, leaves: &[usize]) {
        for leaf in leaves {
            self.tree.leaves[*leaf].counters.checksum_errors.add(1);
        }
    }
}
