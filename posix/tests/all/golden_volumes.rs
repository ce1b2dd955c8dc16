//! Golden volumes, with and without an intent log to replay.

use crate::common;
use cenote_base::RealEnv;
use cenote_posix::FileSystem;
use cenote_tests::mounted::hex;
use cenote_volume::{Volume, VolumeError};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The sha256 of a whole volume, holes as zeros.
fn hash(volume: &Volume) -> String {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < volume.size() {
        let length = (volume.size() - at).min(buffer.len() as u64) as usize;
        volume.read(at, &mut buffer[..length]).expect("readable");
        hasher.update(&buffer[..length]);
        at += length as u64;
    }
    hex(&hasher.finalize())
}

#[test]
fn volumes_have_the_contents_that_openzfs_saw() {
    for kind in ["zvol", "encryption"] {
        let Some(pool) = common::open(kind) else {
            return;
        };
        pool.load_keys();
        let mut compared = 0;
        for (name, dataset) in &pool.golden.manifest.datasets {
            let Some((size, sha256)) = &dataset.volume else {
                continue;
            };
            let volume = Volume::open(pool.object_set(name)).expect("opens");
            assert_eq!(volume.size(), *size, "{name}");
            assert_eq!(hash(&volume), *sha256, "{name}");
            assert!(volume.block_size().is_power_of_two());
            compared += 1;
        }
        assert!(compared > 0);
    }
}

#[test]
fn holes_are_found_and_read_as_zeros() {
    let Some(pool) = common::open("zvol") else {
        return;
    };
    let volume = Volume::open(pool.object_set("gold_zvol/vol16k")).expect("opens");
    let (mut at, mut stored) = (0, 0);
    while let Some(data) = volume.next_data(at).expect("readable") {
        let hole = volume.next_hole(data).expect("readable");
        assert!(data >= at && hole > data && hole <= volume.size());
        stored += hole - data;
        at = hole;
    }
    assert!(
        stored > 0 && stored < volume.size() / 4,
        "{stored} bytes of a thin volume"
    );
    let beyond = volume
        .read(volume.size() - 512, &mut [0; 1024])
        .expect_err("beyond the end");
    assert!(matches!(beyond, VolumeError::BeyondEnd { .. }));
}

#[test]
fn an_intent_log_is_replayed() {
    for (kind, name) in [
        ("dirty-zil", "gold_dirtyzil/vol"),
        ("dirty-zil-slog", "gold_dirtyzilslog/vol"),
    ] {
        let Some(pool) = common::open(kind) else {
            return;
        };
        let wanted = pool.golden.manifest.datasets[name]
            .volume
            .clone()
            .expect("described");
        let before = Volume::open(pool.object_set(name)).expect("opens");
        assert_ne!(hash(&before), wanted.1, "the log is needed");
        let synced = pool.uberblock.txg;
        let env = Arc::new(RealEnv::new());
        let (volume, outcome) =
            Volume::open_replayed(pool.object_set(name), synced, env).expect("opens");
        assert!(outcome.stopped.is_none(), "{outcome:?}");
        assert!(outcome.applied > 0);
        assert_eq!((volume.size(), hash(&volume)), wanted);
    }
}

#[test]
fn a_file_system_is_no_volume_and_the_other_way_round() {
    let Some(pool) = common::open("zvol") else {
        return;
    };
    let refused = Volume::open(pool.object_set("gold_zvol")).expect_err("a file system");
    assert!(matches!(refused, VolumeError::NotVolume { .. }));
    assert!(FileSystem::open(pool.object_set("gold_zvol/vol8k")).is_err());
}
