//! Where the labels stand on a device and where everything stands in a label.
//!
//! Source: format/1 1.2. Four labels of 256 KiB carry the same content, two at each end:
//!
//! ```text
//! 0        256K     512K              4M                          psize-512K  psize-256K  psize
//! | label 0 | label 1 | boot region   | allocatable area (asize) | label 2   | label 3   |
//!
//! label:  0 pad (8 KiB)   8K boot environment (8 KiB)   16K configuration (112 KiB)
//!         128K uberblock ring (128 KiB): slots of 1 to 8 KiB
//! ```
//!
//! `psize` is the device's size rounded down to 256 KiB. Each piece except the pad ends in an
//! [embedded checksum](crate::embedded_checksum) that covers its position on the device, so that
//! the four copies differ there. DVA offset 0 is 4 MiB after the start of the device.

use crate::embedded_checksum::TRAILER_SIZE;
use crate::{DecodeError, NvList};
use cenote_base::Txg;

/// Labels on a device.
pub const LABELS: usize = 4;
/// Bytes of a label.
pub const LABEL_SIZE: u64 = 256 << 10;
/// Where the boot environment block starts in a label.
pub const BOOT_ENVIRONMENT_OFFSET: u64 = 8 << 10;
/// Bytes of the boot environment block.
pub const BOOT_ENVIRONMENT_SIZE: u64 = 8 << 10;
/// Where the configuration starts in a label.
pub const CONFIG_OFFSET: u64 = 16 << 10;
/// Bytes of the configuration with its checksum.
pub const CONFIG_SIZE: u64 = 112 << 10;
/// Where the uberblock ring starts in a label.
pub const UBERBLOCK_RING_OFFSET: u64 = 128 << 10;
/// Bytes of the uberblock ring.
pub const UBERBLOCK_RING_SIZE: u64 = 128 << 10;
/// Where the boot region starts on the device: the scratch area of a raidz expansion.
pub const BOOT_REGION_OFFSET: u64 = 512 << 10;
/// Bytes of the boot region.
pub const BOOT_REGION_SIZE: u64 = DATA_OFFSET - BOOT_REGION_OFFSET;
/// Where the allocatable area starts on the device.
pub const DATA_OFFSET: u64 = 4 << 20;
/// Bytes after the allocatable area: labels 2 and 3.
pub const END_LABELS_SIZE: u64 = 2 * LABEL_SIZE;
/// The smallest device that a pool takes, judged by [`usable_size`].
pub const DEVICE_SIZE_MIN: u64 = 64 << 20;
/// log2 of the smallest allocation unit, and of the unit that block pointers count in.
pub const ASHIFT_MIN: u32 = 9;
/// log2 of the largest allocation unit.
pub const ASHIFT_MAX: u32 = 16;

const SLOT_SHIFT_MIN: u32 = 10;
const SLOT_SHIFT_MAX: u32 = 13;

const _: () = assert!(CONFIG_OFFSET + CONFIG_SIZE == UBERBLOCK_RING_OFFSET);
const _: () = assert!(UBERBLOCK_RING_OFFSET + UBERBLOCK_RING_SIZE == LABEL_SIZE);
const _: () = assert!(BOOT_REGION_SIZE == 0x38_0000);

/// `device_size` rounded down to whole labels (`psize`): the size that everything goes by.
pub const fn usable_size(device_size: u64) -> u64 {
    device_size - device_size % LABEL_SIZE
}

/// Bytes of the allocatable area of a device, or `None` if there is no room for the labels.
pub fn allocatable_size(device_size: u64) -> Option<u64> {
    usable_size(device_size).checked_sub(DATA_OFFSET + END_LABELS_SIZE)
}

/// Where label `index` starts on a device, or `None` if the device is too small for labels.
pub fn label_offset(device_size: u64, index: usize) -> Option<u64> {
    assert!(index < LABELS);
    let usable = usable_size(device_size);
    if usable < 4 * LABEL_SIZE {
        return None;
    }
    Some(match index {
        0 => 0,
        1 => LABEL_SIZE,
        2 => usable - 2 * LABEL_SIZE,
        _ => usable - LABEL_SIZE,
    })
}

