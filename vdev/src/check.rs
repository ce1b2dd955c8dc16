//! Judging every copy of a block, as a scrub does: each mirror copy, each column, all parity.

use crate::error::VdevError;
use crate::io_context::{IoContext, ReadFrom};
use crate::leaf::{Fitness, Place};
use crate::request::{Blame, Faults, Request};
use crate::shape::Shape;
use crate::stripe::{CellState, Policy, Stripe};
use crate::tree::{Layout, Slot, Source};
use cenote_base::{Guid, Txg};
use cenote_ondisk::Dva;
use std::collections::BTreeMap;

/// What a leaf holds of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyRole {
    /// The whole block, or a whole segment of it.
    Replica,
    /// Data columns.
    Data,
    /// Parity columns.
    Parity,
}

/// The judgement on a leaf's part of a block; later variants are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyHealth {
    /// Right.
    Good,
    /// Not judged: the leaf is known to have missed the block's txg.
    Stale,
    /// Not judged: no right copy is left to compare with.
    Undecided,
    /// Not judged: the leaf is not in use.
    Closed,
    /// The device failed.
    Unreadable,
    /// Other bytes than were written.
    Wrong,
}

/// One leaf's part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyVerdict {
    /// The leaf; of a column that no leaf gave, the child's first.
    pub leaf: Guid,
    /// What it holds.
    pub role: CopyRole,
    /// How well.
    pub health: CopyHealth,
}

/// The outcome of checking all copies of a block.
#[derive(Debug)]
pub struct CopyReport {
    /// One verdict for each leaf and role.
    pub verdicts: Vec<CopyVerdict>,
    /// The block, if it could be read at all.
    pub data: Option<Vec<u8>>,
}

impl CopyReport {
    /// Whether every copy is there and right.
    pub fn is_perfect(&self) -> bool {
        let mut verdicts = self.verdicts.iter();
        self.data.is_some() && verdicts.all(|verdict| verdict.health == CopyHealth::Good)
    }
}

/// The worst verdict for each leaf (by number) and role.
#[derive(Default)]
struct Ballot(BTreeMap<(usize, CopyRole), CopyHealth>);

impl Ballot {
    fn cast(&mut self, leaf: usize, role: CopyRole, health: CopyHealth) {
        let entry = self.0.entry((leaf, role)).or_insert(health);
        *entry = health.max(*entry);
    }
}

impl Shape {
    /// Reads and judges all copies and all parity of the block at `dva`; arguments as for
    /// [`Self::read`].
    ///
    /// Wrong copies are counted as checksum errors of their leaves. An error means that the
    /// address itself is bad; a block that cannot be read is reported without data.
    pub fn check_copies(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
        io: &IoContext,
    ) -> Result<CopyReport, VdevError> {
        self.check_request(&Request {
            dva,
            size,
            birth,
            verify,
            blame: Blame::Each,
            io,
        })
    }

    /// As [`Self::check_copies`], of a block of an intent log. A power cut leaves such a block on
    /// some leaves and not on others: no errors are counted.
    pub fn check_log_copies(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
        io: &IoContext,
    ) -> Result<CopyReport, VdevError> {
        self.check_request(&Request {
            dva,
            size,
            birth,
            verify,
            blame: Blame::Nobody,
            io,
        })
    }

