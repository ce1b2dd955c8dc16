//! Uberblocks in both byte orders.

#![no_main]

use cenote_ondisk::Uberblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(uberblock) = Uberblock::decode(bytes) {
        let _ = (
            uberblock.rank(),
            uberblock.raidz_reflow(),
            uberblock.is_version_supported(),
        );
        let _ = uberblock.root.check();
        assert_eq!(
            Uberblock::decode(&uberblock.encode()).map(|u| u.root),
            Ok(uberblock.root)
        );
    }
});
