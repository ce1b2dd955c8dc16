//! Turning a block that a big-endian host wrote into little-endian form, in place.
//!
//! Source: format/2b 4. The B bit of a block pointer tells the order of the block's contents.
//! What to swap follows from the level (indirect blocks are words) and the object type's class.
//! Swapping happens once, after decompression, so that every other decoder reads little-endian.
//!
//! Not covered: system attributes, whose buffers carry their own magic
//! ([`crate::system_attributes`]), log blocks (their embedded checksum tells) and name-value
//! lists (their header tells).

use crate::block_pointer::BLOCK_POINTER_SIZE;
use crate::dnode::{DNODE_CORE_SIZE, DNODE_SIZE, FLAG_SPILL_BLKPTR};
use crate::object_type::ByteswapClass;
use crate::wire;
use crate::zap::{self, leaf};
use crate::{DecodeError, ObjectType};
use cenote_base::Level;

const STRUCTURE: &str = "big-endian block";
const OBJSET_USED_DNODES: [usize; 3] = [1024, 1536, 2048];
const OBJSET_WORDS: std::ops::Range<usize> = 512..720;
const ZNODE_WORDS: usize = 176;
const ACL_COUNT: usize = 184;
const ACL_VERSION: usize = 188;
const ACL_ACES: usize = 192;
const ZNODE_SIZE: usize = 264;
const OLD_ACE_SIZE: usize = 12;

/// Swaps a whole block of an object of type `object_type` at `level`.
///
/// Spill blocks have the type of the bonus buffer.
pub fn swap_block(
    block: &mut [u8],
    level: Level,
    object_type: ObjectType,
) -> Result<(), DecodeError> {
    if level.0 > 0 {
        swap_array::<8>(block);
        return Ok(());
    }
    match object_type.byteswap_class() {
        None => Err(DecodeError::BadValue {
            structure: STRUCTURE,
            field: "object type",
            value: u64::from(object_type.0),
        }),
        Some(ByteswapClass::Dnode) => swap_dnodes(block),
        Some(ByteswapClass::Objset) => swap_objset(block),
        Some(ByteswapClass::Zap) => swap_zap(block),
        Some(class) => {
            swap_plain(block, class);
            Ok(())
        }
    }
}

/// The classes that neither fail nor contain dnodes: all that bonus buffers have.
fn swap_plain(bytes: &mut [u8], class: ByteswapClass) {
    match class {
        ByteswapClass::U16 => swap_array::<2>(bytes),
        ByteswapClass::U32 => swap_array::<4>(bytes),
        ByteswapClass::U64 => swap_array::<8>(bytes),
        ByteswapClass::Znode => swap_znode(bytes),
        ByteswapClass::OldAcl => swap_old_aces(bytes),
        ByteswapClass::Acl => swap_aces(bytes),
        ByteswapClass::U8 | ByteswapClass::Zap | ByteswapClass::Dnode | ByteswapClass::Objset => {}
    }
}

/// Swaps an array of integers of `WIDTH` bytes; a partial one at the end stays.
pub fn swap_array<const WIDTH: usize>(bytes: &mut [u8]) {
    bytes.chunks_exact_mut(WIDTH).for_each(<[u8]>::reverse);
}

/// Swaps the integer of `WIDTH` bytes at `offset`, if it is there.
fn swap_at<const WIDTH: usize>(bytes: &mut [u8], offset: usize) {
    if let Some(integer) = bytes.get_mut(offset..offset + WIDTH) {
        integer.reverse();
    }
}

/// A block of dnodes: each allocated one, then on to the slot after it.
fn swap_dnodes(block: &mut [u8]) -> Result<(), DecodeError> {
    let mut offset = 0;
    while offset < block.len() {
        let core = wire::slice(block, offset, DNODE_CORE_SIZE, STRUCTURE)?;
        let slots = if core[0] == 0 {
            1
        } else {
            usize::from(core[12]) + 1
        };
        let end = offset + slots * DNODE_SIZE;
        let dnode = block.get_mut(offset..end).ok_or(DecodeError::BadValue {
            structure: STRUCTURE,
            field: "extra slots",
            value: slots as u64 - 1,
        })?;
        if dnode[0] != 0 {
            swap_dnode(dnode);
        }
        offset = end;
    }
    Ok(())
}

