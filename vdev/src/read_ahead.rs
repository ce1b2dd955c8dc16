//! Reading all copies of neighbouring blocks at once: see [`crate::window`].

use crate::batch::{BatchRead, Extent};
use crate::geometry::Map;
use crate::io_context::IoContext;
use crate::leaf::{Fitness, Place};
use crate::request::{Blame, Request};
use crate::shape::Shape;
use crate::tree::{Layout, Slot};
use crate::window::{Window, Windows};
use cenote_base::Txg;
use cenote_device::AlignedBuf;

impl Shape {
    /// Reads every copy and column of some blocks, parity too, in few requests, as far as healthy
    /// leaves should have them.
    pub fn read_windows(&self, reads: &[BatchRead], io: &IoContext) -> Windows {
        let mut extents = Vec::new();
        for (index, read) in reads.iter().enumerate() {
            self.plan_all(index, read, &mut extents);
        }
        extents.sort_unstable_by_key(|extent| {
            (extent.leaf, extent.place.in_scratch, extent.place.offset)
        });
        let mut windows = Vec::new();
        let mut rest = extents.as_slice();
        let mut fetched = 0;
        while !rest.is_empty() {
            let (chunk, after) = self.next_chunk(rest, &mut fetched, io);
            rest = after;
            windows.extend(self.read_window(chunk, io));
        }
        Windows::new(windows)
    }

    fn read_window(&self, chunk: &[Extent], io: &IoContext) -> Option<Window> {
        let leaf = &self.tree.leaves[chunk[0].leaf];
        let place = chunk[0].place;
        let end = chunk.iter().map(Extent::end).max()?;
        let length = usize::try_from(end.checked_sub(place.offset)?).ok()?;
        let mut bytes = AlignedBuf::take(length);
        leaf.read_joined(place, &mut bytes, io).ok()?;
        let place = leaf.window_place(place);
        Some(Window { place, bytes })
    }

    /// Adds all places where a part of a block should be.
    fn plan_all(&self, index: usize, read: &BatchRead, extents: &mut Vec<Extent>) {
        let Ok(top) = self.locate(read.dva, read.size, read.birth) else {
            return;
        };
        let (offset, birth) = (read.dva.offset(), read.birth);
        match &top.layout {
            Layout::Slot(slot) => {
                self.plan_slot(index, slot, (offset, read.size), birth, extents);
            }
            Layout::Raidz { geometry, slots } => {
                let map = geometry.map(offset, read.size as u64, birth);
                self.plan_stripe(index, slots, &map, birth, extents);
            }
            Layout::Draid { geometry, slots } => {
                let map = geometry.map(offset, read.size as u64);
                self.plan_stripe(index, slots, &map, birth, extents);
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
                for segment in self.segments(&request).unwrap_or_default() {
                    if let Layout::Slot(slot) = &self.tree.tops[segment.top].layout {
                        let place = (segment.offset, segment.length);
                        self.plan_slot(index, slot, place, segment.written, extents);
                    }
                }
            }
            Layout::Hole | Layout::Missing => {}
        }
    }

    fn plan_slot(
        &self,
        read: usize,
        slot: &Slot,
        (offset, length): (u64, usize),
        birth: Txg,
        extents: &mut Vec<Extent>,
    ) {
        for candidate in self.candidates(slot, offset, length, birth) {
            if candidate.fitness == Fitness::Good {
                extents.push(Extent {
                    leaf: candidate.leaf,
                    place: Place::at(offset),
                    length,
                    read,
                    block_offset: 0,
                });
            }
        }
    }

    fn plan_stripe(
        &self,
        read: usize,
        slots: &[Slot],
        map: &Map,
        birth: Txg,
        extents: &mut Vec<Extent>,
    ) {
        let columns = map.rows.iter().flat_map(|row| &row.columns);
        for column in columns.filter(|column| column.length > 0) {
            let length = usize::try_from(column.length + column.skip).expect("at most a block");
            let slot = &slots[column.child];
            let found = self.candidates(slot, column.offset, length, birth);
            if let Some(candidate) = found.first().filter(|c| c.fitness == Fitness::Good) {
                extents.push(Extent {
                    leaf: candidate.leaf,
                    place: Place {
                        offset: column.offset,
                        in_scratch: column.in_scratch,
                    },
                    length,
                    read,
                    block_offset: 0,
                });
            }
        }
    }
}
