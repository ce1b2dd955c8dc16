//! Intent logs of pools that lost power.

use super::reader::Pool;
use cenote_ondisk::intent_log::block::LogBlock;
use cenote_ondisk::intent_log::record::{RecordBody, Records};
use cenote_ondisk::intent_log::{IntentLogHeader, block};
use cenote_ondisk::{DslDataset, ObjectType};
use std::collections::BTreeMap;

/// Walks every dataset's chain and counts records by type.
fn records(kind: &str) -> Option<BTreeMap<u64, usize>> {
    let pool = Pool::open(kind)?;
    let mos = pool.mos();
    let mut counts = BTreeMap::new();
    for (object, dnode) in mos.dnodes() {
        if dnode.bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let dataset = DslDataset::decode(&dnode.bonus).expect("valid");
        if dataset.is_snapshot() || dataset.block_pointer.is_hole() {
            continue;
        }
        let objset = pool.objset(&dataset.block_pointer).objset;
        let header = IntentLogHeader::decode(&objset.intent_log_header).expect("valid");
        assert_eq!(header.encode(), objset.intent_log_header);
        let mut pointer = header.log;
        while !pointer.is_hole() {
            assert_eq!(block::verifier(&pointer)[2], object.0);
            let bytes = pool.read_stored(&pointer);
            let Ok(log) = LogBlock::decode(&bytes, pointer.checksum_kind().expect("valid")) else {
                break;
            };
            if !log.continues(&pointer) {
                break;
            }
            // Records of encrypted datasets are ciphertext.
            if !pointer.uses_crypt() {
                let mut rest = &bytes[log.records.clone()];
                for record in Records::new(rest) {
                    let record = record.expect("valid");
                    let encoded = record.encode();
                    assert_eq!(encoded[..], rest[..encoded.len()], "{record:?}");
                    rest = &rest[encoded.len()..];
                    if let RecordBody::Create(create) = &record.body {
                        assert!(!create.name.is_empty());
                    }
                    *counts.entry(record.record_type).or_default() += 1;
                }
            }
            pointer = log.next;
        }
    }
    Some(counts)
}

#[test]
fn chains_decode_to_the_end() {
    if let Some(counts) = records("dirty-zil") {
        eprintln!("{counts:?}");
        // create, mkdir, symlink, remove, link, rename, write, setattr, setsaxattr
        for record_type in [1, 2, 4, 5, 7, 8, 9, 11, 21] {
            assert!(
                counts.contains_key(&record_type),
                "{record_type}: {counts:?}"
            );
        }
    }
}

#[test]
fn chains_on_a_log_device() {
    if let Some(counts) = records("dirty-zil-slog") {
        eprintln!("{counts:?}");
        assert!(counts.values().sum::<usize>() > 0);
    }
}
