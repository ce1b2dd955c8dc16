//! Checksums that stand inside the block they cover: labels, gang headers and log blocks.
//!
//! Source: format/1 1.2 and format/2a 3.5.
//!
//! ```text
//! trailer (40 bytes, mostly the end of the block):  0 magic   8 checksum (4 words)
//! ```
//!
//! The checksum is computed with a *verifier* in the checksum's place: words that tie the block
//! to where it belongs, so that a valid block in the wrong place does not pass. The magic tells
//! the byte order of the trailer. Computing the checksum (SHA-256, or fletcher for log blocks) is
//! the caller's: see [`Trailer::install_verifier`] and [`seal`].

use crate::wire;
use crate::{DecodeError, Dva};
use cenote_base::Txg;

/// Bytes of the trailer.
pub const TRAILER_SIZE: usize = 40;
/// What a trailer starts with (`ZEC_MAGIC`).
pub const MAGIC: u64 = 0x0210_da7a_b10c_7a11;

const STRUCTURE: &str = "embedded checksum";
const CHECKSUM_OFFSET: usize = 8;

/// A trailer found in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Where the trailer starts in the block.
    pub position: usize,
    /// Whether a big-endian host wrote the block.
    pub big_endian: bool,
    /// The stored checksum, as numbers.
    pub checksum: [u64; 4],
}

impl Trailer {
    /// Reads the trailer at the end of `block`.
    pub fn at_end(block: &[u8]) -> Result<Self, DecodeError> {
        let position = block.len().checked_sub(TRAILER_SIZE);
        let position = position.ok_or(DecodeError::Truncated {
            structure: STRUCTURE,
            offset: 0,
            needed: TRAILER_SIZE,
            available: block.len(),
        })?;
        Self::at(block, position)
    }

    /// Reads the trailer at `position` of `block`.
    pub fn at(block: &[u8], position: usize) -> Result<Self, DecodeError> {
        let bytes: [u8; TRAILER_SIZE] = wire::array(block, position, STRUCTURE)?;
        let found = wire::u64_le(&bytes, 0, STRUCTURE)?;
        let big_endian = found == MAGIC.swap_bytes();
        if found != MAGIC && !big_endian {
            return Err(DecodeError::BadMagic {
                structure: STRUCTURE,
                found,
                expected: MAGIC,
            });
        }
        let mut checksum = [0; 4];
        for (i, word) in checksum.iter_mut().enumerate() {
            *word = wire::u64_le(&bytes, CHECKSUM_OFFSET + 8 * i, STRUCTURE)?;
            if big_endian {
                *word = word.swap_bytes();
            }
        }
        Ok(Self {
            position,
            big_endian,
            checksum,
        })
    }

    /// The verifier's bytes in the block's byte order, for a caller that hashes in pieces.
    pub fn verifier_bytes(&self, verifier: [u64; 4]) -> [u8; 32] {
        words_to_bytes(verifier, self.big_endian)
    }

    /// Puts `verifier` into the checksum's place: afterwards the checksum of `block` must equal
    /// [`Self::checksum`]. `block` must be the one the trailer was read from.
    pub fn install_verifier(&self, block: &mut [u8], verifier: [u64; 4]) {
        let start = self.position + CHECKSUM_OFFSET;
        block[start..start + 32].copy_from_slice(&self.verifier_bytes(verifier));
    }

    /// The parts of `block` before and after the checksum's 32 bytes.
    pub fn around<'a>(&self, block: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let start = self.position + CHECKSUM_OFFSET;
        (&block[..start], &block[start + 32..])
    }
}

/// The verifier of a piece of a label, or of a cache device's header: its byte offset on the
/// device.
pub fn label_verifier(device_offset: u64) -> [u64; 4] {
    [device_offset, 0, 0, 0]
}

/// The verifier of a gang header: the first DVA of the pointer to it and its physical birth.
pub fn gang_verifier(dva: Dva, birth: Txg) -> [u64; 4] {
    [dva.vdev().0, dva.offset(), birth.0, 0]
}

/// A SHA-256 digest as checksum words: big-endian whatever the block's order (format/2a 3.3).
pub fn sha256_words(digest: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|i| {
        let word = digest[8 * i..8 * i + 8].try_into();
        u64::from_be_bytes(word.expect("8 bytes"))
    })
}

/// Writes a little-endian trailer with `verifier` at `position`; then the caller computes the
/// checksum of the block and calls [`seal`].
pub fn prepare(block: &mut [u8], position: usize, verifier: [u64; 4]) {
    block[position..position + 8].copy_from_slice(&MAGIC.to_le_bytes());
    seal(block, position, verifier);
}

/// Writes the computed checksum into the little-endian trailer at `position`.
pub fn seal(block: &mut [u8], position: usize, checksum: [u64; 4]) {
    let start = position + CHECKSUM_OFFSET;
    block[start..start + 32].copy_from_slice(&words_to_bytes(checksum, false));
}

fn words_to_bytes(words: [u64; 4], big_endian: bool) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&if big_endian {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::VdevId;

    #[test]
    fn sealing_and_reading_are_inverse() {
        let mut block = vec![7; 1024];
        prepare(&mut block, 984, label_verifier(0x2_0000));
        let before = block.clone();
        seal(&mut block, 984, [1, 2, 3, u64::MAX]);
        let trailer = Trailer::at_end(&block).expect("sealed");
        assert_eq!(trailer.checksum, [1, 2, 3, u64::MAX]);
        assert!(!trailer.big_endian);
        trailer.install_verifier(&mut block, label_verifier(0x2_0000));
        assert_eq!(block, before, "what was hashed when sealing");
        let (head, tail) = trailer.around(&block);
        assert_eq!((head.len(), tail.len()), (992, 0));
    }

    #[test]
    fn the_magic_tells_the_byte_order() {
        let mut block = [0; 64];
        block[24..32].copy_from_slice(&MAGIC.to_be_bytes());
        block[39] = 5;
        let trailer = Trailer::at_end(&block).expect("big-endian");
        assert!(trailer.big_endian);
        assert_eq!(trailer.checksum, [5, 0, 0, 0]);
        let verifier = gang_verifier(Dva::new(VdevId(3), 1024, 512), Txg(9));
        assert_eq!(trailer.verifier_bytes(verifier)[7], 3);
        block[24] ^= 1;
        assert!(matches!(
            Trailer::at_end(&block),
            Err(DecodeError::BadMagic { .. })
        ));
        assert!(Trailer::at_end(&block[..39]).is_err());
    }
}
