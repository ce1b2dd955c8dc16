//! Devices that have become larger (format/1 1.2, "If the device grew").
//!
//! A grown device changes nothing by itself: the configuration says how much of a top-level vdev
//! there is to allocate. To use what was gained, first the labels at the end are put where the
//! end is now, and then the configuration gets the new size, which begins to hold with the
//! transaction group that writes it.

use crate::error::{LeafProblem, VdevError};
use crate::labels::is_sealed;
use crate::labels_write::seal_at;
use crate::shape::Shape;
use crate::tree::{Layout, Top};
use cenote_base::{Guid, VdevId};
use cenote_device::Device;
use cenote_ondisk::VdevKind;
use cenote_ondisk::label::{
    self, BOOT_ENVIRONMENT_OFFSET, BOOT_ENVIRONMENT_SIZE, CONFIG_OFFSET, CONFIG_SIZE, LABEL_SIZE,
    UBERBLOCK_RING_OFFSET, UberblockRing, allocatable_size,
};

/// The label that the others are made from.
const FIRST: usize = 0;
/// The labels at the end of a device.
const LAST: [usize; 2] = [2, 3];

/// Puts what stands in a label at `from` of a device into the one at `to`. Pieces that are not
/// sealed, or by a host of the other byte order, are left blank.
fn moved_label(label: &[u8], from: u64, to: u64, ring: UberblockRing) -> Vec<u8> {
    let slots = (0..ring.slots()).map(|slot| {
        let offset = UBERBLOCK_RING_OFFSET + ring.slot_offset(slot);
        (offset, ring.slot_size())
    });
    let boot = (BOOT_ENVIRONMENT_OFFSET, BOOT_ENVIRONMENT_SIZE);
    let pieces = [boot, (CONFIG_OFFSET, CONFIG_SIZE)]
        .into_iter()
        .chain(slots);
    let mut moved = vec![0; label.len()];
    for (offset, length) in pieces {
        let place = offset as usize..(offset + length) as usize;
        if is_sealed(&label[place.clone()], from + offset) {
            let piece = &mut moved[place.clone()];
            piece.copy_from_slice(&label[place]);
            seal_at(piece, to + offset);
        }
    }
    moved
}

impl Shape {
    /// The leaves below a top-level vdev that are devices of their own.
    fn devices_of(&self, top: &Top) -> Vec<usize> {
        let is_device = |leaf: &usize| {
            let node = &self.tree.nodes[self.tree.leaves[*leaf].node];
            node.kind != VdevKind::DistributedSpare
        };
        (0..self.tree.leaves.len())
            .filter(|leaf| is_device(leaf) && self.top_of_leaf(*leaf) == top.node)
            .collect()
    }

    /// Allocatable bytes that a top-level vdev could have by what its devices have become; `None`
    /// if one of them is not there, or the vdev is none that can grow now.
    pub fn asize_by_now(&self, vdev: VdevId) -> Option<u64> {
        self.asize_by(vdev, |device| device.size_now())
    }

    /// The same by what of that was taken note of: what can be written to.
    pub fn asize_as_noted(&self, vdev: VdevId) -> Option<u64> {
        self.asize_by(vdev, |device| device.size())
    }

    /// Allocatable bytes that a top-level vdev could have if its devices had the sizes that
    /// `size` tells.
    fn asize_by(&self, vdev: VdevId, size: fn(&dyn Device) -> u64) -> Option<u64> {
        let top = self.top(vdev)?;
        let size_of = |leaf: &usize| {
            let leaf = &self.tree.leaves[*leaf];
            let device = leaf.device.as_ref().filter(|_| leaf.is_writable())?;
            allocatable_size(size(device.as_ref()))
        };
        let sizes: Option<Vec<u64>> = self.devices_of(top).iter().map(size_of).collect();
        let smallest = sizes?.into_iter().min()?;
        match &top.layout {
            Layout::Slot(_) => Some(smallest),
            Layout::Raidz { geometry, .. } if geometry.is_reflowing() => None,
            Layout::Raidz { geometry, .. } => Some(geometry.vdev_asize(smallest)),
            Layout::Draid { geometry, .. } => Some(geometry.vdev_asize(smallest)),
            Layout::Indirect(_) | Layout::Hole | Layout::Missing => None,
        }
    }

    /// Bytes that a leaf's device has gained since that was taken note of; `None` if it is not
    /// there.
    pub fn gain_of_leaf(&self, guid: Guid) -> Option<u64> {
        let leaf = *self.tree.leaf_of.get(&guid)?;
        let device = self.tree.leaves[leaf].device.as_ref()?;
        let known = allocatable_size(device.size())?;
        Some(allocatable_size(device.size_now())?.saturating_sub(known))
    }

    /// Adopts the new sizes of a top-level vdev's devices, and durably writes new labels at their
    /// ends.
    ///
    /// # Errors
    /// If a device fails these writes.
    pub fn move_labels(&self, vdev: VdevId) -> Result<(), VdevError> {
        let Some(top) = self.top(vdev) else {
            return Ok(());
        };
        let ring = UberblockRing::new(top.ashift);
        let leaves = self.devices_of(top);
        let failures = self.on_leaves(&leaves, |leaf| self.move_labels_of(leaf, ring));
        let has_failed = !failures.is_empty();
        self.report("labels", failures, has_failed)
    }

    fn move_labels_of(&self, leaf: usize, ring: UberblockRing) -> Result<(), LeafProblem> {
        let leaf = &self.tree.leaves[leaf];
        let (state, aux) = leaf.live_state();
        let absent = || LeafProblem::NotOpen(state, aux);
        let device = leaf.device.as_ref().ok_or_else(absent)?;
        device.grow();
        let mut first = vec![0; LABEL_SIZE as usize];
        let from = label::label_offset(device.size(), FIRST).ok_or_else(absent)?;
        device
            .read_at(from, &mut first)
            .map_err(LeafProblem::Device)?;
        for index in LAST {
            let to = label::label_offset(device.size(), index).ok_or_else(absent)?;
            device
                .write_at(to, &moved_label(&first, from, to, ring))
                .map_err(LeafProblem::Device)?;
        }
        device.flush().map_err(LeafProblem::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels_write::format_labels;
    use cenote_device::MemoryDevice;
    use cenote_ondisk::NvList;

    #[test]
    fn a_moved_label_is_valid_where_it_is() {
        let size = 64 << 20;
        let device = MemoryDevice::new("grown", vec![0; size as usize]);
        let mut config = NvList::new();
        config.set_u64("guid", 7);
        format_labels(&device, Some(&config)).expect("room");
        let label = |index| {
            let at = label::label_offset(size, index).expect("room");
            let mut bytes = vec![0; LABEL_SIZE as usize];
            device.read_at(at, &mut bytes).expect("in range");
            (at, bytes)
        };
        let ((from, mut first), (to, last)) = (label(0), label(3));
        let ring = UberblockRing::new(12);
        assert!(moved_label(&first, from, to, ring) == last);
        first[CONFIG_OFFSET as usize + 100] ^= 1;
        let moved = moved_label(&first, from, to, ring);
        let config = CONFIG_OFFSET as usize..(CONFIG_OFFSET + CONFIG_SIZE) as usize;
        assert!(moved[config].iter().all(|byte| *byte == 0));
        assert!(moved[..CONFIG_OFFSET as usize] == last[..CONFIG_OFFSET as usize]);
    }
}
