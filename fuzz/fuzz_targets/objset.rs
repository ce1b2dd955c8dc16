//! Object sets of any age.

#![no_main]

use cenote_ondisk::objset::OBJSET_SIZE;
use cenote_ondisk::{Objset, intent_log};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(objset) = Objset::decode(bytes) {
        let _ = intent_log::IntentLogHeader::decode(&objset.intent_log_header);
        assert_eq!(Objset::decode(&objset.encode(OBJSET_SIZE)), Ok(objset));
    }
});
