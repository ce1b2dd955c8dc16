//! The numbers of a new vdev: allocation unit, space, metaslabs (format/1 1.2, 1c 2 and 4, 1d 1).

use crate::geometry::draid::Draid;
use crate::geometry::raidz::Raidz;
use cenote_base::settings::{self, Setting};
use cenote_device::{Device, DeviceKind};
use cenote_ondisk::label::{
    ASHIFT_MAX, ASHIFT_MIN, DEVICE_SIZE_MIN, allocatable_size, usable_size,
};

/// No metaslab is smaller than the largest block: 16 MiB.
const METASLAB_SHIFT_MIN: u32 = 24;

/// A layout of children in a new top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewLayout {
    /// A single device or a mirror.
    Mirror,
    /// raidz of so many children.
    Raidz {
        /// Children.
        children: usize,
        /// Parity, 1 to 3.
        parity: u64,
    },
    /// draid.
    Draid {
        /// Children.
        children: usize,
        /// Parity, 1 to 3.
        parity: u64,
        /// Data columns in a group.
        data: u64,
        /// Distributed spares.
        spares: u64,
    },
}

/// log2 of the allocation unit that fits all of these devices, as OpenZFS chooses it.
pub fn natural_ashift<'a>(devices: impl IntoIterator<Item = &'a dyn Device>) -> u32 {
    let bound = |setting: &Setting| u32::try_from(setting.get()).unwrap_or(ASHIFT_MAX);
    // A device may claim nonsense about its sectors, but not about what it takes.
    let believed_max = bound(&settings::AUTO_ASHIFT_MAX);
    let sector_shift = |device: &dyn Device| {
        if device.nature().kind != DeviceKind::Block {
            return ASHIFT_MIN;
        }
        let logical = device.nature().logical_block_size.max(1).ilog2();
        let physical = device.physical_block_size().max(1).ilog2();
        logical.max(physical.min(believed_max))
    };
    let shifts = devices.into_iter().map(sector_shift);
    let natural = shifts.max().unwrap_or(0);
    natural
        .max(bound(&settings::AUTO_ASHIFT_MIN))
        .clamp(ASHIFT_MIN, ASHIFT_MAX)
}

/// Allocatable bytes of a device; `None` if it is too small for a pool.
pub fn leaf_asize(device_size: u64) -> Option<u64> {
    if usable_size(device_size) < DEVICE_SIZE_MIN {
        return None;
    }
    allocatable_size(device_size)
}

/// Groups that a slice of a draid holds: the fewest that fill whole rows of its disks.
pub fn draid_groups(children: usize, parity: u64, data: u64, spares: u64) -> Option<u64> {
    let disks = u64::try_from(children).ok()?.checked_sub(spares)?;
    let width = data.checked_add(parity)?;
    (1..=disks).find(|groups| (groups * width).is_multiple_of(disks))
}

/// Allocatable bytes of a new top-level vdev, given those of its smallest child.
///
/// `None` for a layout that does not exist.
pub fn top_asize(layout: NewLayout, child_asize: u64, ashift: u32) -> Option<u64> {
    match layout {
        NewLayout::Mirror => Some(child_asize),
        NewLayout::Raidz { children, parity } => {
            let raidz = Raidz::new(children, parity, ashift, Vec::new(), None)?;
            Some(raidz.vdev_asize(child_asize))
        }
        NewLayout::Draid {
            children,
            parity,
            data,
            spares,
        } => {
            let groups = draid_groups(children, parity, data, spares)?;
            let draid = Draid::new(children, parity, data, spares, groups, ashift)?;
            Some(draid.vdev_asize(child_asize))
        }
    }
}

/// log2 of the metaslab size of a new top-level vdev (format/1d 1).
pub fn metaslab_shift(asize: u64) -> u32 {
    let bits = |value: u64| u64::BITS - value.leading_zeros();
    let shift_of = |setting: &Setting| u32::try_from(setting.get()).unwrap_or(u32::MAX);
    let shift_default = shift_of(&settings::METASLAB_SHIFT_DEFAULT);
    let shift_max = shift_of(&settings::METASLAB_SHIFT_MAX);
    let usual_max = settings::METASLAB_COUNT_DEFAULT.get();
    let (least, most) = (
        settings::METASLAB_COUNT_MIN.get(),
        settings::METASLAB_COUNT_LIMIT.get(),
    );
    let count = asize >> shift_default;
    let shift = if count < least {
        bits(asize / least)
    } else if count > usual_max {
        bits(asize / usual_max)
    } else {
        shift_default
    };
    if shift <= shift_max {
        return shift.max(METASLAB_SHIFT_MIN);
    }
    match asize >> shift_max {
        count if count > most => bits(asize / most),
        _ => shift_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metaslab_sizes_are_those_of_openzfs() {
        // format/1d 1.
        assert_eq!(metaslab_shift(129_499_136), 24);
        assert_eq!(metaslab_shift(1_054_867_456), 26);
        assert_eq!(metaslab_shift(906_493_952), 26);
        assert_eq!(metaslab_shift(1_509_949_440), 27);
        assert_eq!(metaslab_shift(64 << 30), 29);
        assert_eq!(metaslab_shift(1 << 40), 33);
        assert_eq!(metaslab_shift(1 << 43), 34);
        assert_eq!(metaslab_shift(1 << 53), 37);
    }

    #[test]
    fn sizes_of_new_vdevs() {
        assert_eq!(leaf_asize(128 << 20), Some(129_499_136));
        assert_eq!(leaf_asize((64 << 20) - 1), None);
        let raidz = NewLayout::Raidz {
            children: 7,
            parity: 3,
        };
        assert_eq!(top_asize(raidz, 129_499_136, 12), Some(906_493_952));
        let draid = NewLayout::Draid {
            children: 8,
            parity: 2,
            data: 3,
            spares: 1,
        };
        assert_eq!(draid_groups(8, 2, 3, 1), Some(7));
        let child = leaf_asize(256 << 20).expect("large enough");
        assert_eq!(top_asize(draid, child, 12), Some(1_509_949_440));
        let none = NewLayout::Raidz {
            children: 3,
            parity: 3,
        };
        assert_eq!(top_asize(none, 1 << 30, 12), None);
    }
}
