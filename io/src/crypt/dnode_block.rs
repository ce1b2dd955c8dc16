//! Opening and sealing a block of dnodes: bonus buffers are ciphertext, the rest is authenticated.
//!
//! Source: format/2d 7. Walk the 512-byte slots, skipping by `1 + extra slots`; free slots count
//! as dnodes of one slot without pointers. Cores, pointer records and clear bonus areas make the
//! additional data; encrypted bonus areas, end to end, make one ciphertext.

use super::ObjsetKeys;
use super::mac::{RecordVersion, VERSIONS, push_record};
use crate::checksum::endian_of;
use cenote_codec::Endian;
use cenote_codec::cipher::BlockKey;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SIZE, FLAG_SPILL_BLKPTR};
use cenote_ondisk::{BlockPointer, DecodeError, ObjectType};
use std::ops::Range;

/// Why a dnode block did not open.
pub(super) enum OpenError {
    /// The tag does not match.
    Authentication,
    /// A dnode's fields contradict its size.
    Malformed(DecodeError),
}

/// One dnode's share of the block.
struct Piece {
    /// The dnode's bytes in the block.
    bytes: Range<usize>,
    /// The spill pointer's bytes, if there is one.
    spill: Option<Range<usize>>,
    /// From behind the last block pointer to the end or to the spill pointer.
    bonus: Range<usize>,
    /// The bonus area is ciphertext.
    encrypted: bool,
}

fn pieces(block: &[u8]) -> Result<Vec<Piece>, DecodeError> {
    let bad = |field, value| DecodeError::BadValue {
        structure: "dnode",
        field,
        value,
    };
    let mut pieces = Vec::with_capacity(block.len() / DNODE_SIZE);
    let mut start = 0;
    while start + DNODE_SIZE <= block.len() {
        let core = &block[start..start + DNODE_CORE_SIZE];
        let slots = usize::from(core[12]) + 1;
        let end = start + slots * DNODE_SIZE;
        if end > block.len() {
            return Err(bad("extra slots", u64::from(core[12])));
        }
        if core[3] > 3 {
            return Err(bad("number of block pointers", u64::from(core[3])));
        }
        let spill = (core[7] & FLAG_SPILL_BLKPTR != 0).then(|| end - BLOCK_POINTER_SIZE..end);
        let bonus_start = start + DNODE_CORE_SIZE + usize::from(core[3]) * BLOCK_POINTER_SIZE;
        let bonus_end = spill.as_ref().map_or(end, |spill| spill.start);
        if bonus_start > bonus_end {
            return Err(bad("number of block pointers", u64::from(core[3])));
        }
        let encrypted =
            core[0] != 0 && ObjectType(core[4]).is_encrypted() && core[10..12] != [0, 0];
        pieces.push(Piece {
            bytes: start..end,
            spill,
            bonus: bonus_start..bonus_end,
            encrypted,
        });
        start = end;
    }
    Ok(pieces)
}

fn additional_data(
    block: &[u8],
    pieces: &[Piece],
    endian: Endian,
    version: RecordVersion,
) -> Vec<u8> {
    let mut data = Vec::with_capacity(block.len());
    for piece in pieces {
        let dnode = &block[piece.bytes.clone()];
        let at = data.len();
        data.extend_from_slice(&dnode[..DNODE_CORE_SIZE]);
        data[at + 7] &= FLAG_SPILL_BLKPTR;
        data[at + 24..at + 32].fill(0);
        let count = usize::from(dnode[3]);
        for pointer in dnode[DNODE_CORE_SIZE..]
            .chunks_exact(BLOCK_POINTER_SIZE)
            .take(count)
        {
            push_record(&mut data, pointer, endian, version);
        }
        if let Some(spill) = &piece.spill {
            push_record(&mut data, &block[spill.clone()], endian, version);
        }
        if !piece.encrypted {
            data.extend_from_slice(&block[piece.bonus.clone()]);
        }
    }
    data
}

/// Decrypts the bonus buffers of a dnode block in place.
pub(super) fn open(
    pointer: &BlockPointer,
    block: &mut [u8],
    keys: &ObjsetKeys,
) -> Result<(), OpenError> {
    let pieces = pieces(block).map_err(OpenError::Malformed)?;
    let secret = || {
        pieces
            .iter()
            .filter(|piece| piece.encrypted)
            .map(|piece| piece.bonus.clone())
    };
    let ciphertext: Vec<u8> = secret()
        .flat_map(|range| block[range].iter().copied())
        .collect();
    let key = keys.block_key(pointer.salt());
    for version in VERSIONS {
        let data = additional_data(block, &pieces, endian_of(pointer), version);
        let mut text = ciphertext.clone();
        if key
            .decrypt(&pointer.iv(), &data, &mut text, &pointer.mac())
            .is_err()
        {
            continue;
        }
        let mut from = 0;
        for range in secret() {
            let to = from + range.len();
            block[range].copy_from_slice(&text[from..to]);
            from = to;
        }
        assert_eq!(
            from,
            text.len(),
            "all of the text went back where it came from"
        );
        return Ok(());
    }
    Err(OpenError::Authentication)
}

/// Encrypts the bonus buffers of a little-endian dnode block in place; returns the tag.
pub(super) fn seal(
    block: &mut [u8],
    key: &BlockKey,
    iv: &[u8; 12],
) -> Result<[u8; 16], DecodeError> {
    let pieces = pieces(block)?;
    let data = additional_data(block, &pieces, Endian::Little, RecordVersion::V1);
    let secret = || pieces.iter().filter(|piece| piece.encrypted);
    let mut text = Vec::with_capacity(block.len());
    secret().for_each(|piece| text.extend_from_slice(&block[piece.bonus.clone()]));
    let tag = key.encrypt(iv, &data, &mut text);
    let tag = tag.expect("a block of dnodes is far smaller than what a cipher takes");
    let mut rest = text.as_slice();
    for piece in secret() {
        let (own, after) = rest.split_at(piece.bonus.len());
        block[piece.bonus.clone()].copy_from_slice(own);
        rest = after;
    }
    Ok(tag)
}
