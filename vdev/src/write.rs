//! One block on its way to the devices: columns, parity, and what goes to which leaf.
//!
//! A write goes to every leaf that should hold the bytes: all sides of a mirror, the old and the
//! new device of a replacement, a spare and what it stands in for. A [`PreparedWrite`] is the
//! list of those *fragments* with the parity computed; it needs no other block's company, so
//! many threads can prepare at once. Sending fragments is the next step ([`crate::WritePlan`]).
//!
//! A place that one leaf at least took is a *cell* that holds; a row of a raidz or draid may
//! lack as many cells as it has parity, and no row more.
//!
//! A write that names its leaves ([`VdevWrite::leaves`]) rewrites what these leaves should have had
//! all along. It succeeds if each of them took its part, and no leaf counts as having missed
//! anything by it.

use crate::error::{LeafFailures, VdevError};
use crate::geometry::{Map, Row};
use crate::leaf::Place;
use crate::queue::IoClass;
use crate::shape::Shape;
use crate::tree::{Layout, Slot};
use cenote_base::{Guid, Txg};
use cenote_codec::parity;
use cenote_device::{AlignedBuf, BlockBuffer, Purpose};
use cenote_ondisk::Dva;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// One copy of a block to be written.
#[derive(Clone, Debug)]
pub struct VdevWrite {
    /// Where it goes. Of a gang block, the address of the header.
    pub dva: Dva,
    /// The stored bytes; zeros are added up to the allocation unit.
    pub data: Arc<BlockBuffer>,
    /// The txg in which the space was allocated.
    pub txg: Txg,
    /// The only leaves that it goes to, for repairs; `None` for all that should have it.
    pub leaves: Option<Arc<[Guid]>>,
    /// What it is, for devices that keep metadata apart.
    pub purpose: Purpose,
    /// The queue of a device in which it waits.
    pub class: IoClass,
}

impl VdevWrite {
    /// A write to all leaves that should have the block.
    pub fn new(dva: Dva, data: Arc<BlockBuffer>, txg: Txg) -> Self {
        Self {
            dva,
            data,
            txg,
            leaves: None,
            purpose: Purpose::Unknown,
            class: IoClass::AsyncWrite,
        }
    }

    /// Whether it rewrites what some leaves should have had.
    pub(crate) fn is_repair(&self) -> bool {
        self.leaves.is_some()
    }
}

/// Where a fragment's bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// The block from this byte on; zeros behind its end.
    Data(usize),
    /// The computed parity from this byte on.
    Parity(usize),
    /// Zeros that readers rely on.
    Zeros,
    /// Space that is never read, written only to join its neighbours.
    Filler,
}

/// Bytes for one leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub leaf: usize,
    pub place: Place,
    pub length: usize,
    pub bytes: Bytes,
    /// The cell that holds if this is written.
    pub cell: usize,
}

/// Cells of which so many may be lost.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub cells: Range<usize>,
    pub may_lack: usize,
}

/// A block's fragments, ready to be sent.
#[derive(Debug)]
pub struct PreparedWrite {
    pub(crate) write: VdevWrite,
    pub(crate) parity: Option<AlignedBuf>,
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) groups: Vec<Group>,
    /// Whether a cell has bytes that readers need.
    needed: Vec<bool>,
    /// Leaves that should have had a part and take none.
    pub(crate) absent: Vec<usize>,
}