/// One dnode with all its slots. Out-of-range counts are left for the decoder to refuse.
fn swap_dnode(dnode: &mut [u8]) {
    let (pointers, bonus_type, flags) = (usize::from(dnode[3]), dnode[4], dnode[7]);
    swap_at::<2>(dnode, 8);
    swap_at::<2>(dnode, 10);
    swap_at::<8>(dnode, 16);
    swap_at::<8>(dnode, 24);
    let bonus_length = u16::from_le_bytes([dnode[10], dnode[11]]);
    let spill = if flags & FLAG_SPILL_BLKPTR != 0 {
        BLOCK_POINTER_SIZE
    } else {
        0
    };
    let bonus_start = DNODE_CORE_SIZE + pointers * BLOCK_POINTER_SIZE;
    let bonus_end = dnode.len() - spill;
    if bonus_start > bonus_end {
        return;
    }
    swap_array::<8>(&mut dnode[DNODE_CORE_SIZE..bonus_start]);
    swap_array::<8>(&mut dnode[bonus_end..]);
    let class = ObjectType(bonus_type).byteswap_class();
    if let Some(class) = class.filter(|_| bonus_length != 0) {
        swap_plain(&mut dnode[bonus_start..bonus_end], class);
    }
}

fn swap_objset(block: &mut [u8]) -> Result<(), DecodeError> {
    wire::slice(block, 0, OBJSET_WORDS.end, STRUCTURE)?;
    swap_dnode_if_used(&mut block[..DNODE_SIZE]);
    swap_array::<8>(&mut block[OBJSET_WORDS]);
    for offset in OBJSET_USED_DNODES {
        if let Some(dnode) = block.get_mut(offset..offset + DNODE_SIZE) {
            swap_dnode_if_used(dnode);
        }
    }
    Ok(())
}

fn swap_dnode_if_used(dnode: &mut [u8]) {
    if dnode[0] != 0 {
        swap_dnode(dnode);
    }
}

fn swap_zap(block: &mut [u8]) -> Result<(), DecodeError> {
    let block_type: [u8; 8] = wire::array(block, 0, STRUCTURE)?;
    match u64::from_be_bytes(block_type) {
        zap::BLOCK_TYPE_MICRO => {
            let header = block.len().min(zap::micro::HEADER_WORDS_SIZE);
            swap_array::<8>(&mut block[..header]);
            for entry in block.chunks_exact_mut(zap::micro::ENTRY_SIZE).skip(1) {
                swap_at::<8>(entry, 0);
                swap_at::<4>(entry, 8);
            }
            Ok(())
        }
        zap::BLOCK_TYPE_LEAF => swap_zap_leaf(block),
        _ => {
            swap_array::<8>(block);
            Ok(())
        }
    }
}

fn swap_zap_leaf(block: &mut [u8]) -> Result<(), DecodeError> {
    let geometry = leaf::Geometry::of_block(block.len())?;
    swap_at::<8>(block, 0);
    swap_at::<8>(block, 16);
    swap_at::<4>(block, 24);
    for offset in [28, 30, 32, 34] {
        swap_at::<2>(block, offset);
    }
    let chunks_start = geometry.chunks_offset();
    swap_array::<2>(&mut block[leaf::HEADER_SIZE..chunks_start]);
    for chunk in block[chunks_start..].chunks_exact_mut(leaf::CHUNK_SIZE) {
        match chunk[0] {
            leaf::CHUNK_ENTRY => {
                for offset in [2, 4, 6, 8, 10] {
                    swap_at::<2>(chunk, offset);
                }
                swap_at::<4>(chunk, 12);
                swap_at::<8>(chunk, 16);
            }
            _ => swap_at::<2>(chunk, leaf::CHUNK_SIZE - 2),
        }
    }
    Ok(())
}

/// A legacy znode: 22 words and the access control list (format/3b 2, "Legacy znode").
fn swap_znode(bytes: &mut [u8]) {
    let words = bytes.len().min(ZNODE_WORDS);
    swap_array::<8>(&mut bytes[..words]);
    swap_at::<8>(bytes, ZNODE_WORDS);
    swap_at::<2>(bytes, ACL_VERSION);
    swap_at::<2>(bytes, ACL_VERSION + 2);
    swap_at::<4>(bytes, ACL_COUNT);
    let Some(version) = bytes.get(ACL_VERSION..ACL_VERSION + 2) else {
        return;
    };
    let is_old = version == [0, 0];
    let end = bytes.len().min(ZNODE_SIZE);
    if let Some(aces) = bytes.get_mut(ACL_ACES..end) {
        if is_old {
            swap_old_aces(aces);
        } else {
            swap_aces(aces);
        }
    }
}

/// Old entries: {who u32, mask u32, flags u16, type u16}.
pub(crate) fn swap_old_aces(bytes: &mut [u8]) {
    for ace in bytes.chunks_exact_mut(OLD_ACE_SIZE) {
        swap_at::<4>(ace, 0);
        swap_at::<4>(ace, 4);
        swap_at::<2>(ace, 8);
        swap_at::<2>(ace, 10);
    }
}

