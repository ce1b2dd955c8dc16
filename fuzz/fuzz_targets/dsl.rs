//! Structures of the dataset layer: directories, datasets, deadlists, bookmarks.

#![no_main]

use cenote_ondisk::bookmark_phys::BookmarkPhys;
use cenote_ondisk::bpobj::{self, BpobjHeader};
use cenote_ondisk::bptree::{BptreeEntry, BptreeHeader};
use cenote_ondisk::deadlist::DeadlistHeader;
use cenote_ondisk::redaction_list::{RedactionListHeader, RedactionRecord};
use cenote_ondisk::{DslDataset, DslDir};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = DslDir::decode(bytes);
    let _ = DslDataset::decode(bytes);
    let _ = DeadlistHeader::decode(bytes);
    let _ = BpobjHeader::decode(bytes);
    let _ = BptreeHeader::decode(bytes);
    let _ = BptreeEntry::decode(bytes);
    let _ = RedactionListHeader::decode(bytes);
    let _ = RedactionRecord::decode(bytes);
    assert!(bpobj::entries(bytes).count() <= bytes.len() / 128);
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        .collect();
    let _ = BookmarkPhys::from_words(&words);
});
