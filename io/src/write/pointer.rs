//! Making block pointers (format/2a 1).

use super::WriteRequest;
use cenote_base::{Level, SECTOR_SIZE, Txg};
use cenote_ondisk::block_pointer::{BlockPointer, EMBEDDED_PAYLOAD_MAX};
use cenote_ondisk::wire::with_bits;
use cenote_ondisk::{ChecksumKind, CompressionKind, Dva, ObjectType};

const WORD_PROP: usize = 6;
const WORD_PHYSICAL_BIRTH: usize = 9;
const WORD_LOGICAL_BIRTH: usize = 10;
const WORD_FILL: usize = 11;
const WORD_CHECKSUM: usize = 12;
const WORD_MAC: usize = 14;
/// The words of an embedded pointer that hold no payload.
const FIXED_WORDS: [usize; 2] = [WORD_PROP, WORD_LOGICAL_BIRTH];
/// The flag in an address that says gang.
const GANG: u64 = 1 << 63;

/// What the properties' word says of a stored block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties {
    pub logical_size: u64,
    pub physical_size: u64,
    pub compression: CompressionKind,
    pub checksum: ChecksumKind,
    pub object_type: ObjectType,
    pub level: Level,
    pub is_protected: bool,
    pub is_dedup: bool,
}

/// Type, level and byte order, which all kinds of pointers have in the same place.
fn common(object_type: ObjectType, level: Level, little_endian: bool) -> u64 {
    let mut word = with_bits(0, 48, 8, u64::from(object_type.0));
    word = with_bits(word, 56, 5, u64::from(level.0));
    with_bits(word, 63, 1, u64::from(little_endian))
}

/// A pointer to a stored block, still without addresses and checksum.
pub(super) fn stored(properties: &Properties, txg: Txg, fill: u64) -> BlockPointer {
    let sectors = |bytes: u64| {
        assert!(bytes > 0 && bytes.is_multiple_of(SECTOR_SIZE));
        bytes / SECTOR_SIZE - 1
    };
    assert!(txg.0 > 0, "blocks are born in a group");
    let mut word = common(properties.object_type, properties.level, true);
    word = with_bits(word, 0, 16, sectors(properties.logical_size));
    word = with_bits(word, 16, 16, sectors(properties.physical_size));
    word = with_bits(word, 32, 7, u64::from(properties.compression.number()));
    word = with_bits(word, 40, 8, properties.checksum as u64);
    word = with_bits(word, 61, 1, u64::from(properties.is_protected));
    word = with_bits(word, 62, 1, u64::from(properties.is_dedup));
    let mut pointer = BlockPointer::HOLE;
    pointer.words[WORD_PROP] = word;
    pointer.words[WORD_LOGICAL_BIRTH] = txg.0;
    pointer.words[WORD_FILL] = fill;
    pointer
}

/// The hole that takes a block's place.
///
/// A hole remembers when it was made, unless there was nothing before it.
pub(super) fn hole(request: &WriteRequest, txg: Txg) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    let was_there = |previous: BlockPointer| previous.logical_birth() != Txg(0);
    if request.policy.hole_birth && request.previous.is_some_and(was_there) {
        let sectors = request.data.len() as u64 / SECTOR_SIZE - 1;
        let word = common(request.object_type, request.level, false);
        pointer.words[WORD_PROP] = with_bits(word, 0, 16, sectors);
        pointer.words[WORD_LOGICAL_BIRTH] = txg.0;
    }
    pointer
}

/// The pointer that holds its block's compressed contents itself.
pub(super) fn embedded(
    request: &WriteRequest,
    compression: CompressionKind,
    payload: &[u8],
    txg: Txg,
) -> BlockPointer {
    assert!((1..=EMBEDDED_PAYLOAD_MAX).contains(&payload.len()));
    let mut word = common(request.object_type, request.level, true);
    word = with_bits(word, 0, 25, request.data.len() as u64 - 1);
    word = with_bits(word, 25, 7, payload.len() as u64 - 1);
    word = with_bits(word, 32, 7, u64::from(compression.number()));
    word = with_bits(word, 39, 1, 1);
    let mut pointer = BlockPointer::HOLE;
    let words = (0..16).filter(|index| !FIXED_WORDS.contains(index));
    for (index, chunk) in words.zip(payload.chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        pointer.words[index] = u64::from_le_bytes(bytes);
    }
    pointer.words[WORD_PROP] = word;
    pointer.words[WORD_LOGICAL_BIRTH] = txg.0;
    pointer
}

/// Puts the copies' addresses in.
pub(super) fn set_dvas(pointer: &mut BlockPointer, dvas: &[Dva], is_gang: bool) {
    for (index, dva) in dvas.iter().enumerate() {
        pointer.words[2 * index] = dva.word0;
        pointer.words[2 * index + 1] = dva.word1 | if is_gang { GANG } else { 0 };
    }
}

