//! No bytes make a decoder panic, hang or allocate without measure.
//!
//! Real structures from the fuzzer's seeds, damaged at random, and noise go to every decoder. The
//! fuzz targets look deeper; this runs with every `cargo test`.

use cenote_base::{BlockId, Level};
use cenote_ondisk::bookmark_phys::BookmarkPhys;
use cenote_ondisk::boot_environment::BootEnvironment;
use cenote_ondisk::bpobj::{self, BpobjHeader};
use cenote_ondisk::bptree::{BptreeEntry, BptreeHeader};
use cenote_ondisk::brt::BrtVdev;
use cenote_ondisk::ddt::{self, DdtEntry, DdtLogHeader, DdtValue};
use cenote_ondisk::deadlist::DeadlistHeader;
use cenote_ondisk::device_removal::{self, MappingHeader, Removing};
use cenote_ondisk::embedded_checksum::Trailer;
use cenote_ondisk::history::{HistoryHeader, HistoryRecords};
use cenote_ondisk::intent_log::{IntentLogHeader, LogBlock, block, record};
use cenote_ondisk::l2arc::L2Header;
use cenote_ondisk::objset::OBJSET_SIZE;
use cenote_ondisk::redaction_list::{RedactionListHeader, RedactionRecord};
use cenote_ondisk::scan::Scan;
use cenote_ondisk::space_map::{SpaceMapHeader, SpaceMapItems};
use cenote_ondisk::system_attributes::{Attribute, AttributeDefinition, SaTables, ValueByteswap};
use cenote_ondisk::zap::{FatHeader, Key, Leaf, MicroZap, form};
use cenote_ondisk::znode_phys::ZnodePhys;
use cenote_ondisk::{
    BlockPointer, ChecksumKind, Dnode, DslDataset, DslDir, NvList, ObjectType, Objset, PoolConfig,
    Uberblock, VdevConfig, acl, byteswap, label,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect()
}

fn decode_lists(bytes: &[u8]) {
    for list in [NvList::decode(bytes), NvList::decode_xdr_body(bytes)]
        .into_iter()
        .flatten()
    {
        let _ = PoolConfig::decode(&list);
        if let Ok(vdev) = VdevConfig::decode(&list) {
            let _ = (vdev.guid_sum(), vdev.leaves().count());
        }
        assert_eq!(NvList::decode(&list.encode_xdr()), Ok(list));
    }
    let _ = label::decode_config(bytes);
    let _ = BootEnvironment::decode(bytes);
    let _ = HistoryRecords::new(bytes).count();
}

fn decode_blocks(bytes: &[u8]) {
    if let Ok(objset) = Objset::decode(bytes) {
        assert_eq!(Objset::decode(&objset.encode(OBJSET_SIZE)), Ok(objset));
    }
    let _ = Uberblock::decode(bytes).map(|uberblock| uberblock.raidz_reflow());
    let _ = Trailer::at_end(bytes);
    if let Ok(pointer) = BlockPointer::decode(bytes) {
        let _ = (
            pointer.check(),
            pointer.to_string(),
            pointer.allocated_size(),
        );
        let _ = bpobj::to_entry(&pointer, true);
    }
    if let Ok(Some(dnode)) = Dnode::decode(bytes) {
        for level in 0..dnode.levels {
            let _ = dnode.top_index(level, BlockId(u64::MAX));
        }
        let _ = ZnodePhys::inline_symlink(&dnode, u64::MAX);
        assert_eq!(Dnode::decode(&dnode.encode()), Ok(Some(dnode)));
    }
    for number in 0..=u8::MAX {
        let mut block = bytes.to_vec();
        let _ = byteswap::swap_block(&mut block, Level(0), ObjectType(number));
    }
}

fn decode_zaps(bytes: &[u8]) {
    let _ = form(bytes);
    if let Ok(zap) = MicroZap::decode(bytes) {
        let _ = (zap.lookup(b"name"), zap.sorted(|name| zap.hash(name)));
    }
    if let Ok(header) = FatHeader::decode(bytes) {
        for index in [0, header.pointers() / 2, header.pointers() - 1] {
            let place = header.pointer_place(index);
            let _ = header.pointer(bytes, place);
            let _ = header.next_leaf_index(index, 3);
        }
    }
    for word_keys in [false, true] {
        let Ok(leaf) = Leaf::decode(bytes, word_keys) else {
            continue;
        };
        let keys = [Key::Name(b"name".to_vec()), Key::Words(vec![1, 2])];
        for (hash, key) in [0, u64::MAX].into_iter().zip(&keys) {
            let _ = (leaf.lookup(hash, key), leaf.with_hash(hash));
        }
        for entry in leaf.sorted().into_iter().flatten() {
            let _ = (entry.to_entry(), leaf.covers(entry.hash));
        }
    }
}

