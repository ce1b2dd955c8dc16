//! Block pointers: every accessor, whatever the bits.

#![no_main]

use cenote_ondisk::BlockPointer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(pointer) = BlockPointer::decode(bytes) else {
        return;
    };
    assert_eq!(pointer.encode()[..], bytes[..128]);
    let _ = pointer.check();
    let _ = pointer.to_string();
    let _ = (
        pointer.dvas().count(),
        pointer.allocated_size(),
        pointer.fill(),
    );
    let _ = (
        pointer.accounting_birth(),
        pointer.physical_birth(),
        pointer.protection(),
    );
    if let Some(payload) = pointer.embedded_payload() {
        assert!(payload.len() <= 112);
    }
});
