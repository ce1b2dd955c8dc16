//! Labels of every kind of pool.

use super::reader::{Device, devices};
use cenote_ondisk::boot_environment::BootEnvironment;
use cenote_ondisk::config_encode::Place;
use cenote_ondisk::embedded_checksum::Trailer;
use cenote_ondisk::l2arc::{HEADER_OFFSET, L2Header};
use cenote_ondisk::label::{self, UberblockRing};
use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::{NvList, NvValue, PoolConfig, VdevKind};
use cenote_tests::golden;

fn label_piece(device: &Device, index: usize, offset: u64, length: u64) -> Vec<u8> {
    let start = label::label_offset(device.size, index).expect("room for labels");
    device.read(start + offset, length as usize)
}

/// A list without the keys that nothing depends on.
fn known_keys(list: &NvList) -> NvList {
    let mut known = NvList::new();
    for (name, value) in list.iter() {
        if name == b"expansion_time" {
            continue;
        }
        let value = match value {
            NvValue::List(list) => NvValue::List(known_keys(list)),
            NvValue::ListArray(lists) => NvValue::ListArray(lists.iter().map(known_keys).collect()),
            value => value.clone(),
        };
        known.set(name, value);
    }
    known
}

#[test]
fn all_labels_of_all_pools_decode() {
    let mut seen = 0;
    for kind in golden::kinds() {
        let Some((golden, devices)) = devices(&kind) else {
            continue;
        };
        for (number, device) in devices.iter().enumerate() {
            for index in 0..label::LABELS {
                check_label(&kind, &golden.manifest.pool, device, index);
                seen += 1;
            }
            assert_eq!(device.config(0), device.config(2), "{kind} {number}");
        }
    }
    eprintln!("{seen} labels");
}

fn check_label(kind: &str, pool: &str, device: &Device, index: usize) {
    let piece = label_piece(device, index, label::CONFIG_OFFSET, label::CONFIG_SIZE);
    let list = label::decode_config(&piece).expect("a valid configuration");
    // What we would write is what OpenZFS wrote, to the byte.
    let encoded = label::encode_config(&list).expect("it fits");
    let content = piece.len() - 40;
    assert!(encoded[..content] == piece[..content], "{kind}");
    Trailer::at_end(&piece).expect("sealed");

    let config = PoolConfig::decode(&list).expect("valid");
    let known = known_keys(&list);
    let encoded = config.encode(Place::Label);
    if config.is_pool_member() {
        assert_eq!(
            encoded.encode_xdr(),
            known.encode_xdr(),
            "{kind}: {encoded:#?} {known:#?}"
        );
    }
    if config.state == PoolState::CacheDevice {
        let header = L2Header::decode(&device.read(HEADER_OFFSET, 512)).expect("valid");
        assert_eq!(Some(header.vdev_guid), config.guid);
        return;
    }
    if config.state == PoolState::Spare {
        assert!(config.guid.is_some() && config.vdev_tree.is_none());
        return;
    }
    assert_eq!(config.name.as_deref(), Some(pool), "{kind}");
    assert!(config.is_pool_member());
    let tree = config.vdev_tree.expect("members have a tree");
    assert_eq!(Some(tree.guid), config.top_guid);
    let own = tree.leaves().find(|leaf| Some(leaf.guid) == config.guid);
    assert!(own.is_some_and(|leaf| leaf.is_leaf_device()), "{kind}");
    assert!(!matches!(tree.kind, VdevKind::Unknown(_)));

    let ring = UberblockRing::new(tree.ashift.expect("top-level vdevs have one"));
    let uberblock = device.uberblock(index, ring);
    assert!(uberblock.is_version_supported() && uberblock.little_endian);
    assert_eq!(uberblock.root.check(), Ok(()));
    let slot = ring.slot_offset(ring.slot_of_txg(uberblock.txg, false));
    let bytes = label_piece(
        device,
        index,
        label::UBERBLOCK_RING_OFFSET + slot,
        ring.slot_size(),
    );
    assert_eq!(
        bytes[..216],
        uberblock.encode(),
        "{kind}: encoding is inverse"
    );
    Trailer::at_end(&bytes).expect("sealed");

    let boot = label_piece(
        device,
        index,
        label::BOOT_ENVIRONMENT_OFFSET,
        label::BOOT_ENVIRONMENT_SIZE,
    );
    assert_eq!(
        BootEnvironment::decode(&boot),
        Ok(BootEnvironment::Raw(Vec::new()))
    );
}
