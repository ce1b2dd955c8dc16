//! Access control lists: the first byte is the count of entries.

#![no_main]

use cenote_ondisk::acl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [count, list @ ..] = bytes {
        let count = usize::from(*count);
        if let Ok(entries) = acl::decode(list, count) {
            assert_eq!(entries.len(), count);
        }
        let _ = acl::decode_old(list, count);
    }
});
