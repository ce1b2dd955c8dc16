//! Dedup and clone tables: entries, logs, histograms, counters.

#![no_main]

use cenote_ondisk::brt::{self, BrtVdev};
use cenote_ondisk::ddt::{self, DdtEntry, DdtKey, DdtLogHeader, DdtValue};
use cenote_ondisk::zap::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = DdtLogHeader::decode(bytes);
    if let Ok(records) = ddt::log_records(bytes) {
        assert!(records.len() <= bytes.len() / 120);
    }
    if let Ok(entry) = DdtEntry::decode(bytes) {
        let _ = (entry.references(), entry.blocks().count());
    }
    if let Ok(value) = DdtValue::decode(bytes) {
        for flat in [false, true] {
            let _ = value.entry(flat, |stored, size| stored.get(..size).map(<[u8]>::to_vec));
        }
    }
    if let Ok(vdev) = BrtVdev::decode(bytes) {
        assert_eq!(vdev.encode()[24..], bytes[24..56]);
        assert_eq!(vdev.counters(bytes).count(), bytes.len() / 2);
    }
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        .collect();
    let _ = ddt::histogram_from_words(&words);
    if let Ok(key) = DdtKey::from_words(&words) {
        assert_eq!(key.to_words()[..], words);
        let _ = (key.logical_size(), key.physical_size(), key.uses_crypt());
    }
    for integer_size in [1, 8] {
        let bytes = bytes.to_vec();
        let _ = brt::count(&Value {
            integer_size,
            bytes,
        });
    }
});
