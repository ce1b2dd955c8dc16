//! Space maps: the first byte is the shift.

#![no_main]

use cenote_ondisk::space_map::{SpaceMapHeader, SpaceMapItems};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = SpaceMapHeader::decode(bytes);
    if let [shift, log @ ..] = bytes {
        let shift = u32::from(*shift) % 17;
        for item in SpaceMapItems::new(log, 1 << 40, shift) {
            let _ = item;
        }
        for entry in SpaceMapItems::new(log, u64::MAX, shift).entries() {
            let _ = entry;
        }
    }
});