/// Entries {type u16, flags u16, mask u32, [id u64], [two GUIDs]} one after another.
pub(crate) fn swap_aces(bytes: &mut [u8]) {
    let mut offset = 0;
    while let Some(ace) = bytes.get_mut(offset..).filter(|ace| ace.len() >= 8) {
        swap_at::<2>(ace, 0);
        swap_at::<2>(ace, 2);
        swap_at::<4>(ace, 4);
        let header = [ace[0], ace[1], ace[2], ace[3]];
        let size = crate::acl::ace_size(header);
        if size >= 16 {
            swap_at::<8>(ace, 8);
        }
        offset += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dnode;

    #[test]
    fn dnodes_decode_after_swapping() {
        let mut block = vec![0; 4 * DNODE_SIZE];
        // A two-slot directory (bonus of words) after a free slot, then another free slot.
        let dnode = &mut block[DNODE_SIZE..3 * DNODE_SIZE];
        dnode[..13].copy_from_slice(&[12, 17, 1, 1, 12, 0, 0, 1, 0, 1, 1, 0, 1]);
        dnode[23] = 9;
        dnode[31] = 200;
        dnode[64 + 8 + 7] = 0x77;
        dnode[192 + 7] = 0x55;
        let unswapped = block.clone();
        swap_block(&mut block, Level(0), ObjectType::DNODE).expect("whole dnodes");
        let dnode = Dnode::decode(&block[DNODE_SIZE..])
            .expect("valid")
            .expect("allocated");
        assert_eq!((dnode.data_block_size, dnode.bonus.len()), (512, 256));
        assert_eq!((dnode.block_id_max.0, dnode.used), (9, 200));
        assert_eq!(dnode.block_pointers[0].words[1], 0x77);
        assert_eq!(dnode.bonus[0], 0x55);
        block[DNODE_SIZE + 12] = 3;
        assert!(
            swap_dnodes(&mut block).is_err(),
            "past the end of the block"
        );
        let mut twice = unswapped.clone();
        swap_block(&mut twice, Level(1), ObjectType::DNODE).expect("words");
        assert_eq!(twice[DNODE_SIZE + 7], 12, "an indirect block is words");
    }

    #[test]
    fn both_forms_of_zap_blocks() {
        let mut micro = zap::micro::encode_header(0x1234, 5).to_vec();
        micro.extend(zap::micro::encode_entry(b"name", 0x0708, 9).expect("it fits"));
        let little = micro.clone();
        micro[..24].chunks_exact_mut(8).for_each(<[u8]>::reverse);
        micro[64..72].reverse();
        micro[72..76].reverse();
        swap_block(&mut micro, Level(0), ObjectType::DIRECTORY).expect("a ZAP");
        assert_eq!(micro, little);

        // Every byte of the fields differs; text and padding stay.
        let mut leaf: Vec<u8> = (0..512).map(|i| i as u8).collect();
        leaf[..8].copy_from_slice(&zap::BLOCK_TYPE_LEAF.to_be_bytes());
        for (i, kind) in [leaf::CHUNK_ENTRY, leaf::CHUNK_ARRAY]
            .into_iter()
            .enumerate()
        {
            leaf[80 + 24 * i] = kind;
        }
        let big = leaf.clone();
        swap_block(&mut leaf, Level(0), ObjectType::DIRECTORY).expect("a ZAP");
        assert_eq!(leaf[..8], zap::BLOCK_TYPE_LEAF.to_le_bytes());
        assert_eq!(leaf[24..30], [27, 26, 25, 24, 29, 28]);
        assert_eq!(leaf[36..50], [&big[36..48], &[49, 48]].concat());
        assert_eq!(leaf[82..84], [83, 82]);
        assert_eq!(
            leaf[92..104],
            [95, 94, 93, 92, 103, 102, 101, 100, 99, 98, 97, 96]
        );
        assert_eq!(leaf[105..128], [&big[105..126], &[127, 126]].concat());
        assert!(swap_block(&mut leaf[..100], Level(0), ObjectType::DIRECTORY).is_ok());
        leaf[..8].copy_from_slice(&zap::BLOCK_TYPE_LEAF.to_be_bytes());
        assert!(swap_block(&mut leaf[..100], Level(0), ObjectType::DIRECTORY).is_err());
    }

    #[test]
    fn old_and_new_access_lists_in_znodes() {
        let mut znode = vec![0; ZNODE_SIZE];
        znode[7] = 1;
        znode[ACL_COUNT + 3] = 2;
        znode[ACL_ACES + 3] = 0x11;
        znode[ACL_ACES + 7] = 0x22;
        znode[ACL_ACES + 11] = 0x01;
        let mut old = znode.clone();
        swap_znode(&mut old);
        assert_eq!(old[0], 1);
        assert_eq!(old[ACL_COUNT], 2);
        assert_eq!(
            old[ACL_ACES..ACL_ACES + 12],
            [0x11, 0, 0, 0, 0x22, 0, 0, 0, 0, 0, 1, 0]
        );
        znode[ACL_VERSION + 1] = 1;
        swap_znode(&mut znode);
        assert_eq!(znode[ACL_VERSION], 1);
        assert_eq!(
            znode[ACL_ACES..ACL_ACES + 8],
            [0, 0, 0x11, 0, 0x22, 0, 0, 0]
        );
    }
}
