//! Headers and pointer tables of fat ZAPs.

#![no_main]

use cenote_ondisk::zap::fat_header::{FatHeader, PointerPlace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = FatHeader::decode(bytes) {
        let _ = (
            header.hash_bits(),
            header.hash_name(b"name"),
            header.hash_words(&[1, 2]),
        );
        for hash in [0, 1, u64::MAX, 1 << 63] {
            let index = header.pointer_index(hash);
            assert!(index < header.pointers());
            let place: PointerPlace = header.pointer_place(index);
            let _ = header.pointer(bytes, place);
            for length in [0, 1, 63, 64, 200] {
                let _ = header.leaf_belongs(index, hash, length);
                if let Some(next) = header.next_leaf_index(index, length) {
                    assert!(next > index);
                }
            }
        }
    }
});