impl PreparedWrite {
    fn new(write: VdevWrite) -> Self {
        Self {
            write,
            parity: None,
            fragments: Vec::new(),
            groups: Vec::new(),
            needed: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// How many cells the block has.
    pub(crate) fn cells(&self) -> usize {
        self.needed.len()
    }

    /// Adds a group of cells, of which those that say so are needed.
    pub(crate) fn add_group(&mut self, may_lack: usize, needed: impl Iterator<Item = bool>) {
        let first = self.needed.len();
        self.needed.extend(needed);
        let cells = first..self.needed.len();
        self.groups.push(Group { cells, may_lack });
    }

    /// Whether no group lacks more cells than it may, given which hold.
    pub(crate) fn is_safe(&self, holds: impl Fn(usize) -> bool) -> bool {
        self.groups.iter().all(|group| {
            let needed = group.cells.clone().filter(|cell| self.needed[*cell]);
            needed.filter(|cell| !holds(*cell)).count() <= group.may_lack
        })
    }

    /// Adds a fragment's bytes to `out`, as many slices as they are in.
    pub(crate) fn slices<'a>(&'a self, fragment: &Fragment, out: &mut Vec<IoSlice<'a>>) {
        let source: &[u8] = match (fragment.bytes, &self.parity) {
            (Bytes::Data(start), _) => self.write.data.get(start..).unwrap_or(&[]),
            (Bytes::Parity(start), Some(parity)) => &parity[start..],
            _ => &[],
        };
        let length = source.len().min(fragment.length);
        if length > 0 {
            out.push(IoSlice::new(&source[..length]));
        }
        let mut left = fragment.length - length;
        while left > 0 {
            let zeros = left.min(ZEROS.0.len());
            out.push(IoSlice::new(&ZEROS.0[..zeros]));
            left -= zeros;
        }
    }
}

/// Zeros on a page's border, which devices take without a copy.
#[repr(align(4096))]
struct Zeros([u8; 64 << 10]);

static ZEROS: Zeros = Zeros([0; 64 << 10]);

impl Shape {
    /// Splits a block into what goes to which leaf and computes its parity.
    ///
    /// # Errors
    /// If the address is none that can be written; missing devices are no error yet.
    pub fn prepare_write(&self, write: VdevWrite) -> Result<PreparedWrite, VdevError> {
        let VdevWrite { dva, txg, .. } = write;
        let size = write.data.len();
        let top = self.locate(dva, size, txg)?;
        let mut prepared = PreparedWrite::new(write);
        match &top.layout {
            Layout::Slot(slot) => {
                let length = size.next_multiple_of(1 << top.ashift);
                prepared.add_group(0, std::iter::once(true));
                let fragment = Fragment {
                    leaf: 0,
                    place: Place::at(dva.offset()),
                    length,
                    bytes: Bytes::Data(0),
                    cell: 0,
                };
                self.add_fragments(&mut prepared, slot, fragment);
            }
            Layout::Raidz { geometry, slots } => {
                if geometry.uses_scratch() {
                    let problem = "the expansion of its raidz vdev stopped in the boot region";
                    return Err(VdevError::NotWritable { dva, problem });
                }
                let map = geometry.map(dva.offset(), size as u64, txg);
                let shadow = geometry.shadow_row(dva.offset(), size as u64, txg);
                self.add_map(&mut prepared, slots, &map, shadow);
                for (child, offset) in geometry.padding(dva.offset(), size as u64, txg) {
                    let fragment = Fragment {
                        leaf: 0,
                        place: Place::at(offset),
                        length: 1 << top.ashift,
                        bytes: Bytes::Filler,
                        cell: 0,
                    };
                    self.add_fragments(&mut prepared, &slots[child], fragment);
                }
            }
            Layout::Draid { geometry, slots } => {
                let map = geometry.map(dva.offset(), size as u64);
                self.add_map(&mut prepared, slots, &map, None);
            }
            Layout::Indirect(_) if prepared.write.is_repair() => {
                self.add_segments(&mut prepared)?;
            }
            Layout::Indirect(_) => {
                let problem = "its vdev was removed";
                return Err(VdevError::NotWritable { dva, problem });
            }
            Layout::Hole | Layout::Missing => unreachable!("locate refuses these"),
        }
        Ok(prepared)
    }

    /// Adds the columns of all rows, their parity, and the zeros behind short ones. The row that
    /// `shadow` names goes there too.
    fn add_map(
        &self,
        prepared: &mut PreparedWrite,
        slots: &[Slot],
        map: &Map,
        shadow: Option<(usize, Row)>,
    ) {
        let stored: u64 = map.data_columns().map(|column| column.length).sum();
        assert_eq!(stored, map.size, "the columns hold the whole block");
        let bytes: usize = map.rows.iter().map(|row| height(row) * map.parity).sum();
        let mut computed = AlignedBuf::take(bytes);
        let mut start = 0;
        for (number, row) in map.rows.iter().enumerate() {
            let end = start + height(row) * map.parity;
            let data: &[u8] = &prepared.write.data;
            compute_parity(row, map.parity, data, &mut computed[start..end]);
            self.add_row(prepared, slots, row, start, map.parity);
            if let Some((_, shadow)) = shadow.as_ref().filter(|(of, _)| *of == number) {
                self.add_row(prepared, slots, shadow, start, map.parity);
            }
            start = end;
        }
        prepared.parity = Some(computed);
    }

