//! Blocks as a big-endian host writes them.
//!
//! For most types swapping is its own inverse, and the reader's function works. The first word of a
//! ZAP block says its kind and is itself swapped: here the little-endian one is read.

use anyhow::Result;
use cenote_base::Level;
use cenote_ondisk::object_type::ByteswapClass;
use cenote_ondisk::{ObjectType, byteswap, wire};

/// First words of ZAP blocks: format/2b 5.
const ZAP_LEAF: u64 = 0x8000_0000_0000_0000;
const ZAP_MICRO: u64 = 0x8000_0000_0000_0003;

/// Swaps a little-endian block.
pub(super) fn to_big_endian(block: &mut [u8], level: Level, kind: ObjectType) -> Result<()> {
    if level.0 > 0 || kind.byteswap_class() != Some(ByteswapClass::Zap) {
        byteswap::swap_block(block, level, kind)?;
        return Ok(());
    }
    match wire::u64_le(block, 0, "ZAP")? {
        ZAP_MICRO => {
            swap::<8>(block, &[0, 8, 16]);
            for entry in block.chunks_exact_mut(64).skip(1) {
                swap::<8>(entry, &[0]);
                swap::<4>(entry, &[8]);
            }
        }
        ZAP_LEAF => swap_leaf(block),
        _ => byteswap::swap_array::<8>(block),
    }
    Ok(())
}

/// Header, hash table, and the chunks, which end with the block: format/2b 5.3.
fn swap_leaf(block: &mut [u8]) {
    swap::<8>(block, &[0, 16]);
    swap::<4>(block, &[24]);
    swap::<2>(block, &[28, 30, 32, 34]);
    let hash_table_end = 48 + 2 * (block.len() / 32);
    byteswap::swap_array::<2>(&mut block[48..hash_table_end]);
    for chunk in block[hash_table_end..].chunks_exact_mut(24) {
        if chunk[0] == 252 {
            swap::<2>(chunk, &[2, 4, 6, 8, 10]);
            swap::<4>(chunk, &[12]);
            swap::<8>(chunk, &[16]);
        } else {
            swap::<2>(chunk, &[22]);
        }
    }
}

fn swap<const WIDTH: usize>(bytes: &mut [u8], offsets: &[usize]) {
    for offset in offsets {
        bytes[*offset..offset + WIDTH].reverse();
    }
}