    fn check_request(&self, request: &Request<'_>) -> Result<CopyReport, VdevError> {
        let Request {
            dva,
            size,
            birth,
            io,
            ..
        } = *request;
        let top = self.locate(dva, size, birth)?;
        let mut ballot = Ballot::default();
        let data = match &top.layout {
            Layout::Slot(slot) => self.check_slot(slot, dva.offset(), request, &mut ballot),
            Layout::Raidz { geometry, slots } => {
                let map = geometry.map(dva.offset(), size as u64, birth);
                let stripe = Stripe::new(self, slots, &map, birth, io);
                self.check_stripe(stripe, slots, request, &mut ballot)
            }
            Layout::Draid { geometry, slots } => {
                let map = geometry.map(dva.offset(), size as u64);
                let stripe = Stripe::new(self, slots, &map, birth, io);
                self.check_stripe(stripe, slots, request, &mut ballot)
            }
            Layout::Indirect(_) => self.check_indirect(request, &mut ballot)?,
            Layout::Hole | Layout::Missing => unreachable!("locate refuses these"),
        };
        let data = data.or_else(|| self.nearer_copy(request));
        let verdicts = ballot.0.into_iter().map(|((leaf, role), health)| {
            if health == CopyHealth::Wrong && request.blame == Blame::Each {
                self.charge(&[leaf]);
            }
            let leaf = self.tree.nodes[self.tree.leaves[leaf].node].guid;
            CopyVerdict { leaf, role, health }
        });
        let verdicts = verdicts.collect();
        Ok(CopyReport { verdicts, data })
    }

    /// A block that no medium has, from what a device keeps of it nearer than its medium: a store
    /// may have lost what the local side still has.
    fn nearer_copy(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        if request.io.from == ReadFrom::Nearest || !self.is_in_store() {
            return None;
        }
        let io = request.io.read_from(ReadFrom::Nearest).without_windows();
        // The medium was blamed already.
        let nearer = Request {
            blame: Blame::Nobody,
            io: &io,
            ..*request
        };
        self.read_request(&nearer).ok().map(|found| found.bytes)
    }

    /// Verdicts on the leaves of a slot that cannot be read now.
    fn cast_closed(&self, slot: &Slot, role: CopyRole, ballot: &mut Ballot) {
        for source in &slot.sources {
            if let Source::Leaf(leaf) = *source
                && !self.tree.leaves[leaf].state.is_readable()
            {
                ballot.cast(leaf, role, CopyHealth::Closed);
            }
        }
    }

    /// Judges each source of a slot by `is_right`; returns the first right bytes.
    fn check_sources(
        &self,
        slot: &Slot,
        (offset, size): (u64, usize),
        birth: Txg,
        is_right: &dyn Fn(&[u8]) -> bool,
        io: &IoContext,
        ballot: &mut Ballot,
    ) -> Option<Vec<u8>> {
        let mut right = None;
        let role = CopyRole::Replica;
        for candidate in self.candidates(slot, offset, size, birth) {
            match candidate.fitness {
                Fitness::Good | Fitness::Failing => {}
                Fitness::Stale => {
                    ballot.cast(candidate.leaf, role, CopyHealth::Stale);
                    continue;
                }
                Fitness::LastResort => continue,
            }
            let leaf = &self.tree.leaves[candidate.leaf];
            let health = match leaf.read_vec(Place::at(offset), size, io) {
                Ok(bytes) if is_right(&bytes) => {
                    right.get_or_insert(bytes);
                    CopyHealth::Good
                }
                Ok(_) => CopyHealth::Wrong,
                Err(_) => CopyHealth::Unreadable,
            };
            ballot.cast(candidate.leaf, role, health);
        }
        self.cast_closed(slot, role, ballot);
        right
    }

    fn check_slot(
        &self,
        slot: &Slot,
        offset: u64,
        request: &Request<'_>,
        ballot: &mut Ballot,
    ) -> Option<Vec<u8>> {
        let place = (offset, request.size);
        let (birth, verify) = (request.birth, request.verify);
        let right = self.check_sources(slot, place, birth, verify, request.io, ballot);
        // Stale and closed leaves may still have what the others lost.
        right.or_else(|| {
            let mut faults = Faults::default();
            self.read_slot(slot, offset, request, &mut faults).ok()
        })
    }

