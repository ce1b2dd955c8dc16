//! Leaves of fat ZAPs: chains of entries and of names and values.

#![no_main]

use cenote_ondisk::zap::Key;
use cenote_ondisk::zap::leaf::Leaf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for word_keys in [false, true] {
        let Ok(leaf) = Leaf::decode(bytes, word_keys) else {
            continue;
        };
        if let Ok(entries) = leaf.sorted() {
            for entry in entries {
                let _ = (
                    entry.key(),
                    entry.value(),
                    entry.to_entry(),
                    entry.name_is(b"x"),
                );
            }
        }
        let _ = leaf.with_hash(0);
        let _ = leaf.lookup(u64::MAX, &Key::Words(vec![7]));
    }
});
