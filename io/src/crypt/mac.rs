//! MACs over blocks that are authenticated but not encrypted (format/2d 6 and 8).
//!
//! Everywhere a block pointer enters a MAC it does so as a *record*: its properties without the
//! fields that a resend may change, and its own MAC. Version 0 records (made by the first
//! release) are 24 bytes and mask less.

use super::ObjsetKeys;
use cenote_codec::Endian;
use cenote_codec::cipher::{hmac_sha512, sha512};
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, FLAG_SPILL_BLKPTR};
use cenote_ondisk::objset::FLAG_USER_ACCOUNTING_COMPLETE;
use cenote_ondisk::wire::{bits, with_bits};
use cenote_ondisk::{BlockPointer, ObjectType};
use std::ops::Range;

/// The two ways that released software made the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordVersion {
    V0,
    V1,
}

/// Both, the common one first.
pub(super) const VERSIONS: [RecordVersion; 2] = [RecordVersion::V1, RecordVersion::V0];

/// Reads a u64 in the byte order of its block.
pub(super) fn word(bytes: &[u8], offset: usize, endian: Endian) -> u64 {
    let bytes: [u8; 8] = bytes[offset..offset + 8].try_into().expect("8 bytes");
    match endian {
        Endian::Little => u64::from_le_bytes(bytes),
        Endian::Big => u64::from_be_bytes(bytes),
    }
}

/// The block pointer at the start of `bytes`, in the byte order of its block.
fn pointer(bytes: &[u8], endian: Endian) -> BlockPointer {
    BlockPointer {
        words: std::array::from_fn(|i| word(bytes, 8 * i, endian)),
    }
}

/// Appends the record of the pointer at the start of `bytes`.
pub(super) fn push_record(out: &mut Vec<u8>, bytes: &[u8], endian: Endian, version: RecordVersion) {
    let pointer = pointer(bytes, endian);
    let mut prop = pointer.words[6];
    prop = with_bits(prop, 62, 1, 0);
    prop = with_bits(prop, 40, 8, 0);
    match version {
        RecordVersion::V1 if pointer.is_hole() => prop = 0,
        RecordVersion::V1 if pointer.level().0 != 0 => {
            prop = with_bits(with_bits(with_bits(prop, 63, 1, 0), 32, 7, 0), 16, 16, 0);
        }
        RecordVersion::V1 => {}
        RecordVersion::V0 => prop = with_bits(prop, 16, 16, 0),
    }
    out.extend_from_slice(&prop.to_le_bytes());
    let is_objset = pointer.object_type() == ObjectType::OBJSET && pointer.level().0 == 0;
    // Bytes 112 to 127, the MAC, in stored order: what a host of the block's order sees.
    let mac = if is_objset && !pointer.is_hole() {
        [0; 16]
    } else {
        stored_mac(bytes)
    };
    out.extend_from_slice(&mac);
    if version == RecordVersion::V1 {
        out.extend_from_slice(&[0; 8]);
    }
}

fn stored_mac(bytes: &[u8]) -> [u8; 16] {
    bytes[112..128].try_into().expect("16 bytes")
}

/// The MAC of clear metadata: an HMAC over its stored bytes.
pub(super) fn of_stored(keys: &ObjsetKeys, stored: &[u8]) -> [u8; 16] {
    truncated(hmac_sha512(keys.hmac(), &[stored]))
}

fn truncated(digest: [u8; 64]) -> [u8; 16] {
    digest[..16].try_into().expect("16 of 64 bytes")
}

/// The MAC of an indirect block: a hash over the MACs in it.
pub(super) fn of_indirect(logical: &[u8], endian: Endian, version: RecordVersion) -> [u8; 16] {
    let mut records = Vec::with_capacity(logical.len() / 4);
    for bytes in logical.chunks_exact(BLOCK_POINTER_SIZE) {
        push_record(&mut records, bytes, endian, version);
    }
    truncated(sha512(&[&records]))
}

/// Whether an indirect block's contents hash to its MAC.
pub(super) fn indirect_is_good(logical: &[u8], endian: Endian, mac: &[u8; 16]) -> bool {
    let versions = VERSIONS.into_iter();
    versions
        .map(|version| of_indirect(logical, endian, version))
        .any(|computed| computed == *mac)
}

/// Appends a dnode's 64-byte core as MACs cover it, and the records of its pointers.
fn push_dnode(out: &mut Vec<u8>, dnode: &[u8], endian: Endian, version: RecordVersion) {
    let mut core: [u8; DNODE_CORE_SIZE] = dnode[..DNODE_CORE_SIZE].try_into().expect("64 bytes");
    core[7] &= FLAG_SPILL_BLKPTR;
    core[24..32].fill(0);
    if endian == Endian::Big {
        // The portable form is little-endian: swap the two 16-bit and the one 64-bit field left.
        core[8..10].reverse();
        core[10..12].reverse();
        core[16..24].reverse();
    }
    out.extend_from_slice(&core);
    let count = usize::from(dnode[3]).min(3);
    for bytes in dnode[DNODE_CORE_SIZE..]
        .chunks_exact(BLOCK_POINTER_SIZE)
        .take(count)
    {
        push_record(out, bytes, endian, version);
    }
}