/// The shape of an uberblock ring: it depends on the top-level vdev's ashift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UberblockRing {
    slot_shift: u32,
}

impl UberblockRing {
    /// The ring of a vdev whose top-level vdev has this ashift.
    pub fn new(ashift: u32) -> Self {
        Self {
            slot_shift: ashift.clamp(SLOT_SHIFT_MIN, SLOT_SHIFT_MAX),
        }
    }

    /// Every shape there is. When the ashift is not known, all can be tried: a slot's checksum
    /// holds for one only.
    pub fn all() -> impl Iterator<Item = Self> {
        (SLOT_SHIFT_MIN..=SLOT_SHIFT_MAX).map(|slot_shift| Self { slot_shift })
    }

    /// Bytes of a slot: 1, 2, 4 or 8 KiB.
    pub fn slot_size(self) -> u64 {
        1 << self.slot_shift
    }

    /// Slots in the ring: 128 down to 16.
    pub fn slots(self) -> u64 {
        UBERBLOCK_RING_SIZE >> self.slot_shift
    }

    /// Where a slot starts within the ring.
    pub fn slot_offset(self, slot: u64) -> u64 {
        assert!(slot < self.slots());
        slot << self.slot_shift
    }

    /// The slot for the uberblock of `txg`. With `multihost` the last slot is the heartbeat's.
    pub fn slot_of_txg(self, txg: Txg, multihost: bool) -> u64 {
        txg.0 % (self.slots() - u64::from(multihost))
    }

    /// The slot of multihost heartbeats.
    pub fn heartbeat_slot(self) -> u64 {
        self.slots() - 1
    }
}

/// Decodes the configuration from its 112 KiB. The checksum is the caller's to verify.
pub fn decode_config(piece: &[u8]) -> Result<NvList, DecodeError> {
    let room = (CONFIG_SIZE as usize) - TRAILER_SIZE;
    NvList::decode(&piece[..piece.len().min(room)])
}

/// The 112 KiB of a configuration, with the checksum's 40 bytes still zero.
///
/// `None` if the list does not fit.
pub fn encode_config(config: &NvList) -> Option<Vec<u8>> {
    let mut piece = config.encode_xdr();
    if piece.len() > CONFIG_SIZE as usize - TRAILER_SIZE {
        return None;
    }
    piece.resize(CONFIG_SIZE as usize, 0);
    Some(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry_of_a_device_with_an_odd_tail() {
        let size = (128 << 20) + 777;
        assert_eq!(usable_size(size), 128 << 20);
        assert_eq!(allocatable_size(size), Some(129_499_136));
        let offsets: Vec<_> = (0..LABELS).map(|i| label_offset(size, i)).collect();
        let end = 128 << 20;
        let expected = [0, 0x4_0000, end - 0x8_0000, end - 0x4_0000].map(Some);
        assert_eq!(offsets, expected);
        assert_eq!(label_offset(LABEL_SIZE, 2), None);
        assert_eq!(allocatable_size(DATA_OFFSET), None);
    }

    #[test]
    fn rings_by_ashift() {
        let shape = |ashift| {
            let ring = UberblockRing::new(ashift);
            (ring.slots(), ring.slot_size())
        };
        assert_eq!(shape(9), (128, 1024));
        assert_eq!(shape(12), (32, 4096));
        assert_eq!(shape(16), (16, 8192));
        let ring = UberblockRing::new(12);
        assert_eq!(ring.slot_of_txg(Txg(63), false), 31);
        assert_eq!(ring.slot_of_txg(Txg(63), true), 1, "31 slots are left");
        assert_eq!(ring.slot_offset(ring.heartbeat_slot()), 31 * 4096);
    }

    #[test]
    fn configurations_fit_or_do_not() {
        let mut config = NvList::new();
        config.set_str("name", "tank");
        let piece = encode_config(&config).expect("it fits");
        assert_eq!(piece.len(), 112 << 10);
        assert_eq!(decode_config(&piece), Ok(config.clone()));
        config.set_str("comment", vec![b'x'; 114_648]);
        assert_eq!(encode_config(&config), None);
    }
}
