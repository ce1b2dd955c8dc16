//! Writing a block again to leaves that do not have it: repairs.
//!
//! A repair writes to allocated space, so it has to be sure that the same block still lives there.
//! This layer cannot know that. The caller must keep the places of the block ([`Shape::places`])
//! from being allocated to another block. It does so from the moment when it knew the block's
//! address to be in use until the end of the repair: see `cenote_io::RepairSpace`.
//!
//! What is written is the same as when the block was new: the columns of the leaves that are
//! named, parity and skip sectors included. Through the mapping of a removed vdev a repair goes
//! to where the space was moved.

use crate::error::VdevError;
use crate::geometry::Map;
use crate::io_context::IoContext;
use crate::leaf::{Fitness, Leaf, Place};
use crate::request::{Blame, Request};
use crate::shape::Shape;
use crate::sources::Holder;
use crate::tree::{Layout, Slot};
use crate::write::{Bytes, Fragment, PreparedWrite, VdevWrite};
use cenote_base::{Guid, SECTOR_SIZE, Txg, VdevId};
use cenote_device::BlockBuffer;
use cenote_ondisk::{Dva, VdevKind};
use std::sync::Arc;

impl Shape {
    /// Writes a block again to those of `leaves` that hold a part of it: `bytes` are the stored
    /// bytes at `dva` of a block physically born in `birth`. Other guids are ignored.
    ///
    /// The caller has verified the bytes and keeps the block's [places](Self::places) from being
    /// given to another.
    ///
    /// # Errors
    /// If the address is none that can be written, or a leaf did not take its part.
    pub fn repair(
        &self,
        dva: Dva,
        bytes: &[u8],
        birth: Txg,
        leaves: &[Guid],
        io: &IoContext,
    ) -> Result<(), VdevError> {
        let write = VdevWrite {
            leaves: Some(leaves.into()),
            class: io.repair_class(),
            ..VdevWrite::new(dva, Arc::new(BlockBuffer::copy_of(bytes)), birth)
        };
        let results = self.write(vec![write]).into_iter();
        results.fold(Ok(()), Result::and)
    }

    /// Whether a leaf is in use and can be written to.
    pub fn is_writable(&self, leaf: Guid) -> bool {
        let leaf = self.tree.leaf_of.get(&leaf);
        leaf.is_some_and(|leaf| self.tree.leaves[*leaf].is_writable())
    }

    /// The leaves that can be written to and missed the block of `size` stored bytes at `dva`: as
    /// far as they hold a part of it, they do not have that.
    ///
    /// # Errors
    /// If there can be no such block.
    pub fn stale_leaves(&self, dva: Dva, size: usize, birth: Txg) -> Result<Vec<Guid>, VdevError> {
        self.leaves_that(dva, size, birth, |holder, written| {
            let is_stale = self.fitness_of(holder, written) == Some(Fitness::Stale);
            is_stale && self.tree.leaves[holder.leaf].is_writable()
        })
    }

    /// Notes what a distributed spare cannot get of the block of `size` stored bytes at `dva`
    /// because the leaf that holds its part is not in use: that leaf has missed the block too.
    ///
    /// # Errors
    /// If there can be no such block.
    pub fn note_spares_out_of_reach(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
    ) -> Result<(), VdevError> {
        let is_spare = |leaf: &Leaf| self.tree.nodes[leaf.node].kind == VdevKind::DistributedSpare;
        let stale = |leaf: &Leaf| is_spare(leaf) && leaf.missed.contains(birth);
        if !self.tree.leaves.iter().any(stale) {
            return Ok(());
        }
        let out_of_reach = self.leaves_that(dva, size, birth, |holder, _| {
            let spare = holder.spare.map(|spare| &self.tree.leaves[spare]);
            spare.is_some_and(|spare| spare.missed.contains(birth))
                && !self.tree.leaves[holder.leaf].is_writable()
        })?;
        for leaf in out_of_reach {
            self.note_unrepaired(leaf, birth);
        }
        Ok(())
    }

    /// The leaves that hold a part of the block of `size` stored bytes at `dva`, in use or not.
    ///
    /// # Errors
    /// If there can be no such block.
    pub fn leaves_of(&self, dva: Dva, size: usize, birth: Txg) -> Result<Vec<Guid>, VdevError> {
        self.leaves_that(dva, size, birth, |_, _| true)
    }

