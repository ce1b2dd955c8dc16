//! Name-value lists in both encodings.

#![no_main]

use cenote_ondisk::NvList;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(list) = NvList::decode(bytes) {
        for (name, _) in list.iter() {
            assert!(list.contains(name));
        }
        assert_eq!(NvList::decode(&list.encode_xdr()), Ok(list));
    }
    let _ = NvList::decode_xdr_body(bytes);
});
