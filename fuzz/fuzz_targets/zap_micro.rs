//! Microzaps.

#![no_main]

use cenote_ondisk::zap::micro::MicroZap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(zap) = MicroZap::decode(bytes) {
        for entry in zap.entries() {
            assert!(zap.lookup(entry.name).is_some());
        }
        let _ = zap.sorted(|name| zap.hash(name));
    }
});
