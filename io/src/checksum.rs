//! Judging stored bytes by a block pointer's checksum (format/2a 3).

use cenote_codec::checksum::{self, Salt, digest_words};
use cenote_codec::{Endian, Words};
use cenote_ondisk::{BlockPointer, ChecksumKind, ObjectType};

/// A checksum function needs the pool's salt and there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaltMissing;

/// The byte order of a block's contents.
pub fn endian_of(pointer: &BlockPointer) -> Endian {
    if pointer.is_little_endian() {
        Endian::Little
    } else {
        Endian::Big
    }
}

/// Computes checksum `kind` of stored bytes; `None` for functions that do not stand in a pointer.
pub fn compute(
    kind: ChecksumKind,
    data: &[u8],
    endian: Endian,
    salt: Option<&Salt>,
) -> Result<Option<Words>, SaltMissing> {
    let salt = || salt.ok_or(SaltMissing);
    Ok(Some(match kind {
        ChecksumKind::Fletcher2 => checksum::fletcher2(data, endian),
        ChecksumKind::Fletcher4 | ChecksumKind::On => checksum::fletcher4(data, endian),
        ChecksumKind::Sha256 => checksum::sha256(data),
        ChecksumKind::Sha512 => digest_words(&checksum::sha512_256(data), endian),
        ChecksumKind::Skein => digest_words(&salt()?.skein(data), endian),
        ChecksumKind::Edonr => digest_words(&salt()?.edonr(data), endian),
        ChecksumKind::Blake3 => digest_words(&salt()?.blake3(data), endian),
        ChecksumKind::Off
        | ChecksumKind::Noparity
        | ChecksumKind::Inherit
        | ChecksumKind::Label
        | ChecksumKind::GangHeader
        | ChecksumKind::Zilog
        | ChecksumKind::Zilog2 => return Ok(None),
    }))
}

/// Folds a checksum to the two words that protected blocks keep beside their MAC (format/2a 3.6).
pub fn fold(kind: ChecksumKind, words: Words) -> [u64; 2] {
    if kind.is_dedup_strong() {
        [words[0], words[1]]
    } else {
        [words[0] ^ words[2], words[1] ^ words[3]]
    }
}

/// Whether `data` is what `pointer` points to.
///
/// Blocks without a checksum (`off`, `noparity`, and intent log blocks, which carry their own)
/// are accepted: there is nothing to judge them by.
pub fn verify(
    pointer: &BlockPointer,
    data: &[u8],
    salt: Option<&Salt>,
) -> Result<bool, SaltMissing> {
    let Some(kind) = pointer.checksum_kind() else {
        return Ok(false);
    };
    let Some(actual) = compute(kind, data, endian_of(pointer), salt)? else {
        return Ok(true);
    };
    let expected = pointer.checksum();
    let keeps_mac = pointer.uses_crypt() && pointer.object_type() != ObjectType::OBJSET;
    Ok(if keeps_mac {
        fold(kind, actual) == expected[..2]
    } else {
        actual == expected
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_functions_fold_and_strong_ones_truncate() {
        assert_eq!(fold(ChecksumKind::Fletcher4, [1, 2, 4, 8]), [5, 10]);
        assert_eq!(fold(ChecksumKind::Sha256, [1, 2, 4, 8]), [1, 2]);
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let mut data = vec![7_u8; 4096];
        let mut pointer = BlockPointer::HOLE;
        pointer.words[0] = 8;
        pointer.words[6] = 1 << 63 | 19 << 48 | 7 << 40 | 2 << 32 | 7 << 16 | 7;
        pointer.words[12..].copy_from_slice(&checksum::fletcher4(&data, Endian::Little));
        assert_eq!(verify(&pointer, &data, None), Ok(true));
        data[100] ^= 1;
        assert_eq!(verify(&pointer, &data, None), Ok(false));
        pointer.words[6] = pointer.words[6] & !(0xff << 40) | 12 << 40;
        assert_eq!(verify(&pointer, &data, None), Err(SaltMissing));
    }
}
