//! The configuration in a label, and the pool that it describes.

#![no_main]

use cenote_ondisk::{PoolConfig, label};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(list) = label::decode_config(bytes) {
        if let Ok(config) = PoolConfig::decode(&list)
            && let Some(tree) = config.vdev_tree
        {
            assert!(tree.leaves().count() <= tree.walk().count());
            tree.guid_sum();
        }
        // What was read can be written, and read again.
        if let Some(piece) = label::encode_config(&list) {
            assert_eq!(label::decode_config(&piece).as_ref(), Ok(&list));
        }
    }
});
