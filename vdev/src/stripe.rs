//! Reading a block that is striped with parity: raidz and draid.
//!
//! The usual read touches data columns only, straight into the block. When columns fail, as much
//! parity is read as columns are lost and the block is computed. When the bytes are all there but
//! wrong, some child returned wrong data without an error. Then every set of children, up to as
//! many as there is parity left, is suspected in turn, its columns are recomputed from the others,
//! and the caller's check decides. A child that missed the block's txg is suspected from the start,
//! and its bytes are used only when there is no other way.
//!
//! A column that cannot be read as a whole may be readable in part. When too many columns fail,
//! the block is read once more in rows of one sector, each of which may lose other columns.

use crate::error::{LeafFailures, VdevError};
use crate::geometry::{Column, Map};
use crate::io_context::IoContext;
use crate::leaf::{Fitness, Place};
use crate::request::{Blame, FaultKind, Faults, Request};
use crate::shape::Shape;
use crate::suspects::Suspects;
use crate::tree::Slot;
use cenote_base::Txg;
use cenote_codec::parity;

/// Columns on the same child that are this near are read at once, in maps with many rows.
const MERGE_GAP_MAX: u64 = 32 << 10;

/// Bytes of blocks that may be recomputed in search of silent damage, and sets tried at least.
const SEARCH_BYTES_MAX: u64 = 8 << 30;
const SEARCH_SETS_MIN: u64 = 2048;
const SEARCH_SETS_MAX: u64 = 65_536;

/// What is known of a column's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellState {
    /// Not read yet.
    Unread,
    /// Read from this leaf.
    Read(usize, Fitness),
    /// No leaf could give it.
    Failed,
    /// The row has no such column: it counts as zeros.
    Absent,
}

/// A column of a row and its bytes.
pub(crate) struct Cell<'a> {
    pub column: &'a Column,
    pub is_parity: bool,
    /// Where its bytes are in the arena.
    start: usize,
    pub state: CellState,
}

/// Which sources may be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// The least fit that may serve.
    pub worst: Fitness,
    /// Sources of each slot to pass over first, to try other copies.
    pub rotation: usize,
}

impl Policy {
    /// Leaves that should have the bytes and give them at once.
    const GOOD: Self = Self {
        worst: Fitness::Good,
        rotation: 0,
    };
    /// Leaves that should have the bytes.
    pub(crate) const TRUSTED: Self = Self {
        worst: Fitness::Failing,
        rotation: 0,
    };
}

/// A block on a raidz or draid vdev, being read.
pub(crate) struct Stripe<'a> {
    vdevs: &'a Shape,
    slots: &'a [Slot],
    map: &'a Map,
    birth: Txg,
    io: &'a IoContext,
    /// Columns of all rows, row by row, parity first.
    pub cells: Vec<Cell<'a>>,
    /// The cells' bytes, one after the other.
    arena: Vec<u8>,
    pub failures: LeafFailures,
    /// The leaves that gave wrong bytes, or none.
    faults: Faults,
    /// Bytes that were read without an error were refused.
    silent_damage: bool,
}

/// A recomputed data column.
type Patch = (usize, Vec<u8>);

impl<'a> Stripe<'a> {
    pub(crate) fn new(
        vdevs: &'a Shape,
        slots: &'a [Slot],
        map: &'a Map,
        birth: Txg,
        io: &'a IoContext,
    ) -> Self {
        Self {
            vdevs,
            slots,
            map,
            birth,
            io,
            cells: Vec::new(),
            arena: Vec::new(),
            failures: LeafFailures::default(),
            faults: Faults::default(),
            silent_damage: false,
        }
    }

    /// Reads the block, from data alone if possible; notes the leaves that lacked their part of it.
    pub(crate) fn read(
        &mut self,
        request: &Request<'_>,
        faults: &mut Faults,
    ) -> Result<Vec<u8>, VdevError> {
        let result = self.read_any_way(request);
        faults.extend(std::mem::take(&mut self.faults));
        result
    }

    fn read_any_way(&mut self, request: &Request<'_>) -> Result<Vec<u8>, VdevError> {
        // Many small rows are better read child by child.
        if self.map.rows.len() <= 2
            && let Some(mut block) = self.read_data()
        {
            block.truncate(request.size);
            if (request.verify)(&block) {
                return Ok(block);
            }
        }
        let result = self.read_with_parity(request);
        if let Err(VdevError::Unreadable { .. }) = &result
            && let Some(fine) = self.map.split()
        {
            let mut stripe = Stripe::new(self.vdevs, self.slots, &fine, self.birth, self.io);
            let result = stripe.read_with_parity(request);
            self.faults.extend(stripe.faults);
            return result;
        }
        result
    }

