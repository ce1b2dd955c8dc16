//! Wrapped keys: the entries that a key object's ZAP may have, and keys as users give them.
//!
//! The first two bytes say which entries there are. Each has a number of bytes by its length byte
//! from the rest of the input; numbers are those of 8 bytes.

#![no_main]

use cenote_ondisk::brt;
use cenote_ondisk::crypto_key::CryptoKey;
use cenote_ondisk::zap::{Key, Value, hex_key, parse_hex_key};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 12] = [
    "DSL_CRYPTO_SUITE",
    "DSL_CRYPTO_GUID",
    "DSL_CRYPTO_VERSION",
    "DSL_CRYPTO_IV",
    "DSL_CRYPTO_MAC",
    "DSL_CRYPTO_MASTER_KEY_1",
    "DSL_CRYPTO_HMAC_KEY_1",
    "DSL_CRYPTO_ROOT_DDOBJ",
    "DSL_CRYPTO_REFCOUNT",
    "keyformat",
    "pbkdf2salt",
    "pbkdf2iters",
];

fuzz_target!(|bytes: &[u8]| {
    if let Some(key) = parse_hex_key(bytes) {
        assert!(key == 0 || bytes.starts_with(b"0") || hex_key(key).as_bytes() == bytes);
    }
    let Some((which, mut rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let mut entries: Vec<(Key, Value)> = Vec::new();
    for (index, name) in NAMES.iter().enumerate() {
        if u16::from_le_bytes(*which) >> index & 1 == 0 {
            continue;
        }
        let Some((length, behind)) = rest.split_first() else {
            break;
        };
        let (own, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        let value = Value {
            integer_size: if own.len() == 8 { 8 } else { 1 },
            bytes: own.to_vec(),
        };
        let _ = brt::count(&value);
        entries.push((Key::Name(name.as_bytes().to_vec()), value));
    }
    let borrowed = entries.iter().map(|(key, value)| (key, value));
    if let Ok(key) = CryptoKey::from_entries(borrowed) {
        assert!(key.suite.key_length() <= key.master_key.len());
        let _ = (key.suite.name(), key.key_format.name());
    }
});
