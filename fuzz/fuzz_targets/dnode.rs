//! Dnodes of any number of slots.

#![no_main]

use cenote_base::BlockId;
use cenote_ondisk::Dnode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(dnode)) = Dnode::decode(bytes) {
        assert!(dnode.slots() * 512 <= bytes.len());
        let _ = (dnode.used_bytes(), dnode.indirect_block_size());
        for level in 0..dnode.levels {
            let _ = dnode.top_index(level, dnode.block_id_max);
            let _ = dnode.top_index(level, BlockId(u64::MAX));
        }
        assert_eq!(Dnode::decode(&dnode.encode()), Ok(Some(dnode)));
    }
});