    pub(crate) fn leaves_that(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        is_meant: impl Fn(Holder, Txg) -> bool,
    ) -> Result<Vec<Guid>, VdevError> {
        let mut leaves = Vec::new();
        self.for_each_holder(dva, size, birth, |holder, written| {
            let guid = self.guid_of_leaf(holder.leaf);
            if is_meant(holder, written) && !leaves.contains(&guid) {
                leaves.push(guid);
            }
        })?;
        Ok(leaves)
    }

    /// Calls `each` with all that hold a part of a block, and the group in which the part was
    /// written there.
    pub(crate) fn for_each_holder(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        mut each: impl FnMut(Holder, Txg),
    ) -> Result<(), VdevError> {
        let top = self.locate(dva, size, birth)?;
        let mut add = |slot: &Slot, offset: u64, length: usize, written: Txg| {
            let holders = self.holders(slot, offset, length).into_iter();
            holders.for_each(|holder| each(holder, written));
        };
        let mut add_map = |slots: &[Slot], map: &Map| {
            for column in map.rows.iter().flat_map(|row| &row.columns) {
                if column.length + column.skip > 0 {
                    let length = (column.length + column.skip) as usize;
                    add(&slots[column.child], column.offset, length, birth);
                }
            }
        };
        match &top.layout {
            Layout::Slot(slot) => add(slot, dva.offset(), size, birth),
            Layout::Raidz { geometry, slots } => {
                add_map(slots, &geometry.map(dva.offset(), size as u64, birth));
            }
            Layout::Draid { geometry, slots } => {
                add_map(slots, &geometry.map(dva.offset(), size as u64));
            }
            Layout::Indirect(_) => {
                for segment in self.segments(&request_for(dva, size, birth))? {
                    let slot = self.segment_slot(&segment);
                    add(slot, segment.offset, segment.length, segment.written);
                }
            }
            Layout::Hole | Layout::Missing => unreachable!("locate refuses these"),
        }
        Ok(())
    }

    /// The space that a block of `size` stored bytes at `dva` takes on vdevs that still exist, as
    /// addresses with the bytes allocated.
    ///
    /// # Errors
    /// If there can be no such block.
    pub fn places(&self, dva: Dva, size: usize, birth: Txg) -> Result<Vec<Dva>, VdevError> {
        let top = self.locate(dva, size, birth)?;
        let asize = top.block_asize(size as u64, birth);
        if !matches!(top.layout, Layout::Indirect(_)) {
            return Ok(vec![Dva::new(dva.vdev(), dva.offset(), asize)]);
        }
        let whole = usize::try_from(asize).map_err(|_| VdevError::BadSize { dva, size })?;
        let segments = self.segments(&request_for(dva, whole, birth))?;
        let place = |top: usize, offset, length: usize| {
            let length = (length as u64).next_multiple_of(SECTOR_SIZE);
            Dva::new(VdevId(top as u64), offset, length)
        };
        let segments = segments.into_iter();
        Ok(segments
            .map(|segment| place(segment.top, segment.offset, segment.length))
            .collect())
    }

    /// Adds the pieces of a block of a removed vdev, where they are now.
    pub(crate) fn add_segments(&self, prepared: &mut PreparedWrite) -> Result<(), VdevError> {
        let VdevWrite { dva, txg, .. } = prepared.write;
        let size = prepared.write.data.len();
        let asize = self.locate(dva, size, txg)?.block_asize(size as u64, txg);
        let whole = usize::try_from(asize).map_err(|_| VdevError::BadSize { dva, size })?;
        for segment in self.segments(&request_for(dva, whole, txg))? {
            let cell = prepared.cells();
            prepared.add_group(0, std::iter::once(true));
            let fragment = Fragment {
                leaf: 0,
                place: Place::at(segment.offset),
                length: segment.length,
                bytes: Bytes::Data(segment.block_offset),
                cell,
            };
            self.add_fragments(prepared, self.segment_slot(&segment), fragment);
        }
        Ok(())
    }
}

/// What a request is read for that is not read.
static UNREAD: IoContext = IoContext::USER;

/// A request that only says where.
fn request_for(dva: Dva, size: usize, birth: Txg) -> Request<'static> {
    Request {
        dva,
        size,
        birth,
        verify: &|_| false,
        blame: Blame::Each,
        io: &UNREAD,
    }
}
