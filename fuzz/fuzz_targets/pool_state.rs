//! What the pool keeps about itself: history, scans, removed devices, cache devices, boot
//! environments, embedded checksums.

#![no_main]

use cenote_ondisk::boot_environment::BootEnvironment;
use cenote_ondisk::device_removal::{self, BirthEntry, MappingHeader, Removing};
use cenote_ondisk::embedded_checksum::Trailer;
use cenote_ondisk::history::{HistoryHeader, HistoryRecords};
use cenote_ondisk::l2arc::L2Header;
use cenote_ondisk::scan::{ErrorScrub, Scan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = BootEnvironment::decode(bytes);
    let _ = L2Header::decode(bytes);
    if let Ok(trailer) = Trailer::at_end(bytes) {
        let mut block = bytes.to_vec();
        trailer.install_verifier(&mut block, trailer.checksum);
        assert_eq!(block, bytes, "the checksum stands where the verifier goes");
        let (before, after) = trailer.around(bytes);
        assert_eq!(before.len() + 32 + after.len(), bytes.len());
    }
    if let Ok(header) = HistoryHeader::decode(bytes) {
        assert_eq!(header.encode()[..], bytes[..40]);
        for range in header.logical_ranges() {
            let length = range.end - range.start;
            let pieces = header.physical_pieces(range);
            let sum: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
            assert_eq!(sum, length, "{header:?}");
            assert!(pieces.iter().all(|piece| piece.end <= header.physical_end));
        }
    }
    assert!(HistoryRecords::new(bytes).count() <= bytes.len() / 8 + 1);
    let _ = (MappingHeader::decode(bytes), BirthEntry::decode(bytes));
    if let Ok(entries) = device_removal::mapping_entries(bytes) {
        let ends = entries.iter().map(|entry| entry.end());
        assert!(ends.is_sorted());
    }
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        .collect();
    let _ = (Scan::from_words(&words), ErrorScrub::from_words(&words));
    let _ = Removing::from_words(&words);
});