    /// All data columns into one buffer; `None` if one is not to be had from a good source.
    fn read_data(&mut self) -> Option<Vec<u8>> {
        let map = self.map;
        let mut block = vec![0; map.size as usize];
        for column in map.data_columns() {
            self.read_column(column, &mut block[column.block_range()], Policy::GOOD)?;
        }
        Some(block)
    }

    /// Reads a column from the first source that gives it; says which.
    fn read_column(
        &mut self,
        column: &Column,
        buffer: &mut [u8],
        policy: Policy,
    ) -> Option<(usize, Fitness)> {
        let slot = &self.slots[column.child];
        let place = Place {
            offset: column.offset,
            in_scratch: column.in_scratch,
        };
        let mut found = self
            .vdevs
            .candidates(slot, column.offset, buffer.len(), self.birth);
        found.retain(|candidate| candidate.fitness <= policy.worst);
        if !found.is_empty() {
            let skip = policy.rotation % found.len();
            found.rotate_left(skip);
        }
        for candidate in found {
            let leaf = &self.vdevs.tree.leaves[candidate.leaf];
            match leaf.read_into(place, buffer, self.io) {
                Ok(()) => return Some((candidate.leaf, candidate.fitness)),
                Err(problem) => {
                    self.faults.note_unread(candidate.leaf, candidate.fitness);
                    self.vdevs.note(&mut self.failures, candidate.leaf, problem);
                }
            }
        }
        self.vdevs.note_closed(&mut self.failures, slot);
        None
    }

    fn columns_per_row(&self) -> usize {
        self.map.rows[0].columns.len()
    }

    /// Forgets what was read and makes a cell of every column.
    fn reset(&mut self) {
        self.cells.clear();
        let mut start = 0;
        for row in &self.map.rows {
            for (index, column) in row.columns.iter().enumerate() {
                let state = if column.length == 0 {
                    CellState::Absent
                } else {
                    CellState::Unread
                };
                self.cells.push(Cell {
                    column,
                    is_parity: index < self.map.parity,
                    start,
                    state,
                });
                start += column.length as usize;
            }
        }
        self.arena.clear();
        self.arena.resize(start, 0);
    }

    /// The bytes of a cell.
    pub(crate) fn bytes(&self, cell: usize) -> &[u8] {
        let cell = &self.cells[cell];
        &self.arena[cell.start..cell.start + cell.column.length as usize]
    }

    /// Reads the unread ones of these cells.
    fn read_cells(&mut self, mut wanted: Vec<usize>, policy: Policy) {
        wanted.retain(|cell| self.cells[*cell].state == CellState::Unread);
        if self.map.rows.len() > 2 {
            self.read_runs(&mut wanted, policy);
        }
        for index in wanted {
            let cell = &self.cells[index];
            let (column, range) = (
                cell.column,
                cell.start..cell.start + cell.column.length as usize,
            );
            let mut arena = std::mem::take(&mut self.arena);
            let read = self.read_column(column, &mut arena[range], policy);
            self.arena = arena;
            self.cells[index].state = read.map_or(CellState::Failed, |(leaf, fitness)| {
                CellState::Read(leaf, fitness)
            });
        }
    }

