//! Blocks of the intent log and the records in them.

#![no_main]

use cenote_ondisk::ChecksumKind;
use cenote_ondisk::intent_log::block::{self, LogBlock};
use cenote_ondisk::intent_log::record::{self, Record, Records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for checksum in [ChecksumKind::Zilog, ChecksumKind::Zilog2] {
        let _ = block::is_big_endian(bytes, checksum);
        let _ = LogBlock::decode(bytes, checksum);
        let mut swapped = bytes.to_vec();
        let _ = block::swap(&mut swapped, checksum);
    }
    let mut seen = 0;
    for item in Records::new(bytes) {
        seen += 1;
        assert!(seen <= bytes.len(), "a record takes room");
        let _ = item;
    }
    let _ = Record::decode(bytes);
    let mut swapped = bytes.to_vec();
    let _ = record::swap(&mut swapped);
});
