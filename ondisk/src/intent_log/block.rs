//! A log block and its place in the chain (format/2e 2).
//!
//! The chain structure (184 bytes) stands at the start of the block (*slim*, checksum zilog2)
//! or, before version 23, at its end (checksum zilog):
//!
//! ```text
//! 0 pad   8 next block's pointer (128)   136 bytes used   144 embedded checksum (40)
//! ```
//!
//! The pointer's "checksum" is a verifier: {guid, guid, object set, block sequence}. The chain
//! ends at the first block that is not valid, which is no error: the last block points to one
//! that was allocated and never written.

use crate::byteswap::swap_array;
use crate::embedded_checksum::{TRAILER_SIZE, Trailer};
use crate::wire;
use crate::{BlockPointer, ChecksumKind, DecodeError};
use std::ops::Range;

/// Bytes of the chain structure.
pub const CHAIN_SIZE: usize = 184;
/// The smallest log block.
pub const BLOCK_SIZE_MIN: usize = 4096;
/// What the checksum of a slim block covers is rounded up to this.
pub const COVERED_ALIGNMENT: usize = 4096;

const STRUCTURE: &str = "log block";
const NEXT_OFFSET: usize = 8;
const USED_OFFSET: usize = 136;
const TRAILER_OFFSET: usize = 144;

/// A log block's chain structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBlock {
    /// The next block; a hole after an allocation failure.
    pub next: BlockPointer,
    /// The embedded checksum.
    pub trailer: Trailer,
    /// Where the records are.
    pub records: Range<usize>,
    /// The bytes that the checksum covers, from the block's start.
    pub covered: usize,
}

impl LogBlock {
    /// Decodes the chain structure of a little-endian block with this checksum function. The
    /// checksum is the caller's to verify, with [`verifier`] in its place.
    pub fn decode(block: &[u8], checksum: ChecksumKind) -> Result<Self, DecodeError> {
        let slim = match checksum {
            ChecksumKind::Zilog2 => true,
            ChecksumKind::Zilog => false,
            other => return bad("checksum function", u64::from(other as u8)),
        };
        let chain_start = chain_start(block, slim)?;
        let chain = &block[chain_start..chain_start + CHAIN_SIZE];
        let trailer = Trailer::at(block, chain_start + TRAILER_OFFSET)?;
        if trailer.big_endian {
            return Err(DecodeError::Inconsistent {
                structure: STRUCTURE,
                problem: "the block is big-endian and was not swapped",
            });
        }
        let used = wire::u64_le(chain, USED_OFFSET, STRUCTURE)?;
        let range = match slim {
            true => CHAIN_SIZE as u64..=block.len() as u64,
            false => 0..=chain_start as u64,
        };
        if !range.contains(&used) {
            return bad("bytes used", used);
        }
        let used = used as usize;
        Ok(Self {
            next: BlockPointer::decode(&chain[NEXT_OFFSET..])?,
            trailer,
            records: if slim { CHAIN_SIZE..used } else { 0..used },
            covered: match slim {
                true => used.next_multiple_of(COVERED_ALIGNMENT).min(block.len()),
                false => block.len(),
            },
        })
    }

    /// Whether [`Self::next`] continues the chain of the block that `pointer` points to.
    pub fn continues(&self, pointer: &BlockPointer) -> bool {
        let mut expected = verifier(pointer);
        expected[3] = expected[3].wrapping_add(1);
        !self.next.is_hole() && verifier(&self.next) == expected
    }
}

/// The verifier of the block that `pointer` points to: chain guid (2 words), object set and
/// block sequence.
pub fn verifier(pointer: &BlockPointer) -> [u64; 4] {
    pointer.checksum()
}

/// The block's sequence number in its chain, from 1.
pub fn sequence(pointer: &BlockPointer) -> u64 {
    verifier(pointer)[3]
}

