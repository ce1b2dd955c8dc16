//! Records of send streams in both byte orders, the lists behind BEGIN, and resume tokens.

#![no_main]

use cenote_dsl::resume_token;
use cenote_ondisk::stream::package::Package;
use cenote_ondisk::stream::{
    BEGIN_PAYLOAD_MAX, Begin, BeginPayload, ByteOrder, RECORD_SIZE, Record, ResumeToken,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(header) = bytes.first_chunk::<RECORD_SIZE>() {
        let _ = Begin::byte_order(header);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let Ok((record, _)) = Record::decode(header, order) else {
                continue;
            };
            let length = record.payload_length().unwrap_or(0);
            assert!(length <= BEGIN_PAYLOAD_MAX as usize);
            let again = record.encode(order);
            assert_eq!(Record::decode(&again, order), Ok((record, [0; 4])));
        }
    }
    if let Ok(list) = Begin::list(bytes) {
        if let Ok(package) = Package::from_list(&list) {
            assert_eq!(Package::from_list(&package.to_list()), Ok(package));
        }
        if let Ok(payload) = BeginPayload::from_list(&list) {
            assert_eq!(BeginPayload::from_list(&payload.to_list()), Ok(payload));
        }
        let _ = ResumeToken::from_list(&list);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = resume_token::from_text(text);
    }
});