    /// Adds a row's columns, whose computed parity begins at `parity_start`.
    fn add_row(
        &self,
        prepared: &mut PreparedWrite,
        slots: &[Slot],
        row: &Row,
        parity_start: usize,
        parity: usize,
    ) {
        let first = prepared.cells();
        let needed = row.columns.iter().map(|column| column.length > 0);
        prepared.add_group(parity, needed);
        for (index, column) in row.columns.iter().enumerate() {
            let bytes = match index < parity {
                true => Bytes::Parity(parity_start + index * height(row)),
                false => Bytes::Data(column.block_offset as usize),
            };
            let fragment = Fragment {
                leaf: 0,
                place: Place {
                    offset: column.offset,
                    in_scratch: column.in_scratch,
                },
                length: column.length as usize,
                bytes,
                cell: first + index,
            };
            let slot = &slots[column.child];
            if column.length > 0 || column.skip > 0 {
                self.add_fragments(prepared, slot, fragment);
            }
            if column.skip > 0 {
                let zeros = Fragment {
                    place: Place::at(column.offset + column.length),
                    length: column.skip as usize,
                    bytes: Bytes::Zeros,
                    ..fragment
                };
                self.add_fragments(prepared, slot, zeros);
            }
        }
    }

    /// Adds `fragment` for every leaf of the slot.
    pub(crate) fn add_fragments(
        &self,
        prepared: &mut PreparedWrite,
        slot: &Slot,
        fragment: Fragment,
    ) {
        for holder in self.holders(slot, fragment.place.offset, fragment.length) {
            let leaf = holder.leaf;
            let is_named = |leaf, leaves: &[Guid]| leaves.contains(&self.guid_of_leaf(leaf));
            // A distributed spare by its own name is just its space on the leaf.
            let is_meant = |leaves: &[Guid]| {
                is_named(leaf, leaves) || holder.spare.is_some_and(|spare| is_named(spare, leaves))
            };
            if !prepared.write.leaves.as_deref().is_none_or(is_meant) {
                continue;
            }
            if !self.tree.leaves[leaf].is_writable() {
                if fragment.bytes != Bytes::Filler && !prepared.absent.contains(&leaf) {
                    prepared.absent.push(leaf);
                }
            } else if fragment.length > 0 {
                prepared.fragments.push(Fragment { leaf, ..fragment });
            }
        }
    }

    /// Writes blocks, one after the other where threads are not at hand; see [`crate::WritePlan`]
    /// for many at once. A result is an error if too few leaves took the block.
    pub fn write(&self, writes: Vec<VdevWrite>) -> Vec<Result<(), VdevError>> {
        let mut results: Vec<Option<Result<(), VdevError>>> = Vec::new();
        let mut prepared = Vec::with_capacity(writes.len());
        for write in writes {
            let result = self.prepare_write(write);
            results.push(result.map(|write| prepared.push(write)).err().map(Err));
        }
        let plan = self.plan_writes(prepared);
        for chunk in 0..plan.chunks() {
            self.write_chunk(&plan, chunk);
        }
        let mut written = self.finish_writes(&plan).into_iter();
        let result_of = |refused: Option<_>| refused.or_else(|| written.next());
        let results = results.into_iter().map(result_of);
        results
            .map(|result| result.expect("each write was refused or prepared"))
            .collect()
    }

    /// What is said of a write that too few leaves took.
    pub(crate) fn unwritten(&self, write: &PreparedWrite, mut failures: LeafFailures) -> VdevError {
        for leaf in &write.absent {
            let (state, aux) = self.tree.leaves[*leaf].live_state();
            let problem = crate::error::LeafProblem::NotOpen(state, aux);
            self.note(&mut failures, *leaf, problem);
        }
        VdevError::Unwritten {
            dva: write.write.dva,
            size: write.write.data.len(),
            failures,
        }
    }
}

/// Bytes of a row's longest column, which is its parity's.
fn height(row: &Row) -> usize {
    row.columns[0].length as usize
}

/// Computes the parity of a row of the block into `out`: one column after the other.
fn compute_parity(row: &Row, parity_count: usize, block: &[u8], out: &mut [u8]) {
    let height = height(row);
    let column_bytes = |start: u64, length: u64| {
        // The last column may reach beyond the block, into the padding.
        let end = ((start + length) as usize).min(block.len());
        block.get(start as usize..end).unwrap_or(&[])
    };
    let data: Vec<&[u8]> = row.columns[parity_count..]
        .iter()
        .map(|column| column_bytes(column.block_offset, column.length))
        .collect();
    let mut columns: Vec<&mut [u8]> = out.chunks_exact_mut(height).collect();
    assert_eq!(columns.len(), parity_count, "the buffer was sized so");
    parity::generate(&mut columns, &data);
}