/// Whether the block has to be swapped: `Ok(false)` for a little-endian one. Judges by the
/// embedded checksum's magic, as the format does.
pub fn is_big_endian(block: &[u8], checksum: ChecksumKind) -> Result<bool, DecodeError> {
    let start = chain_start(block, checksum == ChecksumKind::Zilog2)?;
    Ok(Trailer::at(block, start + TRAILER_OFFSET)?.big_endian)
}

/// Swaps the chain structure of a big-endian block, with its checksum verified already. Records
/// are swapped by [`super::record::swap`].
pub fn swap(block: &mut [u8], checksum: ChecksumKind) -> Result<(), DecodeError> {
    let start = chain_start(block, checksum == ChecksumKind::Zilog2)?;
    swap_array::<8>(&mut block[start..start + CHAIN_SIZE]);
    Ok(())
}

fn chain_start(block: &[u8], slim: bool) -> Result<usize, DecodeError> {
    if block.len() < CHAIN_SIZE {
        return Err(DecodeError::Truncated {
            structure: STRUCTURE,
            offset: 0,
            needed: CHAIN_SIZE,
            available: block.len(),
        });
    }
    Ok(if slim { 0 } else { block.len() - CHAIN_SIZE })
}

/// The chain structure of a slim block, with the trailer's checksum still the verifier of
/// `own`; `used` counts the structure and the records.
pub fn encode_chain(own: &BlockPointer, next: &BlockPointer, used: usize) -> [u8; CHAIN_SIZE] {
    assert!(used >= CHAIN_SIZE);
    let mut bytes = [0; CHAIN_SIZE];
    bytes[NEXT_OFFSET..USED_OFFSET].copy_from_slice(&next.encode());
    bytes[USED_OFFSET..TRAILER_OFFSET].copy_from_slice(&(used as u64).to_le_bytes());
    crate::embedded_checksum::prepare(&mut bytes, TRAILER_OFFSET, verifier(own));
    bytes
}

const _: () = assert!(TRAILER_OFFSET + TRAILER_SIZE == CHAIN_SIZE);

fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(sequence: u64) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.words[0] = 8;
        pointer.words[12..].copy_from_slice(&[11, 22, 33, sequence]);
        pointer
    }

    fn slim_block() -> Vec<u8> {
        let mut block = encode_chain(&pointer(1), &pointer(2), 300).to_vec();
        block.resize(8192, 0);
        block
    }

    #[test]
    fn both_places_of_the_chain_structure() {
        let block = slim_block();
        let slim = LogBlock::decode(&block, ChecksumKind::Zilog2).expect("valid");
        assert_eq!((slim.records.clone(), slim.covered), (184..300, 4096));
        assert!(slim.continues(&pointer(1)) && !slim.continues(&pointer(2)));
        assert_eq!(slim.trailer.checksum, verifier(&pointer(1)));
        let mut old = vec![0; 8192];
        old[8192 - CHAIN_SIZE..].copy_from_slice(&block[..CHAIN_SIZE]);
        let old = LogBlock::decode(&old, ChecksumKind::Zilog).expect("valid");
        assert_eq!((old.records, old.covered), (0..300, 8192));
    }

    #[test]
    fn swapping_makes_the_other_order_readable() {
        let mut block = slim_block();
        swap_array::<8>(&mut block[..CHAIN_SIZE]);
        assert_eq!(is_big_endian(&block, ChecksumKind::Zilog2), Ok(true));
        assert!(LogBlock::decode(&block, ChecksumKind::Zilog2).is_err());
        swap(&mut block, ChecksumKind::Zilog2).expect("long enough");
        assert_eq!(block, slim_block());
    }

    #[test]
    fn noise_is_refused() {
        let mut block = slim_block();
        block[137] = 0xff;
        assert!(
            LogBlock::decode(&block, ChecksumKind::Zilog2).is_err(),
            "used"
        );
        assert!(LogBlock::decode(&slim_block(), ChecksumKind::Zilog).is_err());
        assert!(LogBlock::decode(&slim_block(), ChecksumKind::Fletcher4).is_err());
        assert!(LogBlock::decode(&[0; 183], ChecksumKind::Zilog2).is_err());
    }
}