/// Where the two MACs stand in an object set block.
const PORTABLE_MAC: Range<usize> = 720..752;
const LOCAL_MAC: Range<usize> = 752..784;
/// The smallest object set block, which knows no accounting.
const OBJSET_SIZE_MIN: usize = 1024;

/// The MAC over what an object set block has in common with its received copies.
fn portable(logical: &[u8], endian: Endian, version: RecordVersion, keys: &ObjsetKeys) -> [u8; 32] {
    let mut covered = Vec::new();
    // The type is big-endian on every host; flags enter masked, and no portable flag exists.
    covered.extend_from_slice(&word(logical, 704, endian).to_be_bytes());
    covered.extend_from_slice(&[0; 8]);
    push_dnode(&mut covered, &logical[..512], endian, version);
    let digest = hmac_sha512(keys.hmac(), &[&covered]);
    digest[..32].try_into().expect("32 of 64 bytes")
}

/// The MAC over an object set's accounting; `None` if it is not complete.
fn local(
    logical: &[u8],
    endian: Endian,
    version: RecordVersion,
    keys: &ObjsetKeys,
) -> Option<[u8; 32]> {
    let flags = word(logical, 712, endian);
    let accounted = bits(flags, 0, 1) == FLAG_USER_ACCOUNTING_COMPLETE;
    let offsets: &[usize] = if logical.len() >= 4096 {
        &[1024, 1536, 2048]
    } else {
        &[1024, 1536]
    };
    if !accounted || logical.len() < 2048 {
        return None;
    }
    let mut covered = Vec::new();
    covered.extend_from_slice(&flags.to_le_bytes());
    for offset in offsets {
        if logical[*offset] != 0 {
            let dnode = &logical[*offset..*offset + 512];
            push_dnode(&mut covered, dnode, endian, version);
        }
    }
    let digest = hmac_sha512(keys.hmac(), &[&covered]);
    Some(digest[..32].try_into().expect("32 of 64 bytes"))
}

/// Whether an object set block's portable MAC is right, and its local one. Without complete
/// accounting there is none, whatever stands there: OpenZFS leaves an old one.
pub(super) fn objset_is_good(logical: &[u8], endian: Endian, keys: &ObjsetKeys) -> bool {
    if logical.len() < OBJSET_SIZE_MIN {
        return false;
    }
    let stored = &logical[LOCAL_MAC];
    let has_local = stored.iter().any(|byte| *byte != 0);
    VERSIONS.into_iter().any(|version| {
        let is_local = || local(logical, endian, version, keys).is_none_or(|mac| mac == *stored);
        portable(logical, endian, version, keys) == logical[PORTABLE_MAC]
            && (!has_local || is_local())
    })
}

/// Puts both MACs into a little-endian object set block; `false` if it is too small for one.
///
/// Without complete accounting, or without any accounted owner, there is no local MAC.
pub(super) fn seal_objset(logical: &mut [u8], keys: &ObjsetKeys) -> bool {
    if logical.len() < OBJSET_SIZE_MIN {
        return false;
    }
    let (endian, version) = (Endian::Little, RecordVersion::V1);
    let mac = portable(logical, endian, version, keys);
    logical[PORTABLE_MAC].copy_from_slice(&mac);
    let accounts = [1024, 1536, 2048].into_iter();
    let has_accounts = accounts
        .filter(|offset| offset + 512 <= logical.len())
        .any(|offset| logical[offset] != 0);
    let mac = local(logical, endian, version, keys).filter(|_| has_accounts);
    logical[LOCAL_MAC].copy_from_slice(&mac.unwrap_or([0; 32]));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indirect_blocks_verify_in_both_versions() {
        let mut block = vec![0; 4096];
        let mut child = BlockPointer::HOLE;
        child.words[0] = 8;
        child.words[6] = 1 << 63 | 1 << 61 | 19 << 48 | 7 << 40 | 15 << 32 | 7 << 16 | 255;
        child.words[14] = 0x1122;
        block[128..256].copy_from_slice(&child.encode());
        for version in VERSIONS {
            let mut records = Vec::new();
            for bytes in block.chunks_exact(128) {
                push_record(&mut records, bytes, Endian::Little, version);
            }
            assert_eq!(
                records.len(),
                32 * if version == RecordVersion::V1 { 32 } else { 24 }
            );
            let mac = truncated(sha512(&[&records]));
            assert!(indirect_is_good(&block, Endian::Little, &mac));
            let mut other = block.clone();
            other[128 + 112] ^= 1;
            assert!(
                !indirect_is_good(&other, Endian::Little, &mac),
                "a child's MAC counts"
            );
        }
    }
}