    /// Reads neighbouring columns of the same child at once; leaves in `wanted` those that are
    /// better read alone.
    fn read_runs(&mut self, wanted: &mut Vec<usize>, policy: Policy) {
        let place = |cell: &Cell<'_>| {
            let column = cell.column;
            (column.child, column.in_scratch, column.offset)
        };
        wanted.sort_by_key(|cell| place(&self.cells[*cell]));
        let belongs = |a: &usize, b: &usize| {
            let (a, b) = (self.cells[*a].column, self.cells[*b].column);
            a.child == b.child
                && a.in_scratch == b.in_scratch
                && b.offset <= a.offset + a.length + MERGE_GAP_MAX
        };
        let mut runs: Vec<Vec<usize>> = wanted.chunk_by(belongs).map(<[usize]>::to_vec).collect();
        wanted.clear();
        while let Some(mut run) = runs.pop() {
            if let [single] = run.as_slice() {
                wanted.push(*single);
                continue;
            }
            let (first, last) = (
                self.cells[run[0]].column,
                self.cells[run[run.len() - 1]].column,
            );
            let whole = Column {
                length: last.offset + last.length - first.offset,
                ..*first
            };
            let mut buffer = vec![0; whole.length as usize];
            let Some((leaf, fitness)) = self.read_column(&whole, &mut buffer, policy) else {
                // Somewhere in here is the bad sector: look in both halves.
                let second = run.split_off(run.len() / 2);
                runs.extend([run, second]);
                continue;
            };
            for index in run {
                let cell = &mut self.cells[index];
                let at = (cell.column.offset - first.offset) as usize;
                let length = cell.column.length as usize;
                self.arena[cell.start..cell.start + length]
                    .copy_from_slice(&buffer[at..at + length]);
                cell.state = CellState::Read(leaf, fitness);
            }
        }
    }

    /// Reads all data, then as much parity as each row lacks data, or all of it.
    pub(crate) fn gather(&mut self, policy: Policy, all_parity: bool) {
        if self.cells.is_empty() {
            self.reset();
        }
        let cells = 0..self.cells.len();
        self.read_cells(
            cells.filter(|cell| !self.cells[*cell].is_parity).collect(),
            policy,
        );
        let width = self.columns_per_row();
        // A parity column may fail too, then the next one is wanted.
        for _ in 0..self.map.parity {
            let mut wanted = Vec::new();
            for (row, cells) in self.cells.chunks(width).enumerate() {
                let lost = cells.iter().filter(|cell| cell.state == CellState::Failed);
                let have = cells[..self.map.parity].iter();
                let have = have.filter(|cell| matches!(cell.state, CellState::Read(..)));
                let lost_data = lost.filter(|cell| !cell.is_parity).count();
                let lacking = if all_parity {
                    self.map.parity
                } else {
                    lost_data.saturating_sub(have.count())
                };
                let unread = (0..self.map.parity)
                    .map(|index| row * width + index)
                    .filter(|cell| self.cells[*cell].state == CellState::Unread);
                wanted.extend(unread.take(lacking));
            }
            if wanted.is_empty() {
                break;
            }
            self.read_cells(wanted, policy);
        }
    }

    /// Whether a cell's bytes are to be computed rather than used.
    fn is_lost(&self, cell: usize, suspects: &[usize]) -> bool {
        match self.cells[cell].state {
            CellState::Absent => false,
            CellState::Read(..) => suspects.contains(&self.cells[cell].column.child),
            CellState::Unread | CellState::Failed => true,
        }
    }

    /// Computes all lost data columns, also those of suspected children; `None` if too much is
    /// lost in some row.
    pub(crate) fn solve(&mut self, suspects: &[usize]) -> Option<Vec<Patch>> {
        let (width, parity_count) = (self.columns_per_row(), self.map.parity);
        let mut patches = Vec::new();
        for first in (0..self.cells.len()).step_by(width) {
            let lost: Vec<usize> = (0..width)
                .filter(|index| self.is_lost(first + index, suspects))
                .collect();
            if lost.iter().all(|index| *index < parity_count) {
                continue;
            }
            if lost.len() > parity_count {
                return None;
            }
            let mut fresh: Vec<Vec<u8>> = lost
                .iter()
                .map(|index| vec![0; self.cells[first + index].column.length as usize])
                .collect();
            let mut fresh_columns = fresh.iter_mut();
            let cells = &self.cells[first..first + width];
            let start = cells[0].start;
            let mut rest = &mut self.arena[start..];
            let mut columns: Vec<&mut [u8]> = Vec::with_capacity(width);
            for (index, cell) in cells.iter().enumerate() {
                let (own, after) = rest.split_at_mut(cell.column.length as usize);
                rest = after;
                match lost.contains(&index) {
                    true => columns.extend(fresh_columns.next().map(Vec::as_mut_slice)),
                    false => columns.push(own),
                }
            }
            parity::reconstruct(parity_count, &mut columns, &lost).ok()?;
            let computed = lost.iter().zip(fresh);
            let data = computed.filter(|(index, _)| **index >= parity_count);
            patches.extend(data.map(|(index, bytes)| (first + index, bytes)));
        }
        Some(patches)
    }

    /// The block as its data cells have it; what is lost reads as zeros.
    fn assemble(&self) -> Vec<u8> {
        let mut block = vec![0; self.map.size as usize];
        for (index, cell) in self.cells.iter().enumerate() {
            if !cell.is_parity && cell.column.length > 0 {
                block[cell.column.block_range()].copy_from_slice(self.bytes(index));
            }
        }
        block
    }

    fn apply(&self, block: &mut [u8], patches: &[Patch]) {
        for (cell, bytes) in patches {
            block[self.cells[*cell].column.block_range()].copy_from_slice(bytes);
        }
    }

    fn undo(&self, block: &mut [u8], patches: &[Patch]) {
        for (cell, _) in patches {
            let range = self.cells[*cell].column.block_range();
            block[range].copy_from_slice(self.bytes(*cell));
        }
    }

    /// The ways to read, from the best sources to any: stale ones too, then other copies.
    fn policies(&self) -> Vec<Policy> {
        let deepest = self.slots.iter().map(|slot| slot.sources.len()).max();
        let mut policies = vec![Policy::GOOD];
        for rotation in 0..deepest.unwrap_or(1).clamp(1, 8) {
            let worst = Fitness::LastResort;
            policies.push(Policy { worst, rotation });
        }
        policies
    }

    /// Whether reading by `policy` may give other bytes than reading good sources did.
    fn offers_more(&self, policy: Policy) -> bool {
        if policy.rotation > 0 || policy.worst == Fitness::Good {
            return true;
        }
        let leaves = &self.vdevs.tree.leaves;
        leaves.iter().any(|leaf| {
            let fitness = leaf.fitness(self.birth);
            fitness.is_some_and(|fitness| fitness > Fitness::Good)
        })
    }

    fn read_with_parity(&mut self, request: &Request<'_>) -> Result<Vec<u8>, VdevError> {
        let mut any_solution = false;
        for policy in self.policies() {
            if !self.offers_more(policy) {
                continue;
            }
            self.reset();
            self.gather(policy, false);
            if self.solve(&[]).is_none() {
                continue;
            }
            any_solution = true;
            if let Some(mut block) = self.search(request, policy) {
                if self.silent_damage {
                    self.note_wrong(&block, request.blame);
                }
                self.note_stale();
                block.truncate(request.size);
                return Ok(block);
            }
        }
        let failures = std::mem::take(&mut self.failures);
        let (dva, size) = (request.dva, request.size);
        Err(match any_solution {
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

    /// The right block, with its padding, from what was gathered: as it is, or with sets of
    /// children suspected.
    pub(crate) fn search(&mut self, request: &Request<'_>, policy: Policy) -> Option<Vec<u8>> {
        let mut block = self.assemble();
        if let Some(patches) = self.solve(&[]) {
            self.apply(&mut block, &patches);
            if (request.verify)(&block[..request.size]) {
                return Some(block);
            }
            self.undo(&mut block, &patches);
        }
        self.silent_damage = true;
        self.gather(policy, true);
        let mut children: Vec<usize> = self
            .cells
            .iter()
            .filter(|cell| matches!(cell.state, CellState::Read(..)))
            .map(|cell| cell.column.child)
            .collect();
        children.sort_unstable();
        children.dedup();
        let sets_max =
            (SEARCH_BYTES_MAX / self.map.size.max(1)).clamp(SEARCH_SETS_MIN, SEARCH_SETS_MAX);
        let mut tried = 0;
        let mut sets = Suspects::new(&children, self.map.parity);
        while let Some(suspects) = sets.next_set() {
            let Some(patches) = self.solve(suspects).filter(|patches| !patches.is_empty()) else {
                continue;
            };
            self.apply(&mut block, &patches);
            if (request.verify)(&block[..request.size]) {
                return Some(block);
            }
            self.undo(&mut block, &patches);
            tried += 1;
            if tried >= sets_max {
                break;
            }
        }
        None
    }

    /// Cells that were read and do not fit the right `block`, given with its padding.
    pub(crate) fn wrong_cells(&self, block: &[u8]) -> Vec<usize> {
        let (width, parity_count) = (self.columns_per_row(), self.map.parity);
        let mut wrong = Vec::new();
        for (row, cells) in self.cells.chunks(width).enumerate() {
            let height = cells[0].column.length as usize;
            let mut computed = vec![vec![0; height]; parity_count];
            let data: Vec<&[u8]> = cells[parity_count..]
                .iter()
                .map(|cell| match cell.column.length {
                    0 => &[],
                    _ => &block[cell.column.block_range()],
                })
                .collect();
            let mut outputs: Vec<&mut [u8]> = computed.iter_mut().map(Vec::as_mut_slice).collect();
            parity::generate(&mut outputs, &data);
            let right = computed.iter().map(Vec::as_slice).chain(data);
            for (index, right) in right.enumerate() {
                let cell = row * width + index;
                let is_read = matches!(self.cells[cell].state, CellState::Read(..));
                if is_read && self.bytes(cell) != right {
                    wrong.push(cell);
                }
            }
        }
        wrong
    }

    /// Notes each leaf that gave wrong bytes, and charges it if it is to blame.
    fn note_wrong(&mut self, block: &[u8], blame: Blame) {
        let mut wrong = Faults::default();
        for cell in self.wrong_cells(block) {
            if let CellState::Read(leaf, fitness) = self.cells[cell].state {
                wrong.note_wrong(leaf, fitness);
            }
        }
        if blame == Blame::Each {
            self.vdevs.charge(&wrong.to_charge());
        }
        self.faults.extend(wrong);
    }

    /// Notes the leaves that missed the block and were not asked.
    fn note_stale(&mut self) {
        for cell in &self.cells {
            let column = cell.column;
            if column.length == 0 || matches!(cell.state, CellState::Read(..)) {
                continue;
            }
            let (slot, length) = (&self.slots[column.child], column.length as usize);
            let holders = self
                .vdevs
                .candidates(slot, column.offset, length, self.birth);
            for holder in holders {
                if holder.fitness == Fitness::Stale {
                    self.faults.note(holder.leaf, FaultKind::Stale);
                }
            }
        }
    }
}
