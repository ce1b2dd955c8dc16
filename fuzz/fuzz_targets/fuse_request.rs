//! Requests of a kernel that is not one.

#![no_main]

use cenote_fuse::check_request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = check_request(bytes);
    // With the length that it states, an input gets further.
    let mut request = bytes.to_vec();
    let length = u32::try_from(bytes.len()).expect("inputs are short");
    if let Some(stated) = request.get_mut(..4) {
        stated.copy_from_slice(&length.to_le_bytes());
        let _ = check_request(&request);
    }
});
