//! Blocks of a big-endian host: the first two bytes choose level and type.

#![no_main]

use cenote_base::Level;
use cenote_ondisk::{ObjectType, byteswap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [level, kind, block @ ..] = bytes else {
        return;
    };
    let mut block = block.to_vec();
    let length = block.len();
    let _ = byteswap::swap_block(&mut block, Level(*level), ObjectType(*kind));
    assert_eq!(block.len(), length);
});