fn decode_bonuses(bytes: &[u8]) {
    let _ = (DslDir::decode(bytes), DslDataset::decode(bytes));
    let _ = (DeadlistHeader::decode(bytes), BpobjHeader::decode(bytes));
    let _ = (BptreeHeader::decode(bytes), BptreeEntry::decode(bytes));
    let _ = (
        RedactionListHeader::decode(bytes),
        RedactionRecord::decode(bytes),
    );
    let _ = (BrtVdev::decode(bytes), DdtLogHeader::decode(bytes));
    let _ = (DdtEntry::decode(bytes), ddt::log_records(bytes));
    let _ =
        DdtValue::decode(bytes).and_then(|value| value.entry(true, |_, size| Some(vec![0; size])));
    let _ = (MappingHeader::decode(bytes), L2Header::decode(bytes));
    let _ = device_removal::mapping_entries(bytes);
    let _ = SpaceMapHeader::decode(bytes);
    let _ = SpaceMapItems::new(bytes, u64::MAX >> 1, 16).count();
    if let Ok(header) = HistoryHeader::decode(bytes) {
        let ranges = header.logical_ranges();
        let _ = ranges.map(|range| header.physical_pieces(range));
    }
    let words = words(bytes);
    let _ = (BookmarkPhys::from_words(&words), Scan::from_words(&words));
    let _ = (
        Removing::from_words(&words),
        ddt::histogram_from_words(&words),
    );
}

fn decode_files(bytes: &[u8]) {
    let _ = ZnodePhys::decode(bytes);
    let count = bytes.first().copied().unwrap_or(0).into();
    let _ = (acl::decode(bytes, count), acl::decode_old(bytes, count));
    let mut tables = SaTables::default();
    for (number, attribute) in (0..).zip(Attribute::ALL) {
        let definition = AttributeDefinition {
            number,
            length: if number % 3 == 0 { 0 } else { 8 },
            byteswap: [ValueByteswap::U64, ValueByteswap::Acl][usize::from(number) % 2],
        };
        let added = tables.add_attribute(attribute.name(), definition.encode());
        added.expect("a valid definition");
    }
    for layout in 0..8 {
        let attributes = (layout..layout + 15).collect();
        let added = tables.add_layout(&layout.to_string(), attributes);
        added.expect("a valid number");
    }
    for value in tables.values(bytes).into_iter().flatten() {
        let _ = (value.bytes().len(), value.word(), value.time());
    }
}

fn decode_logs(bytes: &[u8]) {
    let _ = IntentLogHeader::decode(bytes);
    for checksum in [ChecksumKind::Zilog, ChecksumKind::Zilog2] {
        if let Ok(log) = LogBlock::decode(bytes, checksum) {
            assert!(log.covered <= bytes.len());
            let _ = record::Records::new(&bytes[log.records]).count();
        }
        let _ = block::is_big_endian(bytes, checksum);
    }
    let _ = record::Records::new(bytes).count();
    let mut swapped = bytes.to_vec();
    let _ = record::swap(&mut swapped);
}

fn decode_everything(bytes: &[u8]) {
    let start = Instant::now();
    decode_lists(bytes);
    decode_blocks(bytes);
    decode_zaps(bytes);
    decode_bonuses(bytes);
    decode_files(bytes);
    decode_logs(bytes);
    assert!(start.elapsed() < Duration::from_secs(10), "a decoder hangs");
}

/// Real structures, as many as are there.
fn seeds() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let list = |directory: PathBuf| {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let files = list(directory).into_iter().flat_map(list);
    let seeds: Vec<_> = files.filter_map(|path| std::fs::read(path).ok()).collect();
    assert!(!seeds.is_empty(), "the repository carries seeds");
    seeds
}

#[test]
fn real_structures_cut_short() {
    for seed in seeds() {
        let step = (seed.len() / 16).max(1);
        for length in (0..=seed.len()).step_by(step) {
            decode_everything(&seed[..length]);
        }
    }
}

/// Where to damage a structure, and what to put there: in the first bytes, where lengths and
/// types stand, or anywhere, as a fraction of its length.
fn damages() -> impl Strategy<Value = Vec<(bool, u16, u8)>> {
    let byte = prop_oneof![Just(0), Just(0xff), Just(0x7f), any::<u8>()];
    prop::collection::vec((any::<bool>(), any::<u16>(), byte), 1..8)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn damaged_structures(damages in damages()) {
        for mut seed in seeds().into_iter().filter(|seed| !seed.is_empty()) {
            for (in_front, place, byte) in &damages {
                let length = if *in_front { seed.len().min(128) } else { seed.len() };
                let index = (usize::from(*place) * length) >> 16;
                seed[index] = *byte;
            }
            decode_everything(&seed);
        }
    }

    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        decode_everything(&bytes);
    }
}