/// Says when the copies were allocated: not, if that was when the block was born.
pub(super) fn set_physical_birth(pointer: &mut BlockPointer, birth: Txg) {
    let is_own = birth == pointer.logical_birth();
    pointer.words[WORD_PHYSICAL_BIRTH] = if is_own { 0 } else { birth.0 };
}

/// Puts all four words of the checksum in.
pub(super) fn set_checksum(pointer: &mut BlockPointer, words: [u64; 4]) {
    pointer.words[WORD_CHECKSUM..].copy_from_slice(&words);
}

/// Puts the two words of a protected block's checksum in, beside its MAC.
pub(super) fn set_folded_checksum(pointer: &mut BlockPointer, words: [u64; 2]) {
    pointer.words[WORD_CHECKSUM..WORD_MAC].copy_from_slice(&words);
}

/// Puts a protected block's MAC in.
pub(super) fn set_mac(pointer: &mut BlockPointer, mac: &[u8; 16]) {
    for (word, bytes) in pointer.words[WORD_MAC..]
        .iter_mut()
        .zip(mac.chunks_exact(8))
    {
        *word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    }
}

/// Puts salt and initialization vector of ciphertext in (format/2d 5).
pub(super) fn set_crypt_parameters(pointer: &mut BlockPointer, salt: [u8; 8], iv: [u8; 12]) {
    let [low @ .., a, b, c, d] = iv;
    pointer.words[4] = u64::from_le_bytes(salt);
    pointer.words[5] = u64::from_le_bytes(low);
    let high = u64::from(u32::from_le_bytes([a, b, c, d]));
    pointer.words[WORD_FILL] = with_bits(pointer.words[WORD_FILL], 32, 32, high);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::WritePolicy;
    use cenote_base::{Bookmark, VdevId};
    use std::sync::Arc;

    fn request(previous: Option<BlockPointer>) -> WriteRequest {
        WriteRequest {
            data: Arc::new(vec![0; 131_072].into()),
            bookmark: Bookmark::default(),
            object_type: ObjectType::PLAIN_FILE,
            level: Level(0),
            fill: 1,
            policy: WritePolicy::default(),
            keys: None,
            previous,
            form: None,
        }
    }

    #[test]
    fn fields_are_read_back() {
        let properties = Properties {
            logical_size: 131_072,
            physical_size: 4096,
            compression: CompressionKind::Lz4,
            checksum: ChecksumKind::Fletcher4,
            object_type: ObjectType::PLAIN_FILE,
            level: Level(0),
            is_protected: true,
            is_dedup: false,
        };
        let mut pointer = stored(&properties, Txg(77), 1);
        let (salt, iv) = (
            [1, 2, 3, 4, 5, 6, 7, 8],
            std::array::from_fn(|i| i as u8 + 9),
        );
        set_crypt_parameters(&mut pointer, salt, iv);
        set_mac(&mut pointer, &[7; 16]);
        set_dvas(&mut pointer, &[Dva::new(VdevId(1), 4096, 512)], false);
        set_folded_checksum(&mut pointer, [5, 6]);
        assert_eq!(
            (pointer.logical_size(), pointer.physical_size()),
            (131_072, 4096)
        );
        assert_eq!(
            (pointer.salt(), pointer.iv(), pointer.mac()),
            (salt, iv, [7; 16])
        );
        assert_eq!((pointer.fill(), pointer.logical_birth()), (1, Txg(77)));
        assert_eq!(pointer.checksum()[..2], [5, 6]);
        assert!(pointer.is_little_endian() && pointer.uses_crypt() && !pointer.is_dedup());
    }

    #[test]
    fn payloads_come_back() {
        for length in [1, 7, 8, 9, 48, 49, 111, 112] {
            let payload: Vec<u8> = (0..length).map(|i| i as u8 + 1).collect();
            let pointer = embedded(&request(None), CompressionKind::Lz4, &payload, Txg(9));
            assert_eq!(pointer.check(), Ok(()));
            assert_eq!(pointer.embedded_payload(), Some(payload));
            assert_eq!(
                (pointer.logical_size(), pointer.logical_birth()),
                (131_072, Txg(9))
            );
        }
    }

    #[test]
    fn holes_have_a_birth_where_something_was() {
        assert_eq!(hole(&request(None), Txg(9)), BlockPointer::HOLE);
        assert_eq!(
            hole(&request(Some(BlockPointer::HOLE)), Txg(9)),
            BlockPointer::HOLE
        );
        let properties = Properties {
            logical_size: 131_072,
            physical_size: 131_072,
            compression: CompressionKind::Off,
            checksum: ChecksumKind::Fletcher4,
            object_type: ObjectType::PLAIN_FILE,
            level: Level(0),
            is_protected: false,
            is_dedup: false,
        };
        let hole = hole(&request(Some(stored(&properties, Txg(5), 1))), Txg(9));
        assert!(hole.is_hole() && hole.logical_birth() == Txg(9));
        assert_eq!((hole.logical_size(), hole.fill()), (131_072, 0));
        assert_eq!(hole.object_type(), ObjectType::PLAIN_FILE);
    }
}