    fn check_indirect(
        &self,
        request: &Request<'_>,
        ballot: &mut Ballot,
    ) -> Result<Option<Vec<u8>>, VdevError> {
        let segments = self.segments(request)?;
        let data = self.read_indirect(request, &mut Faults::default()).ok();
        for segment in segments {
            let Layout::Slot(slot) = &self.tree.tops[segment.top].layout else {
                continue;
            };
            let Some(block) = &data else {
                for candidate in
                    self.candidates(slot, segment.offset, segment.length, segment.written)
                {
                    ballot.cast(candidate.leaf, CopyRole::Replica, CopyHealth::Undecided);
                }
                continue;
            };
            let right = &block[segment.block_offset..][..segment.length];
            let place = (segment.offset, segment.length);
            let is_right = |bytes: &[u8]| bytes == right;
            let (written, io) = (segment.written, request.io);
            self.check_sources(slot, place, written, &is_right, io, ballot);
        }
        Ok(data)
    }

    fn check_stripe(
        &self,
        mut stripe: Stripe<'_>,
        slots: &[Slot],
        request: &Request<'_>,
        ballot: &mut Ballot,
    ) -> Option<Vec<u8>> {
        stripe.gather(Policy::TRUSTED, true);
        let block = stripe.search(request, Policy::TRUSTED);
        let mut wrong = vec![false; stripe.cells.len()];
        if let Some(block) = &block {
            for cell in stripe.wrong_cells(block) {
                wrong[cell] = true;
            }
            self.check_skips(&stripe, slots, request, ballot);
        }
        for (index, cell) in stripe.cells.iter().enumerate() {
            let role = match cell.is_parity {
                true => CopyRole::Parity,
                false => CopyRole::Data,
            };
            match cell.state {
                CellState::Read(leaf, _) => {
                    let health = match (wrong[index], block.is_some()) {
                        (true, _) => CopyHealth::Wrong,
                        (false, true) => CopyHealth::Good,
                        (false, false) => CopyHealth::Undecided,
                    };
                    ballot.cast(leaf, role, health);
                }
                CellState::Failed | CellState::Unread => {
                    self.cast_failed(&slots[cell.column.child], request.birth, role, ballot);
                }
                CellState::Absent => {}
            }
        }
        match block {
            Some(mut block) => {
                block.truncate(request.size);
                Some(block)
            }
            // The careful path also asks stale and closed leaves.
            None => stripe.read(request, &mut Faults::default()).ok(),
        }
    }

    /// Why no source of a column's slot gave it.
    fn cast_failed(&self, slot: &Slot, birth: Txg, role: CopyRole, ballot: &mut Ballot) {
        for source in &slot.sources {
            let Source::Leaf(leaf) = *source else {
                continue;
            };
            let health = match self.tree.leaves[leaf].fitness(birth) {
                Some(Fitness::Good | Fitness::Failing) => CopyHealth::Unreadable,
                Some(Fitness::Stale) => CopyHealth::Stale,
                Some(Fitness::LastResort) | None => CopyHealth::Closed,
            };
            ballot.cast(leaf, role, health);
        }
    }

    /// The zeros that pad short draid columns must be zeros.
    fn check_skips(
        &self,
        stripe: &Stripe<'_>,
        slots: &[Slot],
        request: &Request<'_>,
        ballot: &mut Ballot,
    ) {
        for column in stripe.cells.iter().map(|cell| cell.column) {
            let length = usize::try_from(column.skip).expect("at most a block");
            if length == 0 {
                continue;
            }
            let offset = column.offset + column.length;
            let slot = &slots[column.child];
            let candidates = self.candidates(slot, offset, length, request.birth);
            let Some(candidate) = candidates.first() else {
                continue;
            };
            if candidate.fitness > Fitness::Failing {
                continue;
            }
            let leaf = &self.tree.leaves[candidate.leaf];
            let health = match leaf.read_vec(Place::at(offset), length, request.io) {
                Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => CopyHealth::Good,
                Ok(_) => CopyHealth::Wrong,
                Err(_) => CopyHealth::Unreadable,
            };
            ballot.cast(candidate.leaf, CopyRole::Data, health);
        }
    }
}
