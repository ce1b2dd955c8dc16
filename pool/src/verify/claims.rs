//! Which space the blocks met so far take.
//!
//! Each block claims its allocation on every vdev once. A block met again must be shared in a
//! way the format knows: by the dedup table (the D flag) or by cloning (an entry in the block
//! reference table, which holds the number of *further* references). Anything else that overlaps
//! is a double allocation, or a loop in the tree, and is not followed.

use super::segment_map::SegmentMap;
use cenote_base::VdevId;
use cenote_ondisk::{BlockPointer, Dva};
use std::collections::{BTreeMap, HashMap};

/// The claims on one top-level vdev.
#[derive(Clone, Debug, Default)]
pub(crate) struct VdevClaims {
    /// log2 of the allocation unit.
    pub(crate) ashift: u32,
    pub(crate) map: SegmentMap,
}

/// What a claim met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The space was free: the block is new.
    New,
    /// The block was met before and may be shared.
    Shared,
    /// Another block has the space, or a part of it.
    Overlap(Dva),
    /// The address lies on no vdev that can hold blocks.
    Nowhere(Dva),
}

/// All claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    pub(crate) vdevs: BTreeMap<u64, VdevClaims>,
    /// Further references left by vdev and offset of the first copy.
    pub(crate) clones: HashMap<(u64, u64), u64>,
}

/// A run of allocation units.
#[derive(Clone, Copy, Debug)]
struct Units {
    start: u64,
    count: u64,
}

fn units(ashift: u32, offset: u64, bytes: u64) -> Units {
    let start = offset >> ashift;
    let end = offset.saturating_add(bytes).div_ceil(1 << ashift);
    Units {
        start,
        count: end.saturating_sub(start),
    }
}

impl Claims {
    /// Bytes claimed on all vdevs.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.vdevs
            .values()
            .map(|vdev| vdev.map.count() << vdev.ashift)
            .sum()
    }

    /// Claims `[offset, offset + bytes)` of a vdev without asking whose it was.
    pub(crate) fn claim_range(&mut self, vdev: VdevId, offset: u64, bytes: u64) {
        if let Some(vdev) = self.vdevs.get_mut(&vdev.0) {
            let units = units(vdev.ashift, offset, bytes);
            vdev.map.add(units.start, units.count);
        }
    }

    /// Claims the copies of a block. For a gang block `size_of` gives the header's own size.
    pub(crate) fn claim(&mut self, pointer: &BlockPointer, header_bytes: Option<u64>) -> Claim {
        let mut taken = 0;
        let mut copies = 0;
        for dva in pointer.dvas() {
            let Some(vdev) = self.vdevs.get(&dva.vdev().0) else {
                return Claim::Nowhere(dva);
            };
            let bytes = header_bytes.unwrap_or(dva.asize());
            let units = units(vdev.ashift, dva.offset(), bytes);
            match vdev.map.count_in(units.start, units.count) {
                0 => {}
                all if all == units.count => taken += 1,
                _ => return Claim::Overlap(dva),
            }
            copies += 1;
        }
        if taken == copies && copies > 0 {
            return self.claim_again(pointer);
        }
        // The one block of an entry of a flat dedup table grows by copies when it is written with
        // more of them than before: older pointers have the first ones only.
        let grown = usize::from(pointer.is_dedup()) * taken;
        if taken != grown {
            return Claim::Overlap(pointer.dva(0));
        }
        for dva in pointer.dvas().skip(grown) {
            let vdev = self.vdevs.get_mut(&dva.vdev().0).expect("looked up above");
            let bytes = header_bytes.unwrap_or(dva.asize());
            let units = units(vdev.ashift, dva.offset(), bytes);
            if vdev.map.add(units.start, units.count) > 0 {
                // Two copies of one block overlap each other.
                return Claim::Overlap(dva);
            }
        }
        Claim::New
    }

    fn claim_again(&mut self, pointer: &BlockPointer) -> Claim {
        let first = pointer.dva(0);
        if pointer.is_dedup() {
            return Claim::Shared;
        }
        match self.clones.get_mut(&(first.vdev().0, first.offset())) {
            Some(count) if *count > 0 => {
                *count -= 1;
                Claim::Shared
            }
            _ => Claim::Overlap(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let vdev = VdevClaims {
            ashift: 9,
            map: SegmentMap::default(),
        };
        Claims {
            vdevs: BTreeMap::from([(0, vdev)]),
            clones: HashMap::new(),
        }
    }

    fn pointer(offset: u64, asize: u64) -> BlockPointer {
        let dva = Dva::new(VdevId(0), offset, asize);
        let mut pointer = BlockPointer::HOLE;
        (pointer.words[0], pointer.words[1]) = (dva.word0, dva.word1);
        pointer
    }

    #[test]
    fn a_block_is_claimed_once_unless_shared() {
        let mut claims = claims();
        let block = pointer(4096, 1024);
        assert_eq!(claims.claim(&block, None), Claim::New);
        assert_eq!(claims.claim(&block, None), Claim::Overlap(block.dva(0)));
        claims.clones.insert((0, 4096), 1);
        assert_eq!(claims.claim(&block, None), Claim::Shared);
        assert_eq!(
            claims.claim(&block, None),
            Claim::Overlap(block.dva(0)),
            "one clone, no more"
        );
        let mut dedup = block;
        dedup.words[6] |= 1 << 62;
        assert_eq!(claims.claim(&dedup, None), Claim::Shared);
        let half = pointer(4608, 1024);
        assert_eq!(claims.claim(&half, None), Claim::Overlap(half.dva(0)));
        assert_eq!(claims.bytes(), 1024);
    }

    #[test]
    fn the_block_of_a_flat_dedup_table_grows_by_copies() {
        let mut grown = pointer(4096, 1024);
        let second = pointer(16384, 1024);
        (grown.words[2], grown.words[3]) = (second.words[0], second.words[1]);
        let mut claims = claims();
        assert_eq!(claims.claim(&pointer(4096, 1024), None), Claim::New);
        assert_eq!(claims.claim(&grown, None), Claim::Overlap(grown.dva(0)));
        grown.words[6] |= 1 << 62;
        assert_eq!(claims.claim(&grown, None), Claim::New, "its second copy is");
        assert_eq!(claims.bytes(), 2048);
        assert_eq!(claims.claim(&grown, None), Claim::Shared);
        let mut other = pointer(8192, 1024);
        (other.words[2], other.words[3]) = (grown.words[0], grown.words[1]);
        other.words[6] |= 1 << 62;
        assert_eq!(claims.claim(&other, None), Claim::Overlap(other.dva(1)));
    }

    #[test]
    fn no_such_vdev() {
        let dva = Dva::new(VdevId(9), 0, 512);
        let mut block = BlockPointer::HOLE;
        (block.words[0], block.words[1]) = (dva.word0, dva.word1);
        assert_eq!(claims().claim(&block, None), Claim::Nowhere(dva));
    }
}
